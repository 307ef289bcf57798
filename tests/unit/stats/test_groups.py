"""Tests of independent groups, what they assume, and corrections, against R, scipy and printed examples."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sp
from statsmodels.stats.multitest import multipletests

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats.groups import assumptions, one_way_anova, tukey_hsd, welch_anova
from tests.helpers.stats_examples import PLANT_GROWTH, groups_frame, matrix_frame, random_matrix

PLANTS = groups_frame(PLANT_GROWTH)


def test_one_way_anova_matches_r_on_plant_growth():
    """R: anova(lm(weight ~ group, PlantGrowth)) prints F 4.8461, p 0.01591.

    Omega squared by hand: (3.76634 - 2 * 0.388596) / (14.25843 + 0.388596) = 0.20408, never below 0.
    """
    row = one_way_anova(PLANTS).iloc[0]
    assert row["statistic"] == pytest.approx(4.8461, abs=5e-5)
    assert row["p"] == pytest.approx(0.01591, abs=5e-6)
    assert row["omega_squared"] == pytest.approx(0.20408, abs=1e-5)
    assert one_way_anova(groups_frame({"a": [1.0, 2, 3], "b": [1.0, 2, 3]}))["omega_squared"][0] == 0
    assert (row["df1"], row["df2"], row["n"]) == (2, 27, 30)


def test_one_way_anova_equals_scipy_on_unequal_sizes():
    rng = np.random.default_rng(1)
    groups = {name: rng.normal(size=n) for name, n in (("a", 4), ("b", 9), ("c", 30))}
    row = one_way_anova(groups_frame(groups)).iloc[0]
    assert (row["statistic"], row["p"]) == pytest.approx(tuple(sp.f_oneway(*groups.values())), rel=1e-12)


def test_welch_anova_matches_r_on_plant_growth():
    """R: oneway.test(weight ~ group, PlantGrowth) prints F 5.181, denom df 17.128, p 0.01739."""
    row = welch_anova(PLANTS).iloc[0]
    assert row["statistic"] == pytest.approx(5.181, abs=5e-4)
    assert row["df2"] == pytest.approx(17.128, abs=5e-4)
    assert row["p"] == pytest.approx(0.01739, abs=5e-6)
    again = sp.f_oneway(*PLANT_GROWTH.values(), equal_var=False)
    assert row["p"] == pytest.approx(again.pvalue, rel=1e-12)


def test_tukey_matches_r_on_plant_growth():
    """R: TukeyHSD(aov(weight ~ group, PlantGrowth)), all printed digits; signs turned to a - b."""
    found = tukey_hsd(PLANTS).set_index(["a", "b"])
    expected = {
        ("ctrl", "trt1"): (0.371, -0.3202161, 1.0622161, 0.3908711),
        ("ctrl", "trt2"): (-0.494, -1.1852161, 0.1972161, 0.1979960),
        ("trt1", "trt2"): (-0.865, -1.5562161, -0.1737839, 0.0120064),
    }
    for pair, numbers in expected.items():
        assert tuple(found.loc[pair, ["diff", "low", "high", "p"]]) == pytest.approx(numbers, abs=1e-6)


def test_missing_values_are_left_out_and_counted():
    holed = PLANTS.copy()
    holed.loc[[0, 12], "value"] = np.nan
    row = one_way_anova(holed).iloc[0]
    assert (row["n"], row["n_missing"]) == (28, 2)
    samples = [[v for v in holed[holed["system"] == s]["value"] if v == v] for s in PLANT_GROWTH]
    assert row["statistic"] == pytest.approx(sp.f_oneway(*samples).statistic)
    zeros = one_way_anova(holed.fillna(0.0)).iloc[0]
    assert row["statistic"] != pytest.approx(zeros["statistic"])


def test_no_variation_is_undefined_not_significant():
    flat = groups_frame({"a": [1.0, 1.0, 1.0], "b": [1.0, 1.0]})
    assert np.isnan(one_way_anova(flat)["p"][0])
    apart = groups_frame({"a": [1.0, 1.0, 1.0], "b": [2.0, 2.0]})
    assert one_way_anova(apart)["p"][0] == 0.0
    assert np.isnan(welch_anova(apart)["p"][0])


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (groups_frame({"a": [1.0, 2.0]}), "1 systems"),
        (groups_frame({"a": [1.0, 2.0], "b": [1.0]}), "'b' has 1 values"),
        (PLANTS.rename(columns={"value": "score"}), "no column 'value'; the frame has 'system', 'score'"),
        (PLANTS.assign(value="high"), "holds no numbers"),
        (PLANTS.assign(value=np.inf), "infinite"),
        (PLANTS.assign(system=None), "missing labels"),
    ],
)
def test_bad_input_says_what_was_given(frame, words):
    with pytest.raises(InputError, match=words):
        one_way_anova(frame)


def test_categories_keep_their_order():
    ordered = PLANTS.assign(
        system=PLANTS["system"].astype("category").cat.reorder_categories(["trt2", "ctrl", "trt1"])
    )
    assert list(tukey_hsd(ordered)["a"]) == ["trt2", "trt2", "ctrl"]


WORDS = {"equal variances": "Welch", "normal residuals": "Wilcoxon", "sphericity": "Greenhouse-Geisser"}


def check(name, frame):
    return assumptions(frame).set_index("check").loc[name]


def test_levene_matches_r_on_plant_growth():
    """R: car::leveneTest(weight ~ group, PlantGrowth) prints F 1.1192, p 0.3412."""
    frame = PLANTS.assign(scenario=PLANTS.groupby("system").cumcount())
    row = check("equal variances", frame)
    assert (row["statistic"], row["p"]) == pytest.approx((1.1192, 0.3412), abs=5e-5)


def test_mauchly_matches_a_published_example():
    """pingouin's documentation of sphericity(): W 0.21, p 0.09649016283209666."""
    x = [[2.2, 1.1, 8.2], [3.1, 2.5, 4.5], [4.3, 4.1, 3.4], [4.1, 5.2, 6.2], [7.2, 6.4, 7.2]]
    row = check("sphericity", matrix_frame(x))
    assert row["statistic"] == pytest.approx(0.21, abs=5e-4)
    assert row["p"] == pytest.approx(0.09649016283209666, abs=1e-12)


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
    assert row["p"] == pytest.approx(
        simulated, abs=3.5 * (simulated * (1 - simulated) / 40_000) ** 0.5 + 0.001
    )


@pytest.mark.slow
def test_mauchly_keeps_its_size_and_finds_what_fails():
    rng = np.random.default_rng(2)
    rejected = [check("sphericity", matrix_frame(rng.normal(size=(15, 4))))["p"] < 0.05 for _ in range(400)]
    assert np.mean(rejected) == pytest.approx(0.05, abs=3.5 * (0.05 * 0.95 / 400) ** 0.5)
    uneven = rng.normal(size=(40, 4)) * [1, 1, 1, 5]
    assert check("sphericity", matrix_frame(uneven))["p"] < 1e-6


def test_normality_equals_scipy_on_two_way_residuals():
    x = random_matrix(3, 30, 3)
    residual = x - x.mean(0) - x.mean(1, keepdims=True) + x.mean()
    row = check("normal residuals", matrix_frame(x))
    assert (row["statistic"], row["p"]) == pytest.approx(tuple(sp.shapiro(residual.ravel())), rel=1e-9)
    many = random_matrix(3, 2000, 3)
    assert check("normal residuals", matrix_frame(many))["test"] == "D'Agostino-Pearson"


def test_words_follow_from_the_numbers():
    good = assumptions(matrix_frame(random_matrix(0, 60, 4))).set_index("check")
    assert good["holds"].tolist() == [True, True, True]
    rng = np.random.default_rng(1)
    bad_data = rng.exponential(size=(60, 4)) ** 3 * [1, 2, 8, 40]
    bad = assumptions(matrix_frame(bad_data)).set_index("check")
    assert bad["holds"].tolist() == [False, False, False]
    for check, word in WORDS.items():
        assert word in bad.loc[check, "follows"]
        assert bad.loc[check, "follows"] != good.loc[check, "follows"]


def test_what_cannot_be_checked_is_not_assumed():
    flat = assumptions(matrix_frame(np.ones((5, 3)))).set_index("check")
    assert flat["holds"].isna().all()
    assert flat["follows"].str.startswith("could not be checked").all()
    assert np.isnan(check("sphericity", matrix_frame(random_matrix(1, 3, 5)))["p"])
    assert check("sphericity", matrix_frame(random_matrix(1, 5, 2)))["p"] == 1.0


def test_checks_count_missing_values():
    x = random_matrix(1, 12, 3)
    x[0, 0] = np.nan
    found = assumptions(matrix_frame(x))
    assert found["n"].tolist() == [35, 11, 11]
    assert found["n_missing"].tolist() == [1, 1, 1]


def benjamini_hochberg(ps):
    return stats.adjust(pd.DataFrame({"p": ps}), method="benjamini_hochberg")["p_adjusted"].to_numpy()


PS = st.lists(st.floats(0, 1), min_size=1, max_size=20)
# Benjamini and Hochberg (1995), section 4.1: fifteen tests of a thrombolysis trial.
TRIAL = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262]
TRIAL += [0.5719, 0.6528, 0.7590, 1.0]


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


def test_adjust_keeps_order_and_missing():
    frame = pd.DataFrame({"p": [0.04, np.nan, 0.01]}, index=[9, 8, 7])
    found = stats.adjust(frame)
    assert list(found.index) == [9, 8, 7] and "p_adjusted" not in frame
    assert found["p_adjusted"].tolist() == pytest.approx([0.04, np.nan, 0.02], nan_ok=True)
    assert found["family_size"].tolist() == [2, 2, 2]


def test_adjust_refuses_what_is_no_p_or_method():
    with pytest.raises(InputError, match="outside"):
        stats.holm([0.2, 1.2])
    with pytest.raises(InputError, match="use one of holm, benjamini_hochberg"):
        stats.adjust(pd.DataFrame({"p": [0.1]}), method="bonferoni")
