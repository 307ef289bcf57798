"""Templates with slots and alternatives: "{How about|Consider} $title?", and the files that hold them.

A choice in braces picks one of its alternatives, ``$name`` is filled in; every choice costs one random draw.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from crs_lib.core.errors import InputError

_PART = re.compile(r"\{([^{}]*)\}|\$([a-z][a-z_]*)")

# The wording files of the simulated user, by template set.
USER_SETS = {"A": "user", "B": "user_b", "C": "user_c"}
_STOPS, _SENTENCE_ENDS = frozenset(".!?"), frozenset((". ", "! ", "? "))
ONE_FILM = "one"  # the slot that holds the kind of one film: "comedy movie"
_BEFORE_VOWEL = re.compile(r"\b(a)(?= (?!one\b|eu|uni|us)[aeiou])", re.I)
TITLE = "title"  # the slot whose value is written as it is, at the beginning of a sentence, too


class Slot(str):
    """The name of a value to be filled in."""

    __slots__ = ()


Template = tuple[str | Slot | tuple["Template", ...], ...]


def compile_line(line: str) -> Template:
    """A template line as parts: literal text, slots, and choices of templates."""
    parts: list[Any] = []
    position = 0
    for found in _PART.finditer(line):
        if found.start() > position:
            parts.append(line[position : found.start()])
        if found.group(2):
            parts.append(Slot(found.group(2)))
        else:
            parts.append(tuple(compile_line(option) for option in found.group(1).split("|")))
        position = found.end()
    if position < len(line):
        parts.append(line[position:])
    return tuple(parts)


@cache
def compiled(lines: tuple[str, ...]) -> tuple[Template, ...]:
    """Template lines compiled once, in their order."""
    return tuple(compile_line(line) for line in lines)


@cache
def sections(name: str) -> Mapping[str, tuple[Template, ...]]:
    """The templates of a wording file ("user", "user_b", "system") by section; InputError if malformed."""
    text = (resources.files("crs_lib") / "prompts" / "movies" / f"{name}.wording").read_text("utf-8")
    found: dict[str, list[Template]] = {}
    current: list[Template] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if stripped.startswith("[") and stripped.endswith("]"):
            current = found.setdefault(stripped[1:-1], [])
        elif current is None:
            raise InputError(f"{name}.wording, line {number}: a template before the first [section]")
        else:
            current.append(compile_line(stripped))
    return {section: tuple(lines) for section, lines in found.items()}


def fill(templates: Sequence[Template], draw: np.random.Generator, where: str, **slots: str) -> str:
    """A random one of some templates with random alternatives, slots filled in.

    Slots are filled as they are, "$" or "{" in a title included; a full stop behind a value that ends in a
    stop is left out ("Ring Lardner Jr."), and a value that begins a sentence gets a capital, but for titles.
    Where a value is one film's kind (``one``), "a" becomes "an" before a vowel.
    Raises InputError, which begins with ``where``, for a slot that the template needs and the caller did not
    give.
    """
    out: list[str] = []
    random = draw.random
    try:
        _fill(templates[int(random() * len(templates))], random, slots, out)
    except KeyError as error:
        raise InputError(f"{where}: a template needs ${error.args[0]}") from error
    text = " ".join("".join(out).split())
    return _BEFORE_VOWEL.sub(r"\1n", text) if ONE_FILM in slots else text


def phrase(name: str, section: str, draw: np.random.Generator, **slots: str) -> str:
    """:func:`fill` for a section of a wording file; InputError for an unknown section, too.

    A section that another set of the user's words lacks is that of "user".
    """
    return fill(_lines(name, section), draw, f"{name}.wording, [{section}]", **slots)


def _lines(name: str, section: str) -> tuple[Template, ...]:
    usual = sections("user") if name in USER_SETS.values() else {}
    lines = sections(name).get(section) or usual.get(section)
    if not lines:
        raise InputError(f"{name}.wording has no templates under [{section}]")
    return lines


def has(name: str, section: str) -> bool:
    """Whether a wording file has templates of its own under a section."""
    return section in sections(name)


@cache
def lowered(templates: tuple[Template, ...]) -> tuple[Template, ...]:
    """Templates whose own words are in small letters; values keep their capitals."""
    return tuple(_lowered(template) for template in templates)


def _lowered(template: Template) -> Template:
    return tuple(
        lowered(part) if isinstance(part, tuple) else part if part.__class__ is Slot else part.lower()
        for part in template
    )


def sentence(text: str) -> str:
    """A text with a capital as its first letter."""
    return text[:1].upper() + text[1:]


def _fill(template: Template, random: Callable[[], float], slots: Mapping[str, str], out: list[str]) -> None:
    for part in template:
        if isinstance(part, tuple):
            _fill(part[int(random() * len(part))], random, slots, out)
        elif part.__class__ is Slot:
            value = slots[part]
            begins = out and out[-1][-2:] in _SENTENCE_ENDS and part != TITLE
            out.append(sentence(value) if begins else value)
        else:
            doubled = part[0] == "." and out and out[-1][-1:] in _STOPS
            out.append(part[1:] if doubled else part)


def say_small(name: str, section: str, draw: np.random.Generator, **slots: str) -> str:
    """:func:`phrase` in small letters; values keep their capitals."""
    return fill(lowered(_lines(name, section)), draw, f"{name}.wording, [{section}]", **slots)


def say(name: str, section: str, draw: np.random.Generator, **slots: str) -> str:
    """:func:`phrase` as a sentence: its first letter a capital."""
    return sentence(phrase(name, section, draw, **slots))
