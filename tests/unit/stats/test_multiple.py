import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sp
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from crs_lib import stats
from crs_lib.stats.paired import tost_pairs
from tests.helpers.stats_examples import matrix_frame, random_matrix


def benjamini_hochberg(ps):
    return stats.adjust(pd.DataFrame({"p": ps}), method="benjamini_hochberg")["p_adjusted"].to_numpy()


PS = st.lists(st.floats(0, 1), min_size=1, max_size=20)
# Benjamini and Hochberg (1995), section 4.1: fifteen tests of a thrombolysis trial.
TRIAL = [
    0.0001,
    0.0004,
    0.0019,
    0.0095,
    0.0201,
    0.0278,
    0.0298,
    0.0344,
    0.0459,
    0.3240,
    0.4262,
    0.5719,
    0.6528,
    0.7590,
    1.0,
]


def test_benjamini_hochberg_reproduces_the_paper():
    """Their section 4.1: four rejections at 5 %, where Bonferroni (and Holm) reject three."""
    assert (benjamini_hochberg(TRIAL) <= 0.05).sum() == 4
    assert (stats.holm(TRIAL) <= 0.05).sum() == 3


def test_holm_by_hand():
    """0.01 * 4, then 0.03 * 3 = 0.09 keeps 0.02 * ... in order: 0.04, 0.06, 0.06, 0.06."""
    assert stats.holm([0.03, 0.01, 0.02, 0.04]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


@given(PS)
def test_holm_is_the_step_down_loop(ps):
    order, running, expected = np.argsort(ps, kind="stable"), 0.0, np.zeros(len(ps))
    for step, i in enumerate(order):
        running = max(running, min(1.0, (len(ps) - step) * ps[i]))
        expected[i] = running
    assert stats.holm(ps) == pytest.approx(expected)


@given(PS)
def test_benjamini_hochberg_equals_scipy_and_is_the_more_lenient(ps):
    assert benjamini_hochberg(ps) == pytest.approx(sp.false_discovery_control(ps))
    assert (benjamini_hochberg(ps) <= stats.holm(ps) + 1e-12).all()


@pytest.mark.slow
def test_both_equal_statsmodels_to_the_last_bit():
    ps = random_matrix(5, 40, 1).ravel() % 1
    for method, name in (("holm", "holm"), ("benjamini_hochberg", "fdr_bh")):
        found = stats.adjust(pd.DataFrame({"p": ps}), method=method)["p_adjusted"]
        assert found.tolist() == multipletests(ps, method=name)[1].tolist()


def test_adjust_keeps_order_families_and_missing():
    frame = pd.DataFrame(
        {"p": [0.04, 0.01, np.nan, 0.02], "family": ["x", "y", "x", "x"]}, index=[9, 8, 7, 6]
    )
    found = stats.adjust(frame, family="family")
    assert list(found.index) == [9, 8, 7, 6]
    assert found["p_adjusted"].tolist()[:2] == pytest.approx([0.04, 0.01])
    assert np.isnan(found["p_adjusted"].iloc[2])
    assert found["p_adjusted"].iloc[3] == pytest.approx(0.04)
    assert found["family_size"].tolist() == [2, 1, 2, 2]
    assert "p_adjusted" not in frame


def test_adjust_refuses_what_is_no_p_or_method():
    with pytest.raises(ValueError, match="outside"):
        stats.holm([0.2, 1.2])
    with pytest.raises(ValueError, match="use one of holm, benjamini_hochberg"):
        stats.adjust(pd.DataFrame({"p": [0.1]}), method="bonferoni")


def test_tost_equals_statsmodels():
    x = random_matrix(3, 30, 2, effect=0.1)
    row = tost_pairs(matrix_frame(x), 0.5).iloc[0]
    p, lower, upper = ttost_paired(x[:, 0], x[:, 1], -0.5, 0.5)
    assert (row["p"], row["p_lower"], row["p_upper"]) == pytest.approx((p, lower[1], upper[1]), rel=1e-10)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 200), st.floats(0.05, 1.5))
def test_tost_says_equivalent_exactly_when_the_interval_lies_inside(seed, margin):
    row = tost_pairs(matrix_frame(random_matrix(seed, 12, 2)), margin).iloc[0]
    assert row["equivalent"] == (-margin < row["low"] and row["high"] < margin)


def test_tost_of_constant_differences_and_bad_margins():
    frame = matrix_frame([[0.1, 0.0], [0.3, 0.2], [0.6, 0.5]]).round(1)
    assert tost_pairs(matrix_frame([[1.0, 1.0], [2.0, 2.0]]), 0.1)["p"][0] == 0.0
    assert not tost_pairs(matrix_frame([[2.0, 1.0], [3.0, 2.0]]), 0.5)["equivalent"][0]
    with pytest.raises(ValueError, match="margin=0"):
        tost_pairs(frame, 0)
