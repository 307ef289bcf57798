"""Tokens: estimated on the safe side before a prompt is sent, compared with the server's count after it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crs_lib.core.errors import InputError
from crs_lib.llm.base import Message, Request
from crs_lib.llm.errors import PromptCut, PromptTooLong

DEFAULTS: Mapping[str, Any] = {"num_ctx": 8192, "num_predict": 512}
_BYTES_A_TOKEN = 3  # English prose has 4 or more; names, digits and markup fewer
_MESSAGE_TOKENS = 16  # what a chat template puts around a message


def tokens_of(text: str) -> int:
    """Tokens a text may take, estimated on the safe side: one for every 3 bytes of UTF-8.

    No tokeniser is asked: each model has another one.
    """
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN)


def tokens_at_most(messages: Iterable[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
    """Tokens that messages and tools may take: those of the texts, and 16 for what frames each of them."""
    texts = [m.content + "".join(json.dumps(one) for one in m.calls) for m in messages]
    return sum(tokens_of(text) + _MESSAGE_TOKENS for text in (*texts, *(json.dumps(one) for one in tools)))


def tokens_at_least(messages: Iterable[Message]) -> int:
    """Tokens the messages surely take: no tokeniser in use joins words over a blank."""
    return sum(len(m.content.split()) for m in messages)


def room(options: Mapping[str, Any]) -> int:
    """Tokens that a prompt may take: ``num_ctx`` less ``num_predict``.

    Raises InputError unless both are whole numbers above 0 and the first is the larger.
    """
    both = {**DEFAULTS, **options}
    context, answer = both["num_ctx"], both["num_predict"]
    for name, value in (("num_ctx", context), ("num_predict", answer)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"{name} is {value!r}; give a whole number of tokens above 0")
    if answer >= context:
        raise InputError(
            f"num_predict {answer} leaves no room for a prompt in num_ctx {context}; raise num_ctx"
        )
    return int(context - answer)


def check_fits(request: Request) -> None:
    """Raise PromptTooLong before a prompt is sent that the server might cut without a word."""
    needs, has = tokens_at_most(request.messages, request.tools), room(request.options)
    if needs > has:
        raise PromptTooLong(
            f"the {request.role} prompt may take {needs} tokens, num_ctx less num_predict leaves {has}; "
            "raise num_ctx, or shorten the prompt"
        )


def check_read(request: Request, tokens_in: int | None) -> None:
    """Raise PromptCut where the server counted fewer tokens than the prompt has words."""
    least = tokens_at_least(request.messages)
    if tokens_in is not None and tokens_in < least:
        raise PromptCut(
            f"the server read {tokens_in} tokens of a {request.role} prompt of {least} words: it dropped "
            "the front of it. Its context is smaller than num_ctx; use a model with a longer context"
        )
