"""How much the scenarios tell: the power of tests, detectable effects, scenarios needed."""

import bisect
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

from crs_lib.stats.bootstrap import bootstrap_estimates
from crs_lib.stats.design import USUAL, Design, Floats
from crs_lib.stats.estimate import cost_sample

_WILCOXON = 3 / np.pi  # scenarios of a t test that one of Wilcoxon's is worth, for normal differences
_MOST = 100_000  # scenarios
_ENDLESS = 1e6  # standardised effect that no test is asked for


class _Spread(NamedTuple):
    """A contrast, its ``n`` common scenarios, and the deviation of their differences."""

    a: Any
    b: Any
    n: int
    sd_difference: float
    sample: Floats


class _Power(NamedTuple):
    """The columns of :func:`contrast_power` behind those of the contrast."""

    power_now: float = math.nan
    detectable_effect: float = math.nan
    sessions_needed: float = math.nan
    needed_low: float = math.nan
    needed_high: float = math.nan


def contrast_power(
    frame: pd.DataFrame, effect: float, design: Design = USUAL, *, power: float = 0.8, tests: int = 1
) -> pd.DataFrame:
    """Power of every contrast by the deviation of its own paired differences (``sd_difference``).

    A row a pair. ``power_now``: the chance in [0, 1] that a paired Wilcoxon test at the design's alpha /
    ``tests`` finds ``effect`` with ``n`` scenarios; ``detectable_effect``: what they find with ``power``;
    ``sessions_needed`` (missing above 100,000) with ``needed_low``, ``needed_high`` for the deviation's
    interval. NaN where too few differ. Source: Cohen (1988), chapter 2; Lehmann (1975), section 2.4 (3/π).
    """
    level = design.alpha / tests
    rows = []
    for spread in _spreads(frame, design):
        figures = _Power()
        if spread.sd_difference > 0:
            figures = _power_of(spread, effect, power, level, design)
        rows.append((*spread[:4], *figures))
    return pd.DataFrame(rows, columns=[*_Spread._fields[:4], *_Power._fields])


def _power_of(spread: _Spread, effect: float, power: float, level: float, design: Design) -> _Power:
    sample, sd = spread.sample, spread.sd_difference
    ends = bootstrap_estimates(partial(_deviation, sample), len(sample), design, method="percentile")
    return _Power(
        power_now=_wilcoxon_power(effect / sd, spread.n, level),
        detectable_effect=_detectable(spread.n, power, level) * sd,
        sessions_needed=_fewest(effect / sd, power, level),
        needed_low=_fewest(effect / ends.low[0], power, level),
        needed_high=_fewest(effect / ends.high[0], power, level),
    )


def _deviation(values: Floats, weights: Floats) -> Floats:
    """The standard deviation of the values in every draw."""
    total = weights.sum(axis=1)
    square = (weights @ values**2 - (weights @ values) ** 2 / total) / (total - 1)
    return np.asarray(np.sqrt(np.maximum(square, 1e-12))[:, None])


def reliability(alpha: float, raters: float) -> float:
    """Reliability of the mean of raters, in [0, 1]: Spearman and Brown's formula on alpha; NaN without it."""
    if math.isnan(alpha):
        return math.nan
    return max(0.0, raters * alpha / (1 + (raters - 1) * alpha))


def correlation_power(n_items: Sequence[int], reliable: float) -> pd.DataFrame:
    """The smallest correlation that a number of items finds with a power of 0.8 at the level 0.05.

    ``detectable`` as values are (Fisher's z, variance of ranks 1.06), ``true_detectable`` without noise.
    """
    z = scipy.stats.norm.ppf(0.975) + scipy.stats.norm.ppf(0.8)
    n = pd.Series(n_items, dtype=float)
    seen = np.tanh(z * np.sqrt(1.06 / (n - 3).where(n > 3)))
    true = seen / math.sqrt(reliable) if reliable > 0 else seen * math.nan
    frame = pd.DataFrame({"n": n_items, "detectable": seen, "reliability": reliable})
    return frame.assign(true_detectable=true.where(true <= 1))


def contrast_curves(
    frame: pd.DataFrame, effects: Sequence[float], sessions: Sequence[int], design: Design, tests: int = 1
) -> pd.DataFrame:
    """Power in [0, 1] of every contrast by effect and number of scenarios, as :func:`contrast_power`."""
    level = design.alpha / tests
    rows = []
    for spread in _spreads(frame, design):
        if len(spread.sample) == 0:
            continue
        for n in sessions:
            for effect in effects:
                power = _wilcoxon_power(effect / spread.sd_difference, n, level)
                rows.append((*spread[:4], float(effect), n, level, power))
    return pd.DataFrame(rows, columns=[*_Spread._fields[:4], "effect", "sessions", "alpha", "power"])


def _spreads(frame: pd.DataFrame, design: Design) -> Iterator[_Spread]:
    for pair in design.differences(frame, least=0):
        sample = cost_sample(pair.values)
        sd = float(sample.std(ddof=1)) if len(sample) > 1 else math.nan
        yield _Spread(pair.a, pair.b, len(pair.both), sd, sample)


def _wilcoxon_power(effect: float, n: int, alpha: float) -> float:
    """The power of Wilcoxon's paired test for a standardised effect, by what its scenarios are worth to t."""
    worth = max(n * _WILCOXON, 1.5)
    df = worth - 1
    edge = scipy.stats.t.ppf(1 - alpha / 2, df)
    shift = effect * worth**0.5
    power = scipy.stats.nct.sf(edge, df, shift) + scipy.stats.nct.cdf(-edge, df, shift)
    return float(np.nan_to_num(power, nan=1.0))  # beyond what nct can hold, the power is 1


def _detectable(n: int, power: float, alpha: float) -> float:
    """The standardised effect that ``n`` scenarios find with ``power``; NaN where none is large enough."""
    high = 1.0
    while _wilcoxon_power(high, n, alpha) < power:
        high *= 2
        if high > _ENDLESS:
            return math.nan
    return float(scipy.optimize.brentq(lambda effect: _wilcoxon_power(effect, n, alpha) - power, 0, high))


def _fewest(effect: float, power: float, alpha: float) -> float:
    """The fewest scenarios whose power reaches ``power``; NaN above 100,000."""
    if _wilcoxon_power(effect, _MOST, alpha) < power:
        return math.nan
    scenarios = range(2, _MOST + 1)
    index = bisect.bisect_left(scenarios, power, key=lambda n: _wilcoxon_power(effect, n, alpha))
    return float(scenarios[index])
