"""The contract: what a program is sent, and how each field of its answer is read or refused."""

import pytest

from crs_lib.llm.base import LLMError
from crs_lib.systems import contract
from crs_lib.systems.contract import Answer


def test_a_request_is_the_documented_object():
    talk = [("USER", "Hello"), ("SYSTEM", "Hi"), ("USER", "Films?")]
    assert contract.request("00012", 3, 3, "sample", talk) == {
        "version": 1, "session": "00012", "turn": 3, "want": 3, "catalog": "sample",
        "conversation": [
            {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"},
            {"role": "user", "content": "Films?"},
        ],
    }  # fmt: skip


@pytest.mark.parametrize(("given", "read"), [
    ({"reply": "Hi"}, Answer("Hi")),
    ({"reply": ""}, Answer("")),
    ({"reply": "Hi", "recommended": []}, Answer("Hi", ())),
    ({"reply": "Hi", "recommended": ["a", "b"], "version": 1}, Answer("Hi", ("a", "b"))),
    ({"reply": "Hi", "recommended": None, "state": None}, Answer("Hi")),
    ({"reply": "Hi", "state": {}}, Answer("Hi", None, {})),
    (
        {"reply": "Hi", "state": {"genre": "comedy", "year": 1994, "actor": None, "writer": ["A", "B"]}},
        Answer("Hi", None, {"genre": "comedy", "year": "1994", "writer": ["A", "B"]}),
    ),
    ({"reply": "H\ud83d\ude00\ud800\0", "state": {"genre": "\ud800"}}, Answer("H😀��", None, {"genre": "�"})),
    ({"reply": "Hi", "debug": 1, "seconds": 0.3}, Answer("Hi")),
])  # fmt: skip
def test_an_answer_is_read(given, read):
    assert contract.read(given) == read


@pytest.mark.parametrize(("given", "message"), [
    (["Hi"], r"the answer is a list \('\[\"Hi\"\]'\), expected an object like"),
    (None, "the answer is null, expected an object"),
    ({}, "'reply' is missing, expected a text; the answer has no field"),
    ({"text": "Hi"}, "'reply' is missing, expected a text; the answer has 'text'"),
    ({"reply": 3}, r"'reply' is a number \('3'\), expected a text"),
    ({"reply": None}, "'reply' is null, expected a text"),
    ({"reply": "Hi", "recommended": "Alien"}, "'recommended' is a text .*, expected a list of film ids"),
    ({"reply": "Hi", "recommended": ["a", 7]}, r"'recommended\[1\]' is a number \('7'\), expected a film"),
    ({"reply": "Hi", "recommended": [{"id": 1}]}, r"'recommended\[0\]' is an object"),
    ({"reply": "Hi", "state": ["genre"]}, "'state' is a list .*, expected an object like"),
    ({"reply": "Hi", "state": {"genre": {"x": 1}}}, "'state.genre' is an object .*, expected a text"),
    ({"reply": "Hi", "state": {"genre": True}}, "'state.genre' is true or false"),
    ({"reply": "Hi", "state": {"year": 3.5}}, "'state.year' is a number"),
    ({"reply": "Hi", "version": 2}, "'version' is '2', expected 1 or no such field"),
    ({"reply": "Hi", "recomended": []}, "'recomended' is no field of an answer; did you mean 'recommended'"),
])  # fmt: skip
def test_a_wrong_field_is_named(given, message):
    with pytest.raises(LLMError, match=message) as raised:
        contract.read(given)
    assert raised.value.kind == "wrong answer"


@pytest.mark.parametrize("text", ["", "Hello", '{"reply": ', "[" * 100_000])
def test_what_is_not_json_is_said_with_its_beginning(text):
    with pytest.raises(LLMError, match=r"the answer is not JSON: '.*'; expected one object like"):
        contract.parse(text)
