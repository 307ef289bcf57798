"""The quirk report of logs: what is odd in conversations, named and located, and nothing repaired.

``QUIRKS`` lists every kind with its meaning; the report holds one row a case. Judge scores have their own
validity report (:func:`crs_lib.judge.foreign.read_scores`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.text import shorten
from crs_lib.data.reader import SessionKey, session_key

_RECORD = re.compile(r"\{\s*(['\"])\w+\1\s*:")
_NOT_KNOWN = re.compile(r"(?<![\w/])N/A(?![\w/])")
_THIRD_PERSON = re.compile(r"\b(?:the|this) user(?:['’]s)?\b", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffd]")

QUIRKS: dict[str, str] = {
    "printed record": "a whole catalogue record (or other object) stands in the utterance",
    "N/A in text": "a missing value of the catalogue was written out as N/A",
    "speaks of the user": "a reply addresses somebody else about 'the user': text of the prompt leaked",
    "control character": "a terminal code, or a character that was lost in decoding",
    "empty utterance": "a user turn without text",
    "missing reply": "a user turn without a reply, or with an empty one",
    "repeated reply": "a reply that the system gave before in this session, word for word",
    "missing constraints": "a reply without the system's constraints, in a session that has them elsewhere",
    "missing rec_titles": "a reply without recommended titles, in a session that has them elsewhere",
    "missing user_meta": "a user turn without its log, in a session that has it elsewhere",
    "turn number off": "user_meta counts another turn than the conversation",
    "shift not flagged": "a shift event at a turn whose user_meta does not say that constraints shifted",
    "shift not listed": "user_meta flags a shift that shift_events does not have",
    "shift without event": "user_meta flags a shift but describes none",
    "shift differs": "user_meta describes another shift than shift_events at the same turn",
    "shift after the end": "a shift event later than the last turn",
    "shift listed twice": "two shift events at one turn",
    "merged utterances": "utterances of one speaker in a row were joined into one turn",
    "opening left out": "the system spoke first; what it said is kept apart from the turns",
    "other length": "another number of turns than most sessions of this model",
    "missing sessions": "numbers that are absent between a model's first and last session",
}


class Quirk(NamedTuple):
    """One oddity: its kind, the turn (None for a whole session), the speaker, and what was found."""

    quirk: str
    turn: int | None
    speaker: str
    detail: str


def quirks(dialogues: Iterable[Dialogue]) -> pd.DataFrame:
    """Every case, one row each: model, session, turn, speaker, quirk, detail; in the order of reading.

    ``turn`` is null for what concerns a session, ``session`` also for what concerns a model. Dialogues are
    taken one at a time; of each, only its number of turns is kept. Without dialogues the table is empty.
    """
    rows: list[tuple[Any, ...]] = []
    lengths: dict[SessionKey, int] = {}
    for dialogue in dialogues:
        key = session_key(dialogue)
        lengths[key] = len(dialogue.pairs())
        for found in (q for check in _CHECKS for q in check(dialogue)):
            rows.append((*key, found.turn, found.speaker, found.quirk, found.detail))
    rows.extend((*place, None, "", quirk, detail) for place, quirk, detail in _across(lengths))
    columns = ["model", "session", "turn", "speaker", "quirk", "detail"]
    return pd.DataFrame(rows, columns=columns, dtype=object).astype({"turn": "Int64"})


def summary(report: pd.DataFrame) -> pd.DataFrame:
    """Cases and sessions of each kind of quirk by model, with one example; the most frequent first."""
    groups = report.groupby(["model", "quirk"], sort=True)
    out = groups.agg(cases=("quirk", "size"), sessions=("session", "nunique"), example=("detail", "first"))
    return out.reset_index().sort_values(
        ["cases", "quirk", "model"], ascending=[False, True, True], ignore_index=True
    )


def _texts(dialogue: Dialogue) -> Iterator[Quirk]:
    for index, turn in enumerate(dialogue.turns):
        place = (index // 2 + 1, turn.speaker)
        for quirk, pattern, speakers in _PATTERNS:
            match = pattern.search(turn.text) if turn.speaker in speakers else None
            if match:
                yield Quirk(quirk, *place, shorten(repr(turn.text[match.start() :])[1:-1], 60))
        if not turn.text.strip():
            quirk = "empty utterance" if turn.speaker == USER else "missing reply"
            yield Quirk(quirk, *place, "no text")
    if len(dialogue.turns) % 2:
        yield Quirk("missing reply", len(dialogue.turns) // 2 + 1, SYSTEM, "the conversation ends here")


_PATTERNS = (
    ("printed record", _RECORD, (USER, SYSTEM)),
    ("N/A in text", _NOT_KNOWN, (USER, SYSTEM)),
    ("speaks of the user", _THIRD_PERSON, (SYSTEM,)),
    ("control character", _CONTROL, (USER, SYSTEM)),
)


def _repeats(dialogue: Dialogue) -> Iterator[Quirk]:
    first: dict[str, int] = {}
    for pair in dialogue.pairs():
        text = pair.system.text.strip()
        if text and text in first:
            yield Quirk("repeated reply", pair.turn, SYSTEM, f"as in turn {first[text]}")
        first.setdefault(text, pair.turn)


def _logs(dialogue: Dialogue) -> Iterator[Quirk]:
    """Keys that some turns of the session have and others do not; turn numbers that do not fit."""
    sides: tuple[tuple[str, tuple[Turn, ...]], ...] = (
        (USER, dialogue.turns[0::2]),
        (SYSTEM, dialogue.turns[1::2]),
    )
    for speaker, turns in sides:
        for key in ("user_meta",) if speaker == USER else ("constraints", "rec_titles"):
            if any(turn.meta.get(key) for turn in turns):
                for number, turn in enumerate(turns, start=1):
                    if not turn.meta.get(key):
                        yield Quirk(
                            f"missing {key}", number, speaker, "empty" if key in turn.meta else "absent"
                        )
    for number, turn in enumerate(sides[0][1], start=1):
        logged = turn.user_meta.get("turn", number)
        if logged != number:
            yield Quirk("turn number off", number, USER, f"user_meta says {logged!r}")


def _shifts(dialogue: Dialogue) -> Iterator[Quirk]:
    """Disagreement between ``shift_events`` and the flags, both ways; silent where there are no flags."""
    users = dialogue.turns[0::2]
    listed: dict[int, Mapping[str, Any]] = {}
    for event in dialogue.shift_events:
        at = int(event["turn"])
        if at in listed:
            yield Quirk("shift listed twice", at, USER, str(event.get("to_focus", "")))
        if at > len(users):
            yield Quirk("shift after the end", at, USER, f"the session has {len(users)} turns")
        listed[at] = event
    for number, turn in enumerate(users, start=1):
        meta = turn.user_meta
        flagged, described = meta.get("shift_event") is True, meta.get("shift_event_obj")
        if number in listed and "shift_event" in meta and not flagged:
            yield Quirk("shift not flagged", number, USER, str(listed[number].get("to_focus", "")))
        if flagged and number not in listed:
            yield Quirk("shift not listed", number, USER, str(meta.get("focus_field", "")))
        if flagged and "shift_event_obj" in meta and not described:
            yield Quirk("shift without event", number, USER, "shift_event_obj is empty")
        if described and number in listed and described != listed[number]:
            yield Quirk("shift differs", number, USER, _differing(described, listed[number]))


def _differing(described: object, listed: Mapping[str, Any]) -> str:
    if not isinstance(described, Mapping):
        return f"shift_event_obj is {shorten(repr(described), 40)}"
    keys = sorted(k for k in {*described, *listed} if described.get(k) != listed.get(k))
    return ", ".join(keys)


def _adaptation(dialogue: Dialogue) -> Iterator[Quirk]:
    """What the reader did to a foreign form."""
    for index, turn in enumerate(dialogue.turns):
        if merged := turn.meta.get("merged"):
            yield Quirk("merged utterances", index // 2 + 1, turn.speaker, f"{len(merged)} utterances")
    for text in dialogue.extra.get("opening", ()):
        yield Quirk("opening left out", None, SYSTEM, shorten(text, 60))


_CHECKS: tuple[Callable[[Dialogue], Iterator[Quirk]], ...] = (_texts, _repeats, _logs, _shifts, _adaptation)


def _across(lengths: Mapping[SessionKey, int]) -> Iterator[tuple[tuple[str, Any], str, str]]:
    """What shows only beside a model's other sessions: odd lengths, gaps in the numbers."""
    for model in dict.fromkeys(key.model for key in lengths):
        own = {key: n for key, n in lengths.items() if key.model == model}
        usual = min(Counter(own.values()).items(), key=lambda item: (-item[1], -item[0]))[0]
        if all(isinstance(key.session, int) for key in own):
            for key, n in own.items():
                if n != usual:
                    yield key, "other length", f"{n} turns, most have {usual}"
            numbers = {int(key.session) for key in own}
            if gaps := sorted(set(range(min(numbers), max(numbers))) - numbers):
                shown = ", ".join(map(str, gaps[:10]))
                yield (model, None), "missing sessions", f"{len(gaps)}: {shown}{', …' * (len(gaps) > 10)}"
