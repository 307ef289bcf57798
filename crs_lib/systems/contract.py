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
    (bool, "true or false"), (str, "a text"), (int, "a number"), (float, "a number"),
    (Mapping, "an object"), (list, "a list"), (type(None), "null"),
)  # fmt: skip


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
    roles = (("user" if speaker == USER else "assistant", text) for speaker, text in conversation)
    return {
        "version": VERSION, "session": session, "turn": turn, "want": want, "catalog": catalog,
        "conversation": [{"role": role, "content": text} for role, text in roles],
    }  # fmt: skip


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
        hint = did_you_mean(str(name), _FIELDS) if name not in _FIELDS else ""
        if hint and str(name)[:1].lower() == hint.partition("'")[2][:1]:
            known = ", ".join(_FIELDS)
            raise LLMError("wrong answer", f"{str(name)!r} is no field of an answer{hint} (known: {known})")
    if "reply" not in answer:
        names = ", ".join(repr(str(name)) for name in list(answer)[:10]) or "no field"
        raise LLMError("wrong answer", f"'reply' is missing, expected a text; the answer has {names}")
    if not isinstance(answer["reply"], str):
        raise _wrong("'reply'", answer["reply"], "a text")
    if answer.get("version", VERSION) != VERSION:
        given = _quoted(answer["version"])
        raise LLMError("wrong answer", f"'version' is {given}, expected {VERSION} or no such field")
    reply = safety.valid(answer["reply"])
    return Answer(reply, _recommended(answer.get("recommended")), _state(answer.get("state")))


def _recommended(given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list | tuple):
        raise _wrong("'recommended'", given, "a list of film ids or titles")
    for place, one in enumerate(given):
        if not isinstance(one, str):
            raise _wrong(f"'recommended[{place}]'", one, "a film id or a title, as a text")
    return tuple(safety.valid(one) for one in given)


def _state(given: object) -> Mapping[str, str | list[str]] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise _wrong("'state'", given, 'an object like {"genre": "comedy"}')
    state: dict[str, str | list[str]] = {}
    for name, value in given.items():
        several = value if isinstance(value, list | tuple) else [value]
        if value is None or value == [] or value == "":
            continue
        for one in several:
            if isinstance(one, bool) or not isinstance(one, str | int):
                raise _wrong(f"'state.{name}'", one, "a text, a whole number, null, or a list of these")
        texts = [safety.valid(str(one)) for one in several]
        state[safety.valid(str(name))] = texts if isinstance(value, list | tuple) else texts[0]
    return state


def _wrong(name: str, value: object, expected: str) -> LLMError:
    kind = next((word for type_, word in _KINDS if isinstance(value, type_)), type(value).__name__)
    shown = "" if value is None else f" ({_quoted(value)})"
    return LLMError("wrong answer", f"{name} is {kind}{shown}, expected {expected}")


def _quoted(value: object) -> str:
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return repr(shorten(" ".join(value.split()), 120))
