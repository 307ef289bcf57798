"""Servers that misbehave: every call ends in its time, no key is kept, no empty reply is taken."""

import base64
import json
import time
from urllib.parse import quote

import pytest

from crs_lib.llm import LLM, Cache, LLMError, Recorder, Request, Retry
from crs_lib.systems.channels import CHANNELS
from tests.helpers.raw_server import RawServer, http_answer
from tests.unit.llm.test_poison import ollama, openai

ONCE = Retry(waits=0, seeds=1, first=0.0, longest=0.0)
KEY = "sk-Live/9+e=~kQ7zXwVuT"
TIMEOUT = 0.5
GOOD = {
    "openai": openai(), "ollama": ollama(), "http": {"reply": "Try Heat."},
}  # fmt: skip


def asked(kind, url):
    """One call over a way; the seconds that it took and how it ended."""
    began = time.monotonic()
    try:
        if kind == "http":
            channel = CHANNELS["http"](url.removeprefix("http:") + "/reply", TIMEOUT)
            request = {
                "session": "00000",
                "turn": 1,
                "conversation": [{"role": "user", "content": "A drama?"}],
            }
            found = channel.ask(request)["reply"]
        else:
            llm = LLM(f"{kind}:m", host=url, timeout=TIMEOUT, retry=ONCE, weights="")
            if kind == "ollama":
                llm.backend._digest = "sha256:0"
            found = llm.complete(Request.ask("crs", "A drama?", seed=1)).text
    except LLMError as error:
        found = error
    return time.monotonic() - began, found


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
DRIPS = {
    "status": (b"", b"H"), "header": (HEAD + b"x: ", b"y"), "headers": (HEAD, b"x: y\r\n"),
    "100": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "103": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"),
    "body": (HEAD + b"content-length: 9999\r\n\r\n", b" "), "no length": (HEAD + b"\r\n", b" "),
    "silent": (HEAD, b""), "nothing": (b"", b""),
}  # fmt: skip


@pytest.mark.parametrize("kind", GOOD)
@pytest.mark.parametrize("drip", DRIPS)
def test_a_call_ends_in_its_time_whatever_drips(kind, drip):
    first, more = DRIPS[drip]
    with RawServer(first, drip=more) as server:
        seconds, found = asked(kind, server.url)
    assert isinstance(found, LLMError) and found.kind in ("timeout", "too slow"), found
    assert seconds < TIMEOUT + 1


@pytest.mark.parametrize("kind", GOOD)
def test_answers_of_wrong_lengths_and_odd_pauses_end_the_call_and_nothing_else(kind):
    whole = http_answer(GOOD[kind])
    later = [
        http_answer("{}", "429 Too Many", f"retry-after: {wait}")
        for wait in ("²", "-1", "9" * 400, "Mon", "nan")
    ]
    for answer in (
        whole[:-9],
        whole.replace(b"content-length: ", b"content-length: 9"),
        b"?",
        b"\0" * 99,
        *later,
    ):
        with RawServer(answer, hang_up=True) as server:
            seconds, found = asked(kind, server.url)
        assert isinstance(found, LLMError) and found.pause in (0.0,), (answer, found)
        assert seconds < TIMEOUT + 1
    with RawServer(whole) as server:
        assert asked(kind, server.url)[1] == "Try Heat."


def calling(kind, name="search"):
    """An answer that calls a tool and says nothing."""
    if kind == "openai":
        answer, call = openai(None), {"id": "1", "function": {"name": name, "arguments": "{}"}}
        answer["choices"][0]["message"]["tool_calls"] = [call]
    else:
        answer, call = ollama(""), {"function": {"name": name, "arguments": {}}}
        answer["message"]["tool_calls"] = [call]
    return http_answer(answer)


@pytest.mark.parametrize("kind", ["openai", "ollama"])
def test_tools_that_nobody_offered_are_a_bad_reply_and_asked_again(kind):
    with RawServer(calling(kind), http_answer(GOOD[kind])) as server:
        assert asked(kind, server.url)[1] == "Try Heat."
        assert server.connections == 2
    with RawServer(calling(kind)) as server:
        found = asked(kind, server.url)[1]
    assert found.kind == "bad reply" and "'search', and no tool was offered" in str(found)


ECHOES = {
    "plain": KEY, "percent": quote(KEY, safe=""), "escaped": "".join(f"\\u{ord(one):04x}" for one in KEY),
    "base64": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "shifted": base64.b64encode(f"u:{KEY}!".encode()).decode(), "url": base64.urlsafe_b64encode(KEY.encode()).decode(),
}  # fmt: skip
INSIDE = [base64.b64encode(b"k: "[:n] + KEY.encode()).decode()[6:-6] for n in range(3)]  # of any base64 of it


@pytest.mark.parametrize("kind", ["openai", "ollama"])
@pytest.mark.parametrize("echo", ECHOES)
def test_a_key_that_a_server_echoes_is_kept_nowhere(kind, echo, tmp_path, monkeypatch):
    monkeypatch.setenv(f"{kind.upper()}_API_KEY", KEY)
    body = json.dumps(GOOD[kind]).replace("Try Heat.", f"Your key is {ECHOES[echo]}.")
    moved = http_answer(body, "302 Found", f"location: http://x/?key={quote(KEY)}", f"x-key: {KEY}")
    tool = calling(kind, f"search {KEY}")
    for answer in (http_answer(body), http_answer(body, "401 No"), http_answer(body, "500 No"), tool, moved):
        cache, log = Cache(tmp_path / "cache.sqlite"), Recorder(tmp_path / "calls.sqlite")
        with (
            RawServer(answer, pieces=7) as server,
            LLM(f"{kind}:m", host=server.url, send_key=True, retry=ONCE, cache=cache, recorder=log) as llm,
        ):
            llm.backend._digest = "sha256:0"
            try:
                found = repr(llm.complete(Request.ask("crs", f"A drama? {server.url}", seed=1)))
            except LLMError as error:
                found = str(error)
            assert KEY.encode() in b"".join(server.heads)  # it was sent
        cache.close()
        log.close()
        kept = found + "".join(path.read_bytes().decode("latin-1") for path in tmp_path.iterdir())
        assert "[key]" in kept
        assert [form for form in (*ECHOES.values(), *INSIDE) if form in kept] == []


@pytest.mark.parametrize("logprob", ["1000", "1e999", "NaN", "0.5"])
def test_odd_numbers_of_a_server_are_failed_calls(logprob):
    weighed = json.dumps(openai("4")).replace(
        '"finish_reason"',
        f'"logprobs": {{"content": [{{"token": "4", "logprob": {logprob}, "top_logprobs": [{{"token": "4", "logprob": {logprob}}}]}}]}}, "finish_reason"',
    )
    with RawServer(http_answer(weighed)) as server, LLM("openai:m", host=server.url, retry=ONCE) as llm:
        with pytest.raises(LLMError) as found:
            llm.complete(Request.ask("judge", "A level?", seed=1, choices=("4", "5")))
        assert found.value.kind in ("bad reply", "garbled")
    for length in ("Infinity", '"many"', "[1]", "1e400", "{}"):
        told = http_answer(f'{{"model_info": {{"a.context_length": {length}}}}}')
        tags = http_answer({"models": [{"model": "m:latest", "digest": "0"}]})
        with RawServer(http_answer({"version": "0.6.0"}), tags, told) as server:
            llm = LLM("ollama:m", host=server.url, timeout=TIMEOUT, retry=ONCE)
            with pytest.raises(LLMError, match="no chat answer"):
                llm.backend.served()
