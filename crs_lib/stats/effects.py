"""Effect sizes with intervals: how much, not only whether."""

import math
from functools import partial

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from crs_lib.stats.bootstrap import bootstrap_estimates, weighted_ranks
from crs_lib.stats.design import USUAL, Design, Difference, Facts, Floats, rankable


def _correlation(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's correlation in [-1, 1]; NaN for fewer than three pairs or where one side does not vary."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's rank correlation in [-1, 1], ties by mid-ranks; NaN for fewer than three pairs
    or where one side does not vary.
    """
    return _correlation(scipy.stats.rankdata(x), scipy.stats.rankdata(y))


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
    ranks = scipy.stats.rankdata(scores[scored])
    truth = positive[scored]
    n, m = int(truth.sum()), int((~truth).sum())
    if n == 0 or m == 0:
        return math.nan
    return float((ranks[truth].sum() - n * (n + 1) / 2) / (n * m))


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
    intervals = bootstrap_estimates(partial(_signed_share, gaps), len(gaps), design, width=3 * len(gaps))
    return {"effect": "rank_biserial", **intervals.first()}


def _signed_share(gaps: Floats, weights: Floats) -> Floats:
    ranks = weighted_ranks(np.abs(gaps), weights)
    total = weights.sum(axis=1)
    won = (weights * ranks) @ np.sign(gaps)
    return np.asarray(won / (total * (total + 1) / 2))[:, None]
