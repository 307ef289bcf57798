"""The index of a chat: everything that is known before a question is asked."""

import json
from collections import Counter
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
_PEERS, _LONGEST, _RARE = 5, 12, 0.1
_NEAR = {"minilm": 0.45, "hashing": 0.25}  # what counts as near depends on the encoder


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
        others = self.encoder.split("+")[1:]
        named = [("tuned", _tuned_for(self.chat)) if name == TUNED else ("beside", name) for name in others]
        return {"": self.main} | {role: name for role, name in named if name}

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
        return np.array([m.time.toordinal() if m.time else np.nan for m in self.chat.messages])

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
        return BM25(1.2, 0.4).fit(map(pairs, self.tokens))

    @cached_property
    def grams(self) -> BM25:
        """Messages by character 4-grams of their stems: misspelt and compounded words."""
        return BM25(1.2, 0.4).fit(map(grams, self.tokens))

    def having(self, term: str) -> NDArray[np.integer]:
        """Positions of the messages that have a content stem; empty for one that none has."""
        code = self.words.vocabulary.get(term)
        start, end = (0, 0) if code is None else self.words.starts[code : code + 2]
        return self.words.documents[start:end]

    @cached_property
    def by_segment(self) -> BM25:
        """Segments by content stem."""
        joined = [[t for row in self.tokens[s.start : s.end] for t in row] for s in self.segments]
        return BM25(1.2, 0.75).fit(joined)

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
        out, last, session = list[int](), dict[str, int](), 0
        for message in self.chat.messages:
            if message.session != session:
                session, last = message.session, {}
            others = [place for speaker, place in last.items() if speaker != message.speaker]
            out.append(max(others, default=-1))
            last[message.speaker] = message.position
        return np.array(out, dtype=np.intp)

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
        sizes = [segment.end - segment.start for segment in self.segments]
        return np.repeat(np.arange(len(sizes)), sizes).astype(np.intp)

    @cached_property
    def segment_vectors(self) -> Floats:
        """Mean vector of each segment, scaled to length 1."""
        rows = [self.vectors.sentences[s.start : s.end].mean(axis=0) for s in self.segments]
        return encoding.unit(np.stack(rows))

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
        return _threads(self)

    @cached_property
    def thread(self) -> NDArray[np.intp]:
        """The number of the thread of each message, -1 where it is in none."""
        out = np.full(len(self.segments), -1, dtype=np.intp)
        for i, thread in enumerate(self.threads):
            out[list(thread)] = i
        return out[self.owner]

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
    kind, _, rest = name.partition(" ")
    found = lowrank.read(UPDATES) if kind == TUNED else None
    if found is None:
        return encoding.ENCODERS.create(name)
    return encoding.Pooled(name, encoding.NumpyModel(found.factors(rest.partition(" ")[0])))


def _tuned_for(chat: Chat) -> str:
    """The name of the tuned encoder for a chat: of the updates that it did not teach, the most widely taught.
    A chat is known again by hashes of its messages, also where some were changed. The name holds 8 digits of
    the update's digest; an empty string where every update was taught by this chat. InputError where the
    package has no updates.
    """
    if (found := lowrank.read(UPDATES)) is None:
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
    return [f"^{s}$"[i : i + 4] for s in stems for i in range(max(1, len(s) - 1))]


# ── threads ──────────────────────────────────────────────────────────────────────────────────────────


def _threads(index: ChatIndex) -> list[tuple[int, ...]]:
    """The threads of a chat, earliest first; segments that join none are in no thread. A link needs different
    sessions, mutual membership in the five nearest, and a strength of at least 0.45 (0.25 for spelling
    vectors): the cosine of mean vectors plus 0.1 for each shared label word that at most three segments have
    (at most two such words count). Links join groups from the strongest down, never beyond twelve segments,
    so that one broad topic does not swallow the chat.
    """
    links = _links(index)
    group = list(range(len(index.segments)))
    members = {i: [i] for i in group}
    for _, a, b in links:
        one, two = group[a], group[b]
        if one == two or len(members[one]) + len(members[two]) > _LONGEST:
            continue
        members[one] += members.pop(two)
        for i in members[one]:
            group[i] = one
    several = (part for part in members.values() if len({index.segments[i].session for i in part}) > 1)
    return sorted(tuple(sorted(part)) for part in several)


def _links(index: ChatIndex) -> list[tuple[float, int, int]]:
    """Strength and ends of every link, strongest first; ties in order of segments."""
    words = Counter(word for segment in index.segments for word in segment.label)
    rare = sorted(word for word, count in words.items() if 2 <= count <= 3)
    has = np.array([[word in segment.label for word in rare] for segment in index.segments], dtype=float)
    has = has.reshape(len(index.segments), len(rare))
    shared, vectors = np.minimum(_RARE * (has @ has.T), 2 * _RARE), index.segment_vectors
    near = np.asarray(vectors @ vectors.T, dtype=np.float64) + shared
    session = np.array([s.session for s in index.segments])
    near[session[:, None] == session[None, :]] = -np.inf
    n = len(near)
    best = np.argsort(-near, axis=1, kind="stable")[:, :_PEERS]
    peer = np.zeros((n, n), dtype=bool)
    peer[np.arange(n)[:, None], best] = True
    rows, columns = np.nonzero(np.triu(peer & peer.T & (near >= _NEAR.get(index.encoder, 0.45)), 1))
    links = [(float(near[i, j]), int(i), int(j)) for i, j in zip(rows, columns, strict=True)]
    return sorted(links, key=lambda link: (-link[0], link[1], link[2]))


# ── scores kept on disk under all that decides them: the chat, the encoder, the question, the code ───────


def kept_arrays(
    keys: Iterable[Sequence[Any]], items: Sequence[T], make: Callable[[list[T]], list[Floats]]
) -> list[Floats]:
    """The array of each item, (rows, columns) float32: from ``scores.sqlite``, or made and stored. ``keys``
    are all facts, as JSON can hold them, that decide an item's array; ``make`` gets the missing items, once
    each. What is read has the bytes of what was made.
    """
    names = [json.dumps(key, sort_keys=True) for key in keys]
    asked = dict(zip(names, items, strict=True))
    path = paths.data() / "processed" / "realtalk" / "scores.sqlite"
    return store.vectors(path, names, lambda missing: make([asked[name] for name in missing]), np.float32)


@cache
def source_digest(*modules: ModuleType) -> str:
    """64 hex digits of the source of some modules and of the words: a change makes anew what they made."""
    files = [Path(str(module.__file__)) for module in modules]
    return fingerprint([prompts.lists(wording.WORDS), of_files(files)])
