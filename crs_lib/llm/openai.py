"""``openai:<model>``: any server with the OpenAI chat endpoint (vLLM, llama.cpp, SGLang, …).

The protocol itself, requests and answers, is spoken by an engine in this process, too.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import httpx
from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import Said, shorten
from crs_lib.llm import http
from crs_lib.llm.base import BACKENDS, DEFAULTS, JsonForm, LLMError, Message, Request, SystemForm, ToolCall
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

_VERSION = re.compile(r"/v\d\w*(?:/|$)")  # in the path of an address
_AS_JSON = "Answer with one JSON value that keeps this JSON schema, and with nothing else: "
# What a server that refuses a part of a request says, and the setting that helps.
_CURES = {
    r"response_format|json_schema|json_object": 'set "json" to "object" or "none"',
    r"must alternate|(system|developer) (role|message|prompt|instruction)|role.{0,20}system": (
        'set "system" to "merge"'
    ),
    r"unsupported|unrecogni[sz]ed|not permitted|extra inputs|max_completion_tokens"
    r"|unknown (field|param|name)": (
        'set "names", e.g. {"max_tokens": "max_completion_tokens"}, or {"temperature": ""} to leave one out'
    ),
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
    "filtered" for a reply held back, "busy" or "refused" for an error beside it.
    """
    http.check_no_error(answer, who)
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
    else port 8000 of this machine. An address with its own version (``/v3``, ``?api-version=…``) stays as it
    is. ``num_ctx`` is not sent, it bounds our prompts: such a server fixes its context when it starts. The
    key is OPENAI_API_KEY.

    For servers that refuse something: ``names`` gives parameters other names, or leaves one out (an empty
    text); ``json`` asks for JSON by its schema, as an "object", or by words alone ("none"); ``system``
    "merge" joins the system message to the user's first; ``accept_model`` is the name under which the server
    answers (``*``: any).

    These servers report no digest: replies are cached under the model's name.
    """

    kind = "openai"
    variable = "OPENAI_BASE_URL"
    key = "OPENAI_API_KEY"
    port = 8000
    start = "is it running, and is the address right?"
    get = "is the address right (with its version, if it is another than /v1), and does the server have"
    other = "; if that is the model, set accept_model to this name"
    without_tools = ("busy", "refused")
    options = NAMES

    def __init__(
        self,
        argument: str,
        *,
        names: Mapping[str, str] | None = None,
        json: JsonForm = "schema",
        system: SystemForm = "own",
        accept_model: str = "",
        **server: Any,
    ) -> None:
        super().__init__(argument, **server)
        self.names = dict(names or {})
        self.json = json
        self.system = system
        self.accept_model = accept_model

    def base(self, address: str) -> str:
        """The address with its version, which is 1 where it has none."""
        path, mark, query = address.partition("?")
        path = path.removesuffix("/chat/completions")
        if not mark and not _VERSION.search(path):
            path += "/v1"
        return f"{path}{mark}{query}"

    def settings(self) -> Mapping[str, Any]:
        """How the server is asked, where it is not asked as usual."""
        settings: dict[str, Any] = {"names": self.names, "json": self.json, "system": self.system}
        usual = {"names": {}, "json": "schema", "system": "own"}
        return {name: value for name, value in settings.items() if value != usual[name]}

    def is_mine(self, model: str) -> bool:
        """Whether a model's name in an answer may be that of ours, or is the one to be accepted."""
        accepted = self.accept_model.lower()
        return accepted in ("*", model.lower()) or super().is_mine(model)

    def digest(self) -> str:
        """``model:<name>``: these servers do not identify their weights."""
        return f"model:{self.model}"

    def context_limit(self) -> int | None:
        """The shortest context of the servers; LLMError where one does not serve the model."""
        lengths: list[int] = []
        for address in self.endpoints:
            with self.translated(address):
                lengths += self._context_at(address)
        return min(lengths, default=None)

    def _context_at(self, address: str) -> list[int]:
        """The model's context on one server; empty where the server says nothing. A server that lists no
        models, or not all of them, is asked for one word instead.
        """
        answer: Any = None
        try:
            answer = self._send("GET", "/models", address)
        except LLMError as error:
            if error.kind != "model missing":
                raise
        models = _listed(answer)
        for name in (self.model, self.accept_model):
            if name in models:
                return _contexts(models[name])[:1]
        if self.accept_model == "*":
            return []
        if models and not (isinstance(answer, dict) and answer.get("has_more")):
            raise LLMError("model missing", f"{shown(address)} serves {', '.join(models)}, not {self.model}")
        self.ask(Request.ask("preflight", "Say yes.", options={"num_predict": 16}), address)
        return []

    def ask(self, request: Request, address: str) -> Completion:
        """What the server answers."""
        record = body(self._formed(request), NAMES, http.ALTERNATIVES, model=self.model)
        if request.schema is not None and self.json == "object":
            record["response_format"] = {"type": "json_object"}
        if request.tools:
            record["tools"] = [dict(tool) for tool in request.tools]
        if request.seed is not None:
            record["seed"] = request.seed
        for name, other in self.names.items():
            value = record.pop(name, None)
            if other and value is not None:
                record[other] = value
        answer = self._send("POST", "/chat/completions", address, record)
        return replace(read(answer, shown(address)), digest=self.digest())

    def _formed(self, request: Request) -> Request:
        """The request with its schema in words, and with the system message in the user's, where it is so
        asked.
        """
        messages = list(request.messages)
        if request.schema is not None and self.json != "schema":
            words = f"{_AS_JSON}{json.dumps(request.schema)}"
            messages[-1] = replace(messages[-1], content=f"{messages[-1].content}\n\n{words}")
            request = replace(request, schema=None)
        if self.system == "merge" and len(messages) > 1 and messages[0].role == "system":
            task = messages.pop(0).content
            messages[0] = replace(messages[0], content=f"{task}\n\n{messages[0].content}")
        return replace(request, messages=tuple(messages))

    def _send(self, method: str, path: str, address: str, record: Any = None) -> Any:
        base, mark, query = address.partition("?")
        url = f"{base}{path}{mark}{query}"
        answer: httpx.Response = self.clients.at(address).request(method, url, json=record)
        if answer.status_code != 200:
            pause = http.pause_of(answer.headers)
            raise self.refused(answer.status_code, answer.text, address, pause)
        return safety.loads(answer.content, f"the answer of {shown(address)}")

    def refused(self, status: int, text: str, address: str, pause: float = 0.0) -> LLMError:
        """The error of an HTTP status, with the setting that helps where the server refuses a part."""
        error = super().refused(status, text, address, pause)
        if error.kind != "refused" or status not in (400, 422):
            return error
        for pattern, cure in _CURES.items():
            if re.search(pattern, text, re.IGNORECASE):
                return LLMError("refused", f"{error}; {cure}")
        return error


def _listed(answer: object) -> dict[str, Mapping[str, Any]]:
    """What a server says of each model that it lists: objects under ``data`` or ``models``, or bare names."""
    entries = answer.get("data") or answer.get("models") if isinstance(answer, Mapping) else answer
    models: dict[str, Mapping[str, Any]] = {}
    for entry in entries if isinstance(entries, list) else ():
        facts = entry if isinstance(entry, Mapping) else {"id": entry}
        name = facts.get("id") or facts.get("model") or facts.get("name")
        models[str(name)] = facts
    return models


def _contexts(facts: Mapping[str, Any]) -> list[int]:
    """The contexts that a server's entry of a model names; the one that counts comes first."""
    meta = facts.get("meta") or {}
    values = [facts.get("max_model_len"), meta.get("n_ctx")]
    values += [facts.get("context_length"), facts.get("context_window"), meta.get("n_ctx_train")]
    return [value for value in values if type(value) is int and value > 0]
