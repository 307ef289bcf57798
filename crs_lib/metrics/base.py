"""The registry of metrics: name, range, direction, level, version and source of every number we print."""

from dataclasses import dataclass

import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean

HIGHER, LOWER, NEITHER = "higher is better", "lower is better", "no better or worse"
NOT_VALID, DESCRIPTIVE = "not valid for ranking", "no direction, not for ranking"
DAGGER = "†"
DAGGER_NOTE = (
    f"{DAGGER} not valid for ranking: fails orderings of control policies (docs/validity.md, section 1)"
)


@dataclass(frozen=True)
class Metric:
    """A quantity as tables name it. ``short`` is its name in figures; ``low``/``high`` its range.

    ``gate`` says whether it orders the control policies as it must (``python -m crs_lib gate``, defaults)
    and may rank systems; None where no gate is declared for it.
    """

    name: str
    short: str
    level: str
    low: float
    high: float
    direction: str
    source: str
    version: int = 1
    headline: bool = False
    gate: bool | None = None

    @property
    def mark(self) -> str:
        """Why the metric may not rank systems; empty where it may, or where there is no gate for it."""
        if self.gate is None:
            return ""
        return "" if self.gate else DESCRIPTIVE if self.direction == NEITHER else NOT_VALID

    @property
    def label(self) -> str:
        """The short name, with a dagger where the metric is not valid for ranking."""
        return f"{self.short} {DAGGER}" if self.mark == NOT_VALID else self.short


METRICS: dict[str, Metric] = {}


def declare(*metrics: Metric) -> None:
    """Register metrics; InputError for a name that is taken."""
    for metric in metrics:
        if metric.name in METRICS:
            raise InputError(f"metric {metric.name!r} is declared twice")
        METRICS[metric.name] = metric


def get(name: str) -> Metric:
    """The declaration of a metric; InputError with a suggestion for an unknown name."""
    if name not in METRICS:
        known = ", ".join(METRICS)
        raise InputError(f"unknown metric {name!r}{did_you_mean(name, METRICS)} (known: {known})")
    return METRICS[name]


def describe(level: str | None = None) -> pd.DataFrame:
    """One row a metric, sorted: name, short name, level, range, direction, mark, version, source."""
    rows = [
        {
            "metric": m.name,
            "short": m.short,
            "level": m.level,
            "range": f"[{m.low:g}, {m.high:g}]",
            "direction": m.direction,
            "mark": m.mark,
            "version": m.version,
            "source": m.source,
        }
        for m in sorted(METRICS.values(), key=lambda m: (m.level != "session", m.name))
        if level in (None, m.level)
    ]
    return pd.DataFrame(rows)


def in_range(name: str, values: pd.Series) -> bool:
    """Whether every defined value of a metric lies in its declared range (up to rounding)."""
    metric, known = get(name), values.dropna()
    return bool(((known >= metric.low - 1e-9) & (known <= metric.high + 1e-9)).all())
