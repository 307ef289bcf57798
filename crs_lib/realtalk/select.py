"""Ranked messages that are kept, for a fact by distance of scores, for a story by weight, cut into phases."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.text import shorten, words
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.wording import STOP

STORY, PHASE = 0.96, 15  # the share of the scores' weight that a narrative holds; a phase's soft cap
_PREVIEWED, _NODES, _MOST = 3, 5, 8
_SHARPNESS = 2.0  # of a narrative's weights


def facts(ranked: Sequence[int], scores: NDArray[np.floating], reach: float, most: int) -> list[int]:
    """The evidence of a fact: from the best message down to ``reach`` below it, at least one, ranked.

    ``scores`` follow ``ranked``. An empty ranking gives an empty set.
    """
    if not len(ranked):
        return []
    count = int(np.sum(scores >= scores[0] - reach))
    return list(ranked[: max(1, min(count, most))])


def narrative(
    ranked: Sequence[int],
    scores: NDArray[np.floating],
    least: int,
    most: int,
    unit: float,
    share: float = STORY,
) -> list[int]:
    """The evidence of a narrative, ranked: as many messages as the scores call for, from least to most.

    A message weighs e to the power of twice its distance from the best, in steps of ``unit``; the best are
    taken until they hold ``share`` of all that the ranking weighs. One clear message gives a short story,
    many near ones a long one.
    """
    if not len(ranked):
        return []
    weight = np.exp(_SHARPNESS * (np.asarray(scores, dtype=np.float64) - float(scores[0])) / unit)
    enough = 1 + int(np.searchsorted(np.cumsum(weight) / weight.sum(), share - 1e-9))
    return list(ranked[: max(least, min(enough, most, len(ranked)))])


def preview(ranked: Sequence[int], owner: NDArray[np.intp], starts: Sequence[int], most: int) -> list[int]:
    """The selection this study replaces: only the first three messages of the five best nodes are seen.

    A node's rank is that of its best message; whatever stands deeper in a node cannot be chosen, however
    good it is. Kept to show what the change does. At most ``most`` ids, best node first.
    """
    nodes = list(dict.fromkeys(int(owner[place]) for place in ranked))[:_NODES]
    seen = [starts[node] + i for node in nodes for i in range(_PREVIEWED)]
    known = set(ranked)
    return [place for place in seen if place in known][:most]


@dataclass(frozen=True)
class Phase:
    """One phase of a narrative: its evidence ids, and texts taken from them word for word.

    ``start`` and ``end`` are the times of its first and last message (ISO, null where unknown); every
    id's time lies between them. ``uncertain`` is the share of ids whose score is far from the best.
    """

    title: str
    ids: tuple[str, ...]
    start: str | None
    end: str | None
    summary: str
    uncertain: float

    def to_json(self) -> dict[str, Any]:
        """The phase as one JSON object."""
        return asdict(self)


def phases(
    index: ChatIndex, chosen: Sequence[int], scores: Mapping[int, float], bar: float, soft_cap: int = PHASE
) -> list[Phase]:
    """The phases of chosen positions, in time order; one where few are chosen, none where none is.

    ``scores`` gives each position's score; below ``bar`` a message counts as uncertain. Eight
    phases are the most (:func:`cut`). In a phase of more than ``soft_cap`` messages the
    uncertain ones beyond the cap are dropped, the certain ones stay.
    """
    order = sorted(chosen)
    parts = [_capped(part, scores, bar, soft_cap) for part in cut(index, order)]
    counted = [Counter(_terms(index, part)) for part in parts]
    everywhere: Counter[str] = Counter()
    for count in counted:
        everywhere.update(count)
    return [_phase(index, p, c, everywhere, scores, bar) for p, c in zip(parts, counted, strict=True)]


def cut(index: ChatIndex, order: Sequence[int]) -> list[list[int]]:
    """Ascending positions cut into phases, each in one piece: as many as the evidence has, at most eight.

    A phase ends where the next message lies in another session: what is told on one occasion belongs
    together. Of more than seven such borders the strongest seven are taken: the longest silence (log hours)
    plus the greatest change of topic (1 - cosine).
    """
    n = len(order)
    if n < 2:
        return [list(order)] if n else []
    strength = _strength(index, order)
    borders = [i for i in range(n - 1) if index.session[order[i]] != index.session[order[i + 1]]]
    best = sorted(borders, key=lambda i: (-strength[i], i))[: _MOST - 1]
    edges = [0, *sorted(i + 1 for i in best), n]
    return [list(order[a:b]) for a, b in itertools.pairwise(edges)]


def _strength(index: ChatIndex, order: Sequence[int]) -> NDArray[np.float64]:
    messages, vectors = index.chat.messages, index.vectors.sentences
    out = np.zeros(len(order) - 1)
    for i, (a, b) in enumerate(itertools.pairwise(order)):
        before, after = messages[a], messages[b]
        if before.time and after.time:
            out[i] += float(np.log1p(max(0.0, (after.time - before.time).total_seconds()) / 3600))
        out[i] += 1 - float(vectors[a] @ vectors[b])
    return out


def _capped(part: Sequence[int], scores: Mapping[int, float], bar: float, soft_cap: int) -> list[int]:
    best = sorted(part, key=lambda place: (-scores.get(place, -np.inf), place))
    kept = {p for i, p in enumerate(best) if i < soft_cap or scores.get(p, -np.inf) >= bar}
    return [place for place in part if place in kept]


def _terms(index: ChatIndex, part: Sequence[int]) -> list[str]:
    return [w for p in part for w in words(index.chat.messages[p].text) if w not in STOP and len(w) > 2]


def _phase(
    index: ChatIndex, part: Sequence[int], count: Counter[str], everywhere: Counter[str],
    scores: Mapping[int, float], bar: float,
) -> Phase:  # fmt: skip
    messages = [index.chat.messages[place] for place in part]
    ranked = sorted(count, key=lambda w: (-count[w] / (1 + everywhere[w] - count[w]), -len(w), w))
    times = [m.time for m in messages if m.time]
    lead = max(part, key=lambda place: (scores.get(place, -np.inf), -place))
    told = index.chat.messages[lead]
    return Phase(
        title=" · ".join(ranked[:3]) or "untitled",
        ids=tuple(m.id for m in messages),
        start=min(times).isoformat() if times else None,
        end=max(times).isoformat() if times else None,
        summary=shorten(f"{told.speaker}: {told.text or told.caption}", 240),
        uncertain=round(sum(scores.get(p, -np.inf) < bar for p in part) / len(part), 3),
    )
