"""Threads share a model, and a run shares its models and their cache; an interrupt leaves nobody waiting."""

import os
import signal
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from crs_lib.core.errors import RunError
from crs_lib.llm import LLM, Cache, LLMError, Recorder, Request
from crs_lib.llm import client as llm_client
from crs_lib.llm.base import Message, Reply
from crs_lib.llm.calls import key
from crs_lib.llm.client import CACHE, LOG, Pool, Slots, drain_scratch, scratch
from crs_lib.llm.settings import LLMSettings
from tests.helpers import refused
from tests.helpers.ollama_server import OllamaServer, template_answer

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


def test_endpoints_share_the_work_and_avoid_the_one_that_fails(monkeypatch):
    slots = Slots(["a", "b"], 2)
    holds = [slots.occupied() for _ in range(4)]
    assert [hold.__enter__() for hold in holds] == ["a", "b", "a", "b"]
    got: list[str] = []

    def caller() -> None:
        with slots.occupied() as endpoint:
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
    again = [slots.occupied() for _ in range(3)]
    assert sorted(hold.__enter__() for hold in again) == ["a", "b", "b"]
    for hold in (*again, holds[2]):
        hold.__exit__(None, None, None)
    monkeypatch.setattr(llm_client, "COOL_OFF", 0.0)
    with slots.occupied() as first, slots.occupied() as second:
        assert {first, second} == {"a", "b"}  # half a minute later both work


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


def test_backends_get_the_settings_they_take_and_twice_their_slots():
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


def test_a_slot_that_comes_free_finds_its_next_call_on_the_server():
    here = []
    counts = []
    six = threading.Barrier(6, lambda: (counts.append(len(here)), here.clear()))

    def together(*values):
        here.append(values)
        six.wait(60)  # no answer before six calls are there
        return template_answer(*values)

    with OllamaServer(answer=together) as server, Pool(None, LLMSettings(host=server.url, slots=3)) as pool:
        pool("ollama:tiny").gather([Request.ask("crs", f"Say this:\nhello {i}\n") for i in range(24)])
    assert counts == [LLMSettings(slots=3).at_once] * 4 == [6] * 4


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
