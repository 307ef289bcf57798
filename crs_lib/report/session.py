"""A session as the trace shows it: plain data, every finding of grounding tied to its stretch of text."""

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, NamedTuple

from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.core.text import printable
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import base

Row = Mapping[str, Any]
Json = dict[str, Any]
Constraint = list[str]  # field and value
TITLE = "title"
_CLOSING = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}  # what could close a script element
_JUDGED = ("judge", "construct", "sample", "score", "flag", "evidence")
_KEPT_TEXTS = 20_000


def number(value: Any) -> float | None:
    """The value with four decimals; None for what is missing or no finite number."""
    if value is None or isinstance(value, str | bool):
        return None
    size = float(value)
    return round(size, 4) + 0.0 if math.isfinite(size) else None


def script(call: str, *values: object) -> bytes:
    """``call(value, …);`` as the bytes of a JavaScript file; no ``<`` stays to close its element."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))[1:-1]
    for character, escape in _CLOSING.items():
        text = text.replace(character, escape)
    return f"{call}({text});\n".encode("utf-8", "backslashreplace")


def _lean(record: Row) -> Json:
    """The record without keys whose value is empty or False; a zero stays: it is a value."""
    full = {}
    for name, value in record.items():
        empty = value is None or value is False or value in ("", [], {})
        if not empty:
            full[name] = value
    return full


class Stretch(NamedTuple):
    """A finding in a text: where it stands, the field and value, and why it was rejected, if it was."""

    start: int
    end: int
    field: str
    value: str
    rejected: str = ""

    def shown(self, text: str) -> list[str]:
        """``[field]`` where the value is the text, else ``[field, value]``, with the reason as third."""
        if self.rejected:
            return [self.field, self.value, self.rejected]
        if self.value == text:
            return [self.field]
        return [self.field, self.value]


def pieces(text: str, stretches: Iterable[Stretch]) -> list[Any]:
    """The text cut where findings begin and end: strings, and ``[string, [finding, …]]``; overlaps count."""
    inside = []
    cuts = {0, len(text)}
    for stretch in stretches:
        if 0 <= stretch.start < stretch.end <= len(text):
            inside.append(stretch)
            cuts |= {stretch.start, stretch.end}
    parts: list[Any] = []
    for start, end in itertools.pairwise(sorted(cuts)):
        part = text[start:end]
        findings = []
        for stretch in inside:
            if stretch.start <= start and end <= stretch.end:
                findings.append(stretch.shown(part))
        parts.append([part, findings] if findings else part)
    return parts


def _constraint_list(constraints: object) -> list[Constraint]:
    """Constraints as ``[field, value]``, one entry a value; an empty list where there are none."""
    entries: list[Constraint] = []
    if not isinstance(constraints, Mapping):
        return entries
    for name, value in constraints.items():
        values = value if isinstance(value, list | tuple) else [value]
        for single in values:
            if single not in (None, ""):
                entries.append([str(name), str(single)])
    return entries


class SessionView:
    """Turns dialogues and their scores into the trace's records; ``metrics`` are those of turns to carry."""

    def __init__(self, scorer: Scorer, metrics: Sequence[str]) -> None:
        self.scorer = scorer
        self.catalog = scorer.grounder.catalog
        self.metrics = [base.get(name).name for name in metrics]
        self.text = lru_cache(_KEPT_TEXTS)(self._cut)

    def record(
        self, dialogue: Dialogue, turns: Sequence[Row], shifts: Sequence[Row], judge: Row | None = None
    ) -> Json:
        """A session: who, what it wanted, its turns. ``turns`` and ``shifts`` are its scored rows."""
        turn_scores = _by_turn(turns)
        shift_scores = _by_turn(shifts)
        events = _by_turn(dialogue.shift_events)
        history = _History()
        records = []
        for pair in dialogue.pairs():
            shift = _shift(pair, events.get(pair.turn), shift_scores.get(pair.turn, {}))
            records.append(self._turn(pair, shift, turn_scores.get(pair.turn, {}), history))
        return {
            "id": dialogue.session_id,
            "model": dialogue.model_name,
            "genre": dialogue.true_genre or "",
            "turns": records,
            "judge": _judge_notes(judge),
        }

    def film(self, item: int) -> Json:
        """A film's title, year and values by field."""
        film = self.catalog.items[item]
        present = {name: list(values) for name, values in film.values.items() if values}
        return {"title": film.title, "year": film.year, "values": present}

    def _cut(self, text: str) -> list[Any]:
        """:func:`pieces` of an utterance: concepts, rejected matches with their reason, titles."""
        grounder = self.scorer.grounder
        stretches = []
        for match in grounder.audit(text):
            stretches.append(Stretch(match.start, match.end, match.field, match.value, match.rejected))
        for title in grounder.titles(text):
            film = self.catalog.items[title.item]
            stretches.append(Stretch(title.start, title.end, TITLE, film.title))
        return pieces(text, stretches)

    def _turn(self, pair: Pair, shift: Json | None, scores: Row, history: "_History") -> Json:
        user = pair.user.user_meta
        log = pair.system.meta
        constraints = _constraint_list(user.get("constraints"))
        avoid = _constraint_list(user.get("avoid"))
        record: Json = {"turn": pair.turn, "act": str(user.get("stage") or "")}
        record["user"] = self.text(pair.user.text)
        record["system"] = self.text(pair.system.text)
        record["constraints"] = constraints
        record["avoid"] = avoid
        record["answers"] = user.get("n_answers")
        record["believes"] = _constraint_list(log.get("constraints"))
        record["shift"] = shift
        record["films"] = self._films(pair, constraints, avoid, history)
        record["unknown"] = _texts(log, "hallucinated_titles")
        record["calls"] = list(map(_tool_call, log.get("tool_calls") or ()))
        record["scores"] = list(map(number, map(scores.get, self.metrics)))
        record["undefined"] = str(scores.get("undefined") or "")
        record["missing"] = _texts(scores, "missing_concepts")
        record["added"] = _texts(scores, "hallucinated_concepts")
        return _lean(record)

    def _films(
        self, pair: Pair, constraints: list[Constraint], avoid: list[Constraint], history: "_History"
    ) -> list[Json]:
        """The films of a reply: the constraints each meets, what it has that was dropped or is not wanted."""
        excluded = self._coded(avoid)
        history.go_on(self._coded(constraints), excluded)
        codes = list(map(self._code, constraints))
        items = self.scorer.items(pair)
        films = []
        for item in items:
            facts = self.catalog.fact_sets[item]
            dropped = _present_in(history.dropped, facts - excluded.keys())
            film: Json = {"met": [None if code is None else code in facts for code in codes]}
            film["avoided"] = _present_in(excluded, facts)
            film["dropped"] = dropped
            film["again"] = item in history.seen
            films.append({"film": item, **_lean(film)})
        history.seen.update(items)
        return films

    def _code(self, constraint: Constraint) -> int | None:
        """The concept code of a constraint; None for what the catalogue lacks or scoring leaves aside."""
        name, value = constraint
        if name not in self.scorer.grounder.active_fields:
            return None
        return self.catalog.known_code(name, value)

    def _coded(self, constraints: list[Constraint]) -> dict[int, Constraint]:
        """The constraints that have a code, by it."""
        coded = {}
        for constraint in constraints:
            code = self._code(constraint)
            if code is not None:
                coded[code] = constraint
        return coded


class _History:
    """The history of a session: constraints by code, those dropped, films recommended before."""

    def __init__(self) -> None:
        self.constraints: dict[int, Constraint] = {}
        self.dropped: dict[int, Constraint] = {}
        self.seen: set[int] = set()

    def go_on(self, constraints: dict[int, Constraint], excluded: dict[int, Constraint]) -> None:
        """Go on to a turn: what was a constraint or excluded before, and is no constraint now, is dropped.

        That is what the score of leakage counts.
        """
        before = {**self.dropped, **self.constraints, **excluded}
        self.dropped = {code: entry for code, entry in before.items() if code not in constraints}
        self.constraints = constraints


def _present_in(constraints: Mapping[int, Constraint], facts: Set[int]) -> list[Constraint]:
    """Those of the constraints whose code a film has."""
    return [constraint for code, constraint in constraints.items() if code in facts]


def _by_turn(rows: Iterable[Row]) -> dict[int, Row]:
    """Rows by the number of their turn, those that have one."""
    return {int(row["turn"]): row for row in rows if "turn" in row}


def _texts(row: Row, name: str) -> list[str]:
    """The texts of a list that may be missing."""
    return list(map(str, row.get(name) or ()))


def _tool_call(call: Row) -> Json:
    """An agent's tool call: name, arguments as text, what came of it, fault; nothing steers a terminal."""
    arguments = []
    for name, value in (call.get("arguments") or {}).items():
        arguments.append(f"{name}={json.dumps(value, ensure_ascii=False)}")
    record: Json = {"call": printable(f"{call.get('name')}({', '.join(arguments)})")}
    record["found"] = call.get("n_found")
    record["films"] = _texts(call, "films")
    record["notes"] = list(map(printable, _texts(call, "notes")))
    record["fault"] = printable(str(call.get("error") or ""))
    return _lean(record)


def _shift(pair: Pair, event: Row | None, scores: Row) -> Json | None:
    """The change at a shift and how soon replies followed; None where the constraints did not shift."""
    log = pair.user.user_meta
    if event is None:
        if log.get("shift_event") is not True:
            return None
        event = log.get("shift_event_obj") or {}
    shift: Json = {"type": str(event.get("type") or "shift")}
    for name in ("added", "dropped", "avoid"):
        shift[name] = _constraint_list(event.get(name))
    bridge = [event.get("bridge_field"), event.get("bridge_value")]
    shift["bridge"] = list(map(str, bridge)) if all(bridge) else None
    shift["from"] = str(event.get("from_anchor") or event.get("from_focus") or "")
    shift["to"] = str(event.get("to_anchor") or event.get("to_focus") or "")
    shift["answers"] = event.get("n_answers")
    shift["watched"] = number(scores.get("watched"))
    shift["films"] = _recovery(scores, "item")
    shift["text"] = _recovery(scores, "text")
    return shift


def _recovery(scores: Row, kind: str) -> list[Any] | None:
    """``[within the window?, replies until recovery or None]``; None where it was not scored."""
    if f"recovered_{kind}" not in scores:
        return None
    return [bool(scores[f"recovered_{kind}"]), number(scores.get(f"delay_{kind}"))]


def _judge_notes(record: Row | None) -> Json | None:
    """A session's judge record as shown: mean of each construct, every single score; None without any."""
    if not record:
        return None
    means = {}
    for name, value in (record.get("judge") or {}).items():
        means[str(name)] = number(value)
    notes = []
    for score in record.get("scores") or ():
        notes.append({name: score.get(name) for name in _JUDGED})
    if not notes and set(means.values()) <= {None}:
        return None
    return {"means": means, "notes": notes}
