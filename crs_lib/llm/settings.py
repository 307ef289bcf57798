"""The settings of language models: what is asked of them, and how their servers are reached."""

import inspect
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from crs_lib.core.settings import Field, Settings
from crs_lib.llm.base import BACKENDS, JsonForm, SystemForm, room

_REACHED = ("threads", "reuse", "timeout", "send_key", "host", "think")
OPTIONS = ("temperature", "num_ctx", "num_predict")
Temperature = Annotated[float, Field(ge=0, le=2, description="0 gives the likeliest words")]
Context = Annotated[int, Field(ge=1, description="tokens of prompt and answer; a change reloads the model")]
AnswerLength = Annotated[int, Field(ge=1, description="tokens of an answer at most")]
Thinking = Annotated[
    bool | None, Field(description="make an Ollama model think or not; null leaves it to it")
]
_Json = Annotated[JsonForm, Field(description="ask for JSON by its schema, as an object, or by words alone")]
_System = Annotated[SystemForm, Field(description="merge: the system message in the user's first")]

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", 'Field name "json"')  # the name of an old method of pydantic's

    class ServerForms(Settings):
        """What an ``openai:`` server is asked for in another form, because it refuses the usual one."""

        names: Annotated[
            Mapping[str, str], Field(description="parameters' other names; empty: left out")
        ] = {}
        json: _Json = "schema"  # type: ignore[assignment]
        system: _System = "own"
        accept_model: Annotated[str, Field(description="the name under which a server answers; *: any")] = ""


class LLMSettings(ServerForms):
    """Settings of any model: its options, and how it is reached."""

    _where: ClassVar[str] = "llm: "

    temperature: Temperature = 0.7
    num_ctx: Context = 8192
    num_predict: AnswerLength = 400
    think: Thinking = None
    threads: Annotated[int, Field(ge=1, le=256, description="threads of a local: model")] = 1
    reuse: Annotated[bool, Field(description="a local: model keeps prompts' beginnings; faster")] = False
    host: Annotated[str, Field(description="servers, commas between; empty: the backend's default")] = ""
    timeout: Annotated[float, Field(gt=0, description="seconds that one attempt may take")] = 300.0
    slots: Annotated[int, Field(ge=1, le=1000, description="calls that each server gets at once at most")] = 2
    send_key: Annotated[bool, Field(description="send OLLAMA_API_KEY or OPENAI_API_KEY there")] = False

    def check(self) -> None:
        if self.num_predict >= self.num_ctx:
            room(self.options)  # which says what is wrong

    @property
    def options(self) -> dict[str, Any]:
        """The options of every call."""
        return {name: getattr(self, name) for name in OPTIONS}

    @property
    def at_once(self) -> int:
        """Sessions under way for each server: whenever a call may be sent, one is there."""
        return 2 * self.slots

    def settings_for(self, spec: str) -> dict[str, Any]:
        """The keywords for a spec's backend: those of the settings that it takes."""
        backend: Any = BACKENDS.get(spec).make
        parameters: set[str] = set()
        for base in backend.__mro__:
            parameters.update(inspect.signature(base.__init__).parameters)
        keywords = {}
        for name in _REACHED:
            value = getattr(self, name)
            if name in parameters and value not in ("", None):
                keywords[name] = value
        for name, field in ServerForms.model_fields.items():
            value = getattr(self, name)
            if name in parameters and value != field.default:
                keywords[name] = value
        return keywords
