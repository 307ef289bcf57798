"""An estimate: a number with its interval, how it is printed, and what it says of a difference."""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

HIGHER = "higher"
LOWER = "lower"
EQUIVALENT = "equivalent"
NOT_SETTLED = "not settled"
NOT_COMPARED = "not compared"
TOO_FEW = "too few users for a verdict"
VERDICTS = (HIGHER, LOWER, EQUIVALENT, NOT_SETTLED, NOT_COMPARED, TOO_FEW)
FEWEST = 8  # users below which there is no interval
ENOUGH = 100  # users from which systems get a verdict: benchmarks/error_rates.py


class Estimate(NamedTuple):
    """A quantity with its 95 % interval, as it is printed everywhere.

    Parameters
    ----------
    value : float
        The estimate, in the unit of what is estimated; NaN where there is nothing to estimate.
    low, high : float
        The ends of the interval; NaN for fewer than eight units, and where all have the same value.
    n : int
        How many scenarios (or other units that were resampled) it rests on.
    reason : str
        Why there is no interval; empty where there is one.

    Examples
    --------
    >>> gap = Estimate(0.12, 0.08, 0.16, 24)
    >>> f"{gap}, {gap:%}, {verdict(gap, margin=0.05)}"
    '0.12 [0.08, 0.16], 12 % [8, 16], higher'
    """

    value: float
    low: float
    high: float
    n: int = 0
    reason: str = ""

    @classmethod
    def unknown(cls, n: int = 0, reason: str = "") -> "Estimate":
        """An estimate of what cannot be estimated."""
        return cls(math.nan, math.nan, math.nan, n, reason)

    @classmethod
    def of(cls, row: Any, value: str = "mean") -> "Estimate":
        """The estimate that a table's row holds.

        Parameters
        ----------
        row : mapping, Series or named tuple (of ``itertuples``)
            A row with the columns ``low`` and ``high``, ``n`` if units are counted, and ``note``
            if it says why there is no interval.
        value : str
            The column that the interval belongs to.
        """
        if hasattr(row, "_asdict"):
            row = row._asdict()
        n = row.get("n")
        units = 0 if n is None or pd.isna(n) else int(n)
        note = row.get("note")
        reason = note if isinstance(note, str) else ""
        return cls(float(row[value]), float(row["low"]), float(row["high"]), units, reason)

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval at all."""
        return not math.isnan(self.low)

    @property
    def half(self) -> float:
        """Half the width of the interval: what it cannot tell apart; NaN without one."""
        return (self.high - self.low) / 2

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of 0; False without an interval."""
        return bool(self.low > 0 or self.high < 0)

    @property
    def turned(self) -> "Estimate":
        """The same estimate with the other sign: that of ``b - a`` instead of ``a - b``."""
        return self._replace(value=-self.value, low=-self.high, high=-self.low)

    def __str__(self) -> str:
        """As printed: ``0.12 [0.08, 0.16]``, with as many decimals as the width of the interval calls for."""
        if math.isnan(self.value):
            return "unknown"
        width = self.high - self.low
        places = 2
        if width > 0:
            places = int(np.clip(-np.floor(np.log10(width)), 2, 6))
        return self._printed(f"z.{places}f")

    def __format__(self, spec: str) -> str:
        """``{mean}`` as printed, ``{mean:%}`` in percent, ``{mean:.0f}`` with so many decimals."""
        if not spec:
            return str(self)
        return self._percent() if spec == "%" else self._printed(spec)

    def _printed(self, spec: str) -> str:
        interval = self._without_interval
        if self.has_interval:
            interval = f"[{self.low:{spec}}, {self.high:{spec}}]"
        return f"{self.value:{spec}} {interval}".replace("-", "−")

    @property
    def _without_interval(self) -> str:
        """What stands in place of an interval: why there is none."""
        return f"({self.reason or 'no interval'})"

    def _percent(self) -> str:
        """A share as printed: ``41 % [35, 47]``; one decimal where the interval is narrower than 2 %."""
        if math.isnan(self.value):
            return "unknown"
        width = 100 * (self.high - self.low)
        places = 1 if 0 < width < 2 else 0
        interval = self._without_interval
        if self.has_interval:
            interval = f"[{100 * self.low:.{places}f}, {100 * self.high:.{places}f}]"
        return f"{100 * self.value:.{places}f} % {interval}".replace("-", "−")


def verdict(
    difference: Estimate, margin: float = 0.0, *, side: float | None = None, equivalent: bool | None = None
) -> str:
    """What a difference ``a - b`` shows, in a word: the one place where that is decided.

    Parameters
    ----------
    difference : Estimate
        The difference with its interval.
    margin : float
        The smallest difference that matters, in the unit of the difference; 0 if none was declared.
    side : float, optional
        What a test, corrected for all that were made, shows beside the interval: 1 if ``a`` is ahead, -1 if
        behind, 0 if neither is shown, NaN if the two could not be compared. Without it the interval decides.
    equivalent : bool, optional
        Whether a test showed equivalence within the margin; without it, whether the interval lies within.

    Returns
    -------
    str
        "higher" or "lower" where ``a`` is shown to be; "equivalent" within the margin; "not settled" where
        neither is shown; "not compared" where there is no interval to judge by.

    Examples
    --------
    >>> verdict(Estimate(0.01, -0.02, 0.03, 24)), verdict(Estimate(0.01, -0.02, 0.03, 24), margin=0.05)
    ('not settled', 'equivalent')
    """
    if side is None:
        side = math.nan if not difference.has_interval else math.copysign(1.0, difference.value)
    if math.isnan(side):
        return NOT_COMPARED
    if side > 0 and not difference.low <= 0:
        return HIGHER
    if side < 0 and not difference.high >= 0:
        return LOWER
    if equivalent is None:
        equivalent = margin > 0 and -margin <= difference.low and difference.high <= margin
    return EQUIVALENT if equivalent else NOT_SETTLED


def no_interval(n: int, unit: str = "users") -> str:
    """Why ``n`` values have no interval, in words: they are too few, or else all the same."""
    if n == 1:
        return f"1 {unit.removesuffix('s')}"
    return f"{n} {unit}" if n < FEWEST else f"the same for all {n}"


def signed(value: float, places: int = 2) -> str:
    """A number as printed: with a true minus sign, and none before a zero."""
    return f"{value:z.{places}f}".replace("-", "−")


def p_in_words(p: float) -> str:
    """A p value as printed: ``p < .001``, ``p = .023``; ``p unknown`` for NaN."""
    if math.isnan(p):
        return "p unknown"
    if p < 0.001:
        return "p < .001"
    return f"p = {p:.3f}".replace("0.", ".", 1)
