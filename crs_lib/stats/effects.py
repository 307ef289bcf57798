"""Effect sizes with intervals: how much, not only whether."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from crs_lib.stats.design import USUAL, Design, Floats, check_level, rankable, table
from crs_lib.stats.estimates import bootstrap_estimates, weighted_ranks
from crs_lib.stats.groups import one_way_anova
from crs_lib.stats.paired import rm_anova


def omega_squared(frame: pd.DataFrame, design: Design = USUAL, *, confidence: float = 0.90) -> pd.DataFrame:
    """Share of the variance that systems explain, in [0, 1): omega squared, one row.

    Less biased than eta squared; a negative estimate is reported as 0. The interval is for the
    population share, by inverting the noncentral F; 90 % by default, so that it excludes 0 exactly
    when p < .05. NaN where F is. Raises InputError as :func:`one_way_anova`.
    Source: Hays (1963), Statistics for Psychologists; interval: Steiger (2004), Psych. Methods 9.
    """
    fit = one_way_anova(frame, design).iloc[0]
    mean_square = fit["ss_within"] / fit["df2"]
    top = fit["ss_between"] - fit["df1"] * mean_square
    bottom = fit["ss_between"] + fit["ss_within"] + mean_square
    estimate = max(0.0, float(top / bottom)) if bottom > 0 else float("nan")
    row = _share("omega_squared", estimate, fit, int(fit["n"]), confidence)
    return table([row | {"n": int(fit["n"]), "n_missing": int(fit["n_missing"])}])


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
    estimate = float(fit["ss_system"]) / whole if whole > 0 else float("nan")
    row = _share("partial_eta_squared", estimate, fit, fit["df1"] + fit["df2"] + 1, confidence)
    return table([row | {"n": int(fit["n"]), "n_missing": int(fit["n_missing"])}])


def _share(name: str, estimate: float, fit: Any, size: float, confidence: float) -> dict[str, str | float]:
    check_level("confidence", confidence)
    low, high = noncentral_f_interval(
        float(fit["statistic"]), float(fit["df1"]), float(fit["df2"]), confidence
    )
    row: dict[str, str | float] = {"effect": name, "estimate": estimate}
    return row | {"low": low / (low + size), "high": high / (high + size)}


def cohens_dz(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Mean of ``a - b`` in standard deviations of the difference: d_z, any real number; a row per pair.

    Exact interval under normality from the noncentral t. NaN when the differences do not vary.
    Raises InputError when a pair shares fewer than 2 scenarios.
    Source: Cohen (1988), Statistical Power Analysis; interval: Cumming and Finch (2001), EPM 61.
    """
    rows = []
    for d in design.differences(frame):
        root, spread = len(d.values) ** 0.5, float(d.values.std(ddof=1))
        flat = spread <= 1e-14 * float(np.abs(d.values).max())
        estimate = float("nan") if flat else float(d.values.mean()) / spread
        low, high = noncentral_t_interval(estimate * root, len(d.values) - 1, design.confidence)
        rows.append(d.row(effect="d_z", estimate=estimate, low=low / root, high=high / root))
    return table(rows)


def cliffs_delta(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """P(a > b) - P(a < b) of two random sessions, in [-1, 1]; one row for each pair.

    The variance allows for both systems having met the same scenarios; only shared scenarios count. The
    interval is asymmetric and stays inside [-1, 1].

    Raises InputError for fewer than 2 shared scenarios.
    Source: Cliff (1996), Ordinal Methods; interval: Feng and Cliff (2004), JMASM 3.
    """
    wide, rows = design.paired(frame), []
    for d in design.differences(frame):
        both = wide.values[:, [wide.systems.index(d.a), wide.systems.index(d.b)]]
        x, y = both[~np.isnan(both).any(axis=1)].T
        over, under = _dominance(x, y), _dominance(y, x)
        delta, variance = float(over.mean()), float((over - under).var(ddof=1)) / len(x)
        z = float(scipy.stats.t.ppf((1 + design.confidence) / 2, len(x) - 1))
        low, high = _delta_interval(delta, variance, z)
        rows.append(d.row(effect="cliffs_delta", estimate=delta, low=low, high=high))
    return table(rows)


def auc(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """The probability that a positive scores above a negative, ties half, in [0, 1]: area under the curve.

    Missing scores are left out; NaN without positives or without negatives. Source: Hanley & McNeil (1982).
    """
    known = ~np.isnan(scores)
    ranks, truth = scipy.stats.rankdata(scores[known]), positive[known]
    n, m = int(truth.sum()), int((~truth).sum())
    return float((ranks[truth].sum() - n * (n + 1) / 2) / (n * m)) if n and m else math.nan


def _dominance(x: Floats, y: Floats) -> Floats:
    """For every x, the share of y below it minus the share above it, in [-1, 1]."""
    ordered = np.sort(y)
    below, upto = np.searchsorted(ordered, x, "left"), np.searchsorted(ordered, x, "right")
    return (below - (len(y) - upto)) / len(y)


def _delta_interval(delta: float, variance: float, z: float) -> tuple[float, float]:
    if abs(delta) == 1.0:
        return delta, delta
    middle, spread = delta - delta**3, (1 - delta**2) ** 2 + z**2 * variance
    half, scale = z * variance**0.5 * spread**0.5, 1 - delta**2 + z**2 * variance
    return max(-1.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


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
    return table(rows)


def _signed_share(gaps: Floats, weights: Floats) -> Floats:
    ranks = weighted_ranks(np.abs(gaps), weights)
    total = weights.sum(axis=1)
    won = (weights * ranks) @ np.sign(gaps)
    return np.asarray(won / (total * (total + 1) / 2))[:, None]


def paired_effects(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """d_z, Cliff's delta and the matched rank-biserial of every pair, one row for each effect."""
    made = [effect(frame, design) for effect in (cohens_dz, cliffs_delta, rank_biserial)]
    return pd.concat(made, ignore_index=True)


def noncentral_f_interval(ratio: float, df1: float, df2: float, confidence: float) -> tuple[float, float]:
    """Interval for the noncentrality (>= 0) of an observed F; NaN for an F that is not finite.

    Source: Steiger and Fouladi (1997), in What If There Were No Significance Tests?
    """
    if not np.isfinite(ratio):
        return float("nan"), float("nan")

    def solve(tail: float) -> float:
        def gap(nc: float) -> float:
            return float(scipy.stats.ncf.cdf(ratio, df1, df2, nc)) - tail

        width = max(1.0, ratio * df1)
        return _root(gap, 0.0, width, width) if scipy.stats.f.cdf(ratio, df1, df2) > tail else 0.0

    return solve((1 + confidence) / 2), solve((1 - confidence) / 2)


def noncentral_t_interval(t: float, df: float, confidence: float) -> tuple[float, float]:
    """Interval for the noncentrality of an observed t; NaN for a t that is not finite.

    Source: Steiger and Fouladi (1997), in What If There Were No Significance Tests?
    """
    if not np.isfinite(t):
        return float("nan"), float("nan")
    if t < 0:  # the lower tail is where the distribution function is least stable: mirror it
        low, high = noncentral_t_interval(-t, df, confidence)
        return -high, -low
    step = (1 + t**2 / (2 * df)) ** 0.5  # about the standard error of the noncentrality

    def solve(tail: float) -> float:
        def gap(nc: float) -> float:
            exact = float(scipy.stats.nct.cdf(t, df, nc))
            rough = float(scipy.stats.norm.cdf((t - nc) / (1 + nc**2 / (2 * df)) ** 0.5))
            return (rough if np.isnan(exact) else exact) - tail  # scipy's far tails can be NaN

        start = -float(scipy.stats.norm.ppf(tail)) - 0.01  # below the answer at t = 0, hence at any t
        return _root(gap, start, max(start, t) + step, step)

    return solve((1 + confidence) / 2), solve((1 - confidence) / 2)


def _root(gap: Callable[[float], float], start: float, stop: float, step: float) -> float:
    """Where a falling function crosses 0; the upper end is moved out by steps until it has."""
    while gap(stop) > 0:
        stop += step
    return float(scipy.optimize.brentq(gap, start, stop, xtol=1e-10))
