"""How far the ranking of systems depends on choices: weights, conventions, n-gram orders, catalogue size.

Rank stability is Kendall's tau to the ranking of the default. Source: docs/validity.md, section 6.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray
from pydantic import AfterValidator

from crs_lib import evaluate, runs, simulate, stats
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths, rng, tables
from crs_lib.core.config import Config, Field, RunName
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.evaluate.run import score_all
from crs_lib.figures import NoDataError
from crs_lib.figures.movies_sensitivity import FEWEST_SCENARIOS
from crs_lib.metrics import base, conventions
from crs_lib.metrics.conventions import Convention, ItemWeights
from crs_lib.simulate import roles
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.conversation import session
from crs_lib.simulate.scenarios import CALM, SHIFT
from crs_lib.systems.base import World

PARTS = ("alpha", "beta", "gamma", "delta")


def tau(a: pd.Series, b: pd.Series) -> float:
    """Kendall's tau-b in [-1, 1] of two sets of system means; NaN for fewer than two shared systems."""
    both = pd.concat([a, b], axis=1, join="inner").dropna()
    if len(both) < 2:
        return float("nan")
    return float(scipy.stats.kendalltau(both.iloc[:, 0].round(12), both.iloc[:, 1].round(12)).statistic)


def simplex(steps: int = 4) -> list[ItemWeights]:
    """Every weighting of the four parts in ``steps`` equal shares of 1 with some weight on S*.

    Raises InputError for fewer than one step.
    """
    if steps < 1:
        raise InputError(f"steps is {steps}; give at least 1, 4 is usual")
    grid = itertools.product(range(steps + 1), repeat=len(PARTS))
    return [ItemWeights(*(n / steps for n in one)) for one in grid if sum(one) == steps and one[0]]


def weights(turns: pd.DataFrame, choices: Iterable[ItemWeights] | None = None) -> pd.DataFrame:
    """One row per weighting of the item-grounded composite: its weights, tau, and the best system.

    ``turns`` are scored turns of several systems; turns without S* are left out, as in the score itself.
    ``n_systems`` have such turns, in ``n_sessions`` scenarios; without any, tau is NaN and "best" empty.
    """
    parts = pd.DataFrame(
        {
            "model": turns["model"],
            "session_id": turns["session_id"],
            "corrected": turns["satisfaction_corrected"],
            "fresh": (turns["novelty"] * turns["satisfaction"]).fillna(0.0),
            "leaked": turns["topic_interference_leakage"].fillna(0.0),
            "copied": turns["copying"],
        }
    )
    parts = parts[parts["corrected"].notna()]
    session = parts.groupby(["model", "session_id"], sort=False).mean(numeric_only=True)
    means = session.groupby("model", sort=False).mean()
    default = _composite(means, ItemWeights())
    rows = []
    for choice in [ItemWeights(), *(simplex() if choices is None else choices)]:
        found = _composite(means, choice)
        share = {name: getattr(choice, name) for name in PARTS}
        rows.append({**share, "tau": tau(default, found), "best": str(found.idxmax()) if len(found) else ""})
    table = pd.DataFrame(rows).assign(is_default=[True] + [False] * (len(rows) - 1))
    return table.assign(n_systems=len(means), n_sessions=parts["session_id"].nunique())


def _composite(means: pd.DataFrame, w: ItemWeights) -> pd.Series:
    score = w.alpha * means["corrected"] + w.beta * means["fresh"] - w.gamma * means["leaked"]
    return score - w.delta * means["copied"]


class Choice(NamedTuple):
    """One setting of a convention beside its default: what is chosen, how it is set, and the convention."""

    choice: str
    setting: str
    rule: Convention


def choices() -> list[Choice]:
    """The conventions that are compared with the default, choice by choice; each has its default too."""
    base = conventions.get("default")
    limits = ((0.2, 0.5), (0.35, 0.65), (0.5, 0.8))
    return [
        *(Choice("empty sets", rule, replace(base, empty=rule)) for rule in ("skip", "zero", "one")),
        *(Choice("copied runs, words", f"{n}", replace(base, copy_orders=(n,))) for n in (2, 3, 4, 5)),
        *(Choice("recovery window, replies", f"{n}", replace(base, window=n)) for n in (1, 3, 5)),
        *(
            Choice("recovery thresholds", f"{c:g}/{r:g}", replace(base, recovery_cc=c, recovery_cr=r))
            for c, r in limits
        ),
    ]


def by_convention(dialogues: Sequence[Dialogue], grounder: Grounder, metrics: Sequence[str]) -> pd.DataFrame:
    """One row per choice, setting and metric: tau to the default convention's means, as :func:`agreement`."""
    default = session_scores(dialogues, grounder, conventions.get("default"), metrics)
    rows: list[dict[str, Any]] = []
    for choice, setting, rule in choices():
        found = session_scores(dialogues, grounder, rule, metrics)
        facts = {"choice": choice, "setting": setting}
        rows += [{**facts, "metric": m, **agreement(default, found, m)} for m in metrics]
    return pd.DataFrame(rows)


def session_scores(
    dialogues: Iterable[Dialogue], grounder: Grounder, rule: Convention, metrics: Sequence[str]
) -> pd.DataFrame:
    """Each session's metrics under a convention, a row a session: model, session_id and the metrics."""
    sessions = pd.DataFrame([one.session for one in score_all(dialogues, grounder, rule)])
    return sessions[["model", "session_id", *metrics]].astype(dict.fromkeys(metrics, float))


def agreement(
    a: pd.DataFrame, b: pd.DataFrame, metric: str, *, resamples: int = 1000, seed: int = 0
) -> dict[str, float | int]:
    """Kendall's tau-b in [-1, 1] of the systems' means in two sets of scores, with its 95 % interval.

    Scenarios are drawn for both sets at once, with all their systems. ``n_systems`` have a mean in both,
    over ``n_sessions`` scenarios. NaN for fewer than two such systems or where all means are equal.
    """
    wide = [one.pivot_table(index="session_id", columns="model", values=metric, sort=False) for one in (a, b)]
    systems = [name for name in wide[0].columns if name in wide[1].columns]
    scenarios = sorted({*wide[0].index, *wide[1].index})
    values = [one.reindex(index=scenarios, columns=systems).to_numpy(dtype=float) for one in wide]

    def statistic(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        first, second = (_signs(_weighted_means(one, weights)) for one in values)
        with np.errstate(invalid="ignore"):
            scale = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
            return np.asarray((first * second).sum(axis=1) / scale)[:, None]

    if len(systems) < 2:
        found = dict.fromkeys(("tau", "low", "high"), float("nan"))
    else:
        drawn = stats.bootstrap_estimates(
            statistic, len(scenarios), stats.Design(resamples=resamples, seed=seed), method="percentile"
        )
        found = {"tau": float(drawn.estimate[0]), "low": float(drawn.low[0]), "high": float(drawn.high[0])}
    return {**found, "n_systems": len(systems), "n_sessions": len(scenarios)}


def _weighted_means(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of the columns over the rows that have a value, for each row of weights; NaN without any."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray((weights @ np.nan_to_num(values)) / (weights @ known))


def _signs(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Which of each pair of columns is higher, as -1, 0 or 1; 0 for a pair without both means."""
    left, right = np.triu_indices(means.shape[1], k=1)
    return np.nan_to_num(np.sign((means[:, left] - means[:, right]).round(12)))


def part_of(catalog: Catalog, share: float, seed: int = 0) -> Catalog:
    """A catalogue of a random share of the films; smaller shares lie inside larger ones.

    Raises InputError for a share that is not above 0 and at most 1.
    """
    if not 0 < share <= 1:
        raise InputError(f"share is {share}; give a number above 0 and at most 1")
    order = rng.stream(seed, "movies", "sensitivity", "films").permutation(len(catalog))
    kept = sorted(order[: max(1, round(share * len(catalog)))].tolist())
    records = [(catalog.items[i].title, catalog.record(i)) for i in kept]
    return Catalog.from_records(records, f"{share:.0%} of {catalog.source}")


def by_catalogue(
    catalog: Catalog,
    config: SimulateConfig,
    metrics: Sequence[str],
    shares: Sequence[float] = (0.25, 0.5, 0.75, 1.0),
) -> pd.DataFrame:
    """One row per share and metric: tau to the systems' means on the whole catalogue, as :func:`agreement`.

    Users, systems and scores are made anew on every part, so this asks whether the ranking carries over.
    """
    found = {share: _simulated(part_of(catalog, share), config, metrics) for share in {*shares, 1.0}}
    rows: list[dict[str, Any]] = []
    for share in sorted(found):
        films = max(1, round(share * len(catalog)))
        facts = {"share": share, "films": films}
        rows += [{**facts, "metric": m, **agreement(found[1.0], found[share], m)} for m in metrics]
    return pd.DataFrame(rows)


def _simulated(catalog: Catalog, config: SimulateConfig, metrics: Sequence[str]) -> pd.DataFrame:
    world = World(catalog, Grounder(catalog))
    keys = config.keys()
    talks = [session(world, key.system, key.session, config) for key in keys]
    return session_scores(talks, world.grounder, conventions.get("default"), metrics)


def stability(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """The lowest and mean tau by a column: how far the ranking can be trusted whatever is chosen."""
    found = table.groupby(by, sort=False)["tau"].agg(["min", "mean", "size"]).reset_index()
    found["mean"] = np.round(found["mean"], 12)
    return found.rename(columns={"min": "lowest_tau", "mean": "mean_tau", "size": "n"})


STAGE = "sensitivity"
FILES = {"choices": "sensitivity_choices.csv", "catalogue": "sensitivity_catalogue.csv"}
METRICS = ("item_tas", "item_recovery_rate", "topic_adaptation_score", "topic_recovery_rate")


def _known_metric(name: str) -> str:
    return base.get(name).name


@dataclass(frozen=True)
class SensitivityConfig(Config):
    """The run, and how much of it is scored and simulated anew."""

    run: Annotated[RunName, Field(description="a run whose dialogues are finished")]
    sessions: Annotated[int, Field(ge=2, description="scenarios scored and simulated anew")] = 10
    metrics: Annotated[
        tuple[Annotated[str, AfterValidator(_known_metric)], ...],
        Field(description="session metrics that rank the systems"),
    ] = METRICS


def make(config: SensitivityConfig) -> Path:
    """Score a run's first scenarios under every choice, and on parts of its catalogue; returns the folder.

    Parts of the catalogue take at least 50 scenarios: with fewer, their table is empty. Systems and users
    with a language model are not simulated anew: the table holds the others, and is empty for fewer than
    two. Raises RunError for a run without finished dialogues.
    """
    made = runs.finished(simulate.STUDY, config.run, "simulate", "03_simulate")
    catalog = evaluate.catalog_of(config.run)
    talks = [talk for talk in simulate.iter_dialogues(config.run) if int(talk.session_id) < config.sessions]
    inputs = {"dialogues": made["outputs"]["dialogues.jsonl"]}
    asked = asdict(config)
    del asked["run"]
    with runs.stage(simulate.STUDY, config.run, STAGE, asked, inputs, fixed=False) as stage:
        found = {"choices": by_convention(talks, Grounder(catalog), config.metrics)}
        again = _ruled(made["parameters"], config) if config.sessions >= FEWEST_SCENARIOS else None
        found["catalogue"] = (
            by_catalogue(catalog, again, config.metrics)
            if again
            else pd.DataFrame(columns=["share", "films", *found["choices"].columns[2:]])
        )
        for name, table in found.items():
            tables.write_csv(stage.path(FILES[name]), table)
            stage.counts[name] = len(table)
    return paths.run_folder(simulate.STUDY, config.run)


def _ruled(parameters: dict[str, Any], config: SensitivityConfig) -> SimulateConfig | None:
    """The run's own settings with fewer scenarios and no models; None where that leaves no ranking."""
    systems = [spec for spec in parameters["systems"] if not roles.asks_model(spec)]
    if len(systems) < 2 or parameters.get("user_llm"):
        return None
    kept = (
        "n_turns", "seed", "shift_first", "shift_gap", "shift_types", "rates", "explicitness", "insist",
        "templates",
    )  # fmt: skip
    few = min(config.sessions, int(parameters["n_sessions"]))
    return SimulateConfig(
        run=config.run,
        systems=systems,
        n_sessions=few,
        arms=(SHIFT if parameters["arm"] == CALM else parameters["arm"],),  # calm: insist says it, too
        **{name: parameters[name] for name in kept},
    )


def read(run: str, name: str) -> pd.DataFrame:
    """The table "choices" or "catalogue" of a run; NoDataError unless its present dialogues made it."""
    stages = runs.read_manifest(simulate.STUDY, run).get("stages", {})
    entry = stages.get(STAGE, {})
    if entry.get("status") != "finished":
        raise NoDataError(f"run {run!r} has no finished sensitivity stage")
    if entry["inputs"]["dialogues"] != stages["simulate"]["outputs"]["dialogues.jsonl"]:
        raise NoDataError(f"the sensitivity stage of run {run!r} read older dialogues than it has now")
    again = f"python -m crs_lib sensitivity --run {run}"
    path = runs.as_written(simulate.STUDY, run, entry, FILES[name], again)
    return pd.read_csv(path, dtype={"setting": str})
