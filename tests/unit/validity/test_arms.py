"""Twins, what must hold of the simulator, and that nothing tells straight users apart before a shift."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks import straight_users
from crs_lib import simulate
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.run import conversation_id
from crs_lib.validity import arms, promises, tables
from tests.helpers import refused
from tests.helpers.sample import GROUNDER, WORLD


def test_the_sceptics_policies_stand_where_they_must_by_the_gain_after_a_change():
    able = ("tracker", "first_change", "deaf_open", "ids_only")
    unable = ("deaf:4", "cling_near", "last_named", "load", "sticky")
    batch = SimulateConfig(systems=(*able, *unable), n_sessions=24, n_turns=8, seed=1)
    rows = [scores.session for _, scores in arms.scored(WORLD, batch, batch.n_sessions)]
    means = pd.DataFrame(rows).groupby("model")[["gain_after_change", "shift_cost"]].mean()
    after_change = means["gain_after_change"]
    for name in able:
        assert after_change[name] == pytest.approx(after_change["tracker"], abs=0.05)
    for name in unable:
        assert after_change[name] < after_change["tracker"] - 0.05
    assert means.loc["load", "shift_cost"] < 0.15  # who gets worse with each statement pays no shift cost


def test_the_twin_has_its_own_run_and_no_shift():
    twin = arms.twin(SimulateConfig(run="thesis", n_sessions=2))
    assert (twin.run, twin.arm) == ("thesis-none", "none")
    refused("has no shifts itself", arms.twin, twin)


@pytest.fixture(scope="module")
def talks():
    config = SimulateConfig(systems=("oracle", "random"), n_sessions=6, n_turns=16)
    keys = config.keys()
    return [simulate.session(WORLD, key.system, key.session, config) for key in keys]


@pytest.fixture(scope="module")
def shifting(talks):
    """A conversation and the turn of a shift that adds a constraint."""
    for talk in talks:
        for event in talk.shift_events:
            if event["added"]:
                return talk, event["turn"]
    raise AssertionError("no shift adds a constraint")


def with_text(talk, number, text):
    """The conversation with other words in one of its turns."""
    turns = list(talk.turns)
    turns[number] = replace(turns[number], text=text)
    return replace(talk, turns=tuple(turns))


def test_the_simulator_keeps_its_promises(talks):
    assert promises.checks(talks, GROUNDER)["holds"].tolist() == [True] * 5


def test_a_leak_is_found(shifting):
    talk, turn = shifting
    early = f"{talk.turns[0].text} {talk.turns[2 * turn - 2].text}"
    leaks = promises.leaks([with_text(talk, 0, early)], GROUNDER).set_index("turn")
    assert leaks.loc[turn, "leaked"]


def test_an_unvoiced_shift_is_found(shifting):
    talk, turn = shifting
    silent = with_text(talk, 2 * turn - 2, "Something else, please.")
    voiced = promises.voiced([silent], GROUNDER).set_index("turn")
    assert not voiced.loc[turn, "voiced"]


def test_repetitions_are_found_whatever_their_marks(talks):
    marks = itertools.cycle(["A b!", "a b"])
    turns = []
    for turn in talks[0].turns:
        turns.append(replace(turn, text=next(marks)) if turn.speaker == "USER" else turn)
    table = promises.checks([replace(talks[0], turns=tuple(turns))], GROUNDER).set_index("check")
    row = table.loc["user utterances repeated word for word"]
    assert row["share"] == 1 - 1 / 16
    assert not row["holds"]


def first_windows(choice, n, seed=31):
    """The first windows of ``n`` scenarios, and what both users said before them."""
    config = SimulateConfig(voices=choice, n_turns=8, seed=seed)
    windows = straight_users.windows(WORLD, config, n)
    return [window for window in windows if window.first]


@pytest.mark.full
def test_a_reader_does_not_tell_straight_from_shifting_users():
    windows = first_windows("all", 2100)
    assert len(windows) >= 2000
    assert 0.45 < straight_users.told_apart(windows, "counts") < 0.55


@pytest.mark.full
def test_a_reader_of_which_fields_are_named_finds_what_there_is_to_find():
    """Whoever never wanted what the other gives up names fewer fields."""
    assert straight_users.told_apart(first_windows("development", 600), "presence") > 0.8


@pytest.mark.slow
def test_an_open_beginning_gives_no_arm_away():
    begun = []
    for window in first_windows("development", 150):
        for user in window.said:
            opening = user.text.split("xturn")[0]
            begun.append(re.search(r"x(?!turn)", opening) is not None)
    shifting, straight = begun[::2], begun[1::2]
    assert 0.5 < np.mean(shifting) < 0.99
    assert shifting == straight


@pytest.mark.slow
def test_a_system_that_gets_worse_with_each_statement_is_charged_nothing():
    config = SimulateConfig(systems=("load", "sticky"), n_turns=8, seed=31)
    rows = straight_users.costs(straight_users.sessions(WORLD, config, 60))
    cost = {row.of: row.value for row in rows if row.measure == "shift_cost"}
    assert abs(cost["load"]) < 0.08
    assert cost["sticky"] > 0.1


def test_conversation_ids_are_digits_that_never_come_twice():
    ends = ("", ".shift.05", ".straight.05", ".none.05", ".shift.09")
    names = [f"{number:05d}{end}" for number in range(300) for end in ends]
    keys = list(itertools.product((7, 8), names, ("shift", "none", "straight", "fresh")))
    ids = [conversation_id(*key) for key in keys]
    assert len(set(ids)) == len(ids)
    assert ids == [conversation_id(*key) for key in keys]
    assert {len(name) for name in ids} == {18}
    assert "".join(ids).isdigit()


def test_the_confirmation_on_a_fresh_seed_holds_what_is_demanded_of_straight_users():
    record = tables.record("straight_users").query("seed == 20261129").set_index(["measure", "of"])
    cost = record.loc["shift_cost"]
    assert cost.loc["load", "value"] <= 0.05
    assert cost.loc["sticky", "value"] >= 0.2
    assert -0.03 < cost.loc["tracker", "low"] < 0 < cost.loc["tracker", "high"] < 0.03
    value = record["value"]
    assert value["fresh gain less its parts, largest", "scenario"] <= 1e-12
    assert value["printed parts that do not add up", "pairs"] == 0
    assert value["planned as many", "first"] >= 0.9
    assert value["planned as many, within one", "first"] >= 0.99
    assert 0.45 < value["AUC", "counts"] < 0.55
    assert record["n"]["AUC", "counts"] >= 2000
