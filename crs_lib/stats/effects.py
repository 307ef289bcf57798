"""Effect sizes with intervals: how much, not only whether."""

import math
from functools import partial

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from crs_lib.stats.design import USUAL, Design, Floats, rankable
from crs_lib.stats.estimates import bootstrap_estimates, weighted_ranks
from crs_lib.stats.paired import rm_anova


def partial_eta_squared(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Share of the variance within scenarios that systems explain, in [0, 1]; one row. The 90 % interval
    inverts the noncentral F. InputError as :func:`rm_anova`. Cohen (1973), Educ. Psych. Meas. 33; Steiger
    (2004), Psych. Methods 9.
    """
    fit = rm_anova(frame, design).iloc[0]
    whole = float(fit["ss_system"] + fit["ss_error"])
    estimate = float(fit["ss_system"]) / whole if whole > 0 else np.nan
    low, high = _noncentral_f_interval(fit["statistic"], fit["df1"], fit["df2"], 0.90)
    size = fit["df1"] + fit["df2"] + 1
    row = {"effect": "partial_eta_squared", "estimate": estimate, "low": low / (low + size)}
    row |= {"high": high / (high + size), "n": int(fit["n"]), "n_missing": int(fit["n_missing"])}
    return pd.DataFrame([row])


def correlation(x: ArrayLike, y: ArrayLike) -> float:
    """Pearson's correlation in [-1, 1]; NaN for fewer than three pairs or where one side does not vary."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's rank correlation in [-1, 1], ties by mid-ranks; NaN as :func:`correlation`."""
    return correlation(scipy.stats.rankdata(x), scipy.stats.rankdata(y))


def partial_spearman(x: Floats, y: Floats, given: Floats) -> float:
    """Spearman's correlation in [-1, 1] of what is left after ranks of ``given`` (n, k) are regressed out."""
    if len(x) < given.shape[1] + 3:
        return math.nan
    base = np.column_stack([np.ones(len(x)), *(scipy.stats.rankdata(column) for column in given.T)])
    left = [ranks - base @ np.linalg.lstsq(base, ranks)[0] for ranks in map(scipy.stats.rankdata, (x, y))]
    return correlation(left[0], left[1])


def auc(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """The probability that a positive scores above a negative, ties half, in [0, 1]; NaN without either.
    Missing scores are left out. Source: Hanley & McNeil (1982).
    """
    known = ~np.isnan(scores)
    ranks, truth = scipy.stats.rankdata(scores[known]), positive[known]
    n, m = int(truth.sum()), int((~truth).sum())
    return float((ranks[truth].sum() - n * (n + 1) / 2) / (n * m)) if n and m else np.nan


def rank_biserial(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Matched rank-biserial correlation in [-1, 1]: share of rank sum won minus lost; a row per pair. Zero
    differences keep their ranks (Pratt) and count for neither side. BCa interval over scenarios. Raises
    InputError for fewer than 2 shared scenarios. Source: King and Minium (2003), Statistical Reasoning; Kerby
    (2014), Compr. Psych. 3.
    """
    rows = []
    for d in design.differences(frame):
        gaps = rankable(d.values)
        found = bootstrap_estimates(partial(_signed_share, gaps), len(gaps), design, width=3 * len(gaps))
        rows.append(d.row(effect="rank_biserial", estimate=float(found.estimate[0]), **found.bounds()))
    return pd.DataFrame(rows)


def _signed_share(gaps: Floats, weights: Floats) -> Floats:
    ranks = weighted_ranks(np.abs(gaps), weights)
    total = weights.sum(axis=1)
    won = (weights * ranks) @ np.sign(gaps)
    return np.asarray(won / (total * (total + 1) / 2))[:, None]


def _noncentral_f_interval(ratio: float, df1: float, df2: float, confidence: float) -> tuple[float, float]:
    """Interval for the noncentrality (>= 0) of an observed F; NaN for one that is not finite. Source: Steiger
    and Fouladi (1997), in What If There Were No Significance Tests?
    """
    if not np.isfinite(ratio):
        return np.nan, np.nan

    def end(tail: float) -> float:
        if scipy.stats.f.cdf(ratio, df1, df2) <= tail:
            return 0.0
        below, stop = partial(scipy.stats.ncf.cdf, ratio, df1, df2), max(1.0, ratio * df1)
        while below(stop) > tail:
            stop += max(1.0, ratio * df1)
        return float(scipy.optimize.brentq(lambda nc: below(nc) - tail, 0.0, stop, xtol=1e-10))

    return end((1 + confidence) / 2), end((1 - confidence) / 2)
