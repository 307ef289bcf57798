"""Item-grounded adaptation: credit through recommended items only, corrected for chance."""

import math

import numpy as np
import pytest

from crs_lib.metrics.grounded import (
    _beyond_chance,
    _expected_satisfaction,
    novelty,
    satisfaction,
)

WISHES = {1, 2}
ITEMS = [{1, 2, 7}, {2, 8}, {9}]  # meet two, one and none of the wishes


def test_satisfaction_is_the_mean_share_of_wishes_met():
    assert satisfaction(WISHES, ITEMS) == pytest.approx((2 / 2 + 1 / 2 + 0) / 3)  # = 0.5
    assert satisfaction(WISHES, [{1, 2}]) == 1
    assert math.isnan(satisfaction(set(), ITEMS)) and math.isnan(satisfaction(WISHES, [], asked=False))
    assert satisfaction(WISHES, []) == 0
    assert satisfaction(WISHES, ITEMS, asked=False) == 0.5  # what is offered counts also when not asked for
    assert _expected_satisfaction({1, 2}, np.array([0.9, 0.5, 0.1])) == pytest.approx((0.5 + 0.1) / 2)
    assert math.isnan(_expected_satisfaction(set(), np.ones(3)))


@pytest.mark.parametrize(
    ("observed", "chance", "value"),
    [(0.3, 0.3, 0), (1, 0.3, 1), (0.5, 0.2, 0.3 / 0.8), (0, 0.2, -0.25), (0.5, 1.0, math.nan), (math.nan, 0.2, math.nan),
     (0.5, math.nan, math.nan)],
)  # fmt: skip
def test_beyond_chance_is_zero_at_chance_and_one_at_best(observed, chance, value):
    assert _beyond_chance(observed, chance) == pytest.approx(value, nan_ok=True)


def test_novelty_is_the_share_of_items_not_named_before():
    assert novelty([4, 5, 6], {5}) == 2 / 3
    assert novelty([4], {4}) == 0
    assert math.isnan(novelty([], {4}))
