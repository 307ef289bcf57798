"""How far the ranking of systems depends on choices: weights, conventions, n-gram orders. Rank stability is
Kendall's tau to the ranking of the default. Source: docs/validity.md, section 5.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib import evaluate, runs, simulate, stats
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, NoDataError
from crs_lib.evaluate.run import MOVIES, score_all
from crs_lib.metrics import conventions
from crs_lib.metrics.conventions import Convention, ItemWeights

Floats = NDArray[np.float64]

STAGE, FILE = "sensitivity", "sensitivity_choices.csv"
METRICS = ("item_tas", "item_recovery_rate", "topic_adaptation_score", "topic_recovery_rate")
_STEPS = 4  # equal shares of 1 that the weights are made of


def _simplex() -> list[ItemWeights]:
    """Every weighting of the four parts in quarters of 1 with some weight on S*."""
    grid = itertools.product(range(_STEPS + 1), repeat=len(ItemWeights._fields))
    return [ItemWeights(*(n / _STEPS for n in one)) for one in grid if sum(one) == _STEPS and one[0]]


def weights(turns: pd.DataFrame) -> pd.DataFrame:
    """One row per weighting of the item-grounded composite: its weights, tau, and the best system. ``turns``
    are scored turns of several systems, those without S* left out; without any, tau is NaN and "best" empty.
    """
    parts = turns.dropna(subset="satisfaction_corrected")
    fresh = (parts["novelty"] * parts["satisfaction"]).fillna(0.0)
    parts = parts.assign(fresh=fresh, leaked=parts["topic_interference_leakage"].fillna(0.0))
    names = ["satisfaction_corrected", "fresh", "leaked", "copying"]
    sessions = parts.groupby(["model", "session_id"], sort=False)[names].mean()
    means = sessions.groupby("model", sort=False).mean()

    def composite(w: ItemWeights) -> pd.Series:
        found = w.alpha * means["satisfaction_corrected"] + w.beta * means["fresh"]
        return found - w.gamma * means["leaked"] - w.delta * means["copying"]

    grid = [ItemWeights(), *_simplex()]
    found = [composite(one) for one in grid]
    best = [str(one.idxmax()) if len(one) else "" for one in found]
    table = pd.DataFrame(grid).assign(tau=[_tau(found[0], one) for one in found], best=best)
    table = table.assign(is_default=table.index == 0, n_systems=len(means))
    return table.assign(n_sessions=parts["session_id"].nunique())


def _tau(a: pd.Series, b: pd.Series) -> float:
    """Kendall's tau-b in [-1, 1] of two sets of system means; NaN for fewer than two shared systems."""
    both = pd.concat([a, b], axis=1, join="inner").dropna().round(12)
    return float(both.iloc[:, 0].corr(both.iloc[:, 1], method="kendall")) if len(both) > 1 else float("nan")


def _choices() -> Iterator[tuple[str, str, Convention]]:
    """Conventions compared with the default: choice, setting (the default too) and convention."""
    thresholds = ((0.2, 0.5), (0.35, 0.65), (0.5, 0.8))
    grid: dict[str, dict[str, dict[str, Any]]] = {
        "empty sets": {rule: {"empty": rule} for rule in ("skip", "zero", "one")},
        "copied runs, words": {f"{n}": {"copy_orders": (n,)} for n in (2, 3, 4, 5)},
        "recovery window, replies": {f"{n}": {"window": n} for n in (1, 3, 5)},
        "recovery thresholds": {f"{c:g}/{r:g}": {"recovery_cc": c, "recovery_cr": r} for c, r in thresholds},
    }
    for choice, settings in grid.items():
        for setting, knobs in settings.items():
            yield choice, setting, conventions.get("default").changed(**knobs)


def _by_convention(dialogues: Sequence[Dialogue], grounder: Grounder) -> pd.DataFrame:
    """One row per choice, setting and metric: tau to the means of the default (:func:`_agreement`)."""
    default = _session_scores(dialogues, grounder, conventions.get("default"))
    rows = []
    for choice, setting, rule in _choices():
        scores = _session_scores(dialogues, grounder, rule)
        facts = {"choice": choice, "setting": setting}
        rows += [facts | {"metric": name} | _agreement(default, scores, name) for name in METRICS]
    return pd.DataFrame(rows)


def _session_scores(dialogues: Iterable[Dialogue], grounder: Grounder, rule: Convention) -> pd.DataFrame:
    """Each session's metrics under a convention, a row a session: model, session_id and the metrics."""
    sessions = pd.DataFrame([one.session for one in score_all(dialogues, grounder, rule)])
    return sessions[["model", "session_id", *METRICS]].astype(dict.fromkeys(METRICS, float))


def _agreement(a: pd.DataFrame, b: pd.DataFrame, metric: str) -> dict[str, float | int]:
    """Kendall's tau-b in [-1, 1] of the systems' means in two sets of scores, with its 95 % interval
    (scenarios drawn for both at once); NaN for fewer than two common systems or equal means.
    """
    wide = [one.pivot_table(index="session_id", columns="model", values=metric, sort=False) for one in (a, b)]
    systems = [name for name in wide[0].columns if name in wide[1].columns]
    scenarios = sorted({*wide[0].index, *wide[1].index})
    values = [one.reindex(index=scenarios, columns=systems).to_numpy(dtype=float) for one in wide]

    def statistic(weights: Floats) -> Floats:
        first, second = (_signs(one, weights) for one in values)
        with np.errstate(invalid="ignore"):
            scale = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
            return np.asarray((first * second).sum(axis=1) / scale)[:, None]

    found, usual = dict.fromkeys(("tau", "low", "high"), float("nan")), stats.Design(resamples=1000)
    if len(systems) > 1:
        drawn = stats.bootstrap_estimates(statistic, len(scenarios), usual, method="percentile")
        found = {"tau": float(drawn.estimate[0]), **drawn.bounds()}
    return {**found, "n_systems": len(systems), "n_sessions": len(scenarios)}


def _signs(values: Floats, weights: Floats) -> Floats:
    """Which of each pair of systems has the higher weighted mean, as -1, 0 or 1; 0 without both means."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means = np.asarray((weights @ np.nan_to_num(values)) / (weights @ known))
    left, right = np.triu_indices(means.shape[1], k=1)
    return np.nan_to_num(np.sign((means[:, left] - means[:, right]).round(12)))


def stability(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """The lowest and mean tau by a column: how far the ranking can be trusted whatever is chosen."""
    found = table.groupby(by, sort=False)["tau"].agg(lowest_tau="min", mean_tau="mean", n="size")
    return found.round({"mean_tau": 12}).reset_index()


def make(run: str, sessions: int = 10) -> Path:
    """Score a run's first scenarios under every choice; returns the folder. Raises InputError for fewer than
    two scenarios, RunError for a run without finished dialogues.
    """
    if sessions < 2:
        raise InputError(f"sessions is {sessions}; give a whole number >= 2, intervals need two scenarios")
    made = MOVIES.finished(run, "simulate")
    talks = [talk for talk in simulate.iter_dialogues(run) if int(talk.session_id) < sessions]
    inputs = {"dialogues": made["outputs"]["dialogues.jsonl"]}
    asked = {"sessions": sessions, "metrics": METRICS}
    with runs.stage(simulate.STUDY, run, STAGE, asked, inputs, fixed=False) as stage:
        found = _by_convention(talks, Grounder(evaluate.catalog_of(run)))
        tables.write_csv(stage.path(FILE), found)
        stage.counts["choices"] = len(found)
    return stage.folder


def read(run: str) -> pd.DataFrame:
    """The choices of a run and their tau; NoDataError unless its present dialogues made it."""
    entry, made = (runs.entry(simulate.STUDY, run, stage) for stage in (STAGE, "simulate"))
    if entry.get("status") != "finished":
        raise NoDataError(f"run {run!r} has no finished sensitivity stage")
    if entry["inputs"]["dialogues"] != made["outputs"]["dialogues.jsonl"]:
        raise NoDataError(f"the sensitivity stage of run {run!r} read older dialogues than it has now")
    again = f"python -m crs_lib validity precision --conventions --run {run}"
    return pd.read_csv(runs.as_written(simulate.STUDY, run, entry, FILE, again), dtype={"setting": str})
