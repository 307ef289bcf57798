"""The tables behind the CoSRec figures: from a run's files, with their own counts."""

import pandas as pd
import pytest

from crs_lib.__main__ import main
from crs_lib.core.errors import RunError
from crs_lib.cosrec import audit, corpus
from crs_lib.cosrec.settings import CorpusSettings
from crs_lib.cosrec.study import STUDY, figure_table
from crs_lib.figures import NoDataError
from crs_lib.figures import base as registered


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(folder))
        STUDY.run("corpus", CorpusSettings(run="a"))
    return folder


@pytest.fixture(autouse=True)
def place(results, tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(results))
    monkeypatch.setenv("CRS_FIGURES", str(tmp_path))
    return tmp_path


def test_the_files_give_what_the_corpus_gives():
    found = corpus.load_all("sample")
    ratings = audit.conversation_ratings(found)
    bars, aspects = figure_table("a", "average_ratings"), figure_table("a", "aspect_ratings")
    pd.testing.assert_frame_equal(bars, audit.average_rating_counts(ratings))
    pd.testing.assert_frame_equal(aspects, audit.aspect_rating_counts(ratings))
    assert set(bars["n_conversations"]) == {len(ratings)} == {bars["conversations"].sum()}
    assert aspects.groupby("aspect")["conversations"].sum().tolist() == [len(ratings)] * 4
    judged = figure_table("a", "judgments")
    per_intent = audit.judgments_per_intent(found["curated"])
    assert judged.groupby("grade")["intents"].sum().to_dict() == dict.fromkeys(
        ("not relevant", "partially relevant", "highly relevant"), len(per_intent)
    )
    assert set(judged["n_intents"]) == {len(per_intent)}


def test_what_is_not_there_is_said():
    with pytest.raises(NoDataError, match="run 14_cosrec_evaluate -p run a"):
        figure_table("a", "systems")
    with pytest.raises(RunError, match="run 11_cosrec_corpus -p run nowhere"):
        figure_table("nowhere", "judgments")


@pytest.mark.slow
def test_the_command_finds_the_study_of_a_run(place, capsys):
    assert main(["figures", "--run", "a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    drawn = [line.rsplit("/", 1)[1] for line in lines if line.startswith("drawn: ")]
    names = [name for name in registered.names("cosrec") if name != "cosrec_systems"]
    assert drawn == [f"{name}.{kind}" for name in names for kind in ("png", "pdf")] + ["captions.md"]
    assert lines[-1].startswith(
        "left out: cosrec_systems: no finished 14_cosrec_evaluate in run 'a'; make it with"
    )
    assert sorted(path.name for path in (place / "cosrec-a").iterdir()) == sorted(drawn)


@pytest.mark.slow
def test_the_command_draws_one_figure_by_its_name(place, capsys):
    assert main(["figures", "--run", "a", "--only", "cosrec_judgments"]) == 0
    assert main(["figures", "--run", "a", "--only", "cosrec_systems"]) == 2
    assert "14_cosrec_evaluate" in capsys.readouterr().err
    assert {path.stem for path in (place / "cosrec-a").iterdir()} == {"cosrec_judgments"}
