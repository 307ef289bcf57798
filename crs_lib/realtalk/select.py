"""Which ranked messages are kept: by distance of scores for a fact, by share of weight for a story."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.config import Config, Field
from crs_lib.realtalk.plan import QueryPlan

COVERAGE, PREVIEW = "coverage", "preview"
_PREVIEWED, _NODES = 3, 5
_SHARPNESS = 2.0  # of a narrative's weights


Selection = Annotated[
    Literal["coverage", "preview"],
    Field(description="how the evidence is chosen: coverage, or the old preview"),
]
Distance = Annotated[float, Field(ge=0)]
Single = Annotated[Distance, Field(description="a fact's distance below the best score, one answer")]
Listed = Annotated[Distance, Field(description="the same for lists, counts and questions about both people")]
Most = Annotated[int, Field(ge=1, description="the largest evidence set of a fact")]
Narrative = Annotated[int, Field(ge=1, description="the largest evidence set of a narrative")]


@dataclass(frozen=True)
class Bounds(Config):
    """How far below the best score a kept message may lie, in units of the ranker's scores, and how many."""

    single: Single = 1.0
    listed: Listed = 2.0
    most: Most = 9
    narrative: Narrative = 30
    share: Annotated[float, Field(gt=0, lt=1, description="of the scores' weight that a narrative holds")] = (
        0.96
    )
    phase: Annotated[int, Field(ge=1, description="messages of a phase, a soft cap")] = 15


def facts(
    ranked: Sequence[int], scores: NDArray[np.floating], plan: QueryPlan, bounds: Bounds, unit: float
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


def narrative(
    ranked: Sequence[int],
    scores: NDArray[np.floating],
    selected: Sequence[int],
    bounds: Bounds,
    unit: float,
) -> list[int]:
    """The evidence of a narrative, ranked: as many messages as the scores call for, the fact's among them.

    A message weighs e to the power of twice its distance from the best, in steps of ``unit``; the best are
    taken until they hold ``share`` of all that the ranking weighs. One clear message gives a short story,
    many near ones a long one; ``narrative`` bounds it.
    """
    if not len(ranked):
        return []
    weight = np.exp(_SHARPNESS * (np.asarray(scores, dtype=np.float64) - float(scores[0])) / unit)
    enough = 1 + int(np.searchsorted(np.cumsum(weight) / weight.sum(), bounds.share - 1e-9))
    return list(ranked[: max(len(selected), min(enough, bounds.narrative, len(ranked)))])


def preview(ranked: Sequence[int], owner: NDArray[np.intp], starts: Sequence[int], most: int) -> list[int]:
    """The selection this study replaces: only the first three messages of the five best nodes are seen.

    A node's rank is that of its best message; whatever stands deeper in a node cannot be chosen, however
    good it is. Kept to show what the change does. At most ``most`` ids, best node first.
    """
    nodes = list(dict.fromkeys(int(owner[place]) for place in ranked))[:_NODES]
    seen = [starts[node] + i for node in nodes for i in range(_PREVIEWED)]
    known = set(ranked)
    return [place for place in seen if place in known][:most]
