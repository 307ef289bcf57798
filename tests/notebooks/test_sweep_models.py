"""Sweeps with language models: what is missing is said before anything starts, in one message."""

import json

import pytest

from crs_lib import judge as judging
from crs_lib.__main__ import main
from crs_lib.core import paths
from crs_lib.notebooks import runner, sweeps
from tests.helpers import refused, table
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.sample import simulated

NOBODY = "http://127.0.0.1:9"
SIZE = {"n_sessions": 2, "n_turns": 2}


@pytest.fixture
def server():
    with OllamaServer({"m:1": "a" * 64, "u:1": "b" * 64, "j:1": "c" * 64}, context=4096) as running:
        yield running


@pytest.fixture
def started(tmp_path, monkeypatch):
    """What would run, in order, as (notebook, parameters)."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    runs = []
    monkeypatch.setattr(runner, "run", lambda book, values: runs.append((book.stem, values)))
    return runs


def sweep(folder, llm, **changes):
    parameters = {"systems": ["tracker", "ollama:m:1"], "user_llm": "ollama:u:1", "judges": ["ollama:j:1"]}
    parameters |= {"llm": {"num_ctx": 4096, **llm}, **SIZE, **changes}
    record = {"notebooks": ["03_simulate", "04_evaluate"], "parameters": parameters}
    record |= {"grid": {"seed": [1, 2]}, "run": "s{seed}"}
    if "systems" in changes:
        record["grid"]["systems"] = parameters.pop("systems")
        record["run"] += "-{systems}"
    path = folder / "sweep.yaml"
    path.write_text(json.dumps(record))
    return str(path)


def test_one_message_names_all_that_any_cell_lacks(tmp_path, server, started, capsys):
    systems = [["tracker"], ["ollama:m:1"], ["ollama:away:1"]]
    path = sweep(tmp_path, {"host": server.url}, systems=systems, judges=["ollama:j:1", "ollama:notthere"])
    assert main(["sweep", path]) == 2
    message = capsys.readouterr().err
    assert "2 things are missing" in message
    for words in ("crs: ", "ollama pull away:1", "judge: ", "ollama pull notthere"):
        assert message.count(words) == 1
    assert started == []
    assert server.chats == 0
    assert not (tmp_path / "results").exists()


def test_with_all_models_there_the_sweep_starts(tmp_path, server, started):
    assert main(["sweep", sweep(tmp_path, {"host": server.url})]) == 0
    assert [book for book, _ in started] == ["03_simulate", "04_evaluate"] * 2
    assert [values["llm"]["num_ctx"] for _, values in started] == [4096] * 4
    assert server.chats == 0


def test_where_nothing_needs_a_server_nothing_is_asked(tmp_path, started, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", NOBODY)
    path = sweep(tmp_path, {}, systems=[["tracker"], ["template"]], user_llm="template", judges=["template"])
    assert main(["sweep", path]) == 0
    assert len(started) == 8


def test_what_is_finished_needs_no_server(tmp_path, server, started, capsys):
    llm = {"num_ctx": 4096, "host": server.url}
    systems = ["tracker", "ollama:m:1"]
    for seed in (1, 2):
        simulated(run=f"s{seed}", systems=systems, seed=seed, user_llm="ollama:u:1", llm=llm, **SIZE)
    judging.judge_run("s1", ["ollama:j:1"], llm=llm, progress=False)
    assert main(["sweep", sweep(tmp_path, {"host": NOBODY})]) == 2
    message = capsys.readouterr().err
    assert "one thing is missing" in message  # the judge of the second run
    assert "judge: no server answers" in message
    assert "ollama serve" in message
    judging.judge_run("s2", ["ollama:j:1"], llm=llm, progress=False)
    assert main(["sweep", sweep(tmp_path, {"host": NOBODY})]) == 0
    assert len(started) == 4


def test_a_setting_that_judges_do_not_take_is_given_to_one_notebook(tmp_path, server, started, capsys):
    llm = {"host": server.url, "enforce": True}
    assert main(["sweep", sweep(tmp_path, llm)]) == 2
    assert "In a sweep give 04_evaluate its own, as '04_evaluate.llm'" in capsys.readouterr().err
    assert started == []
    own = {"host": server.url, "num_ctx": 2048}
    assert main(["sweep", sweep(tmp_path, llm, **{"04_evaluate.llm": own})]) == 0
    assert [values["llm"] for _, values in started] == [{"num_ctx": 4096, **llm}, own] * 2


@pytest.mark.parametrize(("name", "message"), table(__file__, "wrong_own_settings"))
def test_what_is_one_notebooks_own_is_checked_too(tmp_path, started, name, message):
    refused(message, sweeps.run, sweep(tmp_path, {}, **{name: {}}))


def test_a_sweep_without_notebooks_asks_for_the_models_of_all_its_runs_first(tmp_path, server, capsys):
    systems = [["tracker"], ["ollama:away:1"]]
    path = sweep(tmp_path, {"host": server.url}, systems=systems, judges=["ollama:notthere"])
    assert main(["simulate", "--sweep", path]) == 2
    message = capsys.readouterr().err
    assert "one thing is missing" in message  # it is not judged
    assert "ollama pull away:1" in message
    assert not paths.run_folder("movies", "s1-tracker").exists()
