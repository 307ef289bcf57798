import numpy as np
import pytest
from scipy import stats as sp

from crs_lib.stats.groups import assumptions, levene, mauchly, normality
from tests.helpers.stats_examples import PLANT_GROWTH, groups_frame, matrix_frame, random_matrix

WORDS = {"equal variances": "Welch", "normal residuals": "Wilcoxon", "sphericity": "Greenhouse-Geisser"}


def test_levene_matches_r_on_plant_growth():
    """R: car::leveneTest(weight ~ group, PlantGrowth) prints F 1.1192, p 0.3412."""
    row = levene(groups_frame(PLANT_GROWTH)).iloc[0]
    assert (row["statistic"], row["p"]) == pytest.approx((1.1192, 0.3412), abs=5e-5)


def test_mauchly_matches_a_published_example():
    """pingouin's documentation of sphericity(): W 0.21, chi-square 4.677, df 2, p 0.09649016283209666."""
    x = [[2.2, 1.1, 8.2], [3.1, 2.5, 4.5], [4.3, 4.1, 3.4], [4.1, 5.2, 6.2], [7.2, 6.4, 7.2]]
    row = mauchly(matrix_frame(x)).iloc[0]
    assert (row["statistic"], row["chi2"], row["df"]) == pytest.approx((0.21, 4.677, 2), abs=5e-4)
    assert row["p"] == pytest.approx(0.09649016283209666, abs=1e-12)


def test_mauchly_chi_square_matches_superb():
    """R's superb, MauchlySphericityTest: p 0.5824426, which leaves out the second-order term."""
    x = np.column_stack([[3, 6, 2, 2, 5], [4, 5, 4, 4, 3], [2, 7, 7, 8, 6], [6, 8, 4, 6, 5]])
    row = mauchly(matrix_frame(x)).iloc[0]
    assert sp.chi2.sf(row["chi2"], row["df"]) == pytest.approx(0.5824426, abs=1e-7)


def test_mauchly_p_is_the_simulated_one_in_a_small_sample():
    """Null W of 40000 samples, 10 by 6: the second-order term is needed (first order says .039, second .048)."""
    rng = np.random.default_rng(9)
    x = np.cumsum(rng.normal(size=(10, 6)), axis=1)
    row = mauchly(matrix_frame(x)).iloc[0]
    y = rng.normal(size=(40_000, 10, 5))
    y -= y.mean(axis=1, keepdims=True)
    covariance = np.swapaxes(y, 1, 2) @ y / 9
    null = np.linalg.det(covariance) / (np.trace(covariance, axis1=1, axis2=2) / 5) ** 5
    simulated = (null <= row["statistic"]).mean()
    assert 0.001 < simulated < 0.5
    assert row["p"] == pytest.approx(
        simulated, abs=3.5 * (simulated * (1 - simulated) / 40_000) ** 0.5 + 0.001
    )
    assert abs(sp.chi2.sf(row["chi2"], 14) - simulated) > abs(row["p"] - simulated)


@pytest.mark.slow
def test_mauchly_keeps_its_size_and_finds_what_fails():
    rng = np.random.default_rng(2)
    rejected = [mauchly(matrix_frame(rng.normal(size=(15, 4))))["p"][0] < 0.05 for _ in range(400)]
    assert np.mean(rejected) == pytest.approx(0.05, abs=3.5 * (0.05 * 0.95 / 400) ** 0.5)
    uneven = rng.normal(size=(40, 4)) * [1, 1, 1, 5]
    assert mauchly(matrix_frame(uneven))["p"][0] < 1e-6


def test_normality_equals_scipy_on_two_way_residuals():
    x = random_matrix(3, 30, 3)
    residual = x - x.mean(0) - x.mean(1, keepdims=True) + x.mean()
    row = normality(matrix_frame(x)).iloc[0]
    assert (row["statistic"], row["p"]) == pytest.approx(tuple(sp.shapiro(residual.ravel())), rel=1e-9)
    many = random_matrix(3, 2000, 3)
    assert normality(matrix_frame(many))["test"][0] == "D'Agostino-Pearson"


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
    few = mauchly(matrix_frame(random_matrix(1, 3, 5))).iloc[0]
    assert np.isnan(few["p"])
    assert mauchly(matrix_frame(random_matrix(1, 5, 2)))["p"][0] == 1.0


def test_missing_values_are_counted():
    x = random_matrix(1, 12, 3)
    x[0, 0] = np.nan
    found = assumptions(matrix_frame(x))
    assert found["n"].tolist() == [35, 11, 11]
    assert found["n_missing"].tolist() == [1, 1, 1]
