"""The commands estimate, simulate and judge."""

import json

import pytest

from crs_lib import runs
from crs_lib.__main__ import main
from crs_lib.simulate.config import SimulateConfig
from tests.helpers.ollama_server import OllamaServer

ROLES = ("crs", "user", "judge")
SIZE = ["-p", "n_sessions", "2", "-p", "n_turns", "3"]


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    return tmp_path / "movies"


def calls_of(table):
    """The rows of an estimate: role, model and calls."""
    rows = []
    for line in table.splitlines():
        cells = line.split()
        if cells and cells[0] in ROLES:
            rows.append((cells[0], cells[1], int(cells[2])))
    return rows


def test_estimate_counts_the_calls_of_each_model(capsys):
    words = ["-p", "systems", "tracker,ollama:a:1,ollama:b", "-p", "user_llm", "ollama:u"]
    assert main(["estimate", *words, *SIZE, "--judges", "ollama:j", "--samples", "2"]) == 0
    assert calls_of(capsys.readouterr().out)[:4] == [
        ("crs", "ollama:a:1", 6),  # 2 sessions x 3 turns
        ("crs", "ollama:b", 6),
        ("user", "ollama:u", 18),  # x 3 systems, at most
        ("judge", "ollama:j", 72),  # 3 systems x 2 sessions and their canaries x 3 constructs x 2 samples
    ]


def test_estimate_reads_costs_from_the_log_of_a_run(results, capsys):
    (results / "old").mkdir(parents=True)
    row = {"role": "crs", "model": "ollama:a", "cache_hit": False, "error": None}
    cost = {"tokens_out": 100, "seconds_all": 2.0, "began": 0.0}
    with (results / "old" / "llm_calls.jsonl").open("w") as log:
        for tokens in (500, 1500):
            log.write(json.dumps({**row, **cost, "tokens_in": tokens}) + "\n")
    words = ["-p", "systems", "ollama:a", "-p", "n_sessions", "1800", "-p", "n_turns", "20"]
    words += ["-p", "scope", "stated"]
    assert main(["estimate", *words, "--log", "old"]) == 0
    # turns of sessions, with straight and with fresh users; 1,000 and 100 tokens each; 147,280 x 2 s, 2 at
    # once as in the log
    turns = SimulateConfig(systems=["ollama:a"], n_sessions=1800, n_turns=20, scope="stated")
    assert [turns.turns(arm) for arm in turns.arms] == [36_000, 90_094, 21_186]
    cells = capsys.readouterr().out.splitlines()[1].split()
    assert cells == ["crs", "ollama:a", "147280", "147.28", "14.73", "40.91"]


@pytest.mark.parametrize(("words", "message"), [
    (["estimate", "-p", "systems", "tracker"], "no model and no program takes part"),
    (["estimate", "-p", "sytems", "tracker"], "did you mean 'systems'"),
    (["estimate", "-p", "systems", "ollama:a", "--log", "none"], "no llm_calls.jsonl"),
    (["estimate", "-p", "systems", "ollama:a", "--judges", "olama:j"], "did you mean 'ollama'"),
    (["judge", "nothing", "--judges", "template"], "no finished 03_simulate"),
    (["judge", "r"], "name it, e.g. --judges"),
    (["judge", "r", "--judges", "template", "--llm", '{"enforce": true}'], "a judge takes no 'enforce': it is the simulation's"),
    (["judge", "r", "--judges", "template", "--llm", "8192"], "llm is 8192"),
    (["judge", "r", "--judges", "template", "--samples", "two"], "samples is 'two'"),
])  # fmt: skip
def test_what_is_wrong_is_said_without_a_traceback(words, message, capsys):
    assert main(words) == 2
    assert message in capsys.readouterr().err


def sweep_file(path, notebooks, run, parameters):
    """The name of a file that holds a sweep of one cell."""
    path.write_text(json.dumps({"notebooks": notebooks, "run": run, "parameters": parameters}))
    return str(path)


def test_sweeps_are_estimated_with_the_sizes_of_their_notebooks(capsys, tmp_path):
    assert main(["estimate", "--sweep", "thesis"]) == 0
    systems = [row for row in calls_of(capsys.readouterr().out) if row[0] == "crs"]
    assert len(systems) == 6
    assert {calls for _, _, calls in systems} == {20_000}
    parameters = {"systems": ["ollama:a"], "n_turns": 3, "arms": ["shift"]}
    sweep = sweep_file(tmp_path / "one.yaml", ["03_simulate"], "one", parameters)
    assert main(["simulate", "--estimate", "--sweep", sweep]) == 0
    assert calls_of(capsys.readouterr().out)[0] == ("crs", "ollama:a", 60)  # 20 sessions x 3


@pytest.mark.slow
def test_the_estimate_of_a_sweep_bounds_the_calls_that_it_logs(results, capsys, monkeypatch):
    """Six models in all arms, against the stand-in: no fewer calls than were logged, and at most 15 % more."""
    names = [f"m{number}:latest" for number in range(6)]
    parameters = {
        "systems": [f"ollama:{name}" for name in names],
        "user_llm": "ollama:m0",
        "n_turns": 12,
        "n_sessions": 2,
        "arms": ["shift", "straight", "fresh", "none", "calm"],
        "scope": "stated",
        "judges": ["ollama:m1"],
    }
    sweep = sweep_file(results.parent / "six.yaml", ["03_simulate", "04_evaluate"], "six", parameters)
    with OllamaServer(names) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        assert main(["simulate", "--estimate", "--sweep", sweep]) == 0
        estimated = sum(calls for _, _, calls in calls_of(capsys.readouterr().out))
        assert main(["simulate", "--sweep", sweep]) == 0
        assert main(["judge", "six", "--judges", "ollama:m1"]) == 0
    logs = [path.read_text().splitlines() for path in results.glob("six*/llm_calls.jsonl")]
    logged = sum(map(len, logs))
    assert len(logs) == 3
    assert logged <= estimated <= 1.15 * logged


@pytest.mark.slow
def test_judge_takes_the_settings_of_its_models_like_a_notebook(results, capsys):
    assert main(["simulate", "-p", "run", "r", "-p", "systems", "tracker", *SIZE]) == 0
    llm = '{"num_ctx": 4096, "temperature": 0, "slots": 3}'
    for _ in range(2):
        assert main(["judge", "r", "--judges", "template", "--llm", llm]) == 0
        settings = runs.Run("movies", "r").manifest()["stages"]["judge"]["parameters"]["settings"]
        assert (settings["num_ctx"], settings["temperature"]) == (4096, 0)
    calls = [json.loads(line) for line in (results / "r" / "llm_calls.jsonl").read_text().splitlines()]
    assert len(calls) == 2 * 2 * 3  # sessions and canaries x constructs; the second time nothing is asked
    assert {call["options"]["num_ctx"] for call in calls} == {4096}


@pytest.mark.slow
def test_the_report_says_how_far_the_judges_of_a_run_can_be_trusted(results, capsys):
    assert main(["simulate", "-p", "run", "r", "-p", "systems", "tracker,template", *SIZE]) == 0
    assert main(["judge", "r", "--report"]) == 2
    assert "run 'r' was not judged" in capsys.readouterr().err
    judges = ["--judges", "template", "--samples", "2"]
    assert main(["judge", "r", *judges, "--canaries", "sticky"]) == 2
    assert "the canary 'sticky' went after 0.3; take 'forged_end'" in capsys.readouterr().err
    assert main(["judge", "r", *judges, "--report"]) == 0
    first = capsys.readouterr().out
    assert main(["judge", "r", "--report"]) == 0
    again = capsys.readouterr().out
    *report, _ = again.splitlines(keepends=True)  # the last line says what was read
    assert "".join(report) in first
    assert "scores: " in first
    assert "scores: " not in again  # the second time nobody is asked
    lines = [" ".join(line.split()) for line in again.splitlines()]
    assert "agreement, alpha coherence all - - - 0 fewer than two judges" in lines
    assert "preference for the own family coherence template - - - 0 no session with all four means" in lines
    assert sum(line.startswith("retest, alpha") for line in lines) == 3


def test_the_report_reads_scores_that_were_made_elsewhere(tmp_path, capsys):
    rows = ["model,proactiveness,coherence,personalization", "gemma:2b,4,5,9", "gemma:2b,3,4,2"]
    (tmp_path / "x_judge.csv").write_text("\n".join(rows))
    for place in (tmp_path, tmp_path / "x_judge.csv"):
        assert main(["judge", str(place), "--report"]) == 0
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        assert "thesis personalization 2 1 1" in lines  # asked, given, out of range
        assert any(line.startswith("gemma:2b coherence 4.5 - - 2 0 thesis") for line in lines)
    assert main(["judge", str(tmp_path / "none.csv"), "--report"]) == 2
    assert "no judge scores in" in capsys.readouterr().err
