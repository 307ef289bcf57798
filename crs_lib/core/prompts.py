"""Texts under ``crs_lib/prompts``: prompts for models, rendered strictly, and wordings with alternatives.

``render("movies/judge_system", lowest=1)`` fills ``movies/judge_system.txt`` (``string.Template``: names
stand as ``$name`` or ``${name}``, a dollar sign as ``$$``, braces as they are). Values are put in once
and never read as templates again, so a text that holds ``$name`` stays what it is.

``say("user", "greeting", draw)`` picks a template of a section of ``movies/user.wording``: a choice in braces
("{How about|Consider} $title?") picks one of its alternatives; every choice costs one random draw.
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
    own = paths.given(folder) / f"{name.rpartition('/')[2]}.txt"
    path = own if folder and own.is_file() else _FOLDER / f"{name}.txt"
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
    """The prompt with its names filled in; ``folder`` as in :func:`source`. InputError for names that are
    missing, or given in vain (a user's own prompt may leave out what it does not need).
    """
    needs = wanted(name, folder)
    missing = [key for key in needs if key not in values]
    unused = [] if folder else [key for key in values if key not in needs]
    if missing or unused:
        found = {"missing": missing, "not in the file": unused}
        wrong = "; ".join(f"{word}: {', '.join(keys)}" for word, keys in found.items() if keys)
        raise InputError(f"prompt {name!r} ({wrong}); it takes {', '.join(needs) or 'none'}")
    return Prompt(source(name, folder)).substitute(values)


@cache
def lists(name: str) -> Mapping[str, Any]:
    """The phrases and word lists of ``<name>.toml``, by their names."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


# The wording files of the simulated user, by voice; A is the first template set.
_FOUND = sorted((_FOLDER / "movies" / "voices").glob("*.wording"))
USER_SETS = {"A": "user"} | {path.stem: f"voices/{path.stem}" for path in _FOUND}
_PART = re.compile(r"\{([^{}]*)\}|\$([a-z][a-z_]*)")
_BEFORE_VOWEL = re.compile(r"\b(a)(?= (?!one\b|eu|uni|us)[aeiou])", re.I)
_TITLE = "title"  # the slot whose value is written as it is, at the beginning of a sentence, too


class _Slot(str):
    """The name of a value to be filled in."""


_Words = tuple[tuple[str, str], ...]
_Draw = np.random.Generator
Template = tuple[str | _Slot | tuple["Template", ...], ...]


def compile_line(line: str) -> Template:
    """A template line as parts: literal text, slots, and choices of templates."""
    parts: list[Any] = []
    position = 0
    for found in _PART.finditer(line):
        choice, slot = found.groups()
        parts += [line[position : found.start()]] if found.start() > position else []
        parts.append(_Slot(slot) if choice is None else tuple(map(compile_line, choice.split("|"))))
        position = found.end()
    return tuple(parts + ([line[position:]] if position < len(line) else []))


_WORDS: ContextVar[_Words] = ContextVar("words", default=())


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
def _compiled(lines: tuple[str, ...], small: bool, words: _Words) -> tuple[Template, ...]:
    texts = (_reworded(line, words) for line in lines)
    return tuple(compile_line(text.lower() if small else text) for text in texts)


@cache
def _reworded(text: str, words: _Words) -> str:
    """A text in the words of :func:`worded`, with its capitals; the names of slots stay."""
    if not words:
        return text
    others = dict(words)
    known = "|".join(map(re.escape, sorted(others, key=len, reverse=True)))

    def other(found: re.Match[str]) -> str:
        word = others[found[0] if found[0] in others else found[0].lower()]
        return sentence(word) if found[0][0].isupper() else word

    return re.sub(rf"(?<![\w$])(?:{known})(?!\w)", other, text, flags=re.I)


@cache
def lines(name: str) -> Mapping[str, tuple[str, ...]]:
    """The lines of a wording file ("user", "system", "heard") by section."""
    text = (_FOLDER / "movies" / f"{name}.wording").read_text("utf-8")
    parts = re.split(r"^\[(.+)\]\s*$", re.sub(r"^\s*(#.*)?\n", "", text, flags=re.M), flags=re.M)
    bodies = (tuple(map(str.strip, body.strip().splitlines())) for body in parts[2::2])
    return dict(zip(parts[1::2], bodies, strict=True))


@cache
def vocabulary(name: str, section: str) -> frozenset[str]:
    """The words of a section of a wording file."""
    return frozenset(" ".join(lines(name)[section]).split())


def sections(name: str, small: bool = False) -> Mapping[str, tuple[Template, ...]]:
    """The lines of a wording file as templates, by section."""
    return _sections(name, small, _WORDS.get())


@cache
def _sections(name: str, small: bool, _: _Words) -> Mapping[str, tuple[Template, ...]]:
    return {section: compiled(part, small) for section, part in lines(name).items()}


def fill(templates: Sequence[Template], draw: _Draw, where: str, small: bool = False, /, **slots: str) -> str:
    """A random one of some templates with random alternatives, slots filled in. Slots are filled as they are,
    "$" or "{" in a title included; a full stop behind a value that ends in a stop is left out ("Ring Lardner
    Jr."); a value that begins a sentence gets a capital, unless all is ``small`` or it is a title. Where a
    value is one film's kind (``one``), "a" becomes "an" before a vowel. Raises InputError, which begins with
    ``where``, for a slot that the template needs and the caller did not give.
    """
    out: list[str] = []
    try:
        _fill(templates[int(draw.random() * len(templates))], draw.random, slots, out, small)
    except KeyError as error:
        raise InputError(f"{where}: a template needs ${error.args[0]}") from error
    text = " ".join("".join(out).split())
    return _BEFORE_VOWEL.sub(r"\1n", text) if "one" in slots else text


def _fill(
    template: Template, random: Callable[[], float], slots: Mapping[str, str], out: list[str], small: bool
) -> None:
    for part in template:
        before = out[-1][-2:] if out else ""
        if isinstance(part, tuple):
            _fill(part[int(random() * len(part))], random, slots, out, small)
        elif part.__class__ is _Slot:
            begins = not small and before in (". ", "! ", "? ") and part != _TITLE
            out.append(sentence(slots[part]) if begins else slots[part])
        else:
            doubled = part[0] == "." and before.endswith((".", "!", "?"))
            out.append(part[1:] if doubled else part)


def phrase(name: str, section: str, draw: _Draw, *, small: bool = False, **slots: str) -> str:
    """:func:`fill` for a section of a wording file, or of "user" where a voice lacks it; InputError for none.
    With ``small`` the template's own words are in small letters; values keep their capitals.
    """
    own, usual = sections(name, small), "user" if name in USER_SETS.values() else name
    templates = own.get(section) or sections(usual, small).get(section)
    if not templates:
        raise InputError(f"{name}.wording has no templates under [{section}]")
    return fill(templates, draw, f"{name}.wording, [{section}]", small, **slots)


def say(name: str, section: str, draw: _Draw, *, small: bool = False, **slots: str) -> str:
    """:func:`phrase` as a sentence, its first letter a capital unless all is ``small``."""
    text = phrase(name, section, draw, small=small, **slots)
    return text if small else sentence(text)


def sentence(text: str) -> str:
    """A text with a capital as its first letter."""
    return text[:1].upper() + text[1:]
