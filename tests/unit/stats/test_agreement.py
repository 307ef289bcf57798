import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sp

from crs_lib import stats
from crs_lib.stats.agreement import masi_distance
from tests.helpers.stats_examples import KRIPPENDORFF, SHROUT_FLEISS


def ratings(table):
    """Raters by items as a tidy frame."""
    rows = [(i, r, v) for r, row in enumerate(table) for i, v in enumerate(row)]
    return pd.DataFrame(rows, columns=["item", "rater", "value"])


@pytest.mark.parametrize(
    ("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_alpha_matches_krippendorff(level, alpha):
    """Krippendorff (2011), sections C to F: four observers, twelve units, eight ratings missing."""
    row = stats.krippendorff_alpha(
        ratings(KRIPPENDORFF), stats.Design(system="rater", scenario="item", resamples=200), level=level
    ).iloc[0]
    assert row["alpha"] == pytest.approx(alpha, abs=5e-4)
    assert (row["n_items"], row["n_raters"], row["n_values"], row["n"], row["n_missing"]) == (11, 4, 5, 40, 8)


def test_two_observers_nominal_matches_krippendorff():
    """Krippendorff (2011), section A: two observers, ten binary units, alpha 0.095."""
    a, b = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    row = stats.krippendorff_alpha(
        ratings([a, b]), stats.Design(system="rater", scenario="item", resamples=100), level="nominal"
    ).iloc[0]
    assert row["alpha"] == pytest.approx(0.095, abs=5e-4)


def slow_alpha(table, distance):
    """Definition by pairs: within items over m - 1, and over all pairable ratings."""
    units = [[v for v in column if not np.isnan(v)] for column in np.transpose(table)]
    units = [u for u in units if len(u) > 1]
    every = [v for u in units for v in u]
    n = len(every)
    seen = sum(distance(a, b) / (len(u) - 1) for u in units for a, b in itertools.permutations(u, 2)) / n
    by_chance = sum(distance(a, b) for a, b in itertools.permutations(every, 2)) / (n * (n - 1))
    return np.nan if by_chance == 0 else 1 - seen / by_chance


CELL = st.one_of(st.integers(1, 4).map(float), st.just(float("nan")))
TABLES = st.integers(2, 4).flatmap(
    lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=2, max_size=4)
)


@settings(max_examples=25, deadline=None)
@given(TABLES)
def test_alpha_is_the_loop_over_pairs(table):
    x = np.array(table)
    if ((~np.isnan(x)).sum(axis=0) > 1).any():
        for level, distance in (("nominal", lambda a, b: a != b), ("interval", lambda a, b: (a - b) ** 2)):
            row = stats.krippendorff_alpha(
                ratings(x), stats.Design(system="rater", scenario="item", resamples=5), level=level
            ).iloc[0]
            assert row["alpha"] == pytest.approx(slow_alpha(x, distance), abs=1e-12, nan_ok=True)


def test_ordinal_alpha_is_the_sum_between_ranks():
    """Krippendorff's ordinal metric written as he does: ratings between c and k, ends half."""
    every = KRIPPENDORFF[:, (~np.isnan(KRIPPENDORFF)).sum(axis=0) > 1]
    count = {v: int((every == v).sum()) for v in np.unique(every[~np.isnan(every)])}

    def distance(a, b):
        low, high = min(a, b), max(a, b)
        return (sum(n for v, n in count.items() if low <= v <= high) - (count[a] + count[b]) / 2) ** 2

    row = stats.krippendorff_alpha(
        ratings(KRIPPENDORFF), stats.Design(system="rater", scenario="item", resamples=5)
    ).iloc[0]
    assert row["alpha"] == pytest.approx(slow_alpha(KRIPPENDORFF, distance), abs=1e-12)


@pytest.mark.slow
def test_alpha_interval_covers_as_it_says():
    """200 samples of 60 items by 3 raters; true alpha 0.5 (equal variances); 90 % interval."""
    rng, covered = np.random.default_rng(5), 0
    for _ in range(200):
        x = rng.normal(size=(1, 60)) + rng.normal(size=(3, 60))
        row = stats.krippendorff_alpha(
            ratings(x),
            stats.Design(system="rater", scenario="item", confidence=0.9, resamples=300),
            level="interval",
        ).iloc[0]
        covered += row["low"] <= 0.5 <= row["high"]
    assert covered / 200 == pytest.approx(0.90, abs=3 * (0.09 / 200) ** 0.5 + 0.01)


def test_masi_distance_of_passonneau():
    """Passonneau (2006): Jaccard times 1, 2/3 (one holds the other), 1/3 (overlap) or 0 (disjoint)."""
    assert masi_distance({1, 2}, {1, 2}) == 0.0
    assert masi_distance({1, 2}, {1, 2, 3, 4}) == pytest.approx(1 - 0.5 * 2 / 3)
    assert masi_distance({1, 2}, {2, 3}) == pytest.approx(1 - 1 / 3 * 1 / 3)
    assert masi_distance({1}, {2}) == 1.0
    assert masi_distance([], []) == 0.0
    assert masi_distance([], [1]) == 1.0


def test_masi_alpha_of_single_labels_is_nominal_alpha_and_sets_follow_the_loop():
    singles = ratings(KRIPPENDORFF)
    sets = singles.assign(value=[None if v != v else frozenset([v]) for v in singles["value"]])
    found = stats.krippendorff_alpha(
        sets, stats.Design(system="rater", scenario="item", resamples=50), level="masi"
    )["alpha"][0]
    assert found == pytest.approx(
        stats.krippendorff_alpha(
            singles, stats.Design(system="rater", scenario="item", resamples=50), level="nominal"
        )["alpha"][0]
    )
    coded = {1.0: {"a"}, 2.0: {"a", "b"}, 3.0: {"b", "c"}, 4.0: set(), 5.0: {"a", "b", "c"}}
    mixed = singles.assign(value=[None if v != v else coded[v] for v in singles["value"]])
    expected = slow_alpha(KRIPPENDORFF, lambda a, b: masi_distance(coded[a], coded[b]))
    assert stats.krippendorff_alpha(
        mixed, stats.Design(system="rater", scenario="item", resamples=50), level="masi"
    )["alpha"][0] == pytest.approx(expected)


def test_alpha_extremes_and_errors():
    same = ratings([[1, 2, 3], [1, 2, 3]])
    assert (
        stats.krippendorff_alpha(same, stats.Design(system="rater", scenario="item", resamples=50))["alpha"][
            0
        ]
        == 1.0
    )
    assert np.isnan(
        stats.krippendorff_alpha(
            ratings([[1, 1], [1, 1]]), stats.Design(system="rater", scenario="item", resamples=50)
        )["alpha"][0]
    )
    with pytest.raises(ValueError, match="rated twice"):
        stats.krippendorff_alpha(pd.concat([same, same]))
    with pytest.raises(ValueError, match="no item has two ratings"):
        stats.krippendorff_alpha(same[same["rater"] == 0])
    with pytest.raises(ValueError, match="use one of nominal, ordinal"):
        stats.krippendorff_alpha(same, level="cardinal")
    with pytest.raises(ValueError, match="needs sets"):
        stats.krippendorff_alpha(same, level="masi")
    with pytest.raises(ValueError, match="at least 0"):
        stats.krippendorff_alpha(ratings([[-1, 2], [1, 2]]), level="ratio")


def test_icc_matches_shrout_and_fleiss():
    """Shrout and Fleiss (1979), table 4: .17 .29 .71 and .44 .62 .91; intervals from R's psych::ICC."""
    found = stats.icc(ratings(SHROUT_FLEISS.T)).set_index("type")
    expected = {
        "ICC(1,1)": (0.17, -0.133, 0.723),
        "ICC(2,1)": (0.29, 0.019, 0.761),
        "ICC(3,1)": (0.71, 0.342, 0.946),
        "ICC(1,k)": (0.44, -0.884, 0.912),
        "ICC(2,k)": (0.62, 0.071, 0.927),
        "ICC(3,k)": (0.91, 0.676, 0.986),
    }
    for kind, (estimate, low, high) in expected.items():
        row = found.loc[kind]
        assert row["icc"] == pytest.approx(estimate, abs=5e-3), kind
        assert (row["low"], row["high"]) == pytest.approx((low, high), abs=1e-3), kind
    assert found.loc["ICC(3,1)", "f"] == pytest.approx(11.03, abs=5e-3)
    assert found.loc["ICC(1,1)", "f"] == pytest.approx(1.79, abs=5e-3)


def test_icc_3k_is_cronbachs_alpha_and_incomplete_items_are_counted():
    x = np.random.default_rng(2).normal(size=(20, 1)) + np.random.default_rng(3).normal(size=(20, 3))
    alpha = 3 / 2 * (1 - x.var(axis=0, ddof=1).sum() / x.sum(axis=1).var(ddof=1))
    holed = np.vstack([x, [1.0, np.nan, 2.0]])
    row = stats.icc(ratings(holed.T)).set_index("type").loc["ICC(3,k)"]
    assert row["icc"] == pytest.approx(alpha)
    assert (row["n"], row["n_missing"]) == (20, 1)
    assert row["p"] == pytest.approx(sp.f.sf(row["f"], 19, 38))


def test_icc_degenerate_cases():
    perfect = stats.icc(ratings([[1, 2, 3], [1, 2, 3]]))
    assert perfect["icc"].to_numpy() == pytest.approx(1.0)
    assert stats.icc(ratings([[1, 1], [1, 1]]))["icc"].isna().all()
    with pytest.raises(ValueError, match="1 items were rated by all 2"):
        stats.icc(ratings([[1], [2]]))


def test_many_items_and_values_fit_in_memory():
    x = np.random.default_rng(1).normal(size=(1, 600)) + np.random.default_rng(2).normal(size=(3, 600))
    for level in ("interval", "ordinal"):
        row = stats.krippendorff_alpha(
            ratings(x), stats.Design(system="rater", scenario="item", resamples=40), level=level
        ).iloc[0]
        assert row["low"] < row["alpha"] < row["high"]
        assert row["alpha"] == pytest.approx(0.5, abs=0.1)
