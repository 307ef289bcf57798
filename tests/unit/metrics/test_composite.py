"""Composites, written out: every weight, every clipping, every missing part."""

import math

import pytest

from crs_lib.metrics.composite import cas, item_tas, tas
from crs_lib.metrics.conventions import CasWeights, ItemWeights, TasWeights

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
