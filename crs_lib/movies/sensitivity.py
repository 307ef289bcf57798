"""How far the ranking of systems depends on choices: weights, conventions, n-gram orders, catalogue size.

Rank stability is Kendall's tau to the ranking of the default. Source: docs/validity.md, section 6.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from crs_lib import rng
from crs_lib.dialogue import Dialogue
from crs_lib.errors import InputError
from crs_lib.metrics.composite import ItemWeights
from crs_lib.movies import conventions
from crs_lib.movies.catalog import Catalog
from crs_lib.movies.conventions import Convention
from crs_lib.movies.evaluate import score_all
from crs_lib.movies.grounding import Grounder
from crs_lib.movies.simulate import SimulateConfig, session
from crs_lib.movies.systems import World

PARTS = ("alpha", "beta", "gamma", "delta")


def tau(a: pd.Series, b: pd.Series) -> float:
    """Kendall's tau-b in [-1, 1] of two sets of system means; NaN for fewer than two shared systems."""
    both = pd.concat([a, b], axis=1, join="inner").dropna()
    if len(both) < 2:
        return float("nan")
    return float(scipy_stats.kendalltau(both.iloc[:, 0].round(12), both.iloc[:, 1].round(12)).statistic)


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
        rows.append({**share, "tau": tau(default, found), "best": str(found.idxmax())})
    return pd.DataFrame(rows).assign(is_default=[True] + [False] * (len(rows) - 1))


def _composite(means: pd.DataFrame, w: ItemWeights) -> pd.Series:
    score = w.alpha * means["corrected"] + w.beta * means["fresh"] - w.gamma * means["leaked"]
    return score - w.delta * means["copied"]


def choices() -> dict[str, Convention]:
    """The conventions that are compared with the default, by what they change."""
    base = conventions.get("default")
    found = {f"empty: {rule}": replace(base, empty=rule) for rule in ("skip", "zero", "one")}
    found |= {f"copied runs of {n}": replace(base, copy_orders=(n,)) for n in (2, 3, 4, 5)}
    found |= {f"window of {n} replies": replace(base, window=n) for n in (1, 3, 5)}
    limits = ((0.2, 0.5), (0.35, 0.65), (0.5, 0.8))
    return found | {
        f"recovered at {c:g}/{r:g}": replace(base, recovery_cc=c, recovery_cr=r) for c, r in limits
    }


def by_convention(dialogues: Sequence[Dialogue], grounder: Grounder, metrics: Sequence[str]) -> pd.DataFrame:
    """One row per choice and metric: tau of the systems' means to those of the default convention."""
    default = system_means(dialogues, grounder, conventions.get("default"), metrics)
    rows = []
    for name, rule in choices().items():
        found = system_means(dialogues, grounder, rule, metrics)
        rows += [{"choice": name, "metric": m, "tau": tau(default[m], found[m])} for m in metrics]
    return pd.DataFrame(rows)


def system_means(
    dialogues: Iterable[Dialogue], grounder: Grounder, rule: Convention, metrics: Sequence[str]
) -> pd.DataFrame:
    """Mean of each session metric by system under a convention."""
    sessions = pd.DataFrame([one.session for one in score_all(dialogues, grounder, rule)])
    return sessions.groupby("model", sort=False)[list(metrics)].agg(lambda s: s.astype(float).mean())


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
    shares: Sequence[float] = (0.25, 0.5, 1.0),
) -> pd.DataFrame:
    """One row per share and metric: tau of the systems' means to those on the whole catalogue.

    Users, systems and scores are made anew on every part, so this asks whether the ranking carries over.
    """
    found = {share: _simulated(part_of(catalog, share), config, metrics) for share in {*shares, 1.0}}
    rows: list[dict[str, Any]] = []
    for share in sorted(found):
        rows += [{"share": share, "metric": m, "tau": tau(found[1.0][m], found[share][m])} for m in metrics]
    return pd.DataFrame(rows)


def _simulated(catalog: Catalog, config: SimulateConfig, metrics: Sequence[str]) -> pd.DataFrame:
    world = World(catalog, Grounder(catalog))
    keys = config.keys()
    talks = [session(world, key.system, key.session, config) for key in keys]
    return system_means(talks, world.grounder, conventions.get("default"), metrics)


def stability(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """The lowest and mean tau by a column: how far the ranking can be trusted whatever is chosen."""
    found = table.groupby(by, sort=False)["tau"].agg(["min", "mean", "size"]).reset_index()
    found["mean"] = np.round(found["mean"], 12)
    return found.rename(columns={"min": "lowest_tau", "mean": "mean_tau", "size": "n"})
