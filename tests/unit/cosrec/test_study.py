"""The stages that notebooks run: files of the run, foreign run files, missing parts, checked settings."""

import pandas as pd
import pytest

from crs_lib import runs
from crs_lib.__main__ import main
from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.cosrec import audit, corpus, generate
from crs_lib.cosrec.settings import CorpusSettings, GenerateSettings, RetrieveSettings, ScoreSettings
from crs_lib.cosrec.study import STUDY, figure_table
from crs_lib.figures import NoDataError
from crs_lib.figures import base as registered
from crs_lib.retrieval.runs import ranked, write_run
from tests.helpers import refused
from tests.helpers.cosrec_data import part_of_sample


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    return tmp_path


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """The results folder of a finished audit, and its tables."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(folder))
        tables = STUDY.run("corpus", CorpusSettings(run="a"))
    return folder, tables


@pytest.fixture
def figures_folder(audited, results, monkeypatch):
    """The folder of the figures, beside the finished audit."""
    monkeypatch.setenv("CRS_RESULTS", str(audited[0]))
    monkeypatch.setenv("CRS_FIGURES", str(results))
    return results


def test_the_audit_is_written(audited, figures_folder):
    folder, tables = audited
    run = folder / "cosrec" / "a"
    assert len(tables["quirks"]) > 0
    assert len(pd.read_csv(run / "quirks.csv")) == len(tables["quirks"])
    assert set(pd.read_csv(run / "claims.csv")["verdict"]) == {"another corpus", "not verifiable"}
    manifest = runs.Run("cosrec", "a").manifest()["stages"]["corpus"]
    assert manifest["status"] == "finished"
    assert "curated/qrels.qrels" in manifest["inputs"]


def score(results, grade, run="b", curated=8):
    """The evaluation of runs that rank the judged documents by a function of their grades, by name."""
    source = part_of_sample(results / "source", curated=curated)
    qrels = corpus.load(source, "curated").qrels
    for name, function in grade.items():
        run_of_name = {}
        for topic, grades in qrels.items():
            run_of_name[topic] = ranked({document: function(value) for document, value in grades.items()})
        write_run(results / "mine" / f"{name}.run", run_of_name, name)
    folder = str(results / "mine")
    return STUDY.run("evaluate", ScoreSettings(run=run, source=str(source), runs=folder, resamples=50))


@pytest.mark.slow
def test_runs_of_anybody_are_scored(results):
    tables = score(results, {"best": float, "worst": lambda grade: -grade})
    means = tables["means"][tables["means"]["measure"] == "nDCG@10"]
    mean = means.set_index(["kind", "system"])["mean"]
    assert mean["search", "best"] == 1.0
    assert mean["recommendation", "best"] == 1.0
    assert mean["search", "worst"] < mean["search", "random order of the pool"] < 1.0
    assert tables["joint"].empty  # nobody said where the turns were routed
    assert tables["links"].empty
    assert (tables["differences"]["diff"] > 0).all()
    assert (paths.run_folder("cosrec", "b") / "differences.csv").is_file()


@pytest.mark.slow
def test_one_run_alone_has_nothing_to_compare(results):
    tables = score(results, {"one": lambda grade: 1.0}, run="c", curated=4)
    assert tables["differences"].empty
    assert set(tables["by_reader"]["reader"]) == {"generic", "user"}


@pytest.mark.usefixtures("figures_folder")
def test_stages_and_tables_that_are_not_there_are_told():
    refused("13_cosrec_retrieve -p run d", STUDY.run, "evaluate", ScoreSettings(run="d"), error=RunError)
    refused("12_cosrec_generate", generate.read_generated, "d", error=RunError)
    refused("run 14_cosrec_evaluate -p run a", figure_table, "a", "systems", error=NoDataError)
    refused("run 11_cosrec_corpus -p run nowhere", figure_table, "nowhere", "judgments", error=RunError)


@pytest.mark.slow
def test_people_on_a_part_of_the_sample(results):
    source = part_of_sample(results / "source", crowd=10, curated=6)
    tables = STUDY.run("people", ScoreSettings(run="e", source=str(source), resamples=20, vectors="none"))
    assert set(tables["intents"]["model"]) == {"views", "annotators"}
    assert tables["rewriting"]["system"].iloc[-1] == "one annotator"
    assert (paths.run_folder("cosrec", "e") / "people_noise.csv").is_file()


def test_settings_are_checked():
    def wrong(settings, **values):
        with pytest.raises(InputError):
            settings(**values)

    wrong(ScoreSettings, measure="NDCG")
    wrong(ScoreSettings, mapping="x")
    wrong(ScoreSettings, resamples=0)
    wrong(ScoreSettings, run="a/b")
    wrong(RetrieveSettings, rewriters=("magic",))
    wrong(RetrieveSettings, fusion="sum")
    wrong(RetrieveSettings, router="oracle")
    wrong(RetrieveSettings, mapping="x")
    wrong(RetrieveSettings, depth=0)
    wrong(GenerateSettings, conversations=0)
    wrong(GenerateSettings, fewest_turns=9)
    wrong(GenerateSettings, fusion="sum")
    wrong(GenerateSettings, seed=-1)


def test_systems_have_names_of_their_own():
    config = RetrieveSettings()
    names = {paths.slug(system.name) for system in config.systems()}
    assert len(names) == len(config.retrievers) * (len(config.rewriters) + 1)
    assert not any(system.personal for system in RetrieveSettings(mapping="").systems())


@pytest.mark.usefixtures("figures_folder")
def test_the_files_give_the_ratings_that_the_corpus_gives(audited):
    ratings = audit.conversation_ratings(audited[1]["corpus"])
    bars = figure_table("a", "average_ratings")
    aspects = figure_table("a", "aspect_ratings")
    pd.testing.assert_frame_equal(bars, audit.average_rating_counts(ratings))
    pd.testing.assert_frame_equal(aspects, audit.aspect_rating_counts(ratings))
    assert set(bars["n_conversations"]) == {len(ratings)}
    assert bars["conversations"].sum() == len(ratings)
    assert aspects.groupby("aspect")["conversations"].sum().tolist() == [len(ratings)] * 4


@pytest.mark.usefixtures("figures_folder")
def test_the_files_give_the_judgments_that_the_corpus_gives(audited):
    judged = figure_table("a", "judgments")
    intents = len(audit.judgments_per_intent(audited[1]["corpus"]["curated"]))
    assert judged.groupby("grade")["intents"].sum().to_dict() == dict.fromkeys(audit.GRADES, intents)
    assert set(judged["n_intents"]) == {intents}


@pytest.mark.slow
def test_the_command_finds_the_study_of_a_run(figures_folder, capsys):
    assert main(["figures", "--run", "a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    files = [line.rsplit("/", 1)[1] for line in lines if line.startswith("drawn: ")]
    expected = []
    for name in registered.names("cosrec"):
        if name != "cosrec_systems":
            expected += [f"{name}.png", f"{name}.pdf"]
    assert files == [*expected, "captions.md"]
    left = "left out: cosrec_systems: no finished 14_cosrec_evaluate in run 'a'; make it with"
    assert lines[-1].startswith(left)
    assert sorted(path.name for path in (figures_folder / "cosrec-a").iterdir()) == sorted(files)


@pytest.mark.slow
def test_the_command_draws_one_figure_by_its_name(figures_folder, capsys):
    assert main(["figures", "--run", "a", "--only", "cosrec_judgments"]) == 0
    assert main(["figures", "--run", "a", "--only", "cosrec_systems"]) == 2
    assert "14_cosrec_evaluate" in capsys.readouterr().err
    assert {path.stem for path in (figures_folder / "cosrec-a").iterdir()} == {"cosrec_judgments"}
