"""The settings of a judgement, checked before anything starts: which judges, how often, how each is asked."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator

from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, OneOf, RunName, Seed, Settings
from crs_lib.judge import prompt
from crs_lib.judge.reliability import FORGED
from crs_lib.llm import settings as models
from crs_lib.llm.base import BACKENDS, check_spec, giving_choices, room
from crs_lib.llm.preflight import Need
from crs_lib.metrics import constructs
from crs_lib.systems.settings import role_settings

_OWN = ("seed", "together", "expected", "wishes")  # settings of judges that no other role has
_RARE = ("expected", "wishes")  # left out of records where they are not set
_EARLIER = ("shuffled", "sticky")  # canaries
_INSTEAD = ". In a sweep give 04_evaluate its own, as '04_evaluate.llm'"


class JudgeSettings(Settings):
    """How judges are asked; part of a run's parameters and of every judgement's key. Constructs that share a
    call (``together``) cost a third, and their scores lean on one another. ``num_ctx`` bounds how much of a
    long dialogue is shown.
    """

    _where: ClassVar[str] = "llm: "

    seed: Annotated[Seed, Field(description="seed of the judges' replies")] = 0
    temperature: models.Temperature = 0.5
    num_ctx: models.Context = 8192
    num_predict: models.AnswerLength = 400
    together: Annotated[bool, Field(description="ask for all constructs of one scale in one call")] = False
    think: models.Thinking = None
    expected: Annotated[bool, Field(description="the mean of the levels by their probability")] = False
    wishes: Annotated[
        Literal["", "turns", "log"],
        Field(
            description="whose words tell them: the user's turns or the log; empty: turns of imported logs"
        ),
    ] = ""

    def check(self) -> None:
        room(self.options)
        if self.expected and self.together:
            raise InputError("llm: expected asks for one construct a call; leave out together")

    @property
    def options(self) -> dict[str, Any]:
        """The options of every judge call."""
        return {name: getattr(self, name) for name in models.OPTIONS}

    def record(self) -> dict[str, Any]:
        """The settings as plain data; ``expected`` and ``wishes`` only where they are set."""
        values = self.values()
        for name in _RARE:
            if not values[name]:
                del values[name]
        return values

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The constructs that share a call, a group a call."""
        if not self.together:
            return tuple((name,) for name in constructs.names())
        scales: dict[tuple[int, int], tuple[str, ...]] = {}
        for name, row in constructs.CONSTRUCTS.items():
            scales[row.scale] = (*scales.get(row.scale, ()), name)
        return tuple(scales.values())


def _distinct(specs: Sequence[str]) -> Sequence[str]:
    """The specs of models if each occurs once and a backend knows it; else InputError."""
    if len(set(specs)) < len(specs):
        raise InputError(f"judges is {list(specs)!r}; give a list of specs, each once")
    for spec in specs:
        check_spec(spec, "judges")
    return specs


def _known(canary: str) -> str:
    """The name of a canary; InputError for those of before."""
    if canary in _EARLIER:
        raise InputError(f"the canary {canary!r} went after 0.3; take {FORGED!r}")
    return canary


_Specs = Annotated[Sequence[str], AfterValidator(_distinct)]
_Canaries = Sequence[Annotated[str, AfterValidator(_known), OneOf((FORGED,))]]
_Given = Mapping[str, Any] | None


class JudgeConfig(Settings):
    """The effective settings of a judgement, checked."""

    run: Annotated[RunName, Field(description="run whose dialogues are judged")]
    judges: Annotated[_Specs, Field(description="specs of the models that judge")]
    samples: Annotated[int, Field(ge=1, description="times that a judge is asked about a dialogue")] = 1
    canaries: Annotated[_Canaries, Field(description="dialogues spoilt on purpose, judged too")] = (FORGED,)
    n_canaries: Annotated[int, Field(ge=1, description="sessions of each system made canaries of")] = 20
    llm: Annotated[_Given, Field(description='settings of the models, e.g. {"num_ctx": 4096}')] = None

    def check(self) -> None:
        _ = self.reached  # InputError for a setting that judges do not take
        if not self.asked.expected:
            return
        for spec in self.judges:
            if not BACKENDS.get(spec).facts.get("choices"):
                fault = f"judge {spec!r} does not say how probable its words are"
                raise InputError(f"{fault}; leave out expected, or take one of {giving_choices()}")

    @cached_property
    def reached(self) -> models.LLMSettings:
        """How the judges' models are reached; InputError for a setting that judges do not take."""
        return role_settings(self.llm or {}, "a judge", _OWN, instead=_INSTEAD)

    @cached_property
    def asked(self) -> JudgeSettings:
        """How judges are asked."""
        llm = self.llm or {}
        return JudgeSettings(**{name: llm[name] for name in llm if name in JudgeSettings.model_fields})

    def question(self) -> dict[str, Any]:
        """All that a judge's scores depend on beside the dialogue and its weights, as plain data."""
        rubric = prompt.digest(self.asked.expected)
        return {"samples": self.samples, "settings": self.asked.record(), "rubric": rubric}

    def parameters(self) -> dict[str, Any]:
        """All that the scores depend on, as plain data for the manifest."""
        parameters: dict[str, Any] = {"judges": list(self.judges), **self.question()}
        parameters.update(canaries=list(self.canaries), n_canaries=self.n_canaries)
        return parameters

    def needs(self) -> list[Need]:
        """The models that the preflight checks: each judge with its options and its shortest prompt."""
        options = self.asked.options
        least = prompt.least(self.asked.groups, self.asked.expected)
        needs = []
        for spec in self.judges:
            needs.append(Need("judge", spec, options, least, self.reached.settings_for(spec)))
        return needs
