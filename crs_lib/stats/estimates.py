"""Means, differences and correlations with cluster-bootstrap intervals; the cluster is the scenario. A draw
is a multinomial weight for each cluster, so a statistic of weighted sums costs one matrix product for all.
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

Method = Literal["bca", "percentile"]
Statistic = Callable[[Floats], Floats]
_CELLS = 4_000_000  # weights held at once


class _Estimates(NamedTuple):
    """Estimate, interval and bootstrap standard error of several statistics; arrays of one length."""

    estimate: Floats
    low: Floats
    high: Floats
    error: Floats

    def bounds(self) -> dict[str, float]:
        """The interval of a statistic alone."""
        return {"low": float(self.low[0]), "high": float(self.high[0])}


def bootstrap_weights(clusters: int, resamples: int, seed: int, width: int = 1) -> Iterator[Floats]:
    """Blocks of (draws, clusters) weights, each row summing to ``clusters``; ``width`` shrinks the blocks."""
    rng = stream(seed, "stats", "bootstrap")
    step = max(1, _CELLS // max(clusters, width))
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        chosen = rng.integers(0, clusters, size=(size, clusters))
        chosen += np.arange(size)[:, None] * clusters
        yield np.bincount(chosen.ravel(), minlength=size * clusters).reshape(size, clusters).astype(float)


def bootstrap_estimates(
    statistic: Statistic, clusters: int, design: Design = USUAL, *, method: Method = "bca", width: int = 1
) -> _Estimates:
    """Interval of any statistic of cluster weights: ``statistic`` maps (draws, clusters) to (draws, k).
    Weights of 1 give the estimate, one 0 the jackknife; draws in which it is NaN are left out. No interval
    for fewer than 2 clusters. Source: Efron (1987), JASA 82; Davison and Hinkley (1997), section 3.8.
    """
    estimate = statistic(np.ones((1, clusters)))[0]
    if clusters < 2:
        unknown = np.full(len(estimate), np.nan)
        return _Estimates(estimate, unknown, unknown, unknown)
    blocks = bootstrap_weights(clusters, design.resamples, design.seed, width)
    draws = np.vstack([statistic(weights) for weights in blocks])
    tails = np.array([(1 - design.confidence) / 2, (1 + design.confidence) / 2])
    where = np.repeat(tails[:, None], len(estimate), axis=1)
    if method == "bca":
        step = max(1, _CELLS // max(clusters, width))
        left_out = np.split(np.arange(clusters), range(step, clusters, step))
        jackknife = [statistic(1.0 - (np.arange(clusters) == out[:, None])) for out in left_out]
        where = _bca_levels(draws, estimate, np.vstack(jackknife), tails)
    bounds = np.full((3, len(estimate)), np.nan)
    for j, column in enumerate(draws.T):
        usable = column[~np.isnan(column)]
        if len(usable) and not np.isnan(where[:, j]).any():
            bounds[:2, j] = np.quantile(usable, where[:, j])
        if len(usable) > 1:
            bounds[2, j] = usable.std(ddof=1)
    return _Estimates(estimate, *bounds)


def _bca_levels(draws: Floats, estimate: Floats, jackknife: Floats, tails: Floats) -> Floats:
    """The two quantile levels of each statistic after the bias and acceleration corrections."""
    tolerance = 1e-12 * np.maximum(np.abs(estimate), 1e-300)
    below = (draws < estimate - tolerance).sum(axis=0)
    same = (np.abs(draws - estimate) <= tolerance).sum(axis=0)
    usable = np.maximum((~np.isnan(draws)).sum(axis=0), 1)
    share = np.clip((below + same / 2) / usable, 0.5 / usable, 1 - 0.5 / usable)
    bias = scipy.special.ndtri(share)
    kept = np.where(np.isnan(jackknife).all(axis=0), 0.0, jackknife)
    gap = np.nanmean(kept, axis=0) - kept
    spread = np.nansum(gap**2, axis=0)
    cube = np.nansum(gap**3, axis=0)
    power = np.where(spread > 0, spread, 1.0) ** 1.5
    acceleration = np.where(spread > tolerance**2, cube / (6 * power), 0.0)
    shifted = bias + scipy.special.ndtri(tails)[:, None]
    return np.asarray(scipy.special.ndtr(bias + shifted / (1 - acceleration * shifted)))


class _Sums(NamedTuple):
    """Sum, count and missing count of the values of each scenario (rows) under each system (columns)."""

    systems: list[Any]
    total: Floats
    size: Floats
    missing: Floats


def _scenario_sums(frame: pd.DataFrame, design: Design) -> _Sums:
    system, scenario, value = design.system, design.scenario, design.value
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
    return _Sums(systems, *sums)


def _bootstrapped(
    sums: _Sums, sides: Sequence[NDArray[np.intp]], design: Design
) -> tuple[NDArray[np.bool_], pd.DataFrame]:
    """Which scenarios each mean (or difference of two ``sides``) rests on, and its estimates."""
    known = [sums.size[:, side] > 0 for side in sides]
    used = np.all(known, axis=0)
    if len(sides) > 1 and ((sums.size + sums.missing > 0).sum(axis=1) == 1).all():  # independent samples
        used = np.any(known, axis=0) & np.all([side.sum(axis=0) > 1 for side in known], axis=0)
    found = np.full((4, used.shape[1]), np.nan)
    patterns, which = np.unique(used, axis=1, return_inverse=True)
    for k, pattern in enumerate(patterns.T):
        clusters, columns = np.flatnonzero(pattern), np.flatnonzero(which.ravel() == k)
        if len(clusters):
            at = [np.ix_(clusters, side[columns]) for side in sides]
            statistic = partial(_mean_gap, [(sums.total[cells], sums.size[cells]) for cells in at])
            found[:, columns] = bootstrap_estimates(statistic, len(clusters), design)
    return used, pd.DataFrame(found.T, columns=["estimate", "low", "high", "error"])


def _mean_gap(sides: list[tuple[Floats, Floats]], weights: Floats) -> Floats:
    """The means of the first of ``sides`` (totals and counts by scenario), less those of the second."""
    first, *second = [(weights @ total) / (weights @ count) for total, count in sides]
    return np.asarray(first - second[0] if second else first)


def cluster_bootstrap(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Mean of every system with its cluster-bootstrap interval and standard error, one row each. The mean is
    over rows (``n``), the draws over scenarios (``clusters``); one scenario has no interval. Raises
    InputError for an empty frame. Source: as :func:`bootstrap_estimates`.
    """
    sums = _scenario_sums(frame, design)
    used, found = _bootstrapped(sums, [np.arange(len(sums.systems))], design)
    found = found.rename(columns={"estimate": "mean"})
    found.insert(0, "system", sums.systems)
    counts = {"n": sums.size.sum(axis=0), "n_missing": sums.missing.sum(axis=0), "clusters": used.sum(axis=0)}
    return found.assign(**{name: count.astype(int) for name, count in counts.items()})


def cluster_bootstrap_differences(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Difference of means ``a - b`` over the ``n`` scenarios both have, with its interval, one row per pair.
    No interval for one shared scenario, no diff for none; where no systems share any, a pair is two
    independent samples. Raises InputError for an empty frame or an unknown system.
    """
    sums = _scenario_sums(frame, design)
    chosen = check_pairs(sums.systems, design.pairs)
    sides = [np.array([pair[side] for pair in chosen], dtype=np.intp) for side in (0, 1)]
    used, found = _bootstrapped(sums, sides, design)
    found = found.rename(columns={"estimate": "diff"})
    for place, (name, side) in enumerate(zip("ab", sides, strict=True)):
        found.insert(place, name, [sums.systems[k] for k in side])
    return found.assign(n=used.sum(axis=0), n_missing=(~used).sum(axis=0))


FEW, ENOUGH = 2, 20  # fewer differing scenarios leave no interval, unless there are so many scenarios in all
ALIKE, REACH = 0.02, 0.5  # values so near to the median differ not; reach of the made-up scenarios
TOO_FEW = "too few differing scenarios"


class CostInterval(NamedTuple):
    """A mean over scenarios, its interval, the number of scenarios; ``reason`` where there is no interval."""

    mean: float
    low: float
    high: float
    n: int
    reason: str = ""


def cost_sample(values: Any) -> Floats:
    """The known values, with two made-up ones (REACH above and below the median) where more than two thirds
    are alike: large values are rare then, and identical ones must not give a spread of 0. Empty below ENOUGH
    scenarios of which fewer than FEW differ. Source: coverage study (docs/validity.md, section 1).
    """
    known: Floats = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    middle = np.median(known) if len(known) else 0.0
    differ = int((np.abs(known - middle) > ALIKE).sum())
    if differ < FEW and len(known) < ENOUGH:
        return known[:0]
    rare = differ < len(known) / 3
    return np.asarray(np.append(known, (middle - REACH, middle + REACH)) if rare else known)


def cost_interval(values: Any, confidence: float = 0.95, *, rare: bool = True) -> CostInterval:
    """The t interval of a mean over scenarios by the spread of :func:`cost_sample`, or, not ``rare`` (scores
    of any scale), of the values themselves; none where all agree. NaN is left out.
    """
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    wide = cost_sample(known) if rare else known
    mean = float(known.mean()) if len(known) else float("nan")
    if len(wide) < 2 or not (spread := wide.std(ddof=1)) > 0:
        return CostInterval(mean, float("nan"), float("nan"), len(known), TOO_FEW)
    half = float(scipy.stats.t.ppf((1 + confidence) / 2, len(wide) - 1) * spread / np.sqrt(len(wide)))
    return CostInterval(mean, mean - half, mean + half, len(known))


def ratio_interval(top: Any, bottom: Any, confidence: float = 0.95) -> CostInterval:
    """mean(top)/mean(bottom) over the scenarios that have both, with the interval of its linear part."""
    above, below = np.asarray(top, dtype=float), np.asarray(bottom, dtype=float)
    both = ~np.isnan(above) & ~np.isnan(below)
    if not both.any():
        return cost_interval([], confidence)
    ratio, scale = above[both].mean() / below[both].mean(), below[both].mean()
    found = cost_interval((above[both] - ratio * below[both]) / scale, confidence)
    return found._replace(mean=float(ratio), low=ratio + found.low, high=ratio + found.high)


def cluster_bootstrap_correlation(
    frame: pd.DataFrame, x: str, y: str, design: Design = USUAL, *, minus: str = "",
    kind: Literal["pearson", "spearman"] = "spearman", method: Method = "bca",
) -> pd.DataFrame:  # fmt: skip
    """Correlation in [-1, 1] of two columns with its cluster-bootstrap interval; one row. With ``minus``, a
    third column, the difference in [-2, 2] to that column's correlation with ``y`` in the same draws.
    Incomplete rows are counted; ranks are taken anew in every draw; NaN when a column does not vary. Raises
    InputError for fewer than 2 complete rows. Source: as :func:`cluster_bootstrap`.
    """
    columns = [x, y, *([minus] if minus else [])]
    check_columns(frame, *columns, design.scenario)
    values = np.stack([numbers(frame, column) for column in columns])
    known = ~np.isnan(values).any(axis=0)
    if known.sum() < 2:
        raise InputError(f"{int(known.sum())} rows have both {x!r} and {y!r}; at least 2 are needed")
    values = values[:, known]
    names, owner = np.unique(frame[design.scenario].astype(str).to_numpy()[known], return_inverse=True)

    def statistic(weights: Floats) -> Floats:
        rows = weights[:, owner]
        ranked = [weighted_ranks(column, rows) for column in values] if kind == "spearman" else values
        ends = [np.asarray(column) for column in ranked]
        found = _weighted_correlation(ends[0], ends[1], rows)
        return (found - _weighted_correlation(ends[2], ends[1], rows) if minus else found)[:, None]

    width = 2 * len(columns) * len(owner)
    found = bootstrap_estimates(statistic, len(names), design, method=method, width=width)
    row: dict[str, Any] = {"x": x, "y": y, "kind": kind, "correlation": float(found.estimate[0])}
    row |= found.bounds() | {"error": float(found.error[0]), "n": int(known.sum())}
    return pd.DataFrame([row | {"n_missing": int((~known).sum()), "clusters": len(names)}])


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
