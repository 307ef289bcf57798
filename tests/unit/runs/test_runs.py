"""Run folders: one process at a time, the same parameters on every start, a manifest that tells."""

import json
import subprocess
import sys

import pytest

from crs_lib import runs
from crs_lib.core import paths, tables
from crs_lib.core.errors import RunError


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return tmp_path


def simulate(parameters, text="one", inputs=None, **options):
    with runs.stage("movies", "r1", "simulate", parameters, inputs, **options) as stage:
        tables.write_jsonl(stage.path("out.jsonl"), [{"text": text}])
        stage.counts["sessions"] = 1


def entry(stage="simulate"):
    return runs.read_manifest("movies", "r1")["stages"][stage]


def test_a_finished_stage_says_what_it_made_and_of_what(results):
    assert runs.read_manifest("movies", "r1") == {}
    simulate({"seed": 3, "weight": float("nan"), "systems": ("a", "b")}, inputs={"catalog": "ab" * 32})
    with runs.stage("movies", "r1", "evaluate", {"alpha": 0.5}):
        pass
    found = entry()
    assert (found["status"], entry("evaluate")["status"]) == ("finished", "finished")
    assert found["parameters"] == {"seed": 3, "weight": None, "systems": ["a", "b"]}
    assert (found["counts"], found["inputs"]) == ({"sessions": 1}, {"catalog": "ab" * 32})
    assert found["outputs"] == {"out.jsonl": tables.sha256(results / "movies" / "r1" / "out.jsonl")}
    assert runs.finished("movies", "r1", "simulate", "03_simulate") == found
    manifest = runs.read_manifest("movies", "r1")
    assert (manifest["study"], manifest["run"]) == ("movies", "r1")
    assert manifest["packages"]["python"] == ".".join(map(str, sys.version_info[:3]))
    json.loads((results / "movies" / "r1" / "manifest.json").read_text(), parse_constant=pytest.fail)


def test_other_parameters_and_inputs_are_refused_by_name_and_nothing_is_written():
    simulate({"seed": 3, "n_sessions": 5}, inputs={"catalog": "aa"})
    folder = paths.run_folder("movies", "r1")
    before = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    with pytest.raises(RunError, match="seed: 3 there, 4 now") as caught:
        simulate({"seed": 4, "n_sessions": 5}, text="two", inputs={"catalog": "aa"})
    assert "n_sessions" not in str(caught.value)
    with pytest.raises(RunError, match="input catalog: 'aa' there, 'bb' now"):
        simulate({"seed": 3, "n_sessions": 5}, text="two", inputs={"catalog": "bb"})
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before


@pytest.mark.parametrize(("name", "options"), [("workers", {}), ("alpha", {"fixed": False})])
def test_how_it_is_computed_may_differ_and_derived_stages_are_made_anew(name, options):
    simulate({name: 1}, **options)
    simulate({name: 8}, text="two", **options)
    assert entry()["parameters"] == {name: 8}


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_a_stage_that_failed_says_why_and_can_go_on(error):
    with pytest.raises(error), runs.stage("movies", "r1", "simulate", {"seed": 3}):
        assert entry()["status"] == "running"
        with pytest.raises(RunError, match="no finished"):
            runs.finished("movies", "r1", "simulate", "03_simulate")
        raise error("why")
    assert (entry()["status"], entry()["error"]) == ("failed", f"{error.__name__}: why")
    with pytest.raises(RunError, match=r"no finished 03_simulate in run 'r1'; make .*python -m crs_lib run"):
        runs.finished("movies", "r1", "simulate", "03_simulate")
    simulate({"seed": 3})
    assert entry()["status"] == "finished"
    assert "error" not in entry()


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


def other_process(code=OTHER, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)


@pytest.mark.subprocess
def test_two_processes_cannot_work_on_one_run_and_a_dead_one_does_not_block():
    with runs.stage("movies", "r1", "simulate", {"seed": 3}):
        assert "another process is working on run 'r1'" in other_process(check=True).stdout
        assert "evaluate" not in runs.read_manifest("movies", "r1")["stages"]
    killed = other_process(OTHER.replace('print("in")', "import os; os.kill(os.getpid(), 9)"), check=False)
    assert killed.returncode == -9
    assert entry("evaluate")["status"] == "running"  # it could not say that it failed
    folder = paths.run_folder("movies", "r1")
    (folder / "scores" / "x" / ".trace.12ab.part" / "data").mkdir(parents=True)
    (folder / ".turns.parquet.12ab.part").touch()
    assert other_process(check=True).stdout == "in\n"
    assert list(folder.rglob(".*.part")) == []


def test_a_folder_that_cannot_be_written_is_not_taken_for_a_busy_one(results):
    (results / "movies").write_text("a file where the folder should be")
    with pytest.raises(RunError, match=r"cannot be written .* set CRS_RESULTS"):
        simulate({"seed": 3})
    (results / "movies").unlink()
    (results / "movies" / "r1" / ".lock").mkdir(parents=True)
    with pytest.raises(RunError, match=r"cannot be written"):
        simulate({"seed": 3})


@pytest.mark.parametrize(
    "damage", ['{"stages": ', '{"stages": {"simulate": {"outputs": {"out.jsonl": 5}}}}', "[]"]
)
def test_a_damaged_manifest_is_named_and_left_alone(results, damage):
    simulate({"seed": 3})
    path = results / "movies" / "r1" / "manifest.json"
    path.write_text(damage)
    with pytest.raises(RunError, match=r"manifest.json is damaged .*restore it or remove it"):
        simulate({"seed": 3}, text="two")
    assert path.read_text() == damage


def test_ledgers_of_stages_do_not_meet():
    for stage, file in (("simulate", "ledger.sqlite"), ("judge", "ledger-judge.sqlite")):
        with runs.stage("movies", "r1", stage, {}) as work:
            assert work.ledger().path.name == file
