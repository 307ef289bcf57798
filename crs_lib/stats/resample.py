"""The bootstrap engine: whole clusters are drawn, so turns and systems of a scenario stay together.

A draw is a multinomial weight for each cluster; a statistic that is a function of weighted sums
then costs one matrix product for all draws.
"""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
import scipy

from crs_lib.core.errors import InputError
from crs_lib.core.rng import stream
from crs_lib.stats.frames import Floats, check_level

Method = Literal["bca", "percentile"]
Statistic = Callable[[Floats], Floats]
_CELLS = 4_000_000  # weights held at once


class Estimates(NamedTuple):
    """Estimate, interval and bootstrap standard error of several statistics; arrays of one length."""

    estimate: Floats
    low: Floats
    high: Floats
    error: Floats


def bootstrap_weights(clusters: int, resamples: int, seed: int, width: int = 1) -> Iterator[Floats]:
    """Blocks of (draws, clusters) weights, each row summing to ``clusters``.

    ``width`` is what the statistic holds for each draw, if more than the clusters: blocks shrink to
    bound the memory, the draws stay the same.
    """
    rng = stream(seed, "stats", "bootstrap")
    step = max(1, _CELLS // max(clusters, width))
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        chosen = rng.integers(0, clusters, size=(size, clusters))
        chosen += np.arange(size)[:, None] * clusters
        counts = np.bincount(chosen.ravel(), minlength=size * clusters)
        yield counts.reshape(size, clusters).astype(float)


def bootstrap_estimates(
    statistic: Statistic,
    clusters: int,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
    method: Method = "bca",
    width: int = 1,
) -> Estimates:
    """Interval of any statistic of cluster weights: ``statistic`` maps (draws, clusters) to (draws, k).

    With weight 1 for every cluster it gives the estimate, with one 0 the jackknife. Draws in which
    it is NaN are left out. The interval is NaN for fewer than 2 clusters. ``width`` as in
    :func:`bootstrap_weights`.
    Source: Efron (1987), JASA 82 (BCa); Davison and Hinkley (1997), section 3.8 (clusters).
    """
    if resamples < 1:
        raise InputError(f"resamples={resamples}: at least 1 is needed, 2000 is usual")
    if method not in ("bca", "percentile"):
        raise InputError(f"method {method!r} is not known; use 'bca' or 'percentile'")
    check_level("confidence", confidence)
    estimate = statistic(np.ones((1, clusters)))[0]
    if clusters < 2:
        unknown = np.full(len(estimate), np.nan)
        return Estimates(estimate, unknown, unknown, unknown)
    blocks = bootstrap_weights(clusters, resamples, seed, width)
    draws = np.vstack([statistic(weights) for weights in blocks])
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    where = np.repeat(tails[:, None], len(estimate), axis=1)
    if method == "bca":
        where = _bca_levels(draws, estimate, _jackknife(statistic, clusters, width), tails)
    bounds = np.full((2, len(estimate)), np.nan)
    for j in range(len(estimate)):
        usable = draws[~np.isnan(draws[:, j]), j]
        if len(usable) and not np.isnan(where[:, j]).any():
            bounds[:, j] = np.quantile(usable, where[:, j])
    error = np.array([_spread(column) for column in draws.T])
    return Estimates(estimate, bounds[0], bounds[1], error)


def _jackknife(statistic: Statistic, clusters: int, width: int) -> Floats:
    step = max(1, _CELLS // max(clusters, width))
    blocks = []
    for start in range(0, clusters, step):
        left_out = np.arange(start, min(start + step, clusters))
        weights = np.ones((len(left_out), clusters))
        weights[np.arange(len(left_out)), left_out] = 0.0
        blocks.append(statistic(weights))
    return np.vstack(blocks)


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


def _spread(column: Floats) -> float:
    usable = column[~np.isnan(column)]
    return float(usable.std(ddof=1)) if len(usable) > 1 else float("nan")
