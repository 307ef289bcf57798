"""Tests of independent groups, what they assume, and corrections, against R, scipy and printed examples."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sp

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats.groups import assumptions, one_way_anova, tukey_hsd, welch_anova
from tests.helpers.stats_examples import PLANT_GROWTH, groups_frame, matrix_frame, random_matrix

PLANTS = groups_frame(PLANT_GROWTH)


def test_missing_values_are_left_out_and_counted():
    holed = PLANTS.copy()
    holed.loc[[0, 12], "value"] = np.nan
    row = one_way_anova(holed).iloc[0]
    assert (row["n"], row["n_missing"]) == (28, 2)
    samples = [[v for v in holed[holed["system"] == s]["value"] if v == v] for s in PLANT_GROWTH]
    assert row["statistic"] == pytest.approx(sp.f_oneway(*samples).statistic)
    zeros = one_way_anova(holed.fillna(0.0)).iloc[0]
    assert row["statistic"] != pytest.approx(zeros["statistic"])


def test_no_variation_is_undefined_and_categories_keep_their_order():
    flat, apart = (groups_frame({"a": [1.0, 1.0, 1.0], "b": [b, b]}) for b in (1.0, 2.0))
    assert np.isnan(one_way_anova(flat)["p"][0]) and one_way_anova(apart)["p"][0] == 0.0
    assert np.isnan(welch_anova(apart)["p"][0])
    negative = groups_frame({"a": [1.0, 2, 3], "b": [1.0, 2, 3]})
    assert one_way_anova(negative)["omega_squared"][0] == 0
    system = pd.Categorical(PLANTS["system"], categories=["trt2", "ctrl", "trt1"])
    assert list(tukey_hsd(PLANTS.assign(system=system))["a"]) == ["trt2", "trt2", "ctrl"]


@pytest.mark.parametrize(("frame", "words"), [
    (groups_frame({"a": [1.0, 2.0]}), "1 systems"),
    (groups_frame({"a": [1.0, 2.0], "b": [1.0]}), "'b' has 1 values"),
    (PLANTS.rename(columns={"value": "score"}), "no column 'value'; the frame has 'system', 'score'"),
    (PLANTS.assign(value="high"), "holds no numbers"),
    (PLANTS.assign(value=np.inf), "infinite"),
    (PLANTS.assign(system=None), "missing labels"),
])  # fmt: skip
def test_bad_input_says_what_was_given(frame, words):
    with pytest.raises(InputError, match=words):
        one_way_anova(frame)


WORDS = {"equal variances": "Welch", "normal residuals": "Wilcoxon", "sphericity": "Greenhouse-Geisser"}


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


def benjamini_hochberg(ps):
    return stats.adjust(pd.DataFrame({"p": ps}), method="benjamini_hochberg")["p_adjusted"].to_numpy()


PS = st.lists(st.floats(0, 1), min_size=1, max_size=20)
# Benjamini and Hochberg (1995), section 4.1: fifteen tests of a thrombolysis trial.
TRIAL = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262]
TRIAL += [0.5719, 0.6528, 0.7590, 1.0]


def test_corrections_keep_order_and_missing_and_reproduce_the_paper():
    """Their section 4.1: four rejections at 5 %, where Bonferroni (and Holm) reject three."""
    assert (benjamini_hochberg(TRIAL) <= 0.05).sum() == 4
    assert (stats.holm(TRIAL) <= 0.05).sum() == 3
    frame = pd.DataFrame({"p": [0.04, np.nan, 0.01]}, index=[9, 8, 7])
    found = stats.adjust(frame)
    assert list(found.index) == [9, 8, 7] and "p_adjusted" not in frame
    assert found["p_adjusted"].tolist() == pytest.approx([0.04, np.nan, 0.02], nan_ok=True)
    assert found["family_size"].tolist() == [2, 2, 2]
    for p, method, words in (
        (1.2, "holm", "outside"),
        (0.1, "bonferoni", "use one of holm, benjamini_hochberg"),
    ):
        with pytest.raises(InputError, match=words):
            stats.adjust(pd.DataFrame({"p": [p]}), method=method)


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
