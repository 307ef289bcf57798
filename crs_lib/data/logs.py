"""Logged conversations, whatever their form, one by one, and the report of what is odd in them.

A path is a file or a folder of files: ``.json`` (one session, or a list), ``.jsonl``, either also ``.gz``.
The forms are those of :mod:`crs_lib.data.forms`; what is odd but readable is left as it is: ``LOG_QUIRKS``
lists the kinds, :func:`log_quirks` finds them. Judge scores have their own validity report
(:func:`crs_lib.judge.rating.read_scores`).
"""

import itertools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib.core import paths, safety
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.data.forms import RecordOrigin, conversations_of, dialogue_of
from crs_lib.data.quirks import Quirk, quirk_counts, quirks_table

_KINDS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_OWN = "dialogues.jsonl"


class SessionKey(NamedTuple):
    """What identifies a session in a table: the model's name as a file name, and the session.

    ``session`` is a whole number where the log's id is one ("00017" and 17 are both 17), else its text.
    """

    model: str
    session: int | str


def session_key(dialogue: Dialogue) -> SessionKey:
    """The key of a dialogue: ``("gemma-2b", 17)`` for session "00017" of ``gemma:2b``."""
    given = dialogue.session_id
    number = given.isascii() and given.isdigit() and len(given) <= 18
    return SessionKey(paths.slug(dialogue.model_name), int(given) if number else given)


def files(path: str | Path) -> list[Path]:
    """The log files that a path stands for, in order of their names, numbers by value (2 before 10).

    A run folder of ours stands for its ``dialogues.jsonl``. Raises InputError where there is none.
    """
    given = paths.given(path)
    if given.is_file():
        return [given]
    if (given / _OWN).is_file():
        return [given / _OWN]
    found = [p for p in given.glob("*") if _kind(p) and not p.name.startswith(".")] if given.is_dir() else []
    if not found:
        raise InputError(
            f"no log in {paths.shown(given)}; expected a file or a folder with {', '.join(_KINDS)} "
            "(the thesis's logs: python -m crs_lib data get thesis-logs-50)"
        )
    return sorted(found, key=lambda p: (_natural(p.name), p.name))


@safety.reader("a log")
def read(path: str | Path) -> Iterator[Dialogue]:
    """Every dialogue of a file or folder, in a fixed order, one at a time: memory does not grow with them.

    (A ``.json`` file that lists many sessions is parsed as a whole.) Raises InputError naming file, line and
    session where something cannot be read: no JSON, not UTF-8, a damaged archive, an unknown form, speakers
    that do not alternate, a key of another type, the same session twice.
    """
    yield from _dialogues(path, None, "")


class Broken(NamedTuple):
    """A conversation that could not be read: its place, its system (empty where unknown), and the reason."""

    place: str
    model: str
    reason: str


@safety.reader("a log")
def readable(
    path: str | Path, broken: Callable[[Broken], object], *, system: str = "unnamed"
) -> Iterator[Dialogue]:
    """As :func:`read`, but a conversation that cannot be read goes to ``broken`` and the others follow.

    A conversation without a name of a system is one of ``system``; without a session id it is numbered by its
    place in the file. A model of a second file whose first session was read before is another system, and
    gets the file's name behind its own: ``gemma:2b (second)``; any other repetition is broken.
    """
    yield from _dialogues(path, broken, system)


def _dialogues(
    path: str | Path, broken: Callable[[Broken], object] | None, system: str
) -> Iterator[Dialogue]:
    """Every dialogue; what cannot be read goes to ``broken``, or is raised where that is None."""
    seen: dict[SessionKey, str] = {}
    for file in files(path):
        stem, own = _stem(file), dict[str, str]()
        for number, (where, record, alone) in enumerate(_with_company(_records(file))):
            origin = RecordOrigin(where, stem)
            if broken:
                origin = RecordOrigin(where, stem, system, stem if alone else f"{number:05d}")
            try:
                if isinstance(record, InputError):
                    raise record
                with safety.faults("a conversation", where):
                    dialogue = dialogue_of(record, origin)
                key = session_key(dialogue)
                if broken:
                    if key.model not in own and not alone and seen.get(key, file.name) != file.name:
                        own[key.model] = f"{dialogue.model_name} ({stem})"
                    dialogue = replace(dialogue, model_name=own.setdefault(key.model, dialogue.model_name))
                    key = session_key(dialogue)
                if key in seen:
                    raise InputError(
                        f"{where}: session {key.session!r} of {key.model!r} was already read from {seen[key]}"
                    )
            except InputError as error:
                if not broken:
                    raise
                name = record.get("model_name") if isinstance(record, Mapping) else ""
                reason = str(error).removeprefix(where).lstrip(":, ")
                broken(Broken(where, name if isinstance(name, str) else "", reason))
                continue
            seen[key] = file.name
            yield dialogue


def _with_company(
    records: Iterator[tuple[str, object]],
) -> Iterator[tuple[str, object, bool]]:
    """Each record of a file, and whether it is the only one."""
    first = next(records, None)
    second = next(records, None)
    for found in itertools.chain([one for one in (first, second) if one], records):
        yield (*found, second is None)


def _kind(path: Path) -> str:
    """The ending that says how to read a file; empty for other files."""
    return next((kind for kind in _KINDS if path.name.endswith(kind)), "")


def _stem(path: Path) -> str:
    return path.name.removesuffix(_kind(path))


def _natural(name: str) -> list[Any]:
    """Sorts numbers inside names by value; text and numbers alternate, so that they always compare."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", name))]


def _records(path: Path) -> Iterator[tuple[str, object]]:
    """Each parsed record of a file with what an error calls its place; an InputError for one that is none."""
    try:
        with safety.open_text(path) as file:
            if ".jsonl" in _kind(path):
                for number, line in safety.lines(file, path.name):
                    where = f"{path.name}, line {number}"
                    yield where, _parse(line, where)
            else:
                parsed = _parse(file.read(), path.name)
                content = [parsed] if isinstance(parsed, InputError) else conversations_of(parsed)
                many = isinstance(content, list) and len(content) > 1
                for number, record in enumerate(content, start=1):
                    yield f"{path.name}, entry {number}" if many else path.name, record
    except UnicodeDecodeError as error:
        yield path.name, InputError(f"{path.name}: not UTF-8 text ({error.reason}); save it as UTF-8")
    except InputError as error:
        yield path.name, error
    except (OSError, EOFError, zlib.error) as error:
        yield path.name, InputError(f"{path.name}: cannot be read ({error}); is the file whole?")


def _parse(text: str, where: str) -> object:
    """The parsed text, or the InputError that says why it is none."""
    try:
        return safety.loads(text, where, unique=True)
    except InputError as error:
        return error


_RECORD = re.compile(r"\{\s*(['\"])\w+\1\s*:")
_NOT_KNOWN = re.compile(r"(?<![\w/])N/A(?![\w/])")
_THIRD_PERSON = re.compile(r"\b(?:the|this) user(?:['’]s)?\b", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffd]")

LOG_QUIRKS: dict[str, str] = {
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


def log_quirks(dialogues: Iterable[Dialogue]) -> pd.DataFrame:
    """Every case, one row each: model, session, turn, speaker, quirk, detail; in the order of reading.

    ``turn`` is null for what concerns a session, ``session`` also for what concerns a model. Dialogues are
    taken one at a time; of each, only its number of turns is kept. Without dialogues the table is empty.
    """
    found: list[Quirk] = []
    lengths: dict[SessionKey, int] = {}
    for dialogue in dialogues:
        key = session_key(dialogue)
        lengths[key] = len(dialogue.pairs())
        found += [quirk.inside(*key) for check in _CHECKS for quirk in check(dialogue)]
    found += _across(lengths)
    return quirks_table(found, ["model", "session", "turn", "speaker"]).astype({"turn": "Int64"})


def log_quirk_counts(report: pd.DataFrame) -> pd.DataFrame:
    """Cases and sessions of each kind of quirk by model, with one example; the most frequent first."""
    names = ("cases", "sessions")
    return quirk_counts(report, ["model"], "session", names, "detail", ["quirk", "model"])


def _texts(dialogue: Dialogue) -> Iterator[Quirk]:
    for index, turn in enumerate(dialogue.turns):
        place = (index // 2 + 1, turn.speaker)
        for quirk, pattern, speakers in _PATTERNS:
            match = pattern.search(turn.text) if turn.speaker in speakers else None
            if match:
                yield Quirk(quirk, place, shorten(repr(turn.text[match.start() :])[1:-1], 60))
        if not turn.text.strip():
            quirk = "empty utterance" if turn.speaker == USER else "missing reply"
            yield Quirk(quirk, place, "no text")
    if len(dialogue.turns) % 2:
        yield Quirk("missing reply", (len(dialogue.turns) // 2 + 1, SYSTEM), "the conversation ends here")


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
            yield Quirk("repeated reply", (pair.turn, SYSTEM), f"as in turn {first[text]}")
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
                        detail = "empty" if key in turn.meta else "absent"
                        yield Quirk(f"missing {key}", (number, speaker), detail)
    for number, turn in enumerate(sides[0][1], start=1):
        logged = turn.user_meta.get("turn", number)
        if logged != number:
            yield Quirk("turn number off", (number, USER), f"user_meta says {logged!r}")


def _shifts(dialogue: Dialogue) -> Iterator[Quirk]:
    """Disagreement between ``shift_events`` and the flags, both ways; silent where there are no flags."""
    users = dialogue.turns[0::2]
    listed: dict[int, Mapping[str, Any]] = {}
    for event in dialogue.shift_events:
        at = int(event["turn"])
        if at in listed:
            yield Quirk("shift listed twice", (at, USER), str(event.get("to_focus", "")))
        if at > len(users):
            yield Quirk("shift after the end", (at, USER), f"the session has {len(users)} turns")
        listed[at] = event
    for number, turn in enumerate(users, start=1):
        meta = turn.user_meta
        flagged, described = meta.get("shift_event") is True, meta.get("shift_event_obj")
        if number in listed and "shift_event" in meta and not flagged:
            yield Quirk("shift not flagged", (number, USER), str(listed[number].get("to_focus", "")))
        if flagged and number not in listed:
            yield Quirk("shift not listed", (number, USER), str(meta.get("focus_field", "")))
        if flagged and "shift_event_obj" in meta and not described:
            yield Quirk("shift without event", (number, USER), "shift_event_obj is empty")
        if described and number in listed and described != listed[number]:
            yield Quirk("shift differs", (number, USER), _differing(described, listed[number]))


def _differing(described: object, listed: Mapping[str, Any]) -> str:
    if not isinstance(described, Mapping):
        return f"shift_event_obj is {shorten(repr(described), 40)}"
    keys = sorted(k for k in {*described, *listed} if described.get(k) != listed.get(k))
    return ", ".join(keys)


def _adaptation(dialogue: Dialogue) -> Iterator[Quirk]:
    """What the reader did to a foreign form."""
    for index, turn in enumerate(dialogue.turns):
        if merged := turn.meta.get("merged"):
            yield Quirk("merged utterances", (index // 2 + 1, turn.speaker), f"{len(merged)} utterances")
    for text in dialogue.extra.get("opening", ()):
        yield Quirk("opening left out", (None, SYSTEM), shorten(text, 60))


_CHECKS: tuple[Callable[[Dialogue], Iterator[Quirk]], ...] = (_texts, _repeats, _logs, _shifts, _adaptation)


def _across(lengths: Mapping[SessionKey, int]) -> Iterator[Quirk]:
    """What shows only beside a model's other sessions: odd lengths, gaps in the numbers."""
    for model in dict.fromkeys(key.model for key in lengths):
        own = {key: n for key, n in lengths.items() if key.model == model}
        usual = min(Counter(own.values()).items(), key=lambda item: (-item[1], -item[0]))[0]
        if all(isinstance(key.session, int) for key in own):
            for key, n in own.items():
                if n != usual:
                    yield Quirk("other length", (*key, None, ""), f"{n} turns, most have {usual}")
            numbers = {int(key.session) for key in own}
            if gaps := sorted(set(range(min(numbers), max(numbers))) - numbers):
                shown = ", ".join(map(str, gaps[:10]))
                more = ", …" if len(gaps) > 10 else ""
                yield Quirk("missing sessions", (model, None, None, ""), f"{len(gaps)}: {shown}{more}")
