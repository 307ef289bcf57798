"""L2 of a chat: threads, segments of several sessions that are about one thing."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crs_lib.realtalk.levels import TopicSegment

_PEERS = 5  # nearest segments that a link may lead to
_LONGEST = 12  # segments of a thread
_SHARED_WORD = 0.1  # what a shared label word adds to the cosine
_MOST_SHARED = 2  # words that count
_RARE = (2, 3)  # segments that have a rare label word: at least, at most
_NEAR = 0.45  # the strength of a link
_NEAR_SPELLING = 0.25  # the same for vectors of spelling, the encoder "hashing"
Thread = tuple[int, ...]


def join(segments: Sequence[TopicSegment], vectors: NDArray[np.float32], encoder: str) -> list[Thread]:
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
