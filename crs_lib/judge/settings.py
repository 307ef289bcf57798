"""How judges are asked: options of their calls, and what of it a notebook's ``llm`` may say."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from crs_lib.core import rng
from crs_lib.core.errors import InputError
from crs_lib.judge.prompt import CONSTRUCTS
from crs_lib.llm import settings as role_settings
from crs_lib.llm.settings import Service

_OWN = ("seed", "together")
_INSTEAD = ". In a sweep give 04_evaluate its own, as '04_evaluate.llm'"
_OPTIONS = ("temperature", "num_ctx", "num_predict")


@dataclass(frozen=True)
class Settings:
    """How judges are asked; part of a run's parameters and of every judgement's key.

    ``together`` asks for all constructs in one call: a third of the cost, and scores that lean on one
    another. ``num_ctx`` bounds how much of a long dialogue is shown. ``think`` makes an Ollama model think
    or not, None leaves it to the model. Raises InputError naming the setting for a value that cannot be.
    """

    seed: int = 0
    temperature: float = 0.5
    num_ctx: int = 8192
    num_predict: int = 400
    together: bool = False
    think: bool | None = None

    def __post_init__(self) -> None:
        rng.check_seed(self.seed)
        if not isinstance(self.together, bool):
            raise InputError(f"llm: together is {self.together!r}; give true or false")
        role_settings.read({**self.options, "think": self.think}, "a judge")

    @property
    def options(self) -> dict[str, Any]:
        """The options of every judge call."""
        return {name: getattr(self, name) for name in _OPTIONS}

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The constructs that share a call."""
        return (CONSTRUCTS,) if self.together else tuple((name,) for name in CONSTRUCTS)


def read(given: Mapping[str, Any], base: Settings | None = None) -> tuple[Settings, Service]:
    """How judges are asked and reached, from a notebook's ``llm``; what it leaves out is ``base``'s.

    Raises InputError for a setting that judges do not take.
    """
    before = base or Settings()
    shared = role_settings.read(given, "a judge", _OWN, instead=_INSTEAD)
    names = asdict(before)
    asked = replace(before, **{name: value for name, value in given.items() if name in names})
    return asked, replace(shared, think=asked.think).service()
