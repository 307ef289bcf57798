"""The registry of metrics: each is one registered function, and every table and figure reads the registry.

A metric is registered beside its formula in a file of this room::

    @metric("novelty", "N", TURN, 0, 1, NEITHER, source="docs/metrics.md, section 4")
    def novelty_of_turn(turn: TurnRecord) -> float:
        return sum(item not in turn.seen for item in turn.items) / len(turn.items) if turn.items else math.nan

The function takes the prepared record of its level (:mod:`crs_lib.metrics.records`) and returns NaN where the
metric is undefined. The scorer computes the metric: ``turns.parquet`` or ``shifts.parquet`` gets a column,
``results.jsonl`` its mean over the session, and ``model_metrics.csv``, report, trace and gate get a row.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.metrics import constructs

_LEVELS = TURN, SHIFT, SESSION = ("turn", "shift", "session")
HIGHER, LOWER, NEITHER = "higher is better", "lower is better", "no better or worse"
NOT_VALID, DESCRIPTIVE = "not valid for ranking", "no direction, not for ranking"
UNGATED = "not gated, not for ranking"
DAGGER = "†"
DAGGER_NOTE = (
    f"{DAGGER} not valid for ranking: fails orderings of control policies, or was put to none "
    "(docs/validity.md, section 1)"
)
F = TypeVar("F", bound=Callable[[Any], Any])


@dataclass(frozen=True)
class Metric:
    """A quantity as tables name it: ``short`` is the name in figures, ``low`` and ``high`` are the range.
    ``gate``: whether it orders the control policies as it must and may rank systems; None where no gate
    tested it. ``compute`` takes the record of the level; None for a metric of another scorer. One that is not
    ``averaged`` (a list a turn) has no mean. The session value of a shift metric is the mean over its shifts,
    or that of the ``primary`` window alone; ``ratio``: two metrics, of whose means it is the ratio.
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
    compute: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        """Raise InputError for an unknown level or direction."""
        for given, known in ((self.level, _LEVELS), (self.direction, (HIGHER, LOWER, NEITHER))):
            if given not in known:
                raise InputError(f"metric {self.name!r}: {given!r} is none of {', '.join(known)}")

    def __call__(self, compute: F) -> F:
        """Register the metric with the function of a record that computes it; InputError for a taken name."""
        METRICS.register(self.name, metric=replace(self, compute=compute))(compute)
        return compute

    @property
    def mark(self) -> str:
        """Why the metric may not rank systems; empty where it may. All tables, figures and pages ask here."""
        if self.direction == NEITHER:
            return DESCRIPTIVE
        return {True: "", False: NOT_VALID, None: UNGATED}[self.gate]

    @property
    def label(self) -> str:
        """The short name, with a dagger where the metric is not valid for ranking."""
        return f"{self.short} {DAGGER}" if self.mark not in ("", DESCRIPTIVE) else self.short


metric = Metric  # as a decorator

# The metrics (fact ``metric``, a :class:`Metric`), and the columns of tables that are none (fact ``level``).
METRICS: Registry[Any] = Registry("metric", room="crs_lib.metrics")
FACTS: Registry[Any] = Registry("column", room="crs_lib.metrics")

# The columns of ``turns.parquet``, ``shifts.parquet`` and the sessions, in order; others stand behind them.
_ORDER = """
    cross_coherence context_retention topic_interference topic_adaptation_score undefined slot_f1
    n_items n_wishes satisfaction satisfaction_corrected satisfaction_popular
    novelty topic_interference_leakage copying item_tas n_hallucinated_titles state_f1 state_joint
    missing_concepts hallucinated_concepts since_shift normalised_gain first_gain new_and_fits precise
    found_at_3 violations false_claims uptake release retention hit_by_chance
    n_answers watched delay_text recovered_text delay_item recovered_item primary cost_undefined
    shift_cost share_lost conversation_cost history_cost misfit misfit_at_0 delay stale wrong
    straight_gain fresh_gain open_scope_cost open_scope_gain history_cost_v2 placebo_cost
    topic_recovery_rate avg_recovery_delay item_recovery_rate context_adaptation_score tas_volatility
""".split()


def declare(*metrics: Metric) -> None:
    """Register metrics that another scorer gives; InputError for a name that is taken."""
    for one in metrics:
        METRICS.register(one.name, metric=one)(Metric)


def every() -> list[Metric]:
    """All metrics, in the order of registration."""
    return [entry.facts["metric"] for entry in METRICS]


def get(name: str) -> Metric:
    """The declaration of a metric or of a judges' construct; InputError with a suggestion for other names."""
    if name in constructs.CONSTRUCTS and name not in METRICS:
        low, high = constructs.get(name).scale
        return Metric(name, name, SESSION, low, high, HIGHER, "scores of judges (docs/running-llms.md)")
    one: Metric = METRICS.get(name).facts["metric"]
    return one


def scored(*levels: str) -> list[Metric]:
    """The metrics that a session has a mean of, by level (turn, shift, session) and place."""
    known = [one for one in every() if one.compute and one.averaged and one.level in (levels or _LEVELS)]
    return sorted(known, key=lambda one: (_LEVELS.index(one.level), _place(one.name)))


def scored_names(*levels: str) -> list[str]:
    """The names of :func:`scored`."""
    return [one.name for one in scored(*levels)]


def columns(level: str) -> dict[str, Callable[[Any], Any]]:
    """The columns of the table of a level ("turn" or "shift"): metrics and facts, in their order."""
    known = {entry.name: entry.make for entry in FACTS if entry.facts["level"] == level}
    known |= {one.name: one.compute for one in every() if one.compute and one.level == level}
    return {name: known[name] for name in sorted(known, key=_place)}


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def describe() -> pd.DataFrame:
    """One row a metric, sorted: name, short name, level, range, direction, mark, version, source."""
    rows = [
        {
            "metric": m.name, "short": m.short, "level": m.level, "range": f"[{m.low:g}, {m.high:g}]",
            "direction": m.direction, "mark": m.mark, "version": m.version, "source": m.source,
        }
        for m in sorted(every(), key=lambda m: (m.level != SESSION, m.name))
    ]  # fmt: skip
    return pd.DataFrame(rows)


def in_range(name: str, values: pd.Series) -> bool:
    """Whether every defined value of a metric lies in its declared range (up to rounding)."""
    metric, known = get(name), values.dropna()
    return bool(((known >= metric.low - 1e-9) & (known <= metric.high + 1e-9)).all())
