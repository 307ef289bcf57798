"""L2: semantic threads: segments of different sessions that go on about the same thing."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.realtalk.index import ChatIndex

_PEERS, _LONGEST, _RARE = 5, 12, 0.1
_NEAR = {"minilm": 0.45, "hashing": 0.25}  # what counts as near depends on the encoder


class Thread(NamedTuple):
    """Segments (numbers, in time order) of at least two sessions, and how strongly they hang together.

    ``weak`` says that the weakest link that joined them lies under the chat's median link.
    """

    segments: tuple[int, ...]
    strength: float
    weak: bool


def find(index: ChatIndex) -> list[Thread]:
    """The threads of a chat, earliest first; segments that join none are in no thread.

    A link needs different sessions, mutual membership in the five nearest, and a strength of at least
    0.45 (0.25 for spelling vectors): the cosine of mean vectors plus 0.1 for each shared label word
    that at most three segments have (at most two such words count). Links join groups from the
    strongest down, never beyond twelve segments, so that one broad topic does not swallow the chat.
    """
    links = _links(index)
    if not links:
        return []
    median = float(np.median([strength for strength, _, _ in links]))
    group = list(range(len(index.segments)))
    members = {i: [i] for i in group}
    weakest: dict[int, float] = {}
    for strength, a, b in links:
        one, two = group[a], group[b]
        if one == two or len(members[one]) + len(members[two]) > _LONGEST:
            continue
        members[one] += members.pop(two)
        weakest[one] = min(strength, weakest.get(one, 9.0), weakest.pop(two, 9.0))
        for i in members[one]:
            group[i] = one
    found = [
        Thread(tuple(sorted(part)), round(weakest[key], 4), weakest[key] < median)
        for key, part in members.items()
        if len({index.segments[i].session for i in part}) > 1
    ]
    return sorted(found, key=lambda thread: thread.segments)


def _links(index: ChatIndex) -> list[tuple[float, int, int]]:
    """Strength and ends of every link, strongest first; ties in order of segments."""
    vectors = index.segment_vectors
    near = np.asarray(vectors @ vectors.T, dtype=np.float64) + _shared_rare_words(index)
    session = np.array([s.session for s in index.segments])
    near[session[:, None] == session[None, :]] = -np.inf
    n = len(near)
    best = np.argsort(-near, axis=1, kind="stable")[:, :_PEERS]
    peer = np.zeros((n, n), dtype=bool)
    peer[np.arange(n)[:, None], best] = True
    rows, columns = np.nonzero(np.triu(peer & peer.T & (near >= _NEAR.get(index.encoder, 0.45)), 1))
    links = [(float(near[i, j]), int(i), int(j)) for i, j in zip(rows, columns, strict=True)]
    return sorted(links, key=lambda link: (-link[0], link[1], link[2]))


def _shared_rare_words(index: ChatIndex) -> NDArray[np.float64]:
    """0.1 for each shared rare label word (in at most three segments), at most 0.2."""
    words: dict[str, int] = {}
    for segment in index.segments:
        for word in segment.label:
            words[word] = words.get(word, 0) + 1
    rare = sorted(word for word, count in words.items() if 2 <= count <= 3)
    has = np.array([[word in segment.label for word in rare] for segment in index.segments], dtype=float)
    has = has.reshape(len(index.segments), len(rare))
    shared: NDArray[np.float64] = np.minimum(_RARE * (has @ has.T), 2 * _RARE)
    return shared


def of_segment(found: Sequence[Thread], segments: int) -> NDArray[np.intp]:
    """The number of the thread that each segment is in, -1 where it is in none."""
    out = np.full(segments, -1, dtype=np.intp)
    for i, thread in enumerate(found):
        out[list(thread.segments)] = i
    return out
