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
    simulate({"seed": 3}, inputs={"catalog": "ab" * 32})
    found = entry()
    assert (found["status"], found["parameters"], found["counts"]) == (
        "finished",
        {"seed": 3},
        {"sessions": 1},
    )
    assert found["inputs"] == {"catalog": "ab" * 32}
    assert found["outputs"] == {"out.jsonl": tables.sha256(results / "movies" / "r1" / "out.jsonl")}
    assert runs.finished("movies", "r1", "simulate", "03_simulate") == found
    manifest = runs.read_manifest("movies", "r1")
    assert (manifest["study"], manifest["run"]) == ("movies", "r1")
    assert manifest["packages"]["python"] == ".".join(map(str, sys.version_info[:3]))


def test_sha256_is_the_published_one(tmp_path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")  # the example of FIPS 180-2, appendix B.1
    assert tables.sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_stages_of_a_run_share_one_manifest():
    simulate({"seed": 3})
    with runs.stage("movies", "r1", "evaluate", {"alpha": 0.5}):
        pass
    assert entry()["status"] == entry("evaluate")["status"] == "finished"


def test_other_parameters_are_refused_by_name_and_nothing_is_written():
    simulate({"seed": 3, "n_sessions": 5})
    before = {p.name: p.read_bytes() for p in paths.run_folder("movies", "r1").iterdir() if p.is_file()}
    with pytest.raises(RunError) as caught:
        simulate({"seed": 4, "n_sessions": 5}, text="two")
    assert "seed: 3 there, 4 now" in str(caught.value)
    assert "n_sessions" not in str(caught.value)
    after = {p.name: p.read_bytes() for p in paths.run_folder("movies", "r1").iterdir() if p.is_file()}
    assert after == before


def test_other_inputs_are_refused_too():
    simulate({"seed": 3}, inputs={"catalog": "aa"})
    with pytest.raises(RunError, match="input catalog: 'aa' there, 'bb' now"):
        simulate({"seed": 3}, inputs={"catalog": "bb"})


def test_how_it_is_computed_may_differ():
    simulate({"seed": 3, "workers": 1})
    simulate({"seed": 3, "workers": 8})
    assert entry()["parameters"]["workers"] == 8


def test_derived_stages_are_made_anew():
    simulate({"alpha": 1}, fixed=False)
    simulate({"alpha": 2}, text="two", fixed=False)
    assert entry()["parameters"] == {"alpha": 2}


def test_a_stage_that_failed_says_why_and_can_go_on():
    with pytest.raises(ZeroDivisionError), runs.stage("movies", "r1", "simulate", {"seed": 3}):
        1 / 0  # noqa: B018
    assert (entry()["status"], entry()["error"]) == ("failed", "ZeroDivisionError: division by zero")
    with pytest.raises(
        RunError, match="no finished 03_simulate in run 'r1'; make it with: python -m crs_lib run"
    ):
        runs.finished("movies", "r1", "simulate", "03_simulate")
    simulate({"seed": 3})
    assert entry()["status"] == "finished"
    assert "error" not in entry()


def test_interrupting_counts_as_failed():
    with pytest.raises(KeyboardInterrupt), runs.stage("movies", "r1", "simulate", {}):
        raise KeyboardInterrupt
    assert entry()["status"] == "failed"


def test_while_it_works_the_manifest_says_running():
    with runs.stage("movies", "r1", "simulate", {"seed": 3}):
        assert entry()["status"] == "running"
        with pytest.raises(RunError, match="no finished"):
            runs.finished("movies", "r1", "simulate", "03_simulate")


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


def other_process():
    done = subprocess.run([sys.executable, "-c", OTHER], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.subprocess
def test_two_processes_cannot_work_on_one_run_and_a_dead_one_does_not_block():
    with runs.stage("movies", "r1", "simulate", {"seed": 3}):
        assert "another process is working on run 'r1'" in other_process()
        assert "evaluate" not in runs.read_manifest("movies", "r1")["stages"]
    killed = subprocess.run(
        [sys.executable, "-c", OTHER.replace('print("in")', "import os; os.kill(os.getpid(), 9)")],
        check=False,
    )
    assert killed.returncode == -9
    assert entry("evaluate")["status"] == "running"  # it could not say that it failed
    assert other_process() == "in"


def test_a_folder_that_cannot_be_written_is_not_taken_for_a_busy_one(results):
    (results / "movies").write_text("a file where the folder should be")
    with pytest.raises(RunError, match=r"cannot be written .* set CRS_RESULTS"):
        simulate({"seed": 3})
    (results / "movies").unlink()
    (results / "movies" / "r1" / ".lock").mkdir(parents=True)
    with pytest.raises(RunError, match=r"cannot be written"):
        simulate({"seed": 3})


def test_a_damaged_manifest_is_named_and_left_alone(results):
    simulate({"seed": 3})
    path = results / "movies" / "r1" / "manifest.json"
    path.write_text('{"stages": ')
    with pytest.raises(RunError, match=r"manifest.json is damaged"):
        simulate({"seed": 3}, text="two")
    assert path.read_text() == '{"stages": '


def test_a_run_without_manifest_has_an_empty_one():
    assert runs.read_manifest("movies", "nothing") == {}


@pytest.mark.parametrize("name", ["", "..", "a/b", "../x", ".hidden", "a b", "x" * 101, "ä"])
def test_a_name_that_is_no_folder_is_refused_before_anything(results, name):
    with pytest.raises(ValueError, match="cannot be a folder"), runs.stage("movies", name, "simulate", {}):
        pass
    assert list(results.iterdir()) == []


def test_ledgers_of_stages_do_not_meet():
    with runs.stage("movies", "r1", "simulate", {}) as first:
        assert first.ledger().path.name == "ledger.sqlite"
    with runs.stage("movies", "r1", "judge", {}) as second:
        assert second.ledger().path.name == "ledger-judge.sqlite"


def test_the_manifest_is_plain_json_with_nothing_but_finite_numbers():
    simulate({"weights": {"alpha": float("nan")}, "systems": ("a", "b")})
    text = (paths.run_folder("movies", "r1") / "manifest.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["stages"]["simulate"]["parameters"] == {
        "weights": {"alpha": None},
        "systems": ["a", "b"],
    }
