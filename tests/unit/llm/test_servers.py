"""Servers that misbehave: every call ends in its time, no key is kept, poison is a failed call, connections are whole."""

import asyncio
import base64
import gzip
import json
import math
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import quote

import pytest

from crs_lib.core.errors import RunError
from crs_lib.llm import LLM, Cache, LLMError, Recorder, Request, Retry, http
from crs_lib.llm.client import Pool
from crs_lib.llm.http import is_local
from crs_lib.llm.preflight import unchanged
from crs_lib.llm.settings import LLMSettings
from crs_lib.llm.text import checked
from crs_lib.systems.servers import CHANNELS
from tests.helpers import refused, table
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.raw_server import RawServer, http_answer
from tests.helpers.scripted import failing

ONCE = Retry(waits=0, seeds=1, first=0.0, longest=0.0)
KEY = "sk-Live/9+e=~kQ7zXwVuT"
TIMEOUT = 0.5


def in_base64(text):
    return base64.b64encode(text.encode()).decode()


ECHOES = {
    "plain": KEY,
    "percent": quote(KEY, safe=""),
    "escaped": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    "base64": in_base64(f"Bearer {KEY}"),
    "shifted": in_base64(f"u:{KEY}!"),
    "url": base64.urlsafe_b64encode(KEY.encode()).decode(),
}
INSIDE = [in_base64(before + KEY)[6:-6] for before in ("", "k", "k:")]  # of any base64 of it
AGAIN = Retry(waits=1, seeds=1, first=0.0, longest=0.0)
REPLY_SCHEMA = {"type": "object", "properties": {"reply": {"type": "string"}}, "required": ["reply"]}
BODY = b'{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}'
WHOLE = http_answer(BODY)
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
LAST = http_answer(BODY, "200 OK", "connection: close")
COOKIE = http_answer(BODY, "200 OK", "set-cookie: who=me")
MOVED = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/other\r\ncontent-length: 0\r\n\r\n"
NEVER = Retry(waits=0, seeds=0)
ALTERNATIVES = (
    b"""[{"token": " 4", "logprob": -0.5}, {"token": "2", "logprob": -1.5}, {"token": "A", "logprob": -2}]"""
)
FIRST_TOKEN = b'{"token": "A", "logprob": -2, "top_logprobs": ' + ALTERNATIVES + b"}"
WEIGHED = {
    "openai:m": BODY.replace(
        b'"finish_reason"', b'"logprobs": {"content": [' + FIRST_TOKEN + b']}, "finish_reason"'
    ),
    "ollama:m": b'{"model": "m", "message": {"role": "assistant", "content": "A"}, "done": true, "logprobs": ['
    + FIRST_TOKEN
    + b"]}",
}
LISTED = b'{"models": [{"model": "m:latest", "digest": "d"}]}'


def openai(content="Try Heat.", stop="stop", usage=None, **more):
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": stop}
    return {"model": "m", "choices": [choice], "usage": usage, **more}


def ollama(content="Try Heat.", **more):
    message = {"role": "assistant", "content": content}
    return {"model": "m", "message": message, "done": True, "done_reason": "stop", **more}


GOOD = {"openai": openai(), "ollama": ollama(), "http": {"reply": "Try Heat."}}


def drama(text="A drama?", **options):
    return Request.ask("crs", text, seed=1, **options)


def asked(kind, url):
    """One call over a way; the seconds that it took and how it ended."""
    began = time.monotonic()
    try:
        if kind == "http":
            channel = CHANNELS["http"](url.removeprefix("http:") + "/reply", LLMSettings(timeout=TIMEOUT))
            words = [{"role": "user", "content": "A drama?"}]
            result = channel.ask({"session": "00000", "turn": 1, "conversation": words})["reply"]
        else:
            llm = LLM(f"{kind}:m", host=url, timeout=TIMEOUT, retry=ONCE, weights="")
            if kind == "ollama":
                llm.backend._digest = "sha256:0"
            result = llm.complete(drama()).text
    except LLMError as error:
        result = error
    return time.monotonic() - began, result


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize(("first", "more"), table(__file__, "drips"))
def test_a_call_ends_in_its_time_whatever_drips(kind, first, more):
    with RawServer(first.encode(), drip=more.encode()) as server:
        seconds, result = asked(kind, server.url)
    assert isinstance(result, LLMError), result
    assert result.kind in ("timeout", "too slow")
    assert seconds < TIMEOUT + 1


@pytest.mark.parametrize("kind", GOOD)
def test_answers_of_wrong_lengths_and_odd_pauses_end_the_call_and_nothing_else(kind):
    whole = http_answer(GOOD[kind])
    longer = whole.replace(b"content-length: ", b"content-length: 9")
    answers = [whole[:-9], longer, b"?", b"\0" * 99]
    for pause in [*table(__file__, "odd_pauses"), "9" * 400]:
        answers.append(http_answer("{}", "429 Too Many", f"retry-after: {pause}"))
    for answer in answers:
        with RawServer(answer, hang_up=True) as server:
            seconds, result = asked(kind, server.url)
        assert isinstance(result, LLMError), answer
        assert result.pause == 0.0, answer
        assert seconds < TIMEOUT + 1
    with RawServer(whole) as server:
        assert asked(kind, server.url)[1] == "Try Heat."


def calling(kind, name="search"):
    """An answer that calls a tool and says nothing."""
    if kind == "openai":
        answer = openai(None)
        call = {"id": "1", "function": {"name": name, "arguments": "{}"}}
        answer["choices"][0]["message"]["tool_calls"] = [call]
    else:
        answer = ollama("")
        call = {"function": {"name": name, "arguments": {}}}
        answer["message"]["tool_calls"] = [call]
    return http_answer(answer)


@pytest.mark.parametrize("kind", ["openai", "ollama"])
def test_tools_that_nobody_offered_are_a_bad_reply_and_asked_again(kind):
    with RawServer(calling(kind), http_answer(GOOD[kind])) as server:
        assert asked(kind, server.url)[1] == "Try Heat."
        assert server.connections == 2
    with RawServer(calling(kind)) as server:
        result = asked(kind, server.url)[1]
    assert result.kind == "bad reply"
    assert "'search', and no tool was offered" in str(result)


def all_that_is_kept(kind, answer, folder):
    """What a call with a key comes to, and the bytes of its cache and its log."""
    cache = Cache(folder / "cache.sqlite")
    log = Recorder(folder / "calls.sqlite")
    ways = {"send_key": True, "retry": ONCE, "cache": cache, "recorder": log}
    with RawServer(answer, pieces=7) as server, LLM(f"{kind}:m", host=server.url, **ways) as llm:
        llm.backend._digest = "sha256:0"
        try:
            result = repr(llm.complete(drama(f"A drama? {server.url}")))
        except LLMError as error:
            result = str(error)
        assert KEY.encode() in b"".join(server.heads)  # it was sent
    cache.close()
    log.close()
    for path in folder.iterdir():
        result += path.read_bytes().decode("latin-1")
    return result


@pytest.mark.parametrize("kind", ["openai", "ollama"])
@pytest.mark.parametrize("echo", ECHOES)
def test_a_key_that_a_server_echoes_is_kept_nowhere(kind, echo, tmp_path, monkeypatch):
    monkeypatch.setenv(f"{kind.upper()}_API_KEY", KEY)
    body = json.dumps(GOOD[kind]).replace("Try Heat.", f"Your key is {ECHOES[echo]}.")
    moved = http_answer(body, "302 Found", f"location: http://x/?key={quote(KEY)}", f"x-key: {KEY}")
    answers = [calling(kind, f"search {KEY}"), moved]
    for status in ("200 OK", "401 No", "500 No"):
        answers.append(http_answer(body, status))
    for answer in answers:
        stored = all_that_is_kept(kind, answer, tmp_path)
        assert "[key]" in stored
        for form in (*ECHOES.values(), *INSIDE):
            assert form not in stored


@pytest.mark.parametrize("logprob", ["1000", "1e999", "NaN", "0.5"])
def test_odd_numbers_of_a_server_are_failed_calls(logprob):
    four = f'"token": "4", "logprob": {logprob}'
    text = f'"logprobs": {{"content": [{{{four}, "top_logprobs": [{{{four}}}]}}]}}, "finish_reason"'
    weighed = json.dumps(openai("4")).replace('"finish_reason"', text)
    with talking(http_answer(weighed), retry=ONCE) as llm, pytest.raises(LLMError) as result:
        llm.complete(drama(choices=("4", "5")))
    assert result.value.kind in ("bad reply", "garbled")
    for length in ("Infinity", '"many"', "[1]", "1e400", "{}"):
        text = http_answer(f'{{"model_info": {{"a.context_length": {length}}}}}')
        answers = http_answer({"version": "0.6.0"}), text
        with talking(*answers, kind="ollama", timeout=TIMEOUT) as llm, failing("garbled", "no chat answer"):
            llm.backend.context_limit()


@contextmanager
def talking(*answers, kind="openai", **how):
    """A model on a server that gives these answers; no more than one further attempt."""
    how = {"retry": AGAIN} | how
    with RawServer(*answers) as server, LLM(f"{kind}:m", host=server.url, **how) as llm:
        yield llm


DEEP = '{"model": "m", "choices": ' + "[" * 100_000 + "]" * 100_000 + "}"
LONG = json.dumps(openai()).replace("null", f'{{"prompt_tokens": {"9" * 5_000}}}')
GARBLED = [
    ["deep", DEEP],
    ["5,000 digits", LONG],
    ["binary", b"\x80\xff"],
    ["without end", openai("x" * 2**24)],
]
TOO_LONG = [["too long", openai("x" * 2_000_001)], ["10 MB", openai("x" * 10_000_000)]]
POISON = table(__file__, "poison").copy()
for row in GARBLED:
    POISON.append([*row, "garbled"])
for row in TOO_LONG:
    POISON.append([*row, "bad reply"])


@pytest.mark.parametrize(("name", "body", "kind"), POISON, ids=lambda cell: "")
@pytest.mark.slow
def test_poison_is_an_error_that_is_logged_and_asked_again(name, body, kind, tmp_path):
    recorder = Recorder(tmp_path / "calls.sqlite")
    answers = http_answer(body), http_answer(openai("Try Ronin."))
    with talking(*answers, recorder=recorder, timeout=20.0) as llm:
        reply = llm.complete(drama())
    assert reply.text == "Try Ronin.", name
    assert reply.tried == (kind,)
    [row] = recorder.rows()
    assert row["tried"] == [kind]
    assert row["error"] is None


LONG_COUNT = json.dumps(ollama()).replace('"stop"', f'"stop", "eval_count": {"9" * 5_000}')
POISON_OF_OLLAMA = [
    *table(__file__, "poison_of_ollama"),
    [LONG_COUNT, "garbled"],
    ['{"message": ' + "[" * 100_000, "garbled"],
    [ollama("x" * 10_000_000), "bad reply"],
    [ollama("x" * 2**24), "garbled"],
]


@pytest.mark.parametrize(("body", "kind"), POISON_OF_OLLAMA, ids=lambda cell: "")
def test_poison_from_ollama_too(body, kind, monkeypatch):
    with talking(http_answer(body), http_answer(ollama("Try Ronin.")), kind="ollama", timeout=20.0) as llm:
        monkeypatch.setattr(llm.backend, "digest", lambda: "5" * 64)
        reply = llm.complete(drama())
    assert reply.text == "Try Ronin."
    assert reply.tried == (kind,)


def test_a_compressed_bomb_is_not_unpacked_and_parts_of_a_message_are_joined():
    bomb = http_answer(gzip.compress(b" " * 50_000_000), "200 OK", "content-encoding: gzip")
    parts = [{"type": "text", "text": "Try "}, {"type": "text", "text": "Heat."}]
    with talking(bomb, http_answer(openai(parts, model="m-2026-11-01"))) as llm:
        reply = llm.complete(drama())
    assert reply.tried == ("garbled",)
    assert reply.text == "Try Heat."


def test_halves_of_characters_are_joined_before_cache_and_dialogue(tmp_path):
    words = '{"reply": "c \\ud83d\\ude00"}'
    cache = Cache(tmp_path / "cache.sqlite")
    for answer in (words, "unused"):
        with talking(http_answer(openai(answer)), cache=cache) as llm:
            reply = llm.complete(drama(schema=REPLY_SCHEMA))
            assert json.loads(reply.text) == {"reply": "c 😀"}
    assert reply.cache_hit
    assert checked('{"reply": "é"}', "stop", REPLY_SCHEMA) == '{"reply": "é"}'


@pytest.mark.parametrize("bad", [*table(__file__, "unusable"), "[" * 9_999])
def test_a_cached_reply_that_cannot_be_used_is_dropped_and_asked_again(tmp_path, bad):
    cache = Cache(tmp_path / "cache.sqlite")
    with talking(http_answer(openai("Try Ronin.")), cache=cache) as llm:
        llm.complete(drama())
        cache.do("UPDATE replies SET reply = ?", (bad,))
        anew = llm.complete(drama())
        stored = llm.complete(drama())
    assert not anew.cache_hit
    assert stored.cache_hit
    assert stored.text == "Try Ronin."


def test_weights_that_change_are_noticed():
    with OllamaServer({"tiny:latest": "a" * 64}) as server:
        settings: Callable[[str], dict[str, str]] = lambda spec: {"host": server.url}  # noqa: E731
        unchanged({"ollama:tiny": "a" * 64, "template": "any"}, settings)
        server.models["tiny:latest"] = "b" * 64
        with pytest.raises(RunError, match=r"ollama:tiny .*first aaaaaaaaaaaa, now bbbbbbbbbbbb") as caught:
            unchanged({"ollama:tiny": "a" * 64}, settings)
        assert caught.value.ends_run


def test_a_call_under_other_weights_than_the_run_began_with_ends_the_run(tmp_path):
    weights = {"ollama:tiny": "a" * 64}
    server = OllamaServer({"tiny:latest": "b" * 64})
    with server, Pool(None, LLMSettings(host=server.url), retry=AGAIN, weights=weights) as pool:
        with pytest.raises(RunError, match=r"ollama:tiny changed .*aaaaaaaaaaaa, now bbbbbbbbbbbb") as caught:
            pool.complete("ollama:tiny", drama())
        assert caught.value.ends_run
        assert server.chats == 0
        assert pool("template").complete(drama()).text  # nothing is known of its weights


def test_a_reply_that_carries_another_digest_ends_the_run(monkeypatch):
    server = OllamaServer({"tiny:latest": "a" * 64})
    with server, LLM("ollama:tiny", host=server.url, retry=AGAIN, weights="a" * 64) as llm:
        assert llm.complete(drama()).digest == "a" * 64
        reply = replace(llm.complete(drama()), digest="b" * 64)
        monkeypatch.setattr(llm.backend, "complete", lambda *_: reply)
        refused("changed while the run was made", llm.complete, drama(replicate=1), error=RunError)


def test_what_is_shown_of_a_server_is_escaped_and_stops_at_its_port():
    assert http.shown("http://me:s3cret@gpu1:8000/s3cret;s3cret?s3cret") == "http://gpu1:8000"
    llm = LLM("openai:m", host="http://127.0.0.1:9/s3cret", retry=Retry(waits=0))
    with llm, pytest.raises(LLMError, match=r"http://127\.0\.0\.1:9") as text:
        llm.complete(drama())
    assert "s3cret" not in str(text.value)
    with talking(http_answer("no \x1b[31mred\x07", "400 Bad")) as llm, failing("refused") as text:
        llm.complete(drama())
    assert "no \\x1b[31mred\\x07" in str(text.value)


def texts(server, times=1, **settings):
    with LLM("openai:m", host=server.url, retry=NEVER, **settings) as llm:
        return [llm.complete(drama()).text for _ in range(times)]


@pytest.mark.parametrize("spec", WEIGHED)
def test_choices_have_the_probabilities_that_the_server_gives(spec):
    request = drama(choices=("1", "2", "4"))
    weighed = WEIGHED[spec]
    bodies = {"openai:m": [weighed, BODY], "ollama:m": [LISTED, weighed, weighed.replace(FIRST_TOKEN, b"")]}
    answers = map(http_answer, bodies[spec])
    with RawServer(*answers) as server, LLM(spec, host=server.url, retry=NEVER) as llm:
        reply = llm.complete(request)
        with failing("bad reply", r"none of 1, 2, 4 .* \(none given\)"):
            llm.complete(request)
    assert reply.text == "4"
    assert list(reply.probabilities) == ["1", "2", "4"]
    shares = [0, math.exp(-1.5), math.exp(-0.5)]
    assert list(reply.probabilities.values()) == pytest.approx(shares)


def test_a_backend_without_probabilities_says_so():
    message = "scripted does not say how probable its words are"
    refused(message, LLM("scripted").complete, drama(choices=("1", "2")))


FOLLOWED = WHOLE + WHOLE.replace(b"hello", b"stale")


@pytest.mark.parametrize("answer", [WHOLE, CHUNKED, LAST, FOLLOWED])
def test_each_call_has_a_connection_of_its_own(answer):
    """What follows an answer is never taken for the answer to the next call."""
    with RawServer(*[answer] * 3) as server:
        assert texts(server, 3) == ["hello"] * 3
        assert server.connections == 3


def test_a_closed_connection_is_not_used_and_an_answer_in_drops_comes_whole():
    server = RawServer(WHOLE, WHOLE, hang_up=True)
    with server, LLM("openai:m", host=server.url, retry=NEVER) as llm:
        first = llm.complete(drama())
        time.sleep(0.05)
        second = llm.complete(drama())
        assert first.text == second.text == "hello"
        assert server.connections == 2
    with RawServer(WHOLE, pieces=10, pause=0.01) as server:
        assert texts(server, timeout=5.0) == ["hello"]


def test_cookies_are_not_sent_back_and_redirects_not_followed():
    with RawServer(COOKIE, WHOLE) as server:
        assert texts(server, 2) == ["hello"] * 2
        for head in server.heads:
            assert b"cookie" not in head.lower()
    with RawServer(MOVED) as server, failing("refused", "HTTP 302"):
        texts(server)


@pytest.mark.parametrize("spec", ["ollama:tiny", "openai:tiny:latest"])
def test_a_proxy_is_used_for_other_machines_only(spec, monkeypatch):
    for name in ("no_proxy", "NO_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with RawServer(WHOLE) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        with OllamaServer() as server, LLM(spec, host=server.url, retry=NEVER) as llm:
            assert llm.complete(drama()).text
        assert proxy.heads == []
        with LLM("openai:m", host="http://gpu1.invalid", retry=NEVER) as llm:
            assert llm.complete(drama()).text == "hello"
        assert proxy.heads[0].startswith(b"POST http://gpu1.invalid/v1/chat/completions ")


def test_this_machine_is_known():
    for address in ("http://127.0.0.1:1", "http://localhost", "http://[::1]:5"):
        assert is_local(address)
    assert not is_local("http://gpu1")


def test_it_works_where_an_event_loop_runs_already():
    async def notebook() -> list[str]:
        with OllamaServer() as server, LLM("ollama:tiny", host=server.url) as llm:
            here = llm.complete(drama())
            beside = await asyncio.to_thread(llm.complete, drama())
            return [here.text, beside.text]

    first, second = asyncio.run(notebook())
    assert first == second != ""
