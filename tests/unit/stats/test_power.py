"""Power against statsmodels and simulations; variance components against known mixtures."""

import numpy as np
import pandas as pd
import pytest
import scipy
from statsmodels.stats.power import TTestPower

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats.power import _wilcoxon_power, contrast_curves, contrast_power, least_scenarios, smallest_p
from tests.helpers.stats_examples import matrix_frame


def simulated(sd, effect, n, level, draws=4000):
    """The share of normal samples in which Wilcoxon's paired test finds the effect."""
    noise = np.random.default_rng(1).standard_normal((draws, n)) * sd + effect
    method = "exact" if n <= 50 else "asymptotic"
    return (scipy.stats.wilcoxon(noise, axis=1, method=method).pvalue <= level).mean()


@pytest.mark.parametrize(("n", "effect"), [(12, 0.8), (40, 0.4), (105, 0.3)])
def test_power_of_wilcoxon_is_that_of_t_with_fewer_scenarios_and_that_of_a_simulation(n, effect):
    """Its efficiency against t is 3 / pi on normal data: n t-scenarios do the work of n pi / 3."""
    found = _wilcoxon_power(effect, n, 0.05)
    assert found == pytest.approx(TTestPower().power(effect, n * 3 / np.pi, 0.05), abs=1e-9)
    assert found == pytest.approx(simulated(1.0, effect, n, 0.05), abs=0.03)


def test_no_effect_is_found_at_the_level_and_power_rises_with_effect_and_scenarios():
    assert _wilcoxon_power(0.0, 30, 0.05) == pytest.approx(0.05)
    assert _wilcoxon_power(0.2, 30, 0.005) < _wilcoxon_power(0.2, 30, 0.05) < _wilcoxon_power(0.3, 30, 0.05)
    assert _wilcoxon_power(0.2, 30, 0.05) < _wilcoxon_power(0.2, 60, 0.05)


PAIRS = stats.Design(pairs=[("b", "a"), ("c", "a")])


def test_power_of_a_contrast_is_that_of_its_own_differences_and_the_curves_agree():
    """Two contrasts of one run, one four times as noisy: it takes 16 times the scenarios."""
    base, calm = np.random.default_rng(6).normal(size=(2, 40))
    calm = 0.1 * (calm - calm.mean()) / calm.std(ddof=1)
    frame = matrix_frame(np.column_stack([base, base + calm, base + 4 * calm]), names=["a", "b", "c"])
    found = contrast_power(frame, 0.05, PAIRS, tests=2)
    assert found["sd_difference"].tolist() == pytest.approx([0.1, 0.4])
    assert found["detectable_effect"][1] == pytest.approx(4 * found["detectable_effect"][0])
    assert found["sessions_needed"][1] == pytest.approx(16 * found["sessions_needed"][0], rel=0.1)
    assert found["power_now"][1] == pytest.approx(simulated(0.4, 0.05, 40, 0.025), abs=0.03)
    needed = int(found["sessions_needed"][0])
    assert simulated(0.1, 0.05, needed, 0.025) == pytest.approx(0.8, abs=0.03)
    assert _wilcoxon_power(0.5, needed, 0.025) >= 0.8 > _wilcoxon_power(0.5, needed - 1, 0.025)
    curves = contrast_curves(frame, [0.05, 0.2], [10, 40], PAIRS, tests=2)
    power = curves.set_index(["a", "effect", "sessions"])["power"]
    assert len(curves) == 2 * 2 * 2
    assert power["b", 0.05, 40] == pytest.approx(found["power_now"][0])  # 40 scenarios are those of the run
    assert power["c", 0.2, 40] == pytest.approx(power["b", 0.05, 40])  # four times the spread and the effect
    assert power["b", 0.05, 10] < power["b", 0.05, 40] > power["c", 0.05, 40]


def test_a_contrast_without_spread_or_scenarios_is_unknown_not_found_for_certain():
    frame = matrix_frame(np.array([[1.0, 2.0, 3.0], [2.0, 3.0, np.nan]]), names=["a", "b", "c"])
    columns = ["power_now", "detectable_effect", "sessions_needed", "needed_low", "needed_high"]
    assert contrast_power(frame, 0.05, PAIRS)[columns].isna().all(axis=None)
    assert contrast_curves(frame, [0.05], [5], PAIRS).empty


def test_sessions_needed_has_the_interval_of_the_deviation():
    """Of 60 runs of 40 scenarios, most intervals hold the number that the true deviation asks for."""
    rng, truth = np.random.default_rng(8), contrast_needs(0.3)
    inside = 0
    for _ in range(60):
        x = np.column_stack([np.zeros(40), rng.normal(0, 0.3, 40)])
        row = contrast_power(matrix_frame(x, names=["a", "b"]), 0.1, stats.Design(resamples=200)).iloc[0]
        assert row["needed_low"] <= row["sessions_needed"] <= row["needed_high"]
        inside += row["needed_low"] <= truth <= row["needed_high"]
    assert inside / 60 > 0.8


def contrast_needs(sd):
    return next(n for n in range(2, 1000) if _wilcoxon_power(0.1 / sd, n, 0.05) >= 0.8)


def test_what_so_few_scenarios_can_reach():
    assert smallest_p(8, 15) == pytest.approx(15 * 2 / 2**8) and smallest_p(3, 15) == 1
    for tests in (1, 7, 15):
        n = least_scenarios(tests)
        assert smallest_p(n, tests) <= 0.05 < smallest_p(n - 1, tests)
    gaps = np.arange(1, 9) / 10
    assert scipy.stats.wilcoxon(gaps).pvalue == smallest_p(8)


FACETS = ["system", "catalogue", "seed", "scenario"]
NESTED = {"catalogue": (), "seed": (), "scenario": ("catalogue", "seed")}


def long(x, names):
    index = pd.MultiIndex.from_product([range(n) for n in x.shape], names=names)
    return pd.DataFrame({"value": x.ravel()}, index=index).reset_index()


def test_crossed_components_are_those_of_the_two_way_table():
    """The system by scenario design has a closed form (Searle et al. 1992, chapter 4)."""
    x = np.random.default_rng(1).normal(size=(4, 30)) + np.arange(4)[:, None]
    frame = long(x, ["system", "scenario"])
    found = stats.facet_variances(frame, {"scenario": ()}).set_index("effect")["variance"]
    left = ((x - x.mean(0) - x.mean(1, keepdims=True) + x.mean()) ** 2).sum() / (3 * 29)
    assert found["system × scenario"] == pytest.approx(left)
    assert found["scenario"] == pytest.approx(max(0, (4 * x.mean(axis=0).var(ddof=1) - left) / 4))
    row = stats.scenarios_needed(stats.facet_variances(frame, {"scenario": ()}), 0.1).iloc[0]
    assert row["half_width"] == pytest.approx(1.96 * (2 * left / 30) ** 0.5)
    assert row["scenarios"] == np.ceil(2 * left * (1.96 / 0.1) ** 2)
    assert row["floor"] == 0


def test_components_of_a_nested_mixture_are_found():
    draw, (p, c, s, i) = np.random.default_rng(2), (12, 9, 8, 7)
    parts = {(p, 1, 1, 1): 1.0, (p, c, 1, 1): 0.5, (p, 1, s, 1): 0.3, (1, c, s, i): 0.8, (p, c, s, i): 0.6}
    x = sum(sd * draw.normal(size=shape) for shape, sd in parts.items())
    found = stats.facet_variances(long(x, FACETS), NESTED).set_index("effect")
    for effect, variance, error in (
        ("system × catalogue", 0.25, 0.3), ("system × seed", 0.09, 0.35),
        ("catalogue × seed × scenario", 0.64, 0.15), ("system × catalogue × seed × scenario", 0.36, 0.05),
    ):  # fmt: skip
        assert found.loc[effect, "variance"] == pytest.approx(variance, rel=error)
    assert abs(found.loc["system × catalogue × seed", "estimate"]) < 0.02
    assert found["df"].sum() == x.size - 1 and found["share"].sum() == pytest.approx(1)


def test_what_few_catalogues_leave_open_no_scenario_closes():
    draw = np.random.default_rng(4)
    x = draw.normal(size=(6, 3, 1, 1)) + 0.1 * draw.normal(size=(6, 3, 4, 5))
    components = stats.facet_variances(long(x, FACETS), NESTED)
    new = stats.scenarios_needed(components, 0.05).iloc[0]
    assert np.isnan(new["scenarios"]) and new["floor"] > 0.5
    these = stats.scenarios_needed(components, 0.05, fixed=["catalogue", "seed"]).iloc[0]
    assert these["floor"] == 0 and these["scenarios"] < 20 and these["cells"] == 12


def test_facets_with_one_level_are_left_out_and_gaps_are_named():
    frame = long(np.random.default_rng(5).normal(size=(3, 1, 2, 4)), FACETS)
    effects = stats.facet_variances(frame, NESTED)["effect"].tolist()
    assert effects == ["system", "seed", "system × seed", "seed × scenario", "system × seed × scenario"]
    words = "not balanced: 23 rows for 24 cells of 3 system by 2 seed by 4 scenario, 1 "
    with pytest.raises(InputError, match=words):
        stats.facet_variances(frame.iloc[1:], NESTED)
