import numpy as np
import pytest
import scipy
from statsmodels.stats.power import TTestPower

from crs_lib import stats
from crs_lib.stats.power import contrast_power, variance_components, wilcoxon_power
from tests.helpers.stats_examples import matrix_frame, random_matrix


def test_variance_components_of_a_known_mixture():
    rng = np.random.default_rng(4)
    x = 2 * rng.normal(size=(4000, 1)) + rng.normal(size=(4000, 3)) + [0, 1, 2]
    row = variance_components(matrix_frame(x)).iloc[0]
    assert row["var_scenario"] == pytest.approx(4, rel=0.08)
    assert row["var_residual"] == pytest.approx(1, rel=0.05)
    two = x[:, :2]
    pair = variance_components(matrix_frame(two)).iloc[0]
    assert pair["sd_difference"] == pytest.approx((two[:, 0] - two[:, 1]).std(ddof=1))


def simulated(sd, effect, n, level, draws=4000):
    """The share of normal samples in which Wilcoxon's paired test finds the effect."""
    noise = np.random.default_rng(1).standard_normal((draws, n)) * sd + effect
    method = "exact" if n <= 50 else "asymptotic"
    return (scipy.stats.wilcoxon(noise, axis=1, method=method).pvalue <= level).mean()


@pytest.mark.parametrize(("n", "effect"), [(12, 0.8), (40, 0.4), (105, 0.3)])
def test_power_of_wilcoxon_is_that_of_t_with_fewer_scenarios_and_that_of_a_simulation(n, effect):
    """Its efficiency against t is 3 / pi on normal data: n t-scenarios do the work of n pi / 3."""
    found = wilcoxon_power(effect, n, 0.05)
    assert found == pytest.approx(TTestPower().power(effect, n * 3 / np.pi, 0.05), abs=1e-9)
    assert found == pytest.approx(simulated(1.0, effect, n, 0.05), abs=0.03)


def test_no_effect_is_found_at_the_level_and_power_rises_with_effect_and_scenarios():
    assert wilcoxon_power(0.0, 30, 0.05) == pytest.approx(0.05)
    assert wilcoxon_power(0.2, 30, 0.005) < wilcoxon_power(0.2, 30, 0.05) < wilcoxon_power(0.3, 30, 0.05)
    assert wilcoxon_power(0.2, 30, 0.05) < wilcoxon_power(0.2, 60, 0.05)


def test_bad_input_says_what_was_expected():
    with pytest.raises(ValueError, match="0 of 3 scenarios are complete"):
        variance_components(matrix_frame([[1, np.nan]] * 3))
    assert random_matrix(1, 2, 2).shape == (2, 2)


def test_power_of_a_contrast_is_that_of_its_own_differences():
    """Two contrasts of one run, one four times as noisy: it takes 16 times the scenarios."""
    draw = np.random.default_rng(6)
    base, calm = draw.normal(size=40), draw.normal(size=40)
    calm = 0.1 * (calm - calm.mean()) / calm.std(ddof=1)
    frame = matrix_frame(np.column_stack([base, base + calm, base + 4 * calm]), names=["a", "b", "c"])
    found = contrast_power(frame, 0.05, stats.Design(pairs=[("b", "a"), ("c", "a")]), tests=2)
    assert found["sd_difference"].tolist() == pytest.approx([0.1, 0.4])
    assert found["detectable_effect"][1] == pytest.approx(4 * found["detectable_effect"][0])
    assert found["sessions_needed"][1] == pytest.approx(16 * found["sessions_needed"][0], rel=0.1)
    assert found["power_now"][1] == pytest.approx(simulated(0.4, 0.05, 40, 0.025), abs=0.03)
    needed = int(found["sessions_needed"][0])
    assert simulated(0.1, 0.05, needed, 0.025) == pytest.approx(0.8, abs=0.03)
    assert wilcoxon_power(0.5, needed, 0.025) >= 0.8 > wilcoxon_power(0.5, needed - 1, 0.025)


def test_curves_of_contrasts_are_the_power_of_each_by_scenarios():
    draw = np.random.default_rng(6)
    base, noise = draw.normal(size=40), draw.normal(size=40)
    frame = matrix_frame(
        np.column_stack([base, base + 0.1 * noise, base + 0.4 * noise]), names=["a", "b", "c"]
    )
    pairs = [("b", "a"), ("c", "a")]
    curves = stats.contrast_curves(frame, [0.05, 0.2], [10, 40], stats.Design(pairs=pairs), tests=2)
    assert len(curves) == 2 * 2 * 2
    power = curves.set_index(["a", "effect", "sessions"])["power"]
    now = contrast_power(frame, 0.05, stats.Design(pairs=pairs), tests=2).set_index("a")["power_now"]
    assert power["b", 0.05, 40] == pytest.approx(now["b"])  # 40 scenarios are those of the run
    assert power["c", 0.2, 40] == pytest.approx(power["b", 0.05, 40])  # four times the spread and the effect
    assert power["b", 0.05, 10] < power["b", 0.05, 40] > power["c", 0.05, 40]
    with pytest.raises(ValueError, match=r"effects=\[0\].*effects above 0"):
        stats.contrast_curves(frame, [0], [10])


def test_a_contrast_without_spread_or_scenarios():
    frame = matrix_frame(np.array([[1.0, 2.0, 3.0], [2.0, 3.0, np.nan]]), names=["a", "b", "c"])
    found = contrast_power(frame, 0.05, stats.Design(pairs=[("b", "a"), ("c", "a")]))
    assert found.loc[0, ["power_now", "detectable_effect", "sessions_needed"]].tolist() == [1, 0, 2]
    assert found.loc[1, ["power_now", "detectable_effect", "sessions_needed"]].isna().all()
    curves = stats.contrast_curves(frame, [0.05], [5], stats.Design(pairs=[("b", "a"), ("c", "a")]))
    assert curves[["a", "b", "power"]].to_numpy().tolist() == [["b", "a", 1.0]]
    with pytest.raises(ValueError, match="effect above 0"):
        contrast_power(frame, 0)
