"""Paired tests against R, scipy, statsmodels, printed examples and full enumeration."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx
from scipy import stats as sp

from crs_lib import stats
from crs_lib.stats import Design
from crs_lib.stats.effects import leaderboard, rank_biserial, standardised
from crs_lib.stats.groups import assumptions, one_way_anova, tukey_hsd, welch_anova
from crs_lib.stats.paired import rm_anova
from tests.helpers import refused, table
from tests.helpers.stats_examples import (
    PLANT_GROWTH,
    gaps_frame,
    groups_frame,
    matrix_frame,
    paired_frame,
    random_matrix,
)

PLANTS = groups_frame(PLANT_GROWTH)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=2, max_size=8))
def test_wilcoxon_pratt_equals_full_enumeration(gaps):
    """Up to 13 scenarios, also with ties and zeros: every sign pattern."""
    row = stats.wilcoxon_pairs(gaps_frame(gaps)).iloc[0]
    heights = np.abs(gaps)
    ranks = sp.rankdata(heights) * (heights != 0)
    patterns = itertools.product((-1, 1), repeat=len(gaps))
    sums = np.abs(np.array([*patterns]) @ ranks)
    observed = abs(row["w_plus"] - row["w_minus"])
    assert row["p"] == approx(np.mean(sums >= observed - 1e-9), abs=1e-12)
    assert row["n_zero"] == gaps.count(0)


def test_differences_that_only_rounding_tells_apart_tie():
    assert 0.3 - 0.1 != 0.6 - 0.4
    frame = paired_frame({"a": [0.3, 0.6, 0.5], "b": [0.1, 0.4, 0.7]})
    row = stats.wilcoxon_pairs(frame).iloc[0]
    assert row[["w_plus", "w_minus"]].tolist() == [4, 2]


def test_differences_that_do_not_vary_prove_nothing():
    frame = matrix_frame(np.ones((5, 2)))
    assert stats.wilcoxon_pairs(frame)["p"][0] == 1
    assert stats.sign_flip_pairs(frame)["p"][0] == 1
    assert np.isnan(rm_anova(frame)["p"][0])
    assert np.isnan(stats.friedman(frame)["p"][0])


def test_sign_flips_are_seeded_and_pairs_do_not_disturb_each_other():
    frame = matrix_frame(random_matrix(2, 40, 4))
    whole = stats.sign_flip_pairs(frame, Design(seed=3), permutations=500)
    again = stats.sign_flip_pairs(frame, Design(seed=3), permutations=500)
    other = stats.sign_flip_pairs(frame, Design(seed=4), permutations=500)
    pair = Design(seed=3, pairs=[("s1", "s3")])
    alone = stats.sign_flip_pairs(frame, pair, permutations=500)
    assert whole.equals(again)
    assert whole["p"].ne(other["p"]).any()
    p = whole.set_index(["a", "b"])["p"]
    assert alone["p"][0] == p["s1", "s3"]


HEIGHT = st.integers(0, 5)
VALUES = st.lists(st.tuples(HEIGHT, HEIGHT), min_size=3, max_size=8)
FORTH = Design(pairs=[("s0", "s1")])
BACK = Design(pairs=[("s1", "s0")])


@pytest.mark.parametrize(
    "test, forth, back",
    [
        (stats.mean_tests, "diff", "diff"),
        (stats.sign_flip_pairs, "diff", "diff"),
        (stats.wilcoxon_pairs, "w_plus", "w_minus"),
    ],
)
@settings(max_examples=20, deadline=None)
@given(VALUES)
def test_swapping_the_systems_turns_signs_and_keeps_p(test, forth, back, values):
    frame = matrix_frame(values)
    ours = test(frame, FORTH).iloc[0]
    turned = test(frame, BACK).iloc[0]
    assert turned["p"] == approx(ours["p"], nan_ok=True)
    assert abs(turned[back]) == approx(abs(ours[forth]))
    assert back != forth or turned[back] == approx(-ours[forth])


def test_pairs_use_all_scenarios_they_share_and_count_the_others():
    x = random_matrix(1, 10, 3)
    x[0, 0] = x[1, 1] = x[2, 1] = np.nan
    frame = matrix_frame(x)
    pairs = stats.wilcoxon_pairs(frame)
    assert pairs["n"].tolist() == [7, 9, 8]
    assert pairs["n_missing"].tolist() == [3, 1, 2]
    row = rm_anova(frame).iloc[0]
    assert row[["n", "n_missing"]].tolist() == [7, 3]
    flips = stats.sign_flip_pairs(frame)
    assert flips["n"].tolist() == [7, 9, 8]
    of_complete = stats.sign_flip_pairs(frame.dropna())
    assert of_complete["p"].equals(flips["p"])


def test_missing_values_are_counted_and_left_out():
    holed = PLANTS.copy()
    holed.loc[[0, 12], "value"] = np.nan
    row = one_way_anova(holed).iloc[0]
    assert row[["n", "n_missing"]].tolist() == [28, 2]
    samples = [own.dropna() for _, own in holed.groupby("system")["value"]]
    theirs = sp.f_oneway(*samples)
    assert row["statistic"] == approx(theirs.statistic)


def test_no_variation_is_undefined():
    flat = groups_frame({"a": [1.0, 1.0, 1.0], "b": [1.0, 1.0]})
    assert np.isnan(one_way_anova(flat)["p"][0])
    apart = groups_frame({"a": [1.0, 1.0, 1.0], "b": [2.0, 2.0]})
    assert one_way_anova(apart)["p"][0] == 0
    assert np.isnan(welch_anova(apart)["p"][0])
    values = [1.0, 2.0, 3.0]
    equal = groups_frame({"a": values, "b": values})
    assert one_way_anova(equal)["omega_squared"][0] == 0


def test_categories_keep_their_order():
    system = pd.Categorical(PLANTS["system"], categories=["trt2", "ctrl", "trt1"])
    pairs = tukey_hsd(PLANTS.assign(system=system))
    assert pairs["a"].tolist() == ["trt2", "trt2", "ctrl"]


def test_bad_pairs_and_cells_are_refused():
    frame = matrix_frame(random_matrix(1, 4, 3))
    holed = frame.assign(value=frame["value"].where(frame["system"] != "s1"))
    stranger = Design(pairs=[("s0", "tracker")])
    refused(r"expected two different systems of \['s0', 's1', 's2'\]", stats.wilcoxon_pairs, frame, stranger)
    refused("more than one row for system='s0', scenario=0", rm_anova, pd.concat([frame, frame]))
    refused(r"0 of 4 scenarios are complete.*'s1' lacks most", rm_anova, holed)
    refused("'s0' and 's1' share 0 scenarios", stats.mean_tests, holed)
    refused("1 systems", stats.friedman, frame[frame["system"] == "s0"])
    refused("seed -1", stats.sign_flip_pairs, frame, Design(seed=-1))


def test_bad_samples_are_refused():
    refused("1 systems", one_way_anova, groups_frame({"a": [1.0, 2.0]}))
    refused("'b' has 1 values", one_way_anova, groups_frame({"a": [1.0, 2.0], "b": [1.0]}))
    renamed = PLANTS.rename(columns={"value": "score"})
    refused("no column 'value'; the frame has 'system', 'score'", one_way_anova, renamed)
    refused("holds no numbers", one_way_anova, PLANTS.assign(value="high"))
    refused("infinite", one_way_anova, PLANTS.assign(value=np.inf))
    refused("missing labels", one_way_anova, PLANTS.assign(system=None))


def checks(x):
    return assumptions(matrix_frame(x)).set_index("check")


def test_mauchly_p_is_the_simulated_one_in_a_small_sample():
    """Null W of 40000 samples, 10 by 6: the second-order term is needed (first order says .039, second .048)."""
    rng = np.random.default_rng(9)
    walks = np.cumsum(rng.normal(size=(10, 6)), axis=1)
    row = checks(walks).loc["sphericity"]
    samples = rng.normal(size=(40_000, 10, 5))
    samples -= samples.mean(axis=1, keepdims=True)
    covariance = np.swapaxes(samples, 1, 2) @ samples / 9
    mean_variance = np.trace(covariance, axis1=1, axis2=2) / 5
    null = np.linalg.det(covariance) / mean_variance**5
    simulated = (null <= row["statistic"]).mean()
    assert 0.001 < simulated < 0.5
    error = (simulated * (1 - simulated) / 40_000) ** 0.5
    assert row["p"] == approx(simulated, abs=3.5 * error + 0.001)


@pytest.mark.parametrize("name, word", table(__file__, "what_to_read"))
def test_what_to_read_follows_from_the_numbers(name, word):
    good = checks(random_matrix(0, 60, 4)).loc[name]
    assert good["holds"]
    skewed = np.random.default_rng(1).exponential(size=(60, 4)) ** 3
    bad = checks(skewed * [1, 2, 8, 40]).loc[name]
    assert not bad["holds"]
    assert word in bad["follows"]
    assert bad["follows"] != good["follows"]


def test_checks_count_missing_values_and_say_where_none_could_be_made():
    x = random_matrix(0, 60, 4)
    x[0, 0] = np.nan
    holed = checks(x)
    assert holed["n"].tolist() == [239, 59, 59]
    assert holed["n_missing"].tolist() == [1, 1, 1]
    flat = checks(np.ones((5, 3)))
    assert flat["holds"].isna().all()
    assert flat["follows"].str.startswith("could not be checked").all()
    few = checks(random_matrix(1, 3, 5))
    assert np.isnan(few["p"]["sphericity"])
    of_two = checks(random_matrix(1, 5, 2))
    assert of_two["p"]["sphericity"] == 1
    many = checks(random_matrix(3, 2000, 3))
    assert many["test"]["normal residuals"] == "D'Agostino-Pearson"


def test_corrections_reproduce_the_paper():
    """Benjamini and Hochberg (1995), section 4.1: four rejections at 5 %, where Bonferroni (and Holm) reject three."""
    trial = table(__file__, "p_of_trial")
    adjusted = stats.adjust(pd.DataFrame({"p": trial}), method="benjamini_hochberg")
    assert (adjusted["p_adjusted"] <= 0.05).sum() == 4
    assert (stats.holm(trial) <= 0.05).sum() == 3


def test_corrections_keep_order_and_missing():
    p = [0.04, np.nan, 0.01]
    frame = pd.DataFrame({"p": p}, index=[9, 8, 7])
    adjusted = stats.adjust(frame)
    assert adjusted.index.tolist() == [9, 8, 7]
    assert "p_adjusted" not in frame
    assert adjusted["p_adjusted"].tolist() == approx([0.04, np.nan, 0.02], nan_ok=True)
    assert adjusted["family_size"].tolist() == [2, 2, 2]
    refused("outside", stats.adjust, pd.DataFrame({"p": [1.2]}))
    refused("use one of holm, benjamini_hochberg", stats.adjust, frame, method="bonferoni")


RATING = st.integers(0, 4)
RATINGS = st.lists(st.tuples(RATING, RATING, RATING), min_size=2, max_size=8)


@settings(max_examples=20, deadline=None)
@given(RATINGS)
def test_kendalls_w_is_the_tie_corrected_formula(values):
    """W = 12 S / (m^2 (k^3 - k) - m sum(t^3 - t)), Siegel and Castellan (1988), section 9.6."""
    ranks = sp.rankdata(values, axis=1)
    m, k = ranks.shape
    ties = 0
    for row in values:
        counts = np.unique(row, return_counts=True)[1]
        ties += (counts**3 - counts).sum()
    bottom = m**2 * (k**3 - k) - m * ties
    w = stats.friedman(matrix_frame(values))["kendall_w"][0]
    if not bottom:
        assert np.isnan(w)
        return
    squares = (ranks.sum(axis=0) - m * (k + 1) / 2) ** 2
    assert w == approx(12 * squares.sum() / bottom)
    assert 0 <= w <= 1 + 1e-12


NAMES = ["low", "mid1", "mid2", "top"]
DRAWS = Design(resamples=500)
MANY_DRAWS = Design(resamples=4000)


@pytest.fixture(scope="module")
def heights():
    """60 scenarios of four systems, two of them of one height."""
    rng = np.random.default_rng(3)
    of_scenarios = rng.normal(size=(60, 1))
    noise = 0.3 * rng.normal(size=(60, 4))
    return of_scenarios + noise + [0.0, 1.0, 1.0, 2.0]


@pytest.fixture(scope="module")
def apart():
    pairs = set(map(frozenset, itertools.combinations(NAMES, 2)))
    pairs.remove(frozenset({"mid1", "mid2"}))
    return pairs


def test_leaderboard_orders_and_tells_apart(heights, apart):
    board = leaderboard(matrix_frame(heights, NAMES), DRAWS, apart=apart)
    assert board["rank"].tolist() == [1, 2, 3, 4]
    assert board["system"][0] == "top"
    assert board["system"][3] == "low"
    tied = board.set_index("system")["tied"]
    assert tied["mid1"] == tied["mid2"]
    assert tied.nunique() == 3
    assert (board["rank_low"] < board["rank_high"]).tolist() == [False, True, True, False]
    assert board["p_best"].tolist() == [1, 0, 0, 0]


def test_lower_may_be_better(heights, apart):
    frame = matrix_frame(heights, NAMES)
    board = leaderboard(frame, DRAWS, apart=apart)
    turned = leaderboard(matrix_frame(-heights, NAMES), DRAWS, apart=apart, higher_is_better=False)
    assert turned[["system", "rank_high"]].equals(board[["system", "rank_high"]])


def test_equal_systems_share_rank_and_letter():
    flat = matrix_frame(np.ones((6, 3)))
    board = leaderboard(flat, DRAWS, apart=set())
    assert board["rank"].tolist() == [2, 2, 2]
    assert board["tied"].tolist() == ["a", "a", "a"]
    assert board["p_best"].tolist() == approx([1 / 3] * 3)


def test_intervals_of_ranks_equal_a_plain_bootstrap():
    x = random_matrix(5, 25, 4, effect=0.1)
    ranking = leaderboard(matrix_frame(x), MANY_DRAWS, apart=set())
    board = ranking.set_index("system").sort_index()
    rows = np.random.default_rng(0).integers(0, 25, (4000, 25))
    ranks = sp.rankdata(-x[rows].mean(axis=1), axis=1)
    best = (ranks == 1).mean(axis=0)
    assert board["p_best"].tolist() == approx(best, abs=0.04)
    low, high = np.quantile(ranks, [0.025, 0.975], axis=0, method="inverted_cdf")
    assert board["rank_low"].tolist() == approx(low, abs=1)
    assert board["rank_high"].tolist() == approx(high, abs=1)


def test_the_interval_of_rank_biserial_equals_a_plain_bootstrap():
    gaps = np.random.default_rng(1).normal(0.3, 1, 60).round(1)
    row = rank_biserial(gaps_frame(gaps), MANY_DRAWS).iloc[0]
    draws = np.random.default_rng(2).choice(gaps, (2000, 60))
    ranks = sp.rankdata(np.abs(draws), axis=1)
    won = (np.sign(draws) * ranks).sum(axis=1)
    low, high = np.quantile(won / (60 * 61 / 2), [0.025, 0.975])
    assert row["low"] == approx(low, abs=0.04)
    assert row["high"] == approx(high, abs=0.04)


def test_d_z_is_the_mean_in_deviations():
    x = random_matrix(2, 60, 2, effect=0.5)
    row = standardised(matrix_frame(x), DRAWS).iloc[0]
    gaps = x[:, 0] - x[:, 1]
    assert row["estimate"] == approx(gaps.mean() / gaps.std(ddof=1))
    assert row["low"] < row["estimate"] < row["high"]
