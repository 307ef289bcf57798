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
    if not schema or schema.get("title") != "Judgement":
        return template_answer(prompt, schema, seed)
    scores = {}
    for name in schema["properties"]:
        scores[name] = {"evidence": "said so", "score": 4 if name == "coherence" else 2}
    return json.dumps(scores)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two runs: "rules" without any model, and "models", worded by one and judged by another."""
    folder = tmp_path_factory.mktemp("results")
    models = {"m:1": "a" * 64, "j:1": "b" * 64}
    with pytest.MonkeyPatch.context() as patch, OllamaServer(models, answer=answer) as server:
        patch.setenv("CRS_RESULTS", str(folder))
        llm = {"host": server.url}
        shared = {"n_sessions": 3, "n_turns": 6, "llm": llm, "voices": "A"}
        simulated(run="rules", systems=SYSTEMS[1:], **shared)
        simulated(run="models", systems=SYSTEMS, **shared)
        judging.judge_run("models", ["ollama:j:1"], llm=llm, progress=False)
        for run in ("rules", "models"):
            evaluate.evaluate(evaluate.EvaluateConfig(run=run))
    return folder


@pytest.fixture(autouse=True)
def where(results, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(results))


def test_the_judges_means_are_those_of_the_scores():
    table = figure_tables.read("models", "judge_means")
    assert list(table["model"].unique()) == list(SYSTEMS)
    assert set(table["n_sessions"]) == {3}
    is_coherence = table["construct"] == "coherence"
    assert set(table.loc[is_coherence, "mean"]) == {4}
    assert set(table.loc[~is_coherence, "mean"]) == {2}


def test_calls_are_those_of_the_log_by_role_and_model():
    table = figure_tables.read("models", "llm_calls")
    usage = judging.usage("models").set_index(["role", "model"])
    assert len(table) == usage["calls"].sum()
    sent = table[table["sent"]]
    tokens = sent.groupby(["role", "model"])["tokens_out"].sum()
    assert tokens.to_dict() == usage["tokens_out"].to_dict()
    assert len(table) - len(sent) == usage["cache_hits"].sum() + usage["failed"].sum()
    assert set(table["session_id"]) == {"00000", "00001", "00002"}


@pytest.mark.parametrize("table", ["judge_means", "llm_calls"])
def test_what_a_run_lacks_is_no_data_and_a_run_that_is_not_there_is_an_error(table):
    refused("run 'rules'", figure_tables.read, "rules", table, error=NoDataError)
    refused("run 04_evaluate -p run nowhere", figure_tables.read, "nowhere", table, error=RunError)


def test_a_notebook_shows_a_sentence_instead_of_a_figure_without_data(capsys):
    figure_tables.draw("rules", "judge_scatter", "tokens_and_time")
    first, second = capsys.readouterr().out.splitlines()
    message = "judge_scatter: no session has a score by a judge; make it with: python -m crs_lib"
    assert first.startswith(message)
    assert second.startswith("tokens_and_time: run 'rules' called no language model")
    figure_tables.draw("models", "judge_scatter")
    assert capsys.readouterr().out == ""


def test_a_notebook_shows_a_sentence_instead_of_a_power_curve(capsys):
    scores = statistics.stats_frame(evaluate.read("rules", "results"))
    plan = statistics.plan_for("movies", ["tracker", "random"])
    scores[plan.scenario] += scores[plan.system]
    statistics.draw_power(scores, plan)
    printed = capsys.readouterr().out
    assert printed.startswith("power_curve: no power without a variance of paired differences")


def test_power_is_that_of_each_contrast_and_rises():
    """Every declared contrast by the deviation of its own differences, none by a pooled one."""
    systems = ["oracle", "tracker", "amnesiac"]
    noise = np.random.default_rng(3).normal(size=(12, 3)) * (0.01, 0.2, 0.4)
    gains = pd.DataFrame(0.5 + noise, columns=systems).rename_axis("scenario").reset_index()
    scores = gains.melt("scenario", var_name="system", value_name="gain_after_change")
    plan = statistics.plan_for("movies", systems)
    table = statistics.power_table(scores, plan)
    assert sorted(table["effect"].unique()) == pytest.approx([0.025, 0.05, 0.1])
    spreads = table.groupby(["a", "b"], sort=False)["sd_difference"].first()
    assert list(spreads.index) == [("oracle", "tracker"), ("tracker", "amnesiac")]
    small = np.std(noise[:, 0] - noise[:, 1], ddof=1)
    large = np.std(noise[:, 1] - noise[:, 2], ddof=1)
    assert spreads.tolist() == pytest.approx([small, large])
    assert large > 1.5 * small
    power = table.pivot_table(index=["a", "b", "sessions"], columns="effect", values="power")
    steps = power.groupby(["a", "b"]).diff().dropna()
    assert (steps > -0.05).all(axis=None), "samples are drawn anew for each n"
    assert (power.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    last = power.xs(table["sessions"].max(), level="sessions")[0.05]
    assert last.min() > 0.99
    assert power[0.05]["oracle", "tracker", 100] > 2 * power[0.05]["tracker", "amnesiac", 100]


def test_three_scenarios_have_no_power_and_neither_has_one_system_alone_nor_a_ranking():
    plan = statistics.plan_for("movies", ["tracker", "random"])
    plan = plan.changed(primary_outcome="normalised_gain", secondary_outcomes=(), lower_is_better=())
    large = plan.changed(smallest_effect=0.2)
    refused("no power", figure_tables.read, "rules", "power", plan=large, error=NoDataError)
    scored(run="one", systems=("random",), n_sessions=2, n_turns=3)
    refused("no power", figure_tables.read, "one", "power", error=NoDataError)
    weights = figure_tables.read("one", "sensitivity_weights")
    refused("at least two systems", figures.make, "sensitivity_weights", weights, error=NoDataError)


def test_recovery_ratios_are_those_of_the_declared_contrasts():
    """Tracker recovers at once, sticky only by its second reply, random never: a ratio above 1, and none."""
    systems = ["tracker", "sticky", "random"]
    shifts = pd.DataFrame({"model": np.repeat(systems, 12), "session_id": [*range(12)] * 3})
    delays = [0.0] * 11 + [1.0] + [1.0] * 11 + [0.0] + [np.nan] * 12
    shifts = shifts.assign(type="switch", watched=3, delay_item=delays)
    plan = statistics.plan_for("movies", systems)
    plan = plan.changed(contrasts=(("tracker", "sticky"), ("tracker", "random")))
    table = statistics.recovery_ratios(shifts, plan)
    assert table["b"].tolist() == ["sticky", "random"]
    assert table["events_b"].tolist() == [12, 0]
    assert table["estimate"][0] > table["low"][0] > 1
    assert table["estimate"][1] is None, "random has no event: no finite ratio"
    assert "note" in statistics.recovery_ratios(shifts, plan.changed(contrasts=()))
    assert "note" in statistics.recovery_ratios(shifts.iloc[:0], plan)


def turns_after_shifts(since, scores):
    """The turns of a session by the turns since its last shift, with their item TAS."""
    turns = pd.DataFrame({"turn": range(1, len(since) + 1), "item_tas": scores})
    return turns.assign(model="tracker", session_id="0", since_shift=pd.array(since, dtype="Int64"))


@pytest.fixture
def two_shifts():
    """The shifts of the session of :func:`turns_after_shifts`."""
    return pd.DataFrame({"model": "tracker", "session_id": "0", "turn": [2, 4], "type": ["switch", "return"]})


def test_scores_after_shifts_are_means_up_to_the_next_shift_by_its_type(two_shifts):
    turns = turns_after_shifts([None, 0, 1, 0, 1, 2], [9.0, 0.2, 0.4, 0.9, np.nan, 0.5])
    scores = statistics._shift_scores(turns, two_shifts, "item_tas").set_index("shift_type")["value"]
    assert scores.to_dict() == pytest.approx({"switch": 0.3, "return": 0.7})
    untouched = turns.assign(since_shift=pd.array([None] * 6, dtype="Int64"))
    assert statistics._shift_scores(untouched, two_shifts.iloc[:0], "item_tas").empty


def test_a_model_of_shifts_that_cannot_be_fitted_is_a_note(two_shifts):
    turns = turns_after_shifts([None, 0, 1, 0, 1, 2], [9.0, 0.2, 0.4, 0.9, np.nan, 0.5])
    assert "note" in statistics.shift_model(turns, two_shifts, "item_tas"), "one system"
    assert "note" in statistics.shift_model(turns, two_shifts, "item_recovery_rate"), "no value by turn"
    untouched = turns.assign(since_shift=pd.array([None] * 6, dtype="Int64"))
    assert "note" in statistics.shift_model(untouched, two_shifts.iloc[:0], "item_tas"), "no shift"


def test_the_shift_model_tells_an_interaction_from_none():
    """Sticky behind tracker after replace only is an interaction; behind after both types is none."""
    rows = []
    kinds = {4: "refine", 9: "replace"}
    for n, turn, system in itertools.product(range(12), kinds, ("tracker", "sticky")):
        score = 0.5 + 0.01 * ((7 * n + 3 * turn + len(system)) % 5)
        rows.append((system, f"{n:05}", turn, kinds[turn], score))
    shifts = pd.DataFrame(rows, columns=["model", "session_id", "turn", "type", "item_tas"])
    turns = shifts.drop(columns="type").assign(since_shift=pd.array([0] * len(shifts), dtype="Int64"))
    behind = shifts["model"].eq("sticky") * 0.4
    apart = turns.assign(item_tas=turns["item_tas"] - behind * shifts["type"].eq("replace"))
    table = statistics.shift_model(apart, shifts, "item_tas").set_index("term")
    assert table["p"]["system:shift_type"] == "p = .002", "the smallest of 499 swaps"
    assert table["scenarios"].tolist() == [12, 12, 12]
    alike = turns.assign(item_tas=turns["item_tas"] - behind)
    even = statistics.shift_model(alike, shifts, "item_tas").set_index("term")["p"]
    assert even["system"] == "p = .004"
    assert even["system:shift_type"] != "p = .004"


def test_a_share_of_best_draws_is_no_p_value():
    shown = statistics.as_printed(pd.DataFrame({"p": [0.0001], "p_gg": [0.02], "p_best": [0.999]}))
    assert shown.iloc[0].tolist() == ["p < .001", "p = .020", 0.999]


def acts(talks):
    """What users do in some sessions."""
    stages = set()
    for talk in talks:
        stages.update(pair.user.user_meta["stage"] for pair in talk.pairs())
    return stages


@pytest.fixture(scope="module")
def moods(results):
    """A run whose users insist, and beside it its arm of users who never do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(results))
        scored(run="moods", systems=("random", "silent"), n_sessions=3, n_turns=9, arms=("shift", "calm"))
        insisting = figure_tables.read("moods", "replies_at_risk")
        evaluate.evaluate(evaluate.EvaluateConfig(run="moods-calm"))
    return insisting


def test_recovery_is_read_from_users_who_never_insist_where_there_are_any(moods):
    assert set(moods["users"]) == {"Users insist"}
    assert set(figure_tables.read("moods", "replies_at_risk")["users"]) == {"Users never insist"}
    insisting = list(simulate.iter_dialogues("moods"))
    calm = list(simulate.iter_dialogues("moods-calm"))
    assert {"insist", "nothing_named"} & acts(insisting)
    assert {"insist", "nothing_named"}.isdisjoint(acts(calm))
    for first, other in zip(insisting, calm, strict=True):
        assert first.shift_events == other.shift_events  # the same wishes at the same turns


def test_every_reply_of_who_never_recovers_is_at_risk_with_its_chance(moods):
    calm = figure_tables.read("moods", "replies_at_risk")
    silent = calm[calm["model"] == "silent"]
    shifts = evaluate.read("moods-calm", "shifts").query("model == 'silent'")
    assert len(silent) == shifts["watched"].sum()
    turns = evaluate.read("moods-calm", "turns").set_index(["model", "session_id", "turn"])
    for row in silent.itertuples():
        key = row.model, row.session_id, row.turn + row.reply
        assert row.expected == turns.loc[key, "hit_by_chance"]
    lacking = turns.reset_index().drop(columns="hit_by_chance")
    refused("no hit_by_chance; evaluate the run anew", recovery.at_risk, lacking, shifts, error=NoDataError)


MODELS = {"alpha": "Try Kites, a comedy with Ann Lee.", "beta": "Noted.", "gamma:2b": "A comedy, you say?"}


def session(model, reply, number):
    """A session in the thesis's older form; replies differ a little from session to session."""
    asks = [f"I want a comedy about number {number}.", "Something with Ann Lee.", "Now a drama, please."]
    turns = []
    for position, text in enumerate(asks):
        assent = [""] + [" Yes."] * ((number + position) % 3)
        turns.append({"speaker": "USER", "text": text})
        turns.append({"speaker": "SYSTEM", "text": reply + "".join(assent)})
    return {"session_id": number, "model_name": model, "conversation": turns}


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("CRS_FIGURES", str(tmp_path / "figures"))
    folder = tmp_path / "logs"
    folder.mkdir()
    for model, reply in MODELS.items():
        lines = [json.dumps(session(model, reply, number)) for number in range(6)]
        (folder / f"{model.replace(':', '-')}.jsonl").write_text("\n".join(lines))
    (folder / "broken.jsonl").write_text('{"model_name": "delta", "conversation": []}\n')
    judged = ["model,proactiveness,coherence,personalization"]
    judged += [f"alpha,{proactiveness},4,7" for proactiveness in (1, 2, 3, 4, 5, 1)]
    judged += ["beta,2,,3"] * 6
    (tmp_path / "judge.csv").write_text("\n".join(judged))
    return folder


@pytest.fixture
def tables_of_logs(logs, tmp_path, monkeypatch, capsys):
    """The folder of the scores that one command makes of logs."""
    monkeypatch.setattr("crs_lib.figures.style.PRINT_DPI", 40)
    arguments = f"thesis-tables --logs {logs} --run made --workers 1 --topics heuristic"
    assert main([*arguments.split(), "--judge-scores", str(tmp_path / "judge.csv")]) == 0
    return simulate.run_folder("made") / "scores" / "thesis_legacy-topics-heuristic"


def test_one_command_goes_from_logs_to_tables(tables_of_logs, capsys):
    printed = capsys.readouterr().out
    assert "no usable session: delta" in printed
    assert "out of range" in printed
    names = {"model_metrics.csv", "anova.csv", "tukey.csv", "headline.csv", "headline.tex"}
    assert names <= {path.name for path in tables_of_logs.iterdir()}
    results = evaluate.read("made", "results")
    groups = [part["cross_coherence"] for _, part in results.groupby("model")]
    anova = pd.read_csv(tables_of_logs / "anova.csv").set_index(["outcome", "test"])["statistic"]
    expected = scipy.stats.f_oneway(*groups).statistic
    assert anova["cross_coherence", "one-way ANOVA"] == pytest.approx(expected, rel=1e-6)
    tukey = pd.read_csv(tables_of_logs / "tukey.csv")
    assert set(tukey.groupby("outcome").size()) == {3}
    assert {"context_adaptation_score", "proactiveness"} <= set(tukey["outcome"])
    means = pd.read_csv(tables_of_logs / "model_metrics.csv").set_index(["model", "metric"])
    counts = means[["n", "n_missing"]].T
    assert counts["alpha", "proactiveness"].tolist() == [6, 0]
    assert counts["alpha", "personalization"].tolist() == [0, 6], "7 is off the scale"
    assert counts["gamma:2b", "coherence"].tolist() == [0, 6], "nobody judged gamma"
    best = pd.read_csv(tables_of_logs / "headline.csv")
    assert best["metric"].iloc[0] == "context_adaptation_score"
    assert best["published"].isna().all(), "this is no run of the thesis"
    charts = paths.figures() / "movies-made" / tables_of_logs.name
    shown = "system_overview dataset_attributes experimental_design metric_bars correlation_heatmap"
    for name in shown.split():
        assert (charts / f"{name}.png").stat().st_size > 2000


def imported(logs, run, convention="thesis_legacy", **settings):
    """A run of logs, scored."""
    main(["import", "--logs", str(logs), "--run", run])
    evaluate.evaluate(evaluate.EvaluateConfig(run=run, convention=convention, **settings))


def test_shifts_that_no_log_tells_are_drawn_as_detected(logs):
    imported(logs, "found", topics="heuristic")
    events = figure_tables.read("found", "shift_events")
    shifts = evaluate.read("found", "shifts")
    assert set(events["type"]) == {"detected"}
    assert len(shifts) > 0
    assert events["n"].sum() == pytest.approx(len(shifts) / events["n_systems"].iloc[0])
    picture = figures.make("experimental_design", events)
    assert any("detected shifts a system" in text.get_text() for text in picture.findobj(Text))


def test_no_hint_simulates_the_logs_and_six_sessions_have_no_interval(logs):
    imported(logs, "found", topics="heuristic")
    assert "03_simulate" not in figures.base.why_not("shift_profile", "found", InputError("nothing"))
    make = figures.base.TABLES.get("table_model_metrics").make
    means = make(evaluate.read("found", "model_metrics"))
    assert re.search(r"& \d\.\d{3} ", means)
    assert not re.search(r"\d \[", means)


# By convention: the head of the box of texts, what the catalogue is used for, whether texts are scored.
VIEWS = [
    ("thesis_legacy(topics=heuristic)", "Topic model, segmentation", "LDA training", False),
    ("thesis_grounded", "Concepts", "concepts of TAS", True),
    ("default", "Grounding", "films behind titles", True),
]


@pytest.mark.parametrize(("convention", "head", "use", "texts"), VIEWS)
def test_the_diagrams_tell_the_convention_that_was_scored(convention, head, use, texts, logs):
    imported(logs, "told", convention)
    grounding = figure_tables.read("told", "roles", convention).set_index("role")["lines"]["grounding"]
    assert grounding.startswith(head)
    if convention.startswith("thesis_legacy"):
        assert "less alike than 0.55" in grounding
        assert "below 0.35" in grounding
    fields = figure_tables.read("told", "catalogue_fields", convention).set_index("field")
    steps = fields["steps"].iloc[0]
    assert use in steps
    assert fields["topic"].any() == texts
    if "name" in fields.index:
        assert "plot keywords" in steps
        assert convention != "default"
    pools = steps.split("Attribute pools\n")[1]
    assert f"genre {fields.loc['genre', 'values']:,}" in pools


def test_thresholds_are_settings_and_a_grid_of_27_has_one_figure(logs):
    main(["import", "--logs", str(logs), "--run", "grid"])
    config = evaluate.EvaluateConfig(run="grid", convention="thesis_legacy", topics="heuristic")
    files, message = pages.write_thresholds(config)
    assert "under 27 settings" in message
    counts = re.findall(r" in (\d+)", message)
    assert sum(map(int, counts)) == 27
    assert {file.suffix for file in files} == {".csv", ".png", ".pdf"}
    table = pd.read_csv(files[0])
    assert table.groupby(list(pages.THRESHOLDS))["convention"].nunique().tolist() == [1] * 27
    assert "thesis_legacy(topics=heuristic, alignment=0.5)" in set(table["convention"])
    rates = table[table["metric"] == "topic_recovery_rate"]
    by_bar = rates.groupby(["model", "alignment"])["mean"].mean().unstack()
    assert (by_bar.diff(axis=1).iloc[:, 1:] <= 1e-12).all(axis=None), "a higher bar recovers less"
    grounded = evaluate.EvaluateConfig(run="grid", convention="thesis_grounded")
    refused("does not use it", pages.write_thresholds, grounded)


def test_a_run_of_one_system_has_tables_that_say_why_there_is_no_test(logs):
    imported(logs / "alpha.jsonl", "one", topics="heuristic")
    outcomes.write_tables("one")
    folder = evaluate.folder_of("one", evaluate.convention_of("one"))
    anova = pd.read_csv(folder / "anova.csv")
    assert anova["statistic"].isna().all()
    assert anova["note"].str.contains("at least 2").any()
    assert pd.read_csv(folder / "tukey.csv").empty


@external[0]
@external[1]
def test_f_and_tukey_of_cas_equal_those_of_the_reference():
    """F and Tukey's table of CAS from the original's session scores, by our code and by scipy alone."""
    reference = pd.read_csv(folder() / "reference" / "logs_20turns_lda_sessions.csv")
    frame = reference.rename(columns={"model": "system", "session": "scenario"})
    outcome = "context_adaptation_score"
    groups = {name: part[outcome].to_numpy() for name, part in frame.groupby("system")}
    own = stats.anova_table(frame, [outcome]).set_index("test").loc["one-way ANOVA"]
    f = scipy.stats.f_oneway(*groups.values()).statistic
    assert f"{f:.4g}" == "521.9"
    assert f"{own['statistic']:.4g}" == "521.9"
    assert (own["df1"], own["df2"]) == (2, 2997)
    theirs = scipy.stats.tukey_hsd(*groups.values())
    ends = theirs.confidence_interval()
    names = list(groups)
    for row in stats.tukey_table(frame, [outcome]).itertuples():
        pair = names.index(row.a), names.index(row.b)
        assert row.diff == pytest.approx(theirs.statistic[pair], abs=5e-5)
        assert row.low == pytest.approx(ends.low[pair], abs=5e-5)
        assert row.high == pytest.approx(ends.high[pair], abs=5e-5)
        assert row.p < 1e-4


def conversations(world, config):
    """The sessions of each system, made without a run."""
    talks = []
    for system, number in itertools.product(config.systems, range(config.n_sessions)):
        talks.append(simulate.session(world, system, number, config))
    return talks


def test_the_tour_holds_and_scores_what_a_run_of_its_settings_does(world):
    config = simulate.SimulateConfig(run="tour-unit", systems=("random", "tracker"), n_sessions=3, n_turns=10)
    simulate.simulate(config, progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run="tour-unit"))
    talks = conversations(world, config)
    assert talks == simulate.dialogues("tour-unit")
    scores = tables.session_scores(talks, world, conventions.get("default"))
    assert scores.groupby("model").size().tolist() == [3, 3]
    names = list(layout.HEADLINE)
    shown = scores.groupby("model")[names].mean().dropna(axis=1, how="all")
    lacking = set(names) - set(shown)
    assert lacking == {"shift_cost", "straight_gain"}, "a tour has no straight users"
    results = evaluate.read("tour-unit", "results").astype(dict.fromkeys(names, float))
    wanted = results.groupby("model")[list(shown)].mean()
    pd.testing.assert_frame_equal(shown, wanted, check_names=False)


def test_the_printed_policy_works_and_does_what_its_docstring_says(world, monkeypatch):
    notebook = nbformat.read(paths.notebooks() / "00_start.ipynb", as_version=4)
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    (code,) = re.findall(r"```python\n(.*?)```", "\n".join(texts), re.DOTALL)
    monkeypatch.setattr(systems.SYSTEMS, "_entries", dict(systems.SYSTEMS._entries))
    exec(code, {"SYSTEMS": systems.SYSTEMS, "Tracker": policies.Tracker})
    config = simulate.SimulateConfig(systems=("genre_only", "tracker"), n_sessions=2, n_turns=8)
    assert believed_fields(simulate.session(world, "genre_only", 1, config)) == {"genre"}
    assert believed_fields(simulate.session(world, "tracker", 1, config)) - {"genre"}


def believed_fields(talk):
    """The fields of the constraints that a system believed in."""
    fields = set()
    for pair in talk.pairs():
        fields.update(pair.system.meta["constraints"])
    return fields


@pytest.mark.subprocess
def test_a_system_of_ones_own_is_tried_and_placed_among_the_others(world):
    own = "python:my_system:MySystem"
    whole = systems.World(world.catalog, world.grounder, programs=Programs(None, catalog=world.catalog))
    config = simulate.SimulateConfig(systems=(own, "random", "oracle"), n_sessions=2, n_turns=8, voices="A")
    table = tables.trial(whole, config)
    assert table["turn"].tolist() == [1, 2, 3]
    assert table["constraints"].iloc[1:].is_unique
    assert table["met"].iloc[0] == "1 of 1", "the class reads a genre"
    results = tables.session_scores(conversations(whole, config), whole, conventions.get("default"))
    assert results.groupby("model")["normalised_gain"].mean().idxmax() == "oracle"
    assert set(results["model"]) == {own, "random", "oracle"}
