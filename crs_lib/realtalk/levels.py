"""L1 and L2 of a chat: topic segments and what each message shows about itself; threads of segments.

Segments lie inside sessions, cut at long silences and where the vectors change; signals are people, days,
questions, mood, media. A thread holds segments of several sessions that are about one thing.
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import prompts
from crs_lib.core.text import words
from crs_lib.realtalk.corpus import Chat, ChatMessage
from crs_lib.realtalk.dates import WORDS, Span, find_dates
from crs_lib.realtalk.wording import content_words

GAP_SECONDS = 30 * 60  # a longer silence ends a burst of talk
_WIDTH = 3  # messages on each side of a possible cut
_LEAST = 3  # messages of a segment
_DEPTH = 0.5  # standard deviations above the mean from which a valley is a cut
_LABELLED = 3  # words of a segment's label
_PEERS = 5  # nearest segments that a link may lead to
_LONGEST = 12  # segments of a thread
_SHARED_WORD = 0.1  # what a shared label word adds to the cosine
_MOST_SHARED = 2  # words that count
_RARE = (2, 3)  # segments that have a rare label word: at least, at most
_NEAR = 0.45  # the strength of a link
_NEAR_SPELLING = 0.25  # the same for vectors of spelling, the encoder "hashing"
Thread = tuple[int, ...]
Range = tuple[int, int]  # positions, the end excluded


class TopicSegment(NamedTuple):
    """Messages ``start:end`` (positions) of one session that belong together, and what they are about.
    ``label`` are the words that mark it out against the other segments.
    """

    start: int
    end: int
    session: int
    label: tuple[str, ...]


def cut(chat: Chat, vectors: NDArray[np.float32]) -> list[TopicSegment]:
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
    spans: list[Range] = []
    for (start, end), depth in zip(bursts, depths, strict=True):
        for first, last in _soft(depth, end - start, bar):
            spans.append((start + first, start + last))
    segments = []
    for (start, end), label in zip(spans, _labels(chat, spans), strict=True):
        segments.append(TopicSegment(start, end, chat.sessions[start], label))
    return segments


def _bursts(chat: Chat) -> list[Range]:
    cuts = [0]
    for before, after in itertools.pairwise(chat.messages):
        silence = 0.0
        if before.time and after.time:
            silence = (after.time - before.time).total_seconds()
        if before.session != after.session or silence > GAP_SECONDS:
            cuts.append(after.position)
    return list(itertools.pairwise([*cuts, len(chat.messages)]))


def _depths(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
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


def _soft(depth: NDArray[np.float64], size: int, bar: float) -> list[Range]:
    """Half-open ranges of a burst: cuts at the deepest valleys first, none closer than three messages."""
    edges = [0, size]
    for valley in np.argsort(-depth, kind="stable").tolist():
        if depth[valley] <= bar:
            break
        position = valley + 1
        if all(abs(position - edge) >= _LEAST for edge in edges):
            edges.append(position)
    return list(itertools.pairwise(sorted(edges)))


def _labels(chat: Chat, spans: Sequence[Range]) -> list[tuple[str, ...]]:
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
        weighted = []
        for word, times in count.items():
            weight = times * np.log1p(mean / everywhere[word])
            weighted.append((-weight, word))
        labels.append(tuple(word for _, word in sorted(weighted)[:_LABELLED]))
    return labels


# ── signals ──────────────────────────────────────────────────────────────────────────────────────────

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

    table: NDArray[np.float32]
    days: list[list[Span]]

    def column(self, name: str) -> NDArray[np.float32]:
        """One signal of all messages, (messages,)."""
        return self.table[:, COLUMNS.index(name)]


def read(chat: Chat) -> Signals:
    """The signals of every message; rates lie in [0, 1], ``mood`` in [-1, 1], the other signals count."""
    rows = []
    days = []
    for message in chat.messages:
        spans = find_dates(message.text, message.time.date()) if message.time else []
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
    text = message.text
    tokens = words(text.replace("'", "").replace("’", ""))
    size = max(len(tokens), 1)

    def count(name: str) -> int:
        listed = _word_list(name)
        return sum(token in listed for token in tokens)

    good, bad = count("good"), count("bad")
    entities = {word.lower() for word in _ENTITY.findall(text)}
    signals: dict[str, float] = {}
    signals["length"] = len(tokens)
    signals["question"] = "?" in text
    signals["first_person"] = count("first_person") / size
    signals["second_person"] = count("second_person") / size
    signals["reaction"] = bool(_pattern("reaction").match(text))
    signals["photo"] = message.photo
    signals["number"] = sum(any(map(str.isdigit, token)) for token in tokens)
    signals["money"] = bool(_pattern("money").search(text))
    signals["past_words"] = len(_pattern("past").findall(text))
    signals["future_words"] = len(_pattern("future").findall(text))
    signals["entities"] = len(entities)
    signals["quoted"] = len(_QUOTED.findall(text))
    signals["mood"] = (good - bad) / max(good + bad, 1)
    signals["conflict"] = count("conflict")
    return signals


def join_threads(
    segments: Sequence[TopicSegment], vectors: NDArray[np.float32], encoder: str
) -> list[Thread]:
    """The threads of a chat, earliest first, each the numbers of its segments in order.

    A link needs different sessions, mutual membership in the five nearest, and a strength of at least 0.45
    (0.25 for spelling vectors): the cosine of mean vectors plus 0.1 for each shared label word that at most
    three segments have (at most two such words count). Links join groups from the strongest down, never
    beyond twelve segments, so that one broad topic does not swallow the chat. Segments that no link joins are
    in no thread.
    """
    group_of = list(range(len(segments)))
    members = {number: [number] for number in group_of}
    for first, second in _links(segments, vectors, encoder):
        into, other = group_of[first], group_of[second]
        if into == other or len(members[into]) + len(members[other]) > _LONGEST:
            continue
        members[into] += members.pop(other)
        for number in members[into]:
            group_of[number] = into
    threads = []
    session = np.array([segment.session for segment in segments])
    for group in members.values():
        if len(np.unique(session[group])) > 1:
            threads.append(tuple(sorted(group)))
    return sorted(threads)


def _links(
    segments: Sequence[TopicSegment], vectors: NDArray[np.float32], encoder: str
) -> list[tuple[int, int]]:
    """The two segments of every link, strongest first; ties in order of segments."""
    bar = _NEAR_SPELLING if encoder == "hashing" else _NEAR
    near = np.asarray(vectors @ vectors.T, dtype=np.float64) + _shared_words(segments)
    session = np.array([segment.session for segment in segments])
    near[session[:, None] == session[None, :]] = -np.inf
    n = len(near)
    nearest = np.argsort(-near, axis=1, kind="stable")[:, :_PEERS]
    peer = np.zeros((n, n), dtype=bool)
    peer[np.arange(n)[:, None], nearest] = True
    rows, columns = np.nonzero(np.triu(peer & peer.T & (near >= bar), 1))
    links = zip(rows.tolist(), columns.tolist(), strict=True)
    return sorted(links, key=lambda link: (-near[link], link))


def _shared_words(segments: Sequence[TopicSegment]) -> NDArray[np.float64]:
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
