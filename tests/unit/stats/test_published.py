"""Statistics against printed examples and other implementations."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from pytest import approx
from scipy import stats as sp
from statsmodels.stats.anova import AnovaRM
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from crs_lib import stats
from crs_lib.stats import Design, friedman, icc, mean_tests, sign_flip_pairs, wilcoxon_pairs
from crs_lib.stats.effects import rank_biserial
from crs_lib.stats.groups import assumptions, one_way_anova, tukey_hsd, welch_anova
from crs_lib.stats.paired import rm_anova
from crs_lib.stats.survival import hazard_ratios, kaplan_meier
from tests.helpers import stats_examples as examples
from tests.helpers import table
from tests.helpers.stats_examples import (
    gaps_frame,
    groups_frame,
    matrix_frame,
    paired_frame,
    random_matrix,
    ratings,
)

PLANTS = groups_frame(examples.PLANT_GROWTH)
DEPRESSION = paired_frame(examples.DEPRESSION)
REMISSION = examples.remission_frame().assign(scenario=range(42))
PINGOUIN = matrix_frame(table(__file__, "pingouin"))
OBSERVERS = ratings(examples.KRIPPENDORFF)
BINARY = ratings(table(__file__, "binary"))
JUDGES = ratings(examples.SHROUT_FLEISS.T)
RATERS = Design(system="rater", scenario="item", resamples=50)
ARMS = Design(pairs=[("placebo", "6-MP")])


def one_check(name, frame):
    checks = assumptions(frame)
    return checks[checks["check"] == name]


def levene():
    number = PLANTS.groupby("system").cumcount()
    return one_check("equal variances", PLANTS.assign(scenario=number))


def zea_mays(seed, permutations):
    return sign_flip_pairs(gaps_frame(examples.ZEA_MAYS), Design(seed=seed), permutations=permutations)


def alpha(level):
    return stats.krippendorff_alpha(OBSERVERS, RATERS, level=level)


def tukey(row):
    return tukey_hsd(PLANTS).iloc[[row]]


def remission(week):
    curves = kaplan_meier(REMISSION).set_index(["system", "time"])
    return curves.loc[[("6-MP", week)]]


TABLES = {
    "anova": partial(one_way_anova, PLANTS),
    "welch": partial(welch_anova, PLANTS),
    "tukey": tukey,
    "levene": levene,
    "sphericity": partial(one_check, "sphericity", PINGOUIN),
    "epsilon": partial(rm_anova, PINGOUIN),
    "rounding_times": partial(friedman, matrix_frame(examples.ROUNDING_TIMES)),
    "sleep": partial(mean_tests, paired_frame(examples.SLEEP)),
    "depression": partial(wilcoxon_pairs, DEPRESSION),
    "depression_effect": partial(rank_biserial, DEPRESSION, Design(resamples=200)),
    "zea_mays": zea_mays,
    "alpha": alpha,
    "alpha_binary": partial(stats.krippendorff_alpha, BINARY, RATERS, level="nominal"),
    "judges": partial(icc, JUDGES),
    "remission": remission,
    "remission_ratio": partial(hazard_ratios, REMISSION, ARMS),
}


@pytest.mark.parametrize("source, name, arguments, digits, printed", table(__file__, "printed"))
def test_printed_examples(source, name, arguments, digits, printed):
    row = TABLES[name](*arguments).iloc[0]
    assert row[list(printed)].to_dict() == approx(printed, abs=digits)


def normal(n):
    return np.random.default_rng(n).normal(size=n)


WIDE = random_matrix(25, 25, 5)
TWO = random_matrix(3, 30, 2, effect=0.1)
UNEQUAL = {"a": normal(4), "b": normal(9), "c": normal(30)}


def agree(row, theirs, rel):
    """Statistic and p of a row are those of a test of scipy."""
    assert row["statistic"] == approx(theirs.statistic, rel=rel)
    assert row["p"] == approx(theirs.pvalue, rel=rel)


def test_one_way_anova_is_scipys():
    theirs = sp.f_oneway(*UNEQUAL.values())
    ours = one_way_anova(groups_frame(UNEQUAL))
    agree(ours.iloc[0], theirs, rel=1e-12)


def test_welch_anova_is_scipys():
    theirs = sp.f_oneway(*UNEQUAL.values(), equal_var=False)
    ours = welch_anova(groups_frame(UNEQUAL))
    assert ours["p"][0] == approx(theirs.pvalue, rel=1e-10)


def test_repeated_measures_anova_is_that_of_statsmodels_and_for_two_systems_a_t_test():
    frame = matrix_frame(WIDE)
    fit = AnovaRM(frame, "value", "scenario", within=["system"]).fit()
    theirs = fit.anova_table.iloc[0]
    row = rm_anova(frame).iloc[0]
    assert row["statistic"] == approx(theirs["F Value"], rel=1e-9)
    assert row["p"] == approx(theirs["Pr > F"], rel=1e-9)
    assert row["df1"] == theirs["Num DF"]
    assert row["df2"] == theirs["Den DF"]
    t_test = sp.ttest_rel(*TWO.T)
    of_two = rm_anova(matrix_frame(TWO))
    assert of_two["p_gg"][0] == approx(t_test.pvalue, rel=1e-10)


def test_friedmans_test_is_scipys():
    theirs = sp.friedmanchisquare(*WIDE.T)
    ours = friedman(matrix_frame(WIDE))
    agree(ours.iloc[0], theirs, rel=1e-12)


def test_normality_is_tested_of_what_scenarios_and_systems_leave():
    by_scenario = WIDE - WIDE.mean(axis=1, keepdims=True)
    residuals = by_scenario - by_scenario.mean(axis=0)
    theirs = sp.shapiro(residuals.ravel())
    ours = one_check("normal residuals", matrix_frame(WIDE))
    agree(ours.iloc[0], theirs, rel=1e-9)


def test_wilcoxon_with_many_ties_is_scipys():
    rng = np.random.default_rng(0)
    lumpy = np.round(rng.normal(0.4, 1, 200))
    theirs = sp.wilcoxon(lumpy, zero_method="pratt")
    ours = wilcoxon_pairs(gaps_frame(lumpy))
    assert ours["p"][0] == approx(theirs.pvalue, rel=1e-12)


def test_tests_of_means_without_a_range_are_t_tests():
    row = mean_tests(matrix_frame(TWO), margin=0.5).iloc[0]
    t_test = sp.ttest_rel(*TWO.T)
    assert row["p"] == approx(t_test.pvalue, rel=1e-10)
    equivalence = ttost_paired(*TWO.T, -0.5, 0.5)[0]
    assert row["p_equivalent"] == approx(equivalence, rel=1e-10)


CORRECTIONS = {"holm": "holm", "benjamini_hochberg": "fdr_bh"}


@pytest.mark.parametrize("ours, theirs", CORRECTIONS.items())
def test_corrections_equal_statsmodels_to_the_last_bit(ours, theirs):
    p = np.random.default_rng(5).random(40)
    adjusted = stats.adjust(pd.DataFrame({"p": p}), method=ours)
    expected = multipletests(p, method=theirs)[1]
    assert adjusted["p_adjusted"].tolist() == expected.tolist()


def test_holm_of_a_plain_list():
    assert stats.holm([0.03, 0.01, 0.02, 0.04]) == approx([0.06, 0.04, 0.06, 0.06])


def skewed_mean(rng):
    """Skewed values of 40 scenarios with 5 turns; the mean of a lognormal with variance 0.25 (1 + 0.25)."""
    of_scenarios = rng.normal(size=(40, 1))
    of_turns = rng.normal(size=(40, 5)) * 0.5
    frame = matrix_frame(np.exp(0.5 * (of_scenarios + of_turns)))
    return stats.cluster_bootstrap, frame.assign(system="a"), np.exp(0.5 * 0.25 * 1.25)


def paired_difference(rng):
    """30 paired scenarios, a tenth of the values missing at random."""
    of_scenarios = rng.normal(size=(30, 1)) * 2
    x = of_scenarios + rng.normal(size=(30, 2)) + [0.4, 0.0]
    missing = rng.random((30, 2)) < 0.1
    x[missing] = np.nan
    return stats.cluster_bootstrap_differences, matrix_frame(x), 0.4


def agreement_of_three(rng):
    """60 items by 3 raters of equal variances: 0.5."""
    of_items = rng.normal(size=(1, 60))
    of_raters = rng.normal(size=(3, 60))
    frame = ratings(of_items + of_raters)
    renamed = frame.rename(columns={"rater": "system", "item": "scenario"})
    return partial(stats.krippendorff_alpha, level="interval"), renamed, 0.5


RUNS = {skewed_mean: 400, paired_difference: 400, agreement_of_three: 200}


@pytest.mark.slow
@pytest.mark.parametrize("sample, runs", RUNS.items())
def test_intervals_cover_as_they_say(sample, runs):
    """90 % intervals of data sets drawn anew."""
    rng = np.random.default_rng(5)
    design = Design(resamples=400, confidence=0.9)
    covered = 0
    for _ in range(runs):
        estimate, frame, truth = sample(rng)
        row = estimate(frame, design).iloc[0]
        covered += row["low"] <= truth <= row["high"]
    assert covered / runs == approx(0.9, abs=3 * (0.09 / runs) ** 0.5 + 0.01)
