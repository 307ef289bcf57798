"""The gate on made-up scores, where every verdict can be read off, and on real sessions; its protocol on paper."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from crs_lib.__main__ import main
from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.metrics import base
from crs_lib.systems import base as systems
from crs_lib.validity import gate
from crs_lib.validity.gate import Protocol
from tests.helpers import refused, table

CLING = [0.3, 0.5, 0.4, 0.6, 0.4]
NONE = [0.0, 0.01, -0.01, 0.0, 0.01]
NEAR = {"a": "oracle", "relation": "near", "value": 0.0, "margin": 0.03}
BEYOND = {"a": "sticky", "relation": "beyond", "value": 0.1}
NEVER = {"relation": "undefined"}


def frame(**costs):
    """Values of the metric in the arm with shifts, by system; nothing where nothing shifts."""
    rows = []
    for system, values in costs.items():
        for number, value in enumerate(values):
            rows.append(("shift", f"1/{number}", system, value))
            rows.append(("none", f"1/{number}", system, np.nan))
    return pd.DataFrame(rows, columns=["arm", "scenario", "system", "history_cost"])


def protocol(tmp_path, demands, **blocks):
    """A protocol with these demands of the metric."""
    path = tmp_path / "gate.yaml"
    content = table(__file__, "protocol") | {"demands": {"history_cost": demands}}
    path.write_text(yaml.safe_dump(content | blocks))
    return Protocol.read(path)


def verdicts(tmp_path, demands, values):
    tests = protocol(tmp_path, demands).test(values)
    return tests["verdict"].tolist()


def test_each_demand_is_one_test(tmp_path):
    above = {"a": "oracle", "relation": "above", "b": "sticky"}  # a cost: lower is better
    values = frame(oracle=NONE, sticky=CLING, random=NONE)
    tests = protocol(tmp_path, [above, NEAR, BEYOND, NEVER]).test(values)
    assert tests["verdict"].tolist() == ["pass"] * 4
    estimate = tests["estimate"]
    p = tests["p"]
    difference = np.array(CLING) - np.array(NONE)
    assert estimate[0] == pytest.approx(difference.mean())
    assert estimate[2] == pytest.approx(np.mean(CLING))  # the cost itself, not what lies beyond 0.1
    greater = stats.ttest_1samp(difference, 0, alternative="greater")
    assert p[0] == pytest.approx(greater.pvalue)
    low = stats.ttest_1samp(NONE, -0.03, alternative="greater")
    high = stats.ttest_1samp(NONE, 0.03, alternative="less")
    assert p[1] == pytest.approx(max(low.pvalue, high.pvalue))


def test_the_demands_of_a_metric_are_adjusted_together_and_carry_the_protocol(tmp_path):
    tests = protocol(tmp_path, [NEAR, BEYOND]).test(frame(oracle=NONE, sticky=CLING))
    smaller, larger = sorted(tests["p"])
    adjusted = [2 * smaller, max(2 * smaller, larger)]
    assert sorted(tests["p_holm"]) == pytest.approx(adjusted)
    assert tests["protocol"].nunique() == 1
    assert len(tests["protocol"][0]) == 64


def test_what_does_not_hold_fails(tmp_path):
    not_below = {"a": "oracle", "relation": "not_below", "b": "random", "margin": 0.02}
    above = {"a": "sticky", "relation": "above", "b": "oracle"}
    near = NEAR | {"a": "sticky"}
    values = frame(oracle=NONE, sticky=CLING, random=NONE)
    tests = protocol(tmp_path, [above, near, not_below]).test(values)
    assert tests["verdict"].tolist() == ["fail", "fail", "pass"]
    board = gate.demands_held(tests)
    assert board["held"].tolist() == [1]
    assert board["asked"].tolist() == [3]


def test_what_cannot_be_tested_is_decided_by_rule(tmp_path):
    never_shifting = frame(oracle=NONE).assign(history_cost=0.0)
    assert verdicts(tmp_path, [NEVER], never_shifting) == ["fail"]
    without_spread = frame(oracle=[0.0] * 3, sticky=[0.5] * 3)
    beyond_half = BEYOND | {"value": 0.5}
    assert verdicts(tmp_path, [NEAR, beyond_half], without_spread) == ["pass", "fail"]
    one_value = frame(oracle=[0.0])
    assert verdicts(tmp_path, [NEAR | {"margin": 1}], one_value) == ["fail"]


def test_the_protocol_of_the_package_names_what_exists():
    own = Protocol.read()
    assert systems.check(own.systems) == list(own.systems)
    demands = [(demand.metric, demand.text) for demand in own.demands]
    assert len(set(demands)) == len(demands)
    assert own.seeds("development") == [1, 2]
    for part in own.content["seeds"]:
        batch = own.batch(part, own.seeds(part)[0], "x", "sample", 1)
        assert batch.voices == part


def test_the_confirmation_seeds_of_the_protocol_are_its_own():
    own = Protocol.read()
    spent = set(own.seeds("development"))
    for other in own.log():
        if other["protocol"] != own.digest:
            spent.update(other["seeds"])
    assert not spent & set(own.seeds("confirmation"))


def test_a_metric_declares_what_the_confirmation_came_to():
    for name, verdict in Protocol.read().verdicts().items():
        assert base.get(name).mark == verdict.mark


def test_sessions_that_refine_first_are_a_stratum_of_the_systems_with_a_demand_there():
    own = Protocol.read()
    batch = own.control(own.batch("development", 1, "x", "sample", 1))
    assert batch.shift_types == ("refine",)
    assert batch.n_turns == 8
    assert sorted(batch.systems) == table(__file__, "refine_first")


@pytest.fixture
def only(tmp_path, monkeypatch):
    """Puts a protocol with these demands in the place of the package's, tested on a system that clings."""

    def put(demands):
        own = protocol(tmp_path, demands)
        monkeypatch.setattr(Protocol, "read", lambda: own)
        monkeypatch.setattr(Protocol, "values", lambda *_: frame(sticky=CLING))
        monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
        return own

    return put


def test_a_metric_has_no_verdict_before_its_protocol_is_confirmed_and_that_of_the_log_then(only):
    only([BEYOND])
    assert gate.verdicts().empty
    gate.confirm("protocol", "sample")
    (row,) = gate.verdicts().to_dict("records")
    assert row["metric"] == "history_cost"
    assert row["passed"] == 1
    assert row["asked"] == 1
    assert row["mark"] == ""


def test_what_rests_on_a_reader_decides_no_metric(tmp_path):
    lost = {"history_cost": [NEAR | {"a": "sticky", "margin": 0.1}]}
    tests = protocol(tmp_path, [BEYOND], of_readers=lost).test(frame(sticky=CLING))
    assert tests["verdict"].tolist() == ["pass", "fail"]
    assert tests["p_holm"].tolist() == tests["p"].tolist()  # each is adjusted within its own block
    assert gate.metric_verdicts(tests)["history_cost"].mark == ""


@pytest.mark.parametrize(("demand", "message"), table(__file__, "slips"))
def test_a_protocol_with_a_slip_is_refused(tmp_path, demand, message):
    refused(message, protocol, tmp_path, [demand])


def test_a_protocol_is_confirmed_once_and_the_verdict_is_kept(only, tmp_path):
    own = only([BEYOND | {"value": 0.9}])
    tests = gate.confirm("protocol", "sample")
    assert tests["verdict"].tolist() == ["fail"]
    log = tmp_path / gate.LOG
    record = json.loads(log.read_text())
    assert record["protocol"] == own.digest
    assert record["passed"] == 0
    assert record["asked"] == 1
    assert record["catalog"] == "sample"
    assert record["films"] == 770
    assert record["failed"] == ["history_cost: sticky beyond 0.9"]
    refused("was confirmed on 'sample' on .*0 of 1 demands held", gate.confirm, "x", "sample", error=RunError)
    same_films = tmp_path / "other.json"
    shutil.copy(paths.samples() / "movies.json", same_films)
    refused("was confirmed on 'other.json'", gate.confirm, "x", str(same_films), error=RunError)
    older = {key: value for key, value in record.items() if not key.startswith("films")}
    log.write_text(json.dumps(older) + "\n")
    refused("was confirmed on 'sample'", gate.confirm, "x", "sample", error=RunError)


@pytest.mark.parametrize("option", ["--sessions", "--turns", "--seed"])
def test_what_the_protocol_fixes_cannot_be_given(option, capsys):
    assert main(["gate", "--develop", option, "5"]) == 2
    assert "the protocol fixes it" in capsys.readouterr().err


def test_a_run_goes_with_a_test_of_the_protocol(capsys):
    assert main(["gate", "--run", "mine"]) == 2
    assert "run goes with --develop or --confirm" in capsys.readouterr().err


@pytest.mark.parametrize("words", table(__file__, "gone"))
def test_a_command_that_is_gone_says_where_it_went(words, capsys):
    assert main(words.split()) == 2
    assert "docs/records" in capsys.readouterr().err
