"""The gate on made-up scores, where every verdict can be read off, and on real sessions of all policies."""

import pandas as pd
import pytest

from crs_lib.core.errors import InputError, RunError
from crs_lib.metrics import base
from crs_lib.validity import gate
from crs_lib.validity.gate import AFTER, BEFORE, DOSES, ORDERINGS, POLICIES, RISING, WHOLE, noisy

# Means that meet every demand: the doses lie on a line from the oracle (1.0) to almost random (0.2).
GOOD = {
    "oracle": 1.0, "tracker": 0.9, "amnesiac": 0.5, "sticky": 0.6, "popular": 0.1, "random": 0.1,
    "slot_echo": 0.0, "echo": -0.2, "silent": 0.0, **{noisy(d): 1 - 0.9 * d for d in DOSES},
}  # fmt: skip
WOBBLE = (0.00, 0.01, -0.01, 0.02)  # what scenario adds; twice as much for the oracle, so that gaps vary


def values(means, metric="item_tas", sign=1.0):
    rows = [
        (metric, scope, system, scenario, sign * (mean + wobble * (2 if system == "oracle" else 1)))
        for scope in (WHOLE, AFTER, BEFORE)
        for system, mean in means.items()
        for scenario, wobble in enumerate(WOBBLE)
    ]
    return pd.DataFrame(rows, columns=["metric", "scope", "system", "scenario", "value"])


def verdict(means, ordering, **options):
    tests = gate.test_all(values(means, **options)).set_index("ordering")
    return tests.loc[ordering, "verdict"]


def test_a_metric_that_meets_every_demand_has_no_mark():
    tests = gate.test_all(values(GOOD))
    assert set(tests["verdict"]) == {"pass"}
    assert len(tests) == len(ORDERINGS) + 1
    table = gate.verdicts(tests).set_index("metric")
    assert table.loc["item_tas", "mark"] == ""
    assert table.loc["novelty", "mark"] == gate.DESCRIPTIVE


def test_lower_is_better_turns_the_differences():
    assert base.get("copying").direction == base.LOWER
    assert set(gate.test_all(values(GOOD, "copying", -1.0))["verdict"]) == {"pass"}
    upside_down = gate.test_all(values(GOOD, "copying"))
    assert (upside_down["verdict"] == "fail").sum() >= len(ORDERINGS) - 1


@pytest.mark.parametrize(
    ("change", "ordering"),
    [
        ({"tracker": 1.0}, "oracle above tracker"),
        ({"popular": 0.55}, "amnesiac not below popular"),
        ({"popular": 0.25}, "popular alike random"),  # 0.15 apart; a tenth of oracle - random is 0.09
        ({"echo": 0.5}, "random above echo"),
        ({"sticky": 0.95}, "tracker above sticky, after the first shift"),
        ({"sticky": 0.4}, "sticky above amnesiac, before the first shift"),
        ({noisy(0.3): 0.2}, RISING),
    ],
)
@pytest.mark.slow
def test_each_demand_can_be_failed_and_marks_the_metric(change, ordering):
    means = {**GOOD, **change}
    assert verdict(means, ordering) == "fail"
    table = gate.verdicts(gate.test_all(values(means))).set_index("metric")
    assert table.loc["item_tas", "mark"] == gate.NOT_VALID
    assert ordering in table.loc["item_tas", "failed"]


def test_the_difference_and_its_interval_on_paper():
    # oracle - tracker = 0.1 + wobble = 0.10, 0.11, 0.09, 0.12: mean 0.105, sd 0.01291, t(3) = 3.1824
    row = gate.test_all(values(GOOD)).set_index("ordering").loc["oracle above tracker"]
    assert row["diff"] == pytest.approx(0.105)
    assert row["high"] - row["diff"] == pytest.approx(3.1824 * 0.01291 / 2, abs=1e-4)
    assert row["n"] == 4


def test_what_is_not_defined_is_neither_passed_nor_failed():
    frame = values(GOOD)
    frame.loc[frame["system"] == "echo", "value"] = None
    tests = gate.test_all(frame).set_index("ordering")
    assert tests.loc["random above echo", "verdict"] == "undefined"
    assert tests.loc["random above echo", "n_missing"] == len(WOBBLE)
    assert "random above echo (undefined)" in gate.verdicts(tests.reset_index())["failed"].iloc[0]


def test_a_run_without_a_policy_is_refused_by_name():
    with pytest.raises(InputError, match="the run lacks random, silent"):
        gate.test_all(values({k: v for k, v in GOOD.items() if k not in ("random", "silent")}))


def test_parts_of_a_session_are_means_over_their_turns():
    turns = pd.DataFrame(
        {"model": "oracle", "session_id": "0", "since_shift": pd.array([None, None, 0, 1], dtype="Int64")}
    )
    turns = turns.assign(**dict.fromkeys(base.scored_names(base.TURN), 0.0)).assign(
        item_tas=[0.2, 0.4, 1.0, None]
    )
    results = pd.DataFrame([{"model": "oracle", "session_id": "0"}])
    results = results.assign(**dict.fromkeys(base.scored_names(), 0.5))
    found = gate.session_values(turns, results).query("metric == 'item_tas'").set_index("scope")["value"]
    assert found.to_dict() == pytest.approx({BEFORE: 0.3, AFTER: 1.0, WHOLE: 0.5})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(folder))
        gate.run(gate.GateConfig(n_sessions=12, n_turns=16), progress=False)
        yield "gate"


@pytest.mark.slow
def test_on_real_sessions_the_item_grounded_score_passes_and_the_plain_one_does_not(finished):
    marks = gate.marks(finished)
    assert marks["topic_adaptation_score"] == gate.NOT_VALID
    tests = gate.read(finished, "tests")
    item = tests[tests["metric"] == "satisfaction_corrected"].set_index("ordering")
    wide = item.drop(["oracle above tracker", "popular alike random"])  # too fine for 12 sessions
    assert set(wide["verdict"]) == {"pass"}
    assert wide.loc[RISING, "p"] < 0.001
    doses = gate.read(finished, "doses").query("metric == 'item_tas'")
    assert doses["dose"].tolist() == [0.0, 0.1, 0.3, 0.5, 0.7, 0.9]
    assert set(marks) == set(base.scored_names())
    found = {"normalised_gain": gate.NOT_VALID, "copying": gate.NOT_VALID, "release": gate.NOT_VALID}
    assert gate.unlike(found) == {"normalised_gain": ""}  # no gate is declared for release
    assert len(POLICIES) == 14


@pytest.mark.slow
def test_a_second_check_of_the_same_run_writes_the_same_tables(finished):
    before = gate.read(finished, "tests")
    gate.check(finished)
    pd.testing.assert_frame_equal(before, gate.read(finished, "tests"))


def test_marks_without_a_gate_name_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    with pytest.raises(RunError, match="python -m crs_lib gate --run other"):
        gate.marks("other")
    with pytest.raises(InputError, match="give one of metrics, tests, doses"):
        gate.read("other", "scores")
