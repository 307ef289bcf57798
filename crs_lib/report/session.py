"""A session as the trace shows it: plain data, every finding of grounding tied to its stretch of text."""

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.core.text import printable
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import base

Row = Mapping[str, Any]
TITLE = "title"


def number(value: Any) -> float | None:
    """The value with four decimals; None for what is missing or no finite number."""
    if value is None or isinstance(value, str | bool):
        return None
    found = float(value)
    return round(found, 4) + 0.0 if math.isfinite(found) else None


def script(call: str, *values: Any) -> bytes:
    """``call(value, …);`` as the bytes of a JavaScript file; no ``<`` stays to close its element."""
    shown = ",".join(json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in values)
    for character, escape in (("<", "\\u003c"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")):
        shown = shown.replace(character, escape)
    return f"{call}({shown});\n".encode("utf-8", "backslashreplace")


def _lean(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without keys whose value is empty or False; a zero stays: it is a value."""
    return {name: v for name, v in record.items() if v not in (None, "", [], {}) and v is not False}


def _pieces(text: str, found: Iterable[tuple[int, int, str, str, str]]) -> list[Any]:
    """The text cut where findings begin and end: strings, and ``[string, [finding, …]]``. ``found`` are
    (start, end, field, value, rejection or ""), overlaps allowed. A finding is ``[field]`` where the value is
    the stretch itself, else ``[field, value]``, with the reason as third where it was rejected.
    """
    spans = [span for span in found if 0 <= span[0] < span[1] <= len(text)]
    cuts = sorted({0, len(text), *(end for span in spans for end in span[:2])})
    out: list[Any] = []
    for start, end in itertools.pairwise(cuts):
        part = text[start:end]
        over = [_finding(part, *span[2:]) for span in spans if span[0] <= start and end <= span[1]]
        out.append([part, over] if over else part)
    return out


def _finding(part: str, field: str, value: str, rejected: str) -> list[str]:
    return [field, value, rejected] if rejected else [field] if value == part else [field, value]


def _constraint_list(constraints: Any) -> list[list[str]]:
    """Constraints as ``[field, value]``, one entry a value; an empty list where there are none."""
    if not isinstance(constraints, Mapping):
        return []
    several = {n: v if isinstance(v, list | tuple) else [v] for n, v in constraints.items()}
    return [[str(n), str(one)] for n, values in several.items() for one in values if one not in (None, "")]


class SessionView:
    """Turns dialogues and their scores into the trace's records; ``metrics`` are those of turns to carry."""

    def __init__(self, scorer: Scorer, metrics: Sequence[str]) -> None:
        self.scorer = scorer
        self.catalog = scorer.grounder.catalog
        self.metrics = [base.get(name).name for name in metrics]
        self.text = lru_cache(20_000)(self._cut)

    def record(
        self, dialogue: Dialogue, turns: Sequence[Row], shifts: Sequence[Row], judge: Row | None = None
    ) -> dict[str, Any]:
        """A session: who, what it wanted, its turns. ``turns`` and ``shifts`` are its scored rows."""
        scored = {int(row["turn"]): row for row in turns}
        after = {int(row["turn"]): row for row in shifts}
        events = {int(event["turn"]): event for event in dialogue.shift_events if "turn" in event}
        history = _History()
        shown = []
        for pair in dialogue.pairs():
            shift = _shift(pair.turn, events.get(pair.turn), after.get(pair.turn, {}), pair)
            shown.append(self._turn(pair, shift, scored.get(pair.turn, {}), history))
        who = {"id": dialogue.session_id, "model": dialogue.model_name, "genre": dialogue.true_genre or ""}
        return {**who, "turns": shown, "judge": _judge_notes(judge)}

    def film(self, item: int) -> dict[str, Any]:
        """A film's title, year and values by field."""
        film = self.catalog.items[item]
        values = {name: list(values) for name, values in film.values.items() if values}
        return {"title": film.title, "year": film.year, "values": values}

    def _cut(self, text: str) -> list[Any]:
        """:func:`_pieces` of an utterance: concepts, rejected matches with their reason, titles."""
        found = [(m.start, m.end, m.field, m.value, m.rejected) for m in self.scorer.grounder.audit(text)]
        titles = self.scorer.grounder.titles(text)
        found += [(t.start, t.end, TITLE, self.catalog.items[t.item].title, "") for t in titles]
        return _pieces(text, found)

    def _turn(
        self, pair: Pair, shift: dict[str, Any] | None, row: Row, history: "_History"
    ) -> dict[str, Any]:
        meta, log = pair.user.user_meta, pair.system.meta
        constraints, avoid = _constraint_list(meta.get("constraints")), _constraint_list(meta.get("avoid"))
        shown = self._films(pair, constraints, avoid, history)
        return _lean({
            "turn": pair.turn, "act": str(meta.get("stage") or ""),
            "user": self.text(pair.user.text), "system": self.text(pair.system.text),
            "constraints": constraints, "avoid": avoid, "answers": meta.get("n_answers"),
            "believes": _constraint_list(log.get("constraints")), "shift": shift, "films": shown,
            "unknown": [str(title) for title in log.get("hallucinated_titles") or ()],
            "calls": [_tool_call(call) for call in log.get("tool_calls") or ()],
            "scores": [number(row.get(name)) for name in self.metrics],
            "undefined": str(row.get("undefined") or ""),
            "missing": [str(key) for key in row.get("missing_concepts", ())],
            "added": [str(key) for key in row.get("hallucinated_concepts", ())],
        })  # fmt: skip

    def _films(
        self, pair: Pair, constraints: list[list[str]], avoid: list[list[str]], history: "_History"
    ) -> list[dict[str, Any]]:
        """The films of a reply: which constraints each meets, what it has that was dropped or is not wanted.
        "Dropped" is as in the score of leakage: a constraint or excluded before, and no constraint now.
        """
        now, out = self._coded(constraints), self._coded(avoid)
        before = history.dropped | history.constraints | out
        history.dropped = {code: constraint for code, constraint in before.items() if code not in now}
        history.constraints = now
        shown = []
        for item in self.scorer.items(pair):
            facts = self.catalog.fact_sets[item]
            shown.append({"film": item} | _lean({
                "met": [None if (code := self._code(c)) is None else code in facts for c in constraints],
                "avoided": [constraint for code, constraint in out.items() if code in facts],
                "dropped": [w for code, w in history.dropped.items() if code in facts and code not in out],
                "again": item in history.seen,
            }))  # fmt: skip
        history.seen.update(film["film"] for film in shown)
        return shown

    def _code(self, constraint: Sequence[str]) -> int | None:
        """The concept code of a constraint; None for what the catalogue lacks or scoring leaves aside."""
        name, value = constraint
        active = name in self.scorer.grounder.active_fields
        return self.catalog.known_code(name, value) if active else None

    def _coded(self, constraints: list[list[str]]) -> dict[int, list[str]]:
        """The constraints that have a code, by it."""
        return {code: one for one in constraints if (code := self._code(one)) is not None}


class _History:
    """The history of a session: constraints by code, those dropped, films recommended before."""

    def __init__(self) -> None:
        self.constraints: dict[int, list[str]] = {}
        self.dropped: dict[int, list[str]] = {}
        self.seen: set[int] = set()


def _tool_call(call: Row) -> dict[str, Any]:
    """An agent's tool call: name, arguments as text, what it found, its fault; nothing steers a terminal."""
    told = call.get("arguments") or {}
    written = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in told.items())
    return _lean({
        "call": printable(f"{call.get('name')}({written})"), "found": call.get("n_found"),
        "films": [str(one) for one in call.get("films") or ()],
        "notes": [printable(str(one)) for one in call.get("notes") or ()],
        "fault": printable(str(call.get("error") or "")),
    })  # fmt: skip


def _shift(turn: int, event: Row | None, row: Row, pair: Pair) -> dict[str, Any] | None:
    """The change at a shift and how soon replies followed; None where the constraints did not shift."""
    if event is None and pair.user.user_meta.get("shift_event") is not True:
        return None
    event = event or pair.user.user_meta.get("shift_event_obj") or {}
    bridge = [event.get("bridge_field"), event.get("bridge_value")]
    return {
        "type": str(event.get("type") or "shift"),
        **{name: _constraint_list(event.get(name)) for name in ("added", "dropped", "avoid")},
        "bridge": [str(part) for part in bridge] if all(bridge) else None,
        **{way: str(event.get(f"{way}_anchor") or event.get(f"{way}_focus") or "") for way in ("from", "to")},
        "answers": event.get("n_answers"), "watched": number(row.get("watched")),
        "films": _recovery(row, "item"), "text": _recovery(row, "text"),
    }  # fmt: skip


def _recovery(row: Row, kind: str) -> list[Any] | None:
    """``[within the window?, replies until recovery or None]``; None where it was not scored."""
    known = f"recovered_{kind}" in row
    return [bool(row[f"recovered_{kind}"]), number(row.get(f"delay_{kind}"))] if known else None


def _judge_notes(record: Row | None) -> dict[str, Any] | None:
    """A session's judge record as shown: mean of each construct, every single score; None without any."""
    if not record:
        return None
    means = {str(name): number(value) for name, value in (record.get("judge") or {}).items()}
    keep = ("judge", "construct", "sample", "score", "flag", "evidence")
    notes = [{name: score.get(name) for name in keep} for score in record.get("scores") or ()]
    if not notes and all(value is None for value in means.values()):
        return None
    return {"means": means, "notes": notes}
