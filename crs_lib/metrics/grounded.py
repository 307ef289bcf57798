"""Item-grounded adaptation: credit only through the catalogue items that a reply recommends. Source:
docs/metrics.md, section 4. W are the active constraints and R the items recommended.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from crs_lib.metrics.base import FACTS, HIGHER, LOWER, NEITHER, TURN, metric
from crs_lib.metrics.records import Background, TurnRecord

_SOURCE = "item-grounded adaptation (docs/metrics.md, section 4)"


def _beyond_chance(observed: float, expected: float) -> float:
    """(S − E)/(1 − E): 1 is perfect, 0 is chance, below 0 worse than chance; NaN where chance is 1."""
    if math.isnan(observed) or math.isnan(expected) or expected >= 1:
        return math.nan
    return (observed - expected) / (1 - expected)


def _expected(background: Background, weight: NDArray[np.float64]) -> Callable[[frozenset[int]], float]:
    """Satisfaction of a draw of items by a weight on average, in [0, 1], by the constraints."""
    catalog = background.catalog
    weight = np.where(catalog.recommendable, weight, 0.0)
    sums = [weight[catalog.items_with(code)].sum() for code in range(len(catalog.vocabulary))]
    share = np.array(sums) / weight.sum()
    return lru_cache(65_536)(lambda codes: float(np.mean(share[sorted(codes)])) if codes else math.nan)


def _expected_uniform(background: Background) -> Callable[[frozenset[int]], float]:
    """:func:`_expected` under a uniform draw."""
    return _expected(background, np.ones(len(background.catalog)))


def _expected_popular(background: Background) -> Callable[[frozenset[int]], float]:
    """:func:`_expected` under a draw by connectedness."""
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
    """S: mean share of the active constraints that an item meets, in [0, 1].
    NaN without constraints; without items 0 if the user asked for some, else NaN.
    """
    if not turn.constraints or not (turn.facts or turn.asked):
        return math.nan
    met = sum(len(turn.constraints & facts) for facts in turn.facts)
    return met / (len(turn.facts) * len(turn.constraints)) if turn.facts else 0.0


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
    """N: share of the items that were not recommended before, in [0, 1]; NaN without items."""
    return sum(item not in turn.seen for item in turn.items) / len(turn.items) if turn.items else math.nan


@metric("topic_interference_leakage", "leakage", TURN, 0, 1, LOWER, source=_SOURCE, gate=False)
def leakage_of_turn(turn: TurnRecord) -> float:
    """L: share of the items that meet a value given up or excluded and no constraint; NaN without either."""
    if not turn.facts or not turn.dropped:
        return math.nan
    leaked = sum(bool(facts & turn.dropped) and not facts & turn.constraints for facts in turn.facts)
    return leaked / len(turn.facts)


def best_share(turn: TurnRecord) -> float:
    """The largest share of the constraints that one item without an excluded value meets, in [0, 1]."""
    met = (len(turn.constraints & facts) for facts in turn.facts if not facts & turn.exclusions)
    return max(met, default=0) / len(turn.constraints) if turn.constraints else 0.0


@FACTS.register("n_hallucinated_titles", level=TURN)
def _n_hallucinated_titles(turn: TurnRecord) -> int:
    """The number of titles outside the catalogue that the log counts in the reply."""
    return len(turn.pair.system.meta.get("hallucinated_titles") or ())
