"""Intervals for noncentrality: what an observed F or t says about the size of the effect behind it."""

from collections.abc import Callable

import numpy as np
import scipy


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
