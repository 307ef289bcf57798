"""Exploitability: what counts as useless, and which scores a parrot or a near miss can raise."""

import numpy as np
import pandas as pd
import pytest

from crs_lib.core.errors import InputError
from crs_lib.metrics.records import Scores
from crs_lib.systems import base as systems
from crs_lib.systems.gamed import Tricks, read
from crs_lib.validity import redteam


def test_a_policy_is_its_spec():
    tricks = Tricks(lag=0.5, echoes=1)
    assert read(tricks.argument) == tricks
    assert systems.check([f"gamed:{tricks.argument}"])
    with pytest.raises(InputError, match="give 9 shares"):
        systems.check(["gamed:1/2"])


def test_the_search_is_seeded_and_begins_with_the_plain_echo():
    first, again = redteam._drawn(40, 1), redteam._drawn(40, 1)
    assert first == again != redteam._drawn(40, 2)
    assert first[0] == Tricks(abstention=1, echoes=1)
    assert len(first) == 40


def test_exploitability_is_the_rise_above_silence_and_chance_without_use():
    rows = [
        ("silent", 0.0, 0.0, -0.1), ("random", 0.05, 0.1, 0.0), ("oracle", 0.9, 0.1, 1.0),
        ("gamed:0/0/0/0/0/1/0/1/0", 0.0, 1.0, -0.1), ("gamed:0/0/0/0/0/0/0/0/1", 0.0, 0.2, 0.4),
        ("gamed:0/0/0/0/0/0/0/0/0", 0.9, 2.0, 0.9),
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["policy", "utility", "topic_adaptation_score", "normalised_gain"])
    found = redteam._exploitability(table, ["topic_adaptation_score", "normalised_gain"]).set_index("metric")
    assert found["exploitability"].to_dict() == pytest.approx(
        {"topic_adaptation_score": 0.9, "normalised_gain": 0}
    )
    assert found["near_misses"].to_dict() == pytest.approx(
        {"topic_adaptation_score": 0.1, "normalised_gain": 0.4}
    )
    assert found["mark"].to_dict() == {"topic_adaptation_score": "can be gamed", "normalised_gain": ""}
    assert found.loc["topic_adaptation_score", "worst"] == "gamed:0/0/0/0/0/1/0/1/0"


@pytest.mark.slow
def test_a_short_search_finds_the_parrot_and_spares_the_gain():
    found = redteam._exploitability(redteam.search(redteam.GateConfig(budget=12, n_sessions=2, n_turns=10)))
    rise = found.set_index("metric")["exploitability"]
    assert rise["topic_adaptation_score"] > 0.5
    assert rise["normalised_gain"] < 0.05


def test_a_sleight_counts_where_it_is_as_able_as_its_honest_base(monkeypatch):
    """Its exploit is the base's cost less its own; a policy that is weaker with straight users is left out."""
    made = {"sticky": (0.4, 0.8), "one_slot_sticky": (0.3, 0.8), "stickyk:1": (0.1, 0.6), "tracker": (0.1, 0.9)}

    def scored(config, specs, n):
        assert (config.n_turns, n) == (8, 100)
        return {
            spec: [
                Scores([], [], {"shift_cost": cost + wobble, "straight_gain": able})
                for cost, able in [made.get(spec, (0.5, 0.2))]
                for wobble in (*np.linspace(-0.05, 0.05, 20), float("nan"))
            ]
            for spec in specs
        }

    monkeypatch.setattr(redteam, "_scored", scored)
    found = redteam._sleights(redteam.GateConfig(n_sessions=2, seed=1)).set_index("metric")
    assert found["exploitability"].to_dict() == pytest.approx({"shift_cost": 0.1, "share_lost": 0.125})
    assert set(found["worst"]) == {"one_slot_sticky"} and set(found["n"]) == {1}
    assert (found["low"] <= found["exploitability"]).all() and (found["exploitability"] <= found["high"]).all()


def test_no_sleight_that_is_as_able_is_no_number(monkeypatch):
    weak = {spec: [Scores([], [], {"shift_cost": 0.1, "straight_gain": 0.1})] * 3 for spec in redteam.SLEIGHTS}
    honest = {spec: [Scores([], [], {"shift_cost": 0.4, "straight_gain": 0.9})] * 3 for spec in ("sticky", "tracker")}
    monkeypatch.setattr(redteam, "_scored", lambda *_: weak | honest)
    found = redteam._sleights(redteam.GateConfig(n_sessions=2))
    assert found["exploitability"].isna().all() and (found["n"] == 0).all()
