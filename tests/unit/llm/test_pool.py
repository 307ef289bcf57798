"""The models of a run and their call cache: one LLM a spec, addresses of calls, halted and drained."""

import stat
from dataclasses import replace

import pytest

from crs_lib.core.errors import InputError, RunError
from crs_lib.llm import LLM, Recorder, Request
from crs_lib.llm.base import Message, Reply
from crs_lib.llm.calls import Cache, key
from crs_lib.llm.client import CACHE, LOG, Pool, drain_scratch, scratch
from crs_lib.llm.settings import LLMSettings
from tests.helpers.ollama_server import OllamaServer


def ask(text="hello"):
    return Request.ask("crs", text, seed=1, tags={"session": 3})


def test_a_spec_is_one_llm_and_its_calls_are_cached_and_logged_where_there_is_a_folder(tmp_path, monkeypatch):
    with Pool(tmp_path) as pool:
        assert pool("template") is pool("template")
        assert not pool.complete("template", ask()).cache_hit
        assert pool.complete("template", ask()).cache_hit
    assert (tmp_path / CACHE).exists()
    assert [row["cache_hit"] for row in Recorder(tmp_path / LOG).rows()] == [False, True]
    (empty := tmp_path / "empty").mkdir()
    monkeypatch.chdir(empty)
    with Pool(None) as pool:
        pool.complete("template", ask())
    assert list(empty.iterdir()) == []


def test_halted_it_refuses_further_calls():
    with Pool(None, made={"scripted": LLM("scripted", answers=["a", "b"])}) as pool:
        assert pool.complete("scripted", ask()).text == "a"
        pool.halt()
        with pytest.raises(RunError, match="started again, it continues"):
            pool.complete("scripted", ask())
        pool.release("scripted")


def test_backends_get_the_settings_they_take_and_twice_their_slots():
    service = LLMSettings(host="gpu1", timeout=5.0, think=False)
    assert service.settings_for("ollama:a") == {"host": "gpu1", "timeout": 5.0, "think": False}
    assert service.settings_for("openai:a") == {"host": "gpu1", "timeout": 5.0}
    assert service.settings_for("template") == {}
    assert LLMSettings().settings_for("openai:a") == {"timeout": 300.0}
    with pytest.raises(InputError, match="did you mean 'ollama'"):
        service.settings_for("olama:a")
    with Pool(None, LLMSettings(host="gpu1,gpu2", slots=5)) as pool:
        assert pool.width(["ollama:a", "template"]) == 20
        assert pool.width([]) == 1


def test_a_slot_that_comes_free_finds_its_next_call_on_the_server():
    service = LLMSettings(slots=3)
    with OllamaServer(delay=0.05) as server, Pool(None, LLMSettings(host=server.url, slots=3)) as pool:
        requests = [Request.ask("crs", f"Say this:\nhello {i}\n") for i in range(24)]
        pool("ollama:tiny").gather(requests)
    assert service.at_once == 6 == server.most_at_once


def test_scratch_is_this_users_own_and_is_drained_once(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_SCRATCH", str(tmp_path))
    folder = scratch("thesis")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with Pool(folder) as pool:
        pool.complete("template", ask("one"))
        pool.complete("template", ask("two"))
    rows = drain_scratch("thesis")
    assert len(rows) == 2
    assert drain_scratch("thesis") == drain_scratch("never used") == []
    home = Recorder(tmp_path / LOG)
    home.put(rows)
    assert [row["session"] for row in home.rows()] == [3, 3]


BASE = Request.ask("crs", "hello", system="be kind", seed=1, options={"temperature": 0.7})
REPLY = Reply(
    "Heat \x00 <b>", stop="stop", tokens_in=3, tokens_out=2, seconds=1.5, digest="d", thinking="t", attempts=3,
    endpoint="e", tried=("busy",),
)  # fmt: skip


@pytest.mark.parametrize("other", [
    replace(BASE, messages=(*BASE.messages, Message("user", "more"))),
    replace(BASE, messages=tuple(reversed(BASE.messages))),
    replace(BASE, seed=2),
    replace(BASE, options={"temperature": 0.8}),
    replace(BASE, schema={"type": "object"}),
    replace(BASE, replicate=1),
])  # fmt: skip
def test_whatever_may_change_an_answer_changes_its_address(other):
    assert key("d", {}, other) != key("d", {}, BASE)


def test_weights_and_settings_are_part_of_the_address_and_who_asks_is_not():
    assert key("d", {}, BASE) != key("other", {}, BASE)
    assert key("d", {"think": True}, BASE) != key("d", {"think": None}, BASE)
    assert key("d", {}, replace(BASE, role="judge", tags={"session": 9})) == key("d", {}, BASE)
    assert key("d", {}, replace(BASE, options={"b": 1, "a": 2})) == key(
        "d", {}, replace(BASE, options={"a": 2, "b": 1})
    )


def test_a_hit_is_the_reply_without_its_costs(tmp_path):
    cache = Cache(tmp_path / "c.sqlite")
    assert cache.get("k") is None
    cache.put("k", REPLY)
    cache.put("k", replace(REPLY, text="another"))
    cache.close()
    assert Cache(tmp_path / "c.sqlite").get("k") == replace(
        REPLY, seconds=0.0, attempts=0, tried=(), cache_hit=True
    )
    assert len(cache) == 1
    cache.close()
