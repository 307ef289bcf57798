"""``openai:<model>``: any server with the OpenAI chat endpoint (vLLM, llama.cpp, SGLang, …)."""

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import httpx
from pydantic import BaseModel, Field, ValidationError

from crs_lib.core import outside
from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean
from crs_lib.core.text import shorten
from crs_lib.llm import http
from crs_lib.llm.base import BACKENDS, Message, Reply, Request, ToolCall
from crs_lib.llm.errors import Busy, Filtered, Garbled, LLMError, ModelMissing, OtherModel, Refused
from crs_lib.llm.http import Clients, from_status, from_transport, no_tools, secret, shown
from crs_lib.llm.limits import DEFAULTS, check_read
from crs_lib.llm.text import checked, chosen, likeliest, split_thinking

PORT = 8000
_ALTERNATIVES = 20  # the most that the protocol allows
# Our names (Ollama's) and what the endpoint calls them; the last ones vLLM and llama.cpp know.
_NAMES = {
    "num_predict": "max_tokens", "temperature": "temperature", "top_p": "top_p", "stop": "stop",
    "presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty",
    "top_k": "top_k", "min_p": "min_p", "repeat_penalty": "repetition_penalty",
}  # fmt: skip


@BACKENDS.register("openai", argument="a model", example="qwen3-8b", kind="server", choices=True)
class OpenAI:
    """A model on one or several servers that speak the OpenAI chat protocol.

    ``host`` is the address before ``/v1``, or several with commas between; without it OPENAI_BASE_URL,
    else port 8000 of this machine. ``num_ctx`` is not sent, it bounds our prompts: such a server fixes
    its context when it starts. ``send_key`` sends OPENAI_API_KEY to these hosts; otherwise never.

    These servers report no digest: replies are cached under the model's name.
    """

    def __init__(
        self,
        argument: str,
        *,
        host: str | None = None,
        timeout: float = 300.0,
        send_key: bool = False,
    ) -> None:
        self.model = argument
        self.spec = f"openai:{argument}"
        named = host or os.environ.get("OPENAI_BASE_URL") or "127.0.0.1"
        found = http.parse(named, port=PORT, variable="OPENAI_BASE_URL")
        self._endpoints = tuple(address.removesuffix("/v1") for address in found)
        self.timeout = timeout
        key = secret("OPENAI_API_KEY", send_key)
        self._clients = Clients(_client, self._endpoints, timeout, key)

    @property
    def endpoints(self) -> Sequence[str]:
        """The addresses of the servers, without ``/v1``."""
        return self._endpoints

    def settings(self) -> Mapping[str, Any]:
        """Nothing beside the request changes an answer."""
        return {}

    def digest(self) -> str:
        """``model:<name>``: these servers do not identify their weights."""
        return f"model:{self.model}"

    def models(self, endpoint: str = "") -> list[dict[str, Any]]:
        """The models that the server lists under ``/v1/models``."""
        answer = self._send("GET", "/v1/models", endpoint)
        listed = answer.get("data")
        if not isinstance(listed, list):
            raise Garbled(f"{shown(endpoint or self._endpoints[0])} does not list its models")
        return [entry for entry in listed if isinstance(entry, dict)]

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt; every failure is one of the classes in ``llm/errors.py``."""
        started = time.perf_counter()
        address = endpoint or self._endpoints[0]
        try:
            answer = self._send("POST", "/v1/chat/completions", address, self._body(request))
        except (Busy, Refused) as error:
            raise no_tools(error, request) from error
        found = self._completion(answer, shown(address))
        choice, used = found.choices[0], found.usage or _Usage()
        message, stop = choice.message, choice.finish_reason or "stop"
        if stop == "content_filter" or (message.refusal and not message.content):
            why = message.refusal or "finish_reason is content_filter"
            raise Filtered(f"{shown(address)} held the reply back: {shorten(why, 300)}")
        check_read(request, used.prompt_tokens)
        said = split_thinking(message.text, message.reasoning_content or message.reasoning or "")
        calls = tuple(_call(one) for one in message.tool_calls or ())
        chances = chosen(choice.first_token, request.choices) if request.choices else {}
        if chances:
            said = said._replace(text=likeliest(chances))
        return Reply(
            text=said.text if calls or chances else checked(said.text, stop, request.schema), stop=stop,
            tokens_in=used.prompt_tokens, tokens_out=used.completion_tokens,
            seconds=time.perf_counter() - started, thinking=said.thinking, digest=self.digest(),
            endpoint=shown(address), calls=calls, probabilities=chances,
        )  # fmt: skip

    def _completion(self, answer: Mapping[str, Any], address: str) -> "_Completion":
        """The answer as the protocol defines it; Garbled for wrong types, OtherModel for another model's."""
        try:
            found = _Completion.model_validate(answer)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = "/".join(map(str, first["loc"]))
            told = shorten(f"{where}: {first['msg']}, given {first['input']!r}", 300)
            raise Garbled(f"{address} answered with something that is no chat completion ({told})") from error
        if found.model and not _same_model(self.model, found.model):
            raise OtherModel(f"{address} answered with {shorten(found.model, 80)}, not with {self.model}")
        return found

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [_told(one) for one in request.messages],
        }
        if request.tools:
            body["tools"] = [dict(one) for one in request.tools]
        for name, value in {**DEFAULTS, **request.options}.items():
            if name == "num_ctx":
                continue
            if name not in _NAMES:
                raise InputError(f"LLM option {name!r} has no counterpart here{did_you_mean(name, _NAMES)}")
            body[_NAMES[name]] = value
        if request.seed is not None:
            body["seed"] = request.seed
        if request.schema is not None:
            shape = {"name": "reply", "schema": dict(request.schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        if request.choices:
            body |= {"max_tokens": 1, "logprobs": True, "top_logprobs": _ALTERNATIVES}
        return body

    def _send(self, method: str, path: str, endpoint: str, body: Any = None) -> dict[str, Any]:
        address = endpoint or self._endpoints[0]
        try:
            answer = self._clients.at(address).request(method, path, json=body)
        except httpx.HTTPError as error:
            raise from_transport(error, address, self.timeout) from error
        if answer.status_code != 200:
            raise self._failed(answer, address)
        try:
            found = outside.loads(answer.content, f"the answer of {shown(address)}")
        except InputError as error:
            raise Garbled(str(error)) from error
        if not isinstance(found, dict):
            raise Garbled(f"{shown(address)} answered with {outside.kind_of(found)}, expected an object")
        return found

    def _failed(self, answer: httpx.Response, address: str) -> LLMError:
        if answer.status_code == 404:
            return ModelMissing(
                f"{shown(address)} does not serve {self.model}; it was started with another model"
            )
        wait = answer.headers.get("retry-after", "").strip()
        pause = float(wait) if _SECONDS.fullmatch(wait) else 0.0
        return from_status(answer.status_code, answer.text, address, self.model, pause)

    def close(self) -> None:
        """Close all connections."""
        self._clients.close()


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


class _Message(BaseModel):
    content: str | list[_Part] | None = None
    tool_calls: list[_ToolCall] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None

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
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None

    @property
    def first_token(self) -> dict[str, float]:
        """The log-probabilities of the first token's alternatives, by their texts; empty without them."""
        tokens = (self.logprobs.content if self.logprobs else None) or []
        return {one.token: one.logprob for one in (tokens[0].top_logprobs if tokens else ())}


_Count = Annotated[int, Field(strict=True, ge=0, lt=2**53)]


class _Usage(BaseModel):
    prompt_tokens: _Count | None = None
    completion_tokens: _Count | None = None


class _Completion(BaseModel):
    """A chat completion, as far as it is used."""

    model: str | None = None
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None


_SECONDS = re.compile(r"[0-9]{1,6}")


def _same_model(asked: str, answered: str) -> bool:
    """Whether a name in an answer may be that of the model asked: its own, dated, or a path to it."""
    mine, theirs = asked.lower(), answered.lower()
    return (
        theirs == mine
        or theirs.startswith((f"{mine}-", f"{mine}:", f"{mine}@"))
        or mine.rpartition("/")[2] == theirs.rpartition("/")[2]
        or theirs.rpartition("/")[2].startswith(f"{mine.rpartition('/')[2]}.")
    )


def _client(address: str, settings: dict[str, Any]) -> httpx.Client:
    return httpx.Client(base_url=address, **settings)


def _told(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        told["tool_calls"] = [
            {"id": one.id, "type": "function",
             "function": {"name": one.name, "arguments": json.dumps(dict(one.arguments))}}
            for one in message.calls
        ]  # fmt: skip
    return told | ({"tool_call_id": message.answers.id} if message.answers else {})


def _call(told: _ToolCall) -> ToolCall:
    """A tool call of an answer; its arguments come as a JSON text, which may be broken."""
    name, call_id, written = outside.valid(told.function.name), told.id or "", told.function.arguments or {}
    try:
        arguments = outside.loads(written if isinstance(written, str) else json.dumps(written or {}), name)
    except InputError as error:
        return ToolCall(name, {}, call_id, f"the arguments are not JSON ({error})")
    if not isinstance(arguments, dict):
        return ToolCall(name, {}, call_id, "the arguments are no JSON object")
    return ToolCall(name, arguments, call_id)
