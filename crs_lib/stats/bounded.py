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

REACH = (
    0.5  # how far from the mean the made-up user is, in units of gain; chosen by benchmarks/error_rates.py
)
WHOLE = 1.0  # the same where two systems are to be shown alike: a whole gain may be lost
_ALIKE = 1e-12  # values that differ by no more are the same


class _Side(NamedTuple):
    """Mean and standard error by which one end of an interval is told."""

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
        squares = ((rows - mean[:, None]) ** 2).sum(axis=1)
        return cls(mean, squares, rows.shape[1], limits)

    @property
    def _made_up(self) -> int:
        return int(self.limits.finite)

    @property
    def freedom(self) -> int:
        """The degrees of freedom of t."""
        return self.n - 1 + self._made_up

    def _side(self, sign: int, reach: float = REACH) -> _Side:
        """The sample with a made-up user ``reach`` below (-1) or above (1) its mean, within the range."""
        user = np.clip(self.mean + sign * reach * self._made_up, *self.limits)
        size = self.n + self._made_up
        mean = (self.n * self.mean + self._made_up * user) / size
        squares = self.squares + self.n / size * (user - self.mean) ** 2
        return _Side(mean, np.sqrt(squares / (size - 1) / size))

    def ends(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """The ends of the intervals, within the range."""
        edge = scipy.stats.t.ppf((1 + confidence) / 2, self.freedom)
        below, above = self._side(-1), self._side(1)
        low = np.maximum(below.mean - edge * below.error, self.limits.low)
        high = np.minimum(above.mean + edge * above.error, self.limits.high)
        return low, high

    def p_differs(self) -> Floats:
        """Two-sided p of a mean of 0: below the level where the interval excludes 0."""
        below, above = self._side(-1), self._side(1)
        smaller = np.minimum(self._tail(below, 0.0), self._tail(above, 0.0, -1))
        return np.asarray(np.minimum(2 * smaller, 1.0))

    def p_within(self, margin: float) -> Floats:
        """The larger p of two one-sided tests of a mean within ±``margin``.

        Source: Schuirmann (1987), J. Pharmacokinet. Biopharm. 15; Lakens (2017), SPPS.
        """
        below, above = self._side(-1, WHOLE), self._side(1, WHOLE)
        return np.maximum(self._tail(below, -margin), self._tail(above, margin, -1))

    def _tail(self, side: _Side, value: float, sign: int = 1) -> Floats:
        """The probability of so large a mean if the true one is ``value``; NaN where nothing varies."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = sign * (side.mean - value) / side.error
        return np.asarray(scipy.stats.t.sf(t, self.freedom))


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
