"""Request, reply, and the protocol of every backend; a call without a reply is an LLMError."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

from crs_lib.core.errors import InputError
from crs_lib.core.hashes import fingerprint
from crs_lib.core.registry import Registry

Speaker = Literal["system", "user", "assistant", "tool"]


class ToolCall(NamedTuple):
    """A tool that a model calls: its name, its arguments, and the server's id of the call.

    ``fault`` says why the arguments could not be read; they are empty then.
    """

    name: str
    arguments: Mapping[str, Any]
    id: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Message:
    """One message of a chat, as the model sees it.

    ``calls`` are the tools that an assistant's message calls; a message of the role "tool" is the result of
    the call ``answers``.
    """

    role: Speaker
    content: str
    calls: tuple[ToolCall, ...] = ()
    answers: ToolCall | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """The message as plain data; calls only where there are some."""
        told: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.calls:
            told["calls"] = [one._asdict() for one in self.calls]
        return told | ({"answers": self.answers._asdict()} if self.answers else {})


@dataclass(frozen=True)
class Request:
    """One question to a model.

    ``options`` are Ollama's names (temperature, num_ctx, num_predict, …); ``schema`` is a JSON schema the
    reply must keep; ``tools`` are functions that the model may call instead of replying (name, description,
    JSON schema of the parameters); ``replicate`` tells apart calls that are repeated on purpose (k samples of
    a judge).
    ``choices`` are texts that differ in their first token; the reply is the likeliest, and
    :attr:`Reply.probabilities` has all of them. No schema and no tools go with them.
    ``role`` ("crs", "user", "judge", …) and ``tags`` (session, turn, …) go to the log only.
    """

    messages: tuple[Message, ...]
    role: str
    seed: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    replicate: int = 0
    choices: tuple[str, ...] = ()
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
                "messages": [one.plain for one in self.messages],
                "seed": self.seed,
                "options": dict(self.options),
                "schema": self.schema,
                "replicate": self.replicate,
                **({"tools": [dict(one) for one in self.tools]} if self.tools else {}),
                **({"choices": list(self.choices)} if self.choices else {}),
            }
        )


@dataclass(frozen=True)
class Reply:
    """A model's answer.

    ``stop`` is the server's word ("stop", "length"); token counts are None where the server says nothing;
    ``seconds`` is the time of the attempt that succeeded, 0 from the cache; ``digest`` identifies the
    weights; ``thinking`` was taken out of ``text``; ``attempts`` is 0 for a reply from the cache; ``tried``
    holds the kinds of the attempts that failed before. ``calls`` are the tools that the model calls; the text
    may be empty then. ``probabilities`` are those with which a reply begins with each of the request's
    choices; their sum is at most 1.
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
    calls: tuple[ToolCall, ...] = ()
    probabilities: Mapping[str, float] = field(default_factory=dict)


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


class WithoutServer:
    """What backends share that answer in this process: no address, no settings, nothing to close."""

    @property
    def endpoints(self) -> Sequence[str]:
        """One empty text."""
        return ("",)

    def settings(self) -> Mapping[str, Any]:
        """None: nothing but the request changes an answer."""
        return {}

    def close(self) -> None:
        """No connections to give back."""


BACKENDS: Registry[Backend] = Registry("LLM backend", "crs_lib.llm")


def check_spec(spec: str, name: str) -> str:
    """The spec itself if a backend knows it; InputError naming the setting otherwise."""
    try:
        entry = BACKENDS.get(spec)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    _, _, argument = spec.partition(":")
    if bool(entry.facts.get("argument")) != bool(argument):
        example = f"{entry.name}:{entry.facts['example']}" if "argument" in entry.facts else entry.name
        raise InputError(f"{name} is {spec!r}; write it like {example}")
    return spec
