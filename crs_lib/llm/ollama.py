"""``ollama:<model>``: the chat endpoint of one or several Ollama servers, through the ollama client."""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpx

from crs_lib.core import safety
from crs_lib.core.errors import InputError, RunError, did_you_mean
from crs_lib.core.text import shorten
from crs_lib.llm import http
from crs_lib.llm.base import BACKENDS, DEFAULTS, LLMError, Message, Reply, Request, ToolCall
from crs_lib.llm.http import from_status, from_transport, no_tools, shown
from crs_lib.llm.text import count

PORT = 11434
OLDEST = (0, 5, 0)  # JSON schemas; whole prompts counted
_ALTERNATIVES = 20  # the most that a server gives
_MORE_OPTIONS = {"min_p"}  # newer than the client's own list
_IMPORTING = threading.Lock()


@BACKENDS.register("ollama", argument="a model", example="llama3:instruct", kind="server", choices=True)
class Ollama(http.Servers[Any]):
    """A model on an Ollama server, or on several that serve the same weights.

    ``host`` is one address or several with commas between; without it OLLAMA_HOST, else this machine.
    ``timeout`` bounds one attempt in seconds, the loading of weights included. ``keep_alive`` is how long
    the weights stay loaded. ``send_key`` sends OLLAMA_API_KEY to these hosts; otherwise it is never sent.
    """

    def __init__(
        self,
        argument: str,
        *,
        host: str | None = None,
        timeout: float = 300.0,
        keep_alive: str = "30m",
        think: bool | None = None,
        send_key: bool = False,
    ) -> None:
        _client_package()
        super().__init__(
            f"ollama:{argument}", host, _client, variable="OLLAMA_HOST", port=PORT, timeout=timeout,
            key="OLLAMA_API_KEY", send_key=send_key,
        )  # fmt: skip
        self.keep_alive, self.think = keep_alive, think
        self._digest = ""
        self._asking = threading.Lock()

    def settings(self) -> Mapping[str, Any]:
        """Whether the model is made to think or not; null leaves it to the model."""
        return {"think": self.think}

    def digest(self) -> str:
        """The model's digest on the servers, asked once; LLMError where two hold different weights."""
        with self._asking:
            if not self._digest:
                found = {address: self._digest_at(address) for address in self._endpoints}
                if len(set(found.values())) > 1:
                    told = ", ".join(f"{shown(address)}: {value[:12]}" for address, value in found.items())
                    raise LLMError(
                        "refused",
                        f"the servers hold different weights of {self.model} ({told}); pull it on all "
                        "of them, or name one server",
                    )
                self._digest = next(iter(found.values()))
            return self._digest

    def _digest_at(self, address: str) -> str:
        with self._translated(address):
            listed = self._clients.at(address).list().models
        known = {str(entry.model): str(entry.digest or "") for entry in listed}
        full = _full(self.model)
        if full not in known:
            near = did_you_mean(self.model, (name.removesuffix(":latest") for name in known))
            raise LLMError(
                "model missing",
                f"{shown(address)} does not have {self.model}{near}; ollama pull {self.model}",
            )
        return known[full]

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt; every failure is an LLMError."""
        address = endpoint or self._endpoints[0]
        began = time.perf_counter()
        try:
            with self._translated(address):
                answer = self._asked(address, request)
                said, used = answer.message, count(answer.prompt_eval_count)
                facts: dict[str, Any] = {
                    "text": said.content or "", "thinking": said.thinking or "",
                    "stop": answer.done_reason or "stop", "tokens_out": count(answer.eval_count),
                    "calls": tuple(_call(one) for one in said.tool_calls or ()),
                    "first_token": _first_token(answer) if request.choices else {},
                }  # fmt: skip
        except LLMError as error:
            raise no_tools(error, request) if error.kind == "refused" else error from error
        return self._reply(request, address, began, used, digest=self._digest, **facts)

    def _asked(self, address: str, request: Request) -> Any:
        """The answer of a server that is whole and of the model that was asked."""
        options = _checked_options({**DEFAULTS, **request.options})
        options |= {"seed": request.seed} if request.seed is not None else {}
        options |= {"num_predict": 1} if request.choices else {}
        weighed = {"logprobs": True, "top_logprobs": _ALTERNATIVES} if request.choices else {}
        answer = self._clients.at(address).chat(
            model=self.model, messages=[_message(one) for one in request.messages],
            tools=list(request.tools) or None, options=options, format=request.schema,
            keep_alive=self.keep_alive, think=self.think, **weighed,
        )  # fmt: skip
        if answer.done is not True:
            told = f"{shown(address)}: the answer ended before the server said that it was done"
            raise LLMError("dropped", told)
        if answer.model and _full(str(answer.model)) != _full(self.model):
            told = f"{shown(address)} answered with {answer.model}, not with {self.model}"
            raise LLMError("other model", told)
        return answer

    def served(self) -> tuple[int | None, str | None]:
        """The shortest context of the servers and their oldest version; RunError for one that is too old."""
        versions = {address: self.version(address) for address in self._endpoints}
        for address, version in versions.items():
            if _numbers(version) < OLDEST:
                raise RunError(
                    f"the Ollama at {shown(address)} is {version}, which ignores JSON schemas; update it to "
                    f"{'.'.join(map(str, OLDEST))} or later"
                )
        self.digest()
        contexts = [self.context(address) for address in self._endpoints]
        return min((one for one in contexts if one is not None), default=None), min(versions.values())

    def version(self, address: str) -> str:
        """The server's version, as it says it."""
        settings = self._clients.settings(address)
        with self._translated(address), httpx.Client(base_url=address, **settings) as plain:
            return str(plain.get("/api/version").raise_for_status().json()["version"])

    def context(self, address: str) -> int | None:
        """The longest context the model was trained for, in tokens; None where the server says nothing."""
        with self._translated(address):
            info = self._clients.at(address).show(self.model).modelinfo or {}
        lengths = [value for name, value in info.items() if name.endswith(".context_length")]
        return int(lengths[0]) if lengths else None

    def unload(self) -> None:
        """Ask every server to free the model's memory; raises the last LLMError when all were asked."""
        failed: LLMError | None = None
        for address in self._endpoints:
            try:
                with self._translated(address):
                    self._clients.at(address).generate(model=self.model, keep_alive=0)
            except LLMError as error:
                failed = error
        if failed is not None:
            raise failed

    @contextmanager
    def _translated(self, address: str) -> Iterator[None]:
        """Within, every way in which a call can fail becomes an LLMError."""
        try:
            yield
        except _client_package().ResponseError as error:
            raise from_status(error.status_code, error.error, address, self.model) from error
        except (ConnectionError, httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise LLMError(
                "unreachable", f"no Ollama server at {shown(address)}; start it with: ollama serve"
            ) from error
        except httpx.HTTPError as error:
            raise from_transport(error, address, self.timeout) from error
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            told = shorten(str(error), 300)
            raise LLMError(
                "garbled", f"{shown(address)} answered with something that is no Ollama reply ({told})"
            ) from error


def _call(told: Any) -> ToolCall:
    """A tool call, its texts valid; LLMError for what cannot be held."""
    try:
        given = safety.loads(json.dumps(dict(told.function.arguments)), "the arguments of a call")
    except InputError as error:
        raise LLMError("garbled", str(error)) from error
    return ToolCall(safety.valid(str(told.function.name)), dict(given))


def _first_token(answer: Any) -> dict[str, float]:
    """The log-probabilities of the first token's alternatives, by their texts; empty from an old server."""
    tokens = list(answer.logprobs or ())
    return {str(one.token): float(one.logprob) for one in (tokens[0].top_logprobs or () if tokens else ())}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("-")[0].split(".") if part.isdigit())


def _full(model: str) -> str:
    """A model's name with its tag."""
    return model if ":" in model else f"{model}:latest"


def _message(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        told["tool_calls"] = [
            {"function": {"name": one.name, "arguments": dict(one.arguments)}} for one in message.calls
        ]
    return told | ({"tool_name": message.answers.name} if message.answers else {})


def _checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options if Ollama knows all of them: it would ignore a misspelt one without a word."""
    known = _known_options()
    for name in options:
        if name not in known:
            raise InputError(f"unknown LLM option {name!r}{did_you_mean(name, known)}")
    return dict(options)


@cache
def _known_options() -> frozenset[str]:
    return frozenset((*_client_package().Options.model_fields, *_MORE_OPTIONS))


def _client(address: str, settings: Mapping[str, Any]) -> Any:
    return _client_package().Client(host=address, **settings)


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
