"""The index of a chat: everything that is known before a question is asked."""

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.realtalk import corpus, segments, signals, wording
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.wording import content_words, pairs
from crs_lib.retrieval import encoders as encoding
from crs_lib.retrieval import lowrank
from crs_lib.retrieval.bm25 import BM25

Floats = NDArray[np.float32]
BOTH = "minilm+gte-small"
TUNED = "tuned"  # MiniLM with the low-rank update that comes with this study
STUDIED = ("minilm", BOTH, f"minilm+{TUNED}", f"{BOTH}+{TUNED}")
UPDATES = Path(__file__).with_name("updates.npz")


@dataclass(frozen=True)
class ChatIndex:
    """What retrieval knows of a chat; built from its messages alone, never from its annotations."""

    chat: Chat
    encoder: str
    make: Callable[[str], encoding.Encoder]

    @property
    def main(self) -> str:
        """The first of the encoders: segments, threads and likeness are read off its vectors."""
        return self.encoder.partition("+")[0]

    @property
    def beside(self) -> str:
        """The encoder beside the main one, or an empty string."""
        return next((name for name in self.encoder.split("+")[1:] if name != TUNED), "")

    @cached_property
    def tuned(self) -> str:
        """The name of MiniLM with an update that this chat did not teach, or an empty string."""
        return tuned_for(self.chat) if TUNED in self.encoder.split("+") else ""

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
    def vectors(self) -> encoding.Encoded:
        """Sentence and token vectors of the messages' texts, by the main encoder."""
        return self._encoded(self.main)

    @cached_property
    def second(self) -> encoding.Encoded | None:
        """The same by the encoder beside it; None where there is none."""
        return self._encoded(self.beside) if self.beside else None

    @cached_property
    def third(self) -> encoding.Encoded | None:
        """The same by the tuned encoder; None where there is none."""
        return self._encoded(self.tuned) if self.tuned else None

    def _encoded(self, encoder: str) -> encoding.Encoded:
        return self._cached(encoder, [m.text for m in self.chat.messages]).widened()

    @cached_property
    def before(self) -> NDArray[np.intp]:
        """Position of the other speaker's last message before each message in its session; -1 for none."""
        return np.array(remarks_before(self.chat), dtype=np.intp)

    @cached_property
    def captions(self) -> encoding.Encoded:
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
        return encoding.unit(np.stack(rows))

    @cached_property
    def signals(self) -> signals.Signals:
        """L1.5: signals of each message."""
        return signals.read(self.chat)

    @cached_property
    def session(self) -> NDArray[np.intp]:
        """Session number of each message."""
        return np.array(self.chat.sessions, dtype=np.intp)

    def encode(self, texts: Sequence[str]) -> encoding.Encoded:
        """Vectors of query texts by the main encoder, cached by text like the chat's own."""
        return self._cached(self.main, texts)

    def encode_beside(self, texts: Sequence[str]) -> encoding.Encoded | None:
        """The same by the encoder beside it; None where there is none."""
        return self._cached(self.beside, texts) if self.beside else None

    def encode_tuned(self, texts: Sequence[str]) -> encoding.Encoded | None:
        """The same by the tuned encoder; None where there is none."""
        return self._cached(self.tuned, texts) if self.tuned else None

    def _cached(self, encoder: str, texts: Sequence[str]) -> encoding.Encoded:
        return encoding.cached(encoder, texts, lambda: self.make(encoder))


def build(chat: Chat, encoder: str = "minilm") -> ChatIndex:
    """The index of a chat with an encoder by name, or several joined by a plus; parts are made when used."""
    for name in encoder.split("+"):
        if name != TUNED:
            encoding.ENCODERS.get(name)
    return ChatIndex(chat, encoder, _encoder)


@lru_cache(maxsize=3)
def _encoder(name: str) -> encoding.Encoder:
    """An encoder, loaded once in a process; ``tuned UPDATE DIGEST`` is MiniLM with that update."""
    kind, _, rest = name.partition(" ")
    found = lowrank.read(UPDATES) if kind == TUNED else None
    if found is None:
        return encoding.ENCODERS.create(name)
    return encoding.UpdatedMiniLM(name, found.factors(rest.partition(" ")[0]))


def tuned_for(chat: Chat) -> str:
    """The name of the tuned encoder for a chat: of the updates that it did not teach, the most widely taught.

    A chat is known again by hashes of its messages, also where some were changed. The name holds 8 digits of
    the update's digest; an empty string where every update was taught by this chat. InputError where the
    package has no updates.
    """
    found = lowrank.read(UPDATES)
    if found is None:
        raise InputError(f"the low-rank updates are not here ({UPDATES.name}); leave +{TUNED} out")
    free = {
        name: told
        for name, told in found.record["updates"].items()
        if not any(
            corpus.resembles(chat.sketch, found.record["chats"][taught]) for taught in told["taught by"]
        )
    }
    best = max(free, key=lambda name: (len(free[name]["taught by"]), name), default="")
    return f"{TUNED} {best} {free[best]['digest'][:8]}" if best else ""


def with_updates(encoder: str) -> str:
    """The encoder with the tuned one beside it, where the package's updates and MiniLM's weights are here."""
    return f"{encoder}+{TUNED}" if UPDATES.is_file() and encoding.minilm_installed() else encoder


def encoders() -> list[str]:
    """What an index can be made with: each alone, MiniLM with gte-small, and either with the tuned one."""
    return [*encoding.ENCODERS.names(), *STUDIED[1:]]


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
