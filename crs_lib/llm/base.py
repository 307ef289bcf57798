"""Request, reply, and the protocol of every backend; a call without a reply is an LLMError."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from crs_lib.core.hashes import fingerprint
from crs_lib.core.registry import Registry

Speaker = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Message:
    """One message of a chat, as the model sees it."""

    role: Speaker
    content: str


@dataclass(frozen=True)
class Request:
    """One question to a model.

    ``options`` are Ollama's names (temperature, num_ctx, num_predict, …); ``schema`` is a JSON schema the
    reply must keep; ``replicate`` tells apart calls that are repeated on purpose (k samples of a judge).
    ``role`` ("crs", "user", "judge", …) and ``tags`` (session, turn, …) go to the log only.
    """

    messages: tuple[Message, ...]
    role: str
    seed: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    replicate: int = 0
    tags: Mapping[str, str | int] = field(default_factory=dict)

    @classmethod
    def ask(cls, role: str, prompt: str, *, system: str | None = None, **rest: Any) -> "Request":
        """A request of one user message, with a system message before it where one is given."""
        head = (Message("system", system),) if system is not None else ()
        return cls((*head, Message("user", prompt)), role, **rest)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of everything that may change the answer, the model left aside."""
        return fingerprint(
            {
                "messages": [{"role": one.role, "content": one.content} for one in self.messages],
                "seed": self.seed,
                "options": dict(self.options),
                "schema": self.schema,
                "replicate": self.replicate,
            }
        )


@dataclass(frozen=True)
class Reply:
    """A model's answer.

    ``stop`` is the server's word ("stop", "length"); token counts are None where the server says nothing;
    ``seconds`` is the time of the attempt that succeeded, 0 from the cache; ``digest`` identifies the
    weights; ``thinking`` was taken out of ``text``; ``attempts`` is 0 for a reply from the cache; ``tried``
    holds the kinds of the attempts that failed before.
    """

    text: str
    stop: str = "stop"
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float = 0.0
    digest: str = ""
    thinking: str = ""
    attempts: int = 1
    cache_hit: bool = False
    endpoint: str = ""
    tried: tuple[str, ...] = ()


class Backend(Protocol):
    """One way to reach a model. A backend makes single attempts; caching, retries and logs are LLM's.

    Threads share a backend, so its methods must be safe to call at once.
    """

    spec: str

    @property
    def endpoints(self) -> Sequence[str]:
        """The addresses that serve the model; one empty text where there is no server."""
        ...

    def settings(self) -> Mapping[str, Any]:
        """The settings, besides the request and the weights, that change an answer; part of the cache key."""
        ...

    def digest(self) -> str:
        """The identity of the weights; raises LLMError where the server cannot be asked."""
        ...

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt at one endpoint (the first, if none is named); raises LLMError."""
        ...

    def close(self) -> None:
        """Give back connections; using the backend afterwards opens new ones."""
        ...


BACKENDS: Registry[Backend] = Registry("LLM backend", "crs_lib.llm")
