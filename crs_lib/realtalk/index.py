"""The index of a chat: everything that is known before a question is asked."""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crs_lib.realtalk import names, segments, signals
from crs_lib.realtalk.records import Chat
from crs_lib.realtalk.wording import content_words, pairs
from crs_lib.retrieval import dense
from crs_lib.retrieval.bm25 import BM25

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ChatIndex:
    """What retrieval knows of a chat; built from its messages alone, never from its annotations."""

    chat: Chat
    encoder: str
    make: Callable[[], dense.Encoder]

    @property
    def size(self) -> int:
        """Number of messages."""
        return len(self.chat.messages)

    @cached_property
    def names(self) -> dict[str, str]:
        """Speaker by folded name."""
        return names.learn(self.chat)

    @cached_property
    def today(self) -> dt.date | None:
        """The day of the last message: what "now" is for a question about this chat."""
        times = [m.time for m in self.chat.messages if m.time]
        return max(times).date() if times else None

    @cached_property
    def tokens(self) -> list[list[str]]:
        """Content stems of each message: its text and the caption of its photo."""
        return [content_words(f"{m.text} {m.caption}") for m in self.chat.messages]

    @cached_property
    def words(self) -> BM25:
        """Messages by content stem (b = 0.4: messages differ in length by register, not by topic)."""
        return BM25(1.2, 0.4).fit(self.tokens)

    @cached_property
    def pairs(self) -> BM25:
        """Messages by neighbouring stems."""
        return BM25(1.2, 0.4).fit([pairs(t) for t in self.tokens])

    @cached_property
    def grams(self) -> BM25:
        """Messages by character 4-grams of their stems: misspelt and compounded words."""
        return BM25(1.2, 0.4).fit([grams(t) for t in self.tokens])

    @cached_property
    def by_segment(self) -> BM25:
        """Segments by content stem."""
        joined = [[t for row in self.tokens[s.start : s.end] for t in row] for s in self.segments]
        return BM25(1.2, 0.75).fit(joined)

    @cached_property
    def vectors(self) -> dense.Encoded:
        """Sentence and token vectors of the messages' texts."""
        return dense.widened(dense.cached(self.encoder, [m.text for m in self.chat.messages], self.make))

    @cached_property
    def turns(self) -> dense.Encoded:
        """Vectors of each message together with the last one of the other speaker before it."""
        return dense.widened(dense.cached(self.encoder, exchanges(self.chat), self.make))

    @cached_property
    def captions(self) -> dense.Encoded:
        """Vectors of the photo captions; texts without photo are empty."""
        return dense.cached(self.encoder, [m.caption for m in self.chat.messages], self.make)

    @cached_property
    def segments(self) -> list[segments.Segment]:
        """L1: topic segments."""
        return segments.cut(self.chat, self.vectors.sentences)

    @cached_property
    def owner(self) -> NDArray[np.intp]:
        """The segment of each message."""
        return segments.of_message(self.segments, self.size)

    @cached_property
    def segment_vectors(self) -> Floats:
        """Mean vector of each segment, scaled to length 1."""
        rows = [self.vectors.sentences[s.start : s.end].mean(axis=0) for s in self.segments]
        return dense.unit(np.stack(rows))

    @cached_property
    def signals(self) -> signals.Signals:
        """L1.5: signals of each message."""
        return signals.read(self.chat)

    @cached_property
    def session(self) -> NDArray[np.intp]:
        """Session number of each message."""
        return np.array(self.chat.sessions, dtype=np.intp)

    def encode(self, texts: Sequence[str]) -> dense.Encoded:
        """Vectors of query texts, cached by content like the chat's own."""
        return dense.cached(self.encoder, texts, self.make)


def build(chat: Chat, encoder: str = "minilm") -> ChatIndex:
    """The index of a chat with an encoder by name; parts are made when first used."""
    dense.ENCODERS.get(encoder)
    kept: list[dense.Encoder] = []

    def make() -> dense.Encoder:
        if not kept:
            kept.append(dense.ENCODERS.create(encoder))
        return kept[0]

    return ChatIndex(chat, encoder, make)


def encoders() -> list[str]:
    """The names of the encoders an index can use."""
    return dense.ENCODERS.names()


def grams(stems: Sequence[str]) -> list[str]:
    """Character 4-grams of framed stems: "cat" gives "^cat", "cat$"."""
    return [f"^{s}$"[i : i + 4] for s in stems for i in range(max(1, len(s) - 1))]


def exchanges(chat: Chat) -> list[str]:
    """Each message after the end of the other speaker's last message in the session (200 characters)."""
    out: list[str] = []
    last: dict[str, str] = {}
    session = None
    for message in chat.messages:
        if message.session != session:
            session, last = message.session, {}
        other = next((text for speaker, text in reversed(last.items()) if speaker != message.speaker), "")
        out.append(f"{other[-200:]} {message.text}".strip())
        last.pop(message.speaker, None)
        last[message.speaker] = message.text
    return out
