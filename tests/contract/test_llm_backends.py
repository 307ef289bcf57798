"""What every registered LLM backend must do; a new one is tested by being registered."""

import importlib.util
import json

import pytest

from crs_lib.core.errors import InputError
from crs_lib.llm import BACKENDS, LLM, Recorder, Reply, Request, export, local
from tests.helpers.ollama_server import OllamaServer

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TEXT = Request.ask("crs", "Say this:\nhello there\n", seed=7, tags={"session": 1})
JSON = Request.ask("judge", "Score it:\nhello there\n", seed=7, schema=SCHEMA, tags={"session": 1})
NAMES = BACKENDS.names()


def weights():
    """Whether the engine of ``local`` and its small model are installed."""
    if not importlib.util.find_spec("xllamacpp"):
        return False
    try:
        return local.find("smollm2").exists()
    except InputError:
        return False


ANSWERING = [
    pytest.param(name, marks=pytest.mark.skipif(not weights(), reason="needs the engine and smollm2"))
    if name == "local"
    else name
    for name in NAMES
]


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Spec and settings with which each backend can answer TEXT and JSON."""
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    recorder = Recorder(tmp_path / "movies" / "demo" / "calls.sqlite")
    LLM("template", recorder=recorder).gather([TEXT, JSON])
    export([recorder.path], tmp_path / "movies" / "demo" / "llm_calls.jsonl")
    with OllamaServer(["tiny:latest"]) as server:
        yield {
            "ollama": {"spec": "ollama:tiny", "host": server.url},
            "openai": {"spec": "openai:tiny:latest", "host": server.url},
            "scripted": {
                "spec": "scripted", "answers": lambda r: '{"n": 3}' if r.schema else "hello",
            },
            "template": {"spec": "template"},
            "replay": {"spec": "replay:demo"},
            "local": {"spec": "local:smollm2", "options": {"temperature": 0}},
        }  # fmt: skip


@pytest.mark.parametrize("name", ANSWERING)
def test_a_reply_is_complete_and_the_same_again(name, settings):
    with LLM(**settings[name]) as llm:
        first, second = llm.complete(TEXT), llm.complete(TEXT)
        data = json.loads(llm.complete(JSON).text)
    assert isinstance(data["n"], int)
    assert first.text == second.text == first.text.strip() != ""
    assert first.digest and first.stop == "stop" and first.attempts == 1 and not first.cache_hit
    assert first.tokens_in is None or first.tokens_in >= 4
    assert llm.spec == settings[name]["spec"] == llm.backend.spec


@pytest.mark.parametrize("name", ANSWERING)
def test_the_backend_itself_can_be_asked(name, settings):
    with LLM(**settings[name]) as llm:
        backend, filled = llm.backend, llm.filled(TEXT)
        assert backend.complete(filled).text == llm.complete(TEXT).text
        assert len(backend.endpoints) >= 1
        json.dumps(dict(backend.settings()))


@pytest.mark.parametrize("name", ANSWERING)
def test_every_call_is_a_row(name, settings, tmp_path):
    recorder = Recorder(tmp_path / "calls.sqlite")
    with LLM(recorder=recorder, **settings[name]) as llm:
        replies = llm.gather([TEXT, JSON])
    rows = list(recorder.rows())
    assert len(rows) == 2 and all(isinstance(reply, Reply) for reply in replies)
    for row in rows:
        assert {"role", "model", "digest", "options", "tokens_in", "tokens_out", "seconds", "cache_hit",
                "attempts", "error", "session"} <= {*row}  # fmt: skip
        assert row["model"] == settings[name]["spec"] and row["error"] is None


@pytest.mark.parametrize("entry", list(BACKENDS), ids=NAMES)
def test_the_registry_describes_it(entry):
    assert entry.summary and entry.facts["kind"] in ("server", "offline", "engine")
    if entry.facts.get("argument"):
        with pytest.raises(InputError, match="after a colon"):
            LLM(entry.name)
