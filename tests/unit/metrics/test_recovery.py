"""Recovery as a censored time: what was not seen is not counted as fast."""

import math

import pytest

from crs_lib.metrics.composite import after_shifts, mean_delay, rate

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
