"""Chats of two people, with questions and annotated evidence: the objects, their splits and their gold.

Positions are file order; ids are opaque keys. Which messages an annotated evidence list means depends on the
interpretation (parameter ``reading``), from strict to repaired. Files are read by ``crs_lib.realtalk.parse``.
"""

import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from crs_lib.core.errors import InputError
from crs_lib.data.logs import Quirk

REALTALK, LOCOMO = "realtalk", "locomo"
TRAIN, TEST, OTHER = "train", "test", "other"
LAST_TRAIN, LAST_TEST = 7, 10  # numbers of RealTalk's chats
STRICT, VALID, REPAIRED = "strict", "valid", "repaired"
READINGS = (STRICT, VALID, REPAIRED)
_ENOUGH_TIMES = 0.9  # the share of messages whose time must be read
BROKEN_TIME = "broken time"  # a quirk
_ID = re.compile(r"D?:?\s*(\d+)\s*[:;]\s*(\d+)", re.IGNORECASE)
_RANGE = re.compile(r"(D?\d+:\d+)\s*[-–—]\s*(D?\d+:)?(\d+)(?!\s*[:;\d])", re.IGNORECASE)
_MORE = re.compile(r"(D?\d+[:;])(\d+)\s*,\s*(\d+)(?!\s*[:;\d])", re.IGNORECASE)  # "D1:1,3"
_ABSTENTION = re.compile(
    r"\W*((it|this|that) (is|was) )?(not (mentioned|specified|stated|answerable)\b|"
    r"((there is|there's) )?no (information|mention)\b|no answer\W*$|unanswerable|unknown\W*$|n/?a\W*$|"
    r"(i|we) (do not|don't) know|cannot be answered|(you|they|she|he) (did not|didn't) mention|"
    r"the information provided is not enough|"
    r"(the )?(chat|conversation) (does not|doesn't) (mention|say|specify))",
    re.IGNORECASE,
)
_REACH = 6  # how far a photo may stand from the missing id, in local numbers
_NO_NUMBER = 10**6  # names without a number sort last
_SKETCHED = 20  # letters and digits that a text must exceed to identify a chat
_ALIKE = 0.2  # the share of sketched texts from which two files hold the same talk


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
        broken = sum(quirk.kind == BROKEN_TIME for quirk in self.quirks)
        return 1 - broken / len(self.messages)

    @property
    def time_note(self) -> str:
        """What a chat of which fewer than 90 % of times are read says of itself; else empty."""
        if self.timed >= _ENOUGH_TIMES:
            return ""
        broken = [quirk for quirk in self.quirks if quirk.kind == BROKEN_TIME]
        read = len(self.messages) - len(broken)
        count = f"{read} of {len(self.messages)} messages of {self.name} have a time that can be read"
        first = f"first without: {broken[0].place[-1]}"
        return f"times: {count} ({first}); what happened when is not known"

    @cached_property
    def today(self) -> dt.date | None:
        """The day of the last message: what "now" is for a question about this chat."""
        return max((message.time.date() for message in self.messages if message.time), default=None)

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

    def ids(self, positions: Sequence[int]) -> list[str]:
        """The ids of messages given by position."""
        return [self.messages[position].id for position in positions]


def number(name: str) -> int:
    """The N of ``Chat_N_…``, or a large number for other names (they sort last)."""
    match = re.match(r"Chat_(\d+)(?!\d)", name)
    return int(match[1]) if match else _NO_NUMBER


def split_of(chat: Chat) -> str:
    """``train`` for RealTalk's Chat_1 to Chat_7, ``test`` for Chat_8 to Chat_10, else ``other``."""
    if chat.schema != REALTALK:
        return OTHER
    chat_number = number(chat.name)
    if 1 <= chat_number <= LAST_TRAIN:
        return TRAIN
    return TEST if LAST_TRAIN < chat_number <= LAST_TEST else OTHER


def resembles(sketch: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two sketches are of the same talk: they share a fifth of the shorter one."""
    first, second = set(sketch), set(other)
    least = min(len(first), len(second))
    return least > 0 and len(first & second) >= _ALIKE * least


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
    ``"D1:1,3"`` D1:1 and D1:3. ``"D12:3-D12:5"`` and ``"D12:3-5"`` stand for every existing id from the one
    to the other. Empty where none is named.
    """
    if text in chat.position:
        return [text]
    names: list[str] = []
    single = text  # the text without its ranges
    while more := _MORE.search(single):
        single = single.replace(more[0], f"{more[1]}{more[2]} {more[1]}{more[3]}")
    for match in _RANGE.finditer(single):
        block = match[2] or match[1].partition(":")[0] + ":"
        first, last = _written(match[1]), _written(f"{block}{match[3]}")
        start, end = chat.position.get(first), chat.position.get(last)
        if start is None or end is None or end < start:
            names += [first, last]
        else:
            names += chat.ids(range(start, end + 1))
    for match in _ID.finditer(_RANGE.sub(" ", single)):
        names.append(_written(match[0]))
    return names


def _written(name: str) -> str:
    """An id as chats write it: ``D1:3``."""
    block, local = re.findall(r"\d+", name)
    return f"D{int(block)}:{int(local)}"


def photo_neighbour(chat: Chat, name: str) -> int | None:
    """Position of the nearest photo message to a missing id, within 6 numbers of the same block, or None."""
    block, _, wanted = name.partition(":")
    nearest: tuple[int, int] | None = None
    for message in chat.messages:
        own_block, _, local = message.id.partition(":")
        if message.photo and own_block == block and local.isdigit():
            candidate = (abs(int(local) - int(wanted)), message.position)
            nearest = min(nearest or candidate, candidate)
    if nearest is None or nearest[0] > _REACH:
        return None
    return nearest[1]


def gold(chat: Chat, reading: str = VALID) -> dict[int, frozenset[int]]:
    """Gold positions by question index; questions without any gold are absent (to be counted, not scored)."""
    by_question = {}
    for question in chat.questions:
        positions = evidence(chat, question, reading).positions
        if positions:
            by_question[question.index] = frozenset(positions)
    return by_question


def sessions_of(chat: Chat, positions: Iterable[int]) -> list[int]:
    """The sessions that some positions lie in, ascending."""
    return sorted({chat.sessions[position] for position in positions})
