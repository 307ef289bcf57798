"""Fresh users and placebo windows: the same state reached without a history, and what a history then costs."""

import pytest

from crs_lib import evaluate, simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import tables
from crs_lib.core.errors import RunError
from crs_lib.evaluate import arms
from crs_lib.simulate import scenarios
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World

pytestmark = pytest.mark.slow  # they share runs that take seconds

SYSTEMS = ("oracle", "oracle_lag:1", "oracle_lag:3", "tracker", "sticky", "amnesiac", "random", "silent")
THREE = ("shift", "none", "fresh")


@pytest.fixture(scope="module")
def world():
    catalog = sources.load()
    return World(catalog, Grounder(catalog))


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Three arms of ten scenarios, simulated and scored; gone with the module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(tmp_path_factory.mktemp("results")))
        made = SimulateConfig(run="three", systems=SYSTEMS, n_sessions=10, seed=1, arms=THREE)
        simulate.simulate(made, progress=False)
        evaluate.evaluate(evaluate.EvaluateConfig(run="three"))
        yield made


def dialogues(run):
    return (simulate.run_folder(run) / "dialogues.jsonl").read_bytes()


def test_further_arms_change_no_byte_of_the_others(config):
    for arm, run in (("shift", "three"), ("none", "three-none")):
        alone = config.changed(run=f"alone-{arm}", arms=(arm,))
        simulate.simulate(alone, progress=False)
        assert dialogues(alone.run) == dialogues(run)


def test_a_fresh_user_states_all_that_holds_and_goes_on_as_planned(world, config):
    for number in range(config.n_sessions):
        shifting = simulate.scenario(world, number, config)
        talks = {talk.session_id: talk for talk in simulate.fresh_sessions(world, "tracker", number, config)}
        turns = [step.turn for step in shifting.steps if step.shift is not None]
        assert len(talks) == 2 * len(turns)
        for turn in turns:
            pairs = talks[f"{number:05d}.shift.{turn:02d}"].pairs()
            assert len(pairs) == scenarios.FRESH_TURNS
            opening, state = pairs[0].user, shifting.steps[turn - 1].state
            assert opening.user_meta["stage"] == "initial"
            named = world.grounder.concepts(opening.text)
            for wanted in (*state.constraints.items(), *state.avoid.items()):
                assert world.catalog.code(*wanted) in named
            assert [pair.user.user_meta["turn"] for pair in pairs] == [1, 2, 3]
            assert not any(pair.user.user_meta["shift_event"] for pair in pairs)
            assert all(pair.user.user_meta["constraints"] == state.constraints for pair in pairs)
            assert all(pair.user.user_meta["avoid"] == state.avoid for pair in pairs)


def test_a_fresh_user_meets_a_system_that_remembers_nothing(world, config):
    talk = simulate.fresh_sessions(world, "sticky", 0, config)[0]
    constraints = talk.pairs()[0].user.user_meta["constraints"]
    assert dict(talk.pairs()[0].system.meta["constraints"]) == constraints


def means(config):
    table = evaluate.read(config.run, "model_metrics").set_index(["metric", "model"])["mean"]
    return {name: table[name].to_dict() for name in ("history_cost", "placebo_cost", "fresh_gain")}


def test_history_costs_those_that_cling_or_lag_and_the_placebo_shows_who_forgets(config):
    found = means(config)
    cost, placebo = found["history_cost"], found["placebo_cost"]
    for system in ("oracle", "random", "silent"):
        assert cost[system] == pytest.approx(0, abs=1e-9)
        assert placebo[system] == pytest.approx(0, abs=0.03)
    assert cost["sticky"] > 0.1
    assert 0.1 < cost["oracle_lag:1"] < cost["oracle_lag:3"]
    assert max(placebo["sticky"], placebo["oracle_lag:1"], placebo["oracle_lag:3"]) < 0.03
    assert placebo["amnesiac"] > 0.1
    assert found["fresh_gain"]["oracle"] == 1
    assert found["fresh_gain"]["sticky"] > 0.7 > found["fresh_gain"]["amnesiac"]


def test_the_costs_are_those_of_the_shifts(config):
    shifts = evaluate.read(config.run, "shifts")
    results = evaluate.read(config.run, "results").set_index(["model", "session_id"])
    by_session = shifts.groupby(["model", "session_id"])["history_cost"].mean()
    assert results.loc[by_session.index, "history_cost"].astype(float).to_numpy() == pytest.approx(
        by_session.to_numpy(), nan_ok=True
    )
    assert shifts.loc[shifts["model"] == "oracle", "fresh_gain"].dropna().eq(1).all()


def test_a_run_without_fresh_users_has_no_cost():
    simulate.simulate(
        SimulateConfig(run="plain", systems=("oracle",), n_sessions=2, n_turns=8), progress=False
    )
    evaluate.evaluate(evaluate.EvaluateConfig(run="plain"))
    assert (
        evaluate.read("plain", "results")[["history_cost", "placebo_cost", "fresh_gain"]]
        .isna()
        .all(axis=None)
    )


def test_scores_older_than_an_arm_are_refused(config):
    alone = SimulateConfig(run="later", systems=("oracle",), n_sessions=2, n_turns=8)
    simulate.simulate(alone, progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run="later"))
    simulate.simulate(alone.changed(arms=THREE), progress=False)
    with pytest.raises(RunError, match="the scores of run 'later' are older than its dialogues; score again"):
        evaluate.read("later", "results")
    evaluate.evaluate(evaluate.EvaluateConfig(run="later"))
    assert evaluate.read("later", "results")["history_cost"].notna().any()


def test_runs_of_other_settings_are_no_arms(config):
    own = SimulateConfig(run="own", systems=("oracle",), n_sessions=2, n_turns=8)
    simulate.simulate(own, progress=False)
    simulate.simulate(own.changed(run="own-none", n_sessions=1, arms=("none",)), progress=False)
    with pytest.raises(RunError, match="'own' and 'own-none' were made with different settings"):
        arms.runs_of("own")


def test_the_work_of_an_arm_is_known_before_it_starts(config):
    lines = [len(list(tables.read_jsonl(simulate.run_folder(run) / "dialogues.jsonl")))
             for run in ("three", "three-none", "three-fresh")]  # fmt: skip
    assert lines[:2] == [80, 80]
    assert config.turns("shift") == config.turns("none") == 10 * 20
    assert config.turns("fresh") * len(SYSTEMS) == 3 * lines[2]
