"""Item-grounded adaptation: credit only through the catalogue items that a reply recommends.

Source: docs/metrics.md, section 4. W are the active constraints and R the items recommended.
"""

import math
from collections.abc import Callable, Collection, Sequence, Set
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from crs_lib.metrics.base import FACTS, HIGHER, LOWER, NEITHER, TURN, metric
from crs_lib.metrics.records import Background, TurnRecord

_SOURCE = "item-grounded adaptation (docs/metrics.md, section 4)"


def _satisfaction(wishes: Set[int], items: Sequence[Set[int]], *, asked: bool = True) -> float:
    """Mean share of the constraints that an item meets, in [0, 1]; NaN without, 0 where none was shown as
    asked.
    """
    if not wishes:
        return math.nan
    if not items:
        return 0.0 if asked else math.nan
    return sum(len(wishes & facts) for facts in items) / (len(items) * len(wishes))


def _expected_satisfaction(wishes: Collection[int], share: NDArray[np.float64]) -> float:
    """Satisfaction of a draw on average, in [0, 1]; ``share[code]`` the chance that an item has a concept."""
    return float(np.mean(share[sorted(wishes)])) if wishes else math.nan


def _beyond_chance(observed: float, expected: float) -> float:
    """(S − E)/(1 − E): 1 is perfect, 0 is chance, below 0 worse than chance; NaN where chance is 1."""
    if math.isnan(observed) or math.isnan(expected) or expected >= 1:
        return math.nan
    return (observed - expected) / (1 - expected)


def _novelty(items: Sequence[int], before: Set[int]) -> float:
    """Share of the recommended items that were not recommended before, in [0, 1]; NaN without items."""
    return sum(item not in before for item in items) / len(items) if items else math.nan


def _leakage(items: Sequence[Set[int]], wishes: Set[int], dropped: Set[int]) -> float:
    """Share of the items that meet a dropped constraint and none in force, in [0, 1]; NaN without either."""
    if not items or not dropped:
        return math.nan
    return sum(bool(facts & dropped) and not facts & wishes for facts in items) / len(items)


def _share_met(wishes: Set[int], items: Sequence[Set[int]]) -> float:
    """The largest share of the constraints that one recommended item meets, in [0, 1]; 0 without items."""
    if not wishes or not items:
        return 0.0
    return max(len(wishes & facts) for facts in items) / len(wishes)


def _expected(background: Background, weight: NDArray[np.float64]) -> Callable[[frozenset[int]], float]:
    """:func:`_expected_satisfaction` of constraints where items are drawn by a weight."""
    catalog = background.catalog
    weight = np.where(catalog.recommendable, weight, 0.0)
    sums = [weight[catalog.items_with(code)].sum() for code in range(len(catalog.vocabulary))]
    share = np.array(sums) / weight.sum()
    return lru_cache(65_536)(lambda constraints: _expected_satisfaction(constraints, share))


def _expected_uniform(background: Background) -> Callable[[frozenset[int]], float]:
    """:func:`_expected_satisfaction` of constraints under a uniform draw."""
    return _expected(background, np.ones(len(background.catalog)))


def _expected_popular(background: Background) -> Callable[[frozenset[int]], float]:
    """:func:`_expected_satisfaction` of constraints under a draw by connectedness."""
    return _expected(background, background.catalog.popularity)


@FACTS.register("n_items", level=TURN)
def _n_items(turn: TurnRecord) -> int:
    """The number of recommended items."""
    return len(turn.items)


@FACTS.register("n_wishes", level=TURN)
def _n_constraints(turn: TurnRecord) -> int:
    """The number of active constraints that the catalogue knows."""
    return len(turn.constraints)


@metric("satisfaction", "satisfaction", TURN, 0, 1, HIGHER, source=_SOURCE, gate=True)
def satisfaction_of_turn(turn: TurnRecord) -> float:
    """S: :func:`_satisfaction` of the active constraints, in [0, 1]."""
    return _satisfaction(turn.constraints, turn.facts, asked=turn.asked)


@metric("satisfaction_corrected", "net satisfaction", TURN, -math.inf, 1, HIGHER, source=_SOURCE, gate=True)
def satisfaction_corrected(turn: TurnRecord) -> float:
    """S*: S beyond a uniform draw, at most 1; see :func:`_beyond_chance`."""
    expected = turn.background.once(_expected_uniform)(turn.constraints)
    return _beyond_chance(turn.once(satisfaction_of_turn), expected)


@metric("satisfaction_popular", "above popular", TURN, -math.inf, 1, HIGHER, source=_SOURCE, gate=True)
def _satisfaction_popular(turn: TurnRecord) -> float:
    """S beyond a draw by connectedness, at most 1; see :func:`_beyond_chance`."""
    expected = turn.background.once(_expected_popular)(turn.constraints)
    return _beyond_chance(turn.once(satisfaction_of_turn), expected)


@metric("novelty", "non-repetition", TURN, 0, 1, NEITHER, source=_SOURCE, gate=False)
def novelty_of_turn(turn: TurnRecord) -> float:
    """N: :func:`_novelty` of the recommended items, in [0, 1]."""
    return _novelty(turn.items, turn.seen)


@metric("topic_interference_leakage", "leakage", TURN, 0, 1, LOWER, source=_SOURCE, gate=False)
def leakage_of_turn(turn: TurnRecord) -> float:
    """L: :func:`_leakage` of constraints given up and values excluded, in [0, 1]."""
    return _leakage(turn.facts, turn.constraints, turn.dropped)


def best_share(turn: TurnRecord) -> float:
    """The largest share of the constraints that one item without an excluded value meets, in [0, 1]."""
    return _share_met(turn.constraints, [facts for facts in turn.facts if not facts & turn.exclusions])


@FACTS.register("n_hallucinated_titles", level=TURN)
def _n_hallucinated_titles(turn: TurnRecord) -> int:
    """The number of titles outside the catalogue that the log counts in the reply."""
    return len(turn.pair.system.meta.get("hallucinated_titles") or ())
