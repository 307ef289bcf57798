"""The records of a chat: messages, questions, quirks. Positions are file order; ids are opaque keys."""

import datetime as dt
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple


@dataclass(frozen=True)
class Message:
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
class Question:
    """A question with its answer and raw evidence strings: annotation, never shown to the pipeline.

    ``index`` is the place in the file's list, ``category`` 0 where the file gives none.
    """

    index: int
    text: str
    answer: str | None
    evidence: tuple[str, ...]
    category: int


class Quirk(NamedTuple):
    """Something in a file that is not as the schema says: its kind, where it stands, what was done."""

    kind: str
    where: str
    done: str


@dataclass(frozen=True)
class Chat:
    """One chat of two people in file order, with what was odd about its file.

    ``digest`` depends on the messages alone: a chat is the same chat whatever its annotations say.
    """

    name: str
    schema: str
    speakers: tuple[str, ...]
    messages: tuple[Message, ...]
    questions: tuple[Question, ...]
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

    def ids(self, positions: Sequence[int]) -> list[str]:
        """The ids of messages given by position."""
        return [self.messages[i].id for i in positions]
