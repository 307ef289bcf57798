import numpy as np
import pytest
from scipy import stats as sp

from crs_lib.stats.groups import games_howell, one_way_anova, tukey_hsd, welch_anova
from tests.helpers.stats_examples import PLANT_GROWTH, groups_frame

PLANTS = groups_frame(PLANT_GROWTH)


def test_one_way_anova_matches_r_on_plant_growth():
    """R: anova(lm(weight ~ group, PlantGrowth)) prints F 4.8461, p 0.01591, SS 3.7663 and 10.4921."""
    row = one_way_anova(PLANTS).iloc[0]
    assert row["statistic"] == pytest.approx(4.8461, abs=5e-5)
    assert row["p"] == pytest.approx(0.01591, abs=5e-6)
    assert (row["ss_between"], row["ss_within"]) == pytest.approx((3.76634, 10.49209), abs=1e-5)
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


@pytest.mark.slow
def test_games_howell_equals_scipy():
    """scipy's tukey_hsd(equal_var=False), which scipy checks against R's rstatix."""
    rng = np.random.default_rng(5)
    groups = {f"g{j}": rng.normal(j / 3, 1 + j, size=6 + 5 * j) for j in range(3)}
    found = games_howell(groups_frame(groups))
    again = sp.tukey_hsd(*groups.values(), equal_var=False)
    interval = again.confidence_interval(0.95)
    upper = np.triu_indices(3, 1)
    np.testing.assert_allclose(found["p"], again.pvalue[upper], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["low"], interval.low[upper], rtol=1e-9)
    np.testing.assert_allclose(found["high"], interval.high[upper], rtol=1e-9)


@pytest.mark.slow
def test_many_games_howell_intervals_are_interpolated_to_six_digits():
    """Above nine pairs the quantile is interpolated in 1 / df; checked against the exact one."""
    rng = np.random.default_rng(6)
    groups = {f"g{j}": rng.normal(0, 1 + j % 3, size=5 + 7 * j) for j in range(6)}
    found = games_howell(groups_frame(groups))
    for _, row in found.iloc[[0, 4, 9, 14]].iterrows():
        a, b = groups[row["a"]], groups[row["b"]]
        error = np.sqrt((np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b)) / 2)
        exact = sp.studentized_range.ppf(0.95, 6, row["df"]) * error
        assert row["high"] - row["diff"] == pytest.approx(exact, rel=1e-6)


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
    assert games_howell(apart)["p"].isna().all()


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
    with pytest.raises(ValueError, match=words):
        one_way_anova(frame)


def test_categories_keep_their_order():
    ordered = PLANTS.assign(
        system=PLANTS["system"].astype("category").cat.reorder_categories(["trt2", "ctrl", "trt1"])
    )
    assert list(tukey_hsd(ordered)["a"]) == ["trt2", "trt2", "ctrl"]
