"""L1 and L1.5 of a chat: topic segments, and what each message shows about itself before anyone asks.

Segments lie inside sessions, cut at long silences and where the vectors change; signals are people, days,
questions, mood, media.
"""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import prompts
from crs_lib.core.text import words
from crs_lib.realtalk.corpus import Chat, ChatMessage
from crs_lib.realtalk.wording import WORDS, Span, content_words, find_dates

_GAP_MINUTES = 30
_WIDTH, _LEAST, _DEPTH = 3, 3, 0.5


class TopicSegment(NamedTuple):
    """Messages ``start:end`` (positions) of one session that belong together, and what they are about.
    ``label`` are the words that mark it out against the other segments.
    """

    start: int
    end: int
    session: int
    label: tuple[str, ...]


def cut(chat: Chat, vectors: NDArray[np.float32]) -> list[TopicSegment]:
    """The segments of a chat, in order; together they hold every message once. Hard cuts at session borders
    and silences of more than 30 minutes; inside, soft cuts at the depth peaks of the cosine between the mean
    vectors of the three messages before and after (depth above mean + 0.5 standard deviations of the chat,
    segments of at least three messages). Source: Hearst (1997), TextTiling, on sentence vectors.
    """
    bursts = _bursts(chat)
    depths = [_depths(vectors[start:end]) for start, end in bursts]
    known = np.concatenate([d for d in depths if len(d)] or [np.zeros(1)])
    bar = float(known.mean() + _DEPTH * known.std())
    spans = [
        (start + a, start + b)
        for (start, end), depth in zip(bursts, depths, strict=True)
        for a, b in _soft(depth, end - start, bar)
    ]
    labels = _labels(chat, spans)
    return [
        TopicSegment(start, end, chat.sessions[start], label)
        for (start, end), label in zip(spans, labels, strict=True)
    ]


def _bursts(chat: Chat) -> list[tuple[int, int]]:
    cuts = [0]
    for before, after in itertools.pairwise(chat.messages):
        silence = (after.time - before.time).total_seconds() if before.time and after.time else 0.0
        if before.session != after.session or silence > 60 * _GAP_MINUTES:
            cuts.append(after.position)
    return list(zip(cuts, [*cuts[1:], len(chat.messages)], strict=True))


def _depths(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Depth of the similarity valley before messages 1 … n-1, (n - 1,); higher is a clearer change."""
    n = len(vectors)
    if n < 2 * _LEAST:
        return np.zeros(0)
    near = np.zeros(n - 1)
    for i in range(1, n):
        before = vectors[max(0, i - _WIDTH) : i].mean(axis=0)
        after = vectors[i : i + _WIDTH].mean(axis=0)
        near[i - 1] = before @ after / max(float(np.linalg.norm(before) * np.linalg.norm(after)), 1e-9)
    left, right = np.maximum.accumulate(near), np.maximum.accumulate(near[::-1])[::-1]
    return left + right - 2 * near


def _soft(depth: NDArray[np.float64], size: int, bar: float) -> list[tuple[int, int]]:
    """Half-open ranges of a burst: cuts at the deepest valleys first, none closer than three messages."""
    cuts: list[int] = []
    for i in sorted(range(len(depth)), key=lambda j: (-depth[j], j)):
        place = i + 1
        if depth[i] <= bar:
            break
        if all(abs(place - other) >= _LEAST for other in (0, size, *cuts)):
            cuts.append(place)
    edges = [0, *sorted(cuts), size]
    return list(itertools.pairwise(edges))


def _labels(chat: Chat, spans: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Three words a segment by class TF-IDF; ties alphabetical. Source: Grootendorst (2022), BERTopic."""
    counts = [Counter(w for m in chat.messages[a:b] for w in content_words(m.text)) for a, b in spans]
    everywhere = Counter(itertools.chain.from_iterable(count.elements() for count in counts))
    mean = everywhere.total() / max(len(spans), 1)
    return [
        tuple(sorted(count, key=lambda w: (-count[w] * np.log1p(mean / everywhere[w]), w))[:3])
        for count in counts
    ]


# ── signals ──────────────────────────────────────────────────────────────────────────────────────────

COLUMNS = (
    "length", "question", "first_person", "second_person", "reaction", "photo", "number", "money",
    "when_words", "past_words", "future_words", "entities", "quoted", "mood", "conflict",
)  # fmt: skip
_LISTED = ("first_person", "second_person", "good", "bad", "conflict")
_MATCHED = ("reaction", "money", "past", "future")
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
    """The signals of every message; rates lie in [0, 1], ``mood`` in [-1, 1], the rest counts."""
    rows, days = [], []
    for message in chat.messages:
        spans = find_dates(message.text, message.time.date()) if message.time else []
        rows.append(_row(message, len(spans)))
        days.append(spans)
    return Signals(np.array(rows, dtype=np.float32).reshape(-1, len(COLUMNS)), days)


def _row(message: ChatMessage, when: int) -> list[float]:
    text, told = message.text, prompts.lists(WORDS)["signals"]
    first, second, good_words, bad_words, conflict = (told[name].split() for name in _LISTED)
    reaction, money, past, future = (re.compile(told[name], re.IGNORECASE) for name in _MATCHED)
    tokens = words(text.replace("'", "").replace("’", ""))
    size = max(len(tokens), 1)
    good, bad = sum(t in good_words for t in tokens), sum(t in bad_words for t in tokens)
    return [
        float(len(tokens)), float("?" in text), sum(t in first for t in tokens) / size,
        sum(t in second for t in tokens) / size, float(bool(reaction.match(text))), float(message.photo),
        float(sum(any(c.isdigit() for c in t) for t in tokens)), float(bool(money.search(text))),
        float(when), float(len(past.findall(text))), float(len(future.findall(text))),
        float(len({word.lower() for word in _ENTITY.findall(text)})), float(len(_QUOTED.findall(text))),
        (good - bad) / max(good + bad, 1), float(sum(t in conflict for t in tokens)),
    ]  # fmt: skip
