"""The backends without a server: script, template, replay."""

import gzip
import json

import pytest

from crs_lib.core import paths
from crs_lib.core.errors import RunError
from crs_lib.llm import LLM, LLMError, Recorder, Reply, Request, calls, export
from crs_lib.llm.template import _candidates, answer
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.scripted import failing

PROMPT = "Choose one:\n- [m1] Heat (1995), crime\n- [m2] Ronin (1998), action\n2. Fargo (1996)\nno: (1990)\n"


def test_the_template_offers_what_the_prompt_offers():
    assert _candidates(PROMPT) == [("m1", "Heat"), ("m2", "Ronin"), ("", "Fargo")]
    named = {answer(PROMPT, None, seed).split("How about ")[1].split("?")[0] for seed in range(40)}
    assert named == {"Heat", "Ronin", "Fargo"}
    assert (
        answer("Say this, in this order:\n- I like it\n- more, please\n\nrest", None, 0)
        == "I like it more, please"
    )
    assert answer("nothing to go by", None, 0) == "Noted."


def test_the_template_keeps_a_schema():
    schema = {
        "type": "object",
        "$defs": {"S": {"type": "object", "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}}}},
        "properties": {
            "reply": {"type": "string"}, "ids": {"type": "array", "items": {"type": "string", "enum": ["m1", "m2"]}},
            "a": {"$ref": "#/$defs/S"}, "b": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "c": {"const": 3}, "d": {"type": "array", "items": {"type": "number"}, "minItems": 2},
        },
        "required": ["reply", "ids", "a", "b", "c", "d"],
    }  # fmt: skip
    seen = [
        json.loads(LLM("template").complete(Request.ask("crs", PROMPT, seed=i, schema=schema)).text)
        for i in range(30)
    ]
    assert {record["a"]["score"] for record in seen} == {1, 2, 3, 4, 5}
    for record in seen:
        named = [one for one, title in _candidates(PROMPT) if title in record["reply"]]
        assert len(named) == 1 and record["ids"][0] in ("m1", "m2")
        assert named[0] in ("", record["ids"][0])  # the id and the words speak of the same movie


def test_a_run_can_be_replayed_without_its_model(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    folder = tmp_path / "movies" / "night"
    recorder = Recorder(folder / "calls.sqlite")
    requests = [Request.ask("crs", f"{PROMPT}{i}", seed=i, options={"temperature": 0.5}) for i in range(4)]
    with OllamaServer() as server, LLM("ollama:tiny", host=server.url, recorder=recorder) as llm:
        live = llm.gather(requests)
    export([recorder.path], folder / "llm_calls.jsonl")
    replayed = LLM("replay:night").gather(requests)
    assert [r.text for r in live if isinstance(r, Reply)] == [
        r.text for r in replayed if isinstance(r, Reply)
    ]
    assert len(replayed) == 4 and replayed[0].digest == live[0].digest  # type: ignore[union-attr]
    with failing("not recorded", "0 different replies"):
        LLM("replay:movies/night").complete(Request.ask("crs", "new"))


def test_a_replay_does_not_choose_between_models(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    folder, request = tmp_path / "movies" / "two", Request.ask("crs", "hi", seed=1)
    recorder = Recorder(folder / "calls.sqlite")
    with (
        OllamaServer(["a:1"], answer=lambda *_: "from a") as one,
        OllamaServer(["b:1"], answer=lambda *_: "from b") as two,
    ):
        for spec, server in (("ollama:a:1", one), ("ollama:b:1", two)):
            with LLM(spec, host=server.url, recorder=recorder) as llm:
                llm.complete(request)
    export([recorder.path], folder / "llm_calls.jsonl")
    with pytest.raises(LLMError, match=r"2 different replies .* name one model"):
        LLM("replay:two").complete(request)
    assert LLM("replay:two@ollama:b:1").complete(request).text == "from b"


def test_a_run_without_calls_cannot_be_replayed(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    with pytest.raises(RunError, match=r"llm_calls\.jsonl to replay"):
        LLM("replay:nothing")


def test_a_log_of_the_package_is_replayed_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "samples", lambda: tmp_path)
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path / "results"))
    recorder = Recorder(tmp_path / "calls.sqlite")
    with LLM("scripted", answers=["one", "two", LLMError("refused", "no")], recorder=recorder) as llm:
        for text in ("a", "b"):
            llm.complete(Request.ask("crs", text, seed=1))
        with failing("refused"):
            llm.complete(Request.ask("crs", "c", seed=1))
    recorder.close()
    calls.export([tmp_path / "calls.sqlite"], tmp_path / "llm_calls.jsonl")
    calls.kept("mine").parent.mkdir()
    calls.kept("mine").write_bytes(gzip.compress((tmp_path / "llm_calls.jsonl").read_bytes()))
    replay = LLM("replay:mine")
    assert replay.complete(Request.ask("user", "b", seed=1)).text == "two"
    with failing("not recorded"):
        replay.complete(Request.ask("crs", "c", seed=1))
