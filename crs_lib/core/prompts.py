"""Texts under ``crs_lib/prompts``: prompts for models, rendered strictly, and wordings with alternatives.

``render("movies/judge_system", lowest=1)`` fills ``movies/judge_system.txt`` (``string.Template``: names
stand as ``$name`` or ``${name}``, a dollar sign as ``$$``, braces as they are). Values are put in once
and never read as templates again, so a text that holds ``$name`` stays what it is.

``say("user", "greeting", draw)`` picks a template of a section of ``movies/user.wording``: a choice in braces
("{How about|Consider} $title?") picks one of its alternatives; every choice costs one random draw.
"""

import hashlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Template as Prompt
from typing import Any

import numpy as np

from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean

_FOLDER = Path(__file__).resolve().parents[1] / "prompts"


def names() -> list[str]:
    """All prompts, sorted, as :func:`render` takes them."""
    return sorted(path.relative_to(_FOLDER).with_suffix("").as_posix() for path in _FOLDER.rglob("*.txt"))


@cache
def source(name: str, folder: str = "") -> str:
    """The text of a prompt file as it is written, without the line end that closes it.

    ``folder`` is one of a user's own prompts: ``conversation.txt`` there replaces
    ``cosrec/conversation``; what it lacks is the shipped text. Raises InputError for an unknown name.
    """
    if name not in names():
        raise InputError(
            f"unknown prompt {name!r}{did_you_mean(name, names())} (known: {', '.join(names()) or 'none'})"
        )
    own = paths.given(folder) / f"{name.rpartition('/')[2]}.txt"
    path = own if folder and own.is_file() else _FOLDER / f"{name}.txt"
    return path.read_text(encoding="utf-8").removesuffix("\n")


def digest(name: str, folder: str = "") -> str:
    """Hex SHA-256 of a prompt's text: two runs with equal digests used the same words."""
    return hashlib.sha256(source(name, folder).encode()).hexdigest()


@cache
def wanted(name: str, folder: str = "") -> list[str]:
    """The names a prompt must be given, in the order in which they first occur.

    Raises InputError for a file with a stray dollar sign.
    """
    return _prompt(name, folder).get_identifiers()


@cache
def _prompt(name: str, folder: str = "") -> Prompt:
    prompt = Prompt(source(name, folder))
    if not prompt.is_valid():
        raise InputError(f"prompt {name!r} has a '$' that starts no name; write '$$' for a dollar sign")
    return prompt


def render(name: str, folder: str = "", /, **values: str | int | float) -> str:
    """The prompt with its names filled in; ``folder`` as in :func:`source`.

    Raises InputError naming what is missing, and what was given but stands nowhere in a shipped file; a
    user's own prompt may leave out what it does not need.
    """
    needs = wanted(name, folder)
    missing = [key for key in needs if key not in values]
    unused = [] if folder else [key for key in values if key not in needs]
    if missing or unused:
        said = [f"missing: {', '.join(missing)}"] if missing else []
        said += [f"not in the file: {', '.join(unused)}"] if unused else []
        raise InputError(
            f"prompt {name!r} was given other names than it holds ({'; '.join(said)}); "
            f"it takes {', '.join(needs) or 'none'}"
        )
    return _prompt(name, folder).substitute(values)


@cache
def lists(name: str) -> Mapping[str, Any]:
    """The phrases and word lists of ``<name>.toml``, by their names."""
    found: Mapping[str, Any] = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return found


# The wording files of the simulated user, by template set.
USER_SETS = {"A": "user", "B": "user_b", "C": "user_c"}
_PART = re.compile(r"\{([^{}]*)\}|\$([a-z][a-z_]*)")
_STOPS, _SENTENCE_ENDS = frozenset(".!?"), frozenset((". ", "! ", "? "))
_BEFORE_VOWEL = re.compile(r"\b(a)(?= (?!one\b|eu|uni|us)[aeiou])", re.I)
_ONE_FILM = "one"  # the slot that holds the kind of one film: "comedy movie"
_TITLE = "title"  # the slot whose value is written as it is, at the beginning of a sentence, too


class Slot(str):
    """The name of a value to be filled in."""

    __slots__ = ()


Template = tuple[str | Slot | tuple["Template", ...], ...]


def compile_line(line: str) -> Template:
    """A template line as parts: literal text, slots, and choices of templates."""
    parts: list[Any] = []
    position = 0
    for found in _PART.finditer(line):
        parts += [line[position : found.start()]] if found.start() > position else []
        choice = found.group(1)
        parts.append(Slot(found.group(2)) if choice is None else tuple(map(compile_line, choice.split("|"))))
        position = found.end()
    return tuple(parts + ([line[position:]] if position < len(line) else []))


@cache
def compiled(lines: tuple[str, ...]) -> tuple[Template, ...]:
    """Template lines compiled once, in their order."""
    return tuple(map(compile_line, lines))


@cache
def sections(name: str) -> Mapping[str, tuple[Template, ...]]:
    """The templates of a wording file ("user", "user_b", "system") by section; InputError if malformed."""
    sections: dict[str, list[Template]] = {}
    current: list[Template] | None = None
    text = (_FOLDER / "movies" / f"{name}.wording").read_text("utf-8")
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            current = sections.setdefault(line[1:-1], [])
        elif current is None:
            raise InputError(f"{name}.wording, line {number}: a template before the first [section]")
        else:
            current.append(compile_line(line))
    return {section: tuple(lines) for section, lines in sections.items()}


def has(name: str, section: str) -> bool:
    """Whether a wording file has templates of its own under a section."""
    return section in sections(name)


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
    return _BEFORE_VOWEL.sub(r"\1n", text) if _ONE_FILM in slots else text


def _fill(template: Template, random: Callable[[], float], slots: Mapping[str, str], out: list[str]) -> None:
    for part in template:
        if isinstance(part, tuple):
            _fill(part[int(random() * len(part))], random, slots, out)
        elif part.__class__ is Slot:
            value = slots[part]
            begins = out and out[-1][-2:] in _SENTENCE_ENDS and part != _TITLE
            out.append(sentence(value) if begins else value)
        else:
            doubled = part[0] == "." and out and out[-1][-1:] in _STOPS
            out.append(part[1:] if doubled else part)


@cache
def lowered(templates: tuple[Template, ...]) -> tuple[Template, ...]:
    """Templates whose own words are in small letters; values keep their capitals."""
    return tuple(
        tuple(
            lowered(part) if isinstance(part, tuple) else part if part.__class__ is Slot else part.lower()
            for part in template
        )
        for template in templates
    )


def phrase(name: str, section: str, draw: np.random.Generator, **slots: str) -> str:
    """:func:`fill` for a section of a wording file; InputError for an unknown section, too.

    A section that another set of the user's words lacks is that of "user".
    """
    return fill(_templates(name, section), draw, f"{name}.wording, [{section}]", **slots)


def say_small(name: str, section: str, draw: np.random.Generator, **slots: str) -> str:
    """:func:`phrase` in small letters; values keep their capitals."""
    return fill(lowered(_templates(name, section)), draw, f"{name}.wording, [{section}]", **slots)


def say(name: str, section: str, draw: np.random.Generator, **slots: str) -> str:
    """:func:`phrase` as a sentence: its first letter a capital."""
    return sentence(phrase(name, section, draw, **slots))


def _templates(name: str, section: str) -> tuple[Template, ...]:
    usual = sections("user") if name in USER_SETS.values() else {}
    templates = sections(name).get(section) or usual.get(section)
    if not templates:
        raise InputError(f"{name}.wording has no templates under [{section}]")
    return templates


def sentence(text: str) -> str:
    """A text with a capital as its first letter."""
    return text[:1].upper() + text[1:]
