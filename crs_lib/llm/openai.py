"""``openai:<model>``: any server with the OpenAI chat endpoint (vLLM, llama.cpp, SGLang, …)."""

import re
import time
from collections.abc import Mapping
from typing import Any

import httpx

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm import completion, http
from crs_lib.llm.base import BACKENDS, LLMError, Reply, Request
from crs_lib.llm.http import from_status, from_transport, no_tools, shown

PORT = 8000
_ALTERNATIVES = 20  # the most that the protocol allows
# Our names (Ollama's) and what the endpoint calls them; the last ones vLLM and llama.cpp know.
_NAMES = {
    "num_predict": "max_tokens", "temperature": "temperature", "top_p": "top_p", "stop": "stop",
    "presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty",
    "top_k": "top_k", "min_p": "min_p", "repeat_penalty": "repetition_penalty",
}  # fmt: skip


@BACKENDS.register("openai", argument="a model", example="qwen3-8b", kind="server", choices=True)
class OpenAI(http.Servers[httpx.Client]):
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
        super().__init__(
            f"openai:{argument}", host, _client, variable="OPENAI_BASE_URL", port=PORT, timeout=timeout,
            key="OPENAI_API_KEY", send_key=send_key,
        )  # fmt: skip

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
            raise LLMError("garbled", f"{shown(endpoint or self._endpoints[0])} does not list its models")
        return [entry for entry in listed if isinstance(entry, dict)]

    def served(self) -> tuple[int | None, str | None]:
        """The shortest context of the servers; LLMError where one does not serve the model."""
        lengths = []
        for address in self._endpoints:
            listed = {str(entry.get("id")): entry for entry in self.models(address)}
            if self.model not in listed:
                serves = f"{shown(address)} serves {', '.join(listed) or 'nothing'}, not {self.model}"
                raise LLMError("model missing", serves)
            lengths.append(listed[self.model].get("max_model_len"))
        return min((one for one in lengths if isinstance(one, int)), default=None), None

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt; every failure is an LLMError."""
        began, address = time.perf_counter(), endpoint or self._endpoints[0]
        asked = completion.body(request, _NAMES, _ALTERNATIVES, model=self.model)
        asked |= {"tools": [dict(one) for one in request.tools]} if request.tools else {}
        asked |= {"seed": request.seed} if request.seed is not None else {}
        try:
            answer = self._send("POST", "/v1/chat/completions", address, asked)
        except LLMError as error:
            raise no_tools(error, request) if error.kind in ("busy", "refused") else error from error
        found = completion.read(answer, shown(address))
        if found.model and not _same_model(self.model, found.model):
            told = f"{shown(address)} answered with {shorten(found.model, 80)}, not with {self.model}"
            raise LLMError("other model", told)
        choice, used = found.choices[0], found.usage or completion.Usage()
        message, stop = choice.message, choice.finish_reason or "stop"
        if stop == "content_filter" or (message.refusal and not message.content):
            why = message.refusal or "finish_reason is content_filter"
            raise LLMError("filtered", f"{shown(address)} held the reply back: {shorten(why, 300)}")
        return self._reply(
            request, address, began, used.prompt_tokens, message.text, stop=stop, calls=message.calls,
            thinking=message.reasoning_content or message.reasoning or "", digest=self.digest(),
            tokens_out=used.completion_tokens, first_token=choice.first_token,
        )  # fmt: skip

    def _send(self, method: str, path: str, endpoint: str, body: Any = None) -> dict[str, Any]:
        address = endpoint or self._endpoints[0]
        try:
            answer = self._clients.at(address).request(method, path, json=body)
        except httpx.HTTPError as error:
            raise from_transport(error, address, self.timeout) from error
        if answer.status_code != 200:
            raise self._failed(answer, address)
        try:
            found = safety.loads(answer.content, f"the answer of {shown(address)}")
        except InputError as error:
            raise LLMError("garbled", str(error)) from error
        if not isinstance(found, dict):
            raise LLMError(
                "garbled", f"{shown(address)} answered with {safety.kind_of(found)}, expected an object"
            )
        return found

    def _failed(self, answer: httpx.Response, address: str) -> LLMError:
        if answer.status_code == 404:
            return LLMError(
                "model missing",
                f"{shown(address)} does not serve {self.model}; it was started with another model",
            )
        wait = answer.headers.get("retry-after", "").strip()
        pause = float(wait) if _SECONDS.fullmatch(wait) else 0.0
        return from_status(answer.status_code, answer.text, address, self.model, pause)


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
