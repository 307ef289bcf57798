"""The index of a chat: everything that is known before a question is asked."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import paths, prompts
from crs_lib.core.errors import InputError
from crs_lib.core.tables import fingerprint, of_files
from crs_lib.realtalk import corpus, levels, wording
from crs_lib.realtalk import plan as plans
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.dates import WORDS
from crs_lib.realtalk.wording import content_words, pairs
from crs_lib.retrieval import encoders as encoding
from crs_lib.retrieval import lowrank, store
from crs_lib.retrieval.bm25 import BM25

Floats = NDArray[np.float32]
T = TypeVar("T")
TUNED = "tuned"  # MiniLM with the low-rank update that comes with this study
BEST = f"minilm+gte-small+{TUNED}"
STUDIED = ("minilm", f"minilm+{TUNED}", BEST)
ENCODERS = ("hashing", *STUDIED)
UPDATES = Path(__file__).with_name("updates.npz")
_K1 = 1.2
_B_MESSAGES = 0.4  # messages differ in length by register, not by topic
_B_SEGMENTS = 0.75
_GRAM = 4  # characters


@dataclass(frozen=True)
class ChatIndex:
    """All that retrieval knows of a chat; built from its messages alone, never from its annotations."""

    chat: Chat
    encoder: str

    @property
    def main(self) -> str:
        """The first of the encoders: segments, threads and likeness are read off its vectors."""
        return self.encoder.partition("+")[0]

    @cached_property
    def encoders(self) -> dict[str, str]:
        """The encoders by role: "" the main one, "beside" it, and "tuned" for an update not of this chat."""
        by_role = {"": self.main}
        for name in self.encoder.split("+")[1:]:
            if name != TUNED:
                by_role["beside"] = name
                continue
            tuned = _tuned_for(self.chat)
            if tuned:
                by_role["tuned"] = tuned
        return by_role

    @property
    def tuned(self) -> str:
        """The name of MiniLM with an update that this chat did not teach, or an empty string."""
        return self.encoders.get("tuned", "")

    @property
    def size(self) -> int:
        """Number of messages."""
        return len(self.chat.messages)

    @cached_property
    def names(self) -> dict[str, str]:
        """Speaker by folded name."""
        return wording.learn_names(self.chat)

    def plan(self, question: str) -> plans.QueryPlan:
        """The plan of a question about this chat."""
        return plans.make(question, self.names, self.chat.today)

    @cached_property
    def days(self) -> NDArray[np.float64]:
        """The day of each message, as a number; NaN where it has no time."""
        days = np.full(self.size, np.nan)
        for message in self.chat.messages:
            if message.time:
                days[message.position] = message.time.toordinal()
        return days

    @cached_property
    def tokens(self) -> list[list[str]]:
        """Content stems of each message: its text and the caption of its photo."""
        return [content_words(f"{message.text} {message.caption}") for message in self.chat.messages]

    @cached_property
    def words(self) -> BM25:
        """Messages by content stem."""
        return BM25(_K1, _B_MESSAGES).fit(self.tokens)

    @cached_property
    def pairs(self) -> BM25:
        """Messages by neighbouring stems."""
        return BM25(_K1, _B_MESSAGES).fit(map(pairs, self.tokens))

    @cached_property
    def grams(self) -> BM25:
        """Messages by character 4-grams of their stems: misspelt and compounded words."""
        return BM25(_K1, _B_MESSAGES).fit(map(grams, self.tokens))

    def having(self, term: str) -> NDArray[np.integer]:
        """Positions of the messages that have a content stem; empty for one that none has."""
        code = self.words.vocabulary.get(term)
        if code is None:
            return self.words.documents[:0]
        start, end = self.words.starts[code : code + 2]
        return self.words.documents[start:end]

    @cached_property
    def by_segment(self) -> BM25:
        """Segments by content stem."""
        stems_of_segments = []
        for segment in self.segments:
            stems: list[str] = []
            for message_stems in self.tokens[segment.start : segment.end]:
                stems += message_stems
            stems_of_segments.append(stems)
        return BM25(_K1, _B_SEGMENTS).fit(stems_of_segments)

    @cached_property
    def encoded(self) -> dict[str, encoding.Encoded]:
        """Sentence and token vectors of the messages' texts by each encoder, by its role."""
        texts = [message.text for message in self.chat.messages]
        return {role: self.encode(texts, role).widened() for role in self.encoders}

    @property
    def vectors(self) -> encoding.Encoded:
        """Those by the main encoder."""
        return self.encoded[""]

    @cached_property
    def before(self) -> NDArray[np.intp]:
        """Position of the other speaker's last message before each message in its session; -1 for none."""
        positions = []
        session = 0
        last: dict[str, int] = {}
        for message in self.chat.messages:
            if message.session != session:
                session = message.session
                last = {}
            others = [position for speaker, position in last.items() if speaker != message.speaker]
            positions.append(max(others, default=-1))
            last[message.speaker] = message.position
        return np.array(positions, dtype=np.intp)

    @cached_property
    def captions(self) -> encoding.Encoded:
        """Vectors of the photo captions; texts without photo are empty."""
        return self.encode([message.caption for message in self.chat.messages])

    @cached_property
    def segments(self) -> list[levels.TopicSegment]:
        """L1: topic segments."""
        return levels.cut(self.chat, self.vectors.sentences)

    @cached_property
    def owner(self) -> NDArray[np.intp]:
        """The segment of each message."""
        owner = np.empty(self.size, dtype=np.intp)
        for number, segment in enumerate(self.segments):
            owner[segment.start : segment.end] = number
        return owner

    @cached_property
    def segment_vectors(self) -> Floats:
        """Mean vector of each segment, scaled to length 1."""
        sentences = self.vectors.sentences
        means = [sentences[segment.start : segment.end].mean(axis=0) for segment in self.segments]
        return encoding.unit(np.stack(means))

    @cached_property
    def signals(self) -> levels.Signals:
        """L1.5: signals of each message."""
        return levels.read(self.chat)

    @cached_property
    def session(self) -> NDArray[np.intp]:
        """Session number of each message."""
        return np.array(self.chat.sessions, dtype=np.intp)

    @cached_property
    def threads(self) -> list[tuple[int, ...]]:
        """L2: the threads, earliest first: segments, in time order, of several sessions, about one thing."""
        return levels.join_threads(self.segments, self.segment_vectors, self.encoder)

    @cached_property
    def thread(self) -> NDArray[np.intp]:
        """The number of the thread of each message, -1 where it is in none."""
        of_segment = np.full(len(self.segments), -1, dtype=np.intp)
        for number, thread in enumerate(self.threads):
            of_segment[list(thread)] = number
        return of_segment[self.owner]

    def encode(self, texts: Sequence[str], role: str = "") -> encoding.Encoded:
        """Vectors of texts by the encoder of a role, cached by text."""
        name = self.encoders[role]
        return encoding.cached(name, texts, lambda: _encoder(name))


def build(chat: Chat, encoder: str = "minilm") -> ChatIndex:
    """The index of a chat with an encoder by name, or several joined by a plus; parts are made when used."""
    for name in encoder.split("+"):
        if name != TUNED:
            encoding.ENCODERS.get(name)
    return ChatIndex(chat, encoder)


@lru_cache(maxsize=3)
def _encoder(name: str) -> encoding.Encoder:
    """An encoder, loaded once in a process; ``tuned UPDATE DIGEST`` is MiniLM with that update."""
    words = name.split(" ")
    updates = lowrank.read(UPDATES) if words[0] == TUNED else None
    if updates is None:
        return encoding.ENCODERS.create(name)
    return encoding.Pooled(name, encoding.NumpyModel(updates.factors(words[1])))


def _tuned_for(chat: Chat) -> str:
    """The name of the tuned encoder for a chat: of the updates that it did not teach, the most widely taught.

    A chat is known again by hashes of its messages, also where some were changed. The name holds 8 digits of
    the update's digest; an empty string where every update was taught by this chat. InputError where the
    package has no updates.
    """
    updates = lowrank.read(UPDATES)
    if updates is None:
        raise InputError(f"the low-rank updates are not here ({UPDATES.name}); leave +{TUNED} out")
    sketches = updates.record["chats"]
    best = (0, "")
    for name, update in updates.record["updates"].items():
        teachers = update["taught by"]
        if not any(corpus.resembles(chat.sketch, sketches[teacher]) for teacher in teachers):
            best = max(best, (len(teachers), name))
    name = best[1]
    return f"{TUNED} {name} {updates.record['updates'][name]['digest'][:8]}" if name else ""


def choose_encoder(name: str, ranker: str = "auto") -> str:
    """``auto`` is the best that is here: MiniLM, with gte-small and a tuned MiniLM beside it, or hashing. The
    ranker ``hand`` reads MiniLM alone.
    """
    if name != "auto":
        return name
    if not (encoding.minilm_installed() or encoding.onnx_available("minilm-onnx")):
        return "hashing"
    if ranker == "hand" or not (UPDATES.is_file() and encoding.minilm_installed()):
        return "minilm"
    return BEST if encoding.onnx_available("gte-small") else f"minilm+{TUNED}"


def grams(stems: Sequence[str]) -> list[str]:
    """Character 4-grams of framed stems: "cat" gives "^cat", "cat$"."""
    parts = []
    for stem in stems:
        framed = f"^{stem}$"
        for start in range(max(1, len(stem) - 1)):
            parts.append(framed[start : start + _GRAM])
    return parts


# ── arrays kept on disk under all that decides them: the chat, the encoder, the question, the code ───


def stored(
    keys: Iterable[Sequence[Any]], items: Sequence[T], make: Callable[[list[T]], list[Floats]]
) -> list[Floats]:
    """The array of each item, (rows, columns) float32: from ``scores.sqlite``, or made and stored.

    ``keys`` are all facts, as JSON can hold them, that decide an item's array; ``make`` gets the missing
    items, once each. What is read has the bytes of what was made.
    """
    names = [json.dumps(key, sort_keys=True) for key in keys]
    item_of = dict(zip(names, items, strict=True))
    path = paths.data() / "processed" / "realtalk" / "scores.sqlite"

    def make_missing(missing: Sequence[str]) -> list[Floats]:
        return make([item_of[name] for name in missing])

    return store.vectors(path, names, make_missing, np.float32)


@cache
def source_digest(*modules: ModuleType) -> str:
    """64 hex digits of the source of some modules and of the words: a change makes anew what they made."""
    files = [Path(str(module.__file__)) for module in modules]
    return fingerprint([prompts.lists(WORDS), of_files(files)])
