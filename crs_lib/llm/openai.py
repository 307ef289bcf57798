"""``openai:<model>``: any server with the OpenAI chat endpoint (vLLM, llama.cpp, SGLang, …).

The protocol itself, requests and answers, is spoken by an engine in this process, too.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import httpx
from pydantic import AliasPath, BaseModel, Field, ValidationError

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm import http
from crs_lib.llm.base import BACKENDS, DEFAULTS, LLMError, Message, Request, ToolCall
from crs_lib.llm.http import shown

# Our names (Ollama's) and what the endpoint calls them; the last ones vLLM and llama.cpp know.
_SAME = "temperature top_p stop presence_penalty frequency_penalty top_k min_p".split()
NAMES = {"num_predict": "max_tokens", "repeat_penalty": "repetition_penalty"} | {name: name for name in _SAME}


def body(request: Request, names: Mapping[str, str], alternatives: int, **more: Any) -> dict[str, Any]:
    """The body of a request, options under the endpoint's ``names``; it weighs so many ``alternatives``."""
    options = {**DEFAULTS, **request.options}
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


class _ToolCall(BaseModel):
    id: str | None = None
    name: str = Field(validation_alias=AliasPath("function", "name"))
    arguments: str | dict[str, Any] | None = Field(None, validation_alias=AliasPath("function", "arguments"))

    def read(self) -> ToolCall:
        """The call; its arguments come as a JSON text, which may be broken."""
        name, told, fault = safety.valid(self.name), self.arguments or {}, ""
        try:
            given = safety.loads(told if isinstance(told, str) else json.dumps(told), name)
            fault = "" if isinstance(given, dict) else "the arguments are no JSON object"
        except InputError as error:
            fault = f"the arguments are not JSON ({error})"
        return ToolCall(name, {} if fault else given, self.id or "", fault)


class _Said(BaseModel):
    """A message of an answer."""

    content: str | list[_Part] | None = None
    tool_calls: list[_ToolCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class _Alternative(BaseModel):
    token: str
    logprob: float


_Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]


class Usage(BaseModel):
    """The tokens of a call, as the server counts them."""

    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None


class _Completion(BaseModel):
    """A chat completion, as far as it is used: of its first choice, and of that choice's first token."""

    model: str | None = None
    message: _Said = Field(validation_alias=AliasPath("choices", 0, "message"))
    stop: str | None = Field(None, validation_alias=AliasPath("choices", 0, "finish_reason"))
    weighed: list[_Alternative] | None = Field(
        None, validation_alias=AliasPath("choices", 0, "logprobs", "content", 0, "top_logprobs")
    )
    usage: Usage | None = None


def read(answer: object, who: str) -> dict[str, Any]:
    """The facts of a chat completion, as :func:`crs_lib.llm.text.answered` takes them, and its model. Raises
    LLMError: "garbled" naming the first place of a wrong type, "filtered" for a reply held back.
    """
    try:
        found = _Completion.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        told = shorten(f"{'/'.join(map(str, first['loc']))}: {first['msg']}, given {first['input']!r}", 300)
        told = f"{who} answered with something that is no chat completion ({told})"
        raise LLMError("garbled", told) from error
    said, stop, used = found.message, found.stop or "stop", found.usage or Usage()
    if stop == "content_filter" or (said.refusal and not said.content):
        why = shorten(said.refusal or "finish_reason is content_filter", 300)
        raise LLMError("filtered", f"{who} held the reply back: {why}")
    text = said.content or ""
    return {
        "text": text if isinstance(text, str) else "".join(part.text for part in text),
        "thinking": said.reasoning_content or said.reasoning or "", "model": found.model, "stop": stop,
        "calls": tuple(one.read() for one in said.tool_calls or ()),
        "tokens_in": used.prompt_tokens, "tokens_out": used.completion_tokens,
        "first_token": {one.token: one.logprob for one in found.weighed or ()},
    }  # fmt: skip


@BACKENDS.register("openai", argument="a model", example="qwen3-8b", kind="server", choices=True)
class _OpenAI(http.Server):
    """A model on one or several servers that speak the OpenAI chat protocol.

    ``host`` is the address before ``/v1``, or several with commas between; without it OPENAI_BASE_URL,
    else port 8000 of this machine. ``num_ctx`` is not sent, it bounds our prompts: such a server fixes
    its context when it starts. The key is OPENAI_API_KEY.

    These servers report no digest: replies are cached under the model's name.
    """

    kind, variable, key, port = "openai", "OPENAI_BASE_URL", "OPENAI_API_KEY", 8000
    start, get = "is it running, and is the address right?", "start the server with the model"
    without_tools, options = ("busy", "refused"), NAMES

    def digest(self) -> str:
        """``model:<name>``: these servers do not identify their weights."""
        return f"model:{self.model}"

    def context_limit(self) -> int | None:
        """The shortest context of the servers; LLMError where one does not serve the model."""
        lengths = []
        for address in self.endpoints:
            with self._translated(address):
                listed = {entry["id"]: entry for entry in self._send("GET", "/v1/models", address)["data"]}
            if self.model not in listed:
                serves = ", ".join(map(str, listed)) or "nothing"
                raise LLMError("model missing", f"{shown(address)} serves {serves}, not {self.model}")
            lengths.append(listed[self.model].get("max_model_len"))
        return min((one for one in lengths if isinstance(one, int)), default=None)

    def _said(self, request: Request, address: str) -> dict[str, Any]:
        asked = body(request, NAMES, http.ALTERNATIVES, model=self.model)
        asked |= {"tools": [dict(one) for one in request.tools]} if request.tools else {}
        asked |= {"seed": request.seed} if request.seed is not None else {}
        answer = self._send("POST", "/v1/chat/completions", address, asked)
        return read(answer, shown(address)) | {"digest": self.digest()}

    def _send(self, method: str, path: str, address: str, body: Any = None) -> Any:
        answer: httpx.Response = self._clients.at(address).request(method, path, json=body)
        if answer.status_code != 200:
            wait = answer.headers.get("retry-after", "")
            raise self._refused(answer.status_code, answer.text, address, wait)
        return safety.loads(answer.content, f"the answer of {shown(address)}")
