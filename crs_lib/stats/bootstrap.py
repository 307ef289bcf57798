"""The cluster bootstrap: intervals of means, differences and correlations; the cluster is the scenario.

A draw is a multinomial weight for each cluster, so a statistic of weighted sums costs one matrix product for
all draws.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.core.rng import stream
from crs_lib.stats.design import USUAL, Design, Floats, check_columns, check_pairs, levels, numbers
from crs_lib.stats.estimate import FEWEST

Method = Literal["bca", "percentile"]
Statistic = Callable[[Floats], Floats]
CELLS = 4_000_000  # weights held at once
_ALIKE = 1e-12  # ends that differ by no more are the same


class Intervals(NamedTuple):
    """Estimate, interval and bootstrap standard error of several statistics; arrays of one length."""

    estimate: Floats
    low: Floats
    high: Floats
    error: Floats

    def bounds(self) -> dict[str, float]:
        """The interval of the first statistic."""
        return {"low": float(self.low[0]), "high": float(self.high[0])}

    def first(self, name: str = "estimate") -> dict[str, float]:
        """The first statistic with its interval, for a table's row."""
        return {name: float(self.estimate[0]), **self.bounds()}


def bootstrap_weights(clusters: int, resamples: int, seed: int, width: int = 1) -> Iterator[Floats]:
    """Blocks of (draws, clusters) weights, each row summing to ``clusters``; ``width`` shrinks the blocks."""
    rng = stream(seed, "stats", "bootstrap")
    step = max(1, CELLS // max(clusters, width))
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        chosen = rng.integers(0, clusters, size=(size, clusters))
        chosen += np.arange(size)[:, None] * clusters
        counts = np.bincount(chosen.ravel(), minlength=size * clusters)
        yield counts.reshape(size, clusters).astype(float)


def bootstrap_estimates(
    statistic: Statistic, clusters: int, design: Design = USUAL, *, method: Method = "bca", width: int = 1
) -> Intervals:
    """Interval of any statistic of cluster weights.

    Parameters
    ----------
    statistic : callable
        Maps weights (draws, clusters) to values (draws, k); a draw in which one is NaN is left out of it.
        Weights of 1 give the estimate, one 0 the jackknife.
    clusters : int
        How many there are; fewer than 8 leave no interval, and neither do draws that are all the same.
    design : Design
        Its confidence, resamples and seed.
    method : {"bca", "percentile"}
        Bias-corrected and accelerated, or plain.
    width : int
        Columns that the statistic holds at once for a draw; wide ones are drawn in smaller blocks.

    References
    ----------
    Efron (1987), JASA 82; Davison and Hinkley (1997), section 3.8.
    """
    estimate = statistic(np.ones((1, clusters)))[0]
    low, high, error = np.full((3, len(estimate)), np.nan)
    if clusters < FEWEST:
        return Intervals(estimate, low, high, error)
    blocks = bootstrap_weights(clusters, design.resamples, design.seed, width)
    draws = np.vstack([statistic(weights) for weights in blocks])
    tails = np.array([1 - design.upper, design.upper])
    quantiles = np.repeat(tails[:, None], len(estimate), axis=1)
    if method == "bca":
        jackknife = _jackknife(statistic, clusters, width)
        quantiles = _bca_quantiles(draws, estimate, jackknife, tails)
    for j, column in enumerate(draws.T):
        usable = column[~np.isnan(column)]
        if len(usable) and not np.isnan(quantiles[:, j]).any():
            low[j], high[j] = np.quantile(usable, quantiles[:, j])
        if len(usable) > 1:
            error[j] = usable.std(ddof=1)
    same = high - low <= _ALIKE
    low[same] = np.nan
    high[same] = np.nan
    return Intervals(estimate, low, high, error)


def _jackknife(statistic: Statistic, clusters: int, width: int) -> Floats:
    """The statistic without each of the clusters."""
    step = max(1, CELLS // max(clusters, width))
    order = np.arange(clusters)
    blocks = []
    for start in range(0, clusters, step):
        left_out = order[start : start + step]
        weights = 1.0 - (order == left_out[:, None])
        blocks.append(statistic(weights))
    return np.vstack(blocks)


def _bca_quantiles(draws: Floats, estimate: Floats, jackknife: Floats, tails: Floats) -> Floats:
    """The two quantiles of each statistic after the bias and acceleration corrections."""
    tolerance = 1e-12 * np.maximum(np.abs(estimate), 1e-300)
    below = (draws < estimate - tolerance).sum(axis=0)
    same = (np.abs(draws - estimate) <= tolerance).sum(axis=0)
    usable = np.maximum((~np.isnan(draws)).sum(axis=0), 1)
    least = 0.5 / usable
    share = np.clip((below + same / 2) / usable, least, 1 - least)
    bias = scipy.special.ndtri(share)
    acceleration = _acceleration(jackknife, tolerance)
    shifted = bias + scipy.special.ndtri(tails)[:, None]
    corrected = bias + shifted / (1 - acceleration * shifted)
    return np.asarray(scipy.special.ndtr(corrected))


def _acceleration(jackknife: Floats, tolerance: Floats) -> Floats:
    """The skewness of each statistic without one cluster, a sixth of it; 0 where it does not vary."""
    values = np.where(np.isnan(jackknife).all(axis=0), 0.0, jackknife)
    gap = np.nanmean(values, axis=0) - values
    spread = np.nansum(gap**2, axis=0)
    cube = np.nansum(gap**3, axis=0)
    scale = np.where(spread > 0, spread, 1.0) ** 1.5
    return np.where(spread > tolerance**2, cube / scale / 6, 0.0)


class _Sums(NamedTuple):
    """Sum, count and missing count of the values of each scenario (rows) under each system (columns)."""

    systems: list[Any]
    total: Floats
    size: Floats
    missing: Floats

    @property
    def independent(self) -> bool:
        """Whether every scenario belongs to one system."""
        present = self.size + self.missing > 0
        return bool((present.sum(axis=1) == 1).all())


def _scenario_sums(frame: pd.DataFrame, design: Design) -> _Sums:
    check_columns(frame, design.system, design.scenario, design.value)
    if frame.empty:
        raise InputError("the frame has no rows; give at least one session")
    systems = levels(frame[design.system])
    scenarios = levels(frame[design.scenario])
    column = numbers(frame, design.value)
    missing = np.isnan(column)
    row = pd.Index(scenarios).get_indexer(frame[design.scenario])
    system = pd.Index(systems).get_indexer(frame[design.system])
    total, size, lacking = np.zeros((3, len(scenarios), len(systems)))
    np.add.at(total, (row, system), np.where(missing, 0.0, column))
    np.add.at(size, (row, system), ~missing)
    np.add.at(lacking, (row, system), missing)
    return _Sums(systems, total, size, lacking)


def _bootstrapped(
    sums: _Sums, sides: Sequence[NDArray[np.intp]], design: Design
) -> tuple[NDArray[np.bool_], pd.DataFrame]:
    """Which scenarios each mean (or difference of two ``sides``) rests on, and its estimates."""
    present = np.stack([sums.size[:, side] > 0 for side in sides])
    used = np.asarray(present.all(axis=0))
    if len(sides) > 1 and sums.independent:
        enough = (present.sum(axis=1) > 1).all(axis=0)
        used = present.any(axis=0) & enough
    table = np.full((4, used.shape[1]), np.nan)
    patterns, which = np.unique(used, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        clusters = np.flatnonzero(pattern)
        columns = np.flatnonzero(which.ravel() == number)
        if len(clusters):
            parts = []
            for side in sides:
                cell = np.ix_(clusters, side[columns])
                parts.append((sums.total[cell], sums.size[cell]))
            statistic = partial(_mean_gap, parts)
            table[:, columns] = bootstrap_estimates(statistic, len(clusters), design)
    return used, pd.DataFrame(table.T, columns=["estimate", "low", "high", "error"])


def _mean_gap(sides: Sequence[tuple[Floats, Floats]], weights: Floats) -> Floats:
    """The means of the first of ``sides`` (totals and counts by scenario), less those of the second."""
    means = [(weights @ total) / (weights @ count) for total, count in sides]
    if len(means) == 1:
        return np.asarray(means[0])
    return np.asarray(means[0] - means[1])


def cluster_bootstrap(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Mean of every system with its cluster-bootstrap interval and standard error, one row each.

    The mean is over rows, the draws over scenarios.

    Parameters
    ----------
    frame : DataFrame
        A row a value, with the columns of the design.
    design : Design
        Its columns, confidence, resamples and seed.

    Returns
    -------
    DataFrame
        ``system``, ``mean``, ``low``, ``high`` (NaN for one scenario), ``error``, ``n`` rows with a value,
        ``n_missing`` rows without, ``clusters``: scenarios with a value.

    Raises
    ------
    InputError
        For an empty frame.

    References
    ----------
    As :func:`bootstrap_estimates`.
    """
    sums = _scenario_sums(frame, design)
    used, table = _bootstrapped(sums, [np.arange(len(sums.systems))], design)
    table = table.rename(columns={"estimate": "mean"})
    table.insert(0, "system", sums.systems)
    table["n"] = sums.size.sum(axis=0).astype(int)
    table["n_missing"] = sums.missing.sum(axis=0).astype(int)
    table["clusters"] = used.sum(axis=0)
    return table


def cluster_bootstrap_differences(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Difference of means ``a - b`` over the scenarios both have, with its interval, one row per pair.

    Parameters
    ----------
    frame : DataFrame
        A row a value, with the columns of the design.
    design : Design
        Its columns, pairs, confidence, resamples and seed.

    Returns
    -------
    DataFrame
        ``a``, ``b``, ``diff``, ``low``, ``high``, ``error``, ``n`` shared scenarios, ``n_missing`` others. No
        interval for one shared scenario, no diff for none; where no systems share any, a pair is two
        independent samples.

    Raises
    ------
    InputError
        For an empty frame or an unknown system.
    """
    sums = _scenario_sums(frame, design)
    pairs = np.array(check_pairs(sums.systems, design.pairs), dtype=np.intp).reshape(-1, 2)
    used, table = _bootstrapped(sums, [pairs[:, 0], pairs[:, 1]], design)
    table = table.rename(columns={"estimate": "diff"})
    table.insert(0, "a", [sums.systems[i] for i in pairs[:, 0]])
    table.insert(1, "b", [sums.systems[j] for j in pairs[:, 1]])
    return table.assign(n=used.sum(axis=0), n_missing=(~used).sum(axis=0))


def cluster_bootstrap_correlation(
    frame: pd.DataFrame,
    x: str,
    y: str,
    design: Design = USUAL,
    *,
    minus: str = "",
    kind: Literal["pearson", "spearman"] = "spearman",
    method: Method = "bca",
) -> pd.DataFrame:
    """Correlation in [-1, 1] of two columns with its cluster-bootstrap interval; one row.

    Parameters
    ----------
    frame : DataFrame
        A row a pair of values; incomplete rows are left out and counted.
    x, y : str
        The columns; ranks are taken anew in every draw. NaN where one does not vary.
    design : Design
        Its scenario, confidence, resamples and seed.
    minus : str
        A third column: the row is then the difference in [-2, 2] to that column's correlation with ``y``.
    kind : {"spearman", "pearson"}
        Of ranks, or of values.
    method : {"bca", "percentile"}
        As :func:`bootstrap_estimates`.

    Raises
    ------
    InputError
        For fewer than 2 complete rows.
    """
    columns = [x, y]
    if minus:
        columns.append(minus)
    check_columns(frame, *columns, design.scenario)
    values = np.stack([numbers(frame, column) for column in columns])
    complete = ~np.isnan(values).any(axis=0)
    n = int(complete.sum())
    if n < 2:
        raise InputError(f"{n} rows have both {x!r} and {y!r}; at least 2 are needed")
    values = values[:, complete]
    scenarios = frame[design.scenario].astype(str).to_numpy()[complete]
    names, owner = np.unique(scenarios, return_inverse=True)

    def statistic(weights: Floats) -> Floats:
        rows = weights[:, owner]
        sides: list[Floats] = list(values)
        if kind == "spearman":
            sides = [weighted_ranks(column, rows) for column in values]
        correlation = _weighted_correlation(sides[0], sides[1], rows)
        if minus:
            correlation = correlation - _weighted_correlation(sides[2], sides[1], rows)
        return correlation[:, None]

    width = 2 * len(columns) * len(owner)
    intervals = bootstrap_estimates(statistic, len(names), design, method=method, width=width)
    row: dict[str, object] = {"x": x, "y": y, "kind": kind}
    row.update(intervals.first("correlation"))
    row.update(error=float(intervals.error[0]), n=n, n_missing=len(frame) - n, clusters=len(names))
    return pd.DataFrame([row])


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

    def centred(values: Floats) -> Floats:
        mean = (weights * values).sum(axis=1) / total
        return np.asarray(values - mean[:, None])

    dx, dy = centred(x), centred(y)
    sxx = (weights * dx**2).sum(axis=1)
    syy = (weights * dy**2).sum(axis=1)
    sxy = (weights * dx * dy).sum(axis=1)
    scale = np.sqrt(sxx * syy)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.clip(sxy / scale, -1, 1)
    return np.where(scale > 1e-12 * total, correlation, np.nan)
