"""Scores that rest on a model's answers: checked before they start, kept, resumed, and none lost for another."""

import json

import pytest

from crs_lib import simulate
from crs_lib.__main__ import main
from crs_lib.llm import LLM
from crs_lib.simulate.config import SimulateConfig
from crs_lib.thesis import asking
from tests.helpers import table
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
    lists = {name: [] for name in schema["properties"]}
    for name in {"topics", "genre"} & lists.keys():
        lists[name] = genres
    return json.dumps(lists)


def rubbish(prompt, schema, seed):
    return "rubbish"


def score(log, out, way=LEGACY, *more, model="ollama:t:1"):
    words = ["--logs", str(log), "--catalog", "sample", *way, "--llm", model, "--out", str(out), *more]
    return main(["score", *words])


def tables(out):
    names = ("results.jsonl", "turns.parquet", "shifts.parquet", "model_metrics.csv")
    return [(out / name).read_bytes() for name in names]


def rows(out, name="results.jsonl"):
    return list(map(json.loads, (out / name).read_text().splitlines()))


@pytest.mark.parametrize("way", [LEGACY, GROUNDED])
@pytest.mark.slow
def test_every_call_is_on_record_and_asked_once(log, server, tmp_path, way, capsys):
    assert score(log, tmp_path, way, "--llm-settings", '{"num_ctx": 4096, "slots": 3}') == 0
    printed = " ".join(capsys.readouterr().out.split())
    calls = rows(tmp_path, "llm_calls.jsonl")
    assert len(calls) == server.chats > 0
    for call in calls:
        assert (call["role"], call["model"], call["error"]) == ("topics", "ollama:t:1", None)
        assert call["options"]["num_ctx"] == 4096
        assert call["options"]["temperature"] == 0
    assert "topics ollama:t:1" in printed
    for row in rows(tmp_path):
        settings = json.loads(row["weights"])["llm"]
        assert f"weights of ollama:t:1 {'a' * 16}" in row["input_hash"]
        assert settings == {"num_ctx": 4096, "num_predict": 400, "think": None}
    first = tables(tmp_path)
    assert score(log, tmp_path, way, "--llm-settings", '{"num_ctx": 4096}') == 0
    assert tables(tmp_path) == first
    assert server.chats == len(calls)


def test_a_model_that_is_missing_is_said_before_anything_is_asked(log, server, tmp_path, capsys):
    assert score(log, tmp_path / "out", model="ollama:away:1") == 2
    message = capsys.readouterr().err
    assert "topics: " in message
    assert "ollama pull away:1" in message
    assert server.chats == 0
    assert not (tmp_path / "out").exists()


def test_a_context_that_is_too_small_is_said_before_anything_is_asked(log, server, tmp_path, capsys):
    server.context = 4096
    assert score(log, tmp_path / "out") == 2
    assert "num_ctx asks for 8192" in capsys.readouterr().err
    assert server.chats == 0


@pytest.mark.slow
def test_a_server_that_goes_away_costs_no_answer(log, server, tmp_path, capsys):
    score(log, tmp_path / "whole")
    whole = server.chats
    server.faults["t:1"] = Faults(plan=[""] * whole + ["", "", "400"])
    assert score(log, tmp_path / "cut") == 2
    message = capsys.readouterr().err
    assert "could not be asked" in message
    assert "start the same command again" in message
    assert not (tmp_path / "cut" / "results.jsonl").exists()
    errors = [call["error"] for call in rows(tmp_path / "cut", "llm_calls.jsonl")]
    answered = errors.count(None)
    assert answered >= 2
    assert sorted(errors, key=bool) == [None] * answered + ["refused"]
    before = server.chats
    assert score(log, tmp_path / "cut") == 0
    assert server.chats - before == whole - answered
    assert tables(tmp_path / "cut") == tables(tmp_path / "whole")


@pytest.mark.parametrize("way", [LEGACY, GROUNDED])
@pytest.mark.slow
def test_a_text_without_an_answer_leaves_one_session_without_scores(log, server, tmp_path, way, capsys):
    score(log, tmp_path / "whole", way)
    capsys.readouterr()
    talk = json.loads(log.read_text().splitlines()[0])
    stubborn = talk["conversation"][3]["text"]  # the second reply

    def stubbornly(prompt, schema, seed):
        return "rubbish" if stubborn in prompt else answer(prompt, schema, seed)

    server.answer = stubbornly
    out = tmp_path / "out"
    assert score(log, out, way) == 0
    output = capsys.readouterr().out
    assert f"sessions without scores: 1; the first is {talk['session_id']} of {talk['model_name']}" in output
    lost, *others = rows(out)
    first, *whole = rows(tmp_path / "whole")
    assert others == whole
    assert lost["model"] == first["model"]
    assert lost["session_id"] == first["session_id"]
    assert "gave no usable answer" in lost["detail"]["failed"]
    assert lost["topic_recovery_rate"] is None
    assert lost["cross_coherence"] is None
    before = server.chats
    assert score(log, out, way) == 0
    assert server.chats - before == 3  # one text, under three seeds
    server.answer = answer
    assert score(log, out, way) == 0
    assert tables(out) == tables(tmp_path / "whole")


def test_a_model_that_answers_nothing_usable_is_an_error(log, server, tmp_path, capsys):
    server.answer = rubbish
    assert score(log, tmp_path) == 2
    assert "none of 4 sessions can be scored; topic extractor llm: ollama:t:1" in capsys.readouterr().err
    assert not (tmp_path / "results.jsonl").exists()


@pytest.mark.parametrize(("option", "value", "message"), table(__file__, "settings_without_use"))
def test_what_would_have_no_use_is_refused(log, server, tmp_path, option, value, message, capsys):
    assert score(log, tmp_path, LEGACY, option, value) == 2
    assert message in capsys.readouterr().err


class Counting(LLM):
    """A model that counts how many requests it gets at once."""

    def __init__(self, **settings):
        super().__init__("scripted", **settings)
        self.sizes = []

    def gather(self, requests):
        self.sizes.append(len(requests))
        return super().gather(requests)


def test_texts_go_out_in_parts_and_each_once():
    model = Counting(answers=lambda request: '{"topics": []}')
    numbers = [*range(asking.AT_ONCE + 1), 0]
    texts = [f"text {number}" for number in numbers]
    answers = asking.Asker(model, "x").lists("movies/topics", texts, ["topics"], most=5)
    assert answers == [{"topics": []}] * len(texts)
    assert model.sizes == [asking.AT_ONCE, 1]
