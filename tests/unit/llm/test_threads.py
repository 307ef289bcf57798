"""Threads share a model: slots bound the calls, endpoints share the work, an interrupt leaves nobody waiting."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from crs_lib.core.errors import InputError
from crs_lib.llm import LLM, Cache, LLMError, Recorder, Request
from crs_lib.llm import client as llm_client
from crs_lib.llm.client import _Slots
from tests.helpers.ollama_server import OllamaServer


def ask(number):
    return Request.ask("crs", f"Say this:\nhello {number}\n")


def test_threads_share_one_model_and_fill_its_slots():
    server = OllamaServer(delay=0.02)
    with server, LLM("ollama:tiny", host=server.url, slots=8) as llm, ThreadPoolExecutor(12) as pool:
        texts = list(pool.map(lambda number: llm.complete(ask(number)).text, range(24)))
    assert texts == [f"hello {i}" for i in range(24)]
    assert 1 < server.most_at_once <= 8
    assert server.counts["/api/tags"] == 1  # the digest is asked for once, whoever comes first


def test_requests_without_a_server_keep_their_order_and_slots_are_above_zero():
    llm = LLM("scripted", answers=["one", "two", "three"])
    assert [reply.text for reply in llm.gather(map(ask, range(3)))] == ["one", "two", "three"]
    assert llm.gather([]) == []
    with pytest.raises(InputError, match="slots is 0"):
        _Slots(["a"], 0)
    with pytest.raises(InputError, match="timeout is 0"):
        LLM("ollama:tiny", timeout=0.0)


def interrupt(seconds, action):
    """Do the action, which an interrupt ends after so many seconds; returns how long it took to come out."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    timer = threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    began = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            action()
        return time.perf_counter() - began
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_a_call_and_leaves_no_row(tmp_path):
    recorder = Recorder(tmp_path / "calls.sqlite")
    with OllamaServer(delay=3) as server, LLM("ollama:tiny", host=server.url, recorder=recorder) as llm:
        llm.backend.digest()
        assert interrupt(0.2, lambda: llm.complete(ask(1))) < 2
    assert list(recorder.rows()) == []


@pytest.mark.slow
def test_an_interrupt_ends_many_calls_and_keeps_the_replies_that_still_come(tmp_path):
    cache = Cache(tmp_path / "cache.sqlite")
    with OllamaServer(delay=1.0) as server, LLM("ollama:tiny", host=server.url, cache=cache, slots=3) as llm:
        llm.backend.digest()
        assert interrupt(0.3, lambda: llm.gather([ask(i) for i in range(50)])) < 0.9
        ends = time.perf_counter() + 5
        while len(cache) < 3 and time.perf_counter() < ends:
            time.sleep(0.02)
        assert (len(cache), server.chats) == (3, 3)  # those under way; the other 47 are not sent


def test_endpoints_share_the_work_and_avoid_the_one_that_fails(monkeypatch):
    slots = _Slots(["a", "b"], 2)
    holds = [slots.taken() for _ in range(4)]
    assert [hold.__enter__() for hold in holds] == ["a", "b", "a", "b"]
    got: list[str] = []

    def caller() -> None:
        with slots.taken() as endpoint:
            got.append(endpoint)

    waiting = threading.Thread(target=caller, daemon=True)
    waiting.start()
    busy = LLMError("busy", "down")
    assert not holds[0].__exit__(LLMError, busy, None)
    waiting.join(0.1)
    assert got == []  # a slot is free at a, which has just failed
    holds[1].__exit__(None, None, None)
    waiting.join(10)
    assert got == ["b"]
    holds[3].__exit__(LLMError, busy, None)  # none works: both are tried again
    again = [slots.taken() for _ in range(3)]
    assert sorted(hold.__enter__() for hold in again) == ["a", "b", "b"]
    for hold in (*again, holds[2]):
        hold.__exit__(None, None, None)
    monkeypatch.setattr(llm_client, "COOL_OFF", 0.0)
    with slots.taken() as first, slots.taken() as second:
        assert {first, second} == {"a", "b"}  # half a minute later both work


def test_every_waiter_is_served_whatever_fails():
    slots, served, raised = _Slots(["a", "b"], 2), [], []

    def caller(number: int) -> None:
        try:
            with slots.taken() as endpoint:
                served.append(endpoint)
                if number % 5 == 2:
                    raise LLMError("busy", "down")
                if number % 7 == 3:
                    raise KeyError("a defect")
        except (LLMError, KeyError) as error:
            raised.append(error)

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(caller, range(100)))
    assert len(served) == 100 and len(raised) == 31
    assert {*served} == {"a", "b"}
