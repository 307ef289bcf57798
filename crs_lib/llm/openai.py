"""``openai:<model>``: any server with the OpenAI chat endpoint (vLLM, llama.cpp, SGLang, …)."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean
from crs_lib.llm import http
from crs_lib.llm.base import BACKENDS, Reply, Request
from crs_lib.llm.errors import Garbled, LLMError, ModelMissing
from crs_lib.llm.http import Clients, from_status, from_transport, secret
from crs_lib.llm.limits import DEFAULTS, check_read
from crs_lib.llm.text import checked, split_thinking

PORT = 8000
# Our names (Ollama's) and what the endpoint calls them; the last ones vLLM and llama.cpp know.
_NAMES = {
    "num_predict": "max_tokens", "temperature": "temperature", "top_p": "top_p", "stop": "stop",
    "presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty",
    "top_k": "top_k", "min_p": "min_p", "repeat_penalty": "repetition_penalty",
}  # fmt: skip


@BACKENDS.register("openai", argument="a model", example="qwen3-8b", kind="server")
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
            raise Garbled(f"{endpoint or self._endpoints[0]} does not list its models")
        return listed

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt; every failure is one of the classes in ``llm/errors.py``."""
        started = time.perf_counter()
        address = endpoint or self._endpoints[0]
        answer = self._send("POST", "/v1/chat/completions", address, self._body(request))
        try:
            choice = answer["choices"][0]
            message, stop = choice["message"], str(choice.get("finish_reason") or "stop")
            text = message.get("content") or ""
            thinking = message.get("reasoning_content") or message.get("reasoning") or ""
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise Garbled(f"{address} answered without a message ({error!r})") from error
        used = answer.get("usage") or {}
        check_read(request, used.get("prompt_tokens"))
        said = split_thinking(str(text), str(thinking))
        return Reply(
            text=checked(said.text, stop, request.schema), stop=stop,
            tokens_in=used.get("prompt_tokens"), tokens_out=used.get("completion_tokens"),
            seconds=time.perf_counter() - started, thinking=said.thinking, digest=self.digest(),
            endpoint=address,
        )  # fmt: skip

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        }
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
            found = answer.json()
        except ValueError as error:
            raise Garbled(f"{address} answered with something that is not JSON ({error})") from error
        if not isinstance(found, dict):
            raise Garbled(f"{address} answered with a {type(found).__name__}, expected an object")
        return found

    def _failed(self, answer: httpx.Response, address: str) -> LLMError:
        if answer.status_code == 404:
            return ModelMissing(f"{address} does not serve {self.model}; it was started with another model")
        wait = answer.headers.get("retry-after", "")
        pause = float(wait) if wait.isdigit() else 0.0
        return from_status(answer.status_code, answer.text, address, self.model, pause)

    def close(self) -> None:
        """Close all connections."""
        self._clients.close()


def _client(address: str, settings: dict[str, Any]) -> httpx.Client:
    return httpx.Client(base_url=address, **settings)
