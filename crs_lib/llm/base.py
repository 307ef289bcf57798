"""Request, reply, failure, and the protocol of every backend; how many tokens a prompt may take."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from crs_lib.core.errors import InputError, RunError, did_you_mean
from crs_lib.core.settings import Registry
from crs_lib.core.tables import fingerprint
from crs_lib.core.text import printable, without_secrets

Remedy = Literal["no", "wait", "other seed", "more room"]
# How a call fails: the word in logs and counts, and what the next attempt does about it.
REMEDIES: Mapping[str, Remedy] = {
    "unreachable": "wait",  # no connection: nothing listens there, or the name does not resolve
    "timeout": "wait",  # the server did not answer within the time-out
    "dropped": "wait",  # the connection ended in the middle of an answer
    "busy": "wait",  # the server could not serve the call now: HTTP 408, 429 or 5xx
    "garbled": "wait",  # the answer does not follow the server's own protocol
    "refused": "no",  # the server rejects the request itself: HTTP 4xx other than 404, 408 and 429
    "model missing": "no",  # the server does not have the model: HTTP 404
    "no tools": "no",  # the server, or the model, cannot call tools
    "prompt too long": "no",  # found before anything is sent, or said by the server
    "prompt cut": "no",  # the server read fewer tokens than the prompt has words
    "other model": "wait",  # the server answered with another model than the one that was asked
    "filtered": "other seed",  # a filter of the server held the reply back, or part of it
    "empty": "other seed",  # the reply has no text, after thinking was taken out
    "bad reply": "other seed",  # the reply is not JSON, or does not keep the schema
    "cut": "more room",  # a reply ran into num_predict: its JSON is cut, or thinking left it no room
    "not recorded": "no",  # a replayed run does not hold this call
    # Programs, which are no models, fail in the same log; none of this is tried again.
    "wrong answer": "no",  # the answer breaks the contract
    "crashed": "no",  # the program ended, or raised, before it answered
    "too slow": "no",  # the program did not answer within the time-out
    "not started": "no",  # no such command, module or class
}
JsonForm = Literal["schema", "object", "none"]  # how a server is asked for JSON
SystemForm = Literal["own", "merge"]  # whether the system message is one of its own, or in the user's first
# Whether the call of this context may wait in the server for another of ours, which its time-out allows for.
BEHIND: ContextVar[bool] = ContextVar("behind", default=False)
DEFAULTS: Mapping[str, Any] = {"num_ctx": 8192, "num_predict": 512}
_BYTES_A_TOKEN = 3  # English prose has 4 or more; names, digits and markup fewer
_MESSAGE_TOKENS = 16  # what a chat template puts around a message


class LLMError(RuntimeError):
    """A call without a usable reply.

    Parameters
    ----------
    kind
        A word of :data:`REMEDIES`, which also gives the ``remedy``. ``wait``: the same request again after a
        growing pause. ``other seed``: at once, with the next seed of a fixed sequence. ``more room``: once,
        with twice ``num_predict``. ``no``: not tried again.
    message
        What happened, and what to do about it.
    text
        What the model wrote, where it wrote something unusable.
    pause
        The seconds that the server asks for.
    """

    def __init__(self, kind: str, message: str, text: str = "", *, pause: float = 0.0) -> None:
        super().__init__(printable(without_secrets(message)))
        self.kind = kind
        self.remedy = REMEDIES[kind]
        self.text = text
        self.pause = pause
        self.attempts = 1
        self.tried: tuple[str, ...] = ()  # kinds of the attempts before this one

    def __reduce__(self) -> tuple[Any, ...]:
        return LLMError, (self.kind, str(self)), self.__dict__

    @property
    def unusable(self) -> bool:
        """Whether the model answered, and what it wrote cannot be used."""
        return self.remedy in ("other seed", "more room")


def other_weights(spec: str, before: str, now: str) -> RunError:
    """The error that ends a run whose server has other weights of a model than the run began with."""
    return RunError(
        f"the weights of {spec} changed while the run was made: first {before[:12]}, now {now[:12]}. "
        "What was made is stored. Bring the first weights back and start the same command again, or take "
        "another run name",
        ends_run=True,
    )


Speaker = Literal["system", "user", "assistant", "tool"]


class ToolCall(NamedTuple):
    """A tool that a model calls, and the server's id of the call; a ``fault`` leaves no ``arguments``."""

    name: str
    arguments: Mapping[str, Any]
    id: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Message:
    """One message of a chat; ``calls`` are an assistant's tools, ``answers`` the call whose result it is."""

    role: Speaker
    content: str
    calls: tuple[ToolCall, ...] = ()
    answers: ToolCall | None = None

    @property
    def plain(self) -> dict[str, Any]:
        """The message as plain data; calls only where there are some."""
        record: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.calls:
            record["calls"] = [call._asdict() for call in self.calls]
        if self.answers:
            record["answers"] = self.answers._asdict()
        return record


@dataclass(frozen=True)
class Request:
    """One question to a model.

    Parameters
    ----------
    messages
        The conversation; the last message is answered.
    role
        Who asks ("crs", "user", "judge", …); like ``tags`` (session, turn, …) it goes to the log only.
    seed
        Of the sampling; None leaves it to the server.
    options
        Ollama's names: temperature, num_ctx, num_predict, …
    schema
        A JSON schema that the reply must keep.
    tools
        Functions that the model may call instead of replying: name, description, schema of the parameters.
    replicate
        Tells apart calls that are repeated on purpose (k samples of a judge).
    choices
        Texts that differ in their first token. The reply is the likeliest, and :attr:`Reply.probabilities`
        has all of them. No schema and no tools go with them.
    tokens
        Those of the prompt where the model's tokenizer counted them; 0: :func:`tokens_at_most`.
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
    tokens: int = 0

    @classmethod
    def ask(cls, role: str, prompt: str, *, system: str | None = None, **more: Any) -> "Request":
        """A request of one user message, with a system message before it where one is given."""
        messages = [Message("user", prompt)]
        if system is not None:
            messages.insert(0, Message("system", system))
        return cls(tuple(messages), role, **more)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of everything that may change the answer, the model left aside."""
        record: dict[str, Any] = {
            "messages": [message.plain for message in self.messages],
            "seed": self.seed,
            "options": dict(self.options),
            "schema": self.schema,
            "replicate": self.replicate,
        }
        if self.tools:
            record["tools"] = [dict(tool) for tool in self.tools]
        if self.choices:
            record["choices"] = list(self.choices)
        return fingerprint(record)


@dataclass(frozen=True)
class Reply:
    """A model's answer.

    Attributes
    ----------
    text
        The reply without the ``thinking`` that was taken out of it; may be empty where tools are called.
    stop
        The server's word: "stop", "length".
    tokens_in, tokens_out
        None where the server says nothing.
    seconds
        Of the attempt that succeeded, without those ``waited``; 0 from the cache.
    digest
        Identifies the weights.
    attempts
        0 for a reply from the cache; ``tried`` holds the kinds of the attempts that failed before.
    calls
        The tools that the model calls.
    probabilities
        Those with which a reply begins with each of the request's choices; their sum is at most 1.
    waited
        Seconds that the call waited in the server for others of ours; None where nobody knows.
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
    waited: float | None = None


class Backend:
    """One way to reach a model; by default without a server and with nothing that changes an answer. It makes
    single attempts (caching, retries and logs are LLM's), and threads share it. ``endpoints`` are the
    addresses that serve the model; one empty text where there is no server.
    """

    spec: str
    endpoints: Sequence[str] = ("",)

    def settings(self) -> Mapping[str, Any]:
        """The settings, besides the request and the weights, that change an answer; part of the cache key."""
        return {}

    def digest(self) -> str:
        """The identity of the weights; raises LLMError where the server cannot be asked."""
        raise NotImplementedError

    def context_limit(self) -> int | None:
        """The tokens that the model was trained for at most; None where no server says. Raises LLMError."""
        return None

    def abilities(self) -> frozenset[str] | None:
        """What the model can do: "completion", "tools", "thinking", …; None where nobody says."""
        return None

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt at one endpoint (the first, if none is named); raises LLMError."""
        raise NotImplementedError

    def unload(self) -> None:
        """Free the model's memory, where the backend can."""

    def close(self) -> None:
        """Give back connections; using the backend afterwards opens new ones."""


BACKENDS: Registry[Backend] = Registry("LLM backend", "crs_lib.llm")


def is_served(spec: str) -> bool:
    """Whether a server holds the weights of a spec's model, so that they may change while a run is made."""
    return BACKENDS.get(spec).facts.get("kind") == "server"


def check_spec(spec: str, name: str) -> str:
    """The spec itself if a backend knows it; InputError naming the setting otherwise."""
    try:
        BACKENDS.argument(spec)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return spec


def giving_choices() -> str:
    """The backends that say how probable each of a request's choices is, as one text."""
    names = [entry.name for entry in BACKENDS if entry.facts.get("choices")]
    return ", ".join(sorted(names))


def tokens_of(text: str) -> int:
    """Tokens a text may take, by any tokeniser and on the safe side: one for every 3 bytes of UTF-8."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN)


def tokens_at_most(messages: Iterable[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
    """Tokens that messages and tools may take: those of the texts, and 16 for what frames each of them."""
    texts = [json.dumps(tool) for tool in tools]
    for message in messages:
        calls = [json.dumps(call) for call in message.calls]
        texts.append(message.content + "".join(calls))
    return sum(tokens_of(text) + _MESSAGE_TOKENS for text in texts)


def tokens_at_least(messages: Iterable[Message]) -> int:
    """Tokens the messages surely take: no tokeniser in use joins words over a blank."""
    return sum(len(message.content.split()) for message in messages)


def room(options: Mapping[str, Any]) -> int:
    """Tokens that a prompt may take: ``num_ctx`` less ``num_predict``; InputError where none are left."""
    filled = {**DEFAULTS, **options}
    context = filled["num_ctx"]
    answer = filled["num_predict"]
    whole = type(context) is int and type(answer) is int
    if not whole or not 0 < answer < context:
        fault = f"num_ctx {context!r} with num_predict {answer!r} leaves no room for a prompt"
        raise InputError(f"{fault}; give whole numbers of tokens above 0, num_ctx the larger")
    return int(context - answer)


def check_options(request: Request, options: Collection[str]) -> None:
    """Raise InputError for an option that is none of these: a server would ignore it without a word."""
    for name in request.options:
        if name not in options and name not in DEFAULTS:
            raise InputError(f"unknown LLM option {name!r}{did_you_mean(name, options)}")


def check_fits(request: Request) -> None:
    """Raise LLMError before a prompt is sent that the server might cut without a word."""
    needed = request.tokens or tokens_at_most(request.messages, request.tools)
    free = room(request.options)
    if needed > free:
        fault = f"the {request.role} prompt may take {needed} tokens, num_ctx less num_predict leaves {free}"
        raise LLMError("prompt too long", f"{fault}; raise num_ctx, or shorten the prompt")


def check_read(
    request: Request, tokens_in: int | None, context: int | None = 0, num_ctx: int | None = None
) -> None:
    """Raise LLMError where the server counted fewer tokens than the prompt has words. A server that counts
    only what is not in its cache says its ``context``, which cuts nothing if it is not below ``num_ctx``.
    """
    least = tokens_at_least(request.messages)
    if tokens_in is None or tokens_in >= least:
        return
    if num_ctx is not None and (context is None or context >= num_ctx):
        return
    fault = f"the server read {tokens_in} tokens of a {request.role} prompt of {least} words and dropped"
    shorter = f"{context} tokens, less than" if context else "smaller than"
    remedy = f"lower num_ctx{f' to {context}' if context else ''}, or use a model with a longer context"
    raise LLMError("prompt cut", f"{fault} the front of it: its context is {shorter} num_ctx; {remedy}")
