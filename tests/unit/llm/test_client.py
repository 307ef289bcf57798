"""LLM against a real server: faults, cache, log, slots, endpoints, and keys that stay at home."""

import json
from contextlib import contextmanager

import pytest

from crs_lib.llm import LLM, Cache, LLMError, Recorder, Request, Retry, export, usage
from tests.helpers import refused, table
from tests.helpers.ollama_server import DIGEST, FAULTS, NOISE, Faults, OllamaServer
from tests.helpers.scripted import failing

QUICK = Retry(waits=2, seeds=2, first=0.0, longest=0.0)
PROMPT = "What would you suggest out of these:\n- Heat (1995)\n- Ronin (1998)\n"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}, "required": ["n"]}
RAISED = table(__file__, "raised")
REPAIRED = table(__file__, "repaired")
OWN = ("no_done", "hang", "endless", "drip", "noise", "empty", "500", "503", "think")  # asked of Ollama alone


def served(rows):
    """The rows of faults of Ollama, and of an OpenAI server those that it has, too."""
    cases = []
    for fault, *outcome in rows:
        cases.append(("ollama:tiny", fault, *outcome))
        if fault not in OWN:
            cases.append(("openai:m", fault, *outcome))
    return cases


@contextmanager
def faulty(spec, fault):
    """A server with one fault and a model on it."""
    server = OllamaServer(["tiny:latest", "m"], faults=Faults([fault]), loaded=512)
    with server, LLM(spec, retry=QUICK, host=server.url, timeout=1.0) as llm:
        yield server, llm


def ask(text=PROMPT, **options):
    return Request.ask("crs", text, **{"seed": 1, **options})


def test_every_fault_has_its_outcome():
    assert sorted(FAULTS) == sorted(row[0] for row in [*RAISED, *REPAIRED])


@pytest.mark.parametrize(("spec", "fault", "kind"), served(RAISED))
@pytest.mark.slow
def test_one_fault_that_cannot_be_repaired_is_raised_at_once(spec, fault, kind):
    with faulty(spec, fault) as (server, llm):
        with failing(kind) as caught:
            llm.complete(ask(schema=SCHEMA))
        assert caught.value.attempts == server.chats == 1


@pytest.mark.parametrize(("spec", "fault", "tried", "thinking"), served(REPAIRED))
@pytest.mark.slow
def test_one_fault_is_repaired_by_another_attempt(spec, fault, tried, thinking):
    with faulty(spec, fault) as (server, llm):
        reply = llm.complete(ask(schema=SCHEMA))
        assert list(reply.tried) == tried
        assert reply.attempts == server.chats == 1 + len(tried)
        assert json.loads(reply.text)["n"] <= 5
        assert reply.thinking.startswith(thinking)


@pytest.mark.parametrize("fault", ["drop", "500", "empty", "broken"])
def test_a_fault_that_stays_is_raised_with_its_history(fault, tmp_path):
    recorder = Recorder(tmp_path / "calls.sqlite")
    cache = Cache(tmp_path / "cache.sqlite")
    with OllamaServer(faults=Faults([fault] * 9)) as server:
        llm = LLM("ollama:tiny", host=server.url, retry=QUICK, recorder=recorder, cache=cache)
        with llm, pytest.raises(LLMError) as caught:
            llm.complete(ask(tags={"session": 4}))
    assert caught.value.attempts == server.chats == 3
    (row,) = recorder.rows()
    assert row["session"] == 4
    assert row["error"] == caught.value.kind
    assert row["attempts"] == 3
    assert row["tried"] == [caught.value.kind] * 2
    assert row["text"] == ""
    assert len(cache) == 0


def test_what_is_sent_is_what_was_asked_by_each_endpoints_names():
    with OllamaServer() as server, LLM("ollama:tiny", host=server.url, options={"temperature": 0.3}) as llm:
        reply = llm.complete(ask(system=None, options={"top_k": 5}, schema=SCHEMA))
    (body,) = server.bodies
    assert body["options"] == {"num_ctx": 8192, "num_predict": 512, "temperature": 0.3, "top_k": 5, "seed": 1}
    assert body["format"] == SCHEMA
    assert body["keep_alive"] == "30m"
    assert body["messages"] == [{"role": "user", "content": PROMPT}]
    assert "think" not in body
    assert reply.digest == DIGEST
    assert reply.endpoint == server.url
    assert reply.cache_hit is False
    with OllamaServer(["m"]) as server, LLM("openai:m", host=server.url + "/v1") as llm:
        reply = llm.complete(ask(options={"repeat_penalty": 1.1}, schema=SCHEMA))
    (body,) = server.bodies
    assert body["max_tokens"] == 512
    assert body["repetition_penalty"] == 1.1
    assert body["seed"] == 1
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "num_ctx" not in body
    assert reply.digest == "model:m"
    assert reply.stop == "stop"


@pytest.mark.parametrize("spec", ["ollama:tiny", "openai:tiny:latest"])
def test_a_mistake_in_a_request_is_said_once_before_anything_is_sent(spec):
    with OllamaServer() as server, LLM(spec, host=server.url) as llm:
        refused("did you mean 'temperature'", llm.complete, ask(options={"temprature": 0.0}))
        without_context = ask(options={"num_ctx": 0})
        refused("num_ctx", llm.gather, [without_context] * 2)
        refused("no messages", llm.complete, Request((), "crs"))
        assert server.chats == 0


def test_other_weights_under_the_same_name_are_asked_anew(tmp_path):
    cache = Cache(tmp_path / "cache.sqlite")
    before = "a" * 64
    after = "b" * 64
    with OllamaServer({"tiny:latest": before}) as old, OllamaServer({"tiny:latest": after}) as new:
        for server, digest in ((old, before), (new, after)):
            reply = LLM("ollama:tiny", host=server.url, cache=cache).complete(ask())
            assert reply.digest == digest
            assert server.chats == 1
        both = LLM("ollama:tiny", host=f"{old.url},{new.url}")
        with failing("refused", "different weights"):
            both.complete(ask())


def test_several_servers_share_the_work_and_one_may_die():
    with OllamaServer(delay=0.01) as first, OllamaServer(delay=0.01) as two:
        llm = LLM("ollama:tiny", host=f"{first.url},{two.url}", slots=2, retry=QUICK)
        llm.gather([ask(f"{PROMPT}{i}") for i in range(8)])
        assert first.chats > 0
        assert two.chats > 0
        assert first.chats + two.chats == 8
        first.__exit__()
        replies = llm.gather([ask(f"{PROMPT}again {i}") for i in range(8)])
        llm.close()
    assert len(replies) == 8
    for reply in replies:
        assert reply.endpoint == two.url


def test_a_key_is_sent_only_when_asked_for(monkeypatch, tmp_path):
    refused("OLLAMA_API_KEY is not set", LLM, "ollama:tiny", send_key=True)
    monkeypatch.setenv("OLLAMA_API_KEY", "s3cret-ollama")
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret-openai")
    recorder = Recorder(tmp_path / "calls.sqlite")
    with OllamaServer(["tiny:latest"]) as server:
        for spec in ("ollama:tiny", "openai:tiny:latest"):
            for send in (False, True):
                with LLM(spec, host=server.url, send_key=send, recorder=recorder) as llm:
                    llm.complete(ask())
    sent = [headers.get("authorization") for headers in server.headers]
    assert sent == [None, "Bearer s3cret-ollama", None, "Bearer s3cret-openai"]
    path = tmp_path / "llm_calls.jsonl"
    export([recorder.path], path)
    assert "s3cret" not in path.read_text()


def test_hostile_text_passes_through_and_is_bounded_in_the_log(tmp_path):
    recorder = Recorder(tmp_path / "calls.sqlite")
    server = OllamaServer(faults=Faults(["noise"]))
    with server, LLM("ollama:tiny", host=server.url, recorder=recorder) as llm:
        reply = llm.complete(ask())
    assert len(reply.text) > 1_000_000
    assert reply.text.startswith(NOISE[:40])
    path = tmp_path / "llm_calls.jsonl"
    export([recorder.path], path)
    (line,) = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["text_cut"] is True
    assert len(line) < 25_000


def test_usage_adds_up(tmp_path):
    cache = Cache(tmp_path / "cache.sqlite")
    recorder = Recorder(tmp_path / "calls.sqlite")
    server = OllamaServer(faults=Faults(["", "500", "", "400"]))
    llm = LLM("ollama:tiny", host=server.url, cache=cache, recorder=recorder, retry=QUICK)
    with server, llm:
        first = llm.complete(ask())
        second = llm.complete(ask("other words"))
        llm.complete(ask())
        with pytest.raises(LLMError):
            llm.complete(ask("refused"))
    sums = usage(recorder.rows())
    (row,) = sums.to_dict("records")
    assert row["calls"] == 4
    assert row["cache_hits"] == 1
    assert row["failed"] == 1
    assert row["attempts"] == 1 + 2 + 0 + 1
    assert row["tokens_in"] == first.tokens_in + second.tokens_in
    assert row["tokens_out"] == first.tokens_out + second.tokens_out
    assert row["seconds"] == pytest.approx(first.seconds + second.seconds, abs=1e-5)
    nothing = usage([])
    assert nothing.empty
    assert list(nothing) == list(sums)
    refused("no call log", usage, tmp_path / "none.jsonl")


def test_logs_of_several_workers_are_joined_in_order(tmp_path):
    even = Recorder(tmp_path / "calls-0.sqlite")
    odd = Recorder(tmp_path / "calls-1.sqlite")
    for log, session in ((even, 10), (odd, 9), (even, 2)):
        log.add({"session": session}, {"session": session})
    path = tmp_path / "llm_calls.jsonl"
    assert export([even.path, odd.path], path) == 3
    rows = list(map(json.loads, path.read_text().splitlines()))
    assert [row["session"] for row in rows] == [2, 10, 9]  # by file, then by session


def test_memory_is_freed_on_the_servers_that_are_left():
    with OllamaServer() as server, LLM("ollama:tiny", host=f"127.0.0.1:1,{server.url}") as llm:
        llm.backend.unload()
        assert server.counts["unload"] == 1
        assert server.chats == 0
