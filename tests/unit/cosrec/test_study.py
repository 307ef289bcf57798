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

WRONG = {
    ScoreSettings: {"measure": "NDCG", "mapping": "x", "resamples": 0, "run": "a/b"},
    RetrieveSettings: {"rewriters": ("magic",), "fusion": "sum", "router": "oracle", "mapping": "x", "depth": 0},
    GenerateSettings: {"conversations": 0, "fewest_turns": 9, "fusion": "sum", "seed": -1},
}  # fmt: skip


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    return tmp_path


def test_the_audit_is_written():
    found = STUDY.run("corpus", CorpusSettings(run="a"))
    folder = paths.run_folder("cosrec", "a")
    assert len(pd.read_csv(folder / "quirks.csv")) == len(found["quirks"]) > 0
    assert set(pd.read_csv(folder / "claims.csv")["verdict"]) == {"another corpus", "not verifiable"}
    manifest = runs.read_manifest("cosrec", "a")["stages"]["corpus"]
    assert manifest["status"] == "finished" and "curated/qrels.qrels" in manifest["inputs"]


@pytest.mark.slow
def test_runs_of_anybody_are_scored(results):
    source = part_of_sample(results / "source", curated=8)
    curated = corpus.load(source, "curated")
    for name, sign in (("best", 1.0), ("worst", -1.0)):
        run = {t: ranked({d: sign * g for d, g in grades.items()}) for t, grades in curated.qrels.items()}
        write_run(results / "mine" / f"{name}.run", run, name)
    config = ScoreSettings(run="b", source=str(source), runs=str(results / "mine"), resamples=50)
    found = STUDY.run("evaluate", config)
    means = found["means"][found["means"]["measure"] == "nDCG@10"].set_index(["kind", "system"])["mean"]
    assert means["search", "best"] == means["recommendation", "best"] == 1.0
    assert means["search", "worst"] < means["search", "random order of the pool"] < 1.0
    assert found["joint"].empty  # nobody said where the turns were routed
    assert found["links"].empty and (found["differences"]["diff"] > 0).all()
    assert (paths.run_folder("cosrec", "b") / "differences.csv").is_file()


@pytest.mark.slow
def test_one_run_alone_has_nothing_to_compare(results):
    source = part_of_sample(results / "source", curated=4)
    curated = corpus.load(source, "curated")
    run = {topic: ranked(dict.fromkeys(grades, 1.0)) for topic, grades in curated.qrels.items()}
    write_run(results / "mine" / "one.run", run, "one")
    mine = str(results / "mine")
    found = STUDY.run("evaluate", ScoreSettings(run="c", source=str(source), runs=mine, resamples=20))
    assert found["differences"].empty and set(found["by_reader"]["reader"]) == {"generic", "user"}


@pytest.mark.usefixtures("place")
def test_stages_and_tables_that_are_not_there_are_told():
    refused("13_cosrec_retrieve -p run d", STUDY.run, "evaluate", ScoreSettings(run="d"), error=RunError)
    refused("12_cosrec_generate", generate.read_generated, "d", error=RunError)
    refused("run 14_cosrec_evaluate -p run a", figure_table, "a", "systems", error=NoDataError)
    refused("run 11_cosrec_corpus -p run nowhere", figure_table, "nowhere", "judgments", error=RunError)


@pytest.mark.slow
def test_people_on_a_part_of_the_sample(results):
    source = part_of_sample(results / "source", crowd=10, curated=6)
    found = STUDY.run("people", ScoreSettings(run="e", source=str(source), resamples=20, vectors="none"))
    assert set(found["intents"]["model"]) == {"views", "annotators"}
    assert found["rewriting"]["system"].iloc[-1] == "one annotator"
    assert (paths.run_folder("cosrec", "e") / "people_noise.csv").is_file()


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in WRONG for name in WRONG[kind]])
def test_settings_are_checked(kind, name):
    with pytest.raises(InputError):
        kind(**{name: WRONG[kind][name]})


def test_systems_have_names_of_their_own():
    config = RetrieveSettings()
    names = [paths.slug(system.name) for system in config.systems()]
    assert len(set(names)) == len(config.retrievers) * (len(config.rewriters) + 1)
    assert not any(system.personal for system in RetrieveSettings(mapping="").systems())


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(folder))
        STUDY.run("corpus", CorpusSettings(run="a"))
    return folder


@pytest.fixture
def place(audited, results, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(audited))
    monkeypatch.setenv("CRS_FIGURES", str(results))
    return results


@pytest.mark.usefixtures("place")
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
    every = dict.fromkeys(("not relevant", "partially relevant", "highly relevant"), len(per_intent))
    assert judged.groupby("grade")["intents"].sum().to_dict() == every
    assert set(judged["n_intents"]) == {len(per_intent)}


@pytest.mark.slow
def test_the_command_finds_the_study_of_a_run(place, capsys):
    assert main(["figures", "--run", "a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    drawn = [line.rsplit("/", 1)[1] for line in lines if line.startswith("drawn: ")]
    names = [name for name in registered.names("cosrec") if name != "cosrec_systems"]
    assert drawn == [f"{name}.{kind}" for name in names for kind in ("png", "pdf")] + ["captions.md"]
    left = "left out: cosrec_systems: no finished 14_cosrec_evaluate in run 'a'; make it with"
    assert lines[-1].startswith(left)
    assert sorted(path.name for path in (place / "cosrec-a").iterdir()) == sorted(drawn)


@pytest.mark.slow
def test_the_command_draws_one_figure_by_its_name(place, capsys):
    assert main(["figures", "--run", "a", "--only", "cosrec_judgments"]) == 0
    assert main(["figures", "--run", "a", "--only", "cosrec_systems"]) == 2
    assert "14_cosrec_evaluate" in capsys.readouterr().err
    assert {path.stem for path in (place / "cosrec-a").iterdir()} == {"cosrec_judgments"}
