"""The contract with a program, version 1: one JSON object a turn goes out, one JSON object comes back. A
request holds the whole conversation, so that a program need not remember anything. It holds nothing of the
simulator's log. Of the answer only ``reply`` is required. Described in docs/your-system.md.
"""

import json
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

from crs_lib.core import safety
from crs_lib.core.dialogue import USER
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.text import shorten
from crs_lib.llm.base import LLMError

VERSION = 1
_FIELDS = ("reply", "recommended", "state", "version")
_LONGEST = 1_000_000  # bytes of an answer
_KINDS = (
    (bool, "true or false"),
    (str, "a text"),
    (int, "a number"),
    (float, "a number"),
    (Mapping, "an object"),
    (list, "a list"),
    (type(None), "null"),
)


@dataclass(frozen=True)
class Answer:
    """A program's answer, checked: its reply, and the films and the state that it names beside it.
    ``recommended`` are ids or titles, None where the program names none (the titles in the reply count then).
    ``state`` maps fields to the values that the program understood, None where it says nothing about that.
    """

    reply: str
    recommended: tuple[str, ...] | None = None
    state: Mapping[str, str | list[str]] | None = None


def request(
    session: str, turn: int, want: int, catalog: str, conversation: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The request of a turn; ``conversation`` are speakers and texts, the user's latest utterance last."""
    messages = []
    for speaker, text in conversation:
        role = "user" if speaker == USER else "assistant"
        messages.append({"role": role, "content": text})
    return {
        "version": VERSION,
        "session": session,
        "turn": turn,
        "want": want,
        "catalog": catalog,
        "conversation": messages,
    }


def check_length(answer: Sized) -> None:
    """Raise LLMError where the bytes of an answer are too many."""
    if len(answer) > _LONGEST:
        raise LLMError("wrong answer", f"the answer is longer than {_LONGEST:,} bytes; send the reply only")


def parse(text: str) -> object:
    """The JSON value of an answer; LLMError where the text is none."""
    try:
        return safety.loads(text, "the answer")
    except InputError as error:
        fault = f'the answer is not JSON: {_quoted(text)}; expected one object like {{"reply": "…"}}'
        raise LLMError("wrong answer", fault, text) from error


def read(answer: object) -> Answer:
    """The answer, checked field by field; LLMError names the field that is wrong and what it should be.
    Further fields are passed over, unless their name looks like a slip of a known one.
    """
    if not isinstance(answer, Mapping):
        raise _wrong("the answer", answer, 'an object like {"reply": "…"}')
    for name in answer:
        _check_name(str(name))
    if "reply" not in answer:
        names = ", ".join(repr(str(name)) for name in list(answer)[:10]) or "no field"
        raise LLMError("wrong answer", f"'reply' is missing, expected a text; the answer has {names}")
    if not isinstance(answer["reply"], str):
        raise _wrong("'reply'", answer["reply"], "a text")
    if answer.get("version", VERSION) != VERSION:
        version = _quoted(answer["version"])
        raise LLMError("wrong answer", f"'version' is {version}, expected {VERSION} or no such field")
    reply = safety.valid(answer["reply"])
    return Answer(reply, _recommended(answer.get("recommended")), _state(answer.get("state")))


def _check_name(name: str) -> None:
    """Raise LLMError for a field's name that looks like a slip of a known one."""
    if name in _FIELDS:
        return
    hint = did_you_mean(name, _FIELDS)
    meant = hint.partition("'")[2]
    if hint and name[:1].lower() == meant[:1]:
        fields = ", ".join(_FIELDS)
        raise LLMError("wrong answer", f"{name!r} is no field of an answer{hint} (known: {fields})")


def _recommended(films: object) -> tuple[str, ...] | None:
    if films is None:
        return None
    if not isinstance(films, list | tuple):
        raise _wrong("'recommended'", films, "a list of film ids or titles")
    for index, film in enumerate(films):
        if not isinstance(film, str):
            raise _wrong(f"'recommended[{index}]'", film, "a film id or a title, as a text")
    return tuple(safety.valid(film) for film in films)


def _state(state: object) -> Mapping[str, str | list[str]] | None:
    if state is None:
        return None
    if not isinstance(state, Mapping):
        raise _wrong("'state'", state, 'an object like {"genre": "comedy"}')
    checked: dict[str, str | list[str]] = {}
    for name, value in state.items():
        if value is None or value == [] or value == "":
            continue
        several = isinstance(value, list | tuple)
        texts = [_value(str(name), part) for part in (value if several else [value])]
        checked[safety.valid(str(name))] = texts if several else texts[0]
    return checked


def _value(name: str, value: object) -> str:
    """A single value of the state as a text."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong(f"'state.{name}'", value, "a text, a whole number, null, or a list of these")
    return safety.valid(str(value))


def _wrong(name: str, value: object, expected: str) -> LLMError:
    quoted = "" if value is None else f" ({_quoted(value)})"
    return LLMError("wrong answer", f"{name} is {_kind(value)}{quoted}, expected {expected}")


def _kind(value: object) -> str:
    """What a value of JSON is, in words."""
    for kind, word in _KINDS:
        if isinstance(value, kind):
            return word
    return type(value).__name__


def _quoted(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return repr(shorten(" ".join(text.split()), 120))
