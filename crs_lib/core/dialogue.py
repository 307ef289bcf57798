"""Dialogue: the one conversation record of all studies, in JSON and as HTML.

A dialogue is a sequence of turns; what else its JSON record holds is kept as it is. The log of a simulated
user is read as :class:`State` (what the user wants in a turn) and :class:`ShiftEvent` (a change of mind).
"""

import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten

USER, SYSTEM = "USER", "SYSTEM"
FOLLOW_UP = "follow_up"  # the logged stage of a user who asks for films other than those shown
OPEN = "open"  # the logged scope of a shift that leaves open what becomes of earlier constraints
_SHOWN_CHARACTERS = 4_000
# A mark's backgrounds: Okabe-Ito hues, light ones to read black text on, dark ones to read white text on.
_LIGHT = "#cfe8f7 #fbe0b2 #cdeadf #f7d3e5 #f1eb9c #dcd3f2 #e4e4e4 #f9cdbb".split()
_DARK = "#1f4a63 #5f4614 #1d4d3d #5c2845 #4e4a10 #423566 #45484c #633524".split()


def asks_for_others(user_meta: Mapping[str, Any]) -> bool:
    """Whether the log of a user turn says that the user asks for films other than those shown."""
    return user_meta.get("stage") == FOLLOW_UP


@dataclass(frozen=True)
class State:
    """What a user wants in a turn: ``constraints`` and ``avoid`` map a field to a value or to several.
    ``asks``: the user asks for items; ``clarified``: the user has said what open words meant;
    ``interpretation``: that of open words by which the state is read; ``logged``: whether the log names
    constraints at all.
    """

    constraints: Mapping[str, Any] = field(default_factory=dict)
    avoid: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = True
    clarified: bool = False
    stage: str = ""
    interpretation: str = ""
    logged: bool = False

    @classmethod
    def from_json(cls, log: Mapping[str, Any], interpretation: str = "") -> "State":
        """The state that a log (``user_meta``, or an interpretation of a shift) tells of."""
        return cls(
            constraints=log.get("constraints") or {},
            avoid=log.get("avoid") or {},
            asks=bool(log.get("asks", True)),
            clarified=bool(log.get("clarified")),
            stage=log.get("stage", ""),
            interpretation=interpretation,
            logged="constraints" in log,
        )

    def to_json(self) -> dict[str, Any]:
        """The state as a shift event logs an interpretation."""
        return {"constraints": self.constraints, "avoid": self.avoid}

    @property
    def asks_for_others(self) -> bool:
        """Whether the user asks for films other than those shown."""
        return self.stage == FOLLOW_UP


@dataclass(frozen=True)
class ShiftEvent:
    """A change of the user's constraints at a turn (from 1). Where its words left open what becomes of
    earlier constraints, ``interpretations`` are the states that they allow and ``interpretation`` names the
    one meant. ``log`` is the whole record, empty where a shift was only flagged.
    """

    turn: int
    type: str = ""
    explicitness: str = "explicit"
    open_scope: bool = False
    interpretation: str = ""
    interpretations: Mapping[str, State] = field(default_factory=dict)
    log: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, log: Mapping[str, Any], turn: int | None = None) -> "ShiftEvent":
        """Read a logged event; a ``turn`` that is given counts in place of the log's."""
        interpretations = {}
        for name, state in (log.get("readings") or {}).items():
            interpretations[name] = State.from_json(state, name)
        return cls(
            turn=int(log["turn"] if turn is None else turn),
            type=str(log.get("type", "")),
            explicitness=str(log.get("explicitness", "explicit")),
            open_scope=log.get("scope") == OPEN,
            interpretation=log.get("reading", ""),
            interpretations=interpretations,
            log=log,
        )

    def to_json(self) -> dict[str, Any]:
        """The event as it was logged."""
        return dict(self.log)

    @property
    def summary(self) -> str:
        """The event in a few words: its type, the fields, and the value that bridges them."""
        text = str(self.log.get("type", "shift"))
        old, new, bridge = (self.log.get(key) for key in ("from_focus", "to_focus", "bridge_value"))
        if old and new:
            text += f" {old} → {new}"
        if bridge:
            text += f" (bridge: {bridge})"
        return text


class Mark(NamedTuple):
    """A stretch of a turn's text that grounding found: half-open character range, field, value."""

    start: int
    end: int
    field: str
    value: str


@dataclass(frozen=True)
class Turn:
    """One utterance; ``meta`` holds all else of its JSON record, ``marks`` are for display alone."""

    speaker: str
    text: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()

    @property
    def user_meta(self) -> Mapping[str, Any]:
        """The simulator's log of a USER turn; empty where the log has none."""
        return self.meta.get("user_meta") or {}

    @cached_property
    def state(self) -> State:
        """What the user wants in this turn, as logged."""
        return State.from_json(self.user_meta)

    def to_json(self) -> dict[str, Any]:
        """The record as the thesis wrote it: speaker, text, then the turn's own keys."""
        return {"speaker": self.speaker, "text": self.text, **self.meta}


class Pair(NamedTuple):
    """A USER utterance and the SYSTEM reply to it; ``turn`` counts from 1."""

    turn: int
    user: Turn
    system: Turn


@dataclass(frozen=True)
class Dialogue:
    """One session. Shows itself in JupyterLab with matched spans coloured and shifts marked.
    ``tinted`` are the fields of its marks in the order of their colours; others get one by their name.
    """

    session_id: str
    model_name: str
    turns: tuple[Turn, ...]
    true_genre: str | None = None
    shift_events: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    tinted: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def pairs(self) -> list[Pair]:
        """The USER→SYSTEM pairs in order; a last USER turn without a reply is left out."""
        exchanges = zip(self.turns[0::2], self.turns[1::2], strict=False)
        return [Pair(turn, user, system) for turn, (user, system) in enumerate(exchanges, start=1)]

    def head(self, n: int) -> "Dialogue":
        """The first ``n`` turns (utterance and reply), and the shifts among them."""
        events = tuple(event for event in self.shift_events if int(event.get("turn", 0)) <= n)
        return replace(self, turns=self.turns[: 2 * n], shift_events=events)

    def changes(self) -> dict[int, ShiftEvent]:
        """The shifts by their turn (from 1), in order: those of the log, and those that a turn only flags."""
        events = {}
        for log in self.shift_events:
            if "turn" in log:
                event = ShiftEvent.from_json(log)
                events[event.turn] = event
        for pair in self.pairs():
            if pair.user.user_meta.get("shift_event") is True and pair.turn not in events:
                events[pair.turn] = ShiftEvent(pair.turn)
        return dict(sorted(events.items()))

    def shift_turns(self) -> list[int]:
        """The 1-based turns at which the log says that the constraints shifted, sorted and unique."""
        return list(self.changes())

    def with_marks(self, marks: Iterable[Iterable[Mark]], tinted: Sequence[str] = ()) -> "Dialogue":
        """A copy whose turns carry these marks, one collection a turn; ``tinted``: fields by colour."""
        turns = []
        for turn, turn_marks in zip(self.turns, marks, strict=True):
            turns.append(replace(turn, marks=tuple(turn_marks)))
        return replace(self, turns=tuple(turns), tinted=tuple(tinted))

    def to_json(self) -> dict[str, Any]:
        """The record in the thesis's form; our own keys come after the thesis's."""
        record: dict[str, Any] = {"session_id": self.session_id, "model_name": self.model_name}
        record["true_genre"] = self.true_genre
        record["conversation"] = [turn.to_json() for turn in self.turns]
        record["shift_events"] = [dict(event) for event in self.shift_events]
        record.update(self.extra)
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any], *, source: str = "dialogue") -> "Dialogue":
        """Read one record; unknown keys are kept. Raises InputError naming the turn that is wrong."""
        where = f"{source}, session {record.get('session_id', '?')!r}"
        extra = dict(record)
        conversation = extra.pop("conversation", None)
        if not isinstance(conversation, list) or not conversation:
            raise InputError(f"{where}: 'conversation' must be a list of turns, and not empty")
        events = extra.pop("shift_events", None) or []
        if not isinstance(events, list | tuple) or not all(isinstance(event, Mapping) for event in events):
            raise InputError(f"{where}: 'shift_events' is {events!r:.80}, expected a list of objects")
        turns = tuple(_read_turn(entry, number, where) for number, entry in enumerate(conversation, start=1))
        session, model = str(extra.pop("session_id", "")), str(extra.pop("model_name", ""))
        return cls(session, model, turns, extra.pop("true_genre", None), tuple(events), extra)

    def dumps(self) -> str:
        """One line of JSON, the same bytes for the same dialogue."""
        return json.dumps(self.to_json(), ensure_ascii=False, separators=(", ", ": "))

    def _repr_html_(self) -> str:
        """A table: text escaped, spans coloured by field, shifts marked at their turns."""
        fields = sorted({mark.field for turn in self.turns for mark in turn.marks})
        colours = {name: _LIGHT[tint_place(name, self.tinted)] for name in fields}
        changes = self.changes()
        rows = []
        for index, turn in enumerate(self.turns):
            number = index // 2 + 1
            row = _Row(number, turn.speaker.lower(), _segments(turn), changes.get(number))
            if index % 2:  # a reply
                row = row._replace(number="", event=None)
            rows.append(row)
        page: str = _template().render(dialogue=self, colours=colours, rows=rows)
        return page


def _read_turn(entry: object, number: int, source: str) -> Turn:
    """One turn of a record, checked: USER and SYSTEM alternate, USER first."""
    where = f"{source}: turn {number}"
    if not isinstance(entry, Mapping) or not isinstance(entry.get("text"), str):
        raise InputError(f"{where} must be an object with a text")
    expected = USER if number % 2 else SYSTEM
    meta = dict(entry)
    text = meta.pop("text")
    speaker = meta.pop("speaker", None)
    if str(speaker).upper() != expected:
        order = "USER and SYSTEM must alternate, USER first"
        raise InputError(f"{where} is spoken by {speaker!r}, expected {expected}; {order}")
    if len(text) > 10_000:
        safety.check_limit("turn_characters", len(text), f"{where} has")
    return Turn(expected, text, meta)


class _Segment(NamedTuple):
    """A stretch of a shown text; plain where it has no ``field``, else ``names`` are all marks in it."""

    text: str
    field: str = ""
    names: str = ""


class _Row(NamedTuple):
    """A turn as the page shows it: its number (a reply has none), speaker, text, and the shift before it."""

    number: int | str
    speaker: str
    segments: list[_Segment]
    event: ShiftEvent | None


def _segments(turn: Turn) -> list[_Segment]:
    """The text of a turn cut at its marks; of overlapping ones the longest is shown, with all names."""
    text = shorten(turn.text, _SHOWN_CHARACTERS)
    segments = []
    position = 0
    for mark in _apart(turn.marks, len(text)):
        inside = [other for other in turn.marks if mark.start <= other.start and other.end <= mark.end]
        names = ", ".join(f"{other.field}={other.value}" for other in inside)
        segments.append(_Segment(text[position : mark.start]))
        segments.append(_Segment(text[mark.start : mark.end], mark.field, names))
        position = mark.end
    segments.append(_Segment(text[position:]))
    return segments


def _apart(marks: Iterable[Mark], length: int) -> list[Mark]:
    """Marks within a length that do not overlap, in text order: longer ones go first."""
    chosen: list[Mark] = []
    for mark in sorted(marks, key=lambda mark: (mark.start - mark.end, mark.start)):
        if mark.end <= length and all(mark.end <= other.start or mark.start >= other.end for other in chosen):
            chosen.append(mark)
    return sorted(chosen)


@cache
def _template() -> Any:
    """The page of a dialogue, which escapes all that it is given."""
    import jinja2  # takes longer to import than all that a command needs of this file

    loader = jinja2.PackageLoader("crs_lib.core", "")
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.get_template("dialogue.html")


def tint_place(field: str, fields: Collection[str] = ()) -> int:
    """The place of a field's colours, 0 to 7: that among ``fields``, or else by a hash of the name."""
    order = list(fields)
    if field in order:
        return order.index(field) % len(_LIGHT)
    return zlib.crc32(field.encode()) % len(_LIGHT)


def tint_css() -> str:
    """The colours as rules of a style sheet: ``.f0`` to ``.f7``, light and dark."""
    light = "; ".join(f"--f{number}: {tint}" for number, tint in enumerate(_LIGHT))
    dark = "; ".join(f"--f{number}: {tint}" for number, tint in enumerate(_DARK))
    rules = " ".join(f".f{number} {{ background: var(--f{number}); }}" for number in range(len(_LIGHT)))
    return f":root {{ {light}; }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}; }} }}\n{rules}\n"
