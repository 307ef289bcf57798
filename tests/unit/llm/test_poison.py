"""Poisoned answers: none blocks a run, none enters a dialogue, each is an LLMError that is logged and retried."""

import gzip
import json
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace

import pytest

from crs_lib.core.errors import RunError
from crs_lib.llm import LLM, Cache, LLMError, Recorder, Request, Retry, http
from crs_lib.llm.client import Pool
from crs_lib.llm.preflight import unchanged
from crs_lib.llm.settings import LLMSettings
from crs_lib.llm.text import checked
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.raw_server import RawServer, http_answer

ONCE = Retry(waits=1, seeds=1, first=0.0, longest=0.0)
SCHEMA = {"type": "object", "properties": {"reply": {"type": "string"}}, "required": ["reply"]}


def ask(**rest):
    return Request.ask("crs", "A quiet drama?", seed=1, **rest)


@contextmanager
def raw(answers):
    with RawServer(*answers) as server:
        yield server.url


def openai(content="Try Heat.", stop="stop", usage=None, **more):
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": stop}
    return {"model": "m", "choices": [choice], "usage": usage, **more}


def ollama(content="Try Heat.", **more):
    message = {"role": "assistant", "content": content}
    return {"model": "m", "message": message, "done": True, "done_reason": "stop", **more}


DEEP = '{"model": "m", "choices": ' + "[" * 100_000 + "]" * 100_000 + "}"
LONG = json.dumps(openai()).replace("null", '{"prompt_tokens": ' + "9" * 5_000 + "}")
POISON = {
    "deep": (DEEP, "garbled"), "5,000 digits": (LONG, "garbled"), "not JSON": ("{", "garbled"),
    "a list": ("[1]", "garbled"), "null": ("null", "garbled"), "binary": (b"\x80\xff", "garbled"),
    "usage is a list": (openai(usage=[1]), "garbled"),
    "tokens as text": (openai(usage={"prompt_tokens": "twelve"}), "garbled"),
    "tokens below zero": (openai(usage={"completion_tokens": -1}), "garbled"),
    "tokens true": (openai(usage={"prompt_tokens": True}), "garbled"),
    "content a number": (openai(17), "garbled"), "content true": (openai(True), "garbled"),
    "content an object": (openai({"text": "x"}), "garbled"),
    "content an image": (openai([{"type": "image_url", "image_url": {"url": "x"}}]), "garbled"),
    "no choices": ({"choices": []}, "garbled"), "choices a text": ({"choices": "x"}, "garbled"),
    "another model": (openai(model="other"), "other model"),
    "filtered": (openai(stop="content_filter"), "filtered"),
    "refused": ({"choices": [{"message": {"content": None, "refusal": "I cannot."}}]}, "filtered"),
    "too long": (openai("x" * 2_000_001), "bad reply"), "10 MB": (openai("x" * 10_000_000), "bad reply"),
    "without end": (openai("x" * 2**24), "garbled"),
}  # fmt: skip


@pytest.mark.parametrize("name", POISON)
@pytest.mark.slow
def test_poison_is_an_error_that_is_logged_and_asked_again(name, tmp_path):
    body, kind = POISON[name]
    recorder = Recorder(tmp_path / "calls.sqlite")
    with (
        raw([http_answer(body), http_answer(openai("Try Ronin."))]) as url,
        LLM("openai:m", host=url, retry=ONCE, recorder=recorder, timeout=20.0) as llm,
    ):
        reply = llm.complete(ask())
    assert (reply.text, reply.tried) == ("Try Ronin.", (kind,))
    (row,) = recorder.rows()
    assert row["tried"] == [kind] and row["error"] is None


@pytest.mark.parametrize(("body", "kind"), [
    (ollama(prompt_eval_count="twelve"), "garbled"), (ollama(prompt_eval_count=-3), "garbled"),
    (json.dumps(ollama()).replace('"stop"', '"stop", "eval_count": ' + "9" * 5_000), "garbled"),
    (ollama(17), "garbled"), (ollama([1]), "garbled"), (ollama(model="other"), "other model"),
    ('{"message": ' + "[" * 100_000, "garbled"), (ollama("x" * 10_000_000), "bad reply"),
    (ollama("x" * 2**24), "garbled"),
])  # fmt: skip
def test_poison_from_ollama_too(body, kind, monkeypatch):
    with (
        raw([http_answer(body), http_answer(ollama("Try Ronin."))]) as url,
        LLM("ollama:m", host=url, retry=ONCE, timeout=20.0) as llm,
    ):
        monkeypatch.setattr(llm.backend, "digest", lambda: "5" * 64)
        reply = llm.complete(ask())
    assert (reply.text, reply.tried) == ("Try Ronin.", (kind,))


def test_parts_of_a_message_are_joined_as_the_protocol_says():
    parts = [{"type": "text", "text": "Try "}, {"type": "text", "text": "Heat."}]
    with raw([http_answer(openai(parts, model="m-2026-11-01"))]) as url, LLM("openai:m", host=url) as llm:
        assert llm.complete(ask()).text == "Try Heat."


@pytest.mark.parametrize(
    "wait", ["²", "-1", "1e9", "nan", "9" * 400, "Wed, 21 Oct 2026 07:28:00 GMT", "\x1b"]
)
def test_a_pause_that_is_none_is_passed_over(wait):
    busy = (
        http_answer("busy \x1b[31m", "503 Busy", f"retry-after: {wait}").decode().encode("latin-1", "ignore")
    )
    with raw([busy, http_answer(openai())]) as url, LLM("openai:m", host=url, retry=ONCE) as llm:
        assert llm.complete(ask()).tried == ("busy",)


def test_a_compressed_bomb_is_not_unpacked():
    bomb = http_answer(gzip.compress(b" " * 50_000_000), "200 OK", "content-encoding: gzip")
    with raw([bomb, http_answer(openai())]) as url, LLM("openai:m", host=url, retry=ONCE) as llm:
        assert llm.complete(ask()).tried == ("garbled",)


def test_surrogates_and_nul_are_mended_before_cache_and_dialogue(tmp_path):
    said = '{"reply": "a\\ud800b\\u0000c \\ud83d\\ude00"}'
    cache = Cache(tmp_path / "cache.sqlite")
    for answer in (said, "unused"):
        with raw([http_answer(openai(answer))]) as url, LLM("openai:m", host=url, cache=cache) as llm:
            reply = llm.complete(ask(schema=SCHEMA))
            assert json.loads(reply.text) == {"reply": "a\ufffdb\ufffdc 😀"}
    assert reply.cache_hit and checked('{"reply": "é"}', "stop", SCHEMA) == '{"reply": "é"}'


@pytest.mark.parametrize(
    "damage", ['{"text": "a\\ud800b"}', '{"text": 5}', "[]", "{", "[" * 100_000, '{"text": ""}']
)
def test_a_cached_reply_that_cannot_be_used_is_dropped_and_asked_again(tmp_path, damage):
    cache = Cache(tmp_path / "cache.sqlite")
    with raw([http_answer(openai("Try Ronin."))]) as url, LLM("openai:m", host=url, cache=cache) as llm:
        llm.complete(ask())
        cache.do("UPDATE replies SET reply = ?", (damage,))
        assert [llm.complete(ask()).cache_hit for _ in range(2)] == [False, True]
        assert llm.complete(ask()).text == "Try Ronin."


def test_weights_that_change_are_noticed():
    with OllamaServer({"tiny:latest": "a" * 64}) as server:
        settings: Callable[[str], dict[str, str]] = lambda spec: {"host": server.url}  # noqa: E731
        unchanged({"ollama:tiny": "a" * 64, "template": "any"}, settings)
        server.models["tiny:latest"] = "b" * 64
        with pytest.raises(RunError, match=r"ollama:tiny .*first aaaaaaaaaaaa, now bbbbbbbbbbbb") as caught:
            unchanged({"ollama:tiny": "a" * 64}, settings)
        assert caught.value.ends_run


def test_a_call_under_other_weights_than_the_run_began_with_ends_the_run(tmp_path):
    with (
        OllamaServer({"tiny:latest": "b" * 64}) as server,
        Pool(None, LLMSettings(host=server.url), retry=ONCE, weights={"ollama:tiny": "a" * 64}) as pool,
    ):
        with pytest.raises(RunError, match=r"ollama:tiny changed .*aaaaaaaaaaaa, now bbbbbbbbbbbb") as caught:
            pool.complete("ollama:tiny", ask())
        assert caught.value.ends_run and server.chats == 0
        assert pool("template").complete(ask()).text  # nothing is known of its weights


def test_a_reply_that_carries_another_digest_ends_the_run(monkeypatch):
    with (
        OllamaServer({"tiny:latest": "a" * 64}) as server,
        LLM("ollama:tiny", host=server.url, retry=ONCE, weights="a" * 64) as llm,
    ):
        assert llm.complete(ask()).digest == "a" * 64
        real = llm.backend.complete
        monkeypatch.setattr(llm.backend, "complete", lambda *given: replace(real(*given), digest="b" * 64))
        with pytest.raises(RunError, match="changed while the run was made"):
            llm.complete(ask(replicate=1))


def test_what_follows_the_port_of_an_address_is_not_shown():
    assert http.shown("http://me:s3cret@gpu1:8000/s3cret;s3cret?s3cret") == "http://gpu1:8000"
    with (
        LLM("openai:m", host="http://127.0.0.1:9/s3cret", retry=Retry(waits=0)) as llm,
        pytest.raises(LLMError, match=r"http://127\.0\.0\.1:9") as told,
    ):
        llm.complete(ask())
    assert "s3cret" not in str(told.value)


def test_what_a_server_says_is_shown_with_escapes():
    with (
        raw([http_answer("no \x1b[31mred\x07", "400 Bad")]) as url,
        LLM("openai:m", host=url) as llm,
        pytest.raises(LLMError) as told,
    ):
        llm.complete(ask())
    assert "no \\x1b[31mred\\x07" in str(told.value)
