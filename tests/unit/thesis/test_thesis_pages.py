"""The thesis's tables from logs, what published scores stand beside them, and its functions by its names."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from crs_lib import data, evaluate, simulate, thesis
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.evaluate.choose import SPACES
from crs_lib.figures import base as figures
from crs_lib.figures.latex import headline_table
from crs_lib.metrics.conventions import TasWeights
from crs_lib.report import outcomes
from crs_lib.thesis import commands, pages
from tests.helpers import table

MODELS = ("gemma:2b", "qwen:7b")
LEGACY = "thesis_legacy(topics=heuristic)"


def write_logs(folder, n_sessions, n_turns, searched):
    """Logs of two systems in the thesis's older form: what a system searches by, and nothing of the user."""
    folder.mkdir()
    for model in MODELS:
        lines = []
        for number in range(n_sessions):
            turns = []
            for turn in range(n_turns):
                request = f"A comedy about love, please, number {number + turn}."
                reply = f"{model} says: number {turn} is about love."
                turns.append({"speaker": "USER", "text": request})
                turns.append({"speaker": "SYSTEM", "text": reply, "constraints": searched})
            lines.append(json.dumps({"session_id": number, "model_name": model, "conversation": turns}))
        (folder / f"{model.replace(':', '-')}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def as_the_thesis(tmp_path, monkeypatch):
    """Makes a scored run of logs that the published table takes for the thesis's."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    films = tmp_path / "films.json"
    films.write_text((paths.samples() / "movies.json").read_text(encoding="utf-8"), encoding="utf-8")
    own = SimpleNamespace(files=[SimpleNamespace(sha256=tables.sha256(films))], in_mirror=lambda: None)
    monkeypatch.setattr(data, "get", lambda name: own)

    def make(n_sessions, n_turns=20, convention=LEGACY, searched=None):
        logs = write_logs(tmp_path / "logs", n_sessions, n_turns, searched or {})
        simulate.import_logs(simulate.ImportConfig(logs=str(logs), run="old", catalog=str(films)))
        evaluate.evaluate(evaluate.EvaluateConfig(run="old", convention=convention))
        return outcomes.best_systems("old", convention).set_index("metric")

    return make


def test_published_scores_of_a_models_topics_do_not_stand_beside_other_topics(as_the_thesis):
    best = as_the_thesis(100)
    compared = best[best["published"].notna()]
    assert set(compared.index) == {"cross_coherence", "context_retention"}
    assert best.loc["cross_coherence", "published"] == 0.081926
    assert set(best.index[best["published_note"].notna()]) == set(pages.NEED_TOPICS)
    printed = headline_table(best.reset_index())
    assert printed.startswith(f"% {pages.TOPICS_NOTE}")
    assert "\\multicolumn{6}" in printed


@pytest.mark.parametrize(("n_sessions", "n_turns"), [(99, 20), (100, 19)])
def test_nothing_published_stands_beside_few_sessions_or_other_logs(as_the_thesis, n_sessions, n_turns):
    best = as_the_thesis(n_sessions, n_turns)
    assert best["published"].isna().all()
    assert best["published_note"].isna().all()
    assert "published" not in headline_table(best.reset_index())


def test_the_published_table_has_the_two_sets_of_logs_and_six_models_each():
    table = pd.read_csv(paths.samples() / "thesis" / "published.csv")
    assert table.groupby("turns")["model"].nunique().to_dict() == {20: 6, 50: 6}
    older = table[table["turns"] == 20].set_index("model")
    assert older["context_adaptation_score"].nlargest(2).index.tolist() == ["llama3:instruct", "mistral:7b"]


def test_the_share_of_constraints_that_no_film_meets_is_missing_without_constraints(as_the_thesis):
    as_the_thesis(2, 4)
    shares = pages.parts("old").set_index("share of")
    assert shares.loc["constraints that no film meets in full"].isna().all()
    assert shares.loc["searches by systems that no film meets in full"].isna().all()
    assert shares.loc["concepts found inside words"].notna().all()


def test_searches_of_systems_are_told_from_the_constraints_of_users(as_the_thesis):
    as_the_thesis(2, 4, searched={"genre": "Comedy", "year": "1831"})
    shares = pages.parts("old").set_index("share of")
    assert shares.loc["constraints that no film meets in full"].isna().all()
    assert shares.loc["searches by systems that no film meets in full"].tolist() == [1, 1]


def plain_words(text):
    return re.findall(r"[a-z0-9]+(?:'[a-z0-9]+)?", text.lower())


def runs_of(words, order):
    """The distinct runs of so many words."""
    return {tuple(words[first : first + order]) for first in range(len(words) - order + 1)}


def copied_by_loop(reply, request, orders):
    """The copying penalty in the plainest way."""
    largest = 0.0
    for order in orders:
        own = runs_of(plain_words(reply), order)
        if own:
            copied = own & runs_of(plain_words(request), order)
            largest = max(largest, len(copied) / len(own))
    return largest


@pytest.mark.parametrize("orders", [(3, 4), (1,), (4, 2)])
@pytest.mark.parametrize(("reply", "request_"), table(__file__, "copied"))
def test_the_copy_ratio_of_two_texts_equals_a_loop_over_their_words(reply, request_, orders):
    assert thesis.copy_ratio(reply, request_, orders) == copied_by_loop(reply, request_, orders)


def test_tas_is_cut_and_takes_weights():
    assert thesis.compute_tas(0.5, 0.25, 0.125) == 0.625
    assert thesis.compute_tas(1, 1, 0) == 1
    assert thesis.compute_tas(0.5, 0.25, 0.5, TasWeights(gamma=0.5)) == 0.5


def test_concepts_of_a_text_and_their_weights_are_the_vocabularys():
    names = thesis.topic_set("A French comedy")
    assert names == {"genre=comedy", "language=french"}
    assert np.count_nonzero(thesis.attribute_vector("A French comedy")) == 2


@pytest.mark.parametrize(
    ("constraints", "relaxed"),
    [
        ({"genre": "Comedy", "language": "French"}, ""),
        ({"genre": "Comedy", "year": "1831"}, "fewer fields"),
        ({}, "catalogue"),
    ],
)
def test_what_is_recommended_says_whether_it_was_relaxed(constraints, relaxed):
    films = thesis.recommend(constraints)
    assert {film["relaxed"] for film in films} == {relaxed}


def test_at_most_fifty_films_are_recommended():
    assert len(thesis.recommend({}, limit=99)) == 50


@pytest.fixture
def judged():
    """Mean scores of two systems; the second was judged by its own family, and one of its scores is missing."""
    columns = ["model", "construct", "mean", "own_family"]
    means = pd.DataFrame(table(__file__, "judged"), columns=columns)
    return means.assign(low=np.nan, high=np.nan, n_sessions=8)


def test_the_radar_has_a_closed_line_for_each_system_and_marks_who_judged_its_own_family(judged):
    drawing = figures.make("llm_judge_radar", judged)
    (panel,) = drawing.axes
    first, second = panel.lines
    assert panel.name == "polar"
    assert first.get_ydata().tolist() == [2, 4, 3, 2]
    assert second.get_label() == "b *"
    assert "n = 8 sessions" in figures.caption("llm_judge_radar", judged)


@pytest.mark.parametrize(
    "name", ["fig_dataset_pipeline", "metrics_correlation_heatmap", "metric_coherence_bar"]
)
def test_the_thesiss_names_of_figures_work_and_are_not_listed(name):
    assert name in figures.FIGURES
    assert name not in figures.names()


def test_sentences_are_compared_by_minilm_where_it_is_here(monkeypatch, capsys):
    monkeypatch.setattr("crs_lib.retrieval.encoders.ENCODERS.create", lambda encoder: None)
    space = SPACES.get("minilm_or_tfidf").make(["comedy", "drama"], None)
    assert space.name == "minilm"
    assert capsys.readouterr().err == ""


def test_sentences_are_compared_by_tfidf_where_minilm_is_missing(monkeypatch, capsys):
    def create(encoder):
        raise InputError("no MiniLM here")

    monkeypatch.setattr("crs_lib.retrieval.encoders.ENCODERS.create", create)
    space = SPACES.get("minilm_or_tfidf").make(["comedy", "drama"], None)
    assert space.name == "tfidf, 2 terms, stable vocabulary"
    assert "no MiniLM here" in capsys.readouterr().err


def test_a_demo_of_another_size_is_a_run_of_its_own():
    assert commands.Demo().run == "demo"
    assert commands.Demo(n_sessions=3).run == "demo-3x20"
