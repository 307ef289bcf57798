"""Texts from and to models: thinking and code fences taken off, JSON checked by its schema, quotations."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import said, shorten
from crs_lib.llm.base import LLMError, Reply, Request, ToolCall

_ESCAPED = re.compile(r"\\u(?:[dD][89a-fA-F]|0000|[fF]{3}[dD])")  # half a character, NUL, U+FFFD
_FENCE = re.compile(r"\A[^`{]*```[A-Za-z]*[ \t]*\n(.*?)\n?```[^`}]*\Z", re.DOTALL)  # the only one
_ROUNDING = 1e-3  # how far above 0 a log-probability may lie


@dataclass(frozen=True)
class Completion:
    """What a model said, as its server gave it: nothing of it is checked yet.

    ``first_token`` are the log-probabilities of the alternatives to the first token, by their texts; an
    empty ``model`` says nothing about which one answered. ``worked`` are the seconds that the server says it
    worked; None where it does not.
    """

    text: str
    thinking: str = ""
    stop: str = "stop"
    calls: tuple[ToolCall, ...] = ()
    tokens_in: int | None = None
    tokens_out: int | None = None
    first_token: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    digest: str = ""
    worked: float | None = None


def answered(request: Request, completion: Completion, seconds: float = 0.0, endpoint: str = "") -> Reply:
    """The reply made of what a model said; raises LLMError as :func:`checked` where a study cannot use it.
    Calls of tools where none was offered are a "bad reply", with or without a text.
    """
    if completion.calls and not request.tools:
        name = shorten(completion.calls[0].name, 80)
        raise LLMError("bad reply", f"the reply calls {name!r}, and no tool was offered")
    written = safety.valid(completion.text)
    if completion.stop == "length":
        written = written.rstrip("\ufffd")  # the length ended within a character
    spoken = said(written, safety.valid(completion.thinking))
    text = spoken.text
    for call in completion.calls:
        _check_whole(json.dumps(dict(call.arguments), ensure_ascii=False))
    probabilities: Mapping[str, float] = {}
    if request.choices:
        probabilities = _probabilities(completion.first_token, request.choices)
        text = likeliest(probabilities)
    elif not completion.calls:
        text = checked(text, completion.stop, request.schema, spoken.thinking)
    return Reply(
        text=text,
        stop=completion.stop,
        tokens_in=completion.tokens_in,
        tokens_out=completion.tokens_out,
        seconds=seconds,
        waited=None if completion.worked is None else max(0.0, seconds - completion.worked),
        digest=completion.digest,
        thinking=spoken.thinking,
        endpoint=endpoint,
        calls=completion.calls,
        probabilities=probabilities,
    )


def checked(text: str, stop: str, schema: Mapping[str, Any] | None, thinking: str = "") -> str:
    """The text that a study may use: not empty, and with a schema the JSON that keeps it. A Markdown code
    fence around JSON is taken off. Raises LLMError: "empty", "cut" (its length ended it before its JSON was
    whole, or while the model was ``thinking``), or "bad reply" for a text beyond the limit
    ``turn_characters``, with U+FFFD, NUL or half a character, and JSON that breaks the schema, with the first
    place.
    """
    try:
        safety.check_limit("turn_characters", len(text), "the reply has")
    except InputError as error:
        raise LLMError("bad reply", str(error), text=text) from None
    if stop == "length" and thinking and not text:
        fault = f"thinking used up the length ({len(thinking):,} characters), and no reply followed"
        raise LLMError("cut", f"{fault}; raise num_predict, or let the model not think")
    _check_whole(text)
    if schema is not None and stop == "length":
        fault = f"the reply was cut after {len(text)} characters, its JSON is not whole"
        raise LLMError("cut", fault, text=text)
    if not text.strip():
        beside = " beside what the model thought (a thought that is never closed reaches to the end)"
        raise LLMError("empty", f"the reply holds no text{beside if thinking else ''}")
    return text if schema is None else _checked_json(text, schema)


def _check_whole(text: str) -> None:
    """Raise LLMError for a text with U+FFFD, which stands for what could not be read."""
    start = text.find("\ufffd")
    if start >= 0:
        before = shorten(text[max(0, start - 20) : start], 40)
        fault = f"the reply holds U+FFFD, a character that was lost, at {start:,}, after {before!r}"
        raise LLMError("bad reply", f"{fault}; the server should write whole characters in UTF-8", text=text)


def _checked_json(text: str, schema: Mapping[str, Any]) -> str:
    """The JSON of a reply, if it keeps the schema; LLMError otherwise."""
    fenced = _FENCE.match(text)
    body = fenced[1] if fenced else text
    try:
        value = safety.loads(body, "the reply")
    except InputError as error:
        raise LLMError("bad reply", f"{error} in {shorten(text, 120)!r}", text=text) from None
    validator = _validator(json.dumps(schema, sort_keys=True))
    for problem in validator.iter_errors(value):
        where = "/".join(map(str, problem.absolute_path)) or "the top"
        fault = f"the reply breaks its schema at {where}: {shorten(problem.message, 200)}"
        raise LLMError("bad reply", fault, text=text)
    if not _ESCAPED.search(body):
        return body
    whole = json.dumps(value, ensure_ascii=False)
    _check_whole(whole)
    return whole


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped,unused-ignore]

    return Draft202012Validator(json.loads(schema))


def _probabilities(first_token: Mapping[str, float], choices: Sequence[str]) -> dict[str, float]:
    """The probability that a reply begins with each choice, from its first token's log-probabilities; blanks
    around the tokens do not count. The sum is at most 1. Raises LLMError where no choice is among them, or a
    probability is above 1 or no number.
    """
    probabilities = dict.fromkeys(choices, 0.0)
    for token, logprob in first_token.items():
        if not logprob <= _ROUNDING:  # nan is not, either
            raise LLMError("bad reply", f"the log-probability of {shorten(token, 80)!r} is {logprob}")
        choice = token.strip()
        if choice in probabilities:
            probabilities[choice] += math.exp(logprob)
    if not sum(probabilities.values()) > 0:
        tokens = sorted(first_token, key=lambda token: -first_token[token])
        likely = ", ".join(map(repr, tokens[:3])) or "none given"
        fault = f"none of {', '.join(choices)} is among the likely first words ({likely})"
        raise LLMError("bad reply", fault)
    return probabilities


def likeliest(probabilities: Mapping[str, float]) -> str:
    """The text of the largest probability, the first of equal ones."""
    return max(probabilities, key=lambda text: probabilities[text])


# Not escaped by JSON, and read as line ends by some.
_BREAKS = str.maketrans({"\x7f": "\\u007f", "\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def one_line(text: str) -> str:
    """The text as a JSON string, on one line whatever it holds; quotes inside are escaped."""
    return json.dumps(text, ensure_ascii=False).translate(_BREAKS)


def fence(texts: Iterable[str]) -> str:
    """16 hex digits that occur in none of the texts, and the same for the same texts: none can know it."""
    whole = "\x00".join(texts)
    code = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:16]
    while code in whole:
        code = hashlib.sha256(code.encode()).hexdigest()[:16]
    return code
