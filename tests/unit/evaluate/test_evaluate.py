"""Scoring a run: its files, complete and the same every time; means and intervals by scenario."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from crs_lib import evaluate, figures, runs, simulate
from crs_lib.core import tables
from crs_lib.core.errors import NoDataError, RunError
from crs_lib.evaluate import arms
from crs_lib.metrics import base
from crs_lib.report import findings, statistics
from crs_lib.report import tables as views
from crs_lib.simulate import scenarios
from crs_lib.thesis import legacy as thesis_legacy
from tests.helpers import adversaries, refused, table
from tests.helpers.sample import scored

SYSTEMS = ["oracle", "random", "silent"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(tmp_path_factory.mktemp("results")))
        yield simulate.run_folder(scored("r", systems=SYSTEMS, n_sessions=4, n_turns=12, seed=3))


def test_results_are_complete_and_what_is_missing_is_null_with_a_reason_never_zero(run):
    results, turns, shifts = (evaluate.read("r", name) for name in ("results", "turns", "shifts"))
    asked = [(system, f"{n:05d}") for system in SYSTEMS for n in range(4)]
    assert sorted(zip(results["model"], results["session_id"], strict=True)) == asked
    places = {(*pair, turn) for pair in asked for turn in range(1, 13)}
    assert set(zip(turns["model"], turns["session_id"], turns["turn"], strict=True)) == places
    assert len(shifts) == sum(len(talk.shift_turns()) for talk in simulate.dialogues("r")) > 0
    assert {*results} >= {*table(__file__, "result_keys"), *base.scored_names()}
    record = [*tables.read_jsonl(run / "results.jsonl")][-1]
    wanted = {"model": "silent", "novelty": None, "avg_recovery_delay": None, "item_recovery_rate": 0}
    assert wanted.items() <= record.items()
    turns = evaluate.read("r", "turns").query("model == 'silent'")
    empty = turns["cross_coherence"].isna()
    assert (turns.loc[empty, "undefined"] == "no concept on either side").all()
    assert (turns.loc[~empty, "undefined"] == "").all()
    assert record["detail"]["defined_turns"]["cross_coherence"] + record["detail"]["n_both_empty_turns"] == 12


def test_means_are_those_of_sessions_and_of_turns(run):
    table = evaluate.read("r", "model_metrics").set_index(["model", "metric"])
    results = evaluate.read("r", "results")
    assert len(table) == len(SYSTEMS) * len(base.scored_names())
    for (model, metric), row in table.iterrows():
        if base.get(metric).ratio:
            continue
        values = results.loc[results["model"] == model, metric].astype(float)
        defined = values.dropna()
        assert row["n"] == len(defined), (model, metric)
        assert row["n_missing"] == values.isna().sum(), (model, metric)
        assert row["mean"] == pytest.approx(defined.mean(), abs=1e-9, nan_ok=True)
        if len(defined) < 8 or np.ptp(defined) <= 1e-12:
            assert math.isnan(row["low"]), "few users and a constant have no interval"
        else:
            assert row["low"] - 1e-9 <= row["mean"] <= row["high"] + 1e-9
    turns, results = evaluate.read("r", "turns"), results.set_index(["model", "session_id"])
    for name in ("topic_adaptation_score", "satisfaction_corrected", "topic_interference_leakage"):
        means = turns.groupby(["model", "session_id"])[name].mean()
        expected = results[name].astype(float).reindex(means.index)
        np.testing.assert_allclose(means.to_numpy(float), expected.to_numpy(), atol=1e-12)


def test_reading_checks_names_order_and_freshness(run):
    refused("unknown movies table 'turn'; did you mean 'turns'", evaluate.read, "r", "turn")
    refused(r"no finished 0. *_?\w+ in run 'nope'", evaluate.read, "nope", "turns", error=RunError)
    before = (run / "manifest.json").read_bytes()
    manifest = json.loads(before)
    manifest["stages"]["evaluate"]["inputs"]["dialogues"] = "0" * 64
    tables.write_json(run / "manifest.json", manifest)
    stale = r"scores of run 'r' are older than its dialogues; score .*-p run r"
    refused(stale, evaluate.read, "r", "turns", error=RunError)
    (run / "manifest.json").write_bytes(before)
    assert len(evaluate.read("r", "results")) == 12


@pytest.mark.parametrize(("options", "message"), table(__file__, "refused_settings"))
def test_settings_that_are_misspelt_or_of_no_use_are_refused(options, message):
    refused(message, evaluate.EvaluateConfig, **options)


def test_tables_leave_out_what_the_older_convention_does_not_give():
    turns = pd.DataFrame({"model": ["a"], "session_id": ["0"], "turn": [1], "cross_coherence": [0.5]})
    assert list(views.turn_table(turns)) == list(turns)
    assert evaluate.EvaluateConfig(run="r", convention="thesis_legacy").metrics == thesis_legacy.METRICS


@pytest.mark.slow
def test_the_scores_of_several_conventions_lie_side_by_side(run):
    """Notebook 04's cells on a run scored as the thesis did; the default's files keep their bytes."""
    names = ("results.jsonl", "turns.parquet", "model_metrics.csv")
    before = {name: (run / name).read_bytes() for name in names}
    config = evaluate.EvaluateConfig(run="r", convention="thesis_grounded")
    assert evaluate.evaluate(config) == run / "scores" / "thesis_grounded"
    turns, results, means = evaluate.scored("r", "thesis_grounded")
    assert set(means["metric"]) == set(config.metrics) < {*results.columns}
    assert views.turn_table(turns).columns[-1] == "topic_adaptation_score"
    assert len(views.scoreboard(means)) == len(SYSTEMS)
    assert views.scoreboard(means).columns[1] == "TAS †"
    assert {name: (run / name).read_bytes() for name in before} == before
    assert set(evaluate.read("r", "model_metrics")["metric"]) == set(evaluate.EvaluateConfig(run="r").metrics)
    with pytest.raises(RunError, match=r"under .*thesis_grounded, not under 'thesis_legacy'.*04_evaluate"):
        evaluate.read("r", "results", "thesis_legacy")
    weighted = config.changed(tas_weights={"gamma": 0.5}, window=2)
    evaluate.evaluate(weighted)
    assert weighted.chosen.name == "thesis_grounded(gamma=0.5, window=2)"
    first, *others = evaluate.conventions_of("r")
    assert first == "default"
    assert set(others) == {weighted.chosen.name, "thesis_grounded"}
    changed = evaluate.read("r", "results", weighted.chosen.name)
    assert set(changed["convention"]) == {weighted.chosen.name}
    assert (changed["topic_adaptation_score"] >= results["topic_adaptation_score"] - 1e-12).all()
    stages = json.loads((run / "manifest.json").read_text())["stages"]
    assert stages[f"evaluate {weighted.chosen.name}"]["parameters"]["tas"]["gamma"] == 0.5


def test_a_convention_with_other_settings_stands_in_for_the_named_one(run):
    evaluate.evaluate(evaluate.EvaluateConfig(run="r", convention="thesis_legacy", topics="heuristic"))
    assert evaluate.convention_of("r", "thesis_legacy") == "thesis_legacy(topics=heuristic)"
    assert evaluate.convention_of("r") == "default"
    legacy = evaluate.read("r", "model_metrics", "thesis_legacy")
    assert views.scoreboard(legacy).columns[1] == "CAS †"


ARMS_SYSTEMS = ("oracle", "oracle_lag:1", "oracle_lag:3", "tracker", "sticky", "amnesiac", "random", "silent")
THREE = ("shift", "straight", "fresh", "none")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Three arms of ten scenarios, simulated and scored; gone with the module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(tmp_path_factory.mktemp("results")))
        settings = {"systems": ARMS_SYSTEMS, "n_sessions": 10, "seed": 1, "arms": THREE, "scope": "stated"}
        yield simulate.SimulateConfig(run=scored("three", **settings), **settings)


def dialogues(run, arm=""):
    return (simulate.run_folder(run) / simulate.dialogue_file(arm)).read_bytes()


def users(world, number, config, system="tracker", arm="shift"):
    return simulate.arms_of(world, system, number, config, arm)


@pytest.mark.slow  # they share runs that take seconds
def test_further_arms_change_no_byte_of_the_others_and_their_work_is_known_before(config):
    for arm, run in (("shift", "three"), ("none", "three-none")):
        alone = config.changed(run=f"alone-{arm}", arms=(arm,))
        simulate.simulate(alone, progress=False)
        assert dialogues(alone.run) == dialogues(run)
    some = config.changed(run="some", arms=("shift", "fresh"))
    simulate.simulate(some, progress=False)
    assert dialogues(some.run, "fresh") == dialogues("three", "fresh")
    turns = {}
    for run, arm in (("three", ""), ("three", "straight"), ("three", "fresh")):
        path = simulate.run_folder(run) / simulate.dialogue_file(arm)
        turns[run, arm] = sum(len(line["conversation"]) // 2 for line in tables.read_jsonl(path))
    assert config.turns("shift") == config.turns("none") == 10 * 20
    assert turns["three", ""] == len(ARMS_SYSTEMS) * config.turns("shift")
    assert turns["three", "straight"] == len(ARMS_SYSTEMS) * config.turns("straight")
    assert turns["three", "fresh"] == len(ARMS_SYSTEMS) * config.turns("fresh")


@pytest.mark.slow  # they share runs that take seconds
def test_a_fresh_user_states_all_that_holds_and_goes_on_as_planned_without_a_past(world, config):
    for number in range(config.n_sessions):
        shifting = simulate.scenario(world, number, config)
        talks = {talk.session_id: talk for talk in users(world, number, config)["fresh"]}
        turns = [step.turn for step in shifting.steps if step.shift is not None]
        assert len(talks) == len(turns)
        assert list(users(world, number, config, arm="none")) == ["none"]
        for turn in turns:
            pairs = talks[f"{number:05d}.shift.{turn:02d}"].pairs()
            assert len(pairs) == scenarios.FRESH_TURNS
            opening, state = pairs[0].user, shifting.steps[turn - 1].state
            assert opening.user_meta["stage"] == "initial"
            named = world.grounder.concepts(opening.text)
            for wanted in (*state.constraints.items(), *state.avoid.items()):
                assert world.catalog.code(*wanted) in named
            assert [pair.user.user_meta["turn"] for pair in pairs] == [1, 2, 3]
            for pair in pairs:
                log = pair.user.user_meta
                assert not log["shift_event"]
                assert log["constraints"] == state.constraints
                assert log["avoid"] == state.avoid
    first = users(world, 0, config, "sticky")["fresh"][0].pairs()[0]  # the system remembers nothing
    assert dict(first.system.meta["constraints"]) == first.user.user_meta["constraints"]


def means(config):
    table = evaluate.read(config.run, "model_metrics").set_index(["metric", "model"])["mean"]
    return {name: table[name].to_dict() for name in table.index.levels[0]}


@pytest.mark.slow  # they share runs that take seconds
def test_only_those_pay_that_cling_or_lag(config):
    by_metric = means(config)
    cost = by_metric["shift_cost"]
    ability = by_metric["straight_gain"]
    for system in ("oracle", "random", "silent"):
        assert cost[system] == pytest.approx(0, abs=1e-9)
    assert 0.1 < cost["oracle_lag:1"] < cost["oracle_lag:3"]
    assert cost["sticky"] > 0.1
    assert ability["oracle"] == 1
    assert ability["sticky"] > 0.6 > ability["amnesiac"]
    for system in ARMS_SYSTEMS:
        both = by_metric["conversation_cost"][system] + cost[system]
        assert by_metric["history_cost"][system] == pytest.approx(both)
        lost = math.nan  # unable
        if ability[system] >= 0.1:
            lost = cost[system] / ability[system]
        assert by_metric["share_lost"][system] == pytest.approx(lost, nan_ok=True)


@pytest.mark.slow  # they share runs that take seconds
def test_who_refines_first_loses_nothing_and_has_a_gain_of_its_own(config):
    stratum = {"n_sessions": 3, "n_turns": 8, "shift_types": ("refine",), "scope": "stated", "seed": 1}
    run = scored("refines", systems=("oracle", "sticky"), **stratum)
    control = evaluate.read(run, "shifts").groupby(["model", "session_id"], sort=False).head(1)
    assert set(control["type"]) == {"refine"}
    assert control["shift_cost"].dropna().eq(0).all()
    assert not control["primary"].any()
    results = evaluate.read(run, "results")
    assert results[base.PRIMARY].isna().all()
    assert results.groupby("model")["refine_gain"].mean()["oracle"] == pytest.approx(1)


@pytest.mark.slow  # they share runs that take seconds
def test_sessions_have_the_costs_of_their_primary_window(config):
    shifts = evaluate.read(config.run, "shifts")
    results = evaluate.read(config.run, "results").set_index(["model", "session_id"])
    primary = shifts[shifts["primary"]].set_index(["model", "session_id"])
    assert primary.index.is_unique
    for name in ("shift_cost", "misfit", "straight_gain", "stale"):
        own = results[name].astype(float).dropna()
        assert own.to_numpy() == pytest.approx(primary.loc[own.index, name].to_numpy())
    assert results["shift_cost"].notna().sum() == primary["shift_cost"].notna().sum()


@pytest.mark.slow  # they share runs that take seconds
def test_a_fresh_gain_is_the_gain_after_the_change_and_both_costs_in_every_scenario(config):
    results = evaluate.read(config.run, "results")
    after_change = results[base.PRIMARY]
    whole = after_change + results["shift_cost"] + results["conversation_cost"]
    windows = results["shift_cost"].notna()
    assert windows.sum() >= 4 * len(ARMS_SYSTEMS)
    assert whole[windows].to_numpy() == pytest.approx(results.loc[windows, "fresh_gain"], abs=1e-12)
    lost = results["straight_gain"] - after_change
    assert lost[windows].to_numpy() == pytest.approx(results.loc[windows, "shift_cost"], abs=1e-12)
    assert set(evaluate.read(config.run, "shifts")["gain_over"]) == {"all arms"}


@pytest.mark.slow  # they share runs that take seconds
def test_who_serves_nobody_stands_last_by_the_gain_after_a_change(config):
    after_change = means(config)[base.PRIMARY]
    assert after_change["oracle"] == pytest.approx(1)
    assert after_change["oracle_lag:1"] > after_change["oracle_lag:3"]
    assert after_change["tracker"] > after_change["sticky"] > after_change["random"]
    assert after_change["silent"] < 0


def windows(systems, n, saved):
    """Primary windows of systems that lose more or less by chance; the last saves so much where another user
    of the scenario was heard before.
    """
    draw = np.random.default_rng(5)
    rows = []
    for number in range(n):
        before = bool(draw.random() < 2 / 3)
        hard = draw.random() < 0.3
        for system in systems:
            cost = hard * draw.uniform(0.2, 1) + draw.normal(0, 0.05)
            if before and system == systems[-1]:
                cost -= saved
            order = "before" if before else "after"
            rows.append((system, f"{number:05d}", True, order, cost))
    return pd.DataFrame(rows, columns=["model", "session_id", "primary", "other_arms", "shift_cost"])


def test_the_order_test_finds_memory_and_none_in_who_has_none():
    remembering, honest = evaluate.memory(windows(["tracker", "server"], 100, 0.2))
    assert honest.n_before + honest.n_after == 100
    assert honest.p > 0.05
    assert remembering.p < 0.01
    assert remembering.z > 2
    assert remembering.saved == pytest.approx(0.2, abs=0.1)
    warning = evaluate.memory_sentence([honest, remembering])
    assert warning.startswith("warning: memory across conversations")
    assert "server (gain +" in warning
    assert "tracker" not in warning
    none = evaluate.memory_sentence(evaluate.memory(windows(["tracker", "server"], 100, 0)))
    assert none.startswith("memory across conversations: none seen (z at most ")
    assert none.endswith(", n = 100)")


def test_the_order_test_needs_ten_scenarios_in_each_order():
    tests = evaluate.memory(windows(["tracker", "server"], 12, 0.5))
    for test in tests:
        assert math.isnan(test.p)
    assert evaluate.memory_sentence(tests).endswith("not tested, fewer than 10 scenarios in each order")
    assert evaluate.memory_sentence([]) == ""


@pytest.mark.slow  # they share runs that take seconds
def test_a_run_says_what_its_order_shows_and_which_systems_are_one_program_for_all(config, monkeypatch):
    (order,) = evaluate.memory_sentences(config.run)
    evaluated = evaluate.read(config.run, "shifts")
    assert order.startswith("memory across conversations: ")
    entry = runs.Run("movies", config.run).entry("simulate")
    entry["counts"]["not_isolated"] = ["http:one", "http:two"]
    monkeypatch.setattr(runs.Run, "entry", lambda *_: entry)
    monkeypatch.setattr(evaluate.run, "read", lambda *_: evaluated)
    apart = evaluate.memory_sentences(config.run)[1]
    assert apart.startswith("not isolated: http:one and http:two")


@pytest.mark.slow  # they share runs that take seconds
def test_a_run_logs_whether_another_arm_was_heard_before_the_session(config):
    shifts = evaluate.read(config.run, "shifts")
    assert set(shifts["other_arms"]) == {"before", "after"}
    orders = shifts.groupby(["session_id", "turn"])["other_arms"].nunique()
    assert orders.eq(1).all()  # the order is the scenario's


@pytest.fixture
def failing(tmp_path_factory):
    """A run of a system that raises at words of a change, beside one that falls silent there."""
    kinds = (adversaries.RaisesAtChange, adversaries.SilentFromChange)
    systems = ["tracker", *map(adversaries.spec, kinds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(tmp_path_factory.mktemp("results")))
        settings = {"n_sessions": 2, "n_turns": 8, "seed": 3, "llm": {"max_failed": 9}}
        yield simulate.run_folder(scored("failing", systems=systems, **settings))


@pytest.mark.subprocess
@pytest.mark.slow
def test_a_session_that_fails_is_scored_as_one_that_falls_silent_there(failing):
    table = evaluate.read("failing", "results").set_index(["model", "session_id"])
    columns = [base.PRIMARY, "straight_gain", "fresh_gain", "shift_cost", "normalised_gain"]
    raising = table.loc["RaisesAtChange", columns]
    pd.testing.assert_frame_equal(raising, table.loc["SilentFromChange", columns])
    assert raising[base.PRIMARY].mean() < 0
    assert raising["straight_gain"].mean() > 0.5
    for detail in table.loc["RaisesAtChange", "detail"]:
        assert "no films for a change" in detail["failed"]
    for detail in table.loc["SilentFromChange", "detail"]:
        assert "failed" not in detail


@pytest.mark.subprocess
@pytest.mark.slow
def test_failed_sessions_are_counted_and_the_means_without_them_stand_beside(failing):
    assert len(simulate.failed_sessions("failing")) == 2
    assert runs.Run("movies", "failing").entry("evaluate")["counts"]["failed"] == 2
    every = evaluate.read("failing", "model_metrics")
    assert every.query("model == 'RaisesAtChange' and metric == 'normalised_gain'")["n"].item() == 2
    answered = pd.read_csv(failing / evaluate.ANSWERED)
    assert set(answered["model"]) == {"tracker", "SilentFromChange"}
    assert list(answered) == list(every)
    failed = [talk.extra["failed"] for talk in simulate.failed_dialogues("failing")]
    assert min(failed) >= 4  # the turn of the change, whose reply is the first that is empty


@pytest.mark.subprocess
@pytest.mark.slow  # they share runs that take seconds
def test_a_window_says_whether_the_straight_user_planned_as_many_statements(config):
    shifts = evaluate.read(config.run, "shifts")
    logged = {}
    for talk in simulate.iter_dialogues(config.run, "straight"):
        window = talk.extra["of"]
        logged[talk.model_name, window["session_id"], window["turn"]] = window["matched"]
    stated = shifts[shifts["scope"] == "stated"]
    for row in stated.itertuples():
        assert row.matched == ("yes" if logged[row.model, row.session_id, row.turn] else "no")


COSTS = [one.name for one in base.scored() if one.primary]


@pytest.mark.slow  # they share runs that take seconds
def test_a_run_without_straight_users_has_no_cost_and_no_finding_speaks_of_one(config):
    """As in logs of others and in the thesis's own."""
    settings = {"n_sessions": 4, "seed": 1, "arms": ("shift",), "scope": "stated"}
    plain = scored("plain", systems=("oracle", "sticky"), **settings)
    values = evaluate.read(plain, "results")[COSTS]
    windowless = ["stale", "wrong", base.PRIMARY]  # these need no other arm
    assert values.drop(columns=windowless).isna().all(axis=None)
    table = evaluate.read(plain, "model_metrics")
    costs = table[table["metric"].isin(set(COSTS) - set(windowless))]
    assert costs[["mean", "low", "high"]].isna().all(axis=None)
    assert (costs["n"] == 0).all()
    assert set(costs["mark"]) == {"no straight users", "no shift of open scope"}
    shifts = evaluate.read(plain, "shifts")
    assert set(shifts["cost_undefined"]) == {"no straight users were simulated"}
    assert set(shifts["gain_over"]) == {"own replies"}
    after_change = table[table["metric"] == base.PRIMARY]
    assert after_change["mean"].notna().all()
    assert set(after_change["mark"]) == {"over own replies: no straight users"}
    # What can be said without the arm: recovery, uptake, release, retention, gain; and nothing of costs.
    assert findings.adaptation(shifts).startswith("No cost of a shift: ")
    scores = statistics.stats_frame(evaluate.read(plain, "results"))
    plan = statistics.plan_for("movies", ["oracle", "sticky"], scores=scores)
    assert plan.primary_outcome == base.PRIMARY
    assert not ({*COSTS} - {base.PRIMARY}) & {*plan.outcomes}
    refused("no straight users", figures.make, "ability_adaptation", shifts, error=NoDataError)
    table = table.set_index(["metric", "model"])["mean"]
    assert table[["uptake", "release", "retention", "item_recovery_rate", "normalised_gain"]].notna().all()


@pytest.mark.slow  # they share runs that take seconds
def test_scores_older_than_an_arm_are_refused(config, monkeypatch):
    alone = simulate.SimulateConfig(
        run="later", systems=("oracle",), n_sessions=2, n_turns=8, arms=("shift",)
    )
    simulate.simulate(alone, progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run="later"))
    assert evaluate.read("later", "results")["conversation_cost"].isna().all()
    monkeypatch.setattr(arms, "runs_of", lambda run: {"straight": "of another simulation"})
    with pytest.raises(RunError, match="the scores of run 'later' are older than its dialogues; score again"):
        evaluate.read("later", "results")
