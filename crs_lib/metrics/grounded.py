"""Item-grounded adaptation: credit only through the catalogue items that a reply recommends. Source:
docs/metrics.md, section 4. W are the active constraints and R the items recommended.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from crs_lib.metrics.base import HIGHER, LOWER, NEITHER, TURN, fact, metric
from crs_lib.metrics.records import Background, TurnRecord

_SOURCE = "item-grounded adaptation (docs/metrics.md, section 4)"
_LOWEST = -math.inf


def beyond_chance(observed: float, expected: float) -> float:
    """(S − E)/(1 − E): 1 is perfect, 0 is chance, below 0 worse than chance; NaN where chance is 1."""
    if math.isnan(observed) or math.isnan(expected) or expected >= 1:
        return math.nan
    return (observed - expected) / (1 - expected)


@lru_cache(64)
def _shares(background: Background, popular: bool) -> NDArray[np.float64]:
    """The share of a draw of items that has each value: a uniform draw, or one by connectedness."""
    catalog = background.catalog
    weights = catalog.recommendable.astype(float)
    if popular:
        weights = np.where(catalog.recommendable, catalog.popularity, 0.0)
    sums = []
    for code in range(len(catalog.vocabulary)):
        items = catalog.items_with(code)
        sums.append(weights[items].sum())
    shares: NDArray[np.float64] = np.array(sums) / weights.sum()
    return shares


@lru_cache(65_536)
def _expected(background: Background, codes: frozenset[int], popular: bool = False) -> float:
    """Satisfaction of a draw on average, in [0, 1]; NaN without constraints."""
    if not codes:
        return math.nan
    shares = _shares(background, popular)
    return float(np.mean(shares[sorted(codes)]))


@fact("n_items", TURN, column=7)
def _n_items(turn: TurnRecord) -> int:
    """The number of recommended items."""
    return len(turn.items)


@fact("n_wishes", TURN, column=8)
def _n_constraints(turn: TurnRecord) -> int:
    """The number of active constraints that the catalogue knows."""
    return len(turn.constraints)


@metric("satisfaction", "satisfaction", TURN, 0, 1, HIGHER, _SOURCE, gate=True, column=9)
def satisfaction_of_turn(turn: TurnRecord) -> float:
    """S: mean share of the active constraints that an item meets, in [0, 1].
    NaN without constraints; without items 0 if the user asked for some, else NaN.
    """
    if not turn.measurable:
        return math.nan
    if not turn.facts:
        return 0.0
    met = 0
    for facts in turn.facts:
        met += len(turn.constraints & facts)
    return met / (len(turn.facts) * len(turn.constraints))


@metric("satisfaction_corrected", "net satisfaction", TURN, _LOWEST, 1, HIGHER, _SOURCE, gate=True, column=10)
def satisfaction_corrected(turn: TurnRecord) -> float:
    """S*: S beyond a uniform draw, at most 1; see :func:`beyond_chance`."""
    expected = _expected(turn.background, turn.constraints)
    return beyond_chance(turn.once(satisfaction_of_turn), expected)


@metric("satisfaction_popular", "above popular", TURN, _LOWEST, 1, HIGHER, _SOURCE, gate=True, column=11)
def _satisfaction_popular(turn: TurnRecord) -> float:
    """S beyond a draw by connectedness, at most 1; see :func:`beyond_chance`."""
    expected = _expected(turn.background, turn.constraints, popular=True)
    return beyond_chance(turn.once(satisfaction_of_turn), expected)


@metric("novelty", "non-repetition", TURN, 0, 1, NEITHER, _SOURCE, gate=False, column=12)
def novelty_of_turn(turn: TurnRecord) -> float:
    """N: share of the items that were not recommended before, in [0, 1]; NaN without items."""
    if not turn.items:
        return math.nan
    new = [item for item in turn.items if item not in turn.seen]
    return len(new) / len(turn.items)


@metric("topic_interference_leakage", "leakage", TURN, 0, 1, LOWER, _SOURCE, gate=False, column=13)
def leakage_of_turn(turn: TurnRecord) -> float:
    """L: share of the items that meet a value given up or excluded and no constraint; NaN without either."""
    if not turn.items or not turn.dropped:
        return math.nan
    leaked = 0
    for facts in turn.facts:
        is_dropped = not facts.isdisjoint(turn.dropped)
        if is_dropped and facts.isdisjoint(turn.constraints):
            leaked += 1
    return leaked / len(turn.facts)


def best_share(turn: TurnRecord) -> float:
    """The largest share of the constraints that one item without an excluded value meets, in [0, 1]."""
    if not turn.constraints:
        return 0.0
    most = max(map(turn.wanted.level, turn.facts), default=0)
    return most / len(turn.constraints)


@fact("n_hallucinated_titles", TURN, column=16)
def _n_hallucinated_titles(turn: TurnRecord) -> int:
    """The number of titles outside the catalogue that the log counts in the reply."""
    return len(turn.pair.system.meta.get("hallucinated_titles") or ())
