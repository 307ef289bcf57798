"""Twins, and what must hold of the simulator."""

import itertools
from dataclasses import replace

import pytest

from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Turn
from crs_lib.core.errors import InputError
from crs_lib.core.rng import stream
from crs_lib.simulate.config import SimulateConfig
from crs_lib.validity import arms, realism
from crs_lib.validity.realism import _UserTurn
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
    assert table["holds"].tolist() == [True] * 5


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


WORDS = "any more other good great like watch see show tell give list new old fun please thanks maybe".split()


def talkers(name, words, n=20):
    draw = stream(1, name)
    return [_UserTurn(f"{name}{i // 6}", " ".join(draw.choice(words, 5))) for i in range(n * 6)]


@pytest.mark.slow
def test_who_says_the_same_cannot_be_told_apart_and_other_words_give_away():
    real = talkers("a", WORDS)
    found = realism._two_sample(real, talkers("b", WORDS))
    assert found["low"] < 0.5 < found["high"]
    simulated = talkers("b", [*WORDS[:6], "whereupon", "henceforth"])
    found = realism._two_sample(real, simulated)
    assert 0.7 < found["low"] <= found["auc"] <= found["high"] <= 1
    ours, theirs = realism._telling_words(real, simulated, 6)
    assert {"whereupon", "henceforth"} <= set(ours)
    assert not {"whereupon", "henceforth"} & set(theirs)
    with pytest.raises(InputError, match="fewer than 10 conversations"):
        realism._two_sample(talkers("a", WORDS, 3), real)


def test_the_tracker_follows_its_own_set_better_than_the_other():
    found = realism.run(realism.RealismConfig(n_sessions=10)).set_index("users")["joint_accuracy"]
    assert 1 >= found["A"] > found["all"] > 0.2
    assert found[["development", "confirmation"]].between(0.2, found["A"]).all()


def test_small_talk_alone_states_nothing_and_is_the_same_for_the_same_seed():
    grounder = Grounder(sources.load())
    said = realism.small_talk("all", 6, 10, seed=3)
    assert [turn.conversation for turn in said] == [
        f"small talk only/{n}" for n in range(6) for _ in range(10)
    ]
    assert realism._constraint_share(said, grounder) == 0
    assert said == realism.small_talk("all", 6, 10, seed=3) != realism.small_talk("all", 6, 10, seed=4)
    assert realism._constraint_share([_UserTurn("a", "drama movies"), _UserTurn("a", "ok")], grounder) == 0.5
