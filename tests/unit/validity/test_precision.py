"""The study of precision: what is dropped for balance, and that more scenarios narrow a difference."""

import pandas as pd
import pytest

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.validity import precision
from crs_lib.validity.precision import PrecisionConfig


def frame(missing=()):
    rows = [
        {"system": p, "catalogue": "sample", "wording": w, "seed": s, "scenario": f"{i:05d}", "value": v + i}
        for v, p in enumerate("ab") for w in "AB" for s in (1, 2) for i in range(4)
    ]  # fmt: skip
    table = pd.DataFrame(rows).astype({"value": float})
    for number in missing:
        table.loc[number, "value"] = float("nan")
    return table


def test_a_scenario_without_a_value_anywhere_goes_and_the_cells_stay_alike():
    kept = precision._balanced(frame(missing=[1]))  # system a, wording A, seed 1, scenario 1
    assert kept.groupby("seed")["scenario"].unique().map(list).to_dict() == {
        1: ["00000", "00002", "00003"], 2: ["00000", "00001", "00002"],
    }  # fmt: skip
    stats.facet_variances(kept, precision.FACETS)  # balanced
    with pytest.raises(InputError, match="has 1 scenarios with a value for every"):
        precision._balanced(frame(missing=[0, 1, 2]))
    with pytest.raises(InputError, match="has 0 scenarios"):
        precision._balanced(frame(missing=[0, 1, 2, 3]))


@pytest.mark.parametrize("metric", ["normalised_gain", "history_cost"])
def test_a_small_study_says_where_scores_vary(metric, tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    systems = ("tracker", "sticky")
    found = precision.run(
        PrecisionConfig(systems=systems, seeds=(1, 2), n_sessions=3, n_turns=10, metric=metric)
    )
    assert found.needed["holds_for"].tolist() == list(precision.SCOPES.values())[:3]
    widths = found.needed["half_width"]
    assert (widths.diff().dropna() >= -1e-12).all()  # whoever generalises further knows less
    assert (found.needed["floor"] <= widths + 1e-12).all()
    assert found.needed["floor"].iloc[0] == 0
    assert (tmp_path / "movies" / "precision" / "precision.csv").exists()
