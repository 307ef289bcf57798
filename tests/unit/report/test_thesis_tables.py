"""The thesis's tables of a run: by one command from logs, under any convention, beside what was published."""

import json
import re

import nbformat
import pandas as pd
import pytest
import scipy
from matplotlib.text import Text

from crs_lib import evaluate, figures, simulate, stats
from crs_lib.__main__ import main
from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.figures import layout
from crs_lib.metrics import conventions
from crs_lib.report import figure_tables, tables, thesis
from crs_lib.systems import Programs, policies, tracker
from crs_lib.systems import base as systems
from tests.helpers.thesis_data import external, folder

MODELS = {"alpha": "Try Kites, a comedy with Ann Lee.", "beta": "Noted.", "gamma:2b": "A comedy, you say?"}


def session(model, reply, number):
    """A session in the thesis's older form; replies differ a little from session to session."""
    asks = [f"I want a comedy about number {number}.", "Something with Ann Lee.", "Now a drama, please."]
    turns = []
    for place, text in enumerate(asks):
        turns.append({"speaker": "USER", "text": text})
        turns.append({"speaker": "SYSTEM", "text": reply + " Yes." * ((number + place) % 3)})
    return {"session_id": number, "model_name": model, "conversation": turns}


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("CRS_FIGURES", str(tmp_path / "figures"))
    place = tmp_path / "logs"
    place.mkdir()
    for model, reply in MODELS.items():
        lines = [json.dumps(session(model, reply, number)) for number in range(6)]
        (place / f"{model.replace(':', '-')}.jsonl").write_text("\n".join(lines) + "\n")
    (place / "broken.jsonl").write_text('{"model_name": "delta", "conversation": []}\n')
    scores = "model,proactiveness,coherence,personalization\n"
    scores += "".join(f"alpha,{1 + n % 5},4,7\n" for n in range(6)) + "beta,2,,3\n" * 6
    (tmp_path / "judge.csv").write_text(scores)
    return place


@pytest.mark.slow
def test_one_command_goes_from_logs_to_tables_and_figures(logs, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("crs_lib.figures.style.PRINT_DPI", 40)
    judged = str(tmp_path / "judge.csv")
    given = ["--logs", str(logs), "--run", "made", "--workers", "1", "--judge-scores", judged]
    assert main(["thesis-tables", *given, "--topics", "heuristic"]) == 0
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
    means = pd.read_csv(scores / "model_metrics.csv").set_index(["model", "metric"])
    assert tuple(means.loc[("alpha", "proactiveness"), ["n", "n_missing"]]) == (6, 0)
    assert tuple(means.loc[("alpha", "personalization"), ["n", "n_missing"]]) == (0, 6)  # 7 is off the scale
    assert tuple(means.loc[("gamma:2b", "coherence"), ["n", "n_missing"]]) == (0, 6)  # nobody judged it
    drawn = tmp_path / "figures" / "movies-made" / scores.name
    shown = "system_overview dataset_attributes experimental_design metric_bars correlation_heatmap"
    for name in shown.split():
        assert (drawn / f"{name}.png").stat().st_size > 2000, name
    best = pd.read_csv(scores / "headline.csv")
    assert best["metric"].iloc[0] == "context_adaptation_score"
    assert best["published"].isna().all()  # this is no run of the thesis


@pytest.mark.slow
def test_shifts_that_no_log_tells_are_drawn_as_detected_and_no_hint_simulates_the_logs(logs):
    main(["import", "--logs", str(logs), "--run", "found"])
    evaluate.evaluate(evaluate.EvaluateConfig(run="found", convention="thesis_legacy", topics="heuristic"))
    events, shifts = figure_tables.read("found", "shift_events"), evaluate.read("found", "shifts")
    assert set(events["type"]) == {"detected"} and len(shifts)
    assert events["n"].sum() == pytest.approx(len(shifts) / events["n_systems"].iloc[0])
    picture = figures.make("experimental_design", events)
    assert any("detected shifts a system" in text.get_text() for text in picture.findobj(Text))
    assert "03_simulate" not in figures.base.why_not("shift_profile", "found", InputError("nothing"))
    means = figures.latex.table_model_metrics(evaluate.read("found", "model_metrics"))
    assert re.search(r"& \d\.\d{3} \[", means) and not re.search(r"& \d\.\d\d \[", means)


@pytest.mark.slow
def test_thresholds_are_settings_and_a_grid_of_27_has_one_figure(logs, tmp_path):
    main(["import", "--logs", str(logs), "--run", "grid"])
    config = evaluate.EvaluateConfig(run="grid", convention="thesis_legacy", topics="heuristic")
    files, told = thesis.write_thresholds(config)
    assert "under 27 settings" in told and sum(map(int, re.findall(r" in (\d+)", told))) == 27
    table = pd.read_csv(files[0])
    assert {file.suffix for file in files} == {".csv", ".png", ".pdf"}
    assert table.groupby(list(thesis.THRESHOLDS))["convention"].nunique().tolist() == [1] * 27
    assert "thesis_legacy(topics=heuristic, alignment=0.5)" in set(table["convention"])
    rate = table[table["metric"] == "topic_recovery_rate"].groupby(["model", "alignment"])["mean"].mean()
    assert (rate.unstack().diff(axis=1).iloc[:, 1:] <= 1e-12).all(axis=None)  # a higher bar recovers less
    with pytest.raises(InputError, match="does not use it"):
        thesis.write_thresholds(evaluate.EvaluateConfig(run="grid", convention="thesis_grounded"))


@pytest.mark.slow
def test_a_run_of_one_system_has_tables_that_say_why_there_is_no_test(logs, capsys):
    main(["import", "--logs", str(logs / "alpha.jsonl"), "--run", "one"])
    evaluate.evaluate(evaluate.EvaluateConfig(run="one", convention="thesis_legacy", topics="heuristic"))
    thesis.write_tables("one")
    place = evaluate.folder_of("one", evaluate.convention_of("one"))
    assert pd.read_csv(place / "anova.csv")["statistic"].isna().all()
    assert pd.read_csv(place / "anova.csv")["note"].str.contains("at least 2").any()
    assert pd.read_csv(place / "tukey.csv").empty


@external[0]
@external[1]
def test_f_and_tukey_of_cas_equal_those_of_the_reference():
    """F and Tukey's table of CAS from the original's session scores, by our code and by scipy alone."""
    reference = pd.read_csv(folder() / "reference" / "logs_20turns_lda_sessions.csv")
    frame = reference.rename(columns={"model": "system", "session": "scenario"})
    outcome = "context_adaptation_score"
    groups = {name: part[outcome].to_numpy() for name, part in frame.groupby("system")}
    f = scipy.stats.f_oneway(*groups.values())
    mine = stats.anova_table(frame, [outcome]).set_index("test").loc["one-way ANOVA"]
    assert f"{mine['statistic']:.4g}" == f"{f.statistic:.4g}" == "521.9"
    assert (mine["df1"], mine["df2"]) == (2, 2997)
    theirs = scipy.stats.tukey_hsd(*groups.values())
    ends, names = theirs.confidence_interval(), list(groups)
    for row in stats.tukey_table(frame, [outcome]).itertuples():
        i, j = names.index(row.a), names.index(row.b)
        expected = [round(table[i, j], 4) for table in (theirs.statistic, ends.low, ends.high)]
        assert [round(row.diff, 4), round(row.low, 4), round(row.high, 4)] == expected
        assert row.p < 1e-4


def conversations(world, config):
    """Every session of the settings, as the notebook holds them."""
    return [simulate.session(world, s, n, config) for s in config.systems for n in range(config.n_sessions)]


@pytest.mark.slow
def test_the_tour_holds_and_scores_what_a_run_of_its_settings_does(world):
    config = simulate.SimulateConfig(run="tour-unit", systems=("random", "tracker"), n_sessions=3, n_turns=10)
    simulate.simulate(config, progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run="tour-unit"))
    made = conversations(world, config)
    assert made == simulate.dialogues("tour-unit")
    scores = tables.mean_scores(tables.session_scores(made, world, conventions.get("default")))
    table = evaluate.read("tour-unit", "results")
    names = layout.HEADLINE
    wanted = table.astype(dict.fromkeys(names, float)).groupby("model")[names].mean()
    assert scores["sessions"].tolist() == [3, 3]
    assert scores["system"].tolist() == wanted.sort_values("normalised_gain", ascending=False).index.tolist()
    shown = scores.set_index("system").drop(columns="sessions").sort_index()
    assert set(names) - set(shown) == {"shift_cost", "straight_gain"}, (
        "a tour has no straight users, so no column for their gain"
    )
    pd.testing.assert_frame_equal(shown, wanted[list(shown)], check_names=False)


def test_the_printed_policy_works_and_does_what_its_docstring_says(world, monkeypatch):
    notebook = nbformat.read(paths.notebooks() / "00_start.ipynb", as_version=4)
    code = [
        found
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for found in re.findall(r"```python\n(.*?)```", cell.source, re.DOTALL)
    ]
    assert len(code) == 1
    monkeypatch.setattr(systems.SYSTEMS, "_entries", dict(systems.SYSTEMS._entries))
    exec(code[0], {"SYSTEMS": systems.SYSTEMS, "Recommender": policies.Recommender, "tracker": tracker})
    config = simulate.SimulateConfig(systems=("genre_only", "tracker"), n_sessions=2, n_turns=8)
    made, full = (simulate.session(world, name, 1, config) for name in config.systems)
    held = [pair.system.meta["constraints"] for pair in made.pairs()]
    assert all(set(constraints) <= {"genre"} for constraints in held)
    assert any(held)
    assert any(set(pair.system.meta["constraints"]) - {"genre"} for pair in full.pairs())


def test_a_system_of_ones_own_is_tried_and_placed_among_the_others(world):
    own = "python:my_system:MySystem"
    mine = systems.World(world.catalog, world.grounder, programs=Programs(None, catalog=world.catalog))
    config = simulate.SimulateConfig(systems=(own, "random", "oracle"), n_sessions=2, n_turns=8)
    table = tables.trial(mine, config)
    assert table["turn"].tolist() == [1, 2, 3]
    assert table["met"].iloc[0] == "1 of 1", "the class reads a genre"
    assert table["constraints"].iloc[1] != table["constraints"].iloc[2]
    results = tables.session_scores(conversations(mine, config), mine, conventions.get("default"))
    assert tables.mean_scores(results)["system"].iloc[0] == "oracle"
    assert set(results["model"]) == {own, "random", "oracle"}
