"""Checks before the first session: servers reachable, models present, contexts long enough."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from threading import Event
from typing import Any, NamedTuple

from crs_lib.core.errors import InputError, RunError
from crs_lib.llm.base import BACKENDS, DEFAULTS, LLMError, other_weights, room
from crs_lib.llm.client import Retry, digest_of


class Need(NamedTuple):
    """A model that a run will use: its role, options, and longest prompt in tokens (``tokens_at_most``; 0 for
    not known yet). ``settings`` are those of the backend (host, …).
    """

    role: str
    spec: str
    options: Mapping[str, Any] = {}
    prompt: int = 0
    settings: Mapping[str, Any] = {}


def preflight(needs: Iterable[Need]) -> dict[str, str]:
    """The digests by spec of models that can be used; else one RunError with all that is missing."""
    digests: dict[str, str] = {}
    missing: list[str] = []
    for need in needs:
        try:
            digests[need.spec] = _digest(need, missing)
        except (LLMError, InputError, RunError) as error:
            missing.append(f"{need.role}: {error}")
    refuse(missing)
    return digests


def refuse(missing: Iterable[str]) -> None:
    """Raise one RunError that lists what is missing; nothing where there is nothing."""
    if found := list(dict.fromkeys(missing)):
        lines = "\n".join(f"  - {line}" for line in found)
        count = "one thing is" if len(found) == 1 else f"{len(found)} things are"
        raise RunError(f"the run cannot start; {count} missing:\n{lines}")


def _digest(need: Need, missing: list[str]) -> str:
    """The digest of a model's weights; what it lacks is added to ``missing``."""
    with closing(BACKENDS.create(need.spec, **need.settings)) as backend:
        options = {**DEFAULTS, **need.options}
        free, wanted = room(options), options["num_ctx"]
        if need.prompt > free:
            told = f"{need.role}: prompts of {need.spec} may take {need.prompt} tokens, {free} are free"
            missing.append(f"{told}; set num_ctx to {need.prompt + options['num_predict']} or more")
        digest, context = backend.digest(), backend.context_limit()
        if context is not None and wanted > context:
            told = f"{need.role}: {need.spec} has a context of {context} tokens, num_ctx asks for {wanted}"
            missing.append(f"{told}; lower num_ctx, or use a model with a longer context")
        return digest


def unchanged(weights: Mapping[str, str], settings_for: Callable[[str], Mapping[str, Any]]) -> None:
    """Ask every server again for the digests of its models; RunError where one is no longer that of the run.
    ``weights`` are the digests by spec, ``settings_for`` gives the keywords of a spec's backend.
    """
    for spec, before in weights.items():
        if BACKENDS.get(spec).facts.get("kind") == "server":
            with closing(BACKENDS.create(spec, **settings_for(spec))) as backend:
                now = digest_of(backend, Retry(), Event())
            if now != before:
                raise other_weights(spec, before, now)
