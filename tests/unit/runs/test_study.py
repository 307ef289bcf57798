"""A study is one table of stages: it makes them, reads their tables, and names the notebook that is missing."""

import pandas as pd
import pytest

from crs_lib import runs
from crs_lib.core import tables
from crs_lib.core.errors import InputError, NoDataError, RunError
from crs_lib.core.settings import Settings
from crs_lib.runs import StageSpec, Study


class Letters(Settings):
    run: str = "r1"
    words: int = 2


def corpus(settings, stage):
    stage.counts["words"] = settings.words
    tables.write_json(stage.path("cases.json"), {"n": settings.words})
    frame = pd.DataFrame({"word": [*"abc"][: settings.words], "n": range(settings.words)})
    return {"words": frame, "empty": pd.DataFrame(), "seen": "passed on"}


def count(settings, stage):
    return {"total": pd.DataFrame({"n": [int(STUDY.read(settings.run, "words")["n"].sum())]})}


def letters(settings):
    if settings.words > 3:
        raise InputError("words is at most 3")
    return {"alphabet": "ab" * 32}


STUDY = Study(
    "letters",
    [
        StageSpec(
            "corpus", "91_corpus", Letters, corpus, needs=letters,
            outputs={"words": "words.parquet", "cases": "cases.json", "empty": "empty.csv"},
            contracts={"words": tables.Contract("words", ("word",), ("word",))},
        ),
        StageSpec(
            "count", "92_count", Letters, count, inputs=("words.parquet",),
            outputs={"total": "scores/total.csv"}, parameters=lambda settings: {"words": settings.words},
        ),
        StageSpec("broken", "93_broken", Letters, lambda settings, stage: {}, outputs={"gone": "gone.csv"}),
    ],
    derived={"longest": lambda run: STUDY.read(run, "words").nlargest(1, "n")},
)  # fmt: skip


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return tmp_path / "letters" / "r1"


def test_a_stage_writes_its_tables_and_the_manifest_names_them(results):
    made = STUDY.run("corpus", Letters())
    assert made["seen"] == "passed on"
    entry = STUDY.finished("r1", "corpus")
    assert entry["parameters"] == {"run": "r1", "words": 2}
    assert entry["counts"] == {"words": 2}
    assert entry["inputs"] == {"alphabet": "ab" * 32}
    assert set(entry["outputs"]) == {"words.parquet", "cases.json", "empty.csv"}
    assert STUDY.read("r1", "words").equals(made["words"])
    assert STUDY.read("r1", "words", columns=["n"]).columns.to_list() == ["n"]
    assert STUDY.read("r1", "empty").empty
    assert STUDY.read("r1", "longest")["word"].to_list() == ["b"]


def test_a_later_stage_reads_the_file_that_it_names_as_input(results):
    with pytest.raises(RunError, match="run 91_corpus -p run r1"):
        STUDY.run("count", Letters())
    STUDY.run("corpus", Letters())
    STUDY.run("count", Letters(), variant="by hand")
    entry = STUDY.finished("r1", "count", variant="by hand")
    assert entry["inputs"] == {"words.parquet": tables.sha256(results / "words.parquet")}
    assert entry["parameters"] == {"words": 2}
    assert STUDY.read("r1", "total", variant="by hand")["n"].to_list() == [1]
    assert STUDY.path("r1", "total.csv", variant="by hand") == results / "scores" / "total.csv"
    with pytest.raises(RunError, match="92_count"):
        STUDY.read("r1", "total")


def test_what_is_missing_names_the_notebook_and_a_figure_may_do_without():
    with pytest.raises(RunError, match="run 91_corpus -p run r1"):
        STUDY.figure_table("r1", "words")  # no stage at all: the run does not exist
    with runs.stage("letters", "r1", "other", {}):
        pass
    with pytest.raises(RunError, match="run 91_corpus -p run r1"):
        STUDY.read("r1", "words")
    with pytest.raises(NoDataError, match="run 91_corpus -p run r1"):
        STUDY.figure_table("r1", "words")


def test_a_changed_file_is_not_read_and_an_unknown_table_gets_a_suggestion(results):
    STUDY.run("corpus", Letters())
    tables.write_csv(results / "empty.csv", pd.DataFrame({"a": [1]}))
    with pytest.raises(RunError, match=r"empty.csv.*91_corpus -p run r1"):
        STUDY.read("r1", "empty")
    with pytest.raises(InputError, match=r"unknown .* table 'word'; did you mean 'words'"):
        STUDY.read("r1", "word")


def test_settings_are_checked_and_declared_tables_must_be_made(results):
    with pytest.raises(InputError, match="at most 3"):
        STUDY.run("corpus", Letters(words=4))
    with pytest.raises(InputError, match="takes Letters, not int"):
        STUDY.run("corpus", 3)
    assert not results.exists()
    with pytest.raises(RunError, match="gone"):
        STUDY.run("broken", Letters())
    assert runs.read_manifest("letters", "r1")["stages"]["broken"]["status"] == "failed"
