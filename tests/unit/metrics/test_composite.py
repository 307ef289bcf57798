"""Composites, written out: every weight, every clipping, every missing part."""

import math

import pytest

from crs_lib.metrics.composite import cas, item_tas, tas
from crs_lib.metrics.conventions import CasWeights, ItemWeights, TasWeights

NAN = math.nan


def test_tas_adds_overlap_and_takes_copying_away():
    assert tas(0.4, 0.6, 0.25, TasWeights()) == pytest.approx(0.4 + 0.6 - 0.25)
    assert tas(0.4, 0.6, 0.25, TasWeights(2, 0.5, 0)) == pytest.approx(0.8 + 0.3)
    assert tas(1, 1, 0, TasWeights()) == 2
    assert tas(0, 0, 1, TasWeights()) == -1


def test_clipping_is_the_older_convention_and_off_by_default():
    assert tas(1, 0.9, 0, TasWeights()) == pytest.approx(1.9)
    assert tas(1, 0.9, 0, TasWeights(), clip=True) == 1
    assert tas(0, 0, 1, TasWeights(gamma=3), clip=True) == -1


@pytest.mark.parametrize("clip", [False, True])
def test_tas_is_undefined_where_an_overlap_is(clip):
    assert math.isnan(tas(NAN, 0.5, 0.1, TasWeights(), clip=clip))
    assert math.isnan(tas(0.5, NAN, 0.1, TasWeights(), clip=clip))


def test_item_tas_written_out():
    # 0.6·0.5 + 0.4·(1/3)·0.75 − 0.25·0.2 − 0.5·0.1 = 0.3 + 0.1 − 0.05 − 0.05
    assert item_tas(0.5, 0.75, 1 / 3, 0.2, 0.1, ItemWeights()) == pytest.approx(0.3)
    assert item_tas(1, 1, 1, 0, 0, ItemWeights()) == pytest.approx(1)


def test_what_cannot_be_new_or_leak_counts_nothing():
    assert item_tas(0.5, 0.6, NAN, 0, 0, ItemWeights()) == pytest.approx(0.3)
    assert item_tas(0.5, 0.6, 0, NAN, 0, ItemWeights()) == pytest.approx(0.3)
    assert math.isnan(item_tas(NAN, 0.6, 1, 0, 0, ItemWeights()))


def test_cas_written_out():
    # 0.25·0.8 + 0.20·(1 − 2/5) + 0.20·(1 − 0.1) + 0.20·0.5 + 0.15·0.4
    expected = 0.2 + 0.12 + 0.18 + 0.1 + 0.06
    assert cas(0.8, 2, 0.1, 0.5, 0.4, CasWeights()) == pytest.approx(expected)
    assert cas(1, 0, 0, 1, 1, CasWeights()) == pytest.approx(1)


def test_cas_bounds_delay_and_interference():
    assert cas(0, 50, 7, 0, 0, CasWeights()) == 0
    assert cas(0, -1, -1, 0, 0, CasWeights()) == pytest.approx(0.4)  # 0.2 + 0.2, no more


def test_cas_shares_the_weight_of_missing_parts():
    # recovery and delay unknown: (0.2·0.9 + 0.2·0.5 + 0.15·0.4) / 0.55
    assert cas(NAN, NAN, 0.1, 0.5, 0.4, CasWeights()) == pytest.approx((0.18 + 0.1 + 0.06) / 0.55)
    assert math.isnan(cas(NAN, NAN, NAN, NAN, NAN, CasWeights()))


def test_default_weights_of_the_older_composite_sum_to_one():
    weights = CasWeights()
    assert sum(weights._asdict().values()) == pytest.approx(1)
