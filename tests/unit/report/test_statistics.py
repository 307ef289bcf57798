"""Tables of tests as the notebook on statistics shows them."""

import pandas as pd

from crs_lib.report import statistics


def test_checks_that_could_not_be_made_are_a_row_with_the_reason():
    made = {
        "check": "convergence", "test": "mixed model", "holds": True, "follows": "it can be read", "note": "",
    }  # fmt: skip
    lost = {"note": "0 of 9 scenarios are complete for all 3 systems"}
    table = statistics.assumption_table(pd.DataFrame([lost, made]))
    assert list(table.columns) == ["check", "test", "holds", "follows", "note"]
    assert list(table["note"]) == [lost["note"], ""]
    alone = statistics.assumption_table(pd.DataFrame([made]))
    assert list(alone.columns) == ["check", "test", "holds", "follows"]
