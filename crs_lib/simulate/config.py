"""The settings of a batch of dialogues, checked before anything starts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from crs_lib.catalog import sources
from crs_lib.core import rng
from crs_lib.core.errors import InputError
from crs_lib.llm.settings import LLMSettings
from crs_lib.runs import batch
from crs_lib.runs.ledger import Key
from crs_lib.simulate import roles as llm_roles
from crs_lib.simulate import scenarios
from crs_lib.simulate.scenarios import Rates
from crs_lib.simulate.shifts import SHIFTS
from crs_lib.systems import base as systems

STUDY = "movies"
DEFAULT_SYSTEMS = ("oracle", "tracker", "amnesiac", "sticky", "popular", "random", "slot_echo", "echo")


@dataclass(frozen=True)
class SimulateConfig:
    """The effective settings of a batch, checked.

    ``workers`` (processes for systems without models), ``shard`` ("k/N": only that part of the sessions)
    and ``scheduler`` (a Dask cluster: "local" or its address) never change what a session is. ``user_llm``
    words what the user says; ``llm`` holds the settings of :class:`LLMSettings`. Raises InputError naming
    the setting, what was given and what is expected.
    """

    run: str = "smoke"
    catalog: str = sources.SAMPLE
    systems: Sequence[str] = DEFAULT_SYSTEMS
    n_sessions: int = 12
    n_turns: int = 20
    seed: int = 7
    workers: int = 1
    arm: str = "shift"
    types: Sequence[str] = scenarios.ALL_TYPES
    rates: Rates = field(default_factory=Rates)
    user_llm: str = ""
    llm: Mapping[str, Any] = field(default_factory=dict)
    shard: str = ""
    scheduler: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "systems", tuple(systems.check(self.systems)))
        LLMSettings.read(self.llm)
        batch.shard([], self.shard)
        if self.user_llm:
            llm_roles.check_spec(self.user_llm, "user_llm")
        if isinstance(self.types, str) or not self.types:
            raise InputError(
                f"types is {self.types!r}; give a list of shift types, e.g. ['switch', 'refine']"
            )
        object.__setattr__(self, "types", tuple(self.types))
        rng.check_seed(self.seed)
        for name, low, high in (("n_sessions", 1, 1_000_000), ("n_turns", 1, 1_000), ("workers", 1, 256)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InputError(f"{name} is {value!r}; give a whole number from {low} to {high:,}")
        if self.arm not in ("shift", scenarios.NO_SHIFT):
            raise InputError(f"arm is {self.arm!r}; give 'shift' or '{scenarios.NO_SHIFT}'")
        for kind in self.types:
            SHIFTS.get(kind)

    def keys(self) -> list[Key]:
        """Every session of the batch (of its shard), system by system: the order of the exported file."""
        every = [Key(system, session) for system in self.systems for session in range(self.n_sessions)]
        return batch.shard(every, self.shard)

    def roles(self) -> list[llm_roles.Role]:
        """The language models of the batch with their roles; empty where rules do everything."""
        return llm_roles.roles(self.systems, self.user_llm)

    def parts(self) -> list[tuple[list[Key], tuple[str, ...]]]:
        """The batch in the order of work, each part with the models that it waits for.

        Systems without models go scenario by scenario, so that one is planned once for all of them; the
        others one after the other, so that servers need not swap weights.
        """
        keys = self.keys()
        ruled = [] if self.user_llm else [spec for spec in self.systems if not llm_roles.is_worded(spec)]
        found = [(sorted((key for key in keys if key.system in ruled), key=lambda key: key.session), ())]
        for spec in (spec for spec in self.systems if spec not in ruled):
            models = (spec,) if llm_roles.is_worded(spec) else ()
            waits = (*models, self.user_llm) if self.user_llm else models
            found.append(([key for key in keys if key.system == spec], waits))
        return [part for part in found if part[0]]

    @property
    def folder_name(self) -> str:
        """The run's folder; that of a shard has its own, e.g. ``thesis.shard-2-of-4``."""
        return f"{self.run}.shard-{self.shard.replace('/', '-of-')}" if self.shard else self.run

    def parameters(self) -> dict[str, Any]:
        """The settings that say what comes out, as plain data for the manifest.

        What only language models need is there where one takes part.
        """
        values = asdict(self)
        for name in ("user_llm", "llm", "shard", "scheduler"):
            del values[name]
        if self.roles():
            values |= {"user_llm": self.user_llm, "llm": LLMSettings.read(self.llm).what()}
        return values | ({"shard": self.shard} if self.shard else {})
