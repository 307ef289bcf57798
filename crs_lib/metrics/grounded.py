"""Item-grounded adaptation: credit only through the catalogue items that a reply recommends.

Source: docs/metrics.md, section 4. W are the wishes in force and R the items recommended.
"""

import math
from collections.abc import Collection, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from crs_lib.metrics.base import HIGHER, LOWER, NEITHER, Metric, declare

_SOURCE = "item-grounded adaptation (docs/metrics.md, section 4)"
_NEGATIVE = float("-inf")
declare(
    Metric("satisfaction", "S", "turn", 0, 1, HIGHER, _SOURCE, gate=True),
    Metric("satisfaction_corrected", "S*", "turn", _NEGATIVE, 1, HIGHER, _SOURCE, headline=True, gate=True),
    Metric("satisfaction_popular", "S* (popular)", "turn", _NEGATIVE, 1, HIGHER, _SOURCE, gate=True),
    Metric("novelty", "N", "turn", 0, 1, NEITHER, _SOURCE, gate=False),
    Metric("topic_interference_leakage", "L", "turn", 0, 1, LOWER, _SOURCE, gate=False),
)


def satisfaction(wishes: Set[int], items: Sequence[Set[int]], *, asked: bool = True) -> float:
    """Mean share of the wishes that a recommended item meets, in [0, 1].

    ``items`` are the concept codes of the recommended items. Without wishes NaN; without items 0 where
    the user asked for some, else NaN.
    """
    if not wishes:
        return math.nan
    if not items:
        return 0.0 if asked else math.nan
    return sum(len(wishes & facts) for facts in items) / (len(items) * len(wishes))


def expected_satisfaction(wishes: Collection[int], share: NDArray[np.float64]) -> float:
    """Satisfaction that a draw from the catalogue has on average, in [0, 1]; exact, no sampling.

    ``share[code]`` is the probability that a drawn item has a concept: df/N for a uniform draw, or
    weighted by popularity. NaN without wishes.
    """
    return float(np.mean(share[sorted(wishes)])) if wishes else math.nan


def beyond_chance(observed: float, expected: float) -> float:
    """(S − E)/(1 − E): 1 is perfect, 0 is chance, below 0 worse than chance; NaN where chance is 1."""
    if math.isnan(observed) or math.isnan(expected) or expected >= 1:
        return math.nan
    return (observed - expected) / (1 - expected)


def novelty(items: Sequence[int], before: Set[int]) -> float:
    """Share of the recommended items that were not recommended before, in [0, 1]; NaN without items."""
    return sum(item not in before for item in items) / len(items) if items else math.nan


def leakage(items: Sequence[Set[int]], wishes: Set[int], dropped: Set[int]) -> float:
    """Share of the items that meet a dropped wish and none in force, in [0, 1].

    NaN without items, or before anything was dropped.
    """
    if not items or not dropped:
        return math.nan
    return sum(bool(facts & dropped) and not facts & wishes for facts in items) / len(items)


def share_met(wishes: Set[int], items: Sequence[Set[int]]) -> float:
    """The largest share of the wishes that one recommended item meets, in [0, 1]; 0 without items."""
    if not wishes or not items:
        return 0.0
    return max(len(wishes & facts) for facts in items) / len(wishes)
