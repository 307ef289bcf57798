"""The tables behind the figures that only some runs have: judged, worded by models, made sensitive."""

import itertools
import json
import re

import nbformat
import numpy as np
import pandas as pd
import pytest
import scipy
from matplotlib.text import Text

from crs_lib import evaluate, figures, simulate, stats
from crs_lib import judge as judging
from crs_lib.__main__ import main
from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.figures import NoDataError, layout, recovery
from crs_lib.llm.template import answer as template_answer
from crs_lib.metrics import conventions
from crs_lib.report import figure_tables, outcomes, statistics, tables
from crs_lib.systems import Programs, policies
from crs_lib.systems import base as systems
from crs_lib.thesis import pages
from tests.helpers import refused
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.sample import scored, simulated
from tests.helpers.thesis_data import external, folder

SYSTEMS = ("ollama:m:1", "tracker", "random")
pytestmark = pytest.mark.slow  # they share runs that take seconds


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
    models = {"m:1": "a" * 64, "j:1": "b" * 64}
    with pytest.MonkeyPatch.context() as patch, OllamaServer(models, answer=answer) as server:
        patch.setenv("CRS_RESULTS", str(folder))
        llm = {"host": server.url}
        for run, systems in (("rules", SYSTEMS[1:]), ("models", SYSTEMS)):
            simulated(run=run, systems=systems, n_sessions=3, n_turns=6, llm=llm, voices="A")
        judging.judge_run("models", ["ollama:j:1"], llm=llm, progress=False)
        for run in ("rules", "models"):
            evaluate.evaluate(evaluate.EvaluateConfig(run=run))
    return folder


@pytest.fixture(autouse=True)
def where(results, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(results))


def test_the_judges_means_are_those_of_the_scores_and_calls_those_of_the_log_by_role_and_model():
    table = figure_tables.read("models", "judge_means")
    assert list(dict.fromkeys(table["model"])) == list(SYSTEMS) and set(table["n_sessions"]) == {3}
    assert table["mean"].eq(2 + 2.0 * table["construct"].eq("coherence")).all()
    table = figure_tables.read("models", "llm_calls")
    usage = judging.usage("models").set_index(["role", "model"])
    assert len(table) == usage["calls"].sum()
    sent = table[table["sent"]].groupby(["role", "model"])["tokens_out"].sum()
    assert sent.to_dict() == usage["tokens_out"].to_dict()
    assert len(table) - table["sent"].sum() == usage["cache_hits"].sum() + usage["failed"].sum()
    assert set(table["session_id"]) == {"00000", "00001", "00002"}


@pytest.mark.parametrize("table", ["judge_means", "llm_calls"])
def test_what_a_run_lacks_is_no_data_and_a_run_that_is_not_there_is_an_error(table):
    refused("run 'rules'", figure_tables.read, "rules", table, error=NoDataError)
    refused("run 04_evaluate -p run nowhere", figure_tables.read, "nowhere", table, error=RunError)


def test_a_notebook_shows_a_sentence_instead_of_a_figure_without_data_and_of_a_power_curve(capsys):
    figure_tables.draw("rules", "judge_scatter", "tokens_and_time")
    lines = capsys.readouterr().out.splitlines()
    message = "judge_scatter: no session has a score by a judge; make it with: python -m crs_lib"
    assert lines[0].startswith(message)
    assert lines[1].startswith("tokens_and_time: run 'rules' called no language model")
    figure_tables.draw("models", "judge_scatter")
    assert capsys.readouterr().out == ""
    scores = statistics.stats_frame(evaluate.read("rules", "results"))
    plan = statistics.plan_for("movies", ["tracker", "random"])
    apart = scores.assign(**{plan.scenario: scores[plan.scenario].astype(str) + scores[plan.system]})
    statistics.draw_power(apart, plan)
    lines = capsys.readouterr().out
    assert lines.startswith("power_curve: no power without a variance of paired differences")


def test_power_is_that_of_each_contrast_and_rises():
    """Every declared contrast by the deviation of its own differences, none by a pooled one."""
    draw = np.random.default_rng(3)
    noise = draw.normal(size=(12, 3)) * (0.01, 0.2, 0.4)
    scores = pd.DataFrame([
        {"system": name, "scenario": f"{i:05d}", "gain_after_change": 0.5 + noise[i, k]}
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
    assert (rising.groupby(["a", "b"]).diff().dropna() > -0.05).all(axis=None), (
        "samples are drawn anew for each n"
    )
    assert (rising.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    last = rising.xs(table["sessions"].max(), level="sessions")[0.05]
    assert last.min() > 0.99
    assert rising[0.05]["oracle", "tracker", 100] > 2 * rising[0.05]["tracker", "amnesiac", 100]


def test_three_scenarios_have_no_power_and_neither_has_one_system_alone_nor_a_ranking():
    changes = {"primary_outcome": "normalised_gain", "secondary_outcomes": (), "lower_is_better": ()}
    plan = statistics.plan_for("movies", ["tracker", "random"]).changed(smallest_effect=0.2, **changes)
    refused("no power", figure_tables.read, "rules", "power", plan=plan, error=NoDataError)
    scored(run="one", systems=("random",), n_sessions=2, n_turns=3)
    refused("no power", figure_tables.read, "one", "power", error=NoDataError)
    with pytest.raises(NoDataError, match="at least two systems"):
        figures.make("sensitivity_weights", figure_tables.read("one", "sensitivity_weights"))


def test_recovery_ratios_are_those_of_the_declared_contrasts():
    """Tracker recovers at once, sticky only by its second reply, random never: a ratio above 1, and none."""
    shifts = pd.DataFrame({
        "model": ["tracker"] * 12 + ["sticky"] * 12 + ["random"] * 12, "type": ["switch"] * 36,
        "watched": [3] * 36, "session_id": [f"{n:05}" for n in range(12)] * 3,
        "delay_item": [0.0] * 11 + [1.0] + [1.0] * 11 + [0.0] + [float("nan")] * 12,
    })  # fmt: skip
    plan = statistics.plan_for("movies", ["tracker", "sticky", "random"])
    plan = plan.changed(contrasts=(("tracker", "sticky"), ("tracker", "random")))
    result = statistics.recovery_ratios(shifts, plan)
    pairs = [[*pair, events] for pair, events in zip(plan.contrasts, (12, 0), strict=True)]
    assert result[["a", "b", "events_b"]].values.tolist() == pairs
    assert result["estimate"][0] > result["low"][0] > 1
    assert result["estimate"][1] is None, "random has no event: no finite ratio"
    for arguments in ((shifts, plan.changed(contrasts=())), (shifts.iloc[:0], plan)):
        assert "note" in statistics.recovery_ratios(*arguments)


def test_scores_after_shifts_are_means_up_to_the_next_shift_by_its_type():
    turns = pd.DataFrame({
        "model": "tracker", "session_id": "00000", "turn": range(1, 7),
        "since_shift": pd.array([None, 0, 1, 0, 1, 2], dtype="Int64"),
        "item_tas": [9.0, 0.2, 0.4, 0.9, float("nan"), 0.5],
    })  # fmt: skip
    shifts = pd.DataFrame({"model": "tracker", "session_id": "00000", "turn": [2, 4]})
    shifts = shifts.assign(type=["switch", "return"])
    result = statistics._shift_scores(turns, shifts, "item_tas").set_index("shift_type")["value"]
    assert result.to_dict() == pytest.approx({"switch": 0.3, "return": 0.7})
    assert "note" in statistics.shift_model(turns, shifts, "item_tas")  # one system
    assert "note" in statistics.shift_model(turns, shifts, "item_recovery_rate")  # no value by turn
    untouched = turns.assign(since_shift=pd.array([None] * 6, dtype="Int64"))
    nothing = pd.DataFrame(columns=shifts.columns)
    assert statistics._shift_scores(untouched, nothing, "item_tas").empty
    assert "note" in statistics.shift_model(untouched, nothing, "item_tas")


def test_the_shift_model_tells_an_interaction_from_none_and_the_share_of_best_draws_is_no_p_value():
    """Sticky behind tracker after replace only is an interaction; behind after both types is none."""
    keys = itertools.product(range(12), ((4, "refine"), (9, "replace")), ("tracker", "sticky"))
    rows = [(system, f"{n:05}", turn, kind, 0.5 + 0.01 * ((7 * n + 3 * turn + len(system)) % 5))
            for n, (turn, kind), system in keys]  # fmt: skip
    shifts = pd.DataFrame(rows, columns=["model", "session_id", "turn", "type", "item_tas"])
    turns = shifts.drop(columns="type").assign(since_shift=pd.array([0] * len(shifts), dtype="Int64"))
    behind = shifts["model"].eq("sticky") * 0.4
    alike = turns.assign(item_tas=turns["item_tas"] - behind)
    apart = turns.assign(item_tas=turns["item_tas"] - behind * shifts["type"].eq("replace"))
    result = statistics.shift_model(apart, shifts, "item_tas").set_index("term")
    assert result["p"]["system:shift_type"] == "p = .002", "the smallest of 499 swaps"
    assert result["scenarios"].tolist() == [12, 12, 12]
    even = statistics.shift_model(alike, shifts, "item_tas").set_index("term")["p"]
    assert even["system"] == "p = .004" != even["system:shift_type"]
    shown = statistics.as_printed(pd.DataFrame({"p": [0.0001], "p_gg": [0.02], "p_best": [0.999]}))
    assert shown.iloc[0].tolist() == ["p < .001", "p = .020", 0.999]


def test_recovery_is_read_from_users_who_never_insist_where_there_are_any():
    scored(run="moods", systems=("random", "silent"), n_sessions=3, n_turns=9, arms=("shift", "calm"))
    assert set(figure_tables.read("moods", "replies_at_risk")["users"]) == {"Users insist"}
    evaluate.evaluate(evaluate.EvaluateConfig(run="moods-calm"))
    calm = figure_tables.read("moods", "replies_at_risk")
    assert set(calm["users"]) == {"Users never insist"}
    spoken = {run: list(simulate.iter_dialogues(run)) for run in ("moods", "moods-calm")}
    acts = ({p.user.user_meta["stage"] for d in talks for p in d.pairs()} for talks in spoken.values())
    assert [bool({"insist", "nothing_named"} & result) for result in acts] == [True, False]
    for first, other in zip(*spoken.values(), strict=True):
        assert first.shift_events == other.shift_events  # the same wishes at the same turns

    turns = evaluate.read("moods-calm", "turns").set_index(["model", "session_id", "turn"])
    silent = calm[calm["model"] == "silent"]
    shifts = evaluate.read("moods-calm", "shifts").query("model == 'silent'")
    assert len(silent) == shifts["watched"].sum()  # nothing is ever recovered: every reply is at risk
    for row in silent.itertuples():
        assert row.expected == turns.loc[(row.model, row.session_id, row.turn + row.reply), "hit_by_chance"]
    lacking = turns.reset_index().drop(columns="hit_by_chance")
    refused("no hit_by_chance; evaluate the run anew", recovery.at_risk, lacking, shifts, error=NoDataError)


MODELS = {"alpha": "Try Kites, a comedy with Ann Lee.", "beta": "Noted.", "gamma:2b": "A comedy, you say?"}


def session(model, reply, number):
    """A session in the thesis's older form; replies differ a little from session to session."""
    asks = [f"I want a comedy about number {number}.", "Something with Ann Lee.", "Now a drama, please."]
    turns = []
    for where, text in enumerate(asks):
        spoken = reply + " Yes." * ((number + where) % 3)
        turns += [{"speaker": "USER", "text": text}, {"speaker": "SYSTEM", "text": spoken}]
    return {"session_id": number, "model_name": model, "conversation": turns}


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("CRS_FIGURES", str(tmp_path / "figures"))
    where = tmp_path / "logs"
    where.mkdir()
    for model, reply in MODELS.items():
        lines = [json.dumps(session(model, reply, number)) for number in range(6)]
        (where / f"{model.replace(':', '-')}.jsonl").write_text("\n".join(lines) + "\n")
    (where / "broken.jsonl").write_text('{"model_name": "delta", "conversation": []}\n')
    scores = "model,proactiveness,coherence,personalization\n"
    scores += "".join(f"alpha,{1 + n % 5},4,7\n" for n in range(6)) + "beta,2,,3\n" * 6
    (tmp_path / "judge.csv").write_text(scores)
    return where


def test_one_command_goes_from_logs_to_tables_and_figures(logs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("crs_lib.figures.style.PRINT_DPI", 40)
    judged = str(tmp_path / "judge.csv")
    arguments = ["--logs", str(logs), "--run", "made", "--workers", "1", "--judge-scores", judged]
    assert main(["thesis-tables", *arguments, "--topics", "heuristic"]) == 0
    out = capsys.readouterr().out
    assert "no usable session: delta" in out and "out of range" in out
    scores = simulate.run_folder("made") / "scores" / "thesis_legacy-topics-heuristic"
    names = {"model_metrics.csv", "anova.csv", "tukey.csv", "headline.csv", "headline.tex"}
    assert names <= {path.name for path in scores.iterdir()}
    anova, tukey = pd.read_csv(scores / "anova.csv"), pd.read_csv(scores / "tukey.csv")
    results = evaluate.read("made", "results")
    groups = [part["cross_coherence"] for _, part in results.groupby("model")]
    row = anova[(anova["outcome"] == "cross_coherence") & (anova["test"] == "one-way ANOVA")].iloc[0]
    assert row["statistic"] == pytest.approx(scipy.stats.f_oneway(*groups).statistic, rel=1e-6)
    assert set(tukey.groupby("outcome").size()) == {3}
    assert {"context_adaptation_score", "proactiveness"} <= set(tukey["outcome"])
    means = pd.read_csv(scores / "model_metrics.csv").set_index(["model", "metric"])[["n", "n_missing"]]
    # 7 is off the scale; nobody judged gamma
    judged = [("alpha", "proactiveness"), ("alpha", "personalization"), ("gamma:2b", "coherence")]
    assert means.loc[judged].to_numpy().tolist() == [[6, 0], [0, 6], [0, 6]]
    charts = tmp_path / "figures" / "movies-made" / scores.name
    shown = "system_overview dataset_attributes experimental_design metric_bars correlation_heatmap"
    assert all((charts / f"{name}.png").stat().st_size > 2000 for name in shown.split())
    best = pd.read_csv(scores / "headline.csv")
    # this is no run of the thesis
    assert best["metric"].iloc[0] == "context_adaptation_score" and best["published"].isna().all()


def test_shifts_that_no_log_tells_are_drawn_as_detected_and_no_hint_simulates_the_logs(logs):
    main(["import", "--logs", str(logs), "--run", "found"])
    evaluate.evaluate(evaluate.EvaluateConfig(run="found", convention="thesis_legacy", topics="heuristic"))
    events, shifts = figure_tables.read("found", "shift_events"), evaluate.read("found", "shifts")
    assert set(events["type"]) == {"detected"} and len(shifts)
    assert events["n"].sum() == pytest.approx(len(shifts) / events["n_systems"].iloc[0])
    picture = figures.make("experimental_design", events)
    assert any("detected shifts a system" in text.get_text() for text in picture.findobj(Text))
    assert "03_simulate" not in figures.base.why_not("shift_profile", "found", InputError("nothing"))
    means = figures.latex._table_model_metrics(evaluate.read("found", "model_metrics"))
    assert re.search(r"& \d\.\d{3} ", means)
    assert not re.search(r"\d \[", means), "six sessions a system have no interval"


def test_the_diagrams_tell_the_convention_that_was_scored(logs):
    main(["import", "--logs", str(logs), "--run", "told"])
    wanted = {
        "thesis_legacy(topics=heuristic)": ("Topic model, segmentation", "LDA training", False),
        "thesis_grounded": ("Concepts", "concepts of TAS", True), "default": ("Grounding", "films behind titles", True),
    }  # fmt: skip
    for convention, (head, use, texts) in wanted.items():
        evaluate.evaluate(evaluate.EvaluateConfig(run="told", convention=convention))
        roles = figure_tables.read("told", "roles", convention).set_index("role")["lines"]
        assert roles["grounding"].startswith(head)
        fields = figure_tables.read("told", "catalogue_fields", convention).set_index("field")
        assert use in fields["steps"].iloc[0] and fields["topic"].any() == texts
        named = "plot keywords" in fields["steps"].iloc[0] and convention != "default"
        assert ("name" in fields.index) == named
        counted = fields["steps"].iloc[0].split("Attribute pools\n")[1]
        assert f"genre {fields.loc['genre', 'values']:,}" in counted
    legacy = figure_tables.read("told", "roles", "thesis_legacy(topics=heuristic)").set_index("role")["lines"]
    assert "less alike than 0.55" in legacy["grounding"] and "below 0.35" in legacy["grounding"]


def test_thresholds_are_settings_and_a_grid_of_27_has_one_figure(logs, tmp_path):
    main(["import", "--logs", str(logs), "--run", "grid"])
    config = evaluate.EvaluateConfig(run="grid", convention="thesis_legacy", topics="heuristic")
    files, message = pages.write_thresholds(config)
    assert "under 27 settings" in message and sum(map(int, re.findall(r" in (\d+)", message))) == 27
    table = pd.read_csv(files[0])
    assert {file.suffix for file in files} == {".csv", ".png", ".pdf"}
    assert table.groupby(list(pages.THRESHOLDS))["convention"].nunique().tolist() == [1] * 27
    assert "thesis_legacy(topics=heuristic, alignment=0.5)" in set(table["convention"])
    rate = table[table["metric"] == "topic_recovery_rate"].groupby(["model", "alignment"])["mean"].mean()
    assert (rate.unstack().diff(axis=1).iloc[:, 1:] <= 1e-12).all(axis=None)  # a higher bar recovers less
    grounded = evaluate.EvaluateConfig(run="grid", convention="thesis_grounded")
    refused("does not use it", pages.write_thresholds, grounded)


def test_a_run_of_one_system_has_tables_that_say_why_there_is_no_test(logs, capsys):
    main(["import", "--logs", str(logs / "alpha.jsonl"), "--run", "one"])
    evaluate.evaluate(evaluate.EvaluateConfig(run="one", convention="thesis_legacy", topics="heuristic"))
    outcomes.write_tables("one")
    where = evaluate.folder_of("one", evaluate.convention_of("one"))
    anova = pd.read_csv(where / "anova.csv")
    assert anova["statistic"].isna().all() and anova["note"].str.contains("at least 2").any()
    assert pd.read_csv(where / "tukey.csv").empty


@external[0]
@external[1]
def test_f_and_tukey_of_cas_equal_those_of_the_reference():
    """F and Tukey's table of CAS from the original's session scores, by our code and by scipy alone."""
    reference = pd.read_csv(folder() / "reference" / "logs_20turns_lda_sessions.csv")
    frame = reference.rename(columns={"model": "system", "session": "scenario"})
    outcome = "context_adaptation_score"
    groups = {name: part[outcome].to_numpy() for name, part in frame.groupby("system")}
    f = scipy.stats.f_oneway(*groups.values())
    own = stats.anova_table(frame, [outcome]).set_index("test").loc["one-way ANOVA"]
    assert f"{own['statistic']:.4g}" == f"{f.statistic:.4g}" == "521.9"
    assert (own["df1"], own["df2"]) == (2, 2997)
    theirs = scipy.stats.tukey_hsd(*groups.values())
    ends, names = theirs.confidence_interval(), list(groups)
    for row in stats.tukey_table(frame, [outcome]).itertuples():
        i, j = names.index(row.a), names.index(row.b)
        expected = [round(table[i, j], 4) for table in (theirs.statistic, ends.low, ends.high)]
        assert [round(row.diff, 4), round(row.low, 4), round(row.high, 4)] == expected
        assert row.p < 1e-4


def conversations(world, config):
    return [simulate.session(world, s, n, config) for s in config.systems for n in range(config.n_sessions)]


def test_the_tour_holds_and_scores_what_a_run_of_its_settings_does(world):
    config = simulate.SimulateConfig(run="tour-unit", systems=("random", "tracker"), n_sessions=3, n_turns=10)
    simulate.simulate(config, progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run="tour-unit"))
    talks_made = conversations(world, config)
    assert talks_made == simulate.dialogues("tour-unit")
    scores = tables.session_scores(talks_made, world, conventions.get("default"))
    table = evaluate.read("tour-unit", "results")
    names = layout.HEADLINE
    wanted = table.astype(dict.fromkeys(names, float)).groupby("model")[names].mean()
    assert scores.groupby("model").size().tolist() == [3, 3]
    shown = scores.groupby("model")[list(names)].mean().dropna(axis=1, how="all")
    assert set(names) - set(shown) == {"shift_cost", "straight_gain"}  # a tour has no straight users
    pd.testing.assert_frame_equal(shown, wanted[list(shown)], check_names=False)


def test_the_printed_policy_works_and_does_what_its_docstring_says(world, monkeypatch):
    notebook = nbformat.read(paths.notebooks() / "00_start.ipynb", as_version=4)
    message = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    (code,) = re.findall(r"```python\n(.*?)```", message, re.DOTALL)
    monkeypatch.setattr(systems.SYSTEMS, "_entries", dict(systems.SYSTEMS._entries))
    exec(code, {"SYSTEMS": systems.SYSTEMS, "Tracker": policies.Tracker})
    config = simulate.SimulateConfig(systems=("genre_only", "tracker"), n_sessions=2, n_turns=8)
    talks_made, full = (simulate.session(world, name, 1, config) for name in config.systems)
    believed = [pair.system.meta["constraints"] for pair in talks_made.pairs()]
    assert any(believed) and all(set(constraints) <= {"genre"} for constraints in believed)
    assert any(set(pair.system.meta["constraints"]) - {"genre"} for pair in full.pairs())


@pytest.mark.subprocess
def test_a_system_of_ones_own_is_tried_and_placed_among_the_others(world):
    own = "python:my_system:MySystem"
    whole = systems.World(world.catalog, world.grounder, programs=Programs(None, catalog=world.catalog))
    config = simulate.SimulateConfig(systems=(own, "random", "oracle"), n_sessions=2, n_turns=8, voices="A")
    table = tables.trial(whole, config)
    assert table["turn"].tolist() == [1, 2, 3] and table["constraints"].iloc[1:].is_unique
    assert table["met"].iloc[0] == "1 of 1", "the class reads a genre"
    results = tables.session_scores(conversations(whole, config), whole, conventions.get("default"))
    assert results.groupby("model")["normalised_gain"].mean().idxmax() == "oracle"
    assert set(results["model"]) == {own, "random", "oracle"}
