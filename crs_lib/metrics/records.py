"""The input of a metric (a turn, a shift or a session, prepared by ``evaluate/scorer.py``), and its scores.
Concepts (``field=value``) are codes, items numbers of the catalogue; ``turn.once(function)`` calls
``function(turn)`` once.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from crs_lib.core.dialogue import Dialogue, Pair, ShiftEvent, State
from crs_lib.metrics import constructs
from crs_lib.metrics.conventions import Convention

if TYPE_CHECKING:
    from crs_lib.catalog.catalog import Catalog
    from crs_lib.catalog.grounder import Grounder

T = TypeVar("T")
R = TypeVar("R", bound="_Record")
NONE: frozenset[int] = frozenset()  # no concept, or no item
_COUNTS = "n_turns n_shifts n_both_empty_turns n_hallucinated_titles missing_concepts hallucinated_concepts"


@dataclass(eq=False)
class _Record:
    """A record that remembers the values computed from it."""

    _values: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def once(self: R, function: Callable[[R], T]) -> T:
        """``function(self)``, computed at the first call; ``function`` must be named, not made anew."""
        values: dict[Any, T] = self._values
        if function not in values:
            values[function] = function(self)
        return values[function]

    def row(self: R, columns: Mapping[str, Callable[[R], Any]]) -> dict[str, Any]:
        """The values of several functions by the names of their columns, each computed once."""
        values = self._values
        row = {}
        for name, function in columns.items():
            if function not in values:
                values[function] = function(self)
            row[name] = values[function]
        return row


@dataclass(eq=False)
class Background(_Record):
    """The part that all turns of a scoring share: the catalogue, its concepts, and the convention."""

    catalog: "Catalog"
    concepts: "Grounder"
    convention: Convention
    _codes: dict[tuple[str, str], int | None] = field(default_factory=dict, init=False, repr=False)

    def all_codes(self, values: Mapping[str, Any]) -> list[int | None]:
        """The code of every value of a scored field; None for a value that the catalogue lacks."""
        codes = []
        for name, value in values.items():
            if name not in self.concepts.active_fields:
                continue
            for single in _as_list(value):
                codes.append(self._code(name, str(single)))
        return codes

    def codes(self, values: Mapping[str, Any]) -> frozenset[int]:
        """The codes of constraints (field to value or values) that the catalogue has."""
        return frozenset(code for code in self.all_codes(values) if code is not None)

    def _code(self, name: str, value: str) -> int | None:
        key = (name, value)
        if key not in self._codes:
            self._codes[key] = self.catalog.known_code(name, value)
        return self._codes[key]


def _as_list(value: Any) -> Sequence[Any]:
    """The values that a log gives a field: one or several, or none."""
    if isinstance(value, str | int):
        return [value]
    return value or []


class Text(NamedTuple):
    """An utterance or reply: its folded words, and the concepts that it names."""

    words: Sequence[str]
    concepts: frozenset[int]


class StateChange(NamedTuple):
    """The constraints that a shift added, dropped and retained."""

    added: frozenset[int]
    dropped: frozenset[int]
    retained: frozenset[int]

    @classmethod
    def between(cls, old: frozenset[int], new: frozenset[int]) -> "StateChange":
        """The change from constraints to others."""
        return cls(new - old, old - new, new & old)


class Wanted(NamedTuple):
    """What films are measured by: the active constraints, and the values that are excluded."""

    constraints: frozenset[int]
    exclusions: frozenset[int]

    def level(self, facts: Collection[int]) -> int:
        """The number of constraints that a film with these concepts meets; 0 where it breaks an exclusion."""
        if not self.exclusions.isdisjoint(facts):
            return 0
        return len(self.constraints.intersection(facts))

    def met_by(self, facts: frozenset[int]) -> bool:
        """Whether a film with these concepts meets every constraint and breaks no exclusion."""
        return self.constraints <= facts and self.exclusions.isdisjoint(facts)


@dataclass(eq=False)
class TurnRecord(_Record):
    """A USER utterance and the SYSTEM reply to it. ``number`` counts from 1, ``since_shift`` from the last
    shift (0; None before the first). ``state`` is what the user wants as logged, or as open words are read;
    ``wanted`` are its codes. ``items`` are the recommended ones in order, ``seen`` those of earlier replies,
    ``recent`` those since the state last changed by ``change``.
    """

    number: int
    pair: Pair
    user: Text
    system: Text
    state: State
    wanted: Wanted
    items: Sequence[int]
    since_shift: int | None
    before: "TurnRecord | None"
    background: Background
    change: StateChange | None = None

    def __post_init__(self) -> None:
        """Take over what the turns before have shown."""
        before = self.before
        self.seen: frozenset[int] = NONE
        self.recent: frozenset[int] = NONE
        if before is None:
            return
        self.seen = before.seen.union(before.items)
        if self.wanted == before.wanted:
            self.recent = before.recent.union(before.items)

    @property
    def convention(self) -> Convention:
        """The convention of the scoring."""
        return self.background.convention

    @property
    def constraints(self) -> frozenset[int]:
        """The active constraints."""
        return self.wanted.constraints

    @property
    def exclusions(self) -> frozenset[int]:
        """The values that are excluded."""
        return self.wanted.exclusions

    @cached_property
    def facts(self) -> list[frozenset[int]]:
        """The concepts of each recommended item."""
        fact_sets = self.background.catalog.fact_sets
        return [fact_sets[item] for item in self.items]

    @cached_property
    def dropped(self) -> frozenset[int]:
        """What was given up or excluded so far and is not in force."""
        earlier = NONE
        if self.before is not None:
            earlier = self.before.dropped | self.before.constraints
        return (earlier | self.exclusions) - self.constraints

    @property
    def stale(self) -> frozenset[int]:
        """The items that gain nothing: those shown since the state changed, if the user asks for others."""
        return self.recent if self.state.asks_for_others else NONE

    @property
    def measurable(self) -> bool:
        """Whether there are constraints, and items that are shown or asked for."""
        return bool(self.constraints and (self.items or self.state.asks))


@dataclass(eq=False)
class ShiftRecord(_Record):
    """A change of the user's constraints: its turn (from 1) and its event (without a log if only flagged).
    ``before`` is the turn before it, ``replies`` the turns until the next shift, ``following`` all, its
    own first; ``arms`` the replies to the same constraints in other arms, by arm.
    """

    turn: int
    event: ShiftEvent
    before: TurnRecord | None
    replies: Sequence[TurnRecord]
    following: Sequence[TurnRecord]
    background: Background
    arms: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    first: bool = True

    @property
    def convention(self) -> Convention:
        """The convention of the scoring."""
        return self.background.convention

    @property
    def open_scope(self) -> bool:
        """Whether the words leave open what becomes of earlier constraints."""
        return self.event.open_scope


@dataclass(eq=False)
class SessionRecord(_Record):
    """A whole session: its turns and its shifts, in order."""

    turns: Sequence[TurnRecord]
    shifts: Sequence[ShiftRecord]
    background: Background

    @property
    def convention(self) -> Convention:
        """The convention of the scoring."""
        return self.background.convention

    def values(self, metric: Callable[[TurnRecord], float]) -> list[float]:
        """A turn metric in every turn, NaN where it is undefined."""
        return [turn.once(metric) for turn in self.turns]

    def mean(self, metric: Callable[[TurnRecord], float]) -> float:
        """Mean of a turn metric over the turns that define it; NaN where none does."""
        return mean_defined(self.values(metric))


def mean_defined(values: Iterable[float]) -> float:
    """Mean of the defined values; NaN where there is none."""
    numbers = defined(values)
    return sum(numbers) / len(numbers) if numbers else math.nan


def defined(values: Iterable[float]) -> list[float]:
    """The values that are not NaN, in their order."""
    return [value for value in values if value == value]  # NaN equals nothing, itself included


class Scores(NamedTuple):
    """The scores of a dialogue: turn rows, shift rows, and the session's record."""

    turns: list[dict[str, Any]]
    shifts: list[dict[str, Any]]
    session: dict[str, Any]


def unscored(model: str, session_id: str, convention: str, metrics: Sequence[str], reason: str) -> Scores:
    """The record of a session without a dialogue: every metric null, nothing counted, ``failed`` says why."""
    session: dict[str, Any] = {
        "model": model,
        "session_id": session_id,
        "voice": "",
        "convention": convention,
    }
    session.update(dict.fromkeys(metrics, math.nan))
    session["judge"] = dict.fromkeys(constructs.CONSTRUCTS)
    detail: dict[str, Any] = dict.fromkeys(_COUNTS.split(), 0)
    session["detail"] = detail | {"defined_turns": {}, "failed": reason}
    return Scores([], [], session)


class BatchScorer(Protocol):
    """Scores dialogues; the answers do not depend on which are given together."""

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]: ...
