"""The OpenAI chat protocol, which servers and an engine in this process speak: requests and answers."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from crs_lib.core import safety
from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.text import shorten
from crs_lib.llm.base import DEFAULTS, LLMError, Message, Request, ToolCall


def body(request: Request, names: Mapping[str, str], alternatives: int, **more: Any) -> dict[str, Any]:
    """The body of a request, options under the ``names`` of the endpoint.

    ``alternatives`` is how many tokens the endpoint weighs at most, for a reply that is one of some choices.
    Raises InputError for an option that the endpoint does not know.
    """
    options = {**DEFAULTS, **request.options}
    for name in options.keys() - {*names, "num_ctx"}:
        raise InputError(f"unknown LLM option {name!r}{did_you_mean(name, names)}")
    told: dict[str, Any] = {"messages": [_told(one) for one in request.messages], **more}
    told |= {names[name]: value for name, value in options.items() if name in names}
    if request.schema is not None:
        form = {"name": "reply", "schema": dict(request.schema), "strict": True}
        told["response_format"] = {"type": "json_schema", "json_schema": form}
    if request.choices:
        told |= {"max_tokens": 1, "logprobs": True, "top_logprobs": alternatives}
    return told


def _told(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        told["tool_calls"] = [
            {"id": one.id, "type": "function",
             "function": {"name": one.name, "arguments": json.dumps(dict(one.arguments))}}
            for one in message.calls
        ]  # fmt: skip
    return told | ({"tool_call_id": message.answers.id} if message.answers else {})


class _Part(BaseModel):
    """A piece of a message's content; only text is asked for."""

    type: Literal["text"] = "text"
    text: str


class _Function(BaseModel):
    name: str
    arguments: str | dict[str, Any] | None = None


class _ToolCall(BaseModel):
    id: str | None = None
    function: _Function


class _Said(BaseModel):
    """A message of an answer."""

    content: str | list[_Part] | None = None
    tool_calls: list[_ToolCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools that the model calls."""
        return tuple(_call(one) for one in self.tool_calls or ())

    @property
    def text(self) -> str:
        """The content, its parts joined as the protocol defines."""
        parts = self.content if isinstance(self.content, list) else []
        return self.content if isinstance(self.content, str) else "".join(part.text for part in parts)


class _Alternative(BaseModel):
    token: str
    logprob: float


class _Token(BaseModel):
    top_logprobs: list[_Alternative] = []


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Choice(BaseModel):
    """An answer of the model: its message, why it ended, and the weights of its tokens."""

    message: _Said
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None

    @property
    def first_token(self) -> dict[str, float]:
        """The log-probabilities of the first token's alternatives, by their texts; empty without them."""
        tokens = (self.logprobs.content if self.logprobs else None) or []
        return {one.token: one.logprob for one in (tokens[0].top_logprobs if tokens else ())}


_Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]


class Usage(BaseModel):
    """The tokens of a call, as the server counts them."""

    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None


class _Completion(BaseModel):
    """A chat completion, as far as it is used."""

    model: str | None = None
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: Usage | None = None


def read(answer: object, who: str) -> _Completion:
    """An answer as the protocol defines it; LLMError "garbled" naming the first place of a wrong type."""
    try:
        return _Completion.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "/".join(map(str, first["loc"]))
        told = shorten(f"{where}: {first['msg']}, given {first['input']!r}", 300)
        raise LLMError(
            "garbled", f"{who} answered with something that is no chat completion ({told})"
        ) from error


def _call(told: _ToolCall) -> ToolCall:
    """A tool call of an answer; its arguments come as a JSON text, which may be broken."""
    name, call_id, written = safety.valid(told.function.name), told.id or "", told.function.arguments or {}
    try:
        arguments = safety.loads(written if isinstance(written, str) else json.dumps(written or {}), name)
    except InputError as error:
        return ToolCall(name, {}, call_id, f"the arguments are not JSON ({error})")
    if not isinstance(arguments, dict):
        return ToolCall(name, {}, call_id, "the arguments are no JSON object")
    return ToolCall(name, arguments, call_id)
