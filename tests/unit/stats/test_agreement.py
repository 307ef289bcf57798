"""Krippendorff's alpha and ICC(2,k) against published examples and the definitions in loops."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats.agreement import masi_distance
from tests.helpers.stats_examples import KRIPPENDORFF, SHROUT_FLEISS, ratings


def alpha(frame, level="ordinal", **draws):
    design = stats.Design(system="rater", scenario="item", **{"resamples": 50, **draws})
    return stats.krippendorff_alpha(frame, design, level=level).iloc[0]


def slow_alpha(table, distance):
    """Definition by pairs: within items over m - 1, and over all pairable ratings."""
    units = [[v for v in column if not np.isnan(v)] for column in np.transpose(table)]
    units = [u for u in units if len(u) > 1]
    every = [v for u in units for v in u]
    n = len(every)
    seen = sum(distance(a, b) / (len(u) - 1) for u in units for a, b in itertools.permutations(u, 2)) / n
    by_chance = sum(distance(a, b) for a, b in itertools.permutations(every, 2)) / (n * (n - 1))
    return np.nan if by_chance == 0 else 1 - seen / by_chance


def between_ranks(table):
    """Krippendorff's ordinal metric written as he does: ratings between c and k, ends half."""
    kept = table[:, (~np.isnan(table)).sum(axis=0) > 1]
    count = {v: int((kept == v).sum()) for v in np.unique(kept[~np.isnan(kept)])}

    def distance(a, b):
        low, high = min(a, b), max(a, b)
        return (sum(n for v, n in count.items() if low <= v <= high) - (count[a] + count[b]) / 2) ** 2

    return distance


CELL = st.one_of(st.integers(1, 4).map(float), st.just(float("nan")))
TABLES = st.integers(2, 4).flatmap(
    lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=2, max_size=4)
)


@settings(max_examples=25, deadline=None)
@given(TABLES)
def test_alpha_is_the_loop_over_pairs(table):
    x = np.array(table)
    if ((~np.isnan(x)).sum(axis=0) > 1).any():
        gaps = {"nominal": lambda a, b: a != b, "interval": lambda a, b: (a - b) ** 2}
        for level, distance in {**gaps, "ordinal": between_ranks(x)}.items():
            found = alpha(ratings(x), level, resamples=5)["alpha"]
            assert found == pytest.approx(slow_alpha(x, distance), abs=1e-12, nan_ok=True)


def test_masi_is_passonneaus_distance_and_nominal_for_single_labels():
    """Passonneau (2006): Jaccard times 1, 2/3 (one holds the other), 1/3 (overlap) or 0 (disjoint)."""
    cases = [({1, 2}, {1, 2}, 0), ({1, 2}, {1, 2, 3, 4}, 2 / 3), ({1, 2}, {2, 3}, 8 / 9), ({1}, {2}, 1)]
    for a, b, distance in [*cases, ([], [], 0), ([], [1], 1)]:
        assert masi_distance(a, b) == pytest.approx(distance)
    singles = ratings(KRIPPENDORFF)
    sets = singles.assign(value=[None if v != v else frozenset([v]) for v in singles["value"]])
    assert alpha(sets, "masi")["alpha"] == pytest.approx(alpha(singles, "nominal")["alpha"])
    coded = {1.0: {"a"}, 2.0: {"a", "b"}, 3.0: {"b", "c"}, 4.0: set(), 5.0: {"a", "b", "c"}}
    mixed = singles.assign(value=[None if v != v else coded[v] for v in singles["value"]])
    expected = slow_alpha(KRIPPENDORFF, lambda a, b: masi_distance(coded[a], coded[b]))
    assert alpha(mixed, "masi")["alpha"] == pytest.approx(expected)


def test_extremes_errors_and_many_items():
    same = ratings([[1, 2, 3], [1, 2, 3]])
    assert alpha(same)["alpha"] == 1.0
    assert np.isnan(alpha(ratings([[1, 1], [1, 1]]))["alpha"])
    with pytest.raises(InputError, match="item 0 was rated twice by 0"):
        alpha(pd.concat([same, same]))
    with pytest.raises(InputError, match="no item has two ratings"):
        alpha(same[same["rater"] == 0])
    assert stats.icc(ratings([[1, 2, 3], [1, 2, 3]]))["icc"].to_numpy() == pytest.approx(1.0)
    assert stats.icc(ratings([[1, 1], [1, 1]]))["icc"].isna().all()
    holed = SHROUT_FLEISS.T.astype(float)
    holed[1, 0] = np.nan
    assert stats.icc(ratings(holed)).iloc[0][["n", "n_missing"]].tolist() == [5, 1]
    with pytest.raises(InputError, match="1 items were rated by all 2"):
        stats.icc(ratings([[1], [2]]))
    x = np.random.default_rng(1).normal(size=(1, 600)) + np.random.default_rng(2).normal(size=(3, 600))
    for level in ("interval", "ordinal"):
        row = alpha(ratings(x), level, resamples=40)
        assert row["low"] < row["alpha"] < row["high"]
        assert row["alpha"] == pytest.approx(0.5, abs=0.1)
