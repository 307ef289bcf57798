"""Request, reply, failure, and the protocol of every backend; how many tokens a prompt may take."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from crs_lib.core.errors import InputError, RunError, did_you_mean
from crs_lib.core.settings import Registry
from crs_lib.core.tables import fingerprint
from crs_lib.core.text import printable

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
    "cut": "more room",  # a reply with a schema ran into num_predict, so its JSON is cut
    "not recorded": "no",  # a replayed run does not hold this call
    # Programs, which are no models, fail in the same log; none of this is tried again.
    "wrong answer": "no",  # the answer breaks the contract
    "crashed": "no",  # the program ended, or raised, before it answered
    "too slow": "no",  # the program did not answer within the time-out
    "not started": "no",  # no such command, module or class
}
DEFAULTS: Mapping[str, Any] = {"num_ctx": 8192, "num_predict": 512}
_BYTES_A_TOKEN = 3  # English prose has 4 or more; names, digits and markup fewer
_MESSAGE_TOKENS = 16  # what a chat template puts around a message


class LLMError(RuntimeError):
    """A call without a usable reply: ``kind`` is a word of :data:`REMEDIES`, ``remedy`` the next attempt.
    ``wait``: the same request again after a growing pause. ``other seed``: at once, with the next seed of a
    fixed sequence. ``more room``: once, with twice ``num_predict``. ``no``: not tried again. ``text`` is what
    the model wrote, where it wrote something unusable; ``pause`` the seconds that the server asks for.
    """

    def __init__(self, kind: str, message: str, text: str = "", *, pause: float = 0.0) -> None:
        super().__init__(printable(message))
        self.kind, self.remedy = kind, REMEDIES[kind]
        self.text, self.pause = text, pause
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
    what = f"the weights of {spec} changed while the run was made: first {before[:12]}, now {now[:12]}"
    better = "Bring the first weights back and start the same command again, or take another run name"
    return RunError(f"{what}. What was made is stored. {better}", ends_run=True)


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
        told: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.calls:
            told["calls"] = [one._asdict() for one in self.calls]
        return told | ({"answers": self.answers._asdict()} if self.answers else {})


@dataclass(frozen=True)
class Request:
    """One question to a model. ``options`` are Ollama's names (temperature, num_ctx, num_predict, …);
    ``schema`` is a JSON schema the reply must keep; ``tools`` are functions that the model may call instead
    of replying (name, description, JSON schema of the parameters); ``replicate`` tells apart calls that are
    repeated on purpose (k samples of a judge). ``choices`` are texts that differ in their first token; the
    reply is the likeliest, and :attr:`Reply.probabilities` has all of them. No schema and no tools go with
    them. ``role`` ("crs", "user", "judge", …) and ``tags`` (session, turn, …) go to the log only. ``tokens``
    are those of the prompt where the model's tokenizer counted them; 0: :func:`tokens_at_most`.
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
    def ask(cls, role: str, prompt: str, *, system: str | None = None, **rest: Any) -> "Request":
        """A request of one user message, with a system message before it where one is given."""
        head = (Message("system", system),) if system is not None else ()
        return cls((*head, Message("user", prompt)), role, **rest)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of everything that may change the answer, the model left aside."""
        asked: dict[str, Any] = {
            "messages": [one.plain for one in self.messages], "seed": self.seed,
            "options": dict(self.options), "schema": self.schema, "replicate": self.replicate,
        }  # fmt: skip
        asked |= {"tools": [dict(one) for one in self.tools]} if self.tools else {}
        asked |= {"choices": list(self.choices)} if self.choices else {}
        return fingerprint(asked)


@dataclass(frozen=True)
class Reply:
    """A model's answer. ``stop`` is the server's word ("stop", "length"); token counts are None where the
    server says nothing; ``seconds`` is the time of the attempt that succeeded, 0 from the cache; ``digest``
    identifies the weights; ``thinking`` was taken out of ``text``; ``attempts`` is 0 for a reply from the
    cache; ``tried`` holds the kinds of the attempts that failed before. ``calls`` are the tools that the
    model calls; the text may be empty then. ``probabilities`` are those with which a reply begins with each
    of the request's choices; their sum is at most 1.
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

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt at one endpoint (the first, if none is named); raises LLMError."""
        raise NotImplementedError

    def unload(self) -> None:
        """Free the model's memory, where the backend can."""

    def close(self) -> None:
        """Give back connections; using the backend afterwards opens new ones."""


BACKENDS: Registry[Backend] = Registry("LLM backend", "crs_lib.llm")


def check_spec(spec: str, name: str) -> str:
    """The spec itself if a backend knows it; InputError naming the setting otherwise."""
    try:
        BACKENDS.argument(spec)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return spec


def giving_choices() -> str:
    """The backends that say how probable each of a request's choices is, as one text."""
    return ", ".join(sorted(entry.name for entry in BACKENDS if entry.facts.get("choices")))


def tokens_of(text: str) -> int:
    """Tokens a text may take, by any tokeniser and on the safe side: one for every 3 bytes of UTF-8."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN)


def tokens_at_most(messages: Iterable[Message], tools: Sequence[Mapping[str, Any]] = ()) -> int:
    """Tokens that messages and tools may take: those of the texts, and 16 for what frames each of them."""
    texts = [m.content + "".join(json.dumps(one) for one in m.calls) for m in messages]
    return sum(tokens_of(text) + _MESSAGE_TOKENS for text in (*texts, *map(json.dumps, tools)))


def tokens_at_least(messages: Iterable[Message]) -> int:
    """Tokens the messages surely take: no tokeniser in use joins words over a blank."""
    return sum(len(m.content.split()) for m in messages)


def room(options: Mapping[str, Any]) -> int:
    """Tokens that a prompt may take: ``num_ctx`` less ``num_predict``; InputError where none are left."""
    context, answer = ({**DEFAULTS, **options}[name] for name in ("num_ctx", "num_predict"))
    if type(context) is not int or type(answer) is not int or not 0 < answer < context:
        told = f"num_ctx {context!r} with num_predict {answer!r} leaves no room for a prompt"
        raise InputError(f"{told}; give whole numbers of tokens above 0, num_ctx the larger")
    return context - answer


def check_options(request: Request, known: Collection[str]) -> None:
    """Raise InputError for an option that is not ``known``: a server would ignore it without a word."""
    for name in request.options.keys() - {*known, *DEFAULTS}:
        raise InputError(f"unknown LLM option {name!r}{did_you_mean(name, known)}")


def check_fits(request: Request) -> None:
    """Raise LLMError before a prompt is sent that the server might cut without a word."""
    needs = request.tokens or tokens_at_most(request.messages, request.tools)
    has = room(request.options)
    if needs > has:
        told = f"the {request.role} prompt may take {needs} tokens, num_ctx less num_predict leaves {has}"
        raise LLMError("prompt too long", f"{told}; raise num_ctx, or shorten the prompt")


def check_read(request: Request, tokens_in: int | None) -> None:
    """Raise LLMError where the server counted fewer tokens than the prompt has words."""
    least = tokens_at_least(request.messages)
    if tokens_in is not None and tokens_in < least:
        told = f"the server read {tokens_in} tokens of a {request.role} prompt of {least} words and dropped"
        better = "its context is smaller than num_ctx; use a model with a longer context"
        raise LLMError("prompt cut", f"{told} the front of it: {better}")
