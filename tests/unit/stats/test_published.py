"""Statistics against printed examples and other implementations: a row each, with its source and digits."""

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
from tests.helpers import stats_examples as given
from tests.helpers.stats_examples import groups_frame, matrix_frame, paired_frame, random_matrix, ratings

PLANTS = groups_frame(given.PLANT_GROWTH)
SLEEP, DEPRESSION = map(paired_frame, (given.SLEEP, given.DEPRESSION))
ZEA_MAYS = paired_frame({"a": np.array(given.ZEA_MAYS, float), "b": np.zeros(15)})
REMISSION = given.remission_frame().assign(scenario=range(42))
FIVE = matrix_frame([[2.2, 1.1, 8.2], [3.1, 2.5, 4.5], [4.3, 4.1, 3.4], [4.1, 5.2, 6.2], [7.2, 6.4, 7.2]])
BINARY = ratings([[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]])
RATERS = Design(system="rater", scenario="item", resamples=50)
FEW = Design(resamples=200)


def check(name, frame):
    found = assumptions(frame)
    return found[found["check"] == name]


def alpha(frame, level):
    return stats.krippendorff_alpha(frame, RATERS, level=level)


def arm(time):
    curve = kaplan_meier(REMISSION)
    return curve[(curve["system"] == "6-MP") & (curve["time"] == time)]


def pair(k):
    return tukey_hsd(PLANTS).iloc[[k]]


PRINTED = [
    ("R: anova(lm(weight ~ group, PlantGrowth))", lambda: one_way_anova(PLANTS),
     {"statistic": 4.8461, "p": 0.01591, "df1": 2, "df2": 27, "n": 30}, 5e-5),
    ("(3.76634 - 2 · 0.388596) / (14.25843 + 0.388596)", lambda: one_way_anova(PLANTS), {"omega_squared": 0.20408}, 1e-5),
    ("R: oneway.test(weight ~ group, PlantGrowth)", lambda: welch_anova(PLANTS),
     {"statistic": 5.181, "df2": 17.128, "p": 0.01739}, 5e-4),
    ("R: TukeyHSD(aov(weight ~ group, PlantGrowth))", lambda: pair(0),
     {"diff": 0.371, "low": -0.3202161, "high": 1.0622161, "p": 0.3908711}, 1e-6),
    ("the same", lambda: pair(1), {"diff": -0.494, "low": -1.1852161, "high": 0.1972161, "p": 0.1979960}, 1e-6),
    ("the same", lambda: pair(2), {"diff": -0.865, "low": -1.5562161, "high": -0.1737839, "p": 0.0120064}, 1e-6),
    ("R: car::leveneTest(weight ~ group, PlantGrowth)",
     lambda: check("equal variances", PLANTS.assign(scenario=PLANTS.groupby("system").cumcount())),
     {"statistic": 1.1192, "p": 0.3412}, 5e-5),
    ("pingouin's documentation of sphericity()", lambda: check("sphericity", FIVE), {"p": 0.09649016283209666}, 1e-12),
    ("the same", lambda: check("sphericity", FIVE), {"statistic": 0.21}, 5e-4),
    ("pingouin's documentation of epsilon()", lambda: rm_anova(FIVE), {"epsilon_gg": 0.5587754577585018}, 1e-12),
    ("R: friedman.test(RoundingTimes)", lambda: friedman(matrix_frame(given.ROUNDING_TIMES)), {"statistic": 11.143}, 5e-4),
    ("the same", lambda: friedman(matrix_frame(given.ROUNDING_TIMES)), {"p": 0.003805}, 5e-7),
    ("R: t.test(extra ~ group, sleep, paired)", lambda: stats.mean_tests(SLEEP), {"p": 0.002833}, 5e-5),
    ("the same", lambda: stats.mean_tests(SLEEP), {"diff": -1.58, "low": -2.4598858, "high": -0.7001142}, 1e-7),
    ("Hollander & Wolfe (1973), p. 29: V = 40, one-sided .01953", lambda: wilcoxon_pairs(DEPRESSION),
     {"w_plus": 40, "w_minus": 5, "p": 0.0390625}, 1e-12),
    ("Fisher (1935), section 21: 863 of 32768 patterns reach 314", lambda: sign_flip_pairs(ZEA_MAYS, permutations=2**15),
     {"exact": True, "p": 1726 / 32768}, 1e-15),
    ("the same, drawn", lambda: sign_flip_pairs(ZEA_MAYS, Design(seed=4), permutations=20_000),
     {"exact": False, "p": 1726 / 32768}, 4 * (0.0527 * 0.947 / 20_000) ** 0.5),
    ("R's effectsize, rank_biserial(depression): (40 - 5) / 45", lambda: rank_biserial(DEPRESSION, FEW), {"estimate": 35 / 45}, 1e-12),
    ("Krippendorff (2011), C", lambda: alpha(ratings(given.KRIPPENDORFF), "nominal"),
     {"alpha": 0.743, "n_items": 11, "n_raters": 4, "n_values": 5, "n": 40, "n_missing": 8}, 5e-4),
    ("Krippendorff (2011), D", lambda: alpha(ratings(given.KRIPPENDORFF), "ordinal"), {"alpha": 0.815}, 5e-4),
    ("Krippendorff (2011), E", lambda: alpha(ratings(given.KRIPPENDORFF), "interval"), {"alpha": 0.849}, 5e-4),
    ("Krippendorff (2011), A", lambda: alpha(BINARY, "nominal"), {"alpha": 0.095}, 5e-4),
    ("Shrout & Fleiss (1979), table 4", lambda: icc(ratings(given.SHROUT_FLEISS.T)), {"icc": 0.62}, 5e-3),
    ("R's psych::ICC on the same", lambda: icc(ratings(given.SHROUT_FLEISS.T)), {"low": 0.071, "high": 0.927}, 1e-3),
    ("Kleinbaum & Klein (2012), table 2.1", lambda: arm(7), {"at_risk": 17, "survival": 0.807}, 5e-4),
    ("the same", lambda: arm(23), {"at_risk": 6, "survival": 0.448}, 5e-4),
    ("R: survfit(conf.type = 'log-log')", lambda: arm(10), {"survival": 0.753, "low": 0.503, "high": 0.889}, 1e-3),
    ("R: coxph(Surv(t, e) ~ arm), Efron's ties", lambda: hazard_ratios(REMISSION, Design(pairs=[("placebo", "6-MP")])),
     {"estimate": np.exp(1.5721)}, 3e-3),
]  # fmt: skip


@pytest.mark.parametrize(("source", "table", "printed", "within"), PRINTED)
def test_printed_examples(source, table, printed, within):
    row = table().iloc[0]
    assert {name: row[name] for name in printed} == pytest.approx(printed, abs=within)


def columns(x):
    return [x[:, j] for j in range(x.shape[1])]


WIDE = random_matrix(25, 25, 5)
TWO = random_matrix(3, 30, 2, effect=0.1)
LUMPY = np.round(np.random.default_rng(0).normal(0.4, 1, 200))
UNEQUAL = {name: np.random.default_rng(n).normal(size=n) for name, n in (("a", 4), ("b", 9), ("c", 30))}
PS = random_matrix(5, 40, 1).ravel() % 1
RESIDUALS = WIDE - WIDE.mean(0) - WIDE.mean(1, keepdims=True) + WIDE.mean()


def anova_rm():
    row = AnovaRM(matrix_frame(WIDE), "value", "scenario", within=["system"]).fit().anova_table.iloc[0]
    return row[["F Value", "Pr > F", "Num DF", "Den DF"]]


@pytest.mark.parametrize(("ours", "names", "theirs", "digits"), [
    (lambda: one_way_anova(groups_frame(UNEQUAL)), ["statistic", "p"], lambda: sp.f_oneway(*UNEQUAL.values()), 1e-12),
    (lambda: welch_anova(groups_frame(UNEQUAL)), ["p"], lambda: [sp.f_oneway(*UNEQUAL.values(), equal_var=False).pvalue], 1e-10),
    (lambda: rm_anova(matrix_frame(WIDE)), ["statistic", "p", "df1", "df2"], anova_rm, 1e-9),
    (lambda: rm_anova(matrix_frame(TWO)), ["p_gg"], lambda: [sp.ttest_rel(*columns(TWO)).pvalue], 1e-10),
    (lambda: friedman(matrix_frame(WIDE)), ["statistic", "p"], lambda: sp.friedmanchisquare(*columns(WIDE)), 1e-12),
    (lambda: check("normal residuals", matrix_frame(WIDE)), ["statistic", "p"], lambda: sp.shapiro(RESIDUALS.ravel()), 1e-9),
    (lambda: wilcoxon_pairs(matrix_frame(np.column_stack([LUMPY, 0 * LUMPY]))), ["p"],
     lambda: [sp.wilcoxon(LUMPY, zero_method="pratt").pvalue], 1e-12),
    (lambda: mean_tests(matrix_frame(TWO), margin=0.5), ["p_equivalent"], lambda: [ttost_paired(*columns(TWO), -0.5, 0.5)[0]], 1e-10),
    (lambda: mean_tests(matrix_frame(TWO)), ["p"], lambda: [sp.ttest_rel(*columns(TWO)).pvalue], 1e-10),
])  # fmt: skip
def test_other_implementations(ours, names, theirs, digits):
    assert ours()[names].iloc[0].tolist() == pytest.approx(list(theirs()), rel=digits)


def test_corrections_equal_statsmodels_to_the_last_bit():
    for method, name in (("holm", "holm"), ("benjamini_hochberg", "fdr_bh")):
        found = stats.adjust(pd.DataFrame({"p": PS}), method=method)["p_adjusted"]
        assert found.tolist() == multipletests(PS, method=name)[1].tolist()
    assert stats.holm([0.03, 0.01, 0.02, 0.04]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


def covered_mean(rng):
    """Skewed values of 40 scenarios with 5 turns; the mean of a lognormal with variance 0.25 (1 + 0.25)."""
    noise = rng.normal(size=(40, 1)) + rng.normal(size=(40, 5)) * 0.5
    frame = matrix_frame(np.exp(0.5 * noise)).assign(system="a")
    return stats.cluster_bootstrap, frame, np.exp(0.5 * 0.25 * 1.25)


def covered_difference(rng):
    """30 paired scenarios, a tenth of the values missing at random."""
    x = rng.normal(size=(30, 1)) * 2 + rng.normal(size=(30, 2)) + [0.4, 0.0]
    x[rng.random((30, 2)) < 0.1] = np.nan
    return stats.cluster_bootstrap_differences, matrix_frame(x), 0.4


def covered_alpha(rng):
    """60 items by 3 raters of equal variances: 0.5."""
    frame = ratings(rng.normal(size=(1, 60)) + rng.normal(size=(3, 60)))
    tidy = frame.rename(columns={"rater": "system", "item": "scenario"})
    return partial(stats.krippendorff_alpha, level="interval"), tidy, 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sample", "runs"), {covered_mean: 400, covered_difference: 400, covered_alpha: 200}.items()
)
def test_intervals_cover_as_they_say(sample, runs):
    """90 % intervals of data sets drawn anew."""
    rng, covered, design = np.random.default_rng(5), 0, Design(resamples=400, confidence=0.9)
    for _ in range(runs):
        make, frame, truth = sample(rng)
        row = make(frame, design).iloc[0]
        covered += row["low"] <= truth <= row["high"]
    assert covered / runs == pytest.approx(0.90, abs=3 * (0.09 / runs) ** 0.5 + 0.01)
