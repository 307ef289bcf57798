"""Chats and their annotated evidence: the RealTalk and the LoCoMo schema; odd things are reported, not fatal.

Positions are file order; ids are opaque keys. The messages that an annotated evidence list means depend on
the reading, from strict to repaired.
"""

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError
from crs_lib.data.logs import Quirk

REALTALK, LOCOMO = "realtalk", "locomo"
TRAIN, TEST, OTHER = "train", "test", "other"
_CATEGORIES = ("1", "2", "3", "4", "5")
STRICT, VALID, REPAIRED = "strict", "valid", "repaired"
READINGS = (STRICT, VALID, REPAIRED)
_ID = re.compile(r"D?:?\s*(\d+)\s*[:;]\s*(\d+)")
_RANGE = re.compile(r"(D\d+:\d+)\s*[-–]\s*(D\d+:\d+)")
_REACH = 6  # how far a photo may stand from the missing id, in local numbers
_SESSION = re.compile(r"session_(\d+)")
_HALF = re.compile("[\ud800-\udfff]")  # half a character: a cut emoji, which no file can hold


class ChatMessage(NamedTuple):
    """One message. ``position`` counts from 0 over the whole chat, ``session`` from 1. ``time`` is None only
    where no time can be known; a broken time is replaced by the one before and the replacement is a quirk.
    ``photo`` says that an image is attached, ``caption`` may still be empty.
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
    """A question with its answer and raw evidence strings: annotation, never shown to the pipeline. ``index``
    is the place in the file's list, ``category`` 0 where the file gives none.
    """

    index: int
    text: str
    answer: str | None
    evidence: tuple[str, ...]
    category: int


@dataclass(frozen=True)
class Chat:
    """One chat of two people in file order, with what was odd about its file. ``digest`` depends on the
    messages alone: a chat is the same chat whatever its annotations say.
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
    def asked(self) -> dict[int, ChatQuestion]:
        """Each question by its index."""
        return {question.index: question for question in self.questions}

    @cached_property
    def today(self) -> dt.date | None:
        """The day of the last message: what "now" is for a question about this chat."""
        return max((message.time.date() for message in self.messages if message.time), default=None)

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
        """24 bits of a hash of every text of more than 20 letters and digits, sorted. Enough to know a chat
        again; case, punctuation and white space do not count.
        """
        plain = {"".join(filter(str.isalnum, message.text.casefold())) for message in self.messages}
        return sorted({int(hashlib.sha256(t.encode()).hexdigest()[:6], 16) for t in plain if len(t) > 20})

    def ids(self, positions: Sequence[int]) -> list[str]:
        """The ids of messages given by position."""
        return [self.messages[i].id for i in positions]


@safety.reader("a chat")
def read_chat(path: Path) -> Chat:
    """One chat of either schema; recognised by LoCoMo's ``conversation`` key. Raises InputError where the
    file is no JSON object or holds no message at all. Everything else that is odd is kept as a
    :class:`Quirk`: empty texts and unknown speakers stay in the chat, a message whose id is missing or taken
    is left out, a broken time is replaced by the one before, half a character (a cut emoji) by U+FFFD.
    """
    try:
        record = safety.loads(safety.read_text(path), path.name, mend=False)
    except InputError as error:
        wrong = f"{path.name} cannot be read as a chat ({error})"
        raise InputError(f"{wrong}; expected one JSON object") from error
    if not isinstance(record, dict):
        raise InputError(f"{path.name} holds a {type(record).__name__}, expected one JSON object a chat")
    return _parse_chat(record, path.stem)


def _parse_chat(record: Mapping[str, Any], name: str) -> Chat:
    """The chat in a parsed file; see :func:`read_chat`."""
    quirks: list[Quirk] = []
    record = _whole(record, "", quirks)
    nested = record.get("conversation")
    schema = LOCOMO if isinstance(nested, Mapping) else REALTALK
    body: Mapping[str, Any] = nested if isinstance(nested, Mapping) else record
    if not (messages := _messages(body, _speakers(record, body), schema, quirks)):
        expected = "expected the RealTalk or LoCoMo schema"
        raise InputError(f"{name}: no message in any 'session_N' list; {expected}")
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


def resembles(one: Sequence[int], two: Sequence[int]) -> bool:
    """Whether two sketches are of the same talk: they share a fifth of the shorter one."""
    least = min(len({*one}), len({*two}))
    return bool(least) and len({*one} & {*two}) >= 0.2 * least


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


def _text(entry: Mapping[str, Any], *names: str) -> str:
    """What stands under the first of these keys that is there; what is no text counts as empty."""
    value = next((entry[name] for name in names if name in entry), "")
    return value if isinstance(value, str) else ""


def _messages(
    body: Mapping[str, Any], speakers: Sequence[str], schema: str, quirks: list[Quirk]
) -> list[ChatMessage]:
    out: dict[str, ChatMessage] = {}
    last = None

    def odd(kind: str, *where: str, done: str = "kept") -> None:
        quirks.append(Quirk(kind, (", ".join(where),), done))

    numbered = sorted((int(m[1]), key) for key in body if (m := _SESSION.fullmatch(str(key))))
    for session, entries in ((n, body[key]) for n, key in numbered):
        if not isinstance(entries, list) or not entries:
            odd("empty session", f"session_{session}", done="skipped")
            continue
        opened = _read_time(body.get(f"session_{session}_date_time"))
        for i, entry in enumerate(entries):
            where = f"session_{session}, message {i + 1}"
            if not isinstance(entry, Mapping):
                odd("no message", where, done="left out")
                continue
            key, speaker, caption = (_text(entry, name) for name in ("dia_id", "speaker", "blip_caption"))
            text = _text(entry, "clean_text", "text")
            if not key or key in out:
                kind = "duplicate id" if key else "missing id"
                odd(kind, where, repr(entry.get("dia_id")), done="left out")
                continue
            time = _read_time(entry.get("date_time")) if schema == REALTALK else opened
            if time is None:
                time = opened or last
                odd("broken time", where, key, done="took the session's or the one before")
            elif last is not None and time < last:
                odd("time goes back", where, key)
            last = time or last
            if not text.strip():
                odd("empty text", where, key)
            if speakers and speaker not in speakers:
                odd("unknown speaker", where, key, repr(speaker))
            photo = bool(entry.get("img_file") or entry.get("img_url") or caption)
            out[key] = ChatMessage(key, len(out), session, speaker, text, time, caption, photo)
    return list(out.values())


def _questions(entries: Any, quirks: list[Quirk]) -> list[ChatQuestion]:
    """The questions of a chat; a list without any is a chat to predict for."""
    out: list[ChatQuestion] = []
    for i, entry in enumerate(entries if isinstance(entries, list) else []):
        asked = entry if isinstance(entry, Mapping) else {}
        if not (question := _text(asked, "question")).strip():
            quirks.append(Quirk("no question", (f"qa[{i}]",), "left out"))
            continue
        answer = asked.get("answer", asked.get("adversarial_answer"))
        evidence = _evidence(asked.get("evidence"), f"qa[{i}]", quirks)
        category = _category(asked.get("category"), f"qa[{i}]", quirks)
        told = None if answer is None else str(answer)
        out.append(ChatQuestion(i, question, told, evidence, category))
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
    text = str(given).strip() if isinstance(given, str) or type(given) is int else ""
    if given is None or text in _CATEGORIES:
        return int(text or 0)
    quirks.append(Quirk("unknown category", (f"{where}, {str(given)[:40]!r}",), "read as 0"))
    return 0


_FORMS = (
    "%d.%m.%Y, %H:%M:%S", "%d.%m.%Y, %H:%M", "%d.%m.%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S",
    "%I:%M %p on %d %B, %Y", "%I:%M %p on %d %B %Y", "%I:%M %p on %d %b, %Y",
)  # fmt: skip


def _read_time(value: object) -> dt.datetime | None:
    """The time in ``31.01.2024, 18:05:00`` or ``6:05 pm on 31 January, 2024``; None where it is none. Times
    carry no zone: they are the exporting phone's clock.
    """
    for form in _FORMS if isinstance(value, str) else ():
        try:
            return dt.datetime.strptime(str(value).strip(), form)
        except ValueError:
            continue
    return None


# ── evidence ─────────────────────────────────────────────────────────────────────────────────────────


class _Evidence(NamedTuple):
    """The gold of a question under one reading: positions in the chat, sorted, each once. ``unresolved`` are
    strings or ids that the reading could not place: they are counted, never scored.
    """

    positions: tuple[int, ...]
    unresolved: tuple[str, ...]


def evidence(chat: Chat, question: ChatQuestion, reading: str = VALID) -> _Evidence:
    """The gold messages of a question. ``strict``: a string counts only if it is one existing id (the public
    benchmark's rule). ``valid``: strings are split and their slips repaired, ids that do not exist are left
    out. ``repaired``: a missing id moves to the nearest message (within 6 local numbers) that carries a
    photo, since photos without text lost their own id when the data set was cleaned. Raises InputError for
    another reading.
    """
    if reading not in READINGS:
        raise InputError(f"unknown evidence reading {reading!r}; expected one of {', '.join(READINGS)}")
    positions: set[int] = set()
    unresolved: list[str] = []
    for text in question.evidence:
        names = [text] if reading == STRICT else read_ids(text, chat)
        if not names:
            unresolved.append(text)
        for name in names:
            place = chat.position.get(name)
            if place is None and reading == REPAIRED:
                place = photo_neighbour(chat, name)
            if place is None:
                unresolved.append(name)
            else:
                positions.add(place)
    return _Evidence(tuple(sorted(positions)), tuple(unresolved))


def read_ids(text: str, chat: Chat) -> list[str]:
    """The ids that an evidence string names, slips repaired: ``"D17;39"`` is D17:39, ``"D30:05"`` D30:5.
    ``"D12:3-D12:5"`` stands for every existing id from the one to the other. Empty where none is found.
    """
    if text in chat.position:
        return [text]
    names: list[str] = []
    rest = text
    for match in _RANGE.finditer(text):
        start, end = chat.position.get(match[1]), chat.position.get(match[2])
        if start is None or end is None or end < start:
            names += [match[1], match[2]]
        else:
            names += chat.ids(range(start, end + 1))
        rest = rest.replace(match[0], " ")
    return names + [f"D{int(a)}:{int(b)}" for a, b in _ID.findall(rest)]


def photo_neighbour(chat: Chat, name: str) -> int | None:
    """Position of the nearest photo message to a missing id, within 6 numbers of the same block, or None."""
    block, _, number = name.partition(":")
    apart = [
        (abs(int(local) - int(number)), message.position)
        for message in chat.messages
        if message.photo and message.id.startswith(f"{block}:")
        and (local := message.id.partition(":")[2]).isdigit()
    ]  # fmt: skip
    distance, place = min(apart, default=(_REACH + 1, 0))
    return place if distance <= _REACH else None


def gold(chat: Chat, reading: str = VALID) -> dict[int, frozenset[int]]:
    """Gold positions by question index; questions without any gold are absent (to be counted, not scored)."""
    found = {q.index: frozenset(evidence(chat, q, reading).positions) for q in chat.questions}
    return {index: places for index, places in found.items() if places}


def sessions_of(chat: Chat, positions: Iterable[int]) -> list[int]:
    """The sessions that some positions lie in, ascending."""
    return sorted({chat.sessions[i] for i in positions})
