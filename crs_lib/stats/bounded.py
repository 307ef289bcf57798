"""Means of bounded quantities: an interval that allows for a user whom the sample lacks, and its tests.

A sample may hold none of the few users for whom everything is lost: its spread is then far too small. So each
end of an interval is that of the sample with one made-up user on its side. Both tests, and power, are made of
the same two ends, so that no page can say "better" beside an interval that touches 0.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from crs_lib.stats.design import COST, Floats, Range
from crs_lib.stats.estimate import FEWEST, Estimate, no_interval

# How far from the mean the made-up user is, in units of gain: chosen by benchmarks/error_rates.py.
REACH = 0.5
FARTHEST = 2.0  # the same where two systems are to be shown alike: as much as a user can lose
_ALIKE = 1e-12  # values that differ by no more are the same


class _Sample(NamedTuple):
    """Means and their standard errors."""

    mean: Floats
    error: Floats


@dataclass(frozen=True)
class Means:
    """Means of samples of ``n`` values each, with what their intervals and tests need.

    Parameters
    ----------
    mean, squares : array
        The mean of every sample, and its sum of squared deviations.
    n : int
        Values of a sample.
    limits : Range
        The range of a value; without limits no user is made up, and the interval is that of t.
    """

    mean: Floats
    squares: Floats
    n: int
    limits: Range = COST

    @classmethod
    def of(cls, samples: ArrayLike, limits: Range = COST) -> "Means":
        """The means of samples, a row each."""
        rows = np.atleast_2d(np.asarray(samples, dtype=float))
        mean = rows.mean(axis=1)
        deviations = rows - mean[:, None]
        squares = (deviations**2).sum(axis=1)
        return cls(mean, squares, rows.shape[1], limits)

    @property
    def size(self) -> int:
        """The values of a sample with the made-up user."""
        return self.n + int(self.limits.finite)

    def _extended(self, reach: float) -> _Sample:
        """The samples with a user ``reach`` above their mean (below, if negative), within the range."""
        gap = np.zeros_like(self.mean)
        if self.limits.finite:
            gap = np.clip(self.mean + reach, *self.limits) - self.mean
        size = self.size
        mean = self.mean + gap / size
        squares = self.squares + gap**2 * self.n / size
        error = np.sqrt(squares / size / (size - 1))
        return _Sample(mean, error)

    def ends(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """The ends of the intervals, within the range."""
        edge = scipy.stats.t.ppf((1 + confidence) / 2, self.size - 1)
        below, above = self._extended(-REACH), self._extended(REACH)
        low = below.mean - edge * below.error
        high = above.mean + edge * above.error
        return np.maximum(low, self.limits.low), np.minimum(high, self.limits.high)

    def p_differs(self) -> Floats:
        """Two-sided p of a mean of 0: below the level where the interval excludes 0."""
        larger = self._p_above(self._extended(-REACH), 0.0)
        smaller = self._p_below(self._extended(REACH), 0.0)
        return np.asarray(np.minimum(2 * np.minimum(larger, smaller), 1.0))

    def p_within(self, margin: float) -> Floats:
        """The larger p of two one-sided tests of a mean within ±``margin``.

        Source: Schuirmann (1987), J. Pharmacokinet. Biopharm. 15; Lakens (2017), SPPS.
        """
        above_lower = self._p_above(self._extended(-FARTHEST), -margin)
        below_upper = self._p_below(self._extended(FARTHEST), margin)
        return np.maximum(above_lower, below_upper)

    def _p_above(self, sample: _Sample, value: float) -> Floats:
        """The chance of so large a mean if the true one is ``value``; NaN where nothing varies."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (sample.mean - value) / sample.error
        return np.asarray(scipy.stats.t.sf(t, self.size - 1))

    def _p_below(self, sample: _Sample, value: float) -> Floats:
        """The chance of so small a mean if the true one is ``value``."""
        return self._p_above(_Sample(-sample.mean, sample.error), -value)


def mean_interval(values: ArrayLike, confidence: float = 0.95, limits: Range = COST) -> Estimate:
    """A mean over users with its interval.

    Parameters
    ----------
    values : array-like
        A value a user; NaN is left out.
    confidence : float
        Of the interval.
    limits : Range
        The range of the quantity: no interval goes beyond it.

    Returns
    -------
    Estimate
        Without an interval, and with the reason, for fewer than 8 users or where all have the same value.
    """
    column = np.asarray(values, dtype=float)
    sample = column[~np.isnan(column)]
    n = len(sample)
    mean = float(sample.mean()) if n else math.nan
    if not _varies(sample):
        return Estimate(mean, math.nan, math.nan, n, no_interval(n))
    low, high = Means.of(sample, limits).ends(confidence)
    return Estimate(mean, float(low[0]), float(high[0]), n)


def _varies(sample: Floats) -> bool:
    """Whether there are enough values for an interval, and not all the same."""
    return len(sample) >= FEWEST and float(np.ptp(sample)) > _ALIKE


def ratio_interval(top: ArrayLike, bottom: ArrayLike, confidence: float = 0.95) -> Estimate:
    """mean(top)/mean(bottom) over the users that have both, with the interval of its linear part.

    Parameters
    ----------
    top, bottom : array-like
        A value a user each, in the same order; NaN is left out.
    confidence : float
        Of the interval.
    """
    above, below = np.asarray(top, dtype=float), np.asarray(bottom, dtype=float)
    both = ~np.isnan(above) & ~np.isnan(below)
    if not both.any():
        return mean_interval([], confidence)
    scale = below[both].mean()
    ratio = float(above[both].mean() / scale)
    linear = mean_interval((above[both] - ratio * below[both]) / scale, confidence)
    return linear._replace(value=ratio, low=ratio + linear.low, high=ratio + linear.high)
