"""The settings of models as recommenders: which films they are shown, and what their answers look like."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.settings import Field
from crs_lib.llm.settings import LLMSettings

_Limit = Annotated[
    int | None, Field(ge=20, description="characters of a JSON reply; null: 600, worded: none")
]
_Form = Literal["brief", "described"]
_Tools = Literal["auto", "native", "json"]
_Stateless = Annotated[
    bool | None, Field(description="programs keep nothing of a conversation; null: as their protocol says")
]
_HOW = ("host", "timeout", "slots", "send_key", "max_failed", "stateless")
# Of modes and of local: the manifest names those that are not usual.
_UNUSUAL = (
    *("form", "listed", "retriever", "searches", "tools", "state", "latest", "reply_limit"),
    *("threads", "reuse", "names", "json", "system", "accept_model", "fresh_server"),
)


class ModelSettings(LLMSettings):
    """Settings of the roles ``crs`` and ``user`` of a simulation.

    ``host``, ``timeout``, ``slots``, ``send_key``, ``max_failed`` and ``stateless`` may differ when a run
    goes on; the others are part of its parameters.
    """

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
    stateless: _Stateless = None
    max_failed: Annotated[int, Field(ge=0, le=10**6, description="sessions of a run that may fail")] = 0
    fresh_server: Annotated[
        str, Field(description="command that starts a server anew for each lane; {port} is its port")
    ] = ""

    def check(self) -> None:
        super().check()
        if self.fresh_server and "{port}" not in self.fresh_server:
            example = "python my_server.py --port {port}"
            raise InputError(
                f"fresh_server is {self.fresh_server!r}; say where its port goes, e.g. {example!r}"
            )

    def parameters(self) -> dict[str, Any]:
        """Settings that change the dialogues, for the manifest; of modes and ``local:`` those not usual."""
        usual = ModelSettings().values()
        parameters = {}
        for name, value in self.values().items():
            unusual = name not in _UNUSUAL or value != usual[name]
            if name not in _HOW and unusual:
                parameters[name] = value
        return parameters


# For a model of some hundred million parameters on one core: short lists, one film, short replies.
SMALL_MODEL: Mapping[str, Any] = {
    "temperature": 0,
    "num_ctx": 2560,
    "num_predict": 100,
    "reply_limit": 100,
    "listed": 6,
    "most": 1,
    "offered": 3,
    "retriever": "hybrid:hashing",
    "state": False,
    "reuse": True,
    "max_failed": 50,
}
# For a model of one to a few thousand million parameters on a laptop: a dozen films, two searches a turn.
MEDIUM_MODEL: Mapping[str, Any] = {
    **SMALL_MODEL,
    "num_ctx": 8192,
    "num_predict": 200,
    "reply_limit": 300,
    "listed": 12,
    "most": 3,
    "offered": 4,
    "searches": 2,
    "threads": 2,
}


def role_settings(
    llm: Mapping[str, Any],
    who: str,
    own: Collection[str] = (),
    fixed: Collection[str] = (),
    instead: str = "",
) -> LLMSettings:
    """The settings that a role shares with all others, from a plain mapping. ``own`` are names of settings
    that only this role has; they are passed over. ``fixed`` are names of shared settings that cannot be
    chosen for this role. Raises InputError naming ``who`` for a setting that the role does not take
    (``instead`` says what to do about a setting of the simulation), and for a value that cannot be.
    """
    shared = [name for name in LLMSettings.model_fields if name not in fixed]
    allowed = [*own, *shared]
    for name in llm:
        if name in allowed:
            continue
        hint = did_you_mean(name, allowed)
        if name in ModelSettings.model_fields and name not in LLMSettings.model_fields:
            hint = f": it is the simulation's{instead}"
        raise InputError(f"llm: {who} takes no {name!r}{hint} (it takes: {', '.join(allowed)})")
    return LLMSettings(**{name: value for name, value in llm.items() if name in shared})
