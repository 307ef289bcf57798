"""Statistics against printed examples and other implementations."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
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
from tests.helpers.stats_examples import groups_frame, matrix_frame, paired_frame, random_matrix, ratings

PLANTS = groups_frame(examples.PLANT_GROWTH)
DEPRESSION = paired_frame(examples.DEPRESSION)
ZEA_MAYS = matrix_frame(np.column_stack([examples.ZEA_MAYS, np.zeros(15)]))
REMISSION = examples.remission_frame().assign(scenario=range(42))
PINGOUIN = matrix_frame([[2.2, 1.1, 8.2], [3.1, 2.5, 4.5], [4.3, 4.1, 3.4], [4.1, 5.2, 6.2], [7.2, 6.4, 7.2]])
OBSERVERS = ratings(examples.KRIPPENDORFF)
BINARY = ratings([[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]])
JUDGES = ratings(examples.SHROUT_FLEISS.T)
RATERS = Design(system="rater", scenario="item", resamples=50)


def one_check(name, frame):
    checks = assumptions(frame)
    return checks[checks["check"] == name]


def levene():
    return one_check("equal variances", PLANTS.assign(scenario=PLANTS.groupby("system").cumcount()))


def alpha(level, frame=OBSERVERS):
    return stats.krippendorff_alpha(frame, RATERS, level=level)


def tukey(row):
    return tukey_hsd(PLANTS).iloc[[row]]


def remission(week):
    curve = kaplan_meier(REMISSION)
    return curve[(curve["system"] == "6-MP") & (curve["time"] == week)]


TABLES = {
    "anova": partial(one_way_anova, PLANTS),
    "welch": partial(welch_anova, PLANTS),
    "tukey_first": partial(tukey, 0),
    "tukey_second": partial(tukey, 1),
    "tukey_third": partial(tukey, 2),
    "levene": levene,
    "sphericity": partial(one_check, "sphericity", PINGOUIN),
    "epsilon": partial(rm_anova, PINGOUIN),
    "rounding_times": partial(friedman, matrix_frame(examples.ROUNDING_TIMES)),
    "sleep": partial(mean_tests, paired_frame(examples.SLEEP)),
    "depression": partial(wilcoxon_pairs, DEPRESSION),
    "depression_effect": partial(rank_biserial, DEPRESSION, Design(resamples=200)),
    "zea_mays": partial(sign_flip_pairs, ZEA_MAYS, permutations=2**15),
    "zea_mays_drawn": partial(sign_flip_pairs, ZEA_MAYS, Design(seed=4), permutations=20_000),
    "alpha_nominal": partial(alpha, "nominal"),
    "alpha_ordinal": partial(alpha, "ordinal"),
    "alpha_interval": partial(alpha, "interval"),
    "alpha_binary": partial(alpha, "nominal", BINARY),
    "judges": partial(icc, JUDGES),
    "remission_week_7": partial(remission, 7),
    "remission_week_10": partial(remission, 10),
    "remission_week_23": partial(remission, 23),
    "remission_ratio": partial(hazard_ratios, REMISSION, Design(pairs=[("placebo", "6-MP")])),
}


@pytest.mark.parametrize(("source", "name", "digits", "printed"), table(__file__, "printed"))
def test_printed_examples(source, name, digits, printed):
    row = TABLES[name]().iloc[0]
    assert row[list(printed)].to_dict() == pytest.approx(printed, abs=digits)


WIDE = random_matrix(25, 25, 5)
TWO = random_matrix(3, 30, 2, effect=0.1)
UNEQUAL = {name: np.random.default_rng(n).normal(size=n) for name, n in (("a", 4), ("b", 9), ("c", 30))}


def test_one_way_anova_is_scipys():
    theirs = sp.f_oneway(*UNEQUAL.values())
    row = one_way_anova(groups_frame(UNEQUAL)).iloc[0]
    assert row["statistic"] == pytest.approx(theirs.statistic, rel=1e-12)
    assert row["p"] == pytest.approx(theirs.pvalue, rel=1e-12)


def test_welch_anova_is_scipys():
    theirs = sp.f_oneway(*UNEQUAL.values(), equal_var=False)
    assert welch_anova(groups_frame(UNEQUAL))["p"][0] == pytest.approx(theirs.pvalue, rel=1e-10)


def test_repeated_measures_anova_is_that_of_statsmodels_and_for_two_systems_a_t_test():
    frame = matrix_frame(WIDE)
    theirs = AnovaRM(frame, "value", "scenario", within=["system"]).fit().anova_table.iloc[0]
    row = rm_anova(frame).iloc[0]
    assert row["statistic"] == pytest.approx(theirs["F Value"], rel=1e-9)
    assert row["p"] == pytest.approx(theirs["Pr > F"], rel=1e-9)
    assert row["df1"] == theirs["Num DF"]
    assert row["df2"] == theirs["Den DF"]
    t_test = sp.ttest_rel(*TWO.T)
    assert rm_anova(matrix_frame(TWO))["p_gg"][0] == pytest.approx(t_test.pvalue, rel=1e-10)


def test_friedmans_test_is_scipys():
    theirs = sp.friedmanchisquare(*WIDE.T)
    row = friedman(matrix_frame(WIDE)).iloc[0]
    assert row["statistic"] == pytest.approx(theirs.statistic, rel=1e-12)
    assert row["p"] == pytest.approx(theirs.pvalue, rel=1e-12)


def test_normality_is_tested_of_what_scenarios_and_systems_leave():
    residuals = WIDE - WIDE.mean(axis=0) - WIDE.mean(axis=1, keepdims=True) + WIDE.mean()
    theirs = sp.shapiro(residuals.ravel())
    row = one_check("normal residuals", matrix_frame(WIDE)).iloc[0]
    assert row["statistic"] == pytest.approx(theirs.statistic, rel=1e-9)
    assert row["p"] == pytest.approx(theirs.pvalue, rel=1e-9)


def test_wilcoxon_with_many_ties_is_scipys():
    lumpy = np.round(np.random.default_rng(0).normal(0.4, 1, 200))
    theirs = sp.wilcoxon(lumpy, zero_method="pratt")
    beside_zero = matrix_frame(np.column_stack([lumpy, np.zeros(200)]))
    assert wilcoxon_pairs(beside_zero)["p"][0] == pytest.approx(theirs.pvalue, rel=1e-12)


def test_tests_of_means_without_a_range_are_t_tests():
    row = mean_tests(matrix_frame(TWO), margin=0.5).iloc[0]
    assert row["p"] == pytest.approx(sp.ttest_rel(*TWO.T).pvalue, rel=1e-10)
    equivalence = ttost_paired(*TWO.T, -0.5, 0.5)[0]
    assert row["p_equivalent"] == pytest.approx(equivalence, rel=1e-10)


@pytest.mark.parametrize(("method", "name"), [("holm", "holm"), ("benjamini_hochberg", "fdr_bh")])
def test_corrections_equal_statsmodels_to_the_last_bit(method, name):
    p = np.random.default_rng(5).random(40)
    adjusted = stats.adjust(pd.DataFrame({"p": p}), method=method)["p_adjusted"]
    assert adjusted.tolist() == multipletests(p, method=name)[1].tolist()


def test_holm_of_a_plain_list():
    assert stats.holm([0.03, 0.01, 0.02, 0.04]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


def skewed_mean(rng):
    """Skewed values of 40 scenarios with 5 turns; the mean of a lognormal with variance 0.25 (1 + 0.25)."""
    noise = rng.normal(size=(40, 1)) + rng.normal(size=(40, 5)) * 0.5
    frame = matrix_frame(np.exp(0.5 * noise)).assign(system="a")
    return stats.cluster_bootstrap, frame, np.exp(0.5 * 0.25 * 1.25)


def paired_difference(rng):
    """30 paired scenarios, a tenth of the values missing at random."""
    x = rng.normal(size=(30, 1)) * 2 + rng.normal(size=(30, 2)) + [0.4, 0.0]
    x[rng.random((30, 2)) < 0.1] = np.nan
    return stats.cluster_bootstrap_differences, matrix_frame(x), 0.4


def agreement_of_three(rng):
    """60 items by 3 raters of equal variances: 0.5."""
    frame = ratings(rng.normal(size=(1, 60)) + rng.normal(size=(3, 60)))
    tidy = frame.rename(columns={"rater": "system", "item": "scenario"})
    return partial(stats.krippendorff_alpha, level="interval"), tidy, 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sample", "runs"), [(skewed_mean, 400), (paired_difference, 400), (agreement_of_three, 200)]
)
def test_intervals_cover_as_they_say(sample, runs):
    """90 % intervals of data sets drawn anew."""
    rng = np.random.default_rng(5)
    design = Design(resamples=400, confidence=0.9)
    covered = 0
    for _ in range(runs):
        estimate, frame, truth = sample(rng)
        row = estimate(frame, design).iloc[0]
        covered += row["low"] <= truth <= row["high"]
    assert covered / runs == pytest.approx(0.9, abs=3 * (0.09 / runs) ** 0.5 + 0.01)
