"""Effect sizes with intervals: how much, not only whether."""

import math
from functools import partial

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from crs_lib.stats.bootstrap import bootstrap_estimates, weighted_ranks
from crs_lib.stats.design import USUAL, Design, Difference, Facts, Floats, rankable
from crs_lib.stats.paired import rm_anova


def partial_eta_squared(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Share of the variance within scenarios that systems explain, in [0, 1]; one row.

    The 90 % interval inverts the noncentral F. InputError as :func:`rm_anova`. Cohen (1973), Educ. Psych.
    Meas. 33; Steiger (2004), Psych. Methods 9.
    """
    fit = rm_anova(frame, design).iloc[0]
    whole = float(fit["ss_system"] + fit["ss_error"])
    estimate = float(fit["ss_system"]) / whole if whole > 0 else np.nan
    low, high = _noncentral_f_interval(fit["statistic"], fit["df1"], fit["df2"], 0.90)
    size = fit["df1"] + fit["df2"] + 1
    row = (
        "partial_eta_squared",
        estimate,
        low / (low + size),
        high / (high + size),
        fit["n"],
        fit["n_missing"],
    )
    return pd.DataFrame([row], columns=["effect", "estimate", "low", "high", "n", "n_missing"])


def correlation(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's correlation in [-1, 1]; NaN for fewer than three pairs or where one side does not vary."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's rank correlation in [-1, 1], ties by mid-ranks; NaN as :func:`correlation`."""
    return correlation(scipy.stats.rankdata(x), scipy.stats.rankdata(y))


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


def _noncentral_f_interval(ratio: float, df1: float, df2: float, confidence: float) -> tuple[float, float]:
    """Interval for the noncentrality (>= 0) of an observed F; NaN for one that is not finite.

    Source: Steiger and Fouladi (1997), in What If There Were No Significance Tests?
    """
    if not np.isfinite(ratio):
        return math.nan, math.nan
    below = partial(scipy.stats.ncf.cdf, ratio, df1, df2)

    def end(tail: float) -> float:
        """The noncentrality at which so small an F has the probability ``tail``."""
        if scipy.stats.f.cdf(ratio, df1, df2) <= tail:
            return 0.0
        step = max(1.0, ratio * df1)
        stop = step
        while below(stop) > tail:
            stop += step
        return float(scipy.optimize.brentq(lambda nc: below(nc) - tail, 0.0, stop, xtol=1e-10))

    return end((1 + confidence) / 2), end((1 - confidence) / 2)
