"""Findings: a sentence with its number and interval, an honest "none", and how a notebook ends."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.stats.bootstrap import cluster_bootstrap, cluster_bootstrap_differences
from crs_lib.stats.frames import Floats
from crs_lib.stats.resample import bootstrap_estimates
from crs_lib.stats.words import interval_in_words

MOST = 3  # findings at the end of a notebook


class Finding(str):
    """A sentence about data, shown as text in a notebook; ``borne`` is False where it says why none."""

    borne = True

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return f"**Finding.** {self}" if self.borne else f"*{self}*"


class _None(Finding):
    borne = False


class Sentences(tuple[str, ...]):
    """Sentences that a notebook shows as a list, one a line."""

    def __repr__(self) -> str:
        return "\n".join(self)

    def _repr_markdown_(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self)


class Estimate(NamedTuple):
    """A quantity with its 95 % interval; ``n`` counts the units that were resampled (scenarios, questions).

    The limits are NaN where fewer than two units leave no interval.
    """

    value: float
    low: float
    high: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of 0; False without an interval."""
        return bool(self.low > 0 or self.high < 0)

    @property
    def doubt(self) -> str:
        """What a sentence adds after the interval: nothing, or that the interval includes 0."""
        return "" if self.excludes_zero else ", an interval that includes 0"

    @property
    def turned(self) -> "Estimate":
        """The same estimate with the other sign: that of ``b - a`` instead of ``a - b``."""
        return Estimate(-self.value, -self.high, -self.low, self.n)

    def within(self, margin: float) -> bool:
        """Whether the whole interval lies within ±margin; False without an interval."""
        return bool(self.low >= -margin and self.high <= margin)

    def __str__(self) -> str:
        """As printed: ``0.12 [0.08, 0.16]``."""
        return interval_in_words(self.value, self.low, self.high)

    @property
    def percent(self) -> str:
        """A share as printed: ``41 % [35, 47]``."""
        scaled = [100 * one for one in (self.value, self.low, self.high)]
        places = 0 if not scaled[2] - scaled[1] < 2 or scaled[2] == scaled[1] else 1
        value, low, high = (f"{one:.{places}f}".replace("-", "−") for one in scaled)
        return f"{value} %" + (" (no interval)" if math.isnan(self.low) else f" [{low}, {high}]")


def finding(text: str) -> Finding:
    """The sentence as a finding; raises InputError unless it ends as a sentence does."""
    if not text.endswith("."):
        raise InputError(f"a finding is a sentence and ends with a full stop: {text!r}")
    return Finding(text)


def no_finding(reason: str) -> Finding:
    """``No finding: <reason>.`` for a section whose data bear none."""
    return _None(f"No finding: {reason.rstrip('.')}.")


def mean_of(frame: pd.DataFrame, value: str, *, scenario: str = "scenario", **draws: Any) -> Estimate:
    """Mean of a column over all rows that have a value, scenarios resampled; NaN without any.

    ``draws``: ``resamples``, ``seed``, ``confidence`` of :func:`cluster_bootstrap`.
    """
    if frame[value].notna().sum() == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    one = frame.assign(_all="all", **{value: frame[value].astype(float)})
    row = cluster_bootstrap(one, system="_all", scenario=scenario, value=value, **draws).iloc[0]
    return Estimate(float(row["mean"]), float(row["low"]), float(row["high"]), int(row["clusters"]))


def means_of(
    frame: pd.DataFrame, value: str, *, system: str = "system", scenario: str = "scenario", **draws: Any
) -> dict[str, Estimate]:
    """:func:`mean_of` each system that has a value, by name, in the order of the frame."""
    names = frame[system].astype(str)
    known = frame.assign(**{system: names, value: frame[value].astype(float)})
    if not len(known):
        return {}
    found = cluster_bootstrap(known, system=system, scenario=scenario, value=value, **draws)
    rows = {
        str(name): Estimate(float(mean), float(low), float(high), int(clusters))
        for name, mean, low, high, clusters in zip(
            *(found[column] for column in ("system", "mean", "low", "high", "clusters")), strict=True
        )
    }
    return {name: rows[name] for name in dict.fromkeys(names) if rows[name].n}


def share_of(frame: pd.DataFrame, value: str, *, scenario: str = "scenario", **draws: Any) -> Estimate:
    """Share in [0, 1] of the rows where a column is true, scenarios resampled.

    Where all rows agree, no draw differs; the interval is then Wilson's with the scenarios as cases.
    Source: Wilson (1927), JASA 22.
    """
    found = mean_of(frame, value, scenario=scenario, **draws)
    if found.n and found.value in (0.0, 1.0):
        from statsmodels.stats.proportion import proportion_confint

        low, high = proportion_confint(round(found.value * found.n), found.n, method="wilson")
        return found._replace(low=max(0.0, float(low)), high=min(1.0, float(high)))
    return found


def shares_of(
    frame: pd.DataFrame, value: str, *, system: str = "system", scenario: str = "scenario", **draws: Any
) -> dict[str, Estimate]:
    """:func:`share_of` each system, by name, in the order of the frame."""
    parts = frame.groupby(frame[system].astype(str), sort=False)
    return {str(name): share_of(part, value, scenario=scenario, **draws) for name, part in parts}


def difference_of(
    frame: pd.DataFrame,
    a: str,
    b: str,
    value: str,
    *,
    system: str = "system",
    scenario: str = "scenario",
    **draws: Any,
) -> Estimate:
    """Mean of ``a`` minus mean of ``b`` over the scenarios that both have, resampled as pairs."""
    names = frame[system].astype(str)
    two = frame.assign(**{system: names, value: frame[value].astype(float)})[names.isin([a, b])]
    at: dict[str, Any] = {"system": system, "scenario": scenario, "value": value, **draws}
    row = cluster_bootstrap_differences(two, pairs=[(a, b)], **at).iloc[0]
    return Estimate(float(row["diff"]), float(row["low"]), float(row["high"]), int(row["n"]))


def deviation_of(values: Sequence[float], **draws: Any) -> Estimate:
    """Standard deviation of one value a scenario, scenarios resampled; NaN for fewer than two values."""
    data = np.asarray(values, dtype=float)
    data = data[~np.isnan(data)]
    if len(data) < 2:
        return Estimate(math.nan, math.nan, math.nan, len(data))

    def statistic(weights: Floats) -> Floats:
        total = weights.sum(axis=1)
        spread = weights @ data**2 / total - (weights @ data / total) ** 2
        return np.asarray(np.sqrt(np.clip(spread, 0, None) * total / (total - 1)))[:, None]

    made = bootstrap_estimates(statistic, len(data), method="percentile", **draws)
    return Estimate(float(made.estimate[0]), float(made.low[0]), float(made.high[0]), len(data))


def compared(
    a: str, b: str, difference: Estimate, what: str, *, smallest: float = 0.0, unit: str = ""
) -> Finding:
    """``a`` against ``b`` in one sentence: higher, lower, equivalent within ±smallest, or not settled.

    A difference is named only where its interval excludes 0, equivalence only where the interval lies within
    the smallest difference that matters. ``what`` is a noun (``gain``), ``unit`` follows the interval.
    """
    shown = f"{difference} {unit}".rstrip()
    if math.isnan(difference.low):
        return no_finding(
            f"{a} and {b} share {counted(difference.n, 'scenario')}, too few for an interval of {what}"
        )
    if difference.excludes_zero:
        way, size = ("higher", difference) if difference.value > 0 else ("lower", difference.turned)
        small = smallest and difference.within(smallest)
        doubt = f", less than the smallest difference that matters ({smallest:g})" if small else ""
        return finding(f"The {what} of {a} is {way} than that of {b} by {size} {unit}".rstrip() + f"{doubt}.")
    if smallest and difference.within(smallest):
        return finding(f"{a} and {b} are equivalent in {what} within ±{smallest:g}: they differ by {shown}.")
    return finding(f"Whether {a} and {b} differ in {what} is not settled: {shown}{difference.doubt}.")


def counted(n: int, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 scenario``, ``1,200 scenarios``, ``2 queries``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {plural or noun + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names as English lists them: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else [*names])


def learnt(*findings: Finding) -> Sentences:
    """What a notebook learnt: its findings, three at most; those that say "none" are left out.

    Raises InputError for more than three.
    """
    if len(findings) > MOST:
        raise InputError(f"{len(findings)} findings; a notebook ends with at most {MOST}: choose")
    kept = [one for one in findings if one.borne]
    return Sentences(kept or ["Nothing: the data of this run bear no finding."])


def not_shown(*limits: str) -> Sentences:
    """What a notebook does not show: one sentence a limit, empty ones left out."""
    return Sentences(limit for limit in limits if limit)


def resolution(estimates: Sequence[Estimate], what: str) -> str:
    """A limit: differences below half the widest interval are not resolved; empty without an interval."""
    widths = [one.high - one.low for one in estimates if not math.isnan(one.low)]
    if not widths:
        return ""
    n = min(one.n for one in estimates if not math.isnan(one.low))
    half = np.max(widths) / 2
    return f"With {counted(n, 'scenario')}, differences in {what} below {half:.2f} are not resolved."
