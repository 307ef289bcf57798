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
    path = tmp_path / "gate.yaml"
    parts = {"development": 2, "confirmation": 2}
    content = {
        "alpha": 0.05,
        "systems": ["oracle", "sticky", "random"],
        "demands": {"history_cost": demands},
        "seeds": {"development": [1], "confirmation": [2]},
        "n_sessions": parts,
        "n_turns": 8,
        "voices": {"development": "A", "confirmation": "confirmation"},
    }
    path.write_text(yaml.safe_dump(content | blocks))
    return Protocol.read(path)


def verdicts(tmp_path, demands, table):
    return protocol(tmp_path, demands).test(table)["verdict"].tolist()


def test_each_demand_is_one_test(tmp_path):
    above = {"a": "oracle", "relation": "above", "b": "sticky"}  # a cost: lower is better
    demands = [above, NEAR, BEYOND, NEVER]
    tests = protocol(tmp_path, demands).test(frame(oracle=NONE, sticky=CLING, random=NONE))
    assert tests["verdict"].tolist() == ["pass"] * 4
    difference = np.array(CLING) - np.array(NONE)
    assert tests["estimate"][0] == pytest.approx(difference.mean())
    assert tests["estimate"][2] == pytest.approx(np.mean(CLING))  # the cost itself, not what lies beyond 0.1
    p = stats.ttest_1samp(difference, 0, alternative="greater").pvalue
    assert tests["p"][0] == pytest.approx(p)
    low = stats.ttest_1samp(NONE, -0.03, alternative="greater").pvalue
    high = stats.ttest_1samp(NONE, 0.03, alternative="less").pvalue
    assert tests["p"][1] == pytest.approx(max(low, high))


def test_the_demands_of_a_metric_are_adjusted_together_and_carry_the_protocol(tmp_path):
    tests = protocol(tmp_path, [NEAR, BEYOND]).test(frame(oracle=NONE, sticky=CLING))
    p = sorted(tests["p"])
    assert sorted(tests["p_holm"]) == pytest.approx([2 * p[0], max(2 * p[0], p[1])])
    assert tests["protocol"].nunique() == 1
    assert len(tests["protocol"][0]) == 64


def test_what_does_not_hold_fails(tmp_path):
    not_below = {"a": "oracle", "relation": "not_below", "b": "random", "margin": 0.02}
    demands = [{"a": "sticky", "relation": "above", "b": "oracle"}, NEAR | {"a": "sticky"}, not_below]
    tests = protocol(tmp_path, demands).test(frame(oracle=NONE, sticky=CLING, random=NONE))
    assert tests["verdict"].tolist() == ["fail", "fail", "pass"]
    board = gate.demands_held(tests)
    assert board["held"].tolist() == [1]
    assert board["asked"].tolist() == [3]


def test_what_cannot_be_tested_is_decided_by_rule(tmp_path):
    never_shifting = frame(oracle=NONE).assign(history_cost=0.0)
    assert verdicts(tmp_path, [NEVER], never_shifting) == ["fail"]
    without_spread = frame(oracle=[0.0] * 3, sticky=[0.5] * 3)
    assert verdicts(tmp_path, [NEAR, BEYOND | {"value": 0.5}], without_spread) == ["pass", "fail"]
    assert verdicts(tmp_path, [NEAR | {"margin": 1}], frame(oracle=[0.0])) == ["fail"]


def test_the_protocol_of_the_package_names_what_exists():
    own = Protocol.read()
    assert systems.check(own.systems) == list(own.systems)
    assert len({(demand.metric, demand.text) for demand in own.demands}) == len(own.demands)
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


def test_a_metric_has_no_verdict_before_its_protocol_is_confirmed_and_that_of_the_log_then(
    tmp_path, monkeypatch
):
    own = protocol(tmp_path, [BEYOND])
    monkeypatch.setattr(Protocol, "read", lambda: own)
    monkeypatch.setattr(Protocol, "values", lambda *_: frame(sticky=CLING))
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    assert gate.verdicts().empty
    gate.confirm("protocol", "sample")
    row = gate.verdicts().set_index("metric").loc["history_cost"]
    assert (row["passed"], row["asked"], row["mark"]) == (1, 1, "")


def test_what_rests_on_a_reader_decides_no_metric(tmp_path):
    lost = {"history_cost": [NEAR | {"a": "sticky", "margin": 0.1}]}
    tests = protocol(tmp_path, [BEYOND], of_readers=lost).test(frame(sticky=CLING))
    assert tests["verdict"].tolist() == ["pass", "fail"]
    assert tests["p_holm"].tolist() == tests["p"].tolist()  # each is adjusted within its own block
    assert gate.metric_verdicts(tests)["history_cost"].mark == ""


@pytest.mark.parametrize(("demand", "message"), table(__file__, "slips"))
def test_a_protocol_with_a_slip_is_refused(tmp_path, demand, message):
    refused(message, protocol, tmp_path, [demand])


def test_a_protocol_is_confirmed_once_and_the_verdict_is_kept(tmp_path, monkeypatch):
    own = protocol(tmp_path, [BEYOND | {"value": 0.9}])
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(Protocol, "read", lambda: own)
    monkeypatch.setattr(Protocol, "values", lambda *_: frame(sticky=CLING))
    assert gate.confirm("protocol", "sample")["verdict"].tolist() == ["fail"]
    record = json.loads((tmp_path / gate.LOG).read_text())
    wanted = {"protocol": own.digest, "passed": 0, "asked": 1, "catalog": "sample", "films": 770}
    assert wanted.items() <= record.items()
    assert record["failed"] == ["history_cost: sticky beyond 0.9"]
    refused("was confirmed on 'sample' on .*0 of 1 demands held", gate.confirm, "x", "sample", error=RunError)
    same_films = tmp_path / "other.json"
    shutil.copy(paths.samples() / "movies.json", same_films)
    refused("was confirmed on 'other.json'", gate.confirm, "x", str(same_films), error=RunError)
    older = {key: value for key, value in record.items() if not key.startswith("films")}
    (tmp_path / gate.LOG).write_text(json.dumps(older) + "\n")
    refused("was confirmed on 'sample'", gate.confirm, "x", "sample", error=RunError)


@pytest.mark.parametrize("options", [["--sessions", "5"], ["--turns", "3"], ["--seed", "5"]])
def test_what_the_protocol_fixes_cannot_be_given(options, capsys):
    assert main(["gate", "--develop", *options]) == 2
    assert "the protocol fixes it" in capsys.readouterr().err


def test_a_run_goes_with_a_test_of_the_protocol(capsys):
    assert main(["gate", "--run", "mine"]) == 2
    assert "run goes with --develop or --confirm" in capsys.readouterr().err


@pytest.mark.parametrize("words", table(__file__, "gone"))
def test_a_command_that_is_gone_says_where_it_went(words, capsys):
    assert main(words.split()) == 2
    assert "docs/records" in capsys.readouterr().err
