"""Paired tests against R, scipy, statsmodels, printed examples and full enumeration."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sp

from crs_lib import stats
from crs_lib.stats.effects import leaderboard, rank_biserial, standardised
from crs_lib.stats.groups import assumptions, one_way_anova, tukey_hsd, welch_anova
from crs_lib.stats.paired import rm_anova
from tests.helpers import refused
from tests.helpers.stats_examples import PLANT_GROWTH, groups_frame, matrix_frame, paired_frame, random_matrix

GAPS = st.lists(st.integers(-4, 4), min_size=2, max_size=8)


@settings(max_examples=20, deadline=None)
@given(GAPS)
def test_wilcoxon_pratt_equals_full_enumeration(gaps):
    """Up to 13 scenarios, also with ties and zeros: every sign pattern, counted in a loop."""
    beside_zero = {"a": np.asarray(gaps, dtype=float), "b": np.zeros(len(gaps))}
    row = stats.wilcoxon_pairs(paired_frame(beside_zero)).iloc[0]
    ranks = sp.rankdata(np.abs(gaps))
    active = [r for r, g in zip(ranks, gaps, strict=True) if g]
    signs = itertools.product((-1, 1), repeat=len(active))
    sums = [sum(s * r for s, r in zip(one, active, strict=True)) for one in signs]
    observed = abs(row["w_plus"] - row["w_minus"])
    expected = np.mean([abs(s) >= observed - 1e-9 for s in sums])
    assert row["p"] == pytest.approx(expected, abs=1e-12) and row["n_zero"] == gaps.count(0)


def test_differences_that_rounding_tells_apart_tie_and_those_that_do_not_vary_prove_nothing_in_a_small_run():
    frame = paired_frame({"a": [0.3, 0.6, 0.5], "b": [0.1, 0.4, 0.7]})
    assert 0.3 - 0.1 != 0.6 - 0.4
    row = stats.wilcoxon_pairs(frame).iloc[0]
    assert (row["w_plus"], row["w_minus"]) == (4.0, 2.0)
    frame = matrix_frame(np.ones((5, 2)))
    for test in (stats.wilcoxon_pairs, stats.sign_flip_pairs):
        assert test(frame)["p"][0] == 1.0
    for test in (rm_anova, stats.friedman):
        assert np.isnan(test(frame)["p"][0])


def test_sign_flip_is_seeded_and_pairs_do_not_disturb_each_other():
    frame = matrix_frame(random_matrix(2, 40, 4))
    made = {"seed": 3}, {"seed": 3}, {"seed": 3, "pairs": [("s1", "s3")]}, {"seed": 4}
    designs = [stats.Design(**one) for one in made]
    whole, same, one, other = (stats.sign_flip_pairs(frame, how, permutations=500) for how in designs)
    assert whole.equals(same) and whole["p"].ne(other["p"]).any()
    assert one["p"][0] == whole.set_index(["a", "b"]).loc[("s1", "s3"), "p"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=8))
def test_swapping_the_systems_turns_signs_and_keeps_p(values):
    frame = matrix_frame(values)
    for function in (stats.mean_tests, stats.wilcoxon_pairs, stats.sign_flip_pairs):
        pairs = (("s0", "s1"), ("s1", "s0"))
        there, back = (function(frame, stats.Design(pairs=[pair])).iloc[0] for pair in pairs)
        assert there["p"] == pytest.approx(back["p"], nan_ok=True)
        column = "w_plus" if "w_plus" in there else "diff"
        assert there[column] == pytest.approx(back["w_minus"] if "w_plus" in there else -back["diff"])


def test_pairs_use_all_scenarios_they_share_and_count_the_rest():
    x = random_matrix(1, 10, 3)
    x[0, 0] = x[1, 1] = x[2, 1] = np.nan
    frame = matrix_frame(x)
    found = stats.wilcoxon_pairs(frame)[["a", "b", "n", "n_missing"]].to_numpy().tolist()
    assert found == [["s0", "s1", 7, 3], ["s0", "s2", 9, 1], ["s1", "s2", 8, 2]]
    assert rm_anova(frame)[["n", "n_missing"]].to_numpy().tolist() == [[7, 3]]
    assert stats.sign_flip_pairs(frame, stats.Design(seed=1))["n"].tolist() == [7, 9, 8]
    assert stats.sign_flip_pairs(frame.dropna())["p"].equals(stats.sign_flip_pairs(frame)["p"])


PLANTS = groups_frame(PLANT_GROWTH)


def test_missing_values_are_counted_no_variation_is_undefined_and_categories_keep_their_order():
    holed = PLANTS.copy()
    holed.loc[[0, 12], "value"] = np.nan
    row = one_way_anova(holed).iloc[0]
    assert (row["n"], row["n_missing"]) == (28, 2)
    samples = [[v for v in holed[holed["system"] == s]["value"] if v == v] for s in PLANT_GROWTH]
    assert row["statistic"] == pytest.approx(sp.f_oneway(*samples).statistic)
    zeros = one_way_anova(holed.fillna(0.0)).iloc[0]
    assert row["statistic"] != pytest.approx(zeros["statistic"])
    flat, apart = (groups_frame({"a": [1.0, 1.0, 1.0], "b": [b, b]}) for b in (1.0, 2.0))
    assert np.isnan(one_way_anova(flat)["p"][0]) and one_way_anova(apart)["p"][0] == 0.0
    assert np.isnan(welch_anova(apart)["p"][0])
    negative = groups_frame({"a": [1.0, 2, 3], "b": [1.0, 2, 3]})
    assert one_way_anova(negative)["omega_squared"][0] == 0
    system = pd.Categorical(PLANTS["system"], categories=["trt2", "ctrl", "trt1"])
    assert list(tukey_hsd(PLANTS.assign(system=system))["a"]) == ["trt2", "trt2", "ctrl"]


FRAME = matrix_frame(random_matrix(1, 4, 3))
HOLED = FRAME.assign(value=FRAME["value"].where(FRAME["system"] != "s1"))


@pytest.mark.parametrize(("test", "frame", "changes", "words"), [
    (stats.wilcoxon_pairs, FRAME, {"pairs": [("s0", "tracker")]}, r"expected two different systems of \['s0', 's1', 's2'\]"),
    (rm_anova, pd.concat([FRAME, FRAME]), {}, "more than one row for system='s0', scenario=0"),
    (rm_anova, HOLED, {}, r"0 of 4 scenarios are complete.*'s1' lacks most"),
    (stats.mean_tests, HOLED, {}, "'s0' and 's1' share 0 scenarios"),
    (stats.friedman, FRAME[FRAME["system"] == "s0"], {}, "1 systems"),
    (stats.sign_flip_pairs, FRAME, {"seed": -1}, "seed -1"),
    (one_way_anova, groups_frame({"a": [1.0, 2.0]}), {}, "1 systems"),
    (one_way_anova, groups_frame({"a": [1.0, 2.0], "b": [1.0]}), {}, "'b' has 1 values"),
    (one_way_anova, PLANTS.rename(columns={"value": "score"}), {}, "no column 'value'; the frame has 'system', 'score'"),
    (one_way_anova, PLANTS.assign(value="high"), {}, "holds no numbers"),
    (one_way_anova, PLANTS.assign(value=np.inf), {}, "infinite"),
    (one_way_anova, PLANTS.assign(system=None), {}, "missing labels"),
])  # fmt: skip
def test_bad_input_says_what_was_given_and_what_to_do(test, frame, changes, words):
    refused(words, test, frame, stats.Design(**changes))


WORDS = {"equal variances": "Welch", "normal residuals": "tests of means", "sphericity": "Greenhouse-Geisser"}


def check(name, frame):
    return assumptions(frame).set_index("check").loc[name]


def test_mauchly_p_is_the_simulated_one_in_a_small_sample():
    """Null W of 40000 samples, 10 by 6: the second-order term is needed (first order says .039, second .048)."""
    rng = np.random.default_rng(9)
    x = np.cumsum(rng.normal(size=(10, 6)), axis=1)
    row = check("sphericity", matrix_frame(x))
    y = rng.normal(size=(40_000, 10, 5))
    y -= y.mean(axis=1, keepdims=True)
    covariance = np.swapaxes(y, 1, 2) @ y / 9
    null = np.linalg.det(covariance) / (np.trace(covariance, axis1=1, axis2=2) / 5) ** 5
    simulated = (null <= row["statistic"]).mean()
    assert 0.001 < simulated < 0.5
    error = (simulated * (1 - simulated) / 40_000) ** 0.5
    assert row["p"] == pytest.approx(simulated, abs=3.5 * error + 0.001)


def test_words_follow_from_the_numbers_and_missing_values_are_counted():
    x = random_matrix(0, 60, 4)
    x[0, 0] = np.nan
    bad = np.random.default_rng(1).exponential(size=(60, 4)) ** 3 * [1, 2, 8, 40]
    good, bad, flat = (assumptions(matrix_frame(y)).set_index("check") for y in (x, bad, np.ones((5, 3))))
    assert (good["holds"].tolist(), bad["holds"].tolist()) == ([True] * 3, [False] * 3)
    assert (good["n"].tolist(), good["n_missing"].tolist()) == ([239, 59, 59], [1, 1, 1])
    for name, word in WORDS.items():
        assert word in bad.loc[name, "follows"] != good.loc[name, "follows"]
    assert flat["holds"].isna().all() and flat["follows"].str.startswith("could not be checked").all()
    assert np.isnan(check("sphericity", matrix_frame(random_matrix(1, 3, 5)))["p"])
    assert check("sphericity", matrix_frame(random_matrix(1, 5, 2)))["p"] == 1.0
    many = matrix_frame(random_matrix(3, 2000, 3))
    assert check("normal residuals", many)["test"] == "D'Agostino-Pearson"


# Benjamini and Hochberg (1995), section 4.1: fifteen tests of a thrombolysis trial.
TRIAL = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262]
TRIAL += [0.5719, 0.6528, 0.7590, 1.0]


def test_corrections_keep_order_and_missing_and_reproduce_the_paper():
    """Their section 4.1: four rejections at 5 %, where Bonferroni (and Holm) reject three."""
    found = stats.adjust(pd.DataFrame({"p": TRIAL}), method="benjamini_hochberg")
    assert (found["p_adjusted"] <= 0.05).sum() == 4
    assert (stats.holm(TRIAL) <= 0.05).sum() == 3
    frame = pd.DataFrame({"p": [0.04, np.nan, 0.01]}, index=[9, 8, 7])
    found = stats.adjust(frame)
    assert list(found.index) == [9, 8, 7] and "p_adjusted" not in frame
    assert found["p_adjusted"].tolist() == pytest.approx([0.04, np.nan, 0.02], nan_ok=True)
    assert found["family_size"].tolist() == [2, 2, 2]
    refused("outside", stats.adjust, pd.DataFrame({"p": [1.2]}), method="holm")
    unknown = "use one of holm, benjamini_hochberg"
    refused(unknown, stats.adjust, pd.DataFrame({"p": [0.1]}), method="bonferoni")


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=2, max_size=8))
def test_kendalls_w_is_the_tie_corrected_formula(values):
    """W = 12 S / (m^2 (k^3 - k) - m sum(t^3 - t)), Siegel and Castellan (1988), section 9.6."""
    ranks = sp.rankdata(values, axis=1)
    m, k = ranks.shape
    ties = sum((n**3 - n) for row in values for n in np.unique(row, return_counts=True)[1])
    bottom = m**2 * (k**3 - k) - m * ties
    row = stats.friedman(matrix_frame(values)).iloc[0]
    expected = 12 * ((ranks.sum(axis=0) - m * (k + 1) / 2) ** 2).sum() / bottom if bottom else np.nan
    assert row["kendall_w"] == pytest.approx(expected, nan_ok=True)
    assert not bottom or 0 <= row["kendall_w"] <= 1 + 1e-12


def test_leaderboard_orders_and_tells_apart():
    rng, names = np.random.default_rng(3), ["low", "mid1", "mid2", "top"]
    x = rng.normal(size=(60, 1)) + 0.3 * rng.normal(size=(60, 4)) + [0.0, 1.0, 1.0, 2.0]
    apart = {frozenset(pair) for pair in itertools.combinations(names, 2)} - {frozenset({"mid1", "mid2"})}
    board = leaderboard(matrix_frame(x, names), stats.Design(resamples=500), apart=apart)
    assert (board["system"][0], board["system"][3], board["rank"].tolist()) == ("top", "low", [1, 2, 3, 4])
    tied = board.set_index("system")["tied"]
    assert tied["mid1"] == tied["mid2"] and len(set(tied)) == 3
    assert (board["rank_low"] < board["rank_high"]).tolist() == [False, True, True, False]
    assert board["p_best"].sum() == pytest.approx(1) and board["p_best"][0] == 1
    design = stats.Design(resamples=500)
    turned = leaderboard(matrix_frame(-x, names), design, apart=apart, higher_is_better=False)
    assert turned[["system", "rank_high"]].equals(board[["system", "rank_high"]])
    equal = leaderboard(matrix_frame(np.ones((6, 3))), stats.Design(resamples=50), apart=set())
    assert (equal["rank"].tolist(), equal["tied"].tolist()) == ([2, 2, 2], ["a", "a", "a"])
    assert equal["p_best"].tolist() == pytest.approx([1 / 3] * 3)


def test_intervals_of_ranks_and_of_rank_biserial_equal_a_plain_bootstrap():
    x = random_matrix(5, 25, 4, effect=0.1)
    board = leaderboard(matrix_frame(x), stats.Design(resamples=4000), apart=set()).set_index("system")
    rng = np.random.default_rng(0)
    drawn = np.array([sp.rankdata(-x[rng.integers(0, 25, 25)].mean(axis=0)) for _ in range(4000)])
    for j in range(4):
        assert board.loc[f"s{j}", "p_best"] == pytest.approx((drawn[:, j] == 1).mean(), abs=0.04)
        low, high = np.quantile(drawn[:, j], [0.025, 0.975], method="inverted_cdf")
        assert abs(board.loc[f"s{j}", "rank_low"] - low) <= 1
        assert abs(board.loc[f"s{j}", "rank_high"] - high) <= 1
    gaps = np.round(np.random.default_rng(1).normal(0.3, 1, 60), 1)
    frame = matrix_frame(np.column_stack([gaps, np.zeros(60)]))
    row = rank_biserial(frame, stats.Design(resamples=4000)).iloc[0]
    rng, draws = np.random.default_rng(2), []
    for _ in range(2000):
        d = rng.choice(gaps, 60)
        draws.append((np.sign(d) * sp.rankdata(np.abs(d))).sum() / (60 * 61 / 2))
    assert (row["low"], row["high"]) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])), abs=0.04)


def test_d_z_is_the_mean_in_deviations():
    x = random_matrix(2, 60, 2, effect=0.5)
    row = standardised(matrix_frame(x), stats.Design(resamples=500)).iloc[0]
    gaps = x[:, 0] - x[:, 1]
    assert row["estimate"] == pytest.approx(gaps.mean() / gaps.std(ddof=1))
    assert row["low"] < row["estimate"] < row["high"]
