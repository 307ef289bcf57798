"""Metric: a quantity that every table and figure knows by its declaration; and the registry of all of them.

A metric is registered beside its formula in a file of this room, and that is all it takes::

    @metric("novelty", "N", TURN, 0, 1, NEITHER, source="docs/metrics.md, section 4")
    def novelty_of_turn(turn: TurnRecord) -> float:
        return sum(item not in turn.seen for item in turn.items) / len(turn.items) if turn.items else math.nan

The function takes the prepared record of its level (:mod:`crs_lib.metrics.records`) and returns NaN where the
metric is undefined. The scorer computes the metric: ``turns.parquet`` or ``shifts.parquet`` gets a column,
``results.jsonl`` its mean over the session, and ``model_metrics.csv``, report, trace and gate get a row.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.metrics import constructs

LEVELS = TURN, SHIFT, SESSION = ("turn", "shift", "session")
DIRECTIONS = HIGHER, LOWER, NEITHER = ("higher is better", "lower is better", "no better or worse")
PRIMARY = "gain_after_change"  # the metric that orders systems, in every table, figure and plan
NOT_VALID = "not valid for ranking"
DESCRIPTIVE = "no direction, not for ranking"
UNGATED = "not gated, not for ranking"
DAGGER = "†"
DAGGER_NOTE = (
    f"{DAGGER} not valid for ranking: fails orderings of control policies, or was put to none "
    "(docs/validity.md, section 1)"
)
Compute = Callable[[Any], Any]
F = TypeVar("F", bound=Compute)


@dataclass(frozen=True)
class Metric:
    """A quantity as tables name it: ``short`` is the name in figures, ``low`` and ``high`` are the range.
    ``gate``: whether it orders the control policies as it must and may rank systems; None where no gate
    tested it. ``compute`` takes the record of the level; None for a metric of another scorer. One that is not
    ``averaged`` (a list a turn) has no mean. The session value of a shift metric is the mean over its shifts,
    or that of the ``primary`` window alone; ``ratio``: two metrics, of whose means it is the ratio.
    ``column`` is the place of its column among those of its level; one without stands behind them.

    A metric with the function that computes it is registered by using it as a decorator.
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
    averaged: bool = True
    primary: bool = False
    ratio: tuple[str, str] | None = None
    column: float = math.inf
    compute: Compute | None = None

    def __post_init__(self) -> None:
        """Raise InputError for an unknown level or direction."""
        for word, words in ((self.level, LEVELS), (self.direction, DIRECTIONS)):
            if word not in words:
                raise InputError(f"metric {self.name!r}: {word!r} is none of {', '.join(words)}")

    def __call__(self, compute: F) -> F:
        """Register the metric with the function of a record that computes it; InputError for a taken name."""
        METRICS.register(self.name, metric=replace(self, compute=compute))(compute)
        return compute

    @property
    def mark(self) -> str:
        """Why the metric may not rank systems; empty where it may. All tables, figures and pages ask here."""
        if self.direction == NEITHER:
            return DESCRIPTIVE
        if self.gate is None:
            return UNGATED
        return "" if self.gate else NOT_VALID

    @property
    def is_added(self) -> bool:
        """Whether it has no place among the columns, as a metric that was added to the package's."""
        return math.isinf(self.column)

    @property
    def label(self) -> str:
        """The short name, with a dagger where the metric is not valid for ranking."""
        if self.mark in ("", DESCRIPTIVE):
            return self.short
        return f"{self.short} {DAGGER}"


metric = Metric  # as a decorator

# The metrics (fact ``metric``, a :class:`Metric`), and the columns of tables that are none.
METRICS: Registry[Any] = Registry("metric", room="crs_lib.metrics")
FACTS: Registry[Any] = Registry("column", room="crs_lib.metrics")


def fact(name: str, level: str, column: float = math.inf) -> Callable[[F], F]:
    """Decorator: a column of the table of a level that is no metric, at its place among the columns."""
    return FACTS.register(name, level=level, place=column)  # type: ignore[return-value]


def declare(*metrics: Metric) -> None:
    """Register metrics that another scorer gives; InputError for a name that is taken."""
    for declared in metrics:
        METRICS.register(declared.name, metric=declared)(Metric)


def every() -> list[Metric]:
    """All metrics, in the order of registration."""
    return [entry.facts["metric"] for entry in METRICS]


def get(name: str) -> Metric:
    """The declaration of a metric or of a judges' construct; InputError with a suggestion for other names."""
    if name in constructs.CONSTRUCTS and name not in METRICS:
        low, high = constructs.get(name).scale
        return Metric(name, name, SESSION, low, high, HIGHER, "scores of judges (docs/running-llms.md)")
    declared: Metric = METRICS.get(name).facts["metric"]
    return declared


def scored(*levels: str) -> list[Metric]:
    """The metrics that a session has a mean of, by level (turn, shift, session) and place."""
    metrics = []
    for level in levels or LEVELS:
        of_level = [each for each in every() if each.level == level and each.compute and each.averaged]
        metrics += sorted(of_level, key=lambda each: each.column)
    return metrics


def scored_names(*levels: str) -> list[str]:
    """The names of :func:`scored`."""
    return [each.name for each in scored(*levels)]


def columns(level: str) -> dict[str, Compute]:
    """The columns of the table of a level ("turn" or "shift"): metrics and facts, in their order."""
    entries: list[tuple[float, str, Compute]] = []
    for entry in FACTS:
        if entry.facts["level"] == level:
            entries.append((entry.facts["place"], entry.name, entry.make))
    for each in every():
        if each.level == level and each.compute:
            entries.append((each.column, each.name, each.compute))
    entries.sort(key=lambda column: column[0])
    return {name: compute for _, name, compute in entries}


def describe() -> pd.DataFrame:
    """One row a metric, the primary one first: name, short, level, range, direction, mark, version, source.

    Examples
    --------
    >>> describe().set_index("metric").loc["normalised_gain", "range"]
    '[-inf, 1]'
    """
    rows = []
    for each in sorted(every(), key=lambda each: (each.name != PRIMARY, each.level != SESSION, each.name)):
        row: dict[str, Any] = {"metric": each.name, "short": each.short, "level": each.level}
        row["range"] = f"[{each.low:g}, {each.high:g}]"
        row["direction"] = each.direction
        row["mark"] = each.mark
        row["version"] = each.version
        row["source"] = each.source
        rows.append(row)
    return pd.DataFrame(rows)


def in_range(name: str, values: pd.Series) -> bool:
    """Whether every defined value of a metric lies in its declared range (up to rounding).

    Parameters
    ----------
    name : str
        A metric, or a construct of judges.
    values : pandas.Series
        Values of the metric, NaN where it is undefined.

    Examples
    --------
    >>> in_range("precise", pd.Series([0.0, 1.0, None]))
    True
    """
    declared = get(name)
    defined = values.dropna()
    above = defined >= declared.low - 1e-9
    below = defined <= declared.high + 1e-9
    return bool((above & below).all())
