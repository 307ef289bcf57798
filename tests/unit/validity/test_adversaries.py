"""What the sceptic's systems come to behind the contract: gain after a change, straight gain, cost and sentence."""

import pytest

from benchmarks import adversaries as bench
from crs_lib import stats
from crs_lib.stats.adaptation import BETTER, EQUALLY, LESS_TO_LOSE
from crs_lib.validity import tables
from tests.helpers import adversaries

ABLE = [kind.__name__ for kind in adversaries.ABLE]
UNABLE = [kind.__name__ for kind in adversaries.UNABLE]
PAIRS = bench.pairs(["Tracker", *UNABLE])


@pytest.mark.slow
def test_who_clings_has_a_cost_and_who_hides_its_films_in_ids_has_none():
    kinds = (adversaries.Tracker, adversaries.Sticky, adversaries.ClingsNear, adversaries.IdsOnly)
    means = bench.primary_windows(3, 12, kinds).groupby("system")[["gain_after_change", "shift_cost"]].mean()
    gain, cost = means["gain_after_change"], means["shift_cost"]
    assert gain["Sticky"] < gain["Tracker"] - 0.1
    assert cost["Sticky"] > cost["Tracker"] + 0.1
    assert gain["ClingsNear"] < gain["Sticky"]
    assert cost["ClingsNear"] < 0, "who serves nobody has nothing to lose"
    assert gain["IdsOnly"] == pytest.approx(gain["Tracker"], abs=0.03)


@pytest.fixture(scope="module")
def windows():
    """The first 130 of the 420 users of the record."""
    return bench.primary_windows(905, 130)


@pytest.fixture(scope="module")
def recorded():
    return tables.record("adversaries").drop_duplicates("system").set_index("system")


@pytest.mark.full
@pytest.mark.parametrize("measure", ["gain_after_change", "straight_gain", "shift_cost", "misfit", "delay"])
def test_systems_come_to_what_is_recorded_of_them(windows, recorded, measure):
    means = windows.groupby("system")[measure].mean()
    assert means.to_dict() == pytest.approx(recorded[measure].to_dict(), abs=0.08)


@pytest.mark.full
@pytest.mark.parametrize("name", ["TenFilms", *UNABLE])
def test_no_system_that_serves_users_worse_stands_above_the_tracker(windows, name):
    gain = windows.groupby("system")["gain_after_change"].mean()
    assert gain[name] < gain["Tracker"]


@pytest.mark.full
def test_who_gets_worse_with_each_statement_pays_no_cost_and_who_clings_pays_one(windows):
    cost = windows.groupby("system")["shift_cost"].mean()
    assert abs(cost["Load"]) < 0.06
    assert cost["Sticky"] > 0.15


@pytest.mark.full
def test_a_question_back_costs_its_turn_and_is_no_misfit(windows):
    means = windows[windows["system"] == "AsksBack"][["misfit", "delay"]].mean()
    assert means["delay"] > 0.2
    assert means["misfit"] < 0.05


def test_the_record_says_nothing_good_of_the_unable_and_nothing_bad_of_those_who_follow():
    pairs = tables.record("adversaries").set_index(["system", "against"])
    assert pairs.loc[PAIRS, "favourable"].max() <= 0.05
    following = [(name, "Tracker") for name in (*ABLE, "Load", "AsksBack")]
    assert pairs.loc[following, "unfavourable"].max() <= 0.05


def test_the_record_of_the_order_test_warns_of_memory_alone():
    warned = tables.record("order_test").set_index("system")["warned"]
    memory = ["File", "Server"]
    assert warned[memory].min() >= 0.8
    assert warned.drop(memory).max() <= 0.05


@pytest.mark.full
@pytest.mark.parametrize(("name", "base"), PAIRS)
def test_nothing_good_is_said_of_a_system_that_serves_users_worse(windows, name, base):
    pair = stats.adaptation_of(windows, name, base)
    assert pair.word != EQUALLY
    assert (pair.word, pair.ahead) != (BETTER, name)
    if pair.word == LESS_TO_LOSE:
        assert "after a change its users get" in pair.sentence


@pytest.mark.full
@pytest.mark.parametrize("name", [*ABLE, "Load", "AsksBack"])
def test_nothing_bad_is_said_of_the_adaptation_of_who_follows(windows, name):
    pair = stats.adaptation_of(windows, name, "Tracker")
    assert (pair.word, pair.ahead) != (BETTER, "Tracker")
