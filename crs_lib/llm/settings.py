"""What language models are asked for in the movie study, as one checked value from a notebook's ``llm``."""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean
from crs_lib.llm.limits import room
from crs_lib.llm.retry import Retry


@dataclass(frozen=True)
class Service:
    """How models are reached: what never changes what is asked, so that it may differ when a run goes on.

    ``host`` is an address or several with commas between ("" is the backend's default); ``slots`` is how
    many calls each of them works on at once. ``backend`` are further keywords of backends that take them.
    """

    host: str = ""
    timeout: float = 300.0
    slots: int = 2
    retry: Retry = field(default_factory=Retry)
    backend: Mapping[str, Any] = field(default_factory=dict)

    @property
    def at_once(self) -> int:
        """Calls that each server gets at once: one in each of its slots, and one that waits for it there.

        A slot that comes free then finds its next call on the server, and need not wait for us.
        """
        return 2 * self.slots

    def settings_for(self, spec: str) -> dict[str, Any]:
        """Those of the settings that this spec's backend takes."""
        given = {**self.backend, "timeout": self.timeout, **({"host": self.host} if self.host else {})}
        from crs_lib.llm.backends import BACKENDS  # all of them, only where one is asked for

        takes = inspect.signature(BACKENDS.get(spec).make).parameters
        return {name: value for name, value in given.items() if name in takes}


_HOW = ("host", "timeout", "slots", "send_key", "max_failed")


@dataclass(frozen=True)
class LLMSettings:
    """Settings of the roles ``crs`` and ``user``.

    ``structured`` asks for JSON with the ids of the films a reply recommends; without, titles are read
    from its text. ``enforce`` asks once more for a reply that names films the catalogue does not have,
    then cuts those sentences. ``offered`` films are given to choose from, of which a reply recommends
    ``most``. ``num_ctx`` is the same for all calls, another one would reload the model. ``host``,
    ``timeout`` and ``slots`` say how servers are reached and may differ when a run goes on; ``slots`` is
    how many calls each server works on at once (it gets twice as many, see ``Service.at_once``).
    ``send_key`` sends the key in OLLAMA_API_KEY or OPENAI_API_KEY to these servers, otherwise it stays here.
    So many sessions as ``max_failed`` may fail and the run is finished nevertheless, without them.
    """

    structured: bool = True
    enforce: bool = False
    offered: int = 4
    most: int = 3
    temperature: float = 0.7
    num_ctx: int = 8192
    num_predict: int = 400
    think: bool | None = None
    host: str = ""
    timeout: float = 300.0
    slots: int = 2
    send_key: bool = False
    max_failed: int = 0

    def __post_init__(self) -> None:
        room({"num_ctx": self.num_ctx, "num_predict": self.num_predict})
        bounds = (("offered", 1, 50), ("most", 1, 50), ("slots", 1, 1000), ("max_failed", 0, 10**6))
        for name, low, high in bounds:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InputError(f"llm: {name} is {value!r}; give a whole number from {low} to {high}")
        if isinstance(self.temperature, bool) or not isinstance(self.temperature, int | float):
            raise InputError(f"llm: temperature is {self.temperature!r}; give a number from 0 to 2")
        if not 0 <= self.temperature <= 2:
            raise InputError(f"llm: temperature is {self.temperature}; give a number from 0 to 2")
        for name in ("structured", "enforce", "send_key"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"llm: {name} is {getattr(self, name)!r}; give true or false")

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "LLMSettings":
        """From a plain mapping; InputError with a suggestion for an unknown name."""
        known = [row.name for row in fields(cls)]
        for name in given:
            if name not in known:
                raise InputError(
                    f"llm: unknown setting {name!r}{did_you_mean(str(name), known)} "
                    f"(known: {', '.join(known)})"
                )
        return cls(**given)

    @property
    def options(self) -> dict[str, Any]:
        """The options of every call."""
        return {
            "temperature": self.temperature, "num_ctx": self.num_ctx, "num_predict": self.num_predict,
        }  # fmt: skip

    def service(self, starts: int = 1) -> Service:
        """How models are reached; ``starts`` times as many seeds are tried after an unusable reply."""
        backend = {} if self.think is None else {"think": self.think}
        backend |= {"send_key": True} if self.send_key else {}
        retry = Retry(seeds=starts * Retry().seeds)
        return Service(self.host, self.timeout, self.slots, retry, backend)

    def what(self) -> dict[str, Any]:
        """The settings that change what comes out, for the manifest."""
        return {name: value for name, value in asdict(self).items() if name not in _HOW}


_SIMULATION = ("structured", "enforce", "offered", "most", "max_failed")


def read(
    given: Mapping[str, Any],
    who: str,
    own: Collection[str] = (),
    fixed: Collection[str] = (),
    instead: str = "",
) -> LLMSettings:
    """The settings that all roles share, from a plain mapping.

    ``own`` are names that only this role has: they are left to it. ``fixed`` are shared ones that it does
    not let anybody choose. Raises InputError naming ``who`` for a setting that it does not take (``instead``
    says what to do about one of the simulation's), and for a value that cannot be.
    """
    shared = [row.name for row in fields(LLMSettings) if row.name not in {*_SIMULATION, *fixed}]
    known = [*own, *shared]
    for name in given:
        if name in known:
            continue
        hint = did_you_mean(str(name), known)
        if name in _SIMULATION:
            hint = f": it is the simulation's{instead}"
        raise InputError(f"llm: {who} takes no {name!r}{hint} (it takes: {', '.join(known)})")
    chosen = LLMSettings.read({name: value for name, value in given.items() if name in shared})
    if chosen.think is not None and not isinstance(chosen.think, bool):
        raise InputError(f"llm: think is {chosen.think!r}; give true, false or null")
    return chosen
