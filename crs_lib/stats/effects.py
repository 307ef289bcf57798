"""Effect sizes with intervals, and who is ahead: how much, not only whether."""

import math
from collections.abc import Collection, Sequence
from functools import partial
from itertools import combinations
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from crs_lib.stats.bootstrap import bootstrap_estimates, bootstrap_weights, weighted_ranks
from crs_lib.stats.bounded import mean_interval
from crs_lib.stats.design import USUAL, Design, Difference, Facts, Floats, rankable


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's rank correlation in [-1, 1], ties by mid-ranks; NaN for fewer than three pairs
    or where one side does not vary.
    """
    ranks = [scipy.stats.rankdata(side) for side in (x, y)]
    if len(ranks[0]) < 3 or min(map(np.ptp, ranks)) == 0:
        return math.nan
    return float(np.corrcoef(ranks)[0, 1])


def auc(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """The probability that a positive scores above a negative, ties half.

    Parameters
    ----------
    scores : array
        A score a case; missing ones are left out.
    positive : array of bool
        Which cases are positive.

    Returns
    -------
    float
        In [0, 1]; NaN without a case of either kind.

    References
    ----------
    Hanley & McNeil (1982), Radiology 143.
    """
    scored = ~np.isnan(scores)
    above, below = scores[scored & positive], scores[scored & ~positive]
    if not len(above) or not len(below):
        return math.nan
    wins = scipy.stats.mannwhitneyu(above, below, method="asymptotic").statistic
    return float(wins / len(above) / len(below))


def standardised(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Cohen's d_z, the mean paired difference in its standard deviations, with BCa interval; a row a pair.

    NaN where the differences do not vary. InputError for fewer than 2 shared scenarios. Source: Cohen (1988),
    section 2.3.5.
    """
    return design.pair_table(frame, partial(_standardised, design=design))


def _standardised(pair: Difference, design: Design) -> Facts:
    gaps = pair.values
    intervals = bootstrap_estimates(partial(_in_deviations, gaps), len(gaps), design)
    return {"effect": "d_z", **intervals.first()}


def _in_deviations(gaps: Floats, weights: Floats) -> Floats:
    """Mean by standard deviation in every draw."""
    total = weights.sum(axis=1)
    mean = weights @ gaps / total
    variance = (weights @ gaps**2 / total - mean**2) * total / (total - 1)
    spread = np.sqrt(np.where(variance > 1e-12, variance, np.nan))
    return np.asarray(mean / spread)[:, None]


def rank_biserial(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Matched rank-biserial correlation in [-1, 1]: share of rank sum won minus lost; a row per pair.

    Zero differences keep their ranks (Pratt) and count for neither side. BCa interval over scenarios. Raises
    InputError for fewer than 2 shared scenarios. Source: King and Minium (2003), Statistical Reasoning; Kerby
    (2014), Compr. Psych. 3.
    """
    return design.pair_table(frame, partial(_rank_biserial, design=design))


def _rank_biserial(pair: Difference, design: Design) -> Facts:
    gaps = rankable(pair.values)
    n = len(gaps)
    intervals = bootstrap_estimates(partial(_signed_share, gaps), n, design, width=3 * n)
    return {"effect": "rank_biserial", **intervals.first()}


def _signed_share(gaps: Floats, weights: Floats) -> Floats:
    ranks = weighted_ranks(np.abs(gaps), weights)
    total = weights.sum(axis=1)
    won = (weights * ranks) @ np.sign(gaps)
    return np.asarray(won / (total * (total + 1) / 2))[:, None]


class _MeanDraws(NamedTuple):
    """The values of every system, and their means in every bootstrap draw."""

    names: list[Any]
    samples: Sequence[Floats]
    means: Floats
    n: int
    missing: int


def leaderboard(
    frame: pd.DataFrame,
    design: Design = USUAL,
    *,
    apart: Collection[frozenset[Any]],
    higher_is_better: bool = True,
) -> pd.DataFrame:
    """Systems by mean, best first, over the scenarios of all (unless systems met different users).

    Interval of the mean, ``rank_low`` and ``rank_high`` in the design's confidence of the bootstrap draws,
    ``p_best`` the share of draws in which a system leads. Two share a letter in ``tied`` unless ``apart``
    holds the pair. Raises InputError for fewer than 2 systems or complete scenarios. Source: Hall and Miller
    (2009), Ann. Stat. 37 (ranks); Piepho (2004), JCGS 13 (letters).
    """
    draws = _apart_draws(frame, design) if design.independent(frame) else _paired_draws(frame, design)
    sign = -1.0 if higher_is_better else 1.0
    rows = []
    for name, sample in zip(draws.names, draws.samples, strict=True):
        mean = mean_interval(sample, design.confidence, design.limits)
        rows.append((name, mean.value, mean.low, mean.high))
    board = pd.DataFrame(rows, columns=["system", "mean", "low", "high"])
    scores = rankable(sign * np.array([sample.mean() for sample in draws.samples]))
    board["rank"] = scipy.stats.rankdata(scores)
    ranks = scipy.stats.rankdata(np.round(sign * draws.means, 12), axis=1)
    tails = [design.alpha / 2, 1 - design.alpha / 2]
    low, high = np.quantile(ranks, tails, axis=0, method="inverted_cdf")
    board["rank_low"] = low
    board["rank_high"] = high
    first = ranks == ranks.min(axis=1, keepdims=True)
    shares = first / first.sum(axis=1, keepdims=True)
    board["p_best"] = shares.mean(axis=0)
    order = np.argsort(scores, kind="stable").tolist()
    differ = [frozenset(pair) in apart for pair in combinations(draws.names, 2)]
    board["tied"] = _letters(differ, order)
    board["n"] = draws.n
    board["n_missing"] = draws.missing
    return board.iloc[order].reset_index(drop=True)


def _apart_draws(frame: pd.DataFrame, design: Design) -> _MeanDraws:
    names, samples, missing = design.groups(frame)
    columns = []
    for number, sample in enumerate(samples):
        columns.append(_drawn_means(sample[:, None], design.resamples, design.seed + number))
    n = min(len(sample) for sample in samples)
    return _MeanDraws(names, samples, np.hstack(columns), n, sum(missing))


def _paired_draws(frame: pd.DataFrame, design: Design) -> _MeanDraws:
    paired = design.paired(frame)
    x = paired.complete()
    means = _drawn_means(x, design.resamples, design.seed)
    n_missing = len(paired.values) - len(x)
    return _MeanDraws(paired.systems, list(x.T), means, len(x), n_missing)


def _drawn_means(x: Floats, resamples: int, seed: int) -> Floats:
    """The mean of every column in every bootstrap draw of the rows."""
    blocks = [weights @ x / len(x) for weights in bootstrap_weights(len(x), resamples, seed)]
    return np.vstack(blocks)


def _letters(differ: Sequence[bool], order: Sequence[int]) -> list[str]:
    """Letters of every system: each letter is a largest set of systems no two of which differ.

    ``differ`` says it of every pair, in the order of :func:`itertools.combinations`.
    """
    sets = [frozenset(order)]
    for (i, j), apart in zip(combinations(range(len(order)), 2), differ, strict=True):
        if apart:
            sets = _split_sets(sets, i, j)
    sets.sort(key=lambda members: sorted(map(order.index, members)))
    letters = [""] * len(order)
    for number, members in enumerate(sets):
        letter = ascii_lowercase[number % 26]
        if number >= 26:
            letter += str(number // 26)
        for i in members:
            letters[i] += letter
    return letters


def _split_sets(sets: Sequence[frozenset[int]], i: int, j: int) -> list[frozenset[int]]:
    """Every set that holds both is split in two (insert); a set that lies in another goes (absorb)."""
    distinct = {members: None for members in sets if not {i, j} <= members}
    for members in sets:
        if {i, j} <= members:
            distinct[members - {i}] = None
            distinct[members - {j}] = None
    largest = []
    for members in distinct:
        if not any(members < other for other in distinct):
            largest.append(members)
    return largest
