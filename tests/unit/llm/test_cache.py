"""The call cache: what is part of an address, what is stored, and several processes at once."""

from dataclasses import replace
from pathlib import Path

import pytest

from crs_lib.llm.base import Message, Reply, Request
from crs_lib.llm.calls import Cache, key

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
def test_whatever_may_change_an_answer_changes_its_address(other: Request) -> None:
    assert key("d", {}, other) != key("d", {}, BASE)


def test_weights_and_settings_are_part_of_the_address_and_who_asks_is_not() -> None:
    assert key("d", {}, BASE) != key("other", {}, BASE)
    assert key("d", {"think": True}, BASE) != key("d", {"think": None}, BASE)
    assert key("d", {}, replace(BASE, role="judge", tags={"session": 9})) == key("d", {}, BASE)
    assert key("d", {}, replace(BASE, options={"b": 1, "a": 2})) == key(
        "d", {}, replace(BASE, options={"a": 2, "b": 1})
    )


def test_a_hit_is_the_reply_without_its_costs(tmp_path: Path) -> None:
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
