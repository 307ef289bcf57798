"""What the sceptic's systems come to behind the contract: gain after a change, straight gain, cost and sentence."""

import pandas as pd
import pytest

from benchmarks.adversaries import BASES, primary_windows
from crs_lib import stats
from crs_lib.simulate.config import SimulateConfig
from crs_lib.stats.adaptation import BETTER, EQUALLY, LESS_TO_LOSE
from crs_lib.systems.base import World
from crs_lib.validity import arms
from tests.helpers import adversaries
from tests.helpers.sample import GROUNDER, SAMPLE

GAINS = ["gain_after_change", "straight_gain", "shift_cost"]


def means(kinds, n, seed):
    """Gains and cost by system over the first ``n`` users of a seed."""
    world = World(SAMPLE, GROUNDER, programs=adversaries.InProcess(SAMPLE))
    systems = [adversaries.spec(kind) for kind in kinds]
    config = SimulateConfig(systems=systems, n_turns=8, seed=seed)
    sessions = [scores.session for _, scores in arms.scored(world, config, n)]
    return pd.DataFrame(sessions).groupby("model")[GAINS].mean()


@pytest.mark.slow
def test_who_clings_has_a_cost_and_who_hides_its_films_in_ids_has_none():
    kinds = (adversaries.Tracker, adversaries.Sticky, adversaries.ClingsNear, adversaries.IdsOnly)
    table = means(kinds, 12, 3)
    after_change, _, cost = (table[name] for name in GAINS)
    assert after_change["Sticky"] < after_change["Tracker"] - 0.1
    assert cost["Sticky"] > cost["Tracker"] + 0.1
    assert after_change["ClingsNear"] < after_change["Sticky"]
    assert cost["ClingsNear"] < 0  # who serves nobody has nothing to lose
    assert after_change["IdsOnly"] == pytest.approx(after_change["Tracker"], abs=0.03)


@pytest.fixture(scope="module")
def windows():
    return primary_windows(905, 130)


def values(windows, name):
    return windows.groupby("system")[name].mean()


ABLE = [kind.__name__ for kind in adversaries.ABLE]
UNABLE = [kind.__name__ for kind in adversaries.UNABLE]
HALF = ("Amnesiac", "ClingsNear", "DumbToTheSilent", "DumbAtBareValues", "Load")  # also without a change
CLINGS = ("Sticky", "NewestValues", "LastNamed", "Deaf")


@pytest.mark.full
@pytest.mark.parametrize("name", ["TenFilms", *UNABLE])
def test_no_system_that_serves_users_worse_stands_above_the_tracker(windows, name):
    after_change = values(windows, "gain_after_change")
    assert after_change[name] < after_change["Tracker"]


@pytest.mark.full
@pytest.mark.parametrize("name", ["FirstChange", "DeafToOpenScope", "IdsOnly", "NoYear"])
def test_who_serves_users_as_the_tracker_does_gains_as_much(windows, name):
    for gain in GAINS[:2]:
        assert values(windows, gain)[name] == pytest.approx(values(windows, gain)["Tracker"], abs=0.05)


@pytest.mark.full
@pytest.mark.parametrize("name", HALF)
def test_who_serves_nobody_well_has_a_low_straight_gain(windows, name):
    straight = values(windows, "straight_gain")
    assert straight[name] < straight["Tracker"] - 0.15


@pytest.mark.full
@pytest.mark.parametrize("name", CLINGS)
def test_who_does_not_follow_has_a_cost(windows, name):
    cost = values(windows, "shift_cost")
    assert cost[name] > cost["Tracker"] + 0.05


@pytest.mark.full
def test_who_gets_worse_with_each_statement_pays_no_cost(windows):
    assert abs(values(windows, "shift_cost")["Load"]) < 0.1


@pytest.mark.full
def test_a_question_back_costs_its_turn_and_is_no_misfit(windows):
    assert values(windows, "delay")["AsksBack"] > 0.1
    assert abs(values(windows, "misfit")["AsksBack"]) < 0.05


@pytest.mark.full
@pytest.mark.parametrize(("name", "base"), [*((name, "Tracker") for name in UNABLE), *BASES.items()])
def test_nothing_good_is_said_of_a_system_that_serves_users_worse(windows, name, base):
    pair = stats.adaptation_of(windows, name, base, scenario="scenario")
    assert pair.word != EQUALLY
    assert not (pair.word == BETTER and pair.ahead == name)
    if pair.word == LESS_TO_LOSE:
        assert "after a change its users get" in pair.sentence


@pytest.mark.full
@pytest.mark.parametrize("name", ["Load", "AsksBack", "OneFilm", "Prose", "NoYear"])
def test_nothing_bad_is_said_of_the_adaptation_of_who_follows(windows, name):
    pair = stats.adaptation_of(windows, name, "Tracker", scenario="scenario")
    assert not (pair.word == BETTER and pair.ahead == "Tracker")
