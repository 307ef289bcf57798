"""Overlap of two concept sets: Jaccard (CC), idf cosine (CR), what is missing, what was added."""

import math
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from crs_lib.metrics.base import HIGHER, LOWER, NEITHER, Metric, declare

EMPTY_RULES = ("skip", "zero", "one")
_SOURCE = "concept overlap (docs/metrics.md, section 2)"
declare(
    Metric("cross_coherence", "CC", "turn", 0, 1, HIGHER, _SOURCE, gate=False),
    Metric("context_retention", "CR", "turn", 0, 1, HIGHER, _SOURCE, gate=False),
    Metric("missing_concepts", "missing", "turn", 0, float("inf"), LOWER, _SOURCE),
    Metric("hallucinated_concepts", "added", "turn", 0, float("inf"), NEITHER, _SOURCE),
    Metric("slot_precision", "slot P", "turn", 0, 1, HIGHER, "dialogue-state tracking baseline", gate=False),
    Metric("slot_recall", "slot R", "turn", 0, 1, HIGHER, "dialogue-state tracking baseline", gate=False),
    Metric("slot_f1", "slot F1", "turn", 0, 1, HIGHER, "dialogue-state tracking baseline", gate=False),
    Metric("slot_joint", "joint", "turn", 0, 1, HIGHER, "dialogue-state tracking baseline", gate=False),
)


def jaccard(user: Set[int], system: Set[int], *, empty: str = "skip") -> float:
    """|A∩B| / |A∪B| of two concept sets, in [0, 1].

    Both empty: NaN with ``empty="skip"`` (undefined, left out of means and counted), 0 with "zero", 1
    with "one" (the thesis's convention, under which silence agrees with silence).
    """
    if not user and not system:
        return {"skip": math.nan, "zero": 0.0, "one": 1.0}[empty]
    shared = len(user & system)
    return shared / (len(user) + len(system) - shared)


def idf_cosine(
    user: Set[int], system: Set[int], idf: Sequence[float] | Mapping[int, float], *, empty: str = "skip"
) -> float:
    """Cosine of the idf-weighted presence vectors of two concept sets, in [0, 1].

    One empty: 0. Both empty: NaN with ``empty="skip"``, else 0 (the thesis's convention: a zero vector
    has cosine 0 with everything).
    """
    if not user and not system:
        return math.nan if empty == "skip" else 0.0
    shared = user & system
    if not shared:
        return 0.0
    dot = sum(idf[code] ** 2 for code in sorted(shared))
    norms = sum(idf[c] ** 2 for c in sorted(user)) * sum(idf[c] ** 2 for c in sorted(system))
    return dot / math.sqrt(norms)


class Difference(NamedTuple):
    """Concepts of the user that the reply lacks, and concepts that only the reply has; sorted codes."""

    missing: list[int]
    hallucinated: list[int]


def difference(user: Set[int], system: Set[int]) -> Difference:
    """What a reply left out and what it brought in, as sorted codes."""
    return Difference(sorted(user - system), sorted(system - user))


class Agreement(NamedTuple):
    """Precision, recall and F1 of predicted concepts in [0, 1], and whether the sets are equal."""

    precision: float
    recall: float
    f1: float
    joint: float


def agreement(gold: Set[int], predicted: Set[int]) -> Agreement:
    """Dialogue-state style agreement of two concept sets.

    Nothing predicted: precision 1 where nothing was wanted, else 0; nothing wanted: recall 1.
    """
    shared = len(gold & predicted)
    precision = shared / len(predicted) if predicted else float(not gold)
    recall = shared / len(gold) if gold else 1.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return Agreement(precision, recall, f1, float(gold == predicted))
