"""Paired tests against R, scipy, statsmodels, printed examples and full enumeration."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sp
from statsmodels.stats.anova import AnovaRM
from statsmodels.stats.weightstats import ttost_paired

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats.paired import rm_anova, tost_pairs
from tests.helpers.stats_examples import (
    DEPRESSION,
    ROUNDING_TIMES,
    SLEEP,
    ZEA_MAYS,
    matrix_frame,
    paired_frame,
    random_matrix,
)

GAPS = st.lists(st.integers(-4, 4), min_size=2, max_size=8)


def versus_zero(gaps):
    return paired_frame({"a": np.asarray(gaps, dtype=float), "b": np.zeros(len(gaps))})


@pytest.mark.parametrize(("n", "k"), [(4, 2), (6, 3), (25, 5)])
def test_rm_anova_equals_statsmodels(n, k):
    frame = matrix_frame(random_matrix(n, n, k))
    row = rm_anova(frame).iloc[0]
    again = AnovaRM(frame, "value", "scenario", within=["system"]).fit().anova_table.iloc[0]
    assert row["statistic"] == pytest.approx(again["F Value"], rel=1e-10)
    assert row["p"] == pytest.approx(again["Pr > F"], rel=1e-9)
    assert (row["df1"], row["df2"]) == (again["Num DF"], again["Den DF"])


def test_epsilons_match_a_published_example():
    """pingouin's documentation of epsilon(): five subjects, three conditions, GG 0.5588."""
    x = [[2.2, 1.1, 8.2], [3.1, 2.5, 4.5], [4.3, 4.1, 3.4], [4.1, 5.2, 6.2], [7.2, 6.4, 7.2]]
    row = rm_anova(matrix_frame(x)).iloc[0]
    assert row["epsilon_gg"] == pytest.approx(0.5587754577585018, abs=1e-12)
    assert row["p_gg"] == pytest.approx(
        sp.f.sf(row["statistic"], 2 * row["epsilon_gg"], 8 * row["epsilon_gg"])
    )


def test_epsilon_is_the_eigenvalue_ratio_of_orthonormal_contrasts():
    x = random_matrix(3, 12, 4)
    contrasts = np.linalg.svd(np.ones((1, 4)))[2][1:]
    values = np.linalg.eigvalsh(np.cov((x @ contrasts.T), rowvar=False))
    expected = values.sum() ** 2 / (3 * (values**2).sum())
    assert rm_anova(matrix_frame(x))["epsilon_gg"][0] == pytest.approx(expected, rel=1e-10)


def test_two_systems_are_the_squared_paired_t():
    row = rm_anova(paired_frame(SLEEP)).iloc[0]
    t = sp.ttest_rel(SLEEP["drug1"], SLEEP["drug2"])
    assert row["statistic"] == pytest.approx(t.statistic**2)
    assert row["p_gg"] == pytest.approx(t.pvalue)


def test_friedman_matches_r_on_rounding_times():
    """R: friedman.test(RoundingTimes) prints chi-squared 11.143, df 2, p 0.003805."""
    row = stats.friedman(matrix_frame(ROUNDING_TIMES)).iloc[0]
    assert row["statistic"] == pytest.approx(11.143, abs=5e-4)
    assert row["p"] == pytest.approx(0.003805, abs=5e-7)
    again = sp.friedmanchisquare(*ROUNDING_TIMES.T)
    assert (row["statistic"], row["p"]) == pytest.approx(tuple(again), rel=1e-12)


def test_paired_t_matches_student():
    """R: t.test(extra ~ group, sleep, paired): t -4.0621, p 0.002833, interval -2.4598858 to -0.7001142."""
    row = stats.mean_differences(paired_frame(SLEEP)).iloc[0]
    assert (row["diff"], row["t"], row["p"]) == pytest.approx((-1.58, -4.0621, 0.002833), abs=5e-5)
    assert (row["low"], row["high"]) == pytest.approx((-2.4598858, -0.7001142), abs=1e-7)


def test_wilcoxon_matches_hollander_and_wolfe():
    """Hollander and Wolfe (1973), p. 29: V = 40, one-sided p 0.01953, so 0.0390625 two-sided."""
    row = stats.wilcoxon_pairs(paired_frame(DEPRESSION)).iloc[0]
    assert (row["w_plus"], row["w_minus"]) == (40.0, 5.0)
    assert row["p"] == pytest.approx(0.0390625, abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(GAPS)
def test_wilcoxon_pratt_equals_full_enumeration(gaps):
    """Up to 13 scenarios, also with ties and zeros: every sign pattern, counted in a loop."""
    row = stats.wilcoxon_pairs(versus_zero(gaps)).iloc[0]
    ranks = sp.rankdata(np.abs(gaps))
    active = [r for r, g in zip(ranks, gaps, strict=True) if g]
    sums = [
        sum(s * r for s, r in zip(signs, active, strict=True))
        for signs in itertools.product((-1, 1), repeat=len(active))
    ]
    observed = abs(row["w_plus"] - row["w_minus"])
    expected = np.mean([abs(s) >= observed - 1e-9 for s in sums])
    assert row["p"] == pytest.approx(expected, abs=1e-12)
    assert row["n_zero"] == gaps.count(0)


def test_wilcoxon_with_many_zeros_equals_scipy():
    gaps = np.round(np.random.default_rng(0).normal(0.4, 1, 200))
    row = stats.wilcoxon_pairs(versus_zero(gaps)).iloc[0]
    assert row["p"] == pytest.approx(sp.wilcoxon(gaps, zero_method="pratt").pvalue, rel=1e-12)
    assert row["p"] != pytest.approx(sp.wilcoxon(gaps, zero_method="wilcox").pvalue, rel=1e-3)


def test_differences_that_only_rounding_tells_apart_tie():
    frame = paired_frame({"a": [0.3, 0.6, 0.5], "b": [0.1, 0.4, 0.7]})
    assert 0.3 - 0.1 != 0.6 - 0.4
    row = stats.wilcoxon_pairs(frame).iloc[0]
    assert (row["w_plus"], row["w_minus"]) == (4.0, 2.0)


def test_sign_flip_matches_fisher_on_zea_mays():
    """Fisher (1935), section 21: of 32768 patterns 863 reach the sum 314, so 1726 on both sides."""
    assert sum(ZEA_MAYS) == 314
    row = stats.sign_flip_pairs(versus_zero(ZEA_MAYS), permutations=2**15).iloc[0]
    assert row["exact"]
    assert row["p"] == pytest.approx(1726 / 32768, abs=1e-15)
    drawn = stats.sign_flip_pairs(versus_zero(ZEA_MAYS), stats.Design(seed=4), permutations=20_000).iloc[0]
    assert not drawn["exact"]
    assert drawn["p"] == pytest.approx(1726 / 32768, abs=4 * (0.0527 * 0.947 / 20_000) ** 0.5)


@settings(max_examples=20, deadline=None)
@given(GAPS)
def test_exact_sign_flip_equals_scipy(gaps):
    row = stats.sign_flip_pairs(versus_zero(gaps), permutations=2**12).iloc[0]
    again = sp.permutation_test(
        (np.asarray(gaps, float), np.zeros(len(gaps))),
        lambda x, y, axis: (x - y).mean(axis),
        permutation_type="samples",
        vectorized=True,
    )
    assert row["p"] == pytest.approx(min(1.0, again.pvalue), abs=1e-12)


def test_sign_flip_keeps_its_size():
    """2000 data sets without an effect (n = 20, skewed but symmetric differences), level 5 %."""
    rng = np.random.default_rng(12)
    x = rng.standard_t(3, size=(20, 2000)) * rng.exponential(size=(20, 1))
    frame = matrix_frame(np.column_stack([np.zeros(20), x]), names=["zero", *map(str, range(2000))])
    pairs = [(str(j), "zero") for j in range(2000)]
    rejected = (
        stats.sign_flip_pairs(frame, stats.Design(pairs=pairs, seed=1), permutations=999)["p"] <= 0.05
    ).mean()
    assert rejected == pytest.approx(0.05, abs=3.5 * (0.05 * 0.95 / 2000) ** 0.5)


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


def test_equal_systems_have_p_one_and_no_t():
    frame = matrix_frame(np.ones((5, 2)))
    assert stats.wilcoxon_pairs(frame)["p"][0] == 1.0
    assert stats.sign_flip_pairs(frame)["p"][0] == 1.0
    assert np.isnan(stats.mean_differences(frame)["p"][0])
    assert np.isnan(rm_anova(frame)["statistic"][0])
    assert np.isnan(stats.friedman(frame)["statistic"][0])


def test_bad_input_says_what_to_do():
    frame = matrix_frame(random_matrix(1, 4, 3))
    with pytest.raises(InputError, match="expected two different systems of \\['s0', 's1', 's2'\\]"):
        stats.wilcoxon_pairs(frame, stats.Design(pairs=[("s0", "tracker")]))
    with pytest.raises(InputError, match="more than one row for system='s0', scenario=0"):
        rm_anova(pd.concat([frame, frame]))
    holed = frame.assign(value=frame["value"].where(frame["system"] != "s1"))
    with pytest.raises(InputError, match=r"0 of 4 scenarios are complete.*'s1' lacks most"):
        rm_anova(holed)
    with pytest.raises(InputError, match="'s0' and 's1' share 0 scenarios"):
        stats.mean_differences(holed)
    with pytest.raises(InputError, match="1 systems"):
        stats.friedman(frame[frame["system"] == "s0"])
    with pytest.raises(InputError, match="permutations=0"):
        stats.sign_flip_pairs(frame, permutations=0)
    with pytest.raises(InputError, match="seed -1"):
        stats.sign_flip_pairs(frame, stats.Design(seed=-1))


def test_tost_equals_statsmodels():
    x = random_matrix(3, 30, 2, effect=0.1)
    row = tost_pairs(matrix_frame(x), 0.5).iloc[0]
    assert row["p"] == pytest.approx(ttost_paired(x[:, 0], x[:, 1], -0.5, 0.5)[0], rel=1e-10)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 200), st.floats(0.05, 1.5))
def test_tost_says_equivalent_exactly_when_the_interval_lies_inside(seed, margin):
    frame = matrix_frame(random_matrix(seed, 12, 2))
    row = stats.mean_differences(frame, stats.Design(confidence=0.90)).iloc[0]
    inside = -margin < row["low"] and row["high"] < margin
    assert tost_pairs(frame, margin)["equivalent"][0] == inside


def test_tost_of_constant_differences_and_bad_margins():
    frame = matrix_frame([[0.1, 0.0], [0.3, 0.2], [0.6, 0.5]]).round(1)
    assert tost_pairs(matrix_frame([[1.0, 1.0], [2.0, 2.0]]), 0.1)["p"][0] == 0.0
    assert not tost_pairs(matrix_frame([[2.0, 1.0], [3.0, 2.0]]), 0.5)["equivalent"][0]
    with pytest.raises(InputError, match="margin=0"):
        tost_pairs(frame, 0)
