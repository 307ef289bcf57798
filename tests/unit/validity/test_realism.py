"""The two-sample test: blind where both sides say the same, sure where they do not."""

import pytest

from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.errors import InputError
from crs_lib.core.rng import stream
from crs_lib.validity import realism
from crs_lib.validity.realism import _UserTurn

WORDS = "any more other good great like watch see show tell give list new old fun please thanks maybe".split()


def talkers(name, words, n=20):
    draw = stream(1, name)
    return [_UserTurn(f"{name}{i // 6}", " ".join(draw.choice(words, 5))) for i in range(n * 6)]


@pytest.mark.slow
def test_who_says_the_same_cannot_be_told_apart_and_other_words_give_away():
    real = talkers("a", WORDS)
    found = realism.two_sample(real, talkers("b", WORDS))
    assert found["low"] < 0.5 < found["high"]
    simulated = talkers("b", [*WORDS[:6], "whereupon", "henceforth"])
    found = realism.two_sample(real, simulated)
    assert 0.7 < found["low"] <= found["auc"] <= found["high"] <= 1
    ours, theirs = realism.telling_words(real, simulated, 6)
    assert {"whereupon", "henceforth"} <= set(ours)
    assert not {"whereupon", "henceforth"} & set(theirs)
    with pytest.raises(InputError, match="fewer than 10 conversations"):
        realism.two_sample(talkers("a", WORDS, 3), real)


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
    assert realism.constraint_share(said, grounder) == 0
    assert said == realism.small_talk("all", 6, 10, seed=3) != realism.small_talk("all", 6, 10, seed=4)
    assert realism.constraint_share([_UserTurn("a", "drama movies"), _UserTurn("a", "ok")], grounder) == 0.5
