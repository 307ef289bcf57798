"""The input of a metric (a turn, a shift or a session, prepared by ``evaluate/scorer.py``), and its scores.
Concepts (``field=value``) are codes, items numbers of the catalogue; ``turn.once(function)`` calls
``function(turn)`` once.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.metrics import constructs
from crs_lib.metrics.conventions import Convention

if TYPE_CHECKING:
    from crs_lib.catalog.catalog import Catalog
    from crs_lib.catalog.grounder import Grounder

T = TypeVar("T")
P = TypeVar("P", bound="_Prepared")
_COUNTS = "n_turns n_shifts n_both_empty_turns n_hallucinated_titles missing_concepts hallucinated_concepts"


@dataclass(eq=False)
class _Prepared:
    """A record that remembers the values computed from it."""

    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def once(self: P, function: Callable[[P], T]) -> T:
        """``function(self)``, computed at the first call; ``function`` must be named, not made anew."""
        if function not in self._known:
            self._known[function] = function(self)
        found: T = self._known[function]
        return found


@dataclass(eq=False)
class Background(_Prepared):
    """The part that all turns of a scoring share: the catalogue, its concepts, and the convention."""

    catalog: "Catalog"
    concepts: "Grounder"
    rule: Convention


class _Scored(_Prepared):
    """A record of a scoring."""

    background: Background

    @property
    def rule(self) -> Convention:
        """The convention of the scoring."""
        return self.background.rule


class Text(NamedTuple):
    """An utterance or reply: its folded words, and the concepts that it names."""

    words: Sequence[str]
    concepts: frozenset[int]


class StateChange(NamedTuple):
    """The constraints that a shift added, dropped and kept."""

    added: frozenset[int]
    dropped: frozenset[int]
    kept: frozenset[int]


@dataclass(eq=False)
class TurnRecord(_Scored):
    """A USER utterance and the SYSTEM reply to it. ``number`` counts from 1, ``since_shift`` from the last
    shift (0; None before the first). ``constraints`` and ``exclusions`` are the logged state, ``dropped``
    what was given up or excluded so far and is not in force. ``asked``: the user asks for items, ``others``:
    for other ones. ``items`` are the recommended ones in order with their concepts ``facts``, ``seen`` those
    of earlier replies, ``recent`` since the state last changed by ``change``. ``stated`` is the state that
    the system says it holds, a value that the catalogue lacks as a negative number; None where it says
    nothing. ``reading``: that of a shift's open words by which the turn is scored.
    """

    number: int
    pair: Pair
    user: Text
    system: Text
    constraints: frozenset[int]
    exclusions: frozenset[int]
    dropped: frozenset[int]
    asked: bool
    items: Sequence[int]
    facts: Sequence[frozenset[int]]
    seen: frozenset[int]
    since_shift: int | None
    before: "TurnRecord | None"
    background: Background
    others: bool = False
    recent: frozenset[int] = frozenset()
    change: StateChange | None = None
    stated: frozenset[int] | None = None
    reading: str = ""


@dataclass(eq=False)
class ShiftRecord(_Scored):
    """A change of the user's constraints: its turn (from 1) and its logged event (empty if only flagged).
    ``before`` is the turn before it, ``replies`` the turns until the next shift, ``rest`` until the end, its
    own first; ``arms`` the replies to the same constraints in other arms, by arm.
    """

    turn: int
    event: Mapping[str, Any]
    before: TurnRecord | None
    replies: Sequence[TurnRecord]
    rest: Sequence[TurnRecord]
    background: Background
    arms: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    first: bool = True

    @property
    def type(self) -> str:
        """The logged type of the shift; empty where the log has none."""
        return str(self.event.get("type", ""))

    @property
    def explicitness(self) -> str:
        """How the shift was voiced: "explicit", or "implicit" where a situation implies it."""
        return str(self.event.get("explicitness", "explicit"))

    @property
    def open_scope(self) -> bool:
        """Whether the words leave open what becomes of earlier constraints."""
        return self.event.get("scope") == "open"


@dataclass(eq=False)
class SessionRecord(_Scored):
    """A whole session: its turns and its shifts, in order."""

    turns: Sequence[TurnRecord]
    shifts: Sequence[ShiftRecord]
    background: Background

    def values(self, metric: Callable[[TurnRecord], float]) -> list[float]:
        """A turn metric in every turn, NaN where it is undefined."""
        return [turn.once(metric) for turn in self.turns]

    def mean(self, metric: Callable[[TurnRecord], float]) -> float:
        """Mean of a turn metric over the turns that define it; NaN where none does."""
        return mean_defined(self.values(metric))


def mean_defined(values: Iterable[float]) -> float:
    """Mean of the defined values; NaN where there is none."""
    known = defined(values)
    return sum(known) / len(known) if known else math.nan


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
    session = {
        "model": model, "session_id": session_id, "voice": "", "convention": convention,
        **dict.fromkeys(metrics, math.nan),
        "judge": dict.fromkeys(constructs.CONSTRUCTS),
        "detail": {**dict.fromkeys(_COUNTS.split(), 0), "defined_turns": {}, "failed": reason},
    }  # fmt: skip
    return Scores([], [], session)


class BatchScorer(Protocol):
    """Scores dialogues; the answers do not depend on which are given together."""

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]: ...
