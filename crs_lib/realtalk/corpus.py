"""Chats and how they are read: the RealTalk and the LoCoMo schema; what is odd is reported, not fatal.

Positions are file order; ids are opaque keys.
"""

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from crs_lib.core import outside, paths
from crs_lib.core.errors import InputError
from crs_lib.data.quirks import Quirk

REALTALK, LOCOMO = "realtalk", "locomo"
TRAIN, TEST, OTHER = "train", "test", "other"
_CATEGORIES = ("1", "2", "3", "4", "5")
_SESSION = re.compile(r"session_(\d+)")
_HALF = re.compile("[\ud800-\udfff]")  # half a character: a cut emoji, which no file can hold


@dataclass(frozen=True)
class ChatMessage:
    """One message. ``position`` counts from 0 over the whole chat, ``session`` from 1.

    ``time`` is None only where no time can be known; a broken time is replaced by the one before and
    the replacement is a quirk. ``photo`` says that an image is attached, ``caption`` may still be empty.
    """

    id: str
    position: int
    session: int
    speaker: str
    text: str
    time: dt.datetime | None
    caption: str = ""
    photo: bool = False


@dataclass(frozen=True)
class ChatQuestion:
    """A question with its answer and raw evidence strings: annotation, never shown to the pipeline.

    ``index`` is the place in the file's list, ``category`` 0 where the file gives none.
    """

    index: int
    text: str
    answer: str | None
    evidence: tuple[str, ...]
    category: int


@dataclass(frozen=True)
class Chat:
    """One chat of two people in file order, with what was odd about its file.

    ``digest`` depends on the messages alone: a chat is the same chat whatever its annotations say.
    """

    name: str
    schema: str
    speakers: tuple[str, ...]
    messages: tuple[ChatMessage, ...]
    questions: tuple[ChatQuestion, ...]
    quirks: tuple[Quirk, ...] = field(default=())

    @cached_property
    def position(self) -> dict[str, int]:
        """Position of each message id."""
        return {message.id: message.position for message in self.messages}

    @cached_property
    def sessions(self) -> tuple[int, ...]:
        """The session number of every message, by position."""
        return tuple(message.session for message in self.messages)

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of the messages: ids, speakers, texts, captions, times, sessions."""
        rows = [
            [m.id, m.session, m.speaker, m.text, m.caption, m.photo, m.time.isoformat() if m.time else None]
            for m in self.messages
        ]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    @cached_property
    def sketch(self) -> list[int]:
        """What the chat is known again by: :func:`sketch` of its texts."""
        return sketch([message.text for message in self.messages])

    def ids(self, positions: Sequence[int]) -> list[str]:
        """The ids of messages given by position."""
        return [self.messages[i].id for i in positions]


@outside.reader("a chat")
def read_chat(path: Path) -> Chat:
    """One chat of either schema; recognised by LoCoMo's ``conversation`` key.

    Raises InputError where the file is no JSON object or holds no message at all. Everything else
    that is odd is kept as a :class:`Quirk`: empty texts and unknown speakers stay in the chat, a message
    whose id is missing or taken is left out, a broken time is replaced by the one before, half a character
    (a cut emoji) by U+FFFD.
    """
    try:
        record = outside.loads(outside.read_text(path), path.name, mend=False)
    except InputError as error:
        raise InputError(
            f"{path.name} cannot be read as a chat ({error}); expected one JSON object"
        ) from error
    if not isinstance(record, dict):
        raise InputError(f"{path.name} holds a {type(record).__name__}, expected one JSON object a chat")
    return parse_chat(record, path.stem)


def parse_chat(record: Mapping[str, Any], name: str) -> Chat:
    """The chat in a parsed file; see :func:`read_chat`."""
    quirks: list[Quirk] = []
    record = _whole(record, "", quirks)
    nested = record.get("conversation")
    schema = LOCOMO if isinstance(nested, Mapping) else REALTALK
    body: Mapping[str, Any] = nested if isinstance(nested, Mapping) else record
    messages = _messages(body, _speakers(record, body), schema, quirks)
    if not messages:
        raise InputError(
            f"{name}: no message in any 'session_N' list; expected the RealTalk or LoCoMo schema"
        )
    speakers = _speakers(record, body) or tuple(dict.fromkeys(m.speaker for m in messages))[:2]
    questions = _questions(record.get("qa"), quirks)
    return Chat(name, schema, speakers, tuple(messages), tuple(questions), tuple(quirks))


def read_folder(folder: Path) -> list[Chat]:
    """Every ``*.json`` chat of a folder, Chat_2 before Chat_10; InputError where there is none."""
    found = sorted(folder.glob("*.json"), key=lambda p: (number(p.stem), p.stem)) if folder.is_dir() else []
    if not found:
        raise InputError(f"no chat in {paths.shown(folder)}; expected Chat_*.json files (set CRS_MIRROR?)")
    return [read_chat(path) for path in found]


def number(name: str) -> int:
    """The N of ``Chat_N_…``, or a large number for other names (they sort last)."""
    match = re.match(r"Chat_(\d+)(?!\d)", name)
    return int(match[1]) if match else 10**6


def split_of(chat: Chat) -> str:
    """``train`` for RealTalk's Chat_1 to Chat_7, ``test`` for Chat_8 to Chat_10, else ``other``."""
    n = number(chat.name) if chat.schema == REALTALK else 0
    return TRAIN if 1 <= n <= 7 else (TEST if 8 <= n <= 10 else OTHER)


def sketch(texts: Sequence[str]) -> list[int]:
    """24 bits of a hash of every text of more than 20 letters and digits, sorted.

    Enough to know a chat again; case, punctuation and white space do not count.
    """
    plain = {"".join(filter(str.isalnum, text.casefold())) for text in texts}
    return sorted({int(hashlib.sha256(t.encode()).hexdigest()[:6], 16) for t in plain if len(t) > 20})


def resembles(one: Sequence[int], two: Sequence[int]) -> bool:
    """Whether two sketches are of the same talk: they share a fifth of the shorter one."""
    least = min(len(set(one)), len(set(two)))
    return bool(least) and len(set(one) & set(two)) >= 0.2 * least


def _whole(value: Any, where: str, quirks: list[Quirk]) -> Any:
    """A parsed value whose texts can be written as UTF-8; each one that could not is a quirk."""
    if isinstance(value, Mapping):
        return {k: _whole(v, f"{where}.{k}" if where else str(k), quirks) for k, v in value.items()}
    if isinstance(value, list):
        return [_whole(item, f"{where}[{i}]", quirks) for i, item in enumerate(value)]
    if isinstance(value, str) and _HALF.search(value):
        quirks.append(Quirk("broken character", (where,), "replaced by U+FFFD"))
        return _HALF.sub("\ufffd", value)
    return value


def _speakers(record: Mapping[str, Any], body: Mapping[str, Any]) -> tuple[str, ...]:
    names = record.get("name")
    given = [names.get("speaker_1"), names.get("speaker_2")] if isinstance(names, Mapping) else []
    given += [body.get("speaker_a"), body.get("speaker_b")]
    return tuple(name for name in given if isinstance(name, str) and name)


def _sessions(body: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    numbered = [(int(m[1]), key) for key in body if (m := _SESSION.fullmatch(str(key)))]
    for n, key in sorted(numbered):
        yield n, body[key]


def _messages(
    body: Mapping[str, Any], speakers: Sequence[str], schema: str, quirks: list[Quirk]
) -> list[ChatMessage]:
    out: list[ChatMessage] = []
    taken: set[str] = set()
    last = None
    for session, entries in _sessions(body):
        if not isinstance(entries, list) or not entries:
            quirks.append(Quirk("empty session", (f"session_{session}",), "skipped"))
            continue
        opened = read_time(body.get(f"session_{session}_date_time"))
        for i, entry in enumerate(entries):
            where = f"session_{session}, message {i + 1}"
            if not isinstance(entry, Mapping):
                quirks.append(Quirk("no message", (where,), "left out"))
                continue
            key = entry.get("dia_id")
            if not isinstance(key, str) or not key or key in taken:
                kind = "duplicate id" if key in taken else "missing id"
                quirks.append(Quirk(kind, (f"{where}, {key!r}",), "left out"))
                continue
            taken.add(key)
            time = read_time(entry.get("date_time")) if schema == REALTALK else opened
            if time is None:
                time = opened or last
                quirks.append(
                    Quirk("broken time", (f"{where}, {key}",), "took the session's or the one before")
                )
            elif last is not None and time < last:
                quirks.append(Quirk("time goes back", (f"{where}, {key}",), "kept"))
            last = time or last
            out.append(_message(entry, key, len(out), session, time, speakers, where, quirks))
    return out


def _message(
    entry: Mapping[str, Any], key: str, position: int, session: int, time: Any,
    speakers: Sequence[str], where: str, quirks: list[Quirk],
) -> ChatMessage:  # fmt: skip
    raw = entry.get("clean_text", entry.get("text"))
    text = raw if isinstance(raw, str) else ""
    if not text.strip():
        quirks.append(Quirk("empty text", (f"{where}, {key}",), "kept"))
    speaker = entry.get("speaker") if isinstance(entry.get("speaker"), str) else ""
    if speakers and speaker not in speakers:
        quirks.append(Quirk("unknown speaker", (f"{where}, {key}, {speaker!r}",), "kept"))
    caption = entry.get("blip_caption")
    photo = bool(entry.get("img_file") or entry.get("img_url") or caption)
    return ChatMessage(
        key, position, session, str(speaker), text, time, caption if isinstance(caption, str) else "", photo
    )


def _questions(entries: Any, quirks: list[Quirk]) -> list[ChatQuestion]:
    """The questions of a chat; a list without any is a chat to predict for."""
    out: list[ChatQuestion] = []
    for i, entry in enumerate(entries if isinstance(entries, list) else []):
        text = entry.get("question") if isinstance(entry, Mapping) else None
        if not isinstance(text, str) or not text.strip():
            quirks.append(Quirk("no question", (f"qa[{i}]",), "left out"))
            continue
        answer = entry.get("answer", entry.get("adversarial_answer"))
        out.append(
            ChatQuestion(
                i, text, None if answer is None else str(answer),
                _evidence(entry.get("evidence"), f"qa[{i}]", quirks),
                _category(entry.get("category"), f"qa[{i}]", quirks),
            )
        )  # fmt: skip
    return out


def _evidence(given: Any, where: str, quirks: list[Quirk]) -> tuple[str, ...]:
    """The evidence strings; a lone string is a list of one, what is no string is left out and reported."""
    values = given if isinstance(given, list) else ([] if given is None else [given])
    kept = tuple(value for value in values if isinstance(value, str))
    if len(kept) < len(values):
        quirks.append(Quirk("evidence is no text", (where,), f"{len(values) - len(kept)} left out"))
    return kept


def _category(given: Any, where: str, quirks: list[Quirk]) -> int:
    """The category's number, also where it is written as text; 0 where there is none."""
    if isinstance(given, str) and given.strip() in _CATEGORIES:
        return int(given)
    if given is None or (type(given) is int and str(given) in _CATEGORIES):
        return int(given or 0)
    quirks.append(Quirk("unknown category", (f"{where}, {str(given)[:40]!r}",), "read as 0"))
    return 0


_FORMS = (
    "%d.%m.%Y, %H:%M:%S",
    "%d.%m.%Y, %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
)
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_LOCOMO = re.compile(r"(\d{1,2}):(\d{2})\s*(am|pm)\s+on\s+(\d{1,2})\s+([a-z]+),?\s+(\d{4})", re.IGNORECASE)


def read_time(value: object) -> dt.datetime | None:
    """The time in ``31.01.2024, 18:05:00`` or ``6:05 pm on 31 January, 2024``; None where it is none.

    Times carry no zone: they are the exporting phone's clock.
    """
    if not isinstance(value, str):
        return None
    text = value.strip()
    for form in _FORMS:
        try:
            return dt.datetime.strptime(text, form)
        except ValueError:
            continue
    return _read_locomo(text)


def _read_locomo(text: str) -> dt.datetime | None:
    match = _LOCOMO.fullmatch(text)
    if not match:
        return None
    hour, minute, half, day, month, year = match.groups()
    number = month_number(month)
    try:
        return dt.datetime(
            int(year), number or 0, int(day), int(hour) % 12 + 12 * (half.lower() == "pm"), int(minute)
        )
    except ValueError:
        return None


def month_number(name: str) -> int | None:
    """1 for January (or Jan), 12 for December; None for other words. Source: English month names."""
    low = name.lower().rstrip(".")
    if len(low) < 3:
        return None
    return next((i for i, month in enumerate(_MONTHS, start=1) if month.startswith(low[:9])), None)
