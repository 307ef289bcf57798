"""Texts under ``crs_lib/prompts``: prompts for models, rendered strictly, and wordings with alternatives.

``render("movies/judge_system", lowest=1)`` fills ``movies/judge_system.txt`` (``string.Template``: names
stand as ``$name`` or ``${name}``, a dollar sign as ``$$``, braces as they are). Values are put in once
and never read as templates again, so a text that holds ``$name`` stays what it is.

``say("user", "greeting", draw)`` picks a template of a section of ``user.wording``, which lies in a study's
folder: a choice in braces ("{How about|Consider} $title?") picks one of its alternatives; every choice costs
one random draw.
"""

import contextlib
import hashlib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from string import Template as Prompt
from typing import Any

import numpy as np

from crs_lib.core import paths
from crs_lib.core.errors import InputError, unknown

_FOLDER = Path(__file__).resolve().parents[1] / "prompts"


def names() -> list[str]:
    """All prompts, sorted, as :func:`render` takes them."""
    return sorted(path.relative_to(_FOLDER).with_suffix("").as_posix() for path in _FOLDER.rglob("*.txt"))


@cache
def _prompt(name: str, folder: str) -> Prompt:
    if name not in names():
        raise unknown("prompt", name, names())
    path = _FOLDER / f"{name}.txt"
    if folder:
        own = paths.given(folder) / path.name
        path = own if own.is_file() else path
    prompt = Prompt(path.read_text(encoding="utf-8").removesuffix("\n"))
    if not prompt.is_valid():
        raise InputError(f"prompt {name!r} has a '$' that starts no name; write '$$' for a dollar sign")
    return prompt


def source(name: str, folder: str = "") -> str:
    """The text of a prompt file, without the line end that closes it, in the words of :func:`worded`.

    ``folder`` is one of a user's own prompts: ``conversation.txt`` there replaces ``cosrec/conversation``;
    what it lacks is the shipped text. Raises InputError for an unknown name or a stray dollar sign.
    """
    return _reworded(_prompt(name, folder).template, _WORDS.get())


def digest(name: str, folder: str = "") -> str:
    """Hex SHA-256 of a prompt's text: two runs with equal digests used the same words."""
    return hashlib.sha256(source(name, folder).encode()).hexdigest()


def wanted(name: str, folder: str = "") -> list[str]:
    """The names a prompt must be given, in the order in which they first occur."""
    return _prompt(name, folder).get_identifiers()


def render(name: str, folder: str = "", /, **values: str | int | float) -> str:
    """The prompt with its names filled in; ``folder`` as in :func:`source`.

    InputError for names that are missing, or given in vain (a user's own prompt may leave out what it does
    not need).
    """
    needs = wanted(name, folder)
    missing = [key for key in needs if key not in values]
    unused = [key for key in values if key not in needs]
    faults = []
    if missing:
        faults.append(f"missing: {', '.join(missing)}")
    if unused and not folder:
        faults.append(f"not in the file: {', '.join(unused)}")
    if faults:
        raise InputError(f"prompt {name!r} ({'; '.join(faults)}); it takes {', '.join(needs) or 'none'}")
    return Prompt(source(name, folder)).substitute(values)


@cache
def lists(name: str) -> Mapping[str, Any]:
    """The phrases and word lists of ``<name>.toml``, by their names."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


# Wordings: templates in sections.
_PART = re.compile(r"\{([^{}]*)\}|\$([a-z][a-z_]*)")
_BEFORE_VOWEL = re.compile(r"\b(a)(?= (?!one\b|eu|uni|us)[aeiou])", re.IGNORECASE)
_AS_WRITTEN = "title"  # the slot whose value is written as it is, at the beginning of a sentence, too
_WITH_ARTICLE = "one"  # the slot whose value follows "a" or "an"
_COMMENT_OR_BLANK = re.compile(r"^\s*(#.*)?\n", re.MULTILINE)
_HEADING = re.compile(r"^\[(.+)\]\s*$", re.MULTILINE)
_COMPLETE = "user"  # what a wording in a sub-folder lacks is taken from this one


class Slot(str):
    """The name of a value to be filled in."""


Words = tuple[tuple[str, str], ...]
Template = tuple[str | Slot | tuple["Template", ...], ...]


def compile_line(line: str) -> Template:
    """A template line as parts: literal text, slots, and choices of templates."""
    parts: list[str | Slot | tuple[Template, ...]] = []
    position = 0
    for match in _PART.finditer(line):
        choice, slot = match.groups()
        if match.start() > position:
            parts.append(line[position : match.start()])
        if choice is None:
            parts.append(Slot(slot))
        else:
            parts.append(tuple(compile_line(text) for text in choice.split("|")))
        position = match.end()
    if position < len(line):
        parts.append(line[position:])
    return tuple(parts)


_WORDS: ContextVar[Words] = ContextVar("words", default=())


@contextlib.contextmanager
def worded(words: Mapping[str, str]) -> Iterator[None]:
    """Within, prompts and wordings say some words, also several in a row, by others: "book" for "movie"."""
    token = _WORDS.set(tuple(words.items()))
    try:
        yield
    finally:
        _WORDS.reset(token)


def compiled(lines: Sequence[str], small: bool = False) -> tuple[Template, ...]:
    """Template lines compiled once, in their order; ``small`` puts their own words in small letters."""
    return _compiled(tuple(lines), small, _WORDS.get())


@cache
def _compiled(lines: tuple[str, ...], small: bool, words: Words) -> tuple[Template, ...]:
    templates = []
    for line in lines:
        text = _reworded(line, words)
        templates.append(compile_line(text.lower() if small else text))
    return tuple(templates)


@cache
def _reworded(text: str, words: Words) -> str:
    """A text in the words of :func:`worded`, with its capitals; the names of slots stay."""
    if not words:
        return text
    others = dict(words)
    longest_first = sorted(others, key=len, reverse=True)
    pattern = "|".join(re.escape(word) for word in longest_first)

    def other(match: re.Match[str]) -> str:
        word = match[0]
        replacement = others[word if word in others else word.lower()]
        return sentence(replacement) if word[0].isupper() else replacement

    return re.sub(rf"(?<![\w$])(?:{pattern})(?!\w)", other, text, flags=re.IGNORECASE)


@cache
def _wordings() -> Mapping[str, Path]:
    """The wording files by name: ``movies/voices/chatty.wording`` is "voices/chatty"."""
    files = {}
    for path in sorted(_FOLDER.rglob("*.wording")):
        name = path.relative_to(_FOLDER).with_suffix("").as_posix()
        files[name.partition("/")[2]] = path
    return files


@cache
def lines(name: str) -> Mapping[str, tuple[str, ...]]:
    """The lines of a wording file ("user", "system", "heard") by section."""
    text = _COMMENT_OR_BLANK.sub("", _wordings()[name].read_text("utf-8"))
    parts = _HEADING.split(text)
    by_section = {}
    for section, body in zip(parts[1::2], parts[2::2], strict=True):
        by_section[section] = tuple(line.strip() for line in body.strip().splitlines())
    return by_section


# The wording files of the simulated user, by voice; A is the first template set.
USER_SETS = {"A": _COMPLETE}
USER_SETS.update({name.rpartition("/")[2]: name for name in _wordings() if name.startswith("voices/")})


@cache
def vocabulary(name: str, section: str) -> frozenset[str]:
    """The words of a section of a wording file."""
    return frozenset(" ".join(lines(name)[section]).split())


def sections(name: str, small: bool = False) -> Mapping[str, tuple[Template, ...]]:
    """The lines of a wording file as templates, by section."""
    return _sections(name, small, _WORDS.get())


@cache
def _sections(name: str, small: bool, words: Words) -> Mapping[str, tuple[Template, ...]]:
    return {section: _compiled(part, small, words) for section, part in lines(name).items()}


def fill(
    templates: Sequence[Template],
    draw: np.random.Generator,
    where: str,
    small: bool = False,
    /,
    **slots: str,
) -> str:
    """A random one of some templates with random alternatives, slots filled in.

    Slots are filled as they are, "$" or "{" in a title included; a full stop behind a value that ends in a
    stop is left out ("Ring Lardner Jr."); a value that begins a sentence gets a capital, unless all is
    ``small`` or it is a title. Where a value is one item's kind (``one``), "a" becomes "an" before a vowel.
    Raises InputError, which begins with ``where``, for a slot that the template needs and the caller did not
    give.
    """
    pieces: list[str] = []
    template = templates[int(draw.random() * len(templates))]
    try:
        _fill(template, draw.random, slots, pieces, small)
    except KeyError as error:
        raise InputError(f"{where}: a template needs ${error.args[0]}") from error
    text = " ".join("".join(pieces).split())
    if _WITH_ARTICLE in slots:
        return _BEFORE_VOWEL.sub(r"\1n", text)
    return text


def _fill(
    template: Template, random: Callable[[], float], slots: Mapping[str, str], pieces: list[str], small: bool
) -> None:
    """Add the pieces of a filled template."""
    for part in template:
        before = pieces[-1][-2:] if pieces else ""
        if isinstance(part, tuple):
            _fill(part[int(random() * len(part))], random, slots, pieces, small)
        elif isinstance(part, Slot):
            value = slots[part]
            if not small and before in (". ", "! ", "? ") and part != _AS_WRITTEN:
                value = sentence(value)
            pieces.append(value)
        elif part[0] == "." and before.endswith((".", "!", "?")):
            pieces.append(part[1:])
        else:
            pieces.append(part)


def phrase(name: str, section: str, draw: np.random.Generator, *, small: bool = False, **slots: str) -> str:
    """:func:`fill` for a section of a wording file; InputError for a section without templates.

    What a wording in a sub-folder ("voices/chatty") lacks is taken from the wording "user". With ``small``
    the template's own words are in small letters; values keep their capitals.
    """
    templates = sections(name, small).get(section)
    if not templates and "/" in name:
        templates = sections(_COMPLETE, small).get(section)
    if not templates:
        raise InputError(f"{name}.wording has no templates under [{section}]")
    return fill(templates, draw, f"{name}.wording, [{section}]", small, **slots)


def say(name: str, section: str, draw: np.random.Generator, *, small: bool = False, **slots: str) -> str:
    """:func:`phrase` as a sentence, its first letter a capital unless all is ``small``."""
    text = phrase(name, section, draw, small=small, **slots)
    return text if small else sentence(text)


def sentence(text: str) -> str:
    """A text with a capital as its first letter."""
    return text[:1].upper() + text[1:]
