"""Which ranked messages are kept: by score distance for a fact, by coverage for a narrative."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.realtalk.plan import Plan

COVERAGE, PREVIEW = "coverage", "preview"
_PREVIEWED, _NODES = 3, 5


@dataclass(frozen=True)
class Bounds:
    """How far below the best score a message may lie and still be kept, and how many are kept.

    ``single``, ``listed`` are distances for one-answer questions and for lists, counts and questions
    about both people, in units of the ranker's scores. ``most`` bounds the fact set, ``narrative`` the
    narrative set; ``phase`` is the soft cap a phase.
    """

    single: float = 1.5
    listed: float = 2.25
    most: int = 9
    narrative: int = 30
    phase: int = 15

    def __post_init__(self) -> None:
        if min(self.single, self.listed) < 0 or min(self.most, self.narrative, self.phase) < 1:
            raise InputError(f"{self}: expected distances >= 0 and sizes >= 1")


def facts(
    ranked: Sequence[int], scores: NDArray[np.floating], plan: Plan, bounds: Bounds, unit: float
) -> list[int]:
    """The evidence of a fact: from the best message down to the kind's distance, at least one, ranked.

    ``scores`` follow ``ranked``; ``unit`` is the size of one step in this ranker's scores. An empty
    ranking gives an empty set.
    """
    if not len(ranked):
        return []
    reach = (bounds.listed if plan.many else bounds.single) * unit
    count = int(np.sum(scores >= scores[0] - reach))
    return list(ranked[: max(1, min(count, bounds.most))])


def narrative(ranked: Sequence[int], owner: NDArray[np.intp], bounds: Bounds) -> list[int]:
    """The evidence of a narrative, ranked: every message is open to choice, and every good node is covered.

    The better half is taken by rank alone. The other half first gives each segment (``owner``) met in
    the ranking that has no message yet its best one, then goes on by rank.
    """
    size = min(bounds.narrative, len(ranked))
    chosen = list(ranked[: (size + 1) // 2])
    covered = {int(owner[place]) for place in chosen}
    for place in ranked[len(chosen) : size + size // 2]:
        if len(chosen) < size and int(owner[place]) not in covered:
            chosen.append(place)
            covered.add(int(owner[place]))
    for place in ranked:
        if len(chosen) >= size:
            break
        if place not in chosen:
            chosen.append(place)
    order = {place: i for i, place in enumerate(ranked)}
    return sorted(chosen, key=lambda place: order[place])


def preview(ranked: Sequence[int], owner: NDArray[np.intp], starts: Sequence[int], most: int) -> list[int]:
    """The selection this study replaces: only the first three messages of the five best nodes are seen.

    A node's rank is that of its best message; whatever stands deeper in a node cannot be chosen, however
    good it is. Kept to show what the change does. At most ``most`` ids, best node first.
    """
    nodes = list(dict.fromkeys(int(owner[place]) for place in ranked))[:_NODES]
    seen = [starts[node] + i for node in nodes for i in range(_PREVIEWED)]
    known = set(ranked)
    return [place for place in seen if place in known][:most]
