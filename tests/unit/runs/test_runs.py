"""Run folders: one process at a time, the same parameters on every start, a manifest that tells."""

import json
import platform
import sqlite3
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crs_lib import runs
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, NoDataError, RunError
from crs_lib.core.settings import Settings
from crs_lib.runs import StageSpec, Study
from crs_lib.runs.ledger import Done, Key, Ledger, pack
from tests.helpers import refused

OTHER = """
import sys
from crs_lib import runs
from crs_lib.core.errors import RunError
try:
    with runs.stage("movies", "r1", "evaluate", {}):
        print("in")
except RunError as error:
    print(error)
"""
A = Key("tracker", 0)
B = Key("tracker", 1)
C = Key("echo", 0)
CATALOG = {"catalog": "ab" * 32}


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return tmp_path


def simulate(parameters, text="one", inputs=None, **options):
    with runs.stage("movies", "r1", "simulate", parameters, inputs, **options) as stage:
        tables.write_jsonl(stage.path("out.jsonl"), [{"text": text}])
        stage.counts["sessions"] = 1


def entry(stage="simulate"):
    return runs.Run("movies", "r1").manifest()["stages"][stage]


def test_a_finished_stage_says_what_it_made_and_of_what(results):
    assert runs.Run("movies", "r1").manifest() == {}
    simulate({"seed": 3, "weight": float("nan"), "systems": ("a", "b")}, inputs=CATALOG)
    with runs.stage("movies", "r1", "evaluate", {"alpha": 0.5}):
        pass
    folder = results / "movies" / "r1"
    stage = entry()
    assert stage["status"] == "finished"
    assert entry("evaluate")["status"] == "finished"
    assert stage["parameters"] == {"seed": 3, "weight": None, "systems": ["a", "b"]}
    assert stage["counts"] == {"sessions": 1}
    assert stage["inputs"] == CATALOG
    assert stage["outputs"] == {"out.jsonl": tables.sha256(folder / "out.jsonl")}
    run = runs.Run("movies", "r1")
    assert run.finished("simulate", "03_simulate") == stage
    manifest = run.manifest()
    assert manifest["study"] == "movies"
    assert manifest["run"] == "r1"
    assert manifest["packages"]["python"] == platform.python_version()
    text = (folder / "manifest.json").read_text()
    json.loads(text, parse_constant=pytest.fail)


def contents(folder):
    """The bytes of the files of a folder by their names."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_other_parameters_and_inputs_are_refused_by_name_and_nothing_is_written():
    simulate({"seed": 3, "n_sessions": 5}, inputs={"catalog": "aa"})
    folder = paths.run_folder("movies", "r1")
    before = contents(folder)
    with pytest.raises(RunError, match="seed: 3 there, 4 now") as caught:
        simulate({"seed": 4, "n_sessions": 5}, text="two", inputs={"catalog": "aa"})
    assert "n_sessions" not in str(caught.value)
    parameters = {"seed": 3, "n_sessions": 5}
    other = {"catalog": "bb"}
    refused("input catalog: 'aa' there, 'bb' now", simulate, parameters, "two", other, error=RunError)
    assert contents(folder) == before


@pytest.mark.parametrize(("name", "fixed"), [("workers", True), ("alpha", False)])
def test_how_it_is_computed_may_differ_and_derived_stages_are_made_anew(name, fixed):
    simulate({name: 1}, fixed=fixed)
    simulate({name: 8}, text="two", fixed=fixed)
    assert entry()["parameters"] == {name: 8}


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_stage_that_failed_says_why_and_can_go_on(error):
    with pytest.raises(error), runs.stage("movies", "r1", "simulate", {"seed": 3}):
        assert entry()["status"] == "running"
        refused("no finished", runs.Run("movies", "r1").finished, "simulate", "03_simulate", error=RunError)
        raise error("why")
    failed = entry()
    assert failed["status"] == "failed"
    assert failed["error"] == f"{error.__name__}: why"
    message = "no finished 03_simulate in run 'r1'; make .*python -m crs_lib run"
    refused(message, runs.Run("movies", "r1").finished, "simulate", "03_simulate", error=RunError)
    simulate({"seed": 3})
    again = entry()
    assert again["status"] == "finished"
    assert "error" not in again


def other_process(code=OTHER, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)


@pytest.mark.subprocess
def test_two_processes_cannot_work_on_one_run_and_a_dead_one_does_not_block():
    with runs.stage("movies", "r1", "simulate", {"seed": 3}):
        busy = other_process(check=True)
        assert "another process is working on run 'r1'" in busy.stdout
        assert "evaluate" not in runs.Run("movies", "r1").manifest()["stages"]
    killing = OTHER.replace('print("in")', "import os; os.kill(os.getpid(), 9)")
    killed = other_process(killing, check=False)
    assert killed.returncode == -9
    assert entry("evaluate")["status"] == "running"  # it could not say that it failed
    folder = paths.run_folder("movies", "r1")
    (folder / "scores" / "x" / ".trace.12ab.part" / "data").mkdir(parents=True)
    (folder / ".turns.parquet.12ab.part").touch()
    assert other_process(check=True).stdout == "in\n"
    assert list(folder.rglob(".*.part")) == []


def test_a_folder_that_cannot_be_written_is_not_taken_for_a_busy_one(results):
    (results / "movies").write_text("a file where the folder should be")
    refused(r"cannot be written .* set CRS_RESULTS", simulate, {"seed": 3}, error=RunError)
    (results / "movies").unlink()
    (results / "movies" / "r1" / ".lock").mkdir(parents=True)
    refused(r"cannot be written", simulate, {"seed": 3}, error=RunError)


@pytest.mark.parametrize("damage", ['{"stages": ', '{"stages": {"simulate": {"outputs": {"x": 5}}}}', "[]"])
def test_a_damaged_manifest_is_named_and_left_alone(results, damage):
    simulate({"seed": 3})
    path = results / "movies" / "r1" / "manifest.json"
    path.write_text(damage)
    with pytest.raises(RunError, match=r"manifest.json is damaged .*restore it or remove it"):
        simulate({"seed": 3}, text="two")
    assert path.read_text() == damage


def test_ledgers_of_stages_do_not_meet():
    with runs.stage("movies", "r1", "judge", {}) as work:
        assert work.ledger().path.name == "ledger-judge.sqlite"
        assert work.ledger("ledger.sqlite").path.name == "ledger.sqlite"


def test_a_run_that_continues_may_have_more_of_what_may_grow():
    grows = ("systems", "n")
    simulate({"systems": ["a"], "n": 2, "m": 1}, grows=grows)
    simulate({"systems": ["b", "a"], "n": 3, "m": 1}, grows=grows)
    whole = {"systems": ["a", "b"], "n": 3, "m": 1}
    for change in ({"systems": ["a"]}, {"n": 2}, {"m": 2}):
        refused("made with other parameters", simulate, whole | change, grows=grows, error=RunError)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "ledger.sqlite"


def done(key, text):
    """A session that came to this text."""
    return Done(key, pack(text), "")


def test_what_is_stored_comes_back_in_the_order_asked_for_from_any_process(path):
    with Ledger(path) as ledger:
        ledger.record([done(A, "a"), done(B, "b"), done(C, "ç \ud800")])
    with Ledger(path) as ledger:
        assert list(ledger.bodies([C, A])) == ["ç \ud800", "a"]
        assert ledger.finished() == {A, B, C}
        assert ledger.counts() == {"done": 3}
        assert ledger.failures() == []
    with Ledger(path) as one, Ledger(path) as two:
        one.record([done(A, "a")])
        two.record([done(A, "late"), done(B, "b")])
        assert list(one.bodies([A, B])) == ["a", "b"]


def test_a_failed_session_can_be_done_later_and_its_attempts_are_counted(path):
    with Ledger(path) as ledger:
        ledger.record(Done(key, None, "TimeoutError: slow") for key in (A, C))
        ledger.record([Done(A, None, "ValueError: odd")])
        assert ledger.failures() == [(C, "TimeoutError: slow"), (A, "ValueError: odd")]
        assert ledger.tries() == 2
        ledger.record([done(A, "a")])
        assert ledger.tries() == 1
        assert ledger.counts() == {"done": 1, "failed": 1}
        (row,) = ledger.do("SELECT attempt, error FROM sessions WHERE status = 'done'")
        assert row == (3, None)


def test_a_failed_session_keeps_what_it_came_to_without_the_reply_that_failed(path):
    with Ledger(path) as ledger:
        begun = Done(A, None, "crashed: no", partial=pack("a"))
        ledger.record([begun, Done(C, None, "crashed: no")])
        assert ledger.partial() == [A]
        assert list(ledger.bodies([A])) == ["a"]
        assert ledger.finished() == set()
        ledger.record([done(A, "whole")])
        assert ledger.partial() == []
        assert list(ledger.bodies([A])) == ["whole"]


def test_a_batch_is_stored_whole_or_not_at_all(path):
    with Ledger(path) as ledger:
        ledger.do(
            "CREATE TRIGGER stop BEFORE INSERT ON sessions WHEN NEW.session = 1"
            " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
        with pytest.raises(RunError, match=r"disk full.*stored before is safe"):
            ledger.record([done(A, "a"), done(B, "b")])
        assert ledger.counts() == {}
        ledger.record([done(A, "a")])  # and it can be used again
        assert ledger.counts() == {"done": 1}


def test_a_session_that_is_not_there_or_was_changed_is_an_error(path):
    with Ledger(path) as ledger:
        ledger.record([Done(A, None, "x"), done(B, "b")])
        ledger.do("UPDATE sessions SET body = ? WHERE status = 'done'", (pack("c"),))
        for key in (A, B):
            message = f"session {key.session} of 'tracker' is missing or damaged"
            with pytest.raises(RunError, match=message):
                list(ledger.bodies([key]))


@pytest.mark.parametrize("page", ["damaged", "cut short"])
def test_a_damaged_page_is_noticed_and_a_file_that_is_no_ledger_left_alone(path, page):
    keys = [Key("tracker", i) for i in range(200)]
    with Ledger(path) as ledger:
        ledger.record(done(key, "body " * 300) for key in keys)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    whole = path.read_bytes()
    damaged = whole[: 4096 * 3] + b"\xff" * 4096 + whole[4096 * 4 :]
    path.write_bytes(damaged if page == "damaged" else whole[: 4096 * 2])
    with pytest.raises(RunError, match=r"cannot be used|damaged"), Ledger(path) as ledger:
        list(ledger.bodies(keys))
    no_ledger = b"this is no database" * 100
    path.write_bytes(no_ledger)
    refused(r"cannot be used.*nothing was changed", Ledger, path, error=RunError)
    assert path.read_bytes() == no_ledger


EVENT = st.tuples(st.integers(0, 3), st.none() | st.text(max_size=5))


@settings(max_examples=40, deadline=None)
@given(events=st.lists(EVENT, max_size=15))
def test_any_order_of_attempts_gives_the_first_success(tmp_path_factory, events):
    bodies = {}
    attempts = []
    for session, text in events:
        key = Key("s", session)
        if text is None:
            attempts.append(Done(key, None, "failed"))
        else:
            bodies.setdefault(key, text)
            attempts.append(Done(key, pack(text), "failed"))
    keys = {attempt.key for attempt in attempts}
    with Ledger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite") as ledger:
        for attempt in attempts:
            ledger.record([attempt])
        assert ledger.finished() == set(bodies)
        failed = {key for key, _ in ledger.failures()}
        assert failed == keys - set(bodies)
        assert list(ledger.bodies(bodies)) == list(bodies.values())


class Letters(Settings):
    run: str = "r1"
    words: int = 2


def corpus(settings, stage):
    stage.counts["words"] = settings.words
    tables.write_json(stage.path("cases.json"), {"n": settings.words})
    alphabet = pd.DataFrame({"word": [*"abc"], "n": range(3)})
    frame = alphabet[: settings.words]
    return {"words": frame, "empty": pd.DataFrame(), "seen": "passed on"}


def count(settings, stage):
    words = STUDY.read(settings.run, "words")
    return {"total": words[["n"]].sum().to_frame("n")}


def letters(settings):
    if settings.words > 3:
        raise InputError("words is at most 3")
    return {"alphabet": "ab" * 32}


def words_of(settings):
    return {"words": settings.words}


def no_table(settings, stage):
    return {}


def longest(run):
    return STUDY.read(run, "words").nlargest(1, "n")


FILES = {"words": "words.parquet", "cases": "cases.json", "empty": "empty.csv"}
CONTRACTS = {"words": tables.Contract("words", ("word",), ("word",))}
CORPUS = StageSpec("corpus", "91_corpus", Letters, corpus, needs=letters, outputs=FILES, contracts=CONTRACTS)
TOTAL = {"total": "scores/total.csv"}
COUNT = StageSpec(
    "count", "92_count", Letters, count, inputs=("words.parquet",), outputs=TOTAL, parameters=words_of
)
BROKEN = StageSpec("broken", "93_broken", Letters, no_table, outputs={"gone": "gone.csv"})
STUDY = Study("letters", [CORPUS, COUNT, BROKEN], derived={"longest": longest})


@pytest.fixture
def study_results(results):
    return results / "letters" / "r1"


def test_a_stage_writes_its_tables_and_the_manifest_names_them(study_results):
    results = STUDY.run("corpus", Letters())
    assert results["seen"] == "passed on"
    entry = STUDY.finished("r1", "corpus")
    assert entry["parameters"] == {"run": "r1", "words": 2}
    assert entry["counts"] == {"words": 2}
    assert entry["inputs"] == {"alphabet": "ab" * 32}
    assert set(entry["outputs"]) == {"words.parquet", "cases.json", "empty.csv"}
    words = STUDY.read("r1", "words")
    assert words.equals(results["words"])
    numbers = STUDY.read("r1", "words", columns=["n"])
    assert list(numbers) == ["n"]
    assert STUDY.read("r1", "empty").empty
    assert STUDY.read("r1", "longest")["word"].to_list() == ["b"]


def test_a_later_stage_reads_the_file_that_it_names_as_input(study_results):
    refused("run 91_corpus -p run r1", STUDY.run, "count", Letters(), error=RunError)
    STUDY.run("corpus", Letters())
    with runs.stage("letters", "r1", "count by hand", {}) as stage:
        tables.write_csv(stage.path("scores/total.csv"), pd.DataFrame({"n": [7]}))
    refused("92_count", STUDY.read, "r1", "total", error=RunError)
    assert STUDY.read("r1", "total", variant="by hand")["n"].to_list() == [7]
    STUDY.run("count", Letters())
    entry = STUDY.finished("r1", "count")
    assert entry["inputs"] == {"words.parquet": tables.sha256(study_results / "words.parquet")}
    assert entry["parameters"] == {"words": 2}
    assert STUDY.read("r1", "total")["n"].to_list() == [1]
    assert STUDY.path("r1", "total.csv") == study_results / "scores" / "total.csv"


def test_what_is_missing_names_the_notebook_and_a_changed_file_is_not_read(study_results):
    with pytest.raises(RunError, match="run 91_corpus -p run r1"):
        STUDY.figure_table("r1", "words")  # no stage at all: the run does not exist
    with runs.stage("letters", "r1", "other", {}):
        pass
    refused("run 91_corpus -p run r1", STUDY.read, "r1", "words", error=RunError)
    refused("run 91_corpus -p run r1", STUDY.figure_table, "r1", "words", error=NoDataError)
    STUDY.run("corpus", Letters())
    tables.write_csv(study_results / "empty.csv", pd.DataFrame({"a": [1]}))
    refused(r"empty.csv.*91_corpus -p run r1", STUDY.read, "r1", "empty", error=RunError)
    refused(r"unknown .* table 'word'; did you mean 'words'", STUDY.read, "r1", "word")


def test_settings_are_checked_and_declared_tables_must_be_made(study_results):
    refused("at most 3", STUDY.run, "corpus", Letters(words=4))
    refused("takes Letters, not int", STUDY.run, "corpus", 3)
    assert not study_results.exists()
    refused("gone", STUDY.run, "broken", Letters(), error=RunError)
    manifest = runs.Run("letters", "r1").manifest()
    assert manifest["stages"]["broken"]["status"] == "failed"
