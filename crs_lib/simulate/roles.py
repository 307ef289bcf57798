"""Which language models a batch of dialogues needs, and whether they are there before it starts."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from crs_lib.catalog.catalog import Catalog
from crs_lib.llm.preflight import Need, refuse
from crs_lib.llm.settings import LLMSettings
from crs_lib.systems.base import SYSTEMS, model_of


class Role(NamedTuple):
    """A model in a role: "crs", "user" or "judge"."""

    role: str
    spec: str
    system: str = ""  # the system whose model it is, for "crs"


def asks_model(spec: str) -> bool:
    """Whether a language model takes part in a system's replies."""
    return bool(model_of(spec))


def is_apart(spec: str) -> bool:
    """Whether the sessions of a system wait for another process: a model, an address or a command."""
    return asks_model(spec) or bool(SYSTEMS.get(spec).facts.get("apart"))


def roles(systems: Sequence[str], user_llm: str) -> list[Role]:
    """The models of a batch with their roles; empty where rules do everything."""
    found = [Role("crs", model, spec) for spec in systems if (model := model_of(spec))]
    return found + ([Role("user", user_llm)] if user_llm else [])


def needs(asked: Sequence[Role], rule: LLMSettings, catalog: Catalog) -> list[Need]:
    """What the preflight checks: each model with its options and its longest unbounded prompt."""
    return [
        Need(
            one.role, one.spec, rule.options, _longest(one.system, rule, catalog) if one.system else 0,
            rule.settings_for(one.spec),
        )
        for one in asked
    ]  # fmt: skip


def _longest(system: str, rule: LLMSettings, catalog: Catalog) -> int:
    """Tokens that the longest prompt of a system may take before the context bounds it."""
    kind: Any = SYSTEMS.get(system).make
    return int(kind.longest(catalog, rule))


def versions(programs: Sequence[str], before: Mapping[str, Any]) -> dict[str, str]:
    """The versions of programs, as inputs of the stage: a run is finished with the programs it began with.

    ``before`` is the stage's entry in the manifest. Raises one RunError that lists all that cannot be reached
    or started.
    """
    if not programs:
        return {}
    names = {spec: f"program {spec}" for spec in programs}
    if before.get("status") == "finished" and set(names.values()) <= set(before["inputs"]):
        return {name: before["inputs"][name] for name in names.values()}
    from crs_lib.systems.programs import identity, missing

    refuse(missing(programs))
    return {name: identity(spec) for spec, name in names.items()}
