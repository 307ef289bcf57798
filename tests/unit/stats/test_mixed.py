"""The mixed model against the ANOVA, statsmodels by formula and generalised least squares."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats.mixed import mixed_model
from crs_lib.stats.paired import rm_anova
from tests.helpers.stats_examples import matrix_frame, random_matrix


def crossed(seed=3, scenarios=25, drop=0):
    rng = np.random.default_rng(seed)
    keys = [list("abc"), ["none", "switch"], range(scenarios)]
    frame = pd.MultiIndex.from_product(keys, names=["system", "shift_type", "scenario"]).to_frame(index=False)
    change = (frame["shift_type"] == "switch") & (frame["system"] != "a")
    frame["value"] = frame["system"].map({"a": 0, "b": 1, "c": 2}) + 0.1 * change
    shared = rng.normal(size=scenarios)[frame["scenario"]]
    frame["value"] = 0.01 * (frame["value"] + shared + rng.normal(size=len(frame)))  # on a 0.0x scale
    return frame.drop(index=rng.choice(len(frame), drop, replace=False))


def test_balanced_model_equals_the_repeated_measures_anova():
    """Balanced data: Wald chi-square = df1 F, and the variances are the ANOVA's (Searle et al., 1992)."""
    x = random_matrix(2, 20, 4)
    frame = matrix_frame(x)
    model, anova = mixed_model(frame), rm_anova(frame).iloc[0]
    assert model.fit["converged"][0]
    assert model.terms["chi2"][0] == pytest.approx(3 * anova["statistic"], rel=1e-4)
    pilot = stats.facet_variances(frame, {"scenario": ()}).set_index("effect")["variance"]
    assert model.fit["var_residual"][0] == pytest.approx(pilot["system × scenario"], rel=1e-4)
    assert model.fit["var_scenario"][0] == pytest.approx(pilot["scenario"], rel=1e-3)


def test_the_wald_test_is_that_of_generalised_least_squares():
    """Contrasts and (X' V^-1 X)^-1 with the whole V written out, off balance."""
    frame = crossed(drop=30)
    model = mixed_model(frame)
    fit = model.fit.iloc[0]
    same = frame["scenario"].to_numpy()[:, None] == frame["scenario"].to_numpy()
    v = fit["var_scenario"] * same + fit["var_residual"] * np.eye(len(frame))
    x = np.column_stack([np.ones(len(frame)), frame["system"] == "b", frame["system"] == "c"]).astype(float)
    covariance = np.linalg.inv(x.T @ np.linalg.solve(v, x))
    beta = covariance @ x.T @ np.linalg.solve(v, frame["value"].to_numpy())
    chi2 = beta[1:] @ np.linalg.solve(covariance[1:, 1:], beta[1:])
    assert model.terms["chi2"][0] == pytest.approx(chi2, rel=1e-6)


@pytest.mark.parametrize("drop", [0, 30])
def test_wald_tests_equal_sum_coded_statsmodels(drop):
    """Main effects at the average of the other factor: the tests of sum coding; also off balance."""
    frame = crossed(drop=drop)
    found = mixed_model(frame, factors=("shift_type",)).terms.set_index("term")
    scaled = frame.assign(value=frame["value"] * 100)
    fit = smf.mixedlm("value ~ C(system, Sum) * C(shift_type, Sum)", scaled, groups=scaled["scenario"]).fit(
        method="bfgs"
    )
    again = fit.wald_test_terms(scalar=True).table
    for ours, theirs in (("system", 1), ("shift_type", 2), ("system:shift_type", 3)):
        assert found.loc[ours, "chi2"] == pytest.approx(float(again["statistic"].iloc[theirs]), rel=1e-2)
        assert found.loc[ours, "df"] == int(again["df_constraint"].iloc[theirs])


def test_small_scales_and_shifts_do_not_matter():
    frame = crossed()
    moved = frame.assign(value=frame["value"] * 1e-4 + 7)
    here, there = (mixed_model(f).terms["chi2"][0] for f in (frame, moved))
    assert there == pytest.approx(here, rel=1e-4)


def test_missing_rows_are_counted_and_clusters_reported():
    frame = crossed()
    frame.loc[frame.index[:7], "value"] = np.nan
    fit = mixed_model(frame).fit.iloc[0]
    assert (fit["n"], fit["n_missing"], fit["clusters"]) == (143, 7, 25)
    assert 0 <= fit["icc"] <= 1


@pytest.mark.slow
def test_no_scenario_variance_converges_at_the_boundary():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    x -= x.mean(axis=1, keepdims=True)
    model = mixed_model(matrix_frame(x))
    assert model.fit["var_scenario"][0] == pytest.approx(0, abs=1e-3)
    assert np.isfinite(model.terms["chi2"]).all()
    assert "boundary" in model.fit["warnings"][0] or model.fit["converged"][0]


FRAME = crossed()
TYPES = ("shift_type",)


@pytest.mark.parametrize(("frame", "factors", "words"), [
    (FRAME[FRAME["shift_type"] == "none"], TYPES, "'shift_type' has only the levels"),
    (FRAME[(FRAME["system"] != "b") | (FRAME["shift_type"] == "none")], TYPES, "some combination of system, shift_type"),
    (FRAME.assign(value=0.5), (), "does not vary"),
    (FRAME[FRAME["scenario"] == 0], (), r"'scenario' has only the levels \[0\]"),
    (FRAME, ("genre",), "no column 'genre'"),
    (FRAME[FRAME["scenario"] == (FRAME["shift_type"] == "switch")], TYPES, "too few values .* add sessions"),
])  # fmt: skip
def test_bad_input_says_what_to_do(frame, factors, words):
    with pytest.raises(InputError, match=words):
        mixed_model(frame, factors=factors)
