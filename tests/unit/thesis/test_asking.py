"""Scores that rest on a model's answers: checked before they start, kept, resumed, and none lost for another."""

import json

import pytest

from crs_lib import simulate
from crs_lib.__main__ import main
from crs_lib.llm import LLM
from crs_lib.simulate.config import SimulateConfig
from crs_lib.thesis import asking
from tests.helpers.ollama_server import Faults, OllamaServer

LEGACY = ["--convention", "thesis_legacy", "--topics", "llm"]
GROUNDED = ["--convention", "thesis_grounded", "--extractor", "llm"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRS_RESULTS", str(folder))
        config = SimulateConfig(run="asked", systems=["tracker", "popular"], n_sessions=2, n_turns=3)
        return simulate.simulate(config, progress=False) / "dialogues.jsonl"


@pytest.fixture
def server(monkeypatch):
    with OllamaServer({"t:1": "a" * 64}, answer=answer) as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        yield running


def answer(prompt, schema, seed):
    """Every list that the schema asks for, with a genre that the message names."""
    genres = [word for word in ("drama", "comedy", "thriller") if word in prompt.lower()]
    return json.dumps({name: genres if name in ("topics", "genre") else [] for name in schema["properties"]})


def score(log, out, way=LEGACY, *more, model="ollama:t:1"):
    words = ["--logs", str(log), "--catalog", "sample", *way, "--llm", model, "--out", str(out), *more]
    return main(["score", *words])


def tables(out):
    names = ("results.jsonl", "turns.parquet", "shifts.parquet", "model_metrics.csv")
    return [(out / name).read_bytes() for name in names]


def rows(out, name="results.jsonl"):
    return [json.loads(line) for line in (out / name).read_text().splitlines()]


@pytest.mark.parametrize("way", [LEGACY, GROUNDED])
@pytest.mark.slow
def test_every_call_is_on_record_and_asked_once(log, server, tmp_path, way, capsys):
    assert score(log, tmp_path, way, "--llm-settings", '{"num_ctx": 4096, "slots": 3}') == 0
    calls = rows(tmp_path, "llm_calls.jsonl")
    assert len(calls) == server.chats > 0
    record = {"role": "topics", "model": "ollama:t:1", "error": None}
    assert all(record.items() <= call.items() for call in calls)
    assert {(call["options"]["num_ctx"], call["options"]["temperature"]) for call in calls} == {(4096, 0)}
    assert "topics ollama:t:1" in " ".join(capsys.readouterr().out.split())
    for row in rows(tmp_path):
        assert f"weights of ollama:t:1 {'a' * 16}" in row["input_hash"]
        assert json.loads(row["weights"])["llm"] == {"num_ctx": 4096, "num_predict": 400, "think": None}
    first, before = tables(tmp_path), server.chats
    assert score(log, tmp_path, way, "--llm-settings", '{"num_ctx": 4096}') == 0
    assert (tables(tmp_path), server.chats) == (first, before)


def test_what_is_missing_is_said_before_anything_is_asked(log, server, tmp_path, capsys):
    assert score(log, tmp_path / "out", model="ollama:away:1") == 2
    assert "topics: " in (message := capsys.readouterr().err)
    assert "ollama pull away:1" in message
    server.context = 4096
    assert score(log, tmp_path / "out") == 2
    assert "num_ctx asks for 8192" in capsys.readouterr().err
    assert server.chats == 0
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_server_that_goes_away_costs_no_answer(log, server, tmp_path, capsys):
    assert score(log, tmp_path / "whole") == 0
    whole = server.chats
    server.faults["t:1"] = Faults(plan=[""] * whole + ["", "", "400"])
    assert score(log, tmp_path / "cut") == 2
    assert "could not be asked" in (message := capsys.readouterr().err)
    assert "start the same command again" in message
    assert not (tmp_path / "cut" / "results.jsonl").exists()
    calls = [call["error"] for call in rows(tmp_path / "cut", "llm_calls.jsonl")]
    answered = calls.count(None)
    assert answered >= 2
    assert sorted(calls, key=bool) == [None] * answered + ["refused"]
    before = server.chats
    assert (score(log, tmp_path / "cut"), server.chats - before) == (0, whole - answered)
    assert tables(tmp_path / "cut") == tables(tmp_path / "whole")


@pytest.mark.parametrize("way", [LEGACY, GROUNDED])
@pytest.mark.slow
def test_a_text_without_an_answer_leaves_one_session_without_scores(log, server, tmp_path, way, capsys):
    assert score(log, tmp_path / "whole", way) == 0
    capsys.readouterr()
    talk = json.loads(log.read_text().splitlines()[0])
    stubborn = [turn["text"] for turn in talk["conversation"] if turn["speaker"] == "SYSTEM"][1]
    server.answer = lambda prompt, *more: "rubbish" if stubborn in prompt else answer(prompt, *more)
    out = tmp_path / "out"
    assert score(log, out, way) == 0
    output = capsys.readouterr().out
    assert f"sessions without scores: 1; the first is {talk['session_id']} of {talk['model_name']}" in output
    (lost, *others), (first, *whole) = rows(out), rows(tmp_path / "whole")
    assert others == whole
    assert (lost["model"], lost["session_id"]) == (first["model"], first["session_id"])
    assert "gave no usable answer" in lost["detail"]["failed"]
    assert lost["topic_recovery_rate"] is lost["cross_coherence"] is None
    before = server.chats
    assert score(log, out, way) == 0  # asked again: one text, under three seeds
    assert server.chats - before == 3
    server.answer = answer
    assert score(log, out, way) == 0
    assert tables(out) == tables(tmp_path / "whole")


def test_a_model_that_answers_nothing_usable_is_an_error(log, server, tmp_path, capsys):
    server.answer = lambda prompt, schema, seed: "rubbish"
    assert score(log, tmp_path) == 2
    assert "none of 4 sessions can be scored; topic extractor llm: ollama:t:1" in capsys.readouterr().err
    assert not (tmp_path / "results.jsonl").exists()


@pytest.mark.parametrize(("more", "message"), [
    (["--llm-settings", "4096"], "llm_settings is 4096; input should be a valid dictionary"),
    (["--llm-settings", "{"], "llm_settings is '{'; input should be a valid dictionary"),
    (["--llm-settings", '{"temperature": 1}'], "an extractor takes no 'temperature'"),
    (["--llm-settings", '{"enforce": true}'], "an extractor takes no 'enforce': it is the simulation's"),
    (["--topics", "heuristic"], "llm is 'ollama:t:1', but convention 'thesis_legacy(topics=heuristic)'"),
])  # fmt: skip
def test_what_would_have_no_use_is_refused(log, server, tmp_path, more, message, capsys):
    assert score(log, tmp_path, LEGACY, *more) == 2
    assert message in capsys.readouterr().err


def test_texts_go_out_in_parts_and_each_once(monkeypatch):
    monkeypatch.setattr(asking, "_AT_ONCE", 3)
    sizes = []

    class Counting(LLM):
        def gather(self, requests):
            sizes.append(len(requests))
            return super().gather(requests)

    asker = asking.Asker(Counting("scripted", answers=lambda _: '{"topics": []}'), "x")
    texts = [f"text {number}" for number in (0, 1, 2, 3, 0, 4, 5, 6, 6)]
    assert asker.lists("movies/topics", texts, ["topics"], most=5) == [{"topics": []}] * 9
    assert sizes == [3, 3, 1]
