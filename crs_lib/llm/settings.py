"""The settings of language models: what is asked of them, and how their servers are reached."""

import inspect
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal

from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.settings import Field, Settings
from crs_lib.llm.base import BACKENDS, room

_HOW = ("host", "timeout", "slots", "send_key", "max_failed")
_REACHED = ("threads", "reuse", "timeout", "send_key", "host", "think")
OPTIONS = ("temperature", "num_ctx", "num_predict")
Temperature = Annotated[float, Field(ge=0, le=2, description="0 gives the likeliest words")]
Context = Annotated[int, Field(ge=1, description="tokens of prompt and answer; a change reloads the model")]
AnswerLength = Annotated[int, Field(ge=1, description="tokens of an answer at most")]
Thinking = Annotated[
    bool | None, Field(description="make an Ollama model think or not; null leaves it to it")
]
_Limit = Annotated[
    int | None, Field(ge=20, description="characters of a JSON reply; null: 600, worded: none")
]
_Form = Literal["brief", "described"]
_Tools = Literal["auto", "native", "json"]


class LLMSettings(Settings):
    """Settings of the roles ``crs`` and ``user``.

    ``host``, ``timeout``, ``slots``, ``send_key`` and ``max_failed`` may differ when a run goes on; the
    others are part of its parameters.
    """

    _where: ClassVar[str] = "llm: "

    structured: Annotated[bool, Field(description="ask for JSON with films' ids; else titles")] = True
    enforce: Annotated[bool, Field(description="ask again where unknown films are named, then cut")] = False
    form: Annotated[_Form, Field(description="short rules, or the prompts of up to 0.2")] = "brief"
    offered: Annotated[int, Field(ge=1, le=50, description="films that a model is given to choose from")] = 4
    most: Annotated[int, Field(ge=1, le=50, description="films that a reply recommends at most")] = 3
    listed: Annotated[int, Field(ge=0, le=5000, description="films shown by closed: and rag:; 0: all")] = 30
    retriever: Annotated[str, Field(description="search of rag: and agent:, e.g. bm25")] = "hybrid:minilm"
    searches: Annotated[int, Field(ge=0, le=50, description="searches of agent: in a turn at most")] = 4
    tools: Annotated[_Tools, Field(description="of agent:; auto is JSON where a server calls none")] = "auto"
    state: Annotated[bool, Field(description="ask what the user wants now, beside the reply")] = True
    latest: Annotated[bool, Field(description="add that only the latest constraints count")] = False
    reply_limit: _Limit = None
    temperature: Temperature = 0.7
    num_ctx: Context = 8192
    num_predict: AnswerLength = 400
    think: Thinking = None
    threads: Annotated[int, Field(ge=1, le=256, description="threads of a local: model")] = 1
    reuse: Annotated[bool, Field(description="a local: model keeps prompts' beginnings; faster")] = False
    host: Annotated[str, Field(description="servers, commas between; empty: the backend's default")] = ""
    timeout: Annotated[float, Field(gt=0, description="seconds that one attempt may take")] = 300.0
    slots: Annotated[int, Field(ge=1, le=1000, description="calls that each server works on at once")] = 2
    send_key: Annotated[bool, Field(description="send OLLAMA_API_KEY or OPENAI_API_KEY there")] = False
    max_failed: Annotated[int, Field(ge=0, le=10**6, description="sessions of a run that may fail")] = 0

    def check(self) -> None:
        if self.num_predict >= self.num_ctx:
            room(self.options)  # which says what is wrong

    @property
    def options(self) -> dict[str, Any]:
        """The options of every call."""
        return {name: getattr(self, name) for name in OPTIONS}

    @property
    def at_once(self) -> int:
        """Calls that each server gets at once: one waits for each slot, so that it has work at once."""
        return 2 * self.slots

    def settings_for(self, spec: str) -> dict[str, Any]:
        """The keywords for a spec's backend: those of the settings that it takes."""
        kinds: Any = BACKENDS.get(spec).make
        takes = {name for kind in kinds.__mro__ for name in inspect.signature(kind.__init__).parameters}
        given = {name: getattr(self, name) for name in _REACHED if name in takes}
        return {name: value for name, value in given.items() if value not in ("", None)}

    def parameters(self) -> dict[str, Any]:
        """Settings that change the dialogues, for the manifest; of modes and ``local:`` those not usual."""
        default = LLMSettings().values()
        values = {name: value for name, value in self.values().items() if name not in _HOW}
        return {n: v for n, v in values.items() if n not in (*_MODES, *_LOCAL) or v != default[n]}


# For a model of some hundred million parameters on one core: short lists, one film, short replies.
SMALL_MODEL: Mapping[str, Any] = {
    "temperature": 0, "num_ctx": 2560, "num_predict": 100, "reply_limit": 100, "listed": 6, "most": 1,
    "offered": 3, "retriever": "hybrid:hashing", "state": False, "reuse": True, "max_failed": 50,
}  # fmt: skip
# For a model of one to a few thousand million parameters on a laptop: a dozen films, two searches a turn.
MEDIUM_MODEL: Mapping[str, Any] = {
    **SMALL_MODEL, "num_ctx": 8192, "num_predict": 200, "reply_limit": 300, "listed": 12, "most": 3,
    "offered": 4, "searches": 2, "threads": 2,
}  # fmt: skip
_MODES = ("form", "listed", "retriever", "searches", "tools", "state", "latest", "reply_limit")
_LOCAL = ("threads", "reuse")
_SIMULATION = ("structured", "enforce", "offered", "most", *_MODES, "max_failed")


def role_settings(
    given: Mapping[str, Any], who: str, own: Collection[str] = (), fixed: Collection[str] = (),
    instead: str = "",
) -> LLMSettings:  # fmt: skip
    """The settings that a role shares with all others, from a plain mapping. ``own`` are names of settings
    that only this role has; they are passed over. ``fixed`` are names of shared settings that cannot be
    chosen for this role. Raises InputError naming ``who`` for a setting that the role does not take
    (``instead`` says what to do about a setting of the simulation), and for a value that cannot be.
    """
    shared = [name for name in LLMSettings.model_fields if name not in {*_SIMULATION, *fixed}]
    known = [*own, *shared]
    for name in given.keys() - {*known}:
        hint = f": it is the simulation's{instead}" if name in _SIMULATION else did_you_mean(name, known)
        raise InputError(f"llm: {who} takes no {name!r}{hint} (it takes: {', '.join(known)})")
    return LLMSettings(**{name: value for name, value in given.items() if name in shared})
