"""Connections to model servers: whole, one a call, broken off, bounded in time; no cookie, no redirect, no proxy."""

import asyncio
import math
import os
import socket
import time

import pytest

from crs_lib.core.errors import InputError
from crs_lib.llm import LLM, Request, Retry
from crs_lib.llm.http import Clients, _is_local
from tests.helpers.ollama_server import OllamaServer
from tests.helpers.raw_server import RawServer, http_answer
from tests.helpers.scripted import failing

BODY = b'{"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}'
WHOLE = http_answer(BODY)
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
LAST, COOKIE = (
    http_answer(BODY, "200 OK", "connection: close"),
    http_answer(BODY, "200 OK", "set-cookie: who=me"),
)
MOVED = b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/other\r\ncontent-length: 0\r\n\r\n"
ONCE = Retry(waits=0, seeds=0)


def ask(server, times=1, **settings):
    with LLM("openai:m", host=server.url, retry=ONCE, **settings) as llm:
        return [llm.complete(Request.ask("crs", "hi")).text for _ in range(times)]


ALTERNATIVES = (
    b"""[{"token": " 4", "logprob": -0.5}, {"token": "2", "logprob": -1.5}, {"token": "A", "logprob": -2}]"""
)
FIRST_TOKEN = b'{"token": "A", "logprob": -2, "top_logprobs": ' + ALTERNATIVES + b"}"
WEIGHED = {
    "openai:m": BODY.replace(b'"finish_reason"', b'"logprobs": {"content": [' + FIRST_TOKEN + b']}, "finish_reason"'),
    "ollama:m": b'{"model": "m", "message": {"role": "assistant", "content": "A"}, "done": true, "logprobs": ['
    + FIRST_TOKEN + b"]}",
}  # fmt: skip
LISTED = b'{"models": [{"model": "m:latest", "digest": "d"}]}'


@pytest.mark.parametrize("spec", WEIGHED)
def test_choices_have_the_probabilities_that_the_server_gives(spec):
    request = Request.ask("judge", "hi", choices=("1", "2", "4"))
    plain = {"openai:m": [BODY], "ollama:m": [WEIGHED[spec].replace(FIRST_TOKEN, b"")]}[spec]
    bodies = [*([LISTED] if spec == "ollama:m" else []), WEIGHED[spec], *plain]
    with RawServer(*map(http_answer, bodies)) as server, LLM(spec, host=server.url, retry=ONCE) as llm:
        reply = llm.complete(request)
        with failing("bad reply", r"none of 1, 2, 4 .* \(none given\)"):
            llm.complete(request)
    assert reply.text == "4" and list(reply.probabilities) == ["1", "2", "4"]
    assert reply.probabilities == pytest.approx({"1": 0, "2": math.exp(-1.5), "4": math.exp(-0.5)})


def test_a_backend_without_probabilities_says_so():
    with pytest.raises(InputError, match="scripted does not say how probable its words are"):
        LLM("scripted").complete(Request.ask("judge", "hi", choices=("1", "2")))


@pytest.mark.parametrize("answer", [WHOLE, CHUNKED, LAST, WHOLE + WHOLE.replace(b"hello", b"stale")])
def test_each_call_has_a_connection_of_its_own(answer):
    """What follows an answer is never taken for the answer to the next call."""
    with RawServer(*[answer] * 3) as server:
        assert ask(server, 3) == ["hello"] * 3
        assert server.connections == 3


def test_a_connection_that_the_server_closed_meanwhile_is_not_used():
    with RawServer(WHOLE, WHOLE, hang_up=True) as server, LLM("openai:m", host=server.url, retry=ONCE) as llm:
        first = llm.complete(Request.ask("crs", "hi"))
        time.sleep(0.05)
        assert first.text == llm.complete(Request.ask("crs", "hi")).text == "hello"
        assert server.connections == 2


@pytest.mark.parametrize("answer", [WHOLE[:-2], CHUNKED[:-9], WHOLE[:20], b"SMTP ready\r\n\r\n"])
def test_an_answer_that_breaks_off_is_dropped(answer):
    with RawServer(answer, hang_up=True) as server, failing("dropped", "ended early"):
        ask(server)


@pytest.mark.slow
def test_an_answer_that_comes_in_drops_is_bounded_by_the_time_out():
    with RawServer(WHOLE, pieces=40, pause=0.1) as server:
        began = time.perf_counter()
        with failing("timeout", r"within 0\.5 seconds"):
            ask(server, timeout=0.5)
    assert time.perf_counter() - began < 2  # 4 s without a deadline: no single pause is longer than 0.1 s


def test_an_answer_in_drops_that_is_in_time_comes_whole():
    with RawServer(WHOLE, pieces=10, pause=0.01) as server:
        assert ask(server, timeout=5.0) == ["hello"]


def test_cookies_are_not_sent_back_and_redirects_not_followed():
    with RawServer(COOKIE, WHOLE) as server:
        assert ask(server, 2) == ["hello"] * 2
        assert not any(b"cookie" in head.lower() for head in server.heads)
    with RawServer(MOVED) as server, failing("refused", "HTTP 302"):
        ask(server)


@pytest.mark.parametrize("spec", ["ollama:tiny", "openai:tiny:latest"])
def test_a_proxy_is_used_for_other_machines_only(spec, monkeypatch):
    for name in ("no_proxy", "NO_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with RawServer(WHOLE) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        with OllamaServer() as server, LLM(spec, host=server.url, retry=ONCE) as llm:
            assert llm.complete(Request.ask("crs", "hi")).text
        assert proxy.heads == []
        with LLM("openai:m", host="http://gpu1.invalid", retry=ONCE) as llm:
            assert llm.complete(Request.ask("crs", "hi")).text == "hello"
        assert proxy.heads[0].startswith(b"POST http://gpu1.invalid/v1/chat/completions ")


@pytest.fixture
def clients():
    made = Clients(lambda *_: socket.socket(), 5.0)
    yield made
    made.close()


def test_a_client_is_made_once_a_server_and_anew_after_closing(clients):
    first, other = clients.at("http://a"), clients.at("http://b")
    assert clients.at("http://a") is first and first is not other
    clients.close()
    assert first.fileno() == -1 and clients.at("http://a") is not first


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_its_own_connections(clients):
    mine = clients.at("http://a")
    child = os.fork()
    if child == 0:
        own = clients.at("http://a")
        clients.close()
        os._exit(0 if own is not mine and mine.fileno() != -1 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(("address", "local"), [
    ("http://127.0.0.1:1", True), ("http://localhost", True), ("http://[::1]:5", True), ("http://gpu1", False),
])  # fmt: skip
def test_this_machine_is_known(address, local):
    assert _is_local(address) is local


def test_it_works_where_an_event_loop_runs_already():
    async def notebook() -> list[str]:
        with OllamaServer() as server, LLM("ollama:tiny", host=server.url) as llm:
            request = Request.ask("crs", "hi")
            return [llm.complete(request).text, (await asyncio.to_thread(llm.complete, request)).text]

    first, second = asyncio.run(notebook())
    assert first == second != ""
