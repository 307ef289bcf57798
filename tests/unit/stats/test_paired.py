"""Paired tests against R, scipy, statsmodels, printed examples and full enumeration."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sp

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats.paired import rm_anova, tost_pairs
from tests.helpers.stats_examples import (
    matrix_frame,
    paired_frame,
    random_matrix,
)

GAPS = st.lists(st.integers(-4, 4), min_size=2, max_size=8)


def versus_zero(gaps):
    return paired_frame({"a": np.asarray(gaps, dtype=float), "b": np.zeros(len(gaps))})


@settings(max_examples=20, deadline=None)
@given(GAPS)
def test_wilcoxon_pratt_equals_full_enumeration(gaps):
    """Up to 13 scenarios, also with ties and zeros: every sign pattern, counted in a loop."""
    row = stats.wilcoxon_pairs(versus_zero(gaps)).iloc[0]
    ranks = sp.rankdata(np.abs(gaps))
    active = [r for r, g in zip(ranks, gaps, strict=True) if g]
    signs = itertools.product((-1, 1), repeat=len(active))
    sums = [sum(s * r for s, r in zip(one, active, strict=True)) for one in signs]
    observed = abs(row["w_plus"] - row["w_minus"])
    expected = np.mean([abs(s) >= observed - 1e-9 for s in sums])
    assert row["p"] == pytest.approx(expected, abs=1e-12)
    assert row["n_zero"] == gaps.count(0)


def test_differences_that_rounding_alone_tells_apart_tie_and_equal_systems_have_p_one():
    frame = paired_frame({"a": [0.3, 0.6, 0.5], "b": [0.1, 0.4, 0.7]})
    assert 0.3 - 0.1 != 0.6 - 0.4
    row = stats.wilcoxon_pairs(frame).iloc[0]
    assert (row["w_plus"], row["w_minus"]) == (4.0, 2.0)
    frame = matrix_frame(np.ones((5, 2)))
    for test in (stats.wilcoxon_pairs, stats.sign_flip_pairs):
        assert test(frame)["p"][0] == 1.0
    for test in (stats.mean_differences, rm_anova, stats.friedman):
        assert np.isnan(test(frame)["p"][0])


@settings(max_examples=20, deadline=None)
@given(GAPS)
def test_exact_sign_flip_equals_scipy(gaps):
    row = stats.sign_flip_pairs(versus_zero(gaps), permutations=2**12).iloc[0]
    again = sp.permutation_test(
        (np.asarray(gaps, float), np.zeros(len(gaps))), lambda x, y, axis: (x - y).mean(axis),
        permutation_type="samples", vectorized=True,
    )  # fmt: skip
    assert row["p"] == pytest.approx(min(1.0, again.pvalue), abs=1e-12)


def test_sign_flip_is_seeded_and_pairs_do_not_disturb_each_other():
    frame = matrix_frame(random_matrix(2, 40, 4))
    whole = stats.sign_flip_pairs(frame, stats.Design(seed=3), permutations=500)
    assert whole.equals(stats.sign_flip_pairs(frame, stats.Design(seed=3), permutations=500))
    one = stats.sign_flip_pairs(frame, stats.Design(pairs=[("s1", "s3")], seed=3), permutations=500)
    assert one["p"][0] == whole.set_index(["a", "b"]).loc[("s1", "s3"), "p"]
    assert whole["p"].ne(stats.sign_flip_pairs(frame, stats.Design(seed=4), permutations=500)["p"]).any()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=8))
def test_swapping_the_systems_turns_signs_and_keeps_p(values):
    frame = matrix_frame(values)
    for function in (stats.mean_differences, stats.wilcoxon_pairs, stats.sign_flip_pairs):
        there, back = (
            function(frame, stats.Design(pairs=[pair])).iloc[0] for pair in (("s0", "s1"), ("s1", "s0"))
        )
        assert there["p"] == pytest.approx(back["p"], nan_ok=True)
        column = "w_plus" if "w_plus" in there else "diff"
        assert there[column] == pytest.approx(back["w_minus"] if "w_plus" in there else -back["diff"])


def test_pairs_use_all_scenarios_they_share_and_count_the_rest():
    x = random_matrix(1, 10, 3)
    x[0, 0] = x[1, 1] = x[2, 1] = np.nan
    frame = matrix_frame(x)
    found = stats.wilcoxon_pairs(frame).set_index(["a", "b"])
    assert found["n"].to_dict() == {("s0", "s1"): 7, ("s0", "s2"): 9, ("s1", "s2"): 8}
    assert found["n_missing"].to_dict() == {("s0", "s1"): 3, ("s0", "s2"): 1, ("s1", "s2"): 2}
    whole = rm_anova(frame).iloc[0]
    assert (whole["n"], whole["n_missing"]) == (7, 3)
    dropped = frame.dropna()
    assert stats.sign_flip_pairs(frame, stats.Design(seed=1))["n"].tolist() == [7, 9, 8]
    assert stats.sign_flip_pairs(dropped)["p"].equals(stats.sign_flip_pairs(frame)["p"])


FRAME = matrix_frame(random_matrix(1, 4, 3))
HOLED = FRAME.assign(value=FRAME["value"].where(FRAME["system"] != "s1"))


@pytest.mark.parametrize(("test", "frame", "changes", "words"), [
    (stats.wilcoxon_pairs, FRAME, {"pairs": [("s0", "tracker")]}, r"expected two different systems of \['s0', 's1', 's2'\]"),
    (rm_anova, pd.concat([FRAME, FRAME]), {}, "more than one row for system='s0', scenario=0"),
    (rm_anova, HOLED, {}, r"0 of 4 scenarios are complete.*'s1' lacks most"),
    (stats.mean_differences, HOLED, {}, "'s0' and 's1' share 0 scenarios"),
    (stats.friedman, FRAME[FRAME["system"] == "s0"], {}, "1 systems"),
    (stats.sign_flip_pairs, FRAME, {"seed": -1}, "seed -1"),
])  # fmt: skip
def test_bad_input_says_what_to_do(test, frame, changes, words):
    with pytest.raises(InputError, match=words):
        test(frame, stats.Design(**changes))


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 200), st.floats(0.05, 1.5))
def test_tost_says_equivalent_exactly_when_the_interval_lies_inside(seed, margin):
    frame = matrix_frame(random_matrix(seed, 12, 2))
    row = stats.mean_differences(frame, stats.Design(confidence=0.90)).iloc[0]
    inside = -margin < row["low"] and row["high"] < margin
    assert (tost_pairs(frame, margin)["p"][0] < 0.05) == inside


def test_differences_that_do_not_vary_are_no_proof_of_equality_in_a_small_run():
    """The bug: 16 zeros gave TOST p < .001; a rare large difference would not be among 16."""
    for n, undecided in ((2, True), (19, True), (20, False), (60, False)):
        p = tost_pairs(matrix_frame(np.ones((n, 2))), 0.05)["p"][0]
        assert np.isnan(p) == undecided
        assert undecided or (p < 0.05) == (n == 60)
    assert tost_pairs(matrix_frame(np.tile([2.0, 1.0], (60, 1))), 0.5)["p"][0] > 0.5
