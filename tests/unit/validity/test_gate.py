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
from crs_lib.metrics.records import Scores
from crs_lib.systems import base as systems
from crs_lib.systems.gamed import Tricks, read
from crs_lib.validity import gate, redteam
from crs_lib.validity.gate import Protocol
from tests.helpers import refused


def frame(**systems_):
    """Values of the metric in the arm with shifts, by system; nothing where nothing shifts."""
    rows = [
        (arm, f"1/{i}", name, value if arm == "shift" else np.nan)
        for name, values in systems_.items() for i, value in enumerate(values) for arm in ("shift", "none")
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["arm", "scenario", "system", "history_cost"])


def outcome(tmp_path, demands, table):
    path = tmp_path / "gate.yaml"
    content = {
        "alpha": 0.05, "systems": ["oracle", "sticky", "random"], "demands": {"history_cost": demands},
        "seeds": {"development": [1], "confirmation": [2]}, "n_sessions": {"development": 2, "confirmation": 2}, "n_turns": 8,
        "voices": {"development": "A", "confirmation": "confirmation"},
    }  # fmt: skip
    path.write_text(yaml.safe_dump(content))
    return Protocol.read(path).test(table)


CLING, NONE = [0.3, 0.5, 0.4, 0.6, 0.4], [0.0, 0.01, -0.01, 0.0, 0.01]
NEAR = {"a": "oracle", "relation": "near", "value": 0.0, "margin": 0.03}
BEYOND = {"a": "sticky", "relation": "beyond", "value": 0.1}


def test_each_demand_is_one_test_and_the_demands_of_a_metric_are_adjusted_together(tmp_path):
    above = {"a": "oracle", "relation": "above", "b": "sticky"}  # a cost: lower is better
    demands = [above, NEAR, BEYOND, {"relation": "undefined"}]
    found = outcome(tmp_path, demands, frame(oracle=NONE, sticky=CLING, random=NONE))
    assert found["verdict"].tolist() == ["pass"] * 4
    difference = np.array(CLING) - np.array(NONE)
    assert found["estimate"][0] == pytest.approx(difference.mean())
    assert found["estimate"][2] == pytest.approx(np.mean(CLING))  # the cost itself, not what lies beyond 0.1
    p = stats.ttest_1samp(difference, 0, alternative="greater").pvalue
    assert found["p"][0] == pytest.approx(p)
    low = stats.ttest_1samp(NONE, -0.03, alternative="greater").pvalue
    high = stats.ttest_1samp(NONE, 0.03, alternative="less").pvalue
    assert found["p"][1] == pytest.approx(max(low, high)) and (found["p_holm"] >= found["p"]).all()
    assert found["protocol"].nunique() == 1 and len(found["protocol"][0]) == 64


def test_what_does_not_hold_fails_and_what_cannot_be_tested_is_decided_by_rule(tmp_path):
    not_below = {"a": "oracle", "relation": "not_below", "b": "random", "margin": 0.02}
    demands = [{"a": "sticky", "relation": "above", "b": "oracle"}, NEAR | {"a": "sticky"}, not_below]
    found = outcome(tmp_path, demands, frame(oracle=NONE, sticky=CLING, random=NONE))
    assert found["verdict"].tolist() == ["fail", "fail", "pass"]
    board = gate.board(found)
    assert board[["held", "asked"]].to_numpy().tolist() == [[1, 3]]
    table = frame(oracle=NONE).assign(history_cost=0.0)
    assert outcome(tmp_path, [{"relation": "undefined"}], table)["verdict"].tolist() == ["fail"]
    found = outcome(tmp_path, [NEAR, BEYOND | {"value": 0.5}], frame(oracle=[0.0] * 3, sticky=[0.5] * 3))
    assert found["p"].tolist() == [0, 1]
    assert outcome(tmp_path, [NEAR | {"margin": 1}], frame(oracle=[0.0]))["verdict"].tolist() == ["fail"]


def test_the_protocol_of_the_package_names_what_exists_and_marks_are_those_of_its_confirmation():
    own = Protocol.read()
    assert systems.check(own.content["systems"]) == own.content["systems"]
    assert own.seeds("development") == [1, 2]
    spent = {seed for line in own.log() if line["protocol"] != own.digest for seed in line["seeds"]}
    assert not {*own.seeds("confirmation")} & {*own.seeds("development"), *spent}
    assert len({(one.metric, one.text) for one in own.demands}) == len(own.demands)
    voices = [own.batch(part, own.seeds(part)[0], "x", "sample", 1).voices for part in own.content["seeds"]]
    assert voices == ["development", "confirmation"]
    # One list: what a metric of the protocol declares is what its confirmation found.
    own = Protocol.read()
    held = own.verdicts()
    assert set(held) == own.metrics
    assert {name: base.get(name).mark for name in held} == {name: held[name]["mark"] for name in held}


def test_a_metric_of_the_protocol_has_its_verdict_and_no_other(tmp_path, monkeypatch):
    outcome(tmp_path, [BEYOND], frame(sticky=CLING))
    own = Protocol.read(tmp_path / "gate.yaml")
    monkeypatch.setattr(Protocol, "read", lambda: own)
    assert gate.verdicts().empty  # not confirmed yet
    record = {"protocol": own.digest, "metrics": gate._by_metric(own.test(frame(sticky=CLING)))}
    (tmp_path / gate.LOG).write_text(json.dumps(record) + "\n")
    found = gate.verdicts().set_index("metric").loc["history_cost"]
    assert (found["passed"], found["asked"], found["mark"]) == (1, 1, "")
    assert main(["gate", "--run", "mine"]) == 2  # --run goes with --develop, --confirm or --redteam


def test_what_rests_on_a_reader_decides_no_metric(tmp_path):
    outcome(tmp_path, [BEYOND], frame(sticky=CLING))
    content = yaml.safe_load((tmp_path / "gate.yaml").read_text())
    lost = {"history_cost": [NEAR | {"a": "sticky", "margin": 0.1}]}
    (tmp_path / "gate.yaml").write_text(yaml.safe_dump(content | {"of_readers": lost}))
    found = Protocol.read(tmp_path / "gate.yaml").test(frame(sticky=CLING))
    assert found["verdict"].tolist() == ["pass", "fail"]
    assert found["p_holm"].tolist() == found["p"].tolist()  # each is adjusted within its own block
    assert gate._by_metric(found)["history_cost"]["mark"] == ""


@pytest.mark.parametrize(("demand", "message"), [
    ({"a": "oracle", "relation": "over", "b": "random"}, "relation 'over' is none of above, not_below"),
    ({"a": "oracle", "relation": "above", "b": "rndom"}, "names 'rndom', which is not in systems"),
])  # fmt: skip
def test_a_protocol_with_a_slip_is_refused(tmp_path, demand, message):
    refused(message, outcome, tmp_path, [demand], frame(oracle=NONE))


def test_a_protocol_is_confirmed_once_and_the_verdict_is_kept(tmp_path, monkeypatch):
    outcome(tmp_path, [BEYOND | {"value": 0.9}], frame(sticky=CLING))
    own = Protocol.read(tmp_path / "gate.yaml")
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(Protocol, "read", lambda: own)
    monkeypatch.setattr(Protocol, "values", lambda *_, **__: frame(sticky=CLING))
    assert gate.confirm("protocol", "sample")["verdict"].tolist() == ["fail"]
    record = json.loads((tmp_path / gate.LOG).read_text())
    wanted = {"protocol": own.digest, "passed": 0, "asked": 1, "catalog": "sample", "films": 770}
    assert (wanted | {"failed": ["history_cost: sticky beyond 0.9"]}).items() <= record.items()
    shutil.copy(paths.samples() / "movies.json", tmp_path / "other.json")
    for name in ("sample", str(tmp_path / "other.json")):  # the same films under another name
        told = f"was confirmed on '{name.rpartition('/')[2]}' on .*0 of 1 demands held"
        refused(told, gate.confirm, "protocol", name, error=RunError)
    older = {key: value for key, value in record.items() if not key.startswith("films")}
    (tmp_path / gate.LOG).write_text(json.dumps(older) + "\n")
    refused(r"was confirmed on 'sample'", gate.confirm, "protocol", "sample", error=RunError)


@pytest.mark.parametrize("given", [["--sessions", "5"], ["--turns", "3"], ["--seed", "5"]])
def test_what_the_protocol_fixes_cannot_be_given(given, capsys):
    assert main(["gate", "--develop", *given]) == 2
    assert "the protocol fixes it" in capsys.readouterr().err


def test_a_policy_is_its_spec_the_search_seeded_and_exploitability_the_rise_above_silence_and_chance():
    tricks = Tricks(lag=0.5, echoes=1)
    assert read(tricks.argument) == tricks
    assert systems.check([f"gamed:{tricks.argument}"])
    refused("give 9 shares", systems.check, ["gamed:1/2"])
    first, again = redteam._drawn(40, 1), redteam._drawn(40, 1)
    assert first == again != redteam._drawn(40, 2) and first[0] == Tricks(abstention=1, echoes=1)
    assert len(first) == 40
    rows = [
        ("silent", 0.0, 0.0, -0.1), ("random", 0.05, 0.1, 0.0), ("oracle", 0.9, 0.1, 1.0),
        ("gamed:0/0/0/0/0/1/0/1/0", 0.0, 1.0, -0.1), ("gamed:0/0/0/0/0/0/0/0/1", 0.0, 0.2, 0.4),
        ("gamed:0/0/0/0/0/0/0/0/0", 0.9, 2.0, 0.9),
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["policy", "utility", "topic_adaptation_score", "normalised_gain"])
    names = ["topic_adaptation_score", "normalised_gain"]
    found = redteam._exploitability(table, names).set_index("metric").loc[names]
    assert found["exploitability"].tolist() == pytest.approx([0.9, 0])
    assert found["near_misses"].tolist() == pytest.approx([0.1, 0.4])
    assert found["mark"].tolist() == ["can be gamed", ""]
    assert found.loc["topic_adaptation_score", "worst"] == "gamed:0/0/0/0/0/1/0/1/0"


@pytest.mark.slow
def test_a_short_search_finds_the_parrot_and_spares_the_gain():
    found = redteam._exploitability(redteam.search(redteam.GateConfig(budget=12, n_sessions=2, n_turns=10)))
    rise = found.set_index("metric")["exploitability"]
    assert rise["topic_adaptation_score"] > 0.5 and rise["normalised_gain"] < 0.05


def test_a_sleight_counts_where_it_is_as_able_as_its_base_and_without_any_there_is_no_number(monkeypatch):
    """Its exploit is the base's cost less its own; a policy that is weaker with straight users is left out."""
    made = {
        "sticky": (0.4, 0.8),
        "one_slot_sticky": (0.3, 0.8),
        "stickyk:1": (0.1, 0.6),
        "tracker": (0.1, 0.9),
    }

    def of(cost, able):
        return Scores([], [], {"shift_cost": cost, "straight_gain": able})

    def scored(config, specs, n, voices):
        assert (config.n_turns, n, voices) == (8, 100, "all")
        wobbles = (*np.linspace(-0.05, 0.05, 20), float("nan"))
        values = {spec: made.get(spec, (0.5, 0.2)) for spec in specs}
        return {spec: [of(c + wobble, able) for wobble in wobbles] for spec, (c, able) in values.items()}

    monkeypatch.setattr(redteam, "_scored", scored)
    found = redteam._sleights(redteam.GateConfig(n_sessions=2, seed=1)).set_index("metric")
    assert found["exploitability"].to_dict() == pytest.approx({"shift_cost": 0.1, "share_lost": 0.125})
    assert set(found["worst"]) == {"one_slot_sticky"} and set(found["n"]) == {3}
    assert found["exploitability"].between(found["low"], found["high"]).all()
    numbers = ((0.1, 0.1), (0.4, 0.9), (0.2, 0.5))
    weak, able, padded = ([of(*one)] * 3 for one in numbers)
    made = dict.fromkeys(redteam.SLEIGHTS, weak) | {"sticky": able, "tracker": able, "pad_sticky:3": padded}
    monkeypatch.setattr(redteam, "_scored", lambda *_: made)
    found = redteam._sleights(redteam.GateConfig(n_sessions=2))
    assert found["exploitability"].isna().all() and (found["n"] == 0).all()
