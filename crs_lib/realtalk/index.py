"""The index of a chat: everything that is known before a question is asked.

L1 are topic segments: they lie inside sessions, cut at long silences and where the vectors change. L1.5 are
signals of each message: people, days, questions, mood, media. L2 are threads: segments of several sessions
that are about one thing.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import paths, prompts
from crs_lib.core.errors import InputError
from crs_lib.core.tables import fingerprint, of_files
from crs_lib.core.text import words
from crs_lib.realtalk import corpus, wording
from crs_lib.realtalk.corpus import Chat, ChatMessage
from crs_lib.realtalk.wording import WORDS, Span, content_words, pairs
from crs_lib.retrieval import encoders as encoding
from crs_lib.retrieval import lowrank
from crs_lib.retrieval.bm25 import BM25

Floats = NDArray[np.float32]
Floats64 = NDArray[np.float64]
Positions = NDArray[np.intp]
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


class TopicSegment(NamedTuple):
    """Messages ``start:end`` (positions) of one session that belong together, and what they are about.
    ``label`` are the words that mark it out against the other segments.
    """

    start: int
    end: int
    session: int
    label: tuple[str, ...]


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
            tuned = tuned_for(self.chat)
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

    def plan(self, question: str) -> wording.QueryPlan:
        """The plan of a question about this chat."""
        return wording.plan(question, self.names, self.chat.today)

    @cached_property
    def speakers(self) -> NDArray[np.str_]:
        """The speaker of each message."""
        return np.array([message.speaker for message in self.chat.messages])

    @cached_property
    def days(self) -> Floats64:
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
            stems = itertools.chain.from_iterable(self.tokens[segment.start : segment.end])
            stems_of_segments.append(list(stems))
        return BM25(_K1, _B_SEGMENTS).fit(stems_of_segments)

    @cached_property
    def encoded(self) -> dict[str, encoding.Encoded]:
        """Sentence and token vectors of the messages' texts by each encoder, by its role."""
        return {role: self.encode(self.chat.texts, role).widened() for role in self.encoders}

    @property
    def vectors(self) -> encoding.Encoded:
        """Those by the main encoder."""
        return self.encoded[""]

    @cached_property
    def before(self) -> Positions:
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
    def segments(self) -> list[TopicSegment]:
        """L1: topic segments."""
        return cut(self.chat, self.vectors.sentences)

    @cached_property
    def owner(self) -> Positions:
        """The segment of each message."""
        sizes = [segment.end - segment.start for segment in self.segments]
        return np.repeat(np.arange(len(sizes)), sizes)

    @cached_property
    def segment_vectors(self) -> Floats:
        """Mean vector of each segment, scaled to length 1."""
        sentences = self.vectors.sentences
        means = []
        for segment in self.segments:
            inside = sentences[segment.start : segment.end]
            means.append(inside.mean(axis=0))
        return encoding.unit(np.stack(means))

    @cached_property
    def signals(self) -> "Signals":
        """L1.5: signals of each message."""
        return read_signals(self.chat)

    @cached_property
    def session(self) -> Positions:
        """Session number of each message."""
        return np.array(self.chat.sessions, dtype=np.intp)

    @cached_property
    def threads(self) -> list[tuple[int, ...]]:
        """L2: the threads, earliest first: segments, in time order, of several sessions, about one thing."""
        return join_threads(self.segments, self.segment_vectors, self.encoder)

    @cached_property
    def thread(self) -> Positions:
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
    parts = name.split(" ")
    updates = lowrank.read(UPDATES) if parts[0] == TUNED else None
    if updates is None:
        return encoding.ENCODERS.create(name)
    return encoding.Pooled(name, encoding.NumpyModel(updates.factors(parts[1])))


def tuned_for(chat: Chat) -> str:
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
            best = max(best, (len(teachers), f"{TUNED} {name} {update['digest'][:8]}"))
    return best[1]


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


# ── L1: segments ─────────────────────────────────────────────────────────────────────────────────────

GAP_SECONDS = 30 * 60  # a longer silence ends a burst of talk
_WIDTH = 3  # messages on each side of a possible cut
_LEAST = 3  # messages of a segment
_DEPTH = 0.5  # standard deviations above the mean from which a valley is a cut
_LABELLED = 3  # words of a segment's label
_Range = tuple[int, int]  # positions, the end excluded


def cut(chat: Chat, vectors: Floats) -> list[TopicSegment]:
    """The segments of a chat, in order; together they hold every message once.

    Hard cuts at session borders and silences of more than 30 minutes; inside, soft cuts at the depth peaks of
    the cosine between the mean vectors of the three messages before and after (depth above mean + 0.5
    standard deviations of the chat, segments of at least three messages). Source: Hearst (1997), TextTiling,
    on sentence vectors.
    """
    bursts = _bursts(chat)
    depths = [_depths(vectors[start:end]) for start, end in bursts]
    every = np.concatenate(depths)
    if not len(every):
        every = np.zeros(1)
    bar = float(every.mean() + _DEPTH * every.std())
    spans: list[_Range] = []
    for (start, end), depth in zip(bursts, depths, strict=True):
        edges = start + np.array(_soft_cuts(depth, end - start, bar))
        spans += itertools.pairwise(edges.tolist())
    segments = []
    for (start, end), label in zip(spans, _labels(chat, spans), strict=True):
        segments.append(TopicSegment(start, end, chat.sessions[start], label))
    return segments


def _bursts(chat: Chat) -> list[_Range]:
    cuts = [0]
    for before, after in itertools.pairwise(chat.messages):
        silence = 0.0
        if before.time and after.time:
            silence = (after.time - before.time).total_seconds()
        if before.session != after.session or silence > GAP_SECONDS:
            cuts.append(after.position)
    return list(itertools.pairwise([*cuts, len(chat.messages)]))


def _depths(vectors: Floats) -> Floats64:
    """Depth of the similarity valley before messages 1 … n-1, (n - 1,); higher is a clearer change."""
    n = len(vectors)
    if n < 2 * _LEAST:
        return np.zeros(0)
    near = np.zeros(n - 1)
    for i in range(1, n):
        before = vectors[max(0, i - _WIDTH) : i].mean(axis=0)
        after = vectors[i : i + _WIDTH].mean(axis=0)
        lengths = float(np.linalg.norm(before) * np.linalg.norm(after))
        near[i - 1] = before @ after / max(lengths, 1e-9)
    peak_before = np.maximum.accumulate(near)
    peak_after = np.maximum.accumulate(near[::-1])[::-1]
    return peak_before + peak_after - 2 * near


def _soft_cuts(depth: Floats64, size: int, bar: float) -> list[int]:
    """The edges of a burst's segments: cuts at the deepest valleys first, none closer than three messages."""
    edges = [0, size]
    for valley in np.argsort(-depth, kind="stable").tolist():
        if depth[valley] <= bar:
            break
        position = valley + 1
        if all(abs(position - edge) >= _LEAST for edge in edges):
            edges.append(position)
    return sorted(edges)


def _labels(chat: Chat, spans: Sequence[_Range]) -> list[tuple[str, ...]]:
    """Three words a segment by class TF-IDF; ties alphabetical. Source: Grootendorst (2022), BERTopic."""
    counts = []
    for start, end in spans:
        count: Counter[str] = Counter()
        for message in chat.messages[start:end]:
            count.update(content_words(message.text))
        counts.append(count)
    everywhere = sum(counts, Counter[str]())
    mean = everywhere.total() / max(len(spans), 1)
    labels = []
    for count in counts:
        weights = {}
        for word, times in count.items():
            weights[word] = times * np.log1p(mean / everywhere[word])
        best = sorted(weights, key=lambda word: (-weights[word], word))
        labels.append(tuple(best[:_LABELLED]))
    return labels


# ── L1.5: signals ────────────────────────────────────────────────────────────────────────────────────

COLUMNS = (
    "length",
    "question",
    "first_person",
    "second_person",
    "reaction",
    "photo",
    "number",
    "money",
    "when_words",
    "past_words",
    "future_words",
    "entities",
    "quoted",
    "mood",
    "conflict",
)
_ENTITY = re.compile(r"(?<![.!?…\n\"“] )(?<!^)\b[A-Z][a-zA-Z]{2,}\b")
_QUOTED = re.compile(r"[\"“«][^\"”»]{2,60}[\"”»]")


class Signals(NamedTuple):
    """Signals of a chat: ``table`` is (messages, len(COLUMNS)) float32; ``days`` a list. ``days[i]`` are the
    day ranges that message i speaks of, counted from its own time; a message without time has none.
    """

    table: Floats
    days: list[list[Span]]

    def column(self, name: str) -> Floats:
        """One signal of all messages, (messages,)."""
        return self.table[:, COLUMNS.index(name)]


def read_signals(chat: Chat) -> Signals:
    """The signals of every message; rates lie in [0, 1], ``mood`` in [-1, 1], the other signals count."""
    rows = []
    days = []
    for message in chat.messages:
        spans = wording.find_dates(message.text, message.time.date()) if message.time else []
        signals = _signals_of(message)
        signals["when_words"] = len(spans)
        rows.append([signals[name] for name in COLUMNS])
        days.append(spans)
    table = np.array(rows, dtype=np.float32)
    return Signals(table.reshape(-1, len(COLUMNS)), days)


@cache
def _word_list(name: str) -> frozenset[str]:
    return frozenset(prompts.lists(WORDS)["signals"][name].split())


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(prompts.lists(WORDS)["signals"][name], re.IGNORECASE)


def _signals_of(message: ChatMessage) -> dict[str, float]:
    """The signals of one message by the names of ``COLUMNS``."""
    text = message.text
    tokens = words(text.replace("'", "").replace("’", ""))
    size = max(len(tokens), 1)
    count = {}
    for name in ("good", "bad", "first_person", "second_person", "conflict"):
        listed = _word_list(name)
        count[name] = sum(token in listed for token in tokens)
    good, bad = count["good"], count["bad"]
    signals: dict[str, float] = {}
    signals["length"] = len(tokens)
    signals["question"] = "?" in text
    signals["first_person"] = count["first_person"] / size
    signals["second_person"] = count["second_person"] / size
    signals["reaction"] = bool(_pattern("reaction").match(text))
    signals["photo"] = message.photo
    signals["number"] = sum(any(map(str.isdigit, token)) for token in tokens)
    signals["money"] = bool(_pattern("money").search(text))
    signals["past_words"] = len(_pattern("past").findall(text))
    signals["future_words"] = len(_pattern("future").findall(text))
    signals["entities"] = len({word.lower() for word in _ENTITY.findall(text)})
    signals["quoted"] = len(_QUOTED.findall(text))
    signals["mood"] = (good - bad) / max(good + bad, 1)
    signals["conflict"] = count["conflict"]
    return signals


# ── L2: threads ──────────────────────────────────────────────────────────────────────────────────────

_PEERS = 5  # nearest segments that a link may lead to
_LONGEST = 12  # segments of a thread
_SHARED_WORD = 0.1  # what a shared label word adds to the cosine
_MOST_SHARED = 2  # words that count
_RARE = (2, 3)  # segments that have a rare label word: at least, at most
_NEAR = 0.45  # the strength of a link
_NEAR_SPELLING = 0.25  # the same for vectors of spelling, the encoder "hashing"


def join_threads(segments: Sequence[TopicSegment], vectors: Floats, encoder: str) -> list[tuple[int, ...]]:
    """The threads of a chat, earliest first, each the numbers of its segments in order.

    A link needs different sessions, mutual membership in the five nearest, and a strength of at least 0.45
    (0.25 for spelling vectors): the cosine of mean vectors plus 0.1 for each shared label word that at most
    three segments have (at most two such words count). Links join groups from the strongest down, never
    beyond twelve segments, so that one broad topic does not swallow the chat. Segments that no link joins are
    in no thread.
    """
    group_of = [[number] for number in range(len(segments))]
    for first, second in _links(segments, vectors, encoder):
        group, other = group_of[first], group_of[second]
        if group is other or len(group) + len(other) > _LONGEST:
            continue
        group += other
        for number in other:
            group_of[number] = group
    threads = set()
    for group in group_of:
        if len(group) > 1:
            threads.add(tuple(sorted(group)))
    return sorted(threads)


def _links(segments: Sequence[TopicSegment], vectors: Floats, encoder: str) -> list[tuple[int, int]]:
    """The two segments of every link, strongest first; ties in order of segments."""
    bar = _NEAR_SPELLING if encoder == "hashing" else _NEAR
    near = np.asarray(vectors @ vectors.T, dtype=np.float64) + _shared_words(segments)
    session = np.array([segment.session for segment in segments])
    near[session[:, None] == session[None, :]] = -np.inf
    nearest = np.argsort(-near, axis=1, kind="stable")[:, :_PEERS]
    peer = np.zeros(near.shape, dtype=bool)
    np.put_along_axis(peer, nearest, True, axis=1)
    linked = peer & peer.T & (near >= bar)
    rows, columns = np.nonzero(np.triu(linked, 1))
    links = zip(rows.tolist(), columns.tolist(), strict=True)
    return sorted(links, key=lambda link: (-near[link], link))


def _shared_words(segments: Sequence[TopicSegment]) -> Floats64:
    """What rare label words in common add to the strength of every pair, (segments, segments)."""
    counts: Counter[str] = Counter()
    for segment in segments:
        counts.update(segment.label)
    least, most = _RARE
    rare = [word for word, count in counts.items() if least <= count <= most]
    has = np.zeros((len(segments), len(rare)))
    for number, segment in enumerate(segments):
        has[number] = np.isin(rare, segment.label)
    return np.minimum(_SHARED_WORD * (has @ has.T), _MOST_SHARED * _SHARED_WORD)


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

    return encoding.stored_rows(path, names, make_missing, np.float32)


@cache
def source_digest(*modules: ModuleType) -> str:
    """64 hex digits of the source of some modules and of the words: a change makes anew what they made."""
    files = [Path(str(module.__file__)) for module in modules]
    return fingerprint([prompts.lists(WORDS), of_files(files)])
