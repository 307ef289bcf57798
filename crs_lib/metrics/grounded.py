"""Item-grounded adaptation: credit only through the catalogue items that a reply recommends. Source:
docs/metrics.md, section 4. W are the active constraints and R the items recommended.
"""

import math
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


@lru_cache(64)
def _shares(background: Background, popular: bool) -> NDArray[np.float64]:
    """The share of a draw of items that has each value: a uniform draw, or one by connectedness."""
    catalog = background.catalog
    weight = np.where(catalog.recommendable, catalog.popularity if popular else 1.0, 0.0)
    sums = [weight[catalog.items_with(code)].sum() for code in range(len(catalog.vocabulary))]
    shares: NDArray[np.float64] = np.array(sums) / weight.sum()
    return shares


@lru_cache(65_536)
def _expected(background: Background, codes: frozenset[int], popular: bool = False) -> float:
    """Satisfaction of a draw on average, in [0, 1]; NaN without constraints."""
    return float(np.mean(_shares(background, popular)[sorted(codes)])) if codes else math.nan


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
    return _beyond_chance(turn.once(satisfaction_of_turn), _expected(turn.background, turn.constraints))


@metric("satisfaction_popular", "above popular", TURN, -math.inf, 1, HIGHER, source=_SOURCE, gate=True)
def _satisfaction_popular(turn: TurnRecord) -> float:
    """S beyond a draw by connectedness, at most 1; see :func:`_beyond_chance`."""
    expected = _expected(turn.background, turn.constraints, popular=True)
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
