"""``ollama:<model>``: the chat endpoint of one or several Ollama servers, through the ollama client."""

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from crs_lib.core import safety
from crs_lib.core.errors import RunError, did_you_mean
from crs_lib.llm import http
from crs_lib.llm.base import BACKENDS, DEFAULTS, LLMError, Message, Request, ToolCall
from crs_lib.llm.http import shown
from crs_lib.llm.openai import Usage

OLDEST = (0, 5, 0)  # JSON schemas; whole prompts counted
_KEEP_ALIVE = "30m"  # how long the weights stay loaded
_IMPORTING = threading.Lock()


@BACKENDS.register("ollama", argument="a model", example="llama3:instruct", kind="server", choices=True)
class _Ollama(http.Server):
    """A model on an Ollama server, or on several that serve the same weights.

    ``host`` as :class:`crs_lib.llm.http.Server`, without it OLLAMA_HOST; the key is OLLAMA_API_KEY.
    ``timeout`` includes the loading of weights. ``think`` makes a model think or not; null leaves it to it.
    """

    kind, variable, key, port = "ollama", "OLLAMA_HOST", "OLLAMA_API_KEY", 11434
    start, get = "start it with: ollama serve", "get the model with: ollama pull"

    def __init__(self, argument: str, *, think: bool | None = None, **server: Any) -> None:
        super().__init__(argument, **server)
        self.think, self._digest, self._asking = think, "", threading.Lock()
        self.options = {*_client_package().Options.model_fields, "min_p"}  # newer than the client's own list

    def _client(self, address: str, settings: dict[str, Any]) -> Any:
        return _client_package().Client(host=address, **settings)

    def settings(self) -> Mapping[str, Any]:
        """Whether the model is made to think or not; null leaves it to the model."""
        return {"think": self.think}

    def digest(self) -> str:
        """The model's digest on the servers, asked once; LLMError where two hold different weights."""
        with self._asking:
            if not self._digest:
                found = {address: self._digest_at(address) for address in self.endpoints}
                if len(set(found.values())) > 1:
                    told = ", ".join(f"{shown(address)}: {value[:12]}" for address, value in found.items())
                    told = f"the servers hold different weights of {self.model} ({told})"
                    raise LLMError("refused", f"{told}; pull it on all of them, or name one server")
                self._digest = next(iter(found.values()))
            return self._digest

    def _digest_at(self, address: str) -> str:
        with self._translated(address):
            listed = self._clients.at(address).list().models
            known = {str(entry.model): str(entry.digest or "") for entry in listed}
        if _full(self.model) not in known:
            near = did_you_mean(self.model, (name.removesuffix(":latest") for name in known))
            told = f"{shown(address)} does not have {self.model}{near}; ollama pull {self.model}"
            raise LLMError("model missing", told)
        return known[_full(self.model)]

    def _said(self, request: Request, address: str) -> dict[str, Any]:
        options = {**DEFAULTS, **request.options}
        options |= {"seed": request.seed} if request.seed is not None else {}
        more: dict[str, Any] = {}
        if request.choices:
            options["num_predict"] = 1
            more = {"logprobs": True, "top_logprobs": http.ALTERNATIVES}
        answer = self._clients.at(address).chat(
            model=self.model, messages=[_message(one) for one in request.messages],
            tools=list(request.tools) or None, options=options, format=request.schema,
            keep_alive=_KEEP_ALIVE, think=self.think, **more,
        )  # fmt: skip
        if answer.done is not True:
            told = f"{shown(address)}: the answer ended before the server said that it was done"
            raise LLMError("dropped", told)
        said, tokens = answer.message, list(answer.logprobs or ())
        weighed = (tokens[0].top_logprobs or ()) if tokens and request.choices else ()
        used = Usage(prompt_tokens=answer.prompt_eval_count, completion_tokens=answer.eval_count)
        return {
            "text": said.content or "", "thinking": said.thinking or "", "model": answer.model,
            "stop": answer.done_reason or "stop", "digest": self._digest,
            "tokens_in": used.prompt_tokens, "tokens_out": used.completion_tokens,
            "calls": tuple(map(_call, said.tool_calls or ())),
            "first_token": {str(one.token): float(one.logprob) for one in weighed},
        }  # fmt: skip

    def _is_mine(self, told: str) -> bool:
        return _full(told) == _full(self.model)

    def context_limit(self) -> int | None:
        """The shortest context of the servers; RunError for a server that is too old."""
        lengths: list[int] = []
        for address in self.endpoints:
            settings = self._clients.settings(address)
            with self._translated(address), httpx.Client(base_url=address, **settings) as plain:
                version = str(plain.get("/api/version").raise_for_status().json()["version"])
                if tuple(int(part) for part in version.split("-")[0].split(".") if part.isdigit()) < OLDEST:
                    old = f"the Ollama at {shown(address)} is {version}, which ignores JSON schemas"
                    raise RunError(f"{old}; update it to {'.'.join(map(str, OLDEST))} or later")
                info = self._clients.at(address).show(self.model).modelinfo or {}
                told = [int(value) for name, value in info.items() if name.endswith(".context_length")]
                lengths += told[:1]  # none where the server says nothing
        return min(lengths, default=None)

    def unload(self) -> None:
        """Ask every server to free the model's memory; one that is gone has freed it."""
        for address in self.endpoints:
            with suppress(LLMError), self._translated(address):
                self._clients.at(address).generate(model=self.model, keep_alive=0)

    @contextmanager
    def _translated(self, address: str) -> Iterator[None]:
        try:
            with super()._translated(address):
                yield
        except _client_package().ResponseError as error:
            raise self._refused(error.status_code, str(error.error), address) from error


def _call(told: Any) -> ToolCall:
    """A tool call, its texts valid; InputError for what cannot be held."""
    given = safety.loads(json.dumps(dict(told.function.arguments)), "the arguments of a call")
    return ToolCall(safety.valid(str(told.function.name)), dict(given))


def _full(model: str) -> str:
    """A model's name with its tag."""
    return model if ":" in model else f"{model}:latest"


def _message(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        asked = ({"name": one.name, "arguments": dict(one.arguments)} for one in message.calls)
        told["tool_calls"] = [{"function": one} for one in asked]
    return told | ({"tool_name": message.answers.name} if message.answers else {})


def _client_package() -> Any:
    """The package ``ollama``; it makes a client when it is imported, and fails on a list in OLLAMA_HOST."""
    with _IMPORTING:
        named = None if "ollama" in sys.modules else os.environ.pop("OLLAMA_HOST", None)
        try:
            import ollama
        finally:
            if named is not None:
                os.environ["OLLAMA_HOST"] = named
    return ollama
