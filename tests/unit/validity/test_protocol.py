"""The gate's second edition: tests on paper, what a protocol refuses, and one confirmation each."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from crs_lib.__main__ import main
from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.systems import base as systems
from crs_lib.validity import protocol
from crs_lib.validity.protocol import Demand


def frame(**systems_):
    """Values of the metric in the arm with shifts, by system; nothing where nothing shifts."""
    rows = [
        {
            "arm": arm,
            "scenario": f"1/{i}",
            "system": name,
            "history_cost": value if arm == "shift" else np.nan,
        }
        for name, values in systems_.items()
        for i, value in enumerate(values)
        for arm in ("shift", "none")
    ]
    return pd.DataFrame(rows)


def outcome(tmp_path, demands, table):
    path = tmp_path / "gate.yaml"
    content = {
        "alpha": 0.05, "systems": ["oracle", "sticky", "random"], "demands": {"history_cost": demands},
        "seeds": {"development": [1], "confirmation": [2]}, "n_sessions": {"development": 2, "confirmation": 2}, "n_turns": 8,
        "templates": {"development": "A", "confirmation": "B"},
    }  # fmt: skip
    path.write_text(yaml.safe_dump(content))
    return protocol.test(table, protocol.read(path))


CLING, NONE = [0.3, 0.5, 0.4, 0.6, 0.4], [0.0, 0.01, -0.01, 0.0, 0.01]


def test_each_demand_is_one_test_and_the_demands_of_a_metric_are_adjusted_together(tmp_path):
    demands = [
        {"a": "oracle", "relation": "above", "b": "sticky"},  # a cost: lower is better
        {"a": "oracle", "relation": "near", "value": 0.0, "margin": 0.03},
        {"a": "sticky", "relation": "beyond", "value": 0.1},
        {"relation": "undefined"},
    ]
    found = outcome(tmp_path, demands, frame(oracle=NONE, sticky=CLING, random=NONE))
    assert found["verdict"].tolist() == ["pass"] * 4
    difference = np.array(CLING) - np.array(NONE)
    assert found["estimate"][0] == pytest.approx(difference.mean())
    assert found["estimate"][2] == pytest.approx(np.mean(CLING))  # the cost itself, not what lies beyond 0.1
    p = stats.ttest_1samp(difference, 0, alternative="greater").pvalue
    assert found["p"][0] == pytest.approx(p)
    low = stats.ttest_1samp(NONE, -0.03, alternative="greater").pvalue
    high = stats.ttest_1samp(NONE, 0.03, alternative="less").pvalue
    assert found["p"][1] == pytest.approx(max(low, high))
    assert (found["p_holm"] >= found["p"]).all()
    assert found["protocol"].nunique() == 1
    assert len(found["protocol"][0]) == 64


def test_what_does_not_hold_fails(tmp_path):
    demands = [
        {"a": "sticky", "relation": "above", "b": "oracle"},
        {"a": "sticky", "relation": "near", "value": 0.0, "margin": 0.03},
        {"a": "oracle", "relation": "not_below", "b": "random", "margin": 0.02},
    ]
    found = outcome(tmp_path, demands, frame(oracle=NONE, sticky=CLING, random=NONE))
    assert found["verdict"].tolist() == ["fail", "fail", "pass"]
    board = protocol.verdicts(found)
    assert board[["held", "asked"]].to_numpy().tolist() == [[1, 3]]


def test_a_metric_with_values_where_nothing_shifts_fails(tmp_path):
    table = frame(oracle=NONE).assign(history_cost=0.0)
    assert outcome(tmp_path, [{"relation": "undefined"}], table)["verdict"].tolist() == ["fail"]


def test_values_without_spread_are_decided_without_a_test(tmp_path):
    demands = [{"a": "oracle", "relation": "near", "value": 0.0, "margin": 0.03},
               {"a": "sticky", "relation": "beyond", "value": 0.5}]  # fmt: skip
    found = outcome(tmp_path, demands, frame(oracle=[0.0] * 3, sticky=[0.5] * 3))
    assert found["p"].tolist() == [0, 1]


def test_too_few_scenarios_pass_nothing(tmp_path):
    found = outcome(
        tmp_path, [{"a": "oracle", "relation": "near", "value": 0, "margin": 1}], frame(oracle=[0.0])
    )
    assert found["verdict"].tolist() == ["fail"]


def test_the_protocol_of_the_package_names_what_exists():
    own = protocol.read()
    assert systems.check(own.content["systems"]) == own.content["systems"]
    assert own.seeds("development") == [1, 2, 3, 4, 5]
    assert own.seeds("confirmation") == list(range(201, 211))
    assert len({(one.metric, one.text) for one in own.demands}) == len(own.demands)


@pytest.mark.parametrize(
    ("demand", "message"),
    [
        ({"a": "oracle", "relation": "over", "b": "random"}, "relation 'over' is none of above, not_below"),
        ({"a": "oracle", "relation": "above", "b": "rndom"}, "names 'rndom', which is not in systems"),
    ],
)
def test_a_protocol_with_a_slip_is_refused(tmp_path, demand, message):
    with pytest.raises(InputError, match=message):
        outcome(tmp_path, [demand], frame(oracle=NONE))


def test_a_protocol_is_confirmed_once_and_the_verdict_is_kept(tmp_path, monkeypatch):
    outcome(tmp_path, [{"a": "sticky", "relation": "beyond", "value": 0.9}], frame(sticky=CLING))
    own = protocol.read(tmp_path / "gate.yaml")
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(protocol, "read", lambda: own)
    monkeypatch.setattr(protocol, "values", lambda *_, **__: frame(sticky=CLING))
    config = protocol.ProtocolConfig()
    assert protocol.confirm(config)["verdict"].tolist() == ["fail"]
    record = json.loads((tmp_path / protocol.LOG).read_text())
    assert (record["protocol"], record["passed"], record["asked"]) == (own.digest, 0, 1)
    assert record["failed"] == ["history_cost: sticky beyond 0.9"]
    assert (record["catalog"], record["films"]) == ("sample", 770)
    with pytest.raises(RunError, match=r"was confirmed on 'sample' on .*0 of 1 demands held"):
        protocol.confirm(config)
    copy = shutil.copy(paths.samples() / "movies.json", tmp_path / "other.json")
    with pytest.raises(RunError, match=r"was confirmed on 'other.json' on .*0 of 1 demands held"):
        protocol.confirm(protocol.ProtocolConfig(catalog=str(copy)))  # the same films under another name
    older = {key: value for key, value in record.items() if not key.startswith("films")}
    (tmp_path / protocol.LOG).write_text(json.dumps(older) + "\n")
    with pytest.raises(RunError, match=r"was confirmed on 'sample'"):
        protocol.confirm(config)


def test_a_demand_is_said_in_words():
    assert Demand("history_cost", "near", "oracle", "", 0.0, 0.03).text == "oracle equal to 0 within 0.03"
    assert Demand("uptake", "above", "oracle", "oracle_lag:1").text == "oracle better than oracle_lag:1"


@pytest.mark.parametrize("given", [["--sessions", "5"], ["--turns", "3"], ["--seed", "5"]])
def test_what_the_protocol_fixes_cannot_be_given(given, capsys):
    assert main(["gate", "--develop", *given]) == 2
    assert "the protocol fixes it" in capsys.readouterr().err
