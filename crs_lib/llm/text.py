"""Texts from and to models: thinking and code fences taken off, JSON checked by its schema, quotations."""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm.base import LLMError, Reply, Request, ToolCall

_THINK = re.compile(r"\s*<(think|thinking)>(.*?)(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_CLOSE = re.compile(r"</(?:think|thinking)>", re.IGNORECASE)
_ESCAPED = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)")  # a surrogate or NUL that JSON holds as an escape
_FENCE = re.compile(r"\A\s*```[A-Za-z]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def _split_thinking(text: str, thinking: str = "") -> tuple[str, str]:
    """The reply without what the model thought aloud, and that; ``thinking`` was split off by the server.
    Leading ``<think>…</think>`` blocks are taken out, one that is never closed takes everything with it, and
    so is all before a closing tag whose opening stood in the chat template. Tags inside JSON or further down
    in a text are left alone. Both are made valid Unicode.
    """
    text, thinking = safety.valid(text), safety.valid(thinking)
    found = [thinking] if thinking else []
    while match := _THINK.match(text):
        found.append(match[2].strip())
        text = text[match.end() :]
    if not found and not text.lstrip().startswith(("{", "[")) and (close := _CLOSE.search(text)):
        found.append(text[: close.start()].strip())
        text = text[close.end() :]
    return text.strip(), "\n".join(found)


def checked(text: str, stop: str, schema: Mapping[str, Any] | None) -> str:
    """The text that a study may use: not empty, and with a schema the JSON that keeps it. A Markdown code
    fence around JSON is taken off, and texts in the JSON are made valid Unicode. Raises LLMError: "empty",
    "cut" (stopped by its length with a schema), or "bad reply" for a text beyond the limit
    ``turn_characters`` and JSON that breaks the schema, with the first place.
    """
    reason = ""
    try:
        safety.check_limit("turn_characters", len(text), "the reply has")
        if schema is not None and stop == "length":
            told = f"the reply was cut after {len(text)} characters, its JSON is not whole"
            raise LLMError("cut", told, text=text)
        if not text.strip():
            raise LLMError("empty", "the reply holds no text")
        if schema is None:
            return text
        fenced = _FENCE.match(text)
        body = fenced[1] if fenced else text
        reason = f" in {shorten(text, 120)!r}"
        value = safety.loads(body, "the reply")
    except InputError as error:
        raise LLMError("bad reply", f"{error}{reason}", text=text) from None
    if (problem := next(_validator(json.dumps(schema, sort_keys=True)).iter_errors(value), None)) is not None:
        where = "/".join(map(str, problem.absolute_path)) or "the top"
        told = f"the reply breaks its schema at {where}: {shorten(problem.message, 200)}"
        raise LLMError("bad reply", told, text=text)
    return json.dumps(value, ensure_ascii=False) if _ESCAPED.search(body) else body


def answered(
    request: Request, text: str, *, thinking: str = "", stop: str = "stop", calls: tuple[ToolCall, ...] = (),
    first_token: Mapping[str, float] | None = None, **facts: Any,
) -> Reply:  # fmt: skip
    """The reply made of what a model said; raises LLMError as :func:`checked` where a study cannot use it.
    Calls of tools where none was offered are a "bad reply", with or without a text. ``first_token`` are the
    log-probabilities of the alternatives to the first token, by their texts.
    """
    if calls and not request.tools:
        told = f"the reply calls {shorten(calls[0].name, 80)!r}, and no tool was offered"
        raise LLMError("bad reply", told)
    said, thought = _split_thinking(text, thinking)
    chances = _chosen(first_token or {}, request.choices) if request.choices else {}
    if chances:
        said = likeliest(chances)
    elif not calls:
        said = checked(said, stop, request.schema)
    return Reply(said, stop=stop, thinking=thought, calls=calls, probabilities=chances, **facts)


def _chosen(told: Mapping[str, float], choices: Sequence[str]) -> dict[str, float]:
    """The probability that a reply begins with each choice, from its first token's log-probabilities.
    ``told`` are the alternatives to that token by their texts; blanks around them do not count. The sum is at
    most 1. Raises LLMError where no choice is among them, or a probability is above 1 or no number.
    """
    found = dict.fromkeys(choices, 0.0)
    for token, logprob in told.items():
        if not logprob <= 1e-3:  # of rounding
            raise LLMError("bad reply", f"the log-probability of {shorten(token, 80)!r} is {logprob}")
        if token.strip() in found:
            found[token.strip()] += math.exp(logprob)
    if not sum(found.values()) > 0:
        likely = ", ".join(repr(token) for token in sorted(told, key=lambda t: -told[t])[:3]) or "none given"
        missing = f"none of {', '.join(choices)} is among the likely first words ({likely})"
        raise LLMError("bad reply", missing)
    return found


def likeliest(probabilities: Mapping[str, float]) -> str:
    """The text of the largest probability, the first of equal ones."""
    return max(probabilities, key=probabilities.__getitem__)


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped,unused-ignore]

    return Draft202012Validator(json.loads(schema))


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
