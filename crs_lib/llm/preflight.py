"""Checks before the first session: servers reachable, models present, contexts long enough."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from threading import Event
from typing import Any, NamedTuple

from crs_lib.core.errors import InputError, RunError
from crs_lib.llm.base import BACKENDS, DEFAULTS, Backend, LLMError, is_served, other_weights, room
from crs_lib.llm.client import Retry, digest_of


class Need(NamedTuple):
    """A model that a run will use: its role, options, and longest prompt in tokens (``tokens_at_most``; 0 for
    not known yet). ``settings`` are those of the backend (host, …); with ``tools`` it must call some.
    """

    role: str
    spec: str
    options: Mapping[str, Any] = {}
    prompt: int = 0
    settings: Mapping[str, Any] = {}
    tools: bool = False


def preflight(needs: Iterable[Need]) -> dict[str, str]:
    """The digests by spec of models that can be used; else one RunError with all that is missing."""
    digests: dict[str, str] = {}
    faults: list[str] = []
    for need in needs:
        try:
            faults += _prompt_faults(need)
            with closing(BACKENDS.create(need.spec, **need.settings)) as backend:
                digests[need.spec] = backend.digest()
                faults += _context_faults(need, backend)
                faults += _ability_faults(need, backend.abilities())
        except (LLMError, InputError, RunError) as error:
            faults.append(f"{need.role}: {error}")
    refuse(faults)
    return digests


def refuse(missing: Iterable[str]) -> None:
    """Raise one RunError that lists what is missing; nothing where there is nothing."""
    faults = list(dict.fromkeys(missing))
    if faults:
        lines = "\n".join(f"  - {fault}" for fault in faults)
        count = "one thing is" if len(faults) == 1 else f"{len(faults)} things are"
        raise RunError(f"the run cannot start; {count} missing:\n{lines}")


def _prompt_faults(need: Need) -> list[str]:
    """What is wrong with the context that is asked for, if the longest prompt does not fit into it."""
    options = {**DEFAULTS, **need.options}
    free = room(options)
    if need.prompt <= free:
        return []
    fault = f"{need.role}: prompts of {need.spec} may take {need.prompt} tokens, {free} are free"
    return [f"{fault}; set num_ctx to {need.prompt + options['num_predict']} or more"]


def _context_faults(need: Need, backend: Backend) -> list[str]:
    """What is wrong if the model's own context is shorter than what is asked for."""
    wanted = {**DEFAULTS, **need.options}["num_ctx"]
    context = backend.context_limit()
    if context is None or wanted <= context:
        return []
    fault = f"{need.role}: {need.spec} has a context of {context} tokens, num_ctx asks for {wanted}"
    return [f"{fault}; lower num_ctx, or use a model with a longer context"]


def _ability_faults(need: Need, abilities: frozenset[str] | None) -> list[str]:
    """What a model is asked for and cannot do, as far as its server says what it can."""
    if abilities is None:
        return []
    faults = []
    if "completion" not in abilities:
        can = ", ".join(sorted(abilities)) or "nothing"
        faults.append(f"{need.role}: {need.spec} does not chat (it can do: {can}); name another model")
    if need.settings.get("think") and "thinking" not in abilities:
        faults.append(f"{need.role}: {need.spec} cannot think; leave think out, or name a model that can")
    if need.tools and "tools" not in abilities:
        faults.append(f'{need.role}: {need.spec} calls no tools; set tools to "auto" or "json"')
    return faults


def unchanged(weights: Mapping[str, str], settings_for: Callable[[str], Mapping[str, Any]]) -> None:
    """Ask every server again for the digests of its models; RunError where one is no longer that of the run.
    ``weights`` are the digests by spec, ``settings_for`` gives the keywords of a spec's backend.
    """
    for spec, before in weights.items():
        if is_served(spec):
            with closing(BACKENDS.create(spec, **settings_for(spec))) as backend:
                now = digest_of(backend, Retry(), Event())
            if now != before:
                raise other_weights(spec, before, now)
