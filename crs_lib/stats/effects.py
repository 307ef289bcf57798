"""Effect sizes with intervals: how much, not only whether."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import scipy
from numpy.typing import ArrayLike, NDArray

from crs_lib.stats.design import USUAL, Design, Floats, rankable
from crs_lib.stats.estimates import bootstrap_estimates, weighted_ranks
from crs_lib.stats.paired import rm_anova


def partial_eta_squared(
    frame: pd.DataFrame, design: Design = USUAL, *, confidence: float = 0.90
) -> pd.DataFrame:
    """Share of the variance within scenarios that systems explain, in [0, 1]; one row.

    From the repeated-measures ANOVA; interval by inverting the noncentral F (90 % by default).
    Raises InputError as :func:`rm_anova`.
    Source: Cohen (1973), Educ. Psych. Measurement 33; interval: Steiger (2004), Psych. Methods 9.
    """
    fit = rm_anova(frame, design).iloc[0]
    whole = float(fit["ss_system"] + fit["ss_error"])
    estimate = float(fit["ss_system"]) / whole if whole > 0 else np.nan
    low, high = _noncentral_f_interval(fit["statistic"], fit["df1"], fit["df2"], confidence)
    size = fit["df1"] + fit["df2"] + 1
    row = {"effect": "partial_eta_squared", "estimate": estimate, "low": low / (low + size)}
    row |= {"high": high / (high + size), "n": int(fit["n"]), "n_missing": int(fit["n_missing"])}
    return pd.DataFrame([row])


def cohens_dz(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Mean of ``a - b`` in standard deviations of the difference: d_z, any real number; a row per pair.

    Exact interval under normality from the noncentral t. NaN when the differences do not vary.
    Raises InputError when a pair shares fewer than 2 scenarios.
    Source: Cohen (1988), Statistical Power Analysis; interval: Cumming and Finch (2001), EPM 61.
    """
    rows = []
    for d in design.differences(frame):
        root, flat = len(d.both) ** 0.5, d.spread <= 1e-14 * float(np.abs(d.values).max())
        estimate = np.nan if flat else float(d.values.mean()) / d.spread
        low, high = _noncentral_t_interval(estimate * root, len(d.both) - 1, design.confidence)
        rows.append(d.row(effect="d_z", estimate=estimate, low=low / root, high=high / root))
    return pd.DataFrame(rows)


def cliffs_delta(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """P(a > b) - P(a < b) of two random sessions, in [-1, 1]; one row for each pair.

    The variance allows for both systems having met the same scenarios, of which only shared ones count,
    unless they share none at all. The interval is asymmetric and stays inside [-1, 1].

    Raises InputError for fewer than 2 shared scenarios.
    Source: Cliff (1996), Ordinal Methods; interval: Feng and Cliff (2004), JMASM 3.
    """
    rows = []
    if design.independent(frame):
        for a, b, x, y in design.sides(frame):
            above = np.sign(x[:, None] - y)
            delta, df = float(above.mean()), len(x) + len(y) - 2
            spread = [float(above.mean(axis=axis).var(ddof=1)) / above.shape[1 - axis] for axis in (0, 1)]
            low, high = _delta_interval(delta, sum(spread), df, design.confidence)
            row = {"effect": "cliffs_delta", "a": a, "b": b, "estimate": delta, "low": low, "high": high}
            rows.append(row | {"n": min(len(x), len(y)), "n_missing": 0})
        return pd.DataFrame(rows)
    for d in design.differences(frame):
        above = np.sign(d.both[:, :1] - d.both[:, 1])  # 1 where a in the row beats b in the column
        over, under, n = above.mean(axis=1), -above.mean(axis=0), len(d.both)
        delta, variance = float(over.mean()), float((over - under).var(ddof=1)) / n
        low, high = _delta_interval(delta, variance, n - 1, design.confidence)
        rows.append(d.row(effect="cliffs_delta", estimate=delta, low=low, high=high))
    return pd.DataFrame(rows)


def _delta_interval(delta: float, variance: float, df: int, confidence: float) -> tuple[float, float]:
    if abs(delta) == 1.0:
        return delta, delta
    z = float(scipy.stats.t.ppf((1 + confidence) / 2, df))
    middle, spread = delta - delta**3, (1 - delta**2) ** 2 + z**2 * variance
    half, scale = z * variance**0.5 * spread**0.5, 1 - delta**2 + z**2 * variance
    return max(-1.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


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
    """The probability that a positive scores above a negative, ties half, in [0, 1]: area under the curve.

    Missing scores are left out; NaN without positives or without negatives. Source: Hanley & McNeil (1982).
    """
    known = ~np.isnan(scores)
    ranks, truth = scipy.stats.rankdata(scores[known]), positive[known]
    n, m = int(truth.sum()), int((~truth).sum())
    return float((ranks[truth].sum() - n * (n + 1) / 2) / (n * m)) if n and m else np.nan


def rank_biserial(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Matched rank-biserial correlation in [-1, 1]: share of rank sum won minus lost; a row per pair.

    The effect size of Wilcoxon's test with Pratt's zeros: zero differences keep their ranks and
    count for neither side, so 1 means that ``a`` wins every scenario and all-equal systems get 0.
    BCa interval over scenarios, ranks taken anew in every draw.

    Raises InputError when a pair shares fewer than 2 scenarios.
    Source: King and Minium (2003), Statistical Reasoning; Kerby (2014), Compr. Psych. 3.
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
    """Interval for the noncentrality (>= 0) of an observed F; NaN for an F that is not finite.

    Source: Steiger and Fouladi (1997), in What If There Were No Significance Tests?
    """
    if not np.isfinite(ratio):
        return np.nan, np.nan

    def end(tail: float) -> float:
        if scipy.stats.f.cdf(ratio, df1, df2) <= tail:
            return 0.0
        return _root(lambda nc: scipy.stats.ncf.cdf(ratio, df1, df2, nc) - tail, 0.0, max(1.0, ratio * df1))

    return end((1 + confidence) / 2), end((1 - confidence) / 2)


def _noncentral_t_interval(t: float, df: float, confidence: float) -> tuple[float, float]:
    """Interval for the noncentrality of an observed t; NaN for a t that is not finite.

    Source: Steiger and Fouladi (1997), in What If There Were No Significance Tests?
    """
    if not np.isfinite(t):
        return np.nan, np.nan
    if t < 0:  # the lower tail is where the distribution function is least stable: mirror it
        low, high = _noncentral_t_interval(-t, df, confidence)
        return -high, -low

    def below(nc: float) -> float:
        exact = float(scipy.stats.nct.cdf(t, df, nc))
        rough = float(scipy.stats.norm.cdf((t - nc) / (1 + nc**2 / (2 * df)) ** 0.5))
        return rough if np.isnan(exact) else exact  # scipy's far tails can be NaN

    def end(tail: float) -> float:
        start = -float(scipy.stats.norm.ppf(tail)) - 0.01  # below the answer at t = 0, hence at any t
        step = (1 + t**2 / (2 * df)) ** 0.5  # about the standard error of the noncentrality
        return _root(lambda nc: below(nc) - tail, start, max(0.0, t - start) + step)

    return end((1 + confidence) / 2), end((1 - confidence) / 2)


def _root(gap: Callable[[float], float], start: float, step: float) -> float:
    """Where a falling function crosses 0, from ``start`` on."""
    stop = start + step
    while gap(stop) > 0:
        stop += step
    return float(scipy.optimize.brentq(gap, start, stop, xtol=1e-10))
