"""Twins, and what must hold of the simulator."""

import itertools
from dataclasses import replace

import pytest

from crs_lib import simulate
from crs_lib.core.dialogue import Turn
from crs_lib.core.errors import InputError
from crs_lib.simulate.config import SimulateConfig
from crs_lib.validity import arms, realism
from tests.helpers.sample import WORLD


def test_the_twin_has_its_own_run_and_no_shift():
    config = SimulateConfig(run="thesis", n_sessions=2)
    assert (arms._twin(config).run, arms._twin(config).arm) == ("thesis-none", "none")
    with pytest.raises(InputError, match="has no shifts itself"):
        arms._twin(arms._twin(config))


@pytest.fixture(scope="module")
def talks():
    world = WORLD
    config = SimulateConfig(systems=("oracle", "random"), n_sessions=6, n_turns=16)
    keys = config.keys()
    return world, [simulate.session(world, key.system, key.session, config) for key in keys]


def test_the_simulator_passes_its_checks(talks):
    world, dialogues = talks
    table = realism.checks(dialogues, world.grounder)
    assert table["holds"].tolist() == [True] * 4


def test_a_leak_and_an_unvoiced_shift_are_found(talks):
    world, dialogues = talks
    one = next(d for d in dialogues if any(e["added"] for e in d.shift_events))
    place = next(e["turn"] for e in one.shift_events if e["added"])
    said = one.turns[2 * place - 2]
    spoilt = list(one.turns)
    spoilt[0] = replace(spoilt[0], text=f"{spoilt[0].text} {said.text}")
    leaked = realism._leaks([replace(one, turns=tuple(spoilt))], world.grounder)
    assert leaked.set_index("turn").loc[place, "leaked"]
    silent = list(one.turns)
    silent[2 * place - 2] = Turn("USER", "Something else, please.", said.meta)
    found = realism._voiced([replace(one, turns=tuple(silent))], world.grounder)
    assert not found.set_index("turn").loc[place, "voiced"]


def test_repetitions_are_counted_whatever_their_marks(talks):
    world, (one, *_) = talks
    said = itertools.cycle(["A b!", "a b"])
    turns = tuple(replace(t, text=next(said)) if t.speaker == "USER" else t for t in one.turns)
    table = realism.checks([replace(one, turns=turns)], world.grounder).set_index("check")
    repeated = table.loc["user utterances repeated word for word"]
    assert (repeated["share"], repeated["holds"]) == (1 - 1 / 16, False)
