"""The registry of metrics: each is one registered function, and every table and figure reads the registry.

A metric is registered beside its formula in a file of this room::

    @metric("novelty", "N", TURN, 0, 1, NEITHER, source="docs/metrics.md, section 4")
    def novelty_of_turn(turn: TurnRecord) -> float:
        return novelty(turn.items, turn.seen)

The function takes the prepared record of its level (:mod:`crs_lib.metrics.inputs`) and returns NaN where the
metric is undefined. The scorer computes the metric: ``turns.parquet`` or ``shifts.parquet`` gets a column,
``results.jsonl`` its mean over the session, and ``model_metrics.csv``, report, trace and gate get a row.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean, import_files
from crs_lib.metrics import constructs

LEVELS = TURN, SHIFT, SESSION = ("turn", "shift", "session")
HIGHER, LOWER, NEITHER = "higher is better", "lower is better", "no better or worse"
NOT_VALID, DESCRIPTIVE = "not valid for ranking", "no direction, not for ranking"
DAGGER = "†"
DAGGER_NOTE = (
    f"{DAGGER} not valid for ranking: fails orderings of control policies (docs/validity.md, section 1)"
)
F = TypeVar("F", bound=Callable[[Any], Any])


@dataclass(frozen=True)
class Metric:
    """A quantity as tables name it: ``short`` is the name in figures, ``low`` and ``high`` are the range.

    ``gate`` says whether it orders the control policies as it must (``python -m crs_lib gate``, defaults)
    and may rank systems; None where no gate is declared for it. ``place`` orders the columns of its level.
    ``headline`` is its place among the few that a leaderboard shows, 0 for none; ``shown_in`` names the
    tables and figures that show a choice of metrics, with its place there. ``compute`` takes the record of
    the level; None for a metric that another scorer gives. A metric that is not ``averaged`` (a list a
    turn) has a column and no mean.
    """

    name: str
    short: str
    level: str
    low: float
    high: float
    direction: str
    source: str
    version: int = 1
    gate: bool | None = None
    place: float = math.inf
    headline: int = 0
    shown_in: Mapping[str, int] = field(default_factory=dict)
    compute: Callable[[Any], Any] | None = None
    averaged: bool = True

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


class Column(NamedTuple):
    """A column of a table of turns or shifts: a metric, or a fact that stands beside the metrics."""

    name: str
    level: str
    place: float
    compute: Callable[[Any], Any]


class MetricRegistry(Mapping[str, Metric]):
    """The metrics by name, and the facts beside them; the first look imports the files of this room."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        self._facts: dict[str, Column] = {}
        self._read = False

    def _known(self) -> dict[str, Metric]:
        if not self._read:
            import_files("crs_lib.metrics")
            self._read = True
        return self._metrics

    def __getitem__(self, name: str) -> Metric:
        return self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def add(self, metric: Metric) -> None:
        """Register a metric; InputError for a name that is taken."""
        if metric.name in self._metrics:
            raise InputError(f"metric {metric.name!r} is declared twice")
        self._metrics[metric.name] = metric

    def add_fact(self, column: Column) -> None:
        """Register a column that is no metric; InputError for a name that is taken."""
        if column.name in self._facts:
            raise InputError(f"column {column.name!r} is declared twice")
        self._facts[column.name] = column

    def facts(self) -> list[Column]:
        """The columns that are no metrics, in the order of registration."""
        self._known()
        return list(self._facts.values())


METRICS = MetricRegistry()


def metric(
    name: str,
    short: str,
    level: str,
    low: float,
    high: float,
    direction: str,
    *,
    source: str,
    version: int = 1,
    gate: bool | None = None,
    place: float = math.inf,
    headline: int = 0,
    shown_in: Mapping[str, int] | None = None,
    averaged: bool = True,
) -> Callable[[F], F]:
    """Decorator that registers a function of a record as a metric; arguments are those of :class:`Metric`.

    Raises InputError for a name that is taken, or an unknown level or direction.
    """
    for given, known in ((level, LEVELS), (direction, (HIGHER, LOWER, NEITHER))):
        if given not in known:
            raise InputError(f"metric {name!r}: {given!r} is none of {', '.join(known)}")

    def add(compute: F) -> F:
        METRICS.add(
            Metric(
                name, short, level, low, high, direction, source, version, gate, place, headline,
                dict(shown_in or {}), compute, averaged,
            )
        )  # fmt: skip
        return compute

    return add


def fact(name: str, level: str, *, place: float) -> Callable[[F], F]:
    """Decorator that registers a function of a record as a column beside the metrics of its level."""

    def add(compute: F) -> F:
        METRICS.add_fact(Column(name, level, place, compute))
        return compute

    return add


def declare(*metrics: Metric) -> None:
    """Register metrics that another scorer gives; InputError for a name that is taken."""
    for one in metrics:
        METRICS.add(one)


def get(name: str) -> Metric:
    """The declaration of a metric or of a judges' construct; InputError with a suggestion for other names."""
    if name in constructs.CONSTRUCTS and name not in METRICS:
        low, high = constructs.get(name).scale
        return Metric(name, name, SESSION, low, high, HIGHER, "scores of judges (docs/running-llms.md)")
    if name not in METRICS:
        known = ", ".join(METRICS)
        raise InputError(f"unknown metric {name!r}{did_you_mean(name, METRICS)} (known: {known})")
    return METRICS[name]


def scored(*levels: str) -> list[Metric]:
    """The metrics that a session has a mean of, as tables order them: by level (turn, shift, session), place.

    Only those of the ``levels`` where any is named.
    """
    found = [m for m in METRICS.values() if m.compute and m.averaged and m.level in (levels or LEVELS)]
    return sorted(found, key=lambda m: (LEVELS.index(m.level), m.place))


def scored_names(*levels: str) -> list[str]:
    """The names of :func:`scored`."""
    return [one.name for one in scored(*levels)]


def columns(level: str) -> list[Column]:
    """The columns of the table of a level ("turn" or "shift"): metrics and facts, by place."""
    mine = [Column(m.name, m.level, m.place, m.compute) for m in METRICS.values() if m.compute]
    return sorted((c for c in (*METRICS.facts(), *mine) if c.level == level), key=lambda c: c.place)


def headline() -> list[str]:
    """The names of the few metrics that a leaderboard shows, in its order."""
    return [m.name for m in sorted(METRICS.values(), key=lambda m: m.headline) if m.headline]


def shown_in(table: str) -> list[str]:
    """The names of the metrics that a table or figure shows, in its order."""
    mine = [m for m in METRICS.values() if table in m.shown_in]
    return [m.name for m in sorted(mine, key=lambda m: m.shown_in[table])]


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
        for m in sorted(METRICS.values(), key=lambda m: (m.level != SESSION, m.name))
        if level in (None, m.level)
    ]
    return pd.DataFrame(rows)


def in_range(name: str, values: pd.Series) -> bool:
    """Whether every defined value of a metric lies in its declared range (up to rounding)."""
    metric, known = get(name), values.dropna()
    return bool(((known >= metric.low - 1e-9) & (known <= metric.high + 1e-9)).all())
