"""L1: topic segments inside sessions, cut at long silences and where the vectors change."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.wording import content_words

_GAP_MINUTES = 30
_WIDTH, _LEAST, _DEPTH = 3, 3, 0.5


class TopicSegment(NamedTuple):
    """Messages ``start:end`` (positions) of one session that belong together, and what they are about.

    ``label`` are the words that mark it out against the other segments, ``medoid`` the position of the
    message nearest to its mean vector.
    """

    start: int
    end: int
    session: int
    label: tuple[str, ...]
    medoid: int


def cut(chat: Chat, vectors: NDArray[np.float32]) -> list[TopicSegment]:
    """The segments of a chat, in order; together they hold every message once.

    Hard cuts at session borders and silences of more than 30 minutes; inside, soft cuts at the depth
    peaks of the cosine between the mean vectors of the three messages before and after (depth above
    mean + 0.5 standard deviations of the chat, segments of at least three messages).
    Source: Hearst (1997), TextTiling, on sentence vectors.
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
        TopicSegment(start, end, chat.sessions[start], label, _medoid(vectors, start, end))
        for (start, end), label in zip(spans, labels, strict=True)
    ]


def of_message(segments: Sequence[TopicSegment], messages: int) -> NDArray[np.intp]:
    """The number of the segment that each message lies in, (messages,)."""
    owner = np.zeros(messages, dtype=np.intp)
    for i, segment in enumerate(segments):
        owner[segment.start : segment.end] = i
    return owner


def _bursts(chat: Chat) -> list[tuple[int, int]]:
    cuts = [0]
    for before, after in zip(chat.messages, chat.messages[1:], strict=False):
        silent = (
            before.time is not None
            and after.time is not None
            and (after.time - before.time).total_seconds() > 60 * _GAP_MINUTES
        )
        if before.session != after.session or silent:
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
    """Three words a segment by class-based TF-IDF; ties alphabetical.

    Source: Grootendorst (2022), BERTopic.
    """
    counts = [Counter(w for m in chat.messages[a:b] for w in content_words(m.text)) for a, b in spans]
    everywhere: Counter[str] = Counter()
    for count in counts:
        everywhere.update(count)
    mean = everywhere.total() / max(len(spans), 1)
    return [
        tuple(sorted(count, key=lambda w: (-count[w] * np.log1p(mean / everywhere[w]), w))[:3])
        for count in counts
    ]


def _medoid(vectors: NDArray[np.float32], start: int, end: int) -> int:
    part = vectors[start:end]
    return start + int(np.argmax(part @ part.mean(axis=0)))
