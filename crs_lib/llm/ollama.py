"""``ollama:<model>``: the chat endpoint of one or several Ollama servers, through the ollama client."""

import json
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from crs_lib.core import safety
from crs_lib.core.errors import RunError, did_you_mean
from crs_lib.llm import http
from crs_lib.llm.base import (
    BACKENDS,
    DEFAULTS,
    LLMError,
    Message,
    Request,
    ToolCall,
    check_read,
    tokens_at_least,
)
from crs_lib.llm.http import shown
from crs_lib.llm.openai import Usage
from crs_lib.llm.text import Completion

OLDEST = (0, 5, 0)  # JSON schemas; whole prompts counted
_KEEP_ALIVE = "30m"  # how long the weights stay loaded
_IMPORTING = threading.Lock()


@BACKENDS.register("ollama", argument="a model", example="llama3:instruct", kind="server", choices=True)
class OllamaBackend(http.Server):
    """A model on an Ollama server, or on several that serve the same weights.

    ``host`` as :class:`crs_lib.llm.http.Server`, without it OLLAMA_HOST; the key is OLLAMA_API_KEY.
    ``timeout`` includes the loading of weights. ``think`` makes a model think or not; null leaves it to it.
    """

    kind = "ollama"
    variable = "OLLAMA_HOST"
    key = "OLLAMA_API_KEY"
    port = 11434
    start = "start it with: ollama serve"
    get = "get the model with: ollama pull"

    def __init__(self, argument: str, *, think: bool | None = None, **server: Any) -> None:
        super().__init__(argument, **server)
        self.think = think
        self.options = {*_client_package().Options.model_fields, "min_p"}  # newer than the client's own list
        self._digest = ""
        self._asking = threading.Lock()

    def client(self, address: str, settings: dict[str, Any]) -> Any:
        """The ollama client of one server."""
        settings["event_hooks"]["response"].append(_check_no_error)
        return _client_package().Client(host=address, **settings)

    def settings(self) -> Mapping[str, Any]:
        """Whether the model is made to think or not; null leaves it to the model."""
        return {"think": self.think}

    def digest(self) -> str:
        """The model's digest on the servers, asked once; LLMError where two hold different weights."""
        with self._asking:
            if not self._digest:
                self._digest = self._common_digest()
            return self._digest

    def _common_digest(self) -> str:
        digests = {address: self._digest_at(address) for address in self.endpoints}
        if len(set(digests.values())) > 1:
            parts = [f"{shown(address)}: {digest[:12]}" for address, digest in digests.items()]
            fault = f"the servers hold different weights of {self.model} ({', '.join(parts)})"
            raise LLMError("refused", f"{fault}; pull it on all of them, or name one server")
        return digests[self.endpoints[0]]

    def _digest_at(self, address: str) -> str:
        with self.translated(address):
            models = self.clients.at(address).list().models
            digests = {str(entry.model): str(entry.digest or "") for entry in models}
        for name, digest in digests.items():
            if self.is_mine(name):
                return digest
        raise LLMError("model missing", f"{shown(address)} does not have {self.model}{self._near(digests)}")

    def _near(self, names: Iterable[str]) -> str:
        """What a server has instead of our model, and how to get ours."""
        tagged = [name for name in names if name.casefold().startswith(f"{self.model.casefold()}:")]
        if tagged:
            return f"; it has {', '.join(tagged)}: name one of them"
        near = did_you_mean(self.model, [name.removesuffix(":latest") for name in names])
        return f"{near}; ollama pull {self.model}"

    def ask(self, request: Request, address: str) -> Completion:
        """What the server answers."""
        options = {**DEFAULTS, **request.options}
        if request.seed is not None:
            options["seed"] = request.seed
        choosing: dict[str, Any] = {}
        if request.choices:
            options["num_predict"] = 1
            choosing = {"logprobs": True, "top_logprobs": http.ALTERNATIVES}
        answer = self.clients.at(address).chat(
            model=self.model,
            messages=[_message(message) for message in request.messages],
            tools=list(request.tools) or None,
            options=options,
            format=request.schema,
            keep_alive=_KEEP_ALIVE,
            think=self.think,
            **choosing,
        )
        if answer.done is not True:
            fault = f"{shown(address)}: the answer ended before the server said that it was done"
            raise LLMError("dropped", fault)
        usage = Usage(prompt_tokens=answer.prompt_eval_count, completion_tokens=answer.eval_count)
        tokens_in = usage.prompt_tokens
        if tokens_in is not None and tokens_in < tokens_at_least(request.messages):
            check_read(request, tokens_in, self._loaded_context(address), options["num_ctx"])
            tokens_in = None  # of the prompt, only what was not in the server's cache was counted
        return Completion(
            text=answer.message.content or "",
            thinking=answer.message.thinking or "",
            stop=answer.done_reason or "stop",
            calls=tuple(_call(call) for call in answer.message.tool_calls or ()),
            tokens_in=tokens_in,
            tokens_out=usage.completion_tokens,
            first_token=_first_token(answer) if request.choices else {},
            model=answer.model or "",
            digest=self._digest,
            worked=_worked(answer),
        )

    def _loaded_context(self, address: str) -> int | None:
        """The context with which a server has loaded the model; None where it does not say."""
        try:
            models = self.clients.at(address).ps().models
        except _client_package().ResponseError:
            return None
        for entry in models:
            if self.is_mine(str(entry.model)):
                context: int | None = entry.context_length
                return context
        return None

    def is_mine(self, model: str) -> bool:
        """Whether it is our model's name, with its tag or without, in capitals or not."""
        return _with_tag(model) == _with_tag(self.model)

    def context_limit(self) -> int | None:
        """The shortest context of the servers; RunError for a server that is too old."""
        lengths: list[int] = []
        for address in self.endpoints:
            with self.translated(address):
                self._check_version(address)
                lengths += self._context_at(address)
        return min(lengths, default=None)

    def _check_version(self, address: str) -> None:
        """RunError for a server that is too old; a version without numbers, or 0.0.0, says nothing."""
        with httpx.Client(**self.clients.settings(address)) as client:
            answer = client.get(f"{address}/api/version")
        if answer.status_code == 404:
            return
        if answer.status_code != 200:
            raise self.refused(answer.status_code, answer.text, address, http.pause_of(answer.headers))
        version = str(answer.json()["version"])
        numbers = tuple(int(part) for part in re.findall(r"\d+", version.split("-")[0]))
        if any(numbers) and (*numbers, 0, 0) < OLDEST:  # 0.5 is 0.5.0
            fault = f"the Ollama at {shown(address)} is {version}, which ignores JSON schemas"
            raise RunError(f"{fault}; update it to {'.'.join(map(str, OLDEST))} or later")

    def abilities(self) -> frozenset[str] | None:
        """What the model can do on every server, in Ollama's words; None where a server does not say."""
        common: frozenset[str] | None = None
        for address in self.endpoints:
            with self.translated(address):
                words = self.clients.at(address).show(self.model).capabilities
            if words is None:
                return None
            common = frozenset(words) if common is None else common.intersection(words)
        return common

    def _context_at(self, address: str) -> list[int]:
        """The model's context on one server; empty where the server says nothing."""
        facts = self.clients.at(address).show(self.model).modelinfo or {}
        for name, value in facts.items():
            if name.endswith(".context_length"):
                return [int(value)]
        return []

    def unload(self) -> None:
        """Ask every server to free the model's memory; one that is gone has freed it."""
        for address in self.endpoints:
            with suppress(LLMError), self.translated(address):
                self.clients.at(address).generate(model=self.model, keep_alive=0)

    @contextmanager
    def translated(self, address: str) -> Iterator[None]:
        """Within, every way in which a call can fail becomes an LLMError."""
        try:
            with super().translated(address):
                yield
        except _client_package().ResponseError as error:
            answer = getattr(error.__context__, "response", None)
            pause = http.pause_of(answer.headers) if answer else 0.0
            raise self.refused(error.status_code, str(error.error), address, pause) from error


def _check_no_error(response: httpx.Response) -> None:
    """Raise LLMError for an error beside an answer, which the client would leave out."""
    if response.status_code != 200:
        return
    try:
        answer = json.loads(response.read())
    except ValueError:  # the client says what is wrong with it
        return
    if isinstance(answer, Mapping) and answer.get("error"):
        raise http.reported(answer["error"], shown(str(response.url)))


def _call(call: Any) -> ToolCall:
    """A tool call, its texts valid; InputError for what cannot be held."""
    arguments = safety.loads(json.dumps(dict(call.function.arguments)), "the arguments of a call")
    return ToolCall(safety.valid(str(call.function.name)), dict(arguments))


def _first_token(answer: Any) -> dict[str, float]:
    """The log-probabilities of the alternatives to the first token."""
    tokens = list(answer.logprobs or ())
    alternatives = tokens[0].top_logprobs if tokens else None
    return {str(token.token): float(token.logprob) for token in alternatives or ()}


def _worked(answer: Any) -> float | None:
    """The seconds that the server worked on an answer, as it says; None where it does not."""
    parts = (answer.load_duration, answer.prompt_eval_duration, answer.eval_duration)
    if not answer.prompt_eval_duration or not answer.eval_duration:
        return None
    return sum(part or 0 for part in parts) / 1e9  # of nanoseconds


def _with_tag(model: str) -> str:
    """A model's name with its tag, in small letters: Ollama does not tell them from capitals."""
    name = model.casefold()
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _message(message: Message) -> dict[str, Any]:
    record: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        functions = [{"name": call.name, "arguments": dict(call.arguments)} for call in message.calls]
        record["tool_calls"] = [{"function": function} for function in functions]
    if message.answers:
        record["tool_name"] = message.answers.name
    return record


def _client_package() -> Any:
    """The package ``ollama``; it makes a client when it is imported, and fails on a list in OLLAMA_HOST."""
    with _IMPORTING:
        hosts = None if "ollama" in sys.modules else os.environ.pop("OLLAMA_HOST", None)
        try:
            import ollama
        finally:
            if hosts is not None:
                os.environ["OLLAMA_HOST"] = hosts
    return ollama
