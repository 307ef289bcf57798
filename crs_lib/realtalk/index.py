"""The index of a chat: everything that is known before a question is asked."""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from crs_lib.realtalk import segments, signals, wording
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.wording import content_words, pairs
from crs_lib.retrieval import dense
from crs_lib.retrieval.bm25 import BM25

Floats = NDArray[np.float32]
BOTH = "minilm+gte-small"


@dataclass(frozen=True)
class ChatIndex:
    """What retrieval knows of a chat; built from its messages alone, never from its annotations."""

    chat: Chat
    encoder: str
    make: Callable[[str], dense.Encoder]

    @property
    def main(self) -> str:
        """The first of the encoders: segments, threads and likeness are read off its vectors."""
        return self.encoder.partition("+")[0]

    @property
    def beside(self) -> str:
        """The encoder beside the main one, or an empty string."""
        return self.encoder.partition("+")[2]

    @property
    def size(self) -> int:
        """Number of messages."""
        return len(self.chat.messages)

    @cached_property
    def names(self) -> dict[str, str]:
        """Speaker by folded name."""
        return wording.learn_names(self.chat)

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
        """Sentence and token vectors of the messages' texts, by the main encoder."""
        return self._encoded(self.main)

    @cached_property
    def second(self) -> dense.Encoded | None:
        """The same by the encoder beside it; None where there is none."""
        return self._encoded(self.beside) if self.beside else None

    def _encoded(self, encoder: str) -> dense.Encoded:
        return dense.widened(self._cached(encoder, [m.text for m in self.chat.messages]))

    @cached_property
    def before(self) -> NDArray[np.intp]:
        """Position of the other speaker's last message before each message in its session; -1 for none."""
        return np.array(remarks_before(self.chat), dtype=np.intp)

    @cached_property
    def captions(self) -> dense.Encoded:
        """Vectors of the photo captions; texts without photo are empty."""
        return self._cached(self.main, [m.caption for m in self.chat.messages])

    @cached_property
    def segments(self) -> list[segments.TopicSegment]:
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
        """Vectors of query texts by the main encoder, cached by text like the chat's own."""
        return self._cached(self.main, texts)

    def encode_beside(self, texts: Sequence[str]) -> dense.Encoded | None:
        """The same by the encoder beside it; None where there is none."""
        return self._cached(self.beside, texts) if self.beside else None

    def _cached(self, encoder: str, texts: Sequence[str]) -> dense.Encoded:
        return dense.cached(encoder, texts, lambda: self.make(encoder))


def build(chat: Chat, encoder: str = "minilm") -> ChatIndex:
    """The index of a chat with an encoder by name, or two joined by a plus; parts are made when used."""
    for name in encoder.split("+"):
        dense.ENCODERS.get(name)
    return ChatIndex(chat, encoder, _encoder)


@lru_cache(maxsize=2)
def _encoder(name: str) -> dense.Encoder:
    """An encoder, loaded once in a process."""
    return dense.ENCODERS.create(name)


def encoders() -> list[str]:
    """What an index can be made with: each encoder alone, and MiniLM with gte-small beside it."""
    return [*dense.ENCODERS.names(), BOTH]


def grams(stems: Sequence[str]) -> list[str]:
    """Character 4-grams of framed stems: "cat" gives "^cat", "cat$"."""
    return [f"^{s}$"[i : i + 4] for s in stems for i in range(max(1, len(s) - 1))]


def remarks_before(chat: Chat) -> list[int]:
    """For each message the position of the other speaker's last one before it in the session, else -1."""
    out: list[int] = []
    last: dict[str, int] = {}
    session = None
    for message in chat.messages:
        if message.session != session:
            session, last = message.session, {}
        others = [place for speaker, place in last.items() if speaker != message.speaker]
        out.append(max(others, default=-1))
        last[message.speaker] = message.position
    return out
