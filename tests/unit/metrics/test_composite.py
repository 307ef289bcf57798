"""Item-grounded parts, recovery as a censored time, and composites: every weight, clipping and missing part written out."""

import math

import numpy as np
import pytest

from crs_lib.metrics.composite import after_shifts, cas, item_tas, mean_delay, rate, tas
from crs_lib.metrics.conventions import CasWeights, ItemWeights, TasWeights
from crs_lib.metrics.grounded import (
    _beyond_chance,
    _expected_satisfaction,
    novelty,
    satisfaction,
)

NAN = math.nan


@pytest.mark.parametrize(("parts", "weights", "clip", "value"), [
    ((0.4, 0.6, 0.25), TasWeights(), False, 0.4 + 0.6 - 0.25),
    ((0.4, 0.6, 0.25), TasWeights(2, 0.5, 0), False, 0.8 + 0.3),
    ((1, 1, 0), TasWeights(), False, 2),
    ((0, 0, 1), TasWeights(), False, -1),
    ((1, 0.9, 0), TasWeights(), False, 1.9),  # clipping is the older convention and off by default
    ((1, 0.9, 0), TasWeights(), True, 1),
    ((0, 0, 1), TasWeights(gamma=3), True, -1),
    ((NAN, 0.5, 0.1), TasWeights(), False, NAN),
    ((0.5, NAN, 0.1), TasWeights(), True, NAN),
])  # fmt: skip
def test_tas_adds_overlap_and_takes_copying_away(parts, weights, clip, value):
    assert tas(*parts, weights, clip=clip) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(("parts", "value"), [
    ((0.5, 0.75, 1 / 3, 0.2, 0.1), 0.6 * 0.5 + 0.4 * (1 / 3) * 0.75 - 0.25 * 0.2 - 0.5 * 0.1),
    ((1, 1, 1, 0, 0), 1),
    ((0.5, 0.6, NAN, 0, 0), 0.3),  # what cannot be new or leak counts nothing
    ((0.5, 0.6, 0, NAN, 0), 0.3),
    ((NAN, 0.6, 1, 0, 0), NAN),
])  # fmt: skip
def test_item_tas_written_out(parts, value):
    assert item_tas(*parts, ItemWeights()) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(("parts", "value"), [
    ((0.8, 2, 0.1, 0.5, 0.4), 0.25 * 0.8 + 0.20 * (1 - 2 / 5) + 0.20 * (1 - 0.1) + 0.20 * 0.5 + 0.15 * 0.4),
    ((1, 0, 0, 1, 1), 1),
    ((0, 50, 7, 0, 0), 0),  # delay and interference are bounded
    ((0, -1, -1, 0, 0), 0.4),
    ((NAN, NAN, 0.1, 0.5, 0.4), (0.18 + 0.1 + 0.06) / 0.55),  # the weight of missing parts is shared
    ((NAN,) * 5, NAN),
])  # fmt: skip
def test_cas_written_out(parts, value):
    assert cas(*parts, CasWeights()) == pytest.approx(value, nan_ok=True)
    assert sum(CasWeights()) == pytest.approx(1)


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


# turn:   1      2     3      4      5     6      7      8
MET = [True, False, False, True, False, False, False, True]


def times(recoveries):
    return [(r.turn, None if math.isnan(r.delay) else r.delay, r.watched, r.recovered) for r in recoveries]


@pytest.mark.parametrize(("shifts", "met", "options", "found"), [
    ([4], MET, {}, [(4, 0, 5, True)]),  # the reply to the shift itself is delay zero
    ([1], MET, {}, [(1, 0, 8, True)]),
        # shift at 2 recovers at 4 (d = 2); shift at 5 is watched for turn 5 only, then the next begins at 6
    ([2, 5, 6], MET, {}, [(2, 2, 3, True), (5, None, 1, False), (6, 2, 3, True)]),
    ([5, 6], MET, {"within_segment": False}, [(5, 3, 4, True), (6, 2, 3, True)]),  # past the next shift
    ([2], MET, {"window": 3}, [(2, 2, 3, True)]),  # turns 2, 3, 4
    ([2], MET, {"window": 2}, [(2, None, 2, False)]),
    ([5], MET[:7], {}, [(5, None, 3, False)]),  # the end of the dialogue censors
    ([9], MET, {}, [(9, None, 0, False)]),  # a shift without any reply
])  # fmt: skip
def test_what_was_not_seen_is_not_counted_as_fast(shifts, met, options, found):
    assert times(after_shifts(shifts, met, **options)) == found


def test_rates_and_delays_of_nothing_are_undefined_not_perfect():
    found = after_shifts([2, 5, 6], MET)
    assert rate(found) == 2 / 3
    assert mean_delay(found) == (2 + 2) / 2  # the censored one is left out, which is why it is biased
    assert math.isnan(rate([]))
    assert math.isnan(mean_delay([]))
    assert math.isnan(mean_delay(after_shifts([5], MET[:7])))
    assert rate(after_shifts([5], MET[:7])) == 0
