"""Effect sizes and their intervals against R, loops and coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sp

from crs_lib import stats
from crs_lib.stats.effects import _noncentral_f_interval, partial_eta_squared, rank_biserial
from crs_lib.stats.paired import rm_anova
from tests.helpers.stats_examples import matrix_frame, random_matrix

TABLE = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=15)


def test_noncentral_f_interval_inverts_the_distribution():
    """Bargmann's example in Steiger (2004), F(4, 50) = 11.221: the tails at both ends, 5 % each."""
    low, high = _noncentral_f_interval(11.221, 4, 50, 0.90)
    assert low < 4 * 11.221 < high
    assert sp.ncf.cdf(11.221, 4, 50, low) == pytest.approx(0.95, abs=1e-9)
    assert sp.ncf.cdf(11.221, 4, 50, high) == pytest.approx(0.05, abs=1e-9)


def test_partial_eta_squared_from_f_and_degrees_of_freedom():
    """df1 F / (df1 F + df2), Cohen (1973)."""
    frame = matrix_frame(random_matrix(2, 15, 4))
    fit, row = rm_anova(frame).iloc[0], partial_eta_squared(frame).iloc[0]
    share = 3 * fit["statistic"] / (3 * fit["statistic"] + 42)
    assert row["estimate"] == pytest.approx(share)
    assert row["low"] < share < row["high"]


@settings(max_examples=20, deadline=None)
@given(TABLE)
def test_rank_biserial_goes_with_the_wilcoxon_rank_sums(values):
    frame = matrix_frame(values)
    row, test = rank_biserial(frame, stats.Design(resamples=50)).iloc[0], stats.wilcoxon_pairs(frame).iloc[0]
    n = len(values)
    assert row["estimate"] == pytest.approx((test["w_plus"] - test["w_minus"]) / (n * (n + 1) / 2), abs=1e-12)
    if np.isfinite(row["low"]):
        assert -1 <= row["low"] <= row["high"] <= 1


def test_rank_biserial_interval_equals_a_plain_bootstrap():
    gaps = np.round(np.random.default_rng(1).normal(0.3, 1, 60), 1)
    frame = matrix_frame(np.column_stack([gaps, np.zeros(60)]))
    row = rank_biserial(frame, stats.Design(resamples=4000)).iloc[0]
    rng, draws = np.random.default_rng(2), []
    for _ in range(2000):
        d = rng.choice(gaps, 60)
        draws.append((np.sign(d) * sp.rankdata(np.abs(d))).sum() / (60 * 61 / 2))
    assert (row["low"], row["high"]) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])), abs=0.04)


def test_extremes_and_equal_systems():
    above = matrix_frame([[1.0, 0.0], [3.0, 0.5], [2.0, 0.9], [4.0, 0.1]])
    equal = matrix_frame(np.ones((5, 2)))
    found = [rank_biserial(frame, stats.Design(resamples=50))["estimate"][0] for frame in (above, equal)]
    assert found == [1.0, 0.0]
