"""Fresh users and placebo windows: the same state reached without a history, and what a history then costs."""

import pytest

from crs_lib import evaluate, figures, simulate
from crs_lib.core import tables
from crs_lib.core.errors import NoDataError, RunError
from crs_lib.evaluate import arms
from crs_lib.metrics import base
from crs_lib.report import findings, statistics
from crs_lib.simulate import scenarios
from crs_lib.simulate.config import SimulateConfig

pytestmark = pytest.mark.slow  # they share runs that take seconds
SYSTEMS = ("oracle", "oracle_lag:1", "oracle_lag:3", "tracker", "sticky", "amnesiac", "random", "silent")
THREE = ("shift", "straight", "fresh", "none")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Three arms of ten scenarios, simulated and scored; gone with the module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(tmp_path_factory.mktemp("results")))
        made = SimulateConfig(run="three", systems=SYSTEMS, n_sessions=10, seed=1, arms=THREE)
        simulate.simulate(made, progress=False)
        evaluate.evaluate(evaluate.EvaluateConfig(run="three"))
        yield made


def dialogues(run, arm=""):
    return (simulate.run_folder(run) / simulate.dialogue_file(arm)).read_bytes()


def users(world, number, config, system="tracker", arm="shift"):
    return simulate.arms_of(world, system, number, config, arm)


def test_further_arms_change_no_byte_of_the_others(config):
    for arm, run in (("shift", "three"), ("none", "three-none")):
        alone = config.changed(run=f"alone-{arm}", arms=(arm,))
        simulate.simulate(alone, progress=False)
        assert dialogues(alone.run) == dialogues(run)
    some = config.changed(run="some", arms=("shift", "fresh"))
    simulate.simulate(some, progress=False)
    assert dialogues(some.run, "fresh") == dialogues("three", "fresh")


def test_a_fresh_user_states_all_that_holds_and_goes_on_as_planned(world, config):
    for number in range(config.n_sessions):
        shifting = simulate.scenario(world, number, config)
        talks = {talk.session_id: talk for talk in users(world, number, config)["fresh"]}
        turns = [step.turn for step in shifting.steps if step.shift is not None]
        assert len(talks) == len(turns) == len(users(world, number, config, arm="none")["fresh"])
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
    talk = users(world, 0, config, "sticky")["fresh"][0]
    constraints = talk.pairs()[0].user.user_meta["constraints"]
    assert dict(talk.pairs()[0].system.meta["constraints"]) == constraints


def means(config):
    table = evaluate.read(config.run, "model_metrics").set_index(["metric", "model"])["mean"]
    return {name: table[name].to_dict() for name in table.index.levels[0]}


def test_only_those_pay_that_cling_or_lag_and_the_placebo_shows_who_forgets(config):
    found = means(config)
    cost, ability = found["shift_cost"], found["straight_gain"]
    for system in ("oracle", "random", "silent"):
        assert cost[system] == pytest.approx(0, abs=1e-9)
        assert found["history_cost_v2"][system] == pytest.approx(0, abs=1e-9)
    assert 0.1 < cost["oracle_lag:1"] < cost["oracle_lag:3"]
    assert cost["sticky"] > 0.1
    assert ability["oracle"] == 1
    assert ability["sticky"] > 0.6 > ability["amnesiac"]
    for system in SYSTEMS:
        both = found["conversation_cost"][system] + cost[system]
        assert found["history_cost"][system] == pytest.approx(both)
        if ability[system] >= 0.1:
            assert found["share_lost"][system] == pytest.approx(cost[system] / ability[system])
        else:
            assert found["share_lost"][system] != found["share_lost"][system]  # unable
    placebo = means(config)["placebo_cost"]
    assert max(abs(placebo[name]) for name in ("oracle", "random", "silent")) < 0.03
    assert max(placebo["sticky"], placebo["oracle_lag:1"]) < 0.03
    assert placebo["amnesiac"] > 0.1


def test_first_refinements_cost_nothing_and_sessions_have_the_costs_of_their_primary_window(config):
    shifts = evaluate.read(config.run, "shifts")
    first = shifts.groupby(["model", "session_id"], sort=False).head(1)
    control = first[first["type"] == "refine"]
    assert len(control) >= len(SYSTEMS)
    assert control["shift_cost"].dropna().eq(0).all()
    assert not control["primary"].any()
    shifts = evaluate.read(config.run, "shifts")
    results = evaluate.read(config.run, "results").set_index(["model", "session_id"])
    primary = shifts[shifts["primary"]].set_index(["model", "session_id"])
    assert primary.index.is_unique
    for name in ("shift_cost", "misfit", "straight_gain", "stale"):
        own = results[name].astype(float).dropna()
        assert own.to_numpy() == pytest.approx(primary.loc[own.index, name].to_numpy())
    assert results["shift_cost"].notna().sum() == primary["shift_cost"].notna().sum()


@pytest.fixture(scope="module")
def plain(config):
    """A run whose users have no straight twin, as in logs of others and in the thesis's own."""
    made = config.changed(run="plain", systems=("oracle", "sticky"), n_sessions=4, arms=("shift",))
    simulate.simulate(made, progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run="plain"))
    return "plain"


COSTS = [one.name for one in base.scored() if one.primary]


def test_a_run_without_straight_users_has_no_cost_and_no_finding_speaks_of_one(plain):
    values = evaluate.read(plain, "results")[[*COSTS, "placebo_cost"]]
    windowless = ["stale", "wrong"]  # these two need no other arm
    assert values.drop(columns=windowless).isna().all(axis=None)
    table = evaluate.read(plain, "model_metrics")
    costs = table[table["metric"].isin(set(COSTS) - set(windowless))]
    assert costs[["mean", "low", "high"]].isna().all(axis=None) and (costs["n"] == 0).all()
    assert set(costs["mark"]) == {"no straight users"}
    shifts = evaluate.read(plain, "shifts")
    assert set(shifts["cost_undefined"]) == {"no straight users were simulated"}
    # What can be said without the arm: recovery, uptake, release, retention, gain; and nothing of costs.
    told = findings.adaptation(evaluate.read(plain, "shifts"))
    assert not told.borne
    assert "the run lacks them" in str(told)
    scores = statistics.stats_frame(evaluate.read(plain, "results"))
    plan = statistics.plan_for("movies", ["oracle", "sticky"], scores=scores)
    assert plan.outcomes and not {*COSTS} & {*plan.outcomes}
    with pytest.raises(NoDataError, match="no straight users"):
        figures.make("ability_adaptation", evaluate.read(plain, "shifts"))
    table = evaluate.read(plain, "model_metrics").set_index(["metric", "model"])["mean"]
    assert table[["uptake", "release", "retention", "item_recovery_rate", "normalised_gain"]].notna().all()


def test_scores_older_than_an_arm_and_runs_of_other_settings_are_refused(config):
    alone = SimulateConfig(run="later", systems=("oracle",), n_sessions=2, n_turns=8)
    simulate.simulate(alone, progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run="later"))
    assert evaluate.read("later", "results")["placebo_cost"].isna().all()
    simulate.simulate(alone.changed(arms=THREE), progress=False)
    with pytest.raises(RunError, match="the scores of run 'later' are older than its dialogues; score again"):
        evaluate.read("later", "results")
    evaluate.evaluate(evaluate.EvaluateConfig(run="later"))
    assert evaluate.read("later", "results")["placebo_cost"].notna().any()
    own = SimulateConfig(run="own", systems=("oracle",), n_sessions=2, n_turns=8)
    simulate.simulate(own, progress=False)
    simulate.simulate(own.changed(run="own-none", n_sessions=1, arms=("none",)), progress=False)
    with pytest.raises(RunError, match="'own' and 'own-none' were made with different settings"):
        arms.runs_of("own")


def test_the_work_of_an_arm_is_known_before_it_starts(config):
    turns = {}
    for run, arm in (("three", ""), ("three", "straight"), ("three", "fresh"), ("three-none", "fresh")):
        path = simulate.run_folder(run) / simulate.dialogue_file(arm)
        turns[run, arm] = sum(len(line["conversation"]) // 2 for line in tables.read_jsonl(path))
    assert config.turns("shift") == config.turns("none") == 10 * 20
    assert turns["three", ""] == len(SYSTEMS) * config.turns("shift")
    assert turns["three", "straight"] == len(SYSTEMS) * config.turns("straight")
    assert turns["three", "fresh"] + turns["three-none", "fresh"] == len(SYSTEMS) * config.turns("fresh")
