"""Means, differences and correlations with cluster-bootstrap intervals; the cluster is the scenario."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.stats.frames import (
    Floats,
    Pairs,
    check_columns,
    check_pairs,
    levels,
    numbers,
    table,
)
from crs_lib.stats.resample import Estimates, Method, Statistic, bootstrap_estimates

_FIELDS = ("low", "high", "error")


class _Sums(NamedTuple):
    """Sum, count and missing count of the values of each scenario (rows) under each system (columns)."""

    systems: list[Any]
    total: Floats
    size: Floats
    missing: Floats


def _scenario_sums(frame: pd.DataFrame, system: str, scenario: str, value: str) -> _Sums:
    check_columns(frame, system, scenario, value)
    if frame.empty:
        raise InputError("the frame has no rows; give at least one session")
    systems, scenarios = levels(frame[system]), levels(frame[scenario])
    column, sums = numbers(frame, value), np.zeros((3, len(scenarios), len(systems)))
    row = pd.Index(scenarios).get_indexer(frame[scenario])
    place = pd.Index(systems).get_indexer(frame[system])
    known = ~np.isnan(column)
    np.add.at(sums[0], (row[known], place[known]), column[known])
    np.add.at(sums[1], (row[known], place[known]), 1.0)
    np.add.at(sums[2], (row[~known], place[~known]), 1.0)
    return _Sums(systems, sums[0], sums[1], sums[2])


def _by_support(
    used: NDArray[np.bool_],
    make: Callable[[NDArray[np.intp], NDArray[np.intp]], Statistic],
    options: dict[str, Any],
) -> Estimates:
    """Estimates of all columns; columns that rest on the same scenarios share the draws."""
    found = np.full((4, used.shape[1]), np.nan)
    patterns, which = np.unique(used, axis=1, return_inverse=True)
    for k in range(patterns.shape[1]):
        clusters, columns = np.flatnonzero(patterns[:, k]), np.flatnonzero(which.ravel() == k)
        if len(clusters):
            statistic = make(clusters, columns)
            found[:, columns] = bootstrap_estimates(statistic, len(clusters), **options)
    return Estimates(*found)


def cluster_bootstrap(
    frame: pd.DataFrame,
    *,
    system: str = "system",
    scenario: str = "scenario",
    value: str = "value",
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
    method: Method = "bca",
) -> pd.DataFrame:
    """Mean of every system with its cluster-bootstrap interval and standard error, one row each.

    A scenario may have many rows (turns, shift types): the mean is over rows, the draws over
    scenarios. ``n`` counts rows with a value, ``clusters`` the scenarios they come from. A system
    without values has mean NaN; one with a single scenario has no interval.

    Raises InputError for an empty frame.
    Source: Efron (1987), JASA 82; Davison and Hinkley (1997), Bootstrap Methods, section 3.8.
    """
    sums = _scenario_sums(frame, system, scenario, value)
    used = sums.size > 0

    def make(clusters: NDArray[np.intp], columns: NDArray[np.intp]) -> Statistic:
        total, count = (x[np.ix_(clusters, columns)] for x in (sums.total, sums.size))
        return lambda weights: np.asarray((weights @ total) / (weights @ count))

    options = {"resamples": resamples, "confidence": confidence, "seed": seed, "method": method}
    found = _by_support(used, make, options)
    return table(
        {
            "system": name,
            "mean": float(found.estimate[j]),
            **{field: float(getattr(found, field)[j]) for field in _FIELDS},
            "n": int(sums.size[:, j].sum()),
            "n_missing": int(sums.missing[:, j].sum()),
            "clusters": int(used[:, j].sum()),
        }
        for j, name in enumerate(sums.systems)
    )


def cluster_bootstrap_differences(
    frame: pd.DataFrame,
    *,
    pairs: Pairs | None = None,
    system: str = "system",
    scenario: str = "scenario",
    value: str = "value",
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
    method: Method = "bca",
) -> pd.DataFrame:
    """Difference of means ``a - b`` over the scenarios both have, with its interval, one row per pair.

    ``n`` counts those scenarios, ``n_missing`` the scenarios that only one of the two, or neither,
    has a value in. A pair that shares no scenario has diff NaN, one that shares a single one no
    interval. Raises InputError for an empty frame or an unknown system.
    Source: as :func:`cluster_bootstrap`.
    """
    sums = _scenario_sums(frame, system, scenario, value)
    chosen = check_pairs(sums.systems, pairs)
    left, right = (np.array([pair[side] for pair in chosen], dtype=int) for side in (0, 1))
    used = (sums.size[:, left] > 0) & (sums.size[:, right] > 0)

    def make(clusters: NDArray[np.intp], columns: NDArray[np.intp]) -> Statistic:
        a, b = np.ix_(clusters, left[columns]), np.ix_(clusters, right[columns])
        total_a, count_a, total_b, count_b = sums.total[a], sums.size[a], sums.total[b], sums.size[b]
        return lambda w: np.asarray((w @ total_a) / (w @ count_a) - (w @ total_b) / (w @ count_b))

    options = {"resamples": resamples, "confidence": confidence, "seed": seed, "method": method}
    found = _by_support(used, make, options)
    return table(
        {
            "a": sums.systems[i],
            "b": sums.systems[j],
            "diff": float(found.estimate[k]),
            **{field: float(getattr(found, field)[k]) for field in _FIELDS},
            "n": int(used[:, k].sum()),
            "n_missing": int((~used[:, k]).sum()),
        }
        for k, (i, j) in enumerate(chosen)
    )


def cluster_bootstrap_correlation(
    frame: pd.DataFrame,
    x: str,
    y: str,
    *,
    scenario: str = "scenario",
    minus: str = "",
    kind: Literal["pearson", "spearman"] = "spearman",
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
    method: Method = "bca",
) -> pd.DataFrame:
    """Correlation in [-1, 1] of two columns with its cluster-bootstrap interval; one row.

    With ``minus``, a third column, the difference in [-2, 2] to that column's correlation with ``y``, in the
    same draws. Rows that lack a value are left out and counted. Ranks are taken anew in every draw. NaN
    when a column does not vary. Raises InputError for fewer than 2 complete rows.
    Source: as :func:`cluster_bootstrap`.
    """
    columns = [x, y, *([minus] if minus else [])]
    check_columns(frame, *columns, scenario)
    if kind not in ("pearson", "spearman"):
        raise InputError(f"kind {kind!r} is not known; use 'pearson' or 'spearman'")
    values = np.stack([numbers(frame, column) for column in columns])
    known = ~np.isnan(values).any(axis=0)
    if known.sum() < 2:
        raise InputError(f"{int(known.sum())} rows have both {x!r} and {y!r}; at least 2 are needed")
    values = values[:, known]
    names, owner = np.unique(frame[scenario].astype(str).to_numpy()[known], return_inverse=True)

    def statistic(weights: Floats) -> Floats:
        rows = weights[:, owner]
        ranked = [weighted_ranks(column, rows) for column in values] if kind == "spearman" else values
        ends = [np.asarray(column) for column in ranked]
        found = _weighted_correlation(ends[0], ends[1], rows)
        return (found - _weighted_correlation(ends[2], ends[1], rows) if minus else found)[:, None]

    found = bootstrap_estimates(
        statistic,
        len(names),
        resamples=resamples,
        confidence=confidence,
        seed=seed,
        method=method,
        width=2 * len(columns) * len(owner),
    )
    row: dict[str, Any] = {"x": x, "y": y, "kind": kind, "correlation": float(found.estimate[0])}
    row |= {field: float(getattr(found, field)[0]) for field in _FIELDS}
    row |= {"n": int(known.sum()), "n_missing": int((~known).sum()), "clusters": len(names)}
    return table([row])


def weighted_ranks(values: Floats, weights: Floats) -> Floats:
    """Midranks of values that each occur ``weights`` times: (draws, n) for weights (draws, n)."""
    _, which = np.unique(values, return_inverse=True)
    order = np.argsort(which, kind="stable")
    starts = np.flatnonzero(np.diff(which[order], prepend=-1))
    ties = np.add.reduceat(weights[:, order], starts, axis=1)
    middle = np.cumsum(ties, axis=1) - ties + (ties + 1) / 2
    return np.asarray(middle[:, which])


def _weighted_correlation(x: Floats, y: Floats, weights: Floats) -> Floats:
    total = weights.sum(axis=1)
    dx = x - ((weights * x).sum(axis=1) / total)[:, None]
    dy = y - ((weights * y).sum(axis=1) / total)[:, None]
    sxx, syy, sxy = ((weights * product).sum(axis=1) for product in (dx * dx, dy * dy, dx * dy))
    scale = np.sqrt(sxx * syy)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(scale > 1e-12 * total, np.clip(sxy / scale, -1, 1), np.nan)
