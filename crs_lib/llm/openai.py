"""``openai:<model>``: any server with the OpenAI chat endpoint (vLLM, llama.cpp, SGLang, …).

The protocol itself, requests and answers, is spoken by an engine in this process, too.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import httpx
from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import Said, shorten
from crs_lib.llm import http
from crs_lib.llm.base import BACKENDS, DEFAULTS, LLMError, Message, Request, ToolCall
from crs_lib.llm.http import shown
from crs_lib.llm.text import Completion

# Our names (Ollama's) and what the endpoint calls them; the last ones vLLM and llama.cpp know.
NAMES = {
    "num_predict": "max_tokens",
    "repeat_penalty": "repetition_penalty",
    "temperature": "temperature",
    "top_p": "top_p",
    "stop": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "top_k": "top_k",
    "min_p": "min_p",
}


def body(request: Request, names: Mapping[str, str], alternatives: int, **more: Any) -> dict[str, Any]:
    """The body of a request, options under the endpoint's ``names``; it weighs so many ``alternatives``."""
    record: dict[str, Any] = {"messages": [_message(message) for message in request.messages], **more}
    for name, value in {**DEFAULTS, **request.options}.items():
        if name in names:
            record[names[name]] = value
    if request.schema is not None:
        schema = {"name": "reply", "schema": dict(request.schema), "strict": True}
        record["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.choices:
        record.update(max_tokens=1, logprobs=True, top_logprobs=alternatives)
    return record


def _message(message: Message) -> dict[str, Any]:
    record: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        record["tool_calls"] = [_tool_call(call) for call in message.calls]
    if message.answers:
        record["tool_call_id"] = message.answers.id
    return record


def _tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
    return {"id": call.id, "type": "function", "function": function}


class _ToolCall(BaseModel):
    id: str | None = None
    name: str = Field(validation_alias=AliasPath("function", "name"))
    arguments: str | dict[str, Any] | None = Field(None, validation_alias=AliasPath("function", "arguments"))

    def read(self) -> ToolCall:
        """The call; its arguments come as a JSON text, which may be broken."""
        name = safety.valid(self.name)
        written = self.arguments or "{}"
        text = written if isinstance(written, str) else json.dumps(written)
        try:
            arguments = safety.loads(text, name)
        except InputError as error:
            return ToolCall(name, {}, self.id or "", f"the arguments are not JSON ({error})")
        if not isinstance(arguments, dict):
            return ToolCall(name, {}, self.id or "", "the arguments are no JSON object")
        return ToolCall(name, arguments, self.id or "")


class _Answer(BaseModel):
    """A message of an answer."""

    content: str | list[str | dict[str, Any]] | None = None
    tool_calls: list[_ToolCall] | None = None
    refusal: str | None = None
    model_config = ConfigDict(extra="allow")

    def said(self) -> Said:
        """Its text, and what the model thought beside it."""
        return Said.within(self.model_dump(), "content")


class _Alternative(BaseModel):
    token: str
    logprob: float


_Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]


class Usage(BaseModel):
    """The tokens of a call, as the server counts them."""

    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None


class _ChatCompletion(BaseModel):
    """A chat completion, as far as it is used: of its first choice, and of that choice's first token."""

    model: str | None = None
    message: _Answer = Field(validation_alias=AliasPath("choices", 0, "message"))
    stop: str | None = Field(None, validation_alias=AliasPath("choices", 0, "finish_reason"))
    weighed: list[_Alternative] | None = Field(
        None, validation_alias=AliasPath("choices", 0, "logprobs", "content", 0, "top_logprobs")
    )
    usage: Usage | None = None


def read(answer: object, who: str) -> Completion:
    """What a chat completion says. Raises LLMError: "garbled" naming the first place of a wrong type,
    "filtered" for a reply held back.
    """
    chat = _validated(answer, who)
    message = chat.message
    spoken = message.said()
    if spoken.parts and not spoken.text and not message.tool_calls:
        fault = f"{who} answered with {', '.join(spoken.parts)} and no text"
        raise LLMError("garbled", fault)
    stop = chat.stop or "stop"
    if stop == "content_filter" or (message.refusal and not message.content):
        reason = shorten(message.refusal or "finish_reason is content_filter", 300)
        raise LLMError("filtered", f"{who} held the reply back: {reason}")
    usage = chat.usage or Usage()
    return Completion(
        text=spoken.text,
        thinking=spoken.thinking,
        stop=stop,
        calls=tuple(call.read() for call in message.tool_calls or ()),
        tokens_in=usage.prompt_tokens,
        tokens_out=usage.completion_tokens,
        first_token={token.token: token.logprob for token in chat.weighed or ()},
        model=chat.model or "",
    )


def _validated(answer: object, who: str) -> _ChatCompletion:
    try:
        return _ChatCompletion.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = "/".join(map(str, first["loc"]))
        fault = shorten(f"{where}: {first['msg']}, given {first['input']!r}", 300)
        message = f"{who} answered with something that is no chat completion ({fault})"
        raise LLMError("garbled", message) from error


@BACKENDS.register("openai", argument="a model", example="qwen3-8b", kind="server", choices=True)
class OpenAIBackend(http.Server):
    """A model on one or several servers that speak the OpenAI chat protocol.

    ``host`` is the address before ``/v1``, or several with commas between; without it OPENAI_BASE_URL,
    else port 8000 of this machine. ``num_ctx`` is not sent, it bounds our prompts: such a server fixes
    its context when it starts. The key is OPENAI_API_KEY.

    These servers report no digest: replies are cached under the model's name.
    """

    kind = "openai"
    variable = "OPENAI_BASE_URL"
    key = "OPENAI_API_KEY"
    port = 8000
    start = "is it running, and is the address right?"
    get = "start the server with the model"
    without_tools = ("busy", "refused")
    options = NAMES

    def digest(self) -> str:
        """``model:<name>``: these servers do not identify their weights."""
        return f"model:{self.model}"

    def context_limit(self) -> int | None:
        """The shortest context of the servers; LLMError where one does not serve the model."""
        lengths = []
        for address in self.endpoints:
            with self.translated(address):
                entries = self._send("GET", "/v1/models", address)["data"]
                models = {entry["id"]: entry for entry in entries}
            if self.model not in models:
                serves = ", ".join(map(str, models)) or "nothing"
                raise LLMError("model missing", f"{shown(address)} serves {serves}, not {self.model}")
            length = models[self.model].get("max_model_len")
            if isinstance(length, int):
                lengths.append(length)
        return min(lengths, default=None)

    def ask(self, request: Request, address: str) -> Completion:
        """What the server answers."""
        record = body(request, NAMES, http.ALTERNATIVES, model=self.model)
        if request.tools:
            record["tools"] = [dict(tool) for tool in request.tools]
        if request.seed is not None:
            record["seed"] = request.seed
        answer = self._send("POST", "/v1/chat/completions", address, record)
        return replace(read(answer, shown(address)), digest=self.digest())

    def _send(self, method: str, path: str, address: str, record: Any = None) -> Any:
        answer: httpx.Response = self.clients.at(address).request(method, path, json=record)
        if answer.status_code != 200:
            pause = http.pause_of(answer.headers)
            raise self.refused(answer.status_code, answer.text, address, pause)
        return safety.loads(answer.content, f"the answer of {shown(address)}")
