"""Variance components of systems by facets against a printed example, known mixtures and the two-way table."""

import numpy as np
import pandas as pd
import pytest

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats.power import variance_components

NESTED = {"catalogue": (), "seed": (), "scenario": ("catalogue", "seed")}


def long(x, names):
    index = pd.MultiIndex.from_product([range(n) for n in x.shape], names=names)
    return pd.DataFrame({"value": x.ravel()}, index=index).reset_index()


def test_crossed_components_are_those_of_the_two_way_table():
    """The system by scenario design has the closed form of the pilot variances."""
    x = np.random.default_rng(1).normal(size=(4, 30)) + np.arange(4)[:, None]
    frame = long(x, ["system", "scenario"])
    found = stats.facet_variances(frame, {"scenario": ()}).set_index("effect")["variance"]
    pilot = variance_components(frame).iloc[0]
    assert found["scenario"] == pytest.approx(pilot["var_scenario"])
    assert found["system × scenario"] == pytest.approx(pilot["var_residual"])
    row = stats.scenarios_needed(stats.facet_variances(frame, {"scenario": ()}), 0.1).iloc[0]
    assert row["half_width"] == pytest.approx(1.96 * (2 * pilot["var_residual"] / 30) ** 0.5)
    assert row["scenarios"] == np.ceil(2 * pilot["var_residual"] * (1.96 / 0.1) ** 2)
    assert row["floor"] == 0


def test_components_of_a_nested_mixture_are_found():
    draw = np.random.default_rng(2)
    p, c, s, i = 12, 9, 8, 7
    sd = {"p": 1.0, "pc": 0.5, "ps": 0.3, "i": 0.8, "pi": 0.6}
    x = (
        sd["p"] * draw.normal(size=(p, 1, 1, 1))
        + sd["pc"] * draw.normal(size=(p, c, 1, 1))
        + sd["ps"] * draw.normal(size=(p, 1, s, 1))
        + sd["i"] * draw.normal(size=(1, c, s, i))
        + sd["pi"] * draw.normal(size=(p, c, s, i))
    )
    frame = long(x, ["system", "catalogue", "seed", "scenario"])
    found = stats.facet_variances(frame, NESTED).set_index("effect")
    assert found.loc["system × catalogue", "variance"] == pytest.approx(0.25, rel=0.3)
    assert found.loc["system × seed", "variance"] == pytest.approx(0.09, rel=0.35)
    assert found.loc["catalogue × seed × scenario", "variance"] == pytest.approx(0.64, rel=0.15)
    assert found.loc["system × catalogue × seed × scenario", "variance"] == pytest.approx(0.36, rel=0.05)
    assert abs(found.loc["system × catalogue × seed", "estimate"]) < 0.02
    assert found["df"].sum() == x.size - 1
    assert found["share"].sum() == pytest.approx(1)


def test_the_interval_shrinks_as_promised():
    """Drawn anew with the scenarios that are asked for, differences stay within the precision in 95 %."""
    draw, sigma, precision = np.random.default_rng(3), 0.4, 0.1
    pilot = long(draw.normal(size=(5, 400)) * sigma, ["system", "scenario"])
    need = stats.scenarios_needed(stats.facet_variances(pilot, {"scenario": ()}), precision).iloc[0]
    n = int(need["scenarios"])
    gaps = draw.normal(size=(2000, 2, n)).mean(axis=2) @ [sigma, -sigma]
    assert np.mean(np.abs(gaps) < precision) == pytest.approx(0.95, abs=0.03)


def test_what_few_catalogues_leave_open_no_scenario_closes():
    draw = np.random.default_rng(4)
    x = draw.normal(size=(6, 3, 1, 1)) + 0.1 * draw.normal(size=(6, 3, 4, 5))
    components = stats.facet_variances(long(x, ["system", "catalogue", "seed", "scenario"]), NESTED)
    new = stats.scenarios_needed(components, 0.05).iloc[0]
    assert np.isnan(new["scenarios"])
    assert new["floor"] > 0.5
    these = stats.scenarios_needed(components, 0.05, fixed=["catalogue", "seed"]).iloc[0]
    assert these["floor"] == 0
    assert these["scenarios"] < 20
    assert these["cells"] == 12


def test_facets_with_one_level_are_left_out_and_gaps_are_named():
    frame = long(
        np.random.default_rng(5).normal(size=(3, 1, 2, 4)), ["system", "catalogue", "seed", "scenario"]
    )
    effects = stats.facet_variances(frame, NESTED)["effect"].tolist()
    assert effects == ["system", "seed", "system × seed", "seed × scenario", "system × seed × scenario"]
    with pytest.raises(
        InputError, match="not balanced: 23 rows for 24 cells of 3 system by 2 seed by 4 scenario, 1 "
    ):
        stats.facet_variances(frame.iloc[1:], NESTED)
    with pytest.raises(InputError, match="above 0"):
        stats.scenarios_needed(stats.facet_variances(frame, NESTED), 0)
