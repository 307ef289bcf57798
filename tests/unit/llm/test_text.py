"""Thinking is taken out and kept; a reply is used only if it is what was asked for."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crs_lib.llm.text import _split_thinking, checked
from tests.helpers.scripted import failing

SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
}


@pytest.mark.parametrize(("said", "text", "thinking"), [
    ("<think>two steps</think>\nHeat.", "Heat.", "two steps"),
    ("  <THINK>a</THINK><thinking>b</thinking>Heat.", "Heat.", "a\nb"),
    ("<think>never closed, Heat", "", "never closed, Heat"),
    ("opened in the template</think>Heat.", "Heat.", "opened in the template"),
    ('{"reply": "a </think> b"}', '{"reply": "a </think> b"}', ""),
    ("I think <b>Heat</b>.", "I think <b>Heat</b>.", ""),
    ("", "", ""),
])  # fmt: skip
def test_thinking_is_split_off(said: str, text: str, thinking: str) -> None:
    assert _split_thinking(said) == (text, thinking)


def test_fences_and_thinking_are_taken_off_and_a_cut_reply_fails_a_schema() -> None:
    assert _split_thinking("<think>more</think>Heat.", "first") == ("Heat.", "first\nmore")
    assert checked('```json\n{"score": 4}\n```', "stop", SCHEMA) == '{"score": 4}'
    assert checked("Heat is a film by", "length", None) == "Heat is a film by"
    with failing("cut"):
        checked('{"score": 4}', "length", SCHEMA)


@given(st.text(alphabet=st.characters(codec=None), max_size=300))
def test_any_text_can_be_written_afterwards(said: str) -> None:
    parts = _split_thinking(said)
    assert json.loads(json.dumps(parts)) == list(parts)
    assert "".join(parts).encode("utf-8") + b"."


@pytest.mark.parametrize(("text", "where"), [
    ('{"score": 6}', "at score: 6 is greater than the maximum of 5"),
    ('{"score": "4"}', "at score: '4' is not of type 'integer'"),
    ("{}", "at the top: 'score' is a required property"),
    ("I give it a 4", "not JSON"),
    ("[" * 100_000, "not JSON"),
])  # fmt: skip
def test_a_reply_that_breaks_the_schema_says_where(text: str, where: str) -> None:
    with failing("bad reply", where) as caught:
        checked(text, "stop", SCHEMA)
    assert caught.value.text == text and len(str(caught.value)) < 500


@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_no_text_is_an_error(schema: dict[str, object] | None) -> None:
    with failing("empty"):
        checked(" \n", "stop", schema)
