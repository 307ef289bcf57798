"""Chats of two people with questions and annotated evidence: read from files, their splits and their gold.

Positions are file order; ids are opaque keys. Which messages an annotated evidence list means depends on the
interpretation (parameter ``reading``), from strict to repaired. What is odd about a file is reported as a
quirk and not fatal.
"""

import datetime as dt
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from dateutil import parser

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError
from crs_lib.data.logs import Quirk

REALTALK, LOCOMO = "realtalk", "locomo"
TRAIN, TEST, OTHER = "train", "test", "other"
LAST_TRAIN, LAST_TEST = 7, 10  # numbers of RealTalk's chats
STRICT, VALID, REPAIRED = "strict", "valid", "repaired"
READINGS = (STRICT, VALID, REPAIRED)
BROKEN_TIME = "broken time"  # a quirk
_ENOUGH_TIMES = 0.9  # the share of messages whose time must be read
_NO_NUMBER = 10**6  # names without a number sort last
_SKETCHED = 20  # letters and digits that a text must exceed to identify a chat
_ALIKE = 0.2  # the share of sketched texts from which two files hold the same talk
Record = Mapping[str, Any]  # an object of a parsed file


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
    is the place in the file's list, ``category`` 0 where the file gives none, ``others`` are further
    accepted answers. An ``unanswerable`` question is rightly left so; its ``trap`` is what it lures into.
    """

    index: int
    text: str
    answer: str | None
    evidence: tuple[str, ...]
    category: int
    others: tuple[str, ...] = ()
    unanswerable: bool = False
    trap: str | None = None

    @property
    def accepted(self) -> tuple[str, ...]:
        """Every accepted answer that says something."""
        answers = (self.answer, *self.others)
        return tuple(text for text in answers if text and text.strip() and not is_abstention(text))


_ABSTENTION = re.compile(
    r"\W*((it|this|that) (is|was) )?(not (mentioned|specified|stated|answerable)\b|"
    r"((there is|there's) )?no (information|mention)\b|no answer\W*$|unanswerable|unknown\W*$|n/?a\W*$|"
    r"(i|we) (do not|don't) know|cannot be answered|(you|they|she|he) (did not|didn't) mention|"
    r"the information provided is not enough|"
    r"(the )?(chat|conversation) (does not|doesn't) (mention|say|specify))",
    re.IGNORECASE,
)


def is_abstention(text: str) -> bool:
    """Whether an answer says that the chat holds none ("Not mentioned", "no information available")."""
    return bool(_ABSTENTION.match(text.replace("’", "'")))


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
    def texts(self) -> list[str]:
        """The text of every message, by position."""
        return [message.text for message in self.messages]

    @cached_property
    def sessions(self) -> tuple[int, ...]:
        """The session number of every message, by position."""
        return tuple(message.session for message in self.messages)

    @cached_property
    def asked(self) -> dict[int, ChatQuestion]:
        """Each question by its index."""
        return {question.index: question for question in self.questions}

    @cached_property
    def timed(self) -> float:
        """The share of messages whose time, or that of their session, could be read, in [0, 1]."""
        return 1 - len(self._broken_times()) / len(self.messages)

    def _broken_times(self) -> list[Quirk]:
        return [quirk for quirk in self.quirks if quirk.kind == BROKEN_TIME]

    @property
    def time_note(self) -> str:
        """What a chat of which fewer than 90 % of times are read says of itself; else empty."""
        if self.timed >= _ENOUGH_TIMES:
            return ""
        broken = self._broken_times()
        read = len(self.messages) - len(broken)
        count = f"{read} of {len(self.messages)} messages of {self.name} have a time that can be read"
        first = f"first without: {broken[0].place[-1]}"
        return f"times: {count} ({first}); what happened when is not known"

    @cached_property
    def today(self) -> dt.date | None:
        """The day of the last message: what "now" is for a question about this chat."""
        days = [message.time.date() for message in self.messages if message.time]
        return max(days, default=None)

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of the messages: ids, speakers, texts, captions, times, sessions."""
        rows = []
        for message in self.messages:
            time = message.time.isoformat() if message.time else None
            identity = [message.id, message.session, message.speaker]
            rows.append([*identity, message.text, message.caption, message.photo, time])
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()

    @cached_property
    def sketch(self) -> list[int]:
        """24 bits of a hash of every text of more than 20 letters and digits, sorted. Enough to know a chat
        again; case, punctuation and white space do not count.
        """
        hashes = set()
        for message in self.messages:
            plain = "".join(filter(str.isalnum, message.text.casefold()))
            if len(plain) > _SKETCHED:
                digits = hashlib.sha256(plain.encode()).hexdigest()
                hashes.add(int(digits[:6], 16))
        return sorted(hashes)

    def at(self, positions: Iterable[int]) -> list[ChatMessage]:
        """The messages at some positions."""
        return [self.messages[position] for position in positions]

    def sessions_of(self, positions: Iterable[int]) -> set[int]:
        """The sessions that some positions lie in."""
        return {message.session for message in self.at(positions)}

    def ids(self, positions: Iterable[int]) -> list[str]:
        """The ids of messages given by position."""
        return [message.id for message in self.at(positions)]

    def positions(self, ids: Iterable[str]) -> list[int]:
        """The positions of messages given by id."""
        return [self.position[name] for name in ids]


def number(name: str) -> int:
    """The N of ``Chat_N_…``, or a large number for other names (they sort last)."""
    match = re.match(r"Chat_(\d+)(?!\d)", name)
    return int(match[1]) if match else _NO_NUMBER


def split_of(chat: Chat) -> str:
    """``train`` for RealTalk's Chat_1 to Chat_7, ``test`` for Chat_8 to Chat_10, else ``other``."""
    chat_number = number(chat.name)
    if chat.schema != REALTALK or not 1 <= chat_number <= LAST_TEST:
        return OTHER
    return TRAIN if chat_number <= LAST_TRAIN else TEST


def resembles(sketch: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two sketches are of the same talk: they share a fifth of the shorter one."""
    first, second = set(sketch), set(other)
    least = min(len(first), len(second))
    return least > 0 and len(first & second) >= _ALIKE * least


# ── evidence ─────────────────────────────────────────────────────────────────────────────────────────

_ID = re.compile(r"D?:?\s{0,3}(\d{1,9})\s{0,3}[:;]\s{0,3}(\d{1,9})", re.IGNORECASE)
_RANGE = re.compile(
    r"D?:?\s{0,3}(\d{1,9})\s{0,3}[:;]\s{0,3}(\d{1,9})\s{0,3}(?:[-‒–—−~〜]|\.{2,3}|…|to|through|bis)\s{0,3}"
    r"(?:D?(\d{1,9})\s{0,3}[:;]\s{0,3})?(\d{1,9})(?!\s{0,3}[:;\d])",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"(D?\d{1,9}[:;])(\d{1,9}(?:[-‒–—−]\d{1,9})?)\s{0,3}[,/、]\s{0,3}(\d{1,9})(?!\s{0,3}[:;\d])",
    re.IGNORECASE,
)  # "D1:1,3", "D1:1-3,5"
_WIDE = str.maketrans("：；，／～", ":;,/~")  # as East Asian keyboards write them
_REACH = 6  # how far a photo may stand from the missing id, in local numbers


class GoldEvidence(NamedTuple):
    """The gold of a question in one interpretation: positions in the chat, sorted, each once. ``unresolved``
    are strings or ids that the interpretation could not place: they are counted, never scored.
    """

    positions: tuple[int, ...]
    unresolved: tuple[str, ...]


def evidence(chat: Chat, question: ChatQuestion, reading: str = VALID) -> GoldEvidence:
    """The gold messages of a question.

    ``strict``: a string counts only if it is one existing id (the public benchmark's convention). ``valid``:
    strings are split and their slips repaired, ids that do not exist are left out. ``repaired``: a missing id
    moves to the nearest message (within 6 local numbers) that carries a photo, since photos without text lost
    their own id when the data set was cleaned. Raises InputError for another interpretation.
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
            position = chat.position.get(name)
            if position is None and reading == REPAIRED:
                position = photo_neighbour(chat, name)
            if position is None:
                unresolved.append(name)
            else:
                positions.add(position)
    return GoldEvidence(tuple(sorted(positions)), tuple(unresolved))


def read_ids(text: str, chat: Chat) -> list[str]:
    """The ids that an evidence string names, slips repaired: ``"D17;39"`` is D17:39, ``"d30:05"`` D30:5,
    ``"D1:1,3"`` and ``"D1:1/3"`` D1:1 and D1:3. ``"D12:3-D12:5"``, ``"D12:3..5"`` and ``"D12:5 to D12:3"``
    stand for every existing id from the one to the other, ``"D12:3-5,7"`` for D12:7 besides. What else has a
    digit stands as it is among them: it names no message and is counted so. Empty where none is named.
    """
    if text in chat.position:
        return [text]
    names: list[str] = []
    single = text.translate(_WIDE)  # the text without its ranges
    while more := _MORE.search(single):
        single = single.replace(more[0], f"{more[1]}{more[2]} {more[1]}{more[3]}")
    for match in _RANGE.finditer(single):
        names += _ids_between(f"D{match[1]}:{match[2]}", f"D{match[3] or match[1]}:{match[4]}", chat)
    single = _RANGE.sub(" ", single)
    for match in _ID.finditer(single):
        names.append(_written(match[0]))
    for rest in _ID.sub(" ", single).split():
        if any(map(str.isdigit, rest)):
            names.append(rest)
    return names


def _ids_between(one_end: str, other_end: str, chat: Chat) -> list[str]:
    """Both ids of a range, which may be reversed, and every id of the chat between them."""
    first, last = sorted((_written(one_end), _written(other_end)), key=_numbers)
    start, end = chat.position.get(first), chat.position.get(last)
    if start is not None and end is not None and start <= end:
        return chat.ids(range(start, end + 1))
    names = [first]
    for name in chat.position:
        if _ID.fullmatch(name) and _numbers(first) < _numbers(name) < _numbers(last):
            names.append(name)
    return [*names, last]


def _numbers(name: str) -> tuple[int, int]:
    """The block of an id and its number there."""
    block, local = map(int, re.findall(r"\d+", name))
    return block, local


def _written(name: str) -> str:
    """An id as chats write it: ``D1:3``."""
    block, local = _numbers(name)
    return f"D{block}:{local}"


def photo_neighbour(chat: Chat, name: str) -> int | None:
    """Position of the nearest photo message to a missing id, within 6 numbers of the same block, or None."""
    block, _, wanted = name.partition(":")
    if not wanted.isdigit():
        return None
    near = []
    for message in chat.messages:
        own_block, _, local = message.id.partition(":")
        if message.photo and own_block == block and local.isdigit():
            near.append((abs(int(local) - int(wanted)), message.position))
    distance, position = min(near, default=(_NO_NUMBER, 0))
    return position if distance <= _REACH else None


def gold(chat: Chat, reading: str = VALID) -> dict[int, frozenset[int]]:
    """Gold positions by question index; questions without any gold are absent (to be counted, not scored)."""
    by_question = {}
    for question in chat.questions:
        positions = evidence(chat, question, reading).positions
        if positions:
            by_question[question.index] = frozenset(positions)
    return by_question


# ── files ────────────────────────────────────────────────────────────────────────────────────────────

_CATEGORIES = ("1", "2", "3", "4", "5")
_ADVERSARIAL = 5  # LoCoMo's category of questions that their chat does not answer
_SESSION = re.compile(r"session_(\d+)")
_HALF = re.compile("[\ud800-\udfff]")  # half a character: a cut emoji, which no file can hold


@safety.reader("a chat")
def read_chat(path: Path) -> Chat:
    """The one chat of a file, as :func:`read_chats`; InputError where the file holds several."""
    chats = read_chats(path)
    if len(chats) > 1:
        names = ", ".join(chat.name for chat in chats[:5])
        cure = "put one of them into a file of its own; notebooks 21 to 23 read all with -p data FILE"
        raise InputError(f"{path.name} holds {len(chats)} chats ({names}…), expected one; {cure}")
    return chats[0]


@safety.reader("chats")
def read_chats(path: Path) -> list[Chat]:
    """The chats of a file: RealTalk's, LoCoMo's (an object, or the list of ``locomo10.json``), LongMemEval's.

    Raises InputError where the file is no JSON of these forms or a chat holds no message at all. Everything
    else that is odd is reported as a :class:`Quirk`: empty texts and unknown speakers stay in the chat, a
    message whose id is missing or used before is left out, a broken time is replaced by the one before, half
    a character (a cut emoji) by U+FFFD.
    """
    try:
        text = safety.read_text(path)
        content = safety.loads(text, path.name, mend=False)
    except InputError as error:
        wrong = f"{path.name} cannot be read as a chat ({error})"
        raise InputError(f"{wrong}; expected one JSON object, or a list of them") from error
    records = content if isinstance(content, list) else [content]
    chats: dict[str, Chat] = {}
    for index, record in enumerate(records):
        if not isinstance(record, dict):
            kind = type(record).__name__
            raise InputError(f"{path.name} holds a {kind} (record {index}), expected one JSON object a chat")
        name = path.stem
        if content is records:
            name = _text(record, "sample_id", "question_id") or f"{path.stem} {index}"
        if name in chats:
            raise InputError(f"{path.name}: two chats are called {name!r} (record {index}); rename one")
        chats[name] = parse_chat(record, name)
    if not chats:
        raise InputError(f"{path.name} is an empty list; expected one JSON object a chat")
    return list(chats.values())


def read_folder(folder: Path) -> list[Chat]:
    """The chats of every ``*.json`` of a folder, Chat_2 before Chat_10; InputError where there is none."""
    files = list(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        raise InputError(f"no chat in {paths.shown(folder)}; expected Chat_*.json files (set CRS_MIRROR?)")
    files.sort(key=lambda path: (number(path.stem), path.stem))
    chats = []
    for path in files:
        chats += read_chats(path)
    return chats


def parse_chat(record: Record, name: str) -> Chat:
    """The chat in a parsed file; raises and reports as :func:`read_chat`."""
    quirks: list[Quirk] = []
    record = _encodable(record, "", quirks)
    if "haystack_sessions" in record:
        record = _of_long_memory(record, quirks)
    body = record.get("conversation")
    schema = LOCOMO
    if not isinstance(body, Mapping):
        body = record
        schema = REALTALK
    speakers = _speakers(record, body)
    messages = _Messages(schema, speakers, quirks).read(body)
    if not messages:
        expected = "expected the RealTalk or LoCoMo schema"
        raise InputError(f"{name}: no message in any 'session_N' list; {expected}")
    if not speakers:
        heard = [message.speaker for message in messages]
        speakers = tuple(dict.fromkeys(heard))[:2]
    questions = tuple(_questions(_listed(record, "qa"), quirks))
    return Chat(name, schema, speakers, messages, questions, tuple(quirks))


def _of_long_memory(record: Record, quirks: list[Quirk]) -> Record:
    """A record of LongMemEval as LoCoMo writes it: the turns with ``has_answer`` are the evidence, else all
    of the sessions in ``answer_session_ids``; a question whose id ends in ``_abs`` has no answer.
    """
    body: dict[str, Any] = {"speaker_a": "user", "speaker_b": "assistant"}
    times = dict(enumerate(_listed(record, "haystack_dates"), start=1))
    names = dict(enumerate(_listed(record, "haystack_session_ids"), start=1))
    answering = _listed(record, "answer_session_ids")
    evidence: list[str] = []
    whole: list[str] = []
    for session, turns in enumerate(_listed(record, "haystack_sessions"), start=1):
        entries = []
        for local, turn in enumerate(turns if isinstance(turns, list) else [], start=1):
            cells = turn if isinstance(turn, Mapping) else {}
            key = f"D{session}:{local}"
            entry = {"dia_id": key, "speaker": _text(cells, "role")}
            entries.append({**entry, "text": _text(cells, "content")})
            if cells.get("has_answer") is True:
                evidence.append(key)
        body[f"session_{session}"] = entries
        body[f"session_{session}_date_time"] = times.get(session)
        if entries and session in names and names[session] in answering:
            whole.append(f"D{session}:1-D{session}:{len(entries)}")
    if not evidence and whole:
        quirks.append(Quirk("evidence is a session", ("answer_session_ids",), "all of its turns count"))
        evidence = whole
    strangers = [name for name in answering if name not in names.values()]
    if strangers:
        quirks.append(Quirk("unknown session", ("answer_session_ids",), f"{strangers[:3]} left out"))
    unanswerable = _text(record, "question_id").endswith("_abs")
    answer = None if unanswerable else record.get("answer")  # an abstention's says why there is none
    question = {"question": record.get("question"), "answer": answer, "evidence": evidence}
    return {"conversation": body, "qa": [{**question, "unanswerable": unanswerable}]}


def _listed(record: Record, name: str) -> list[Any]:
    """A list of a record; what is none counts as empty."""
    value = record.get(name)
    return value if isinstance(value, list) else []


def _text(entry: Record, *names: str) -> str:
    """What stands under the first of these keys that is there; what is no text counts as empty."""
    for name in names:
        if name in entry:
            value = entry[name]
            return value if isinstance(value, str) else ""
    return ""


def _encodable(value: Any, where: str, quirks: list[Quirk]) -> Any:
    """A parsed value whose texts can be written as UTF-8; each one that could not is a quirk."""
    if isinstance(value, Mapping):
        inner = {}
        for key, item in value.items():
            inner[key] = _encodable(item, f"{where}.{key}" if where else str(key), quirks)
        return inner
    if isinstance(value, list):
        return [_encodable(item, f"{where}[{i}]", quirks) for i, item in enumerate(value)]
    if isinstance(value, str) and _HALF.search(value):
        quirks.append(Quirk("broken character", (where,), "replaced by U+FFFD"))
        return _HALF.sub("\ufffd", value)
    return value


def _speakers(record: Record, body: Record) -> tuple[str, ...]:
    """The names of the two people as the file gives them; empty where it does not."""
    names = record.get("name")
    candidates = [body.get("speaker_a"), body.get("speaker_b")]
    if isinstance(names, Mapping):
        candidates = [names.get("speaker_1"), names.get("speaker_2"), *candidates]
    return tuple(name for name in candidates if isinstance(name, str) and name)


class _Messages:
    """Reads the messages of a chat session by session and reports what is odd about them."""

    def __init__(self, schema: str, speakers: Sequence[str], quirks: list[Quirk]) -> None:
        self._schema = schema
        self._speakers = speakers
        self._quirks = quirks
        self._messages: dict[str, ChatMessage] = {}
        self._last: dt.datetime | None = None
        self._day_first = True

    def read(self, body: Record) -> tuple[ChatMessage, ...]:
        """The messages of all ``session_N`` lists, by number of the session."""
        day_first = _is_day_first(_times(body))
        if day_first is None:
            self._report("day or month first", "dates such as 1/4/23", action="read the day first")
        self._day_first = day_first is not False
        for session, key in _sessions(body):
            entries = _listed(body, key)
            if not entries:
                self._report("empty session", f"session_{session}", action="skipped")
                continue
            opened = read_time(body.get(f"session_{session}_date_time"), self._day_first)
            for i, entry in enumerate(entries):
                self._add_message(entry, session, f"session_{session}, message {i + 1}", opened)
        return tuple(self._messages.values())

    def _report(self, kind: str, *where: str, action: str = "kept") -> None:
        self._quirks.append(Quirk(kind, (", ".join(where),), action))

    def _add_message(self, entry: Any, session: int, where: str, opened: dt.datetime | None) -> None:
        """Add an entry of a session as a message, or report why it is none. ``where`` names its place in the
        file, ``opened`` the time at which its session begins.
        """
        if not isinstance(entry, Mapping):
            self._report("no message", where, action="left out")
            return
        key = _text(entry, "dia_id")
        if not key or key in self._messages:
            kind = "duplicate id" if key else "missing id"
            self._report(kind, where, repr(entry.get("dia_id")), action="left out")
            return
        time = self._time(entry, where, key, opened)
        text = _text(entry, "clean_text", "text")
        if not text.strip():
            self._report("empty text", where, key)
        speaker = _text(entry, "speaker")
        if self._speakers and speaker not in self._speakers:
            self._report("unknown speaker", where, key, repr(speaker))
        caption = _text(entry, "blip_caption")
        photo = bool(entry.get("img_file") or entry.get("img_url") or caption)
        position = len(self._messages)
        self._messages[key] = ChatMessage(key, position, session, speaker, text, time, caption, photo)

    def _time(self, entry: Record, where: str, key: str, opened: dt.datetime | None) -> dt.datetime | None:
        """The time of a message; that of its session or of the message before where it has none."""
        time = opened
        if self._schema == REALTALK:
            time = read_time(entry.get("date_time"), self._day_first)
        if time is None:
            time = opened or self._last
            value = repr(entry.get("date_time"))[:40]
            self._report(BROKEN_TIME, where, key, value, action="took the session's or the one before")
        elif self._last is not None and time < self._last:
            self._report("time goes back", where, key)
        self._last = time or self._last
        return time


def _times(body: Record) -> Iterator[object]:
    """What stands for the time of every session and message, in order."""
    for session, key in _sessions(body):
        yield body.get(f"session_{session}_date_time")
        for entry in _listed(body, key):
            if isinstance(entry, Mapping):
                yield entry.get("date_time")


def _sessions(body: Record) -> list[tuple[int, str]]:
    """Number and key of each session, by number."""
    sessions = []
    for key in body:
        match = _SESSION.fullmatch(str(key))
        if match:
            sessions.append((int(match[1]), key))
    return sorted(sessions)


def _questions(entries: Sequence[Any], quirks: list[Quirk]) -> Iterator[ChatQuestion]:
    """The questions of a chat; a list without any is a chat to predict for."""
    for i, entry in enumerate(entries):
        where = f"qa[{i}]"
        record = entry if isinstance(entry, Mapping) else {}
        text = _text(record, "question")
        if not text.strip():
            quirks.append(Quirk("no question", (where,), "left out"))
            continue
        answers = _answers(record.get("answer"))
        evidence = _evidence(record.get("evidence"), where, quirks)
        category = _category(record.get("category"), where, quirks)
        trap = _answers(record.get("adversarial_answer"))
        if trap and not category:
            category = _ADVERSARIAL
            quirks.append(Quirk("trap without category", (where,), "read as category 5"))
        unanswerable = category == _ADVERSARIAL or record.get("unanswerable") is True
        unanswerable = unanswerable or any(map(is_abstention, answers))
        answer = next(iter(answers), None)
        lure = next(iter(trap), None)
        yield ChatQuestion(i, text, answer, evidence, category, tuple(answers[1:]), unanswerable, lure)


def _several(value: Any) -> list[Any]:
    """The values of a cell: a list, or one; none where the cell is empty."""
    values = value if isinstance(value, list) else [value]
    return [] if value is None else values


def _answers(value: Any) -> list[str]:
    """The accepted answers: one of any kind, or a list of them."""
    return [str(answer) for answer in _several(value) if answer is not None]


def _evidence(value: Any, where: str, quirks: list[Quirk]) -> tuple[str, ...]:
    """The evidence strings; a lone string is a list of one, what is no string is left out and reported."""
    values = _several(value)
    texts = tuple(text for text in values if isinstance(text, str))
    if len(texts) < len(values):
        quirks.append(Quirk("evidence is no text", (where,), f"{len(values) - len(texts)} left out"))
    return texts


def _category(value: Any, where: str, quirks: list[Quirk]) -> int:
    """The category's number, also where it is written as text; 0 where there is none."""
    if value is None:
        return 0
    is_number = type(value) is int  # true is no number
    text = str(value).strip() if isinstance(value, str) or is_number else ""
    if text in _CATEGORIES:
        return int(text)
    quirks.append(Quirk("unknown category", (f"{where}, {str(value)[:40]!r}",), "read as 0"))
    return 0


# ── times ────────────────────────────────────────────────────────────────────────────────────────────

_TIMES = ("%d.%m.%Y, %H:%M:%S", "%I:%M %p on %d %B, %Y")  # RealTalk's and LoCoMo's
_SPACE = re.compile(r"\s+")  # also the narrow ones that phones put before "pm"
_EPOCH = re.compile(r"\d{9,16}(\.\d+)?", re.ASCII)
_EARLIEST, _LATEST = 1e8, 1e11  # seconds since 1970; beyond them the number counts smaller parts
_HALF_DAY = re.compile(r"\b([ap])\.? ?m\b\.?", re.IGNORECASE)
_WEEKDAY = re.compile(r"(?<!\s)\s*\(\w+\)\s*")  # "(Mon)"
_CENTURIES = (1900, 2099)
_FOUR_DIGITS = re.compile(r"\d{4}")
_TWO_DIGITS = {**{year: 1900 + year for year in range(90, 100)}, **{year: 2000 + year for year in range(41)}}
_SLASHED = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/\d{2,4}")
_MONTHS = 12  # a larger number is a day's


def read_time(value: object, day_first: bool = True) -> dt.datetime | None:
    """The time in a cell, as the clock of the exporting phone shows it: a zone is dropped, seconds (milli-,
    microseconds) since 1970 are in UTC. Forms: RealTalk's ``31.01.2024, 18:05:00``, LoCoMo's, ISO,
    LongMemEval's ``2023/05/08 (Mon) 13:56``, WhatsApp's and Telegram's exports; None for anything else.
    A year of two digits is one from 1990 to 2040; "45" is none of a chat's, and so no time.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = _SPACE.sub(" ", str(value)).strip(" []\u200e\u200f")
    if _EPOCH.fullmatch(text):
        return _since_1970(float(text))
    for form in _TIMES:
        with suppress(ValueError):
            return dt.datetime.strptime(text, form)
    with suppress(ValueError):
        return dt.datetime.fromisoformat(text).replace(tzinfo=None)
    return _by_dateutil(text, day_first)


def _since_1970(seconds: float) -> dt.datetime | None:
    """The time in UTC of a number of seconds, or of thousandths or millionths of them, by its size."""
    while seconds > _LATEST:
        seconds /= 1000
    if seconds < _EARLIEST:
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC).replace(tzinfo=None)


def _by_dateutil(text: str, day_first: bool) -> dt.datetime | None:
    """The time as dateutil reads it, if the text names a whole day of this or the last century."""
    plain = _HALF_DAY.sub(r"\1m", text)  # "p. m."
    plain = _WEEKDAY.sub(" ", plain).replace(" - ", " ")
    year_first = bool(re.match(r"\d{4}", plain))
    order = {"dayfirst": day_first and not year_first, "yearfirst": year_first}
    times = set()
    for default in (dt.datetime(2001, 1, 1), dt.datetime(2002, 2, 2)):  # what is missing would differ
        try:
            time = parser.parse(plain, default=default, ignoretz=True, **order)
        except (ValueError, OverflowError):
            return None
        times.add(time)
    if len(times) > 1:
        return None
    if not _FOUR_DIGITS.search(plain):
        year = _TWO_DIGITS.get(time.year % 100)
        return time.replace(year=year) if year else None
    return time if _CENTURIES[0] <= time.year <= _CENTURIES[1] else None


def _is_day_first(values: Iterable[object]) -> bool | None:
    """Whether numeric dates such as ``1/4/23`` name the day first: the order in which every date exists, and
    fewer times go back; None where nothing tells (the day is then read first).
    """
    numeric = [value for value in values if isinstance(value, str) and _SLASHED.search(value)]
    faults = []
    for month_group, day_first in ((2, True), (1, False)):
        impossible = 0
        times = []
        for value in numeric:
            matches = _SLASHED.finditer(value)
            impossible += any(int(match[month_group]) > _MONTHS for match in matches)
            time = read_time(value, day_first)
            if time is not None:
                times.append(time)
        backwards = sum(later < earlier for earlier, later in itertools.pairwise(times))
        faults.append((impossible, backwards))
    if faults[0] == faults[1]:
        return None if numeric else True
    return faults[0] < faults[1]
