"""What a role that reads dialogues takes of the settings ``llm``; the simulation's are refused."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean
from crs_lib.movies.llm_settings import LLMSettings

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
