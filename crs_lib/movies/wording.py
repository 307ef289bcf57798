"""Words for plans: template files with alternatives, and catalogue wishes as noun phrases."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from string import Template

import numpy as np

from crs_lib.errors import InputError
from crs_lib.text import listing

_CHOICE = re.compile(r"\{([^{}]*)\}")
_LOWER = ("genre",)
_ORDER = ("actor", "director", "writer", "language", "year")


@cache
def sections(name: str) -> Mapping[str, tuple[str, ...]]:
    """The templates of a wording file by section ("user" or "system"); InputError if it is malformed."""
    text = (resources.files("crs_lib") / "prompts" / "movies" / f"{name}.wording").read_text("utf-8")
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if stripped.startswith("[") and stripped.endswith("]"):
            current = found.setdefault(stripped[1:-1], [])
        elif current is None:
            raise InputError(f"{name}.wording, line {number}: a template before the first [section]")
        else:
            current.append(stripped)
    return {section: tuple(lines) for section, lines in found.items()}


def say(name: str, section: str, draw: np.random.Generator, **slots: str) -> str:
    """One sentence of a section: a random template, random alternatives, slots filled in.

    Slots are filled last and once, so that "$" or "{" in a title stay as they are. Raises InputError
    for an unknown section or a slot that the template needs and the caller did not give.
    """
    lines = sections(name).get(section)
    if not lines:
        raise InputError(f"{name}.wording has no templates under [{section}]")
    line = lines[int(draw.integers(len(lines)))]
    while "{" in line:
        line = _CHOICE.sub(lambda m: _pick(m.group(1).split("|"), draw), line)
    try:
        filled = Template(" ".join(line.split())).substitute(slots)
    except (KeyError, ValueError) as error:
        raise InputError(f"{name}.wording, [{section}]: template {line!r} needs {error}") from error
    return _capital(filled)


def _pick(options: Sequence[str], draw: np.random.Generator) -> str:
    return options[int(draw.integers(len(options)))]


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def wish(wishes: Mapping[str, str], draw: np.random.Generator) -> str:
    """Wishes as one noun phrase: "comedy films with Buster Keaton in English".

    An empty mapping gives "good films".
    """
    noun = _pick(sections("user")["noun"], draw)
    if not wishes:
        return f"good {noun}"
    genre = wishes.get("genre")
    parts = [f"{genre.lower()} {noun}" if genre else noun]
    for field in _ORDER:
        if field in wishes:
            phrase = say("user", f"phrase_{field}", draw, value=wishes[field])
            parts.append(phrase[:1].lower() + phrase[1:])
    return " ".join(parts)


def bridge(field: str, value: str, draw: np.random.Generator) -> str:
    """A bridge value as it is named in passing: "the director Jane Campion"."""
    phrase = say("user", f"bridge_{field}", draw, value=value)
    return phrase if phrase.startswith(value) else phrase[:1].lower() + phrase[1:]


def names(values: Sequence[str], limit: int = 3) -> str:
    """At most ``limit`` values as a list in words."""
    return listing(values[:limit])
