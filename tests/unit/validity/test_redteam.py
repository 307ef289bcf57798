"""Exploitability: what counts as useless, and which scores a parrot or a near miss can raise."""

import pandas as pd
import pytest

from crs_lib.core.errors import InputError
from crs_lib.systems import base as systems
from crs_lib.systems.gamed import Tricks, read
from crs_lib.validity import redteam


def test_a_policy_is_its_spec_and_the_search_is_seeded():
    tricks = Tricks(lag=0.5, echoes=1)
    assert read(tricks.argument) == tricks
    assert systems.check([f"gamed:{tricks.argument}"])
    with pytest.raises(InputError, match="give 9 shares"):
        systems.check(["gamed:1/2"])
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
