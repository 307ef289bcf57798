"""Threads share a model, and a run shares its models and their cache; an interrupt leaves nobody waiting."""

import os
import queue
import signal
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from statistics import median

import pytest

from crs_lib.core.errors import RunError
from crs_lib.llm import LLM, Cache, LLMError, Recorder, Request
from crs_lib.llm import client as llm_client
from crs_lib.llm.base import Message, Reply
from crs_lib.llm.calls import key
from crs_lib.llm.client import CACHE, LOG, Pool, Slots, drain_scratch, scratch
from crs_lib.llm.settings import LLMSettings
from tests.helpers import refused
from tests.helpers.ollama_server import OllamaServer

BASE = Request.ask("crs", "hello", system="be kind", seed=1, options={"temperature": 0.7})
REPLY = Reply(
    "Heat \x00 <b>",
    stop="stop",
    tokens_in=3,
    tokens_out=2,
    seconds=1.5,
    digest="d",
    thinking="t",
    attempts=3,
    endpoint="e",
    tried=("busy",),
)


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
    refused("slots is 0", Slots, ["a"], 0)
    refused("timeout is 0", LLM, "ollama:tiny", timeout=0.0)


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
        assert len(cache) == 3
        assert server.chats == 3  # those under way; the other 47 are not sent


class Waiting:
    """Calls in threads that stay at their endpoint until each is ended; ``began`` names the endpoints."""

    def __init__(self, slots):
        self.slots = slots
        self.began = []
        self.ends = {}
        self.threads = []

    def call(self, name):
        """Begin a call, and wait a moment until it is sent, if there is an endpoint for it."""
        self.ends[name] = queue.Queue()
        thread = threading.Thread(target=self._run, args=(name,), daemon=True)
        thread.start()
        self.threads.append(thread)
        time.sleep(0.05)

    def _run(self, name):
        def attempt(endpoint):
            self.began.append(f"{name} at {endpoint}")
            error = self.ends[name].get()
            if error:
                raise error
            return REPLY

        with suppress(LLMError):
            self.slots.answer(attempt)

    def end(self, name, error=None):
        self.ends[name].put(error)
        time.sleep(0.05)


def test_endpoints_share_the_work_and_avoid_the_one_that_fails(monkeypatch):
    calls = Waiting(Slots(["a", "b"], 2))
    for name in ("one", "two", "three"):
        calls.call(name)
    assert calls.began == ["one at a", "two at b"]  # each endpoint begins with one
    calls.end("one", LLMError("busy", "down"))
    assert calls.began[2:] == []  # a has just failed, b has its call
    calls.end("two")
    assert calls.began[2:] == ["three at b"]
    calls.end("three", LLMError("busy", "down"))
    calls.call("four")
    calls.call("five")
    assert calls.began[3:] == ["four at a", "five at b"]  # none works: both are tried again
    monkeypatch.setattr(llm_client, "COOL_OFF", 0.0)
    calls.end("four", LLMError("busy", "down"))
    calls.call("six")
    assert calls.began[5:] == ["six at a"]  # half a minute later it works
    calls.end("five")
    calls.end("six")
    for thread in calls.threads:
        thread.join(10)
        assert not thread.is_alive()


class AtOnce:
    """Counts the calls that a model has sent and that are not answered yet."""

    def __init__(self, llm):
        self.now = 0
        self.most = 0
        self.reached = {}  # seconds until so many were under way
        self._began = time.perf_counter()
        self._lock = threading.Lock()
        self._complete = llm.backend.complete
        llm.backend.complete = self.complete

    def complete(self, *values):
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.reached.setdefault(self.now, time.perf_counter() - self._began)
        try:
            return self._complete(*values)
        finally:
            with self._lock:
                self.now -= 1


ANSWER = 0.15  # seconds of an answer in these tests, for 90 of a default Ollama on two cores


@pytest.mark.parametrize("spec", ["ollama:tiny", "openai:tiny:latest"])
def test_a_server_of_one_call_at_a_time_has_one_more_and_none_is_lost(spec, tmp_path):
    log = Recorder(tmp_path / "calls.sqlite")
    server = OllamaServer(delay=ANSWER, slots=1)
    llm = LLM(spec, host=server.url, slots=8, timeout=ANSWER * 300 / 90, recorder=log)
    with server, llm, ThreadPoolExecutor(8) as pool:
        under_way = AtOnce(llm)
        texts = list(pool.map(lambda number: llm.complete(ask(number)).text, range(12)))
    assert texts == [f"hello {i}" for i in range(12)]
    assert server.chats == 12  # none was asked twice
    assert under_way.most == 2
    rows = list(log.rows())
    assert [row["tried"] for row in rows] == [[]] * 12
    assert median(row["waited"] for row in rows) == pytest.approx(ANSWER, rel=0.3)
    assert median(row["seconds"] for row in rows) == pytest.approx(ANSWER, rel=0.3)


def test_a_wait_behind_a_call_of_ours_does_not_count_against_the_time_out():
    server = OllamaServer(delay=2.0, slots=1)
    with server, LLM("ollama:tiny", host=server.url, slots=8, timeout=3.6) as llm:
        replies = llm.gather([ask(number) for number in range(6)])
    assert [reply.attempts for reply in replies] == [1] * 6
    assert max(reply.waited for reply in replies) > 0.4


def test_a_server_of_eight_slots_works_on_eight_calls_within_thirty_answers():
    server = OllamaServer(delay=0.1, slots=8)
    with server, LLM("ollama:tiny", host=server.url, slots=8) as llm:
        under_way = AtOnce(llm)
        replies = llm.gather([ask(number) for number in range(150)])
    assert under_way.most == 8
    assert under_way.reached[8] < 30 * 0.1  # of 2 seconds: a minute
    assert median(reply.waited for reply in replies) == 0.0


def hello(text="hello"):
    return Request.ask("crs", text, seed=1, tags={"session": 3})


def test_a_pool_keeps_one_llm_a_spec_its_cache_and_log_and_halted_refuses_calls(tmp_path, monkeypatch):
    with Pool(tmp_path) as pool:
        assert pool("template") is pool("template")
        assert not pool.complete("template", hello()).cache_hit
        assert pool.complete("template", hello()).cache_hit
    assert (tmp_path / CACHE).exists()
    assert [row["cache_hit"] for row in Recorder(tmp_path / LOG).rows()] == [False, True]
    (empty := tmp_path / "empty").mkdir()
    monkeypatch.chdir(empty)
    with Pool(None) as pool:
        pool.complete("template", hello())
    assert list(empty.iterdir()) == []
    with Pool(None, models={"scripted": LLM("scripted", answers=["a", "b"])}) as pool:
        assert pool.complete("scripted", hello()).text == "a"
        pool.halt()
        refused("started again, it continues", pool.complete, "scripted", hello(), error=RunError)
        pool.release("scripted")


def test_backends_get_the_settings_they_take_and_sessions_for_twice_their_slots():
    service = LLMSettings(host="gpu1", timeout=5.0, think=False)
    reached = {"host": "gpu1", "timeout": 5.0, "send_key": False}
    assert service.settings_for("ollama:a") == {**reached, "think": False}
    assert service.settings_for("openai:a") == reached
    assert service.settings_for("template") == {}
    assert LLMSettings().settings_for("openai:a") == {"timeout": 300.0, "send_key": False}
    refused("did you mean 'ollama'", service.settings_for, "olama:a")
    with Pool(None, LLMSettings(host="gpu1,gpu2", slots=5)) as pool:
        assert pool.width(["ollama:a", "template"]) == 20
        assert pool.width([]) == 1


def test_scratch_is_this_users_own_and_is_drained_once(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_SCRATCH", str(tmp_path))
    folder = scratch("thesis")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with Pool(folder) as pool:
        pool.complete("template", hello("one"))
        pool.complete("template", hello("two"))
    rows = drain_scratch("thesis")
    assert len(rows) == 2
    assert drain_scratch("thesis") == drain_scratch("never used") == []
    home = Recorder(tmp_path / LOG)
    home.put(rows)
    assert [row["session"] for row in home.rows()] == [3, 3]


def test_whatever_may_change_an_answer_changes_its_address_and_who_asks_does_not():
    changes = (
        {"messages": (*BASE.messages, Message("user", "more"))},
        {"messages": tuple(reversed(BASE.messages))},
        {"seed": 2},
        {"options": {"temperature": 0.8}},
        {"schema": {"type": "object"}},
        {"replicate": 1},
    )
    addresses = [key("d", {}, replace(BASE, **change)) for change in ({}, *changes)]
    addresses += [key("other", {}, BASE), key("d", {"think": True}, BASE), key("d", {"think": None}, BASE)]
    assert len({*addresses}) == len(addresses)
    assert key("d", {}, replace(BASE, role="judge", tags={"session": 9})) == key("d", {}, BASE)
    same, other = (replace(BASE, options=options) for options in ({"b": 1, "a": 2}, {"a": 2, "b": 1}))
    assert key("d", {}, same) == key("d", {}, other)


def test_a_hit_is_the_reply_without_its_costs(tmp_path):
    cache = Cache(tmp_path / "c.sqlite")
    assert cache.get("k") is None
    cache.put("k", REPLY)
    cache.put("k", replace(REPLY, text="another"))
    cache.close()
    hit = replace(REPLY, seconds=0.0, attempts=0, tried=(), cache_hit=True)
    assert Cache(tmp_path / "c.sqlite").get("k") == hit
    assert len(cache) == 1
    cache.close()
