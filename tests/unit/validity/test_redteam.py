"""Policies of no use, and how far they raise a score: the search of the red team, on paper and on real sessions."""

import numpy as np
import pandas as pd
import pytest

from crs_lib.metrics.records import Scores
from crs_lib.systems import base as systems
from tests.helpers import redteam, refused
from tests.helpers.gamed import Tricks, read

PARROT = "gamed:0/0/0/0/0/1/0/1/0"
METRICS = ["topic_adaptation_score", "normalised_gain"]


def test_a_policy_is_its_spec():
    tricks = Tricks(lag=0.5, echoes=1)
    assert read(tricks.argument) == tricks
    assert systems.check([f"gamed:{tricks.argument}"])
    refused("give 9 shares", systems.check, ["gamed:1/2"])


def test_the_search_is_seeded():
    tricks = redteam.drawn_tricks(40, 1)
    assert len(tricks) == 40
    assert tricks[0] == Tricks(abstention=1, echoes=1)
    assert tricks == redteam.drawn_tricks(40, 1)
    assert tricks != redteam.drawn_tricks(40, 2)


def test_exploitability_is_the_rise_above_silence_and_chance():
    rows = [
        ("silent", 0.0, 0.0, -0.1),
        ("random", 0.05, 0.1, 0.0),
        ("oracle", 0.9, 0.1, 1.0),
        (PARROT, 0.0, 1.0, -0.1),
        ("gamed:0/0/0/0/0/0/0/0/1", 0.0, 0.2, 0.4),
        ("gamed:0/0/0/0/0/0/0/0/0", 0.9, 2.0, 0.9),
    ]
    table = redteam.exploitability(pd.DataFrame(rows, columns=["policy", "utility", *METRICS]), METRICS)
    table = table.set_index("metric").loc[METRICS]
    assert table["exploitability"].tolist() == pytest.approx([0.9, 0])
    assert table["near_misses"].tolist() == pytest.approx([0.1, 0.4])
    assert table["mark"].tolist() == ["can be gamed", ""]
    assert table.loc["topic_adaptation_score", "worst"] == PARROT


@pytest.mark.slow
def test_a_short_search_finds_the_parrot_and_spares_the_gain():
    config = redteam.USUAL.changed(n_sessions=2, n_turns=10)
    table = redteam.exploitability(redteam.search(config, 12)).set_index("metric")
    assert table.loc["topic_adaptation_score", "exploitability"] > 0.5
    assert table.loc["normalised_gain", "exploitability"] < 0.05


def session(cost, able):
    return Scores([], [], {"shift_cost": cost, "straight_gain": able})


def test_a_sleight_counts_where_it_is_as_able_as_its_base(monkeypatch):
    """Its exploit is the base's cost less its own; a policy that is weaker with straight users is left out."""
    values = {
        "sticky": (0.4, 0.8),
        "one_slot_sticky": (0.3, 0.8),
        "stickyk:1": (0.1, 0.6),
        "tracker": (0.1, 0.9),
    }

    def scored(config, specs, n, voices):
        assert (config.n_turns, n, voices) == (8, 100, "all")
        scores = {}
        for spec in specs:
            cost, able = values.get(spec, (0.5, 0.2))
            wobbles = [*np.linspace(-0.05, 0.05, 20), float("nan")]
            scores[spec] = [session(cost + wobble, able) for wobble in wobbles]
        return scores

    monkeypatch.setattr(redteam, "scored", scored)
    table = redteam.sleights(redteam.USUAL.changed(n_sessions=2)).set_index("metric")
    assert table["exploitability"].to_dict() == pytest.approx({"shift_cost": 0.1, "share_lost": 0.125})
    assert set(table["worst"]) == {"one_slot_sticky"}
    assert set(table["n"]) == {3}
    assert table["exploitability"].between(table["low"], table["high"]).all()


def test_without_a_policy_as_able_there_is_no_number(monkeypatch):
    scores = {spec: [session(0.1, 0.1)] * 3 for spec in redteam.SLEIGHTS}
    scores["sticky"] = scores["tracker"] = [session(0.4, 0.9)] * 3
    scores["pad_sticky:3"] = [session(0.2, 0.5)] * 3
    monkeypatch.setattr(redteam, "scored", lambda *_: scores)
    table = redteam.sleights(redteam.USUAL.changed(n_sessions=2))
    assert table["exploitability"].isna().all()
    assert table["n"].tolist() == [0, 0]
