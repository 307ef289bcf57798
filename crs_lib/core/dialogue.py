"""Turn and Dialogue: the one conversation record of all studies, in JSON and as HTML."""

import html
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from crs_lib.core import prompts, safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten

USER, SYSTEM = "USER", "SYSTEM"
_SHOWN_CHARACTERS = 4_000
_PAGE = "movies/dialogue"  # the HTML of a dialogue, and the colours of its fields
_TINTED = "genre actor director writer language plot year title".split()


def asks_for_others(user_meta: Mapping[str, Any]) -> bool:
    """Whether the log of a user turn says that the user asks for films other than those shown."""
    return user_meta.get("stage") == "follow_up"


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
    """One session. Shows itself in JupyterLab with matched spans coloured and shifts marked."""

    session_id: str
    model_name: str
    turns: tuple[Turn, ...]
    true_genre: str | None = None
    shift_events: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def pairs(self) -> list[Pair]:
        """The USER→SYSTEM pairs in order; a last USER turn without a reply is left out."""
        heads = zip(self.turns[0::2], self.turns[1::2], strict=False)
        return [Pair(i, user, system) for i, (user, system) in enumerate(heads, start=1)]

    def head(self, n: int) -> "Dialogue":
        """The first ``n`` turns (utterance and reply), and the shifts among them."""
        events = tuple(event for event in self.shift_events if int(event.get("turn", 0)) <= n)
        return replace(self, turns=self.turns[: 2 * n], shift_events=events)

    def shift_turns(self) -> list[int]:
        """The 1-based turns at which the log says that the constraints shifted, sorted and unique."""
        logged = {int(event["turn"]) for event in self.shift_events if "turn" in event}
        flagged = {pair.turn for pair in self.pairs() if pair.user.user_meta.get("shift_event") is True}
        return sorted(logged | flagged)

    def with_marks(self, marks: Iterable[Iterable[Mark]]) -> "Dialogue":
        """A copy whose turns carry these marks, one collection a turn."""
        pairs = zip(self.turns, marks, strict=True)
        return replace(self, turns=tuple(replace(turn, marks=tuple(found)) for turn, found in pairs))

    def to_json(self) -> dict[str, Any]:
        """The record in the thesis's form; our own keys come after the thesis's."""
        own = {name: getattr(self, name) for name in ("session_id", "model_name", "true_genre")}
        turns, events = [turn.to_json() for turn in self.turns], [dict(event) for event in self.shift_events]
        return {**own, "conversation": turns, "shift_events": events, **self.extra}

    @classmethod
    def from_json(cls, record: Mapping[str, Any], *, source: str = "dialogue") -> "Dialogue":
        """Read one record; unknown keys are kept. Raises InputError naming the turn that is wrong."""
        where, extra = f"{source}, session {record.get('session_id', '?')!r}", dict(record)
        conversation, events = extra.pop("conversation", None), extra.pop("shift_events", None) or []
        if not isinstance(conversation, list) or not conversation:
            raise InputError(f"{where}: 'conversation' must be a list of turns, and not empty")
        if not isinstance(events, list | tuple) or not all(isinstance(one, Mapping) for one in events):
            raise InputError(f"{where}: 'shift_events' is {events!r:.80}, expected a list of objects")
        turns = tuple(_turn(entry, i, where) for i, entry in enumerate(conversation))
        session, model = (str(extra.pop(name, "")) for name in ("session_id", "model_name"))
        return cls(session, model, turns, extra.pop("true_genre", None), tuple(events), extra)

    def dumps(self) -> str:
        """One line of JSON, the same bytes for the same dialogue."""
        return json.dumps(self.to_json(), ensure_ascii=False, separators=(", ", ": "))

    def _repr_html_(self) -> str:
        """A table: text escaped, spans coloured by field, shifts marked at their turns."""
        fields = sorted({mark.field for turn in self.turns for mark in turn.marks})
        look = prompts.lists(_PAGE)
        colours = {name: look["light"][tint_place(name)] for name in fields}
        events = {int(event["turn"]): event for event in self.shift_events if "turn" in event}
        shifts, rows = set(self.shift_turns()), ""
        for index, turn in enumerate(self.turns):
            number, is_user = index // 2 + 1, turn.speaker == USER
            if is_user and number in shifts:
                event = events.get(number, {})
                old, new, bridge = (event.get(key) for key in ("from_focus", "to_focus", "bridge_value"))
                told = f"{event.get('type', 'shift')}{f' {old} → {new}' if old and new else ''}"
                told += f" (bridge: {bridge})" if bridge else ""
                rows += look["shift"].format(number, html.escape(told))
            shown = (number if is_user else "", turn.speaker.lower(), _marked(turn, colours))
            rows += look["turn"].format(look["papers"][is_user], *shown)
        head = f"<b>{html.escape(self.model_name)}</b> · session {html.escape(self.session_id)}"
        legend = " ".join(look["legend"].format(colours[name], html.escape(name)) for name in fields)
        return str(look["table"].format(f"{head} · {legend}" if legend else head, rows))


def _turn(entry: object, index: int, where: str) -> Turn:
    """One turn of a record, checked: USER and SYSTEM alternate, USER first."""
    where, expected = f"{where}: turn {index + 1}", (USER, SYSTEM)[index % 2]
    if not isinstance(entry, Mapping) or not isinstance(entry.get("text"), str):
        raise InputError(f"{where} must be an object with a text")
    meta = dict(entry)
    text, speaker = meta.pop("text"), meta.pop("speaker", None)
    if str(speaker).upper() != expected:
        must = "USER and SYSTEM must alternate, USER first"
        raise InputError(f"{where} is spoken by {speaker!r}, expected {expected}; {must}")
    if len(text) > 10_000:
        safety.check_limit("turn_characters", len(text), f"{where} has")
    return Turn(expected, text, meta)


def _marked(turn: Turn, colours: Mapping[str, str]) -> str:
    """The escaped text; of overlapping marks the longest is shown, all are named in its tooltip."""
    text, apart = shorten(turn.text, _SHOWN_CHARACTERS), list[Mark]()
    for mark in sorted(turn.marks, key=lambda m: (m.start - m.end, m.start)):
        if mark.end <= len(text) and all(mark.end <= o.start or mark.start >= o.end for o in apart):
            apart.append(mark)
    out, position, form = "", 0, prompts.lists(_PAGE)["mark"]
    for mark in sorted(apart):
        inside = [m for m in turn.marks if m.start >= mark.start and m.end <= mark.end]
        names = html.escape(", ".join(f"{m.field}={m.value}" for m in inside))
        shown = html.escape(text[mark.start : mark.end])
        out += html.escape(text[position : mark.start]) + form.format(colours[mark.field], names, shown)
        position = mark.end
    return out + html.escape(text[position:])


def tint_place(field: str) -> int:
    """The place of a field's colours: declared, or else by a hash of the name."""
    return _TINTED.index(field) if field in _TINTED else zlib.crc32(field.encode()) % 8


def tint_css() -> str:
    """The colours as rules of a style sheet: ``.f0`` to ``.f7``, light and dark."""
    tints = (enumerate(prompts.lists(_PAGE)[ground]) for ground in ("light", "dark"))
    light, dark = ("; ".join(f"--f{i}: {tint}" for i, tint in ground) for ground in tints)
    rules = " ".join(f".f{i} {{ background: var(--f{i}); }}" for i in range(8))
    return f":root {{ {light}; }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}; }} }}\n{rules}\n"
