import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from crs_lib import stats
from crs_lib.stats.mixed import clustered_ols
from crs_lib.stats.paired import rm_anova
from crs_lib.stats.power import variance_components
from tests.helpers.stats_examples import matrix_frame, random_matrix


def crossed(seed=3, scenarios=25, drop=0):
    rng = np.random.default_rng(seed)
    rows = [
        (system, shift, i, base + 0.1 * (shift == "switch") * (system != "a"))
        for base, system in enumerate("abc")
        for shift in ("none", "switch")
        for i in range(scenarios)
    ]
    frame = pd.DataFrame(rows, columns=["system", "shift_type", "scenario", "value"])
    shared = rng.normal(size=scenarios)[frame["scenario"]]
    frame["value"] = 0.01 * (frame["value"] + shared + rng.normal(size=len(frame)))  # on a 0.0x scale
    return frame.drop(index=rng.choice(len(frame), drop, replace=False))


def test_balanced_model_equals_the_repeated_measures_anova():
    """Balanced data: Wald chi-square = df1 F, and the variances are the ANOVA's (Searle et al., 1992)."""
    x = random_matrix(2, 20, 4)
    frame = matrix_frame(x)
    model, anova = stats.mixed_model(frame), rm_anova(frame).iloc[0]
    assert model.fit["converged"][0]
    assert model.terms["chi2"][0] == pytest.approx(3 * anova["statistic"], rel=1e-4)
    pilot = variance_components(frame).iloc[0]
    assert model.fit["var_residual"][0] == pytest.approx(pilot["var_residual"], rel=1e-4)
    assert model.fit["var_scenario"][0] == pytest.approx(pilot["var_scenario"], rel=1e-3)
    assert model.means["mean"].to_numpy() == pytest.approx(x.mean(axis=0), abs=1e-9)


@pytest.mark.parametrize("drop", [0, 30])
def test_coefficients_equal_statsmodels_formula(drop):
    """The same model by formula on a scale where its own optimiser is at ease; also unbalanced."""
    frame = crossed(drop=drop)
    found = stats.mixed_model(frame, factors=("shift_type",))
    scaled = frame.assign(value=frame["value"] * 100)
    fit = smf.mixedlm("value ~ C(system) * C(shift_type)", scaled, groups=scaled["scenario"]).fit(
        method="bfgs"
    )
    order = ["Intercept", "C(system)[T.b]", "C(system)[T.c]", "C(shift_type)[T.switch]"]
    order += [f"C(system)[T.{s}]:C(shift_type)[T.switch]" for s in "bc"]
    table = found.coefficients
    assert table["term"].tolist()[1] == "system[b]"
    assert table["term"].tolist()[-1] == "system[c]:shift_type[switch]"
    assert table["estimate"].to_numpy() * 100 == pytest.approx(fit.fe_params[order].to_numpy(), abs=1e-5)
    assert table["error"].to_numpy() * 100 == pytest.approx(fit.bse_fe[order].to_numpy(), rel=5e-3)
    # (statsmodels inverts a numerical Hessian, which differs a little off balance; see the next test)
    assert table["p"].to_numpy() == pytest.approx(fit.pvalues[order].to_numpy(), rel=1e-2, abs=1e-12)


def test_errors_are_generalised_least_squares():
    """(X' V^-1 X)^-1 with the whole V written out, off balance."""
    frame = crossed(drop=30)
    model = stats.mixed_model(frame)
    fit = model.fit.iloc[0]
    same = frame["scenario"].to_numpy()[:, None] == frame["scenario"].to_numpy()
    v = fit["var_scenario"] * same + fit["var_residual"] * np.eye(len(frame))
    x = np.column_stack([np.ones(len(frame)), frame["system"] == "b", frame["system"] == "c"]).astype(float)
    covariance = np.linalg.inv(x.T @ np.linalg.solve(v, x))
    assert model.coefficients["error"].to_numpy() == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-8)
    beta = covariance @ x.T @ np.linalg.solve(v, frame["value"].to_numpy())
    assert model.coefficients["estimate"].to_numpy() == pytest.approx(beta, rel=1e-6)


def test_wald_tests_equal_sum_coded_statsmodels():
    """Main effects at the average of the other factor: the tests of sum (deviation) coding."""
    frame = crossed(drop=30)
    found = stats.mixed_model(frame, factors=("shift_type",)).terms.set_index("term")
    scaled = frame.assign(value=frame["value"] * 100)
    fit = smf.mixedlm("value ~ C(system, Sum) * C(shift_type, Sum)", scaled, groups=scaled["scenario"]).fit(
        method="bfgs"
    )
    again = fit.wald_test_terms(scalar=True).table
    for ours, theirs in (("system", 1), ("shift_type", 2), ("system:shift_type", 3)):
        assert found.loc[ours, "chi2"] == pytest.approx(float(again["statistic"].iloc[theirs]), rel=1e-2)
        assert found.loc[ours, "df"] == int(again["df_constraint"].iloc[theirs])


def test_clustered_ols_equals_statsmodels():
    frame = crossed(drop=20)
    found = clustered_ols(frame, factors=("shift_type",), interaction=False)
    fit = smf.ols("value ~ C(system) + C(shift_type)", frame).fit(
        cov_type="cluster", cov_kwds={"groups": frame["scenario"]}
    )
    assert found.coefficients["estimate"].to_numpy() == pytest.approx(fit.params.to_numpy(), rel=1e-9)
    assert found.coefficients["error"].to_numpy() == pytest.approx(fit.bse.to_numpy(), rel=1e-9)


def test_small_scales_and_shifts_do_not_matter():
    frame = crossed()
    moved = frame.assign(value=frame["value"] * 1e-4 + 7)
    here, there = (stats.mixed_model(f).coefficients for f in (frame, moved))
    assert there["estimate"][1] == pytest.approx(here["estimate"][1] * 1e-4, rel=1e-5)
    assert there["z"][1] == pytest.approx(here["z"][1], rel=1e-4)


def test_missing_rows_are_counted_and_clusters_reported():
    frame = crossed()
    frame.loc[frame.index[:7], "value"] = np.nan
    fit = stats.mixed_model(frame).fit.iloc[0]
    assert (fit["n"], fit["n_missing"], fit["clusters"]) == (143, 7, 25)
    assert 0 <= fit["icc"] <= 1


@pytest.mark.slow
def test_no_scenario_variance_converges_at_the_boundary():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    x -= x.mean(axis=1, keepdims=True)
    model = stats.mixed_model(matrix_frame(x))
    assert model.fit["var_scenario"][0] == pytest.approx(0, abs=1e-3)
    assert np.isfinite(model.coefficients["error"]).all()
    assert "boundary" in model.fit["warnings"][0] or model.fit["converged"][0]


def test_bad_input_says_what_to_do():
    frame = crossed()
    with pytest.raises(ValueError, match="factor 'shift_type' has levels"):
        stats.mixed_model(frame[frame["shift_type"] == "none"], factors=("shift_type",))
    sparse = frame[(frame["system"] != "b") | (frame["shift_type"] == "none")]
    with pytest.raises(ValueError, match="interaction=False"):
        stats.mixed_model(sparse, factors=("shift_type",))
    assert len(stats.mixed_model(sparse, factors=("shift_type",), interaction=False).terms) == 2
    with pytest.raises(ValueError, match="does not vary"):
        stats.mixed_model(frame.assign(value=0.5))
    with pytest.raises(ValueError, match="1 scenarios"):
        stats.mixed_model(frame[frame["scenario"] == 0])
    with pytest.raises(ValueError, match="no column 'genre'"):
        stats.mixed_model(frame, stats.Design(system="genre"))
