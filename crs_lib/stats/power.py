"""How much the scenarios tell: the power of tests, detectable effects, scenarios needed."""

import bisect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy

from crs_lib.core.rng import stream
from crs_lib.stats.bounded import Means, mean_interval
from crs_lib.stats.design import USUAL, Design, Floats
from crs_lib.stats.estimate import FEWEST

_MOST = 10_000  # scenarios that are asked for
_ONE_BY_ONE = 1_000  # scenarios up to which samples are drawn; beyond, their means are normal


@dataclass(frozen=True)
class _Pilot:
    """The observed differences of a pair, turned so that their mean is 0 or more: samples come from them.

    A sample of ``n`` scenarios finds an effect where the lower end of its interval lies above 0.
    """

    a: Any
    b: Any
    differences: Floats
    design: Design

    @property
    def usable(self) -> bool:
        """Whether there are enough differences, and not all the same."""
        return mean_interval(self.differences).has_interval

    @property
    def mean(self) -> float:
        """The observed mean difference, 0 or more."""
        return float(self.differences.mean())

    @property
    def sd(self) -> float:
        """The standard deviation of the differences; NaN for fewer than two."""
        return float(self.differences.std(ddof=1)) if len(self.differences) > 1 else math.nan

    def thresholds(self, n: int, level: float) -> Floats:
        """By drawn sample of ``n`` scenarios, in order: the smallest true mean that the sample would find.

        Of a shifted population the samples are shifted alike, so one set of draws serves all effects.
        """
        draws = self._means(n)
        low, _ = draws.ends(1 - level)
        return np.sort(-low)

    def power(self, effect: float, n: int, level: float) -> float:
        """The chance in [0, 1] to find ``effect`` with ``n`` scenarios in a test at ``level``."""
        return float(np.mean(self.thresholds(n, level) < effect))

    def detectable(self, power: float, n: int, level: float) -> float:
        """The smallest effect that ``n`` scenarios find with ``power``."""
        return float(np.quantile(self.thresholds(n, level), power))

    def needed(self, effect: float, power: float, level: float) -> float:
        """The fewest scenarios that find ``effect`` with ``power``; NaN above 10,000."""
        sizes = range(FEWEST, _MOST + 1)
        index = bisect.bisect_left(sizes, power, key=lambda n: self.power(effect, n, level))
        return float(sizes[index]) if index < len(sizes) else math.nan

    def _means(self, n: int) -> Means:
        """Samples of ``n`` scenarios around a mean of 0."""
        rng = stream(self.design.seed, "stats", "power", n)
        centred = self.differences - self.mean
        limits = self.design.limits.of_differences
        if n <= _ONE_BY_ONE:
            return Means.of(rng.choice(centred, (self.design.resamples, n)), limits)
        squares = float((centred**2).mean()) * n
        means = rng.normal(0.0, math.sqrt(squares) / n, self.design.resamples)
        return Means(means, np.full(len(means), squares), n, limits)


def _pilots(frame: pd.DataFrame, design: Design) -> Iterator[_Pilot]:
    """The differences of every pair of the design, also of those that share too few scenarios."""
    for pair in design.differences(frame, least=0):
        values = pair.values
        if len(values) and values.mean() < 0:
            values = -values
        yield _Pilot(pair.a, pair.b, values, design)


def contrast_power(
    frame: pd.DataFrame, effect: float, design: Design = USUAL, *, power: float = 0.8, tests: int = 1
) -> pd.DataFrame:
    """Power of every contrast, by samples drawn from its own paired differences; a row a pair.

    ``power_now``: the chance in [0, 1] that ``n`` scenarios find ``effect`` at the design's alpha divided by
    ``tests``; ``detectable_effect``: what they find with ``power``; ``sessions_needed``: what ``effect``
    takes (missing above 10,000); ``sd_difference``: the deviation of the differences. NaN for fewer than 8
    scenarios, or differences that are all the same.
    """
    level = design.alpha / tests
    rows = []
    for pilot in _pilots(frame, design):
        n = len(pilot.differences)
        numbers = (math.nan,) * 3
        if pilot.usable:
            numbers = (
                pilot.power(effect, n, level),
                pilot.detectable(power, n, level),
                pilot.needed(effect, power, level),
            )
        rows.append((pilot.a, pilot.b, n, pilot.sd, *numbers))
    columns = "a b n sd_difference power_now detectable_effect sessions_needed".split()
    return pd.DataFrame(rows, columns=columns)


def contrast_curves(
    frame: pd.DataFrame, effects: Sequence[float], sessions: Sequence[int], design: Design, tests: int = 1
) -> pd.DataFrame:
    """Power in [0, 1] of every contrast by effect and number of scenarios, as :func:`contrast_power`."""
    level = design.alpha / tests
    rows = []
    for pilot in _pilots(frame, design):
        if not pilot.usable:
            continue
        facts = (pilot.a, pilot.b, len(pilot.differences), pilot.sd)
        for n in sessions:
            thresholds = pilot.thresholds(n, level)
            for effect in effects:
                power = float(np.mean(thresholds < effect))
                rows.append((*facts, float(effect), n, level, power))
    columns = "a b n sd_difference effect sessions alpha power".split()
    return pd.DataFrame(rows, columns=columns)


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
