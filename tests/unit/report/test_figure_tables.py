"""The tables behind the figures that only some runs have: judged, worded by models, made sensitive."""

import json

import numpy as np
import pandas as pd
import pytest

from crs_lib import evaluate, figures, simulate
from crs_lib import judge as judging
from crs_lib.core.errors import InputError, RunError
from crs_lib.figures import NoDataError, recovery
from crs_lib.llm.template import answer as template_answer
from crs_lib.report import figure_tables, statistics
from crs_lib.validity import sensitivity
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.sample import scored, simulated

pytestmark = pytest.mark.slow  # they share runs that take seconds
SYSTEMS = ("ollama:m:1", "tracker", "random")


def answer(prompt, schema, seed):
    """A judge who gives coherence 4, the rest 2; everything else by the template backend."""
    if schema and schema.get("title") == "Judgement":
        scores = {name: 4 if name == "coherence" else 2 for name in schema["properties"]}
        return json.dumps({name: {"evidence": "said so", "score": score} for name, score in scores.items()})
    return template_answer(prompt, schema, seed)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two runs: "rules" without any model, and "models", worded by one and judged by another."""
    folder = tmp_path_factory.mktemp("results")
    with (
        pytest.MonkeyPatch.context() as patch,
        OllamaServer({"m:1": "a" * 64, "j:1": "b" * 64}, answer=answer) as server,
    ):
        patch.setenv("CRS_RESULTS", str(folder))
        llm = {"host": server.url}
        for run, systems in (("rules", SYSTEMS[1:]), ("models", SYSTEMS)):
            simulated(run=run, systems=systems, n_sessions=3, n_turns=6, llm=llm)
        judging.judge_run("models", ["ollama:j:1"], llm=llm, progress=False)
        for run in ("rules", "models"):
            evaluate.evaluate(evaluate.EvaluateConfig(run=run))
    return folder


@pytest.fixture(autouse=True)
def place(results, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(results))


def test_the_judges_means_are_those_of_the_scores_in_the_runs_order():
    table = figure_tables.read("models", "judge_means")
    assert list(dict.fromkeys(table["model"])) == list(SYSTEMS)
    assert set(table.loc[table["construct"] == "coherence", "mean"]) == {4.0}
    assert set(table.loc[table["construct"] != "coherence", "mean"]) == {2.0}
    assert set(table["n_sessions"]) == {3}


def test_calls_are_those_of_the_log_and_counted_by_role_and_model():
    table = figure_tables.read("models", "llm_calls")
    usage = judging.usage("models").set_index(["role", "model"])
    assert len(table) == usage["calls"].sum()
    sent = table[table["sent"]].groupby(["role", "model"])["tokens_out"].sum()
    assert sent.to_dict() == usage["tokens_out"].to_dict()
    assert len(table) - table["sent"].sum() == usage["cache_hits"].sum() + usage["failed"].sum()
    assert set(table["session_id"]) == {"00000", "00001", "00002"}


def test_the_usage_table_counts_by_role_and_model():
    table = judging.usage("models").set_index("role")
    assert set(table.index) == {"crs", "judge"}
    assert (table[["calls", "tokens_in", "tokens_out", "seconds"]] > 0).all(axis=None)


LACKS = ("judge_means", "llm_calls", "sensitivity_choices", "sensitivity_catalogue")


@pytest.mark.parametrize("table", LACKS)
def test_what_a_run_lacks_is_no_data_and_a_run_that_is_not_there_is_an_error(table):
    with pytest.raises(NoDataError, match="run 'rules'"):
        figure_tables.read("rules", table)
    with pytest.raises(RunError, match="run 04_evaluate -p run nowhere"):
        figure_tables.read("nowhere", table)


@pytest.mark.parametrize("name", ["judge_scatter", "tokens_and_time", "correlation_heatmap"])
def test_a_judged_run_has_its_figures(name):
    tables = [figure_tables.read("models", table) for table in figures.FIGURES.get(name).facts["tables"]]
    made = figures.make(name, *tables)
    said = " ".join(axes.get_title(loc=side) for axes in made.axes for side in ("left", "center"))
    if name == "judge_scatter":
        assert "coherence ↑" in said
        assert "within –" in said  # one score for everybody: no correlation


def test_a_notebook_shows_a_sentence_instead_of_a_figure_without_data(capsys):
    figure_tables.draw("rules", "judge_scatter", "tokens_and_time")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "judge_scatter: no session has a score by a judge; make it with: python -m crs_lib"
    )
    assert lines[1].startswith("tokens_and_time: run 'rules' called no language model")
    figure_tables.draw("models", "judge_scatter")
    assert capsys.readouterr().out == ""


def test_sensitivity_leaves_models_out_of_what_is_made_anew(monkeypatch):
    monkeypatch.setattr(sensitivity, "FEWEST_SCENARIOS", 2)
    sensitivity.make("models", 2)
    choices, sizes = (sensitivity.read("models", name) for name in ("choices", "catalogue"))
    assert set(choices["n_systems"]) == {3}
    assert set(sizes["n_systems"]) == {2}
    assert set(choices["metric"]) == set(sizes["metric"]) == set(sensitivity.METRICS)
    assert "0.35/0.65" in set(choices["setting"])
    whole = sizes[sizes["share"] == 1]
    assert whole.set_index("metric").loc["item_tas", "tau"] == 1.0
    first = (sensitivity.paths.run_folder("movies", "models") / sensitivity.FILES["choices"]).read_bytes()
    monkeypatch.setattr(sensitivity, "FEWEST_SCENARIOS", 3)
    folder = sensitivity.make("models", 2)
    assert (folder / sensitivity.FILES["choices"]).read_bytes() == first
    assert sensitivity.read("models", "catalogue").empty  # two scenarios are too few


@pytest.mark.parametrize(("given", "message"), [
    ({"run": "../x", "sessions": 2}, "cannot be a folder"),
    ({"run": "rules", "sessions": 1}, "sessions is 1; give a whole number >= 2"),
])  # fmt: skip
def test_sensitivity_settings_are_checked(given, message):
    with pytest.raises(InputError, match=message):
        sensitivity.make(**given)


def test_power_is_that_of_each_contrast_and_rises():
    """Every declared contrast by the deviation of its own differences, none by a pooled one."""
    draw = np.random.default_rng(3)
    noise = draw.normal(size=(12, 3)) * (0.01, 0.2, 0.4)
    scores = pd.DataFrame([
        {"system": name, "scenario": f"{i:05d}", "shift_cost": 0.5 + noise[i, k]}
        for i in range(12) for k, name in enumerate(("oracle", "tracker", "amnesiac"))
    ])  # fmt: skip
    plan = statistics.plan_for("movies", ["oracle", "tracker", "amnesiac"])
    table = statistics.power_table(scores, plan)
    assert sorted(table["effect"].unique()) == pytest.approx([0.025, 0.05, 0.1])
    shown = table.groupby(["a", "b"], sort=False)["sd_difference"].first()
    assert list(shown.index) == [("oracle", "tracker"), ("tracker", "amnesiac")]
    own = [np.std(noise[:, k] - noise[:, k + 1], ddof=1) for k in (0, 1)]
    assert shown.tolist() == pytest.approx(own)
    assert own[1] > 1.5 * own[0]
    rising = table.pivot_table(index=["a", "b", "sessions"], columns="effect", values="power")
    assert (rising.groupby(["a", "b"]).diff().dropna() > -1e-9).all(axis=None)
    assert (rising.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    last = rising.xs(table["sessions"].max(), level="sessions")[0.05]
    assert last.min() > 0.99
    assert rising[0.05]["oracle", "tracker", 100] > 2 * rising[0.05]["tracker", "amnesiac", 100]


def test_power_of_a_run_is_that_of_its_scores():
    scores = statistics.stats_frame(evaluate.read("rules", "results"))
    plan = statistics.plan_for("movies", ["tracker", "random"]).changed(
        smallest_effect=0.2, primary_outcome="normalised_gain", secondary_outcomes=(), lower_is_better=()
    )
    table = statistics.power_table(scores, plan)
    assert table[["a", "b"]].drop_duplicates().to_numpy().tolist() == [["tracker", "random"]]
    assert set(table["n"]) == {3}
    pd.testing.assert_frame_equal(table, figure_tables.power("rules", plan=plan))


def test_without_a_scenario_that_all_systems_met_there_is_a_line_in_place_of_the_power_curve(capsys):
    scores = statistics.stats_frame(evaluate.read("rules", "results"))
    plan = statistics.plan_for("movies", ["tracker", "random"])
    apart = scores.assign(**{plan.scenario: scores[plan.scenario].astype(str) + scores[plan.system]})
    statistics.draw_power(apart, plan)
    lines = capsys.readouterr().out
    assert lines.startswith("power_curve: no power without a variance of paired differences")


def test_one_system_alone_has_neither_power_nor_a_ranking():
    scored(run="one", systems=("random",), n_sessions=2, n_turns=3)
    with pytest.raises(NoDataError, match="no power"):
        figure_tables.read("one", "power")
    with pytest.raises(NoDataError, match="at least two systems"):
        figures.make("sensitivity_weights", figure_tables.read("one", "sensitivity_weights"))
    sensitivity.make("one", 2)
    with pytest.raises(NoDataError, match="no rows"):
        figures.make("sensitivity_catalogue", figure_tables.read("one", "sensitivity_catalogue"))


def test_recovery_ratios_are_those_of_the_declared_contrasts():
    """Tracker recovers at once, sticky only by its second reply, random never: a ratio above 1, and none."""
    shifts = pd.DataFrame({
        "model": ["tracker"] * 12 + ["sticky"] * 12 + ["random"] * 12, "type": ["switch"] * 36,
        "watched": [3] * 36, "session_id": [f"{n:05}" for n in range(12)] * 3,
        "delay_item": [0.0] * 11 + [1.0] + [1.0] * 11 + [0.0] + [float("nan")] * 12,
    })  # fmt: skip
    plan = statistics.plan_for("movies", ["tracker", "sticky", "random"])
    plan = plan.changed(contrasts=(("tracker", "sticky"), ("tracker", "random")))
    found = statistics.recovery_ratios(shifts, plan)
    assert found[["a", "b"]].values.tolist() == [list(pair) for pair in plan.contrasts]
    assert found["estimate"][0] > found["low"][0] > 1
    assert found["estimate"][1] == ""  # random has no event: no finite ratio
    assert found["events_b"].tolist() == [12, 0]
    assert "note" in statistics.recovery_ratios(shifts, plan.changed(contrasts=()))
    assert "note" in statistics.recovery_ratios(shifts.iloc[:0], plan)


def test_scores_after_shifts_are_means_up_to_the_next_shift_by_its_type():
    turns = pd.DataFrame({
        "model": "tracker", "session_id": "00000", "turn": range(1, 7),
        "since_shift": pd.array([None, 0, 1, 0, 1, 2], dtype="Int64"),
        "item_tas": [9.0, 0.2, 0.4, 0.9, float("nan"), 0.5],
    })  # fmt: skip
    shifts = pd.DataFrame({"model": "tracker", "session_id": "00000", "turn": [2, 4]})
    shifts = shifts.assign(type=["switch", "return"])
    found = statistics._shift_scores(turns, shifts, "item_tas")
    assert found["value"].tolist() == pytest.approx([0.3, 0.7])
    assert found["shift_type"].tolist() == ["switch", "return"]
    assert "note" in statistics.shift_model(turns, shifts, "item_tas")  # one system
    assert "note" in statistics.shift_model(turns, shifts, "item_recovery_rate")  # no value by turn
    untouched = turns.assign(since_shift=pd.array([None] * 6, dtype="Int64"))
    nothing = pd.DataFrame(columns=shifts.columns)
    assert statistics._shift_scores(untouched, nothing, "item_tas").empty
    assert "note" in statistics.shift_model(untouched, nothing, "item_tas")


def test_the_shift_model_tells_an_interaction_from_none():
    """Sticky behind tracker after replace only is an interaction; behind after both types is none."""
    rows = [
        (system, f"{n:05}", turn, kind, 0.5 + 0.01 * ((7 * n + 3 * turn + len(system)) % 5))
        for n in range(12)
        for turn, kind in ((4, "refine"), (9, "replace"))
        for system in ("tracker", "sticky")
    ]
    shifts = pd.DataFrame(rows, columns=["model", "session_id", "turn", "type", "item_tas"])
    turns = shifts.drop(columns="type").assign(since_shift=pd.array([0] * len(shifts), dtype="Int64"))
    behind = shifts["model"].eq("sticky") * 0.4
    alike = turns.assign(item_tas=turns["item_tas"] - behind)
    apart = turns.assign(item_tas=turns["item_tas"] - behind * shifts["type"].eq("replace"))
    found = statistics.shift_model(apart, shifts, "item_tas").set_index("term")
    assert found["p"]["system:shift_type"] == "p < .001"
    assert found["scenarios"].tolist() == [12, 12, 12]
    even = statistics.shift_model(alike, shifts, "item_tas").set_index("term")
    assert even["p"]["system"] == "p < .001"
    assert even["p"]["system:shift_type"] != "p < .001"


def test_the_share_of_best_draws_is_no_p_value():
    shown = statistics.tidy(pd.DataFrame({"p": [0.0001], "p_gg": [0.02], "p_best": [0.999]}))
    assert shown.iloc[0].tolist() == ["p < .001", "p = .020", 0.999]


def test_recovery_is_read_from_users_who_never_insist_where_there_are_any():
    scored(run="moods", systems=("random", "silent"), n_sessions=3, n_turns=9, arms=("shift", "calm"))
    own = figure_tables.read("moods", "replies_at_risk")
    assert set(own["users"]) == {"Users insist"}
    evaluate.evaluate(evaluate.EvaluateConfig(run="moods-calm"))
    calm = figure_tables.read("moods", "replies_at_risk")
    assert set(calm["users"]) == {"Users never insist"}
    said = {run: list(simulate.iter_dialogues(run)) for run in ("moods", "moods-calm")}
    stages = {run: {p.user.user_meta["stage"] for d in talks for p in d.pairs()} for run, talks in said.items()}  # fmt: skip
    assert {"insist", "nothing_named"} & stages["moods"]
    assert not {"insist", "nothing_named"} & stages["moods-calm"]
    for one, other in zip(*said.values(), strict=True):
        assert one.shift_events == other.shift_events  # the same wishes at the same turns

    turns = evaluate.read("moods-calm", "turns").set_index(["model", "session_id", "turn"])
    silent = calm[calm["model"] == "silent"]
    shifts = evaluate.read("moods-calm", "shifts").query("model == 'silent'")
    assert len(silent) == shifts["watched"].sum()  # nothing is ever recovered: every reply is at risk
    for row in silent.itertuples():
        assert row.expected == turns.loc[(row.model, row.session_id, row.turn + row.reply), "hit_by_chance"]
    with pytest.raises(NoDataError, match="no hit_by_chance; evaluate the run anew"):
        recovery.at_risk(turns.reset_index().drop(columns="hit_by_chance"), shifts)
