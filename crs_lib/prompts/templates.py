"""Prompts are text files, rendered strictly: a missing name and an unused name are both errors.

``render("movies/judge_system", lowest=1)`` fills ``movies/judge_system.txt`` (``string.Template``: names
stand as ``$name`` or ``${name}``, a dollar sign as ``$$``, braces as they are). Values are put in once
and never read as templates again, so a text that holds ``$name`` stays what it is.
"""

import hashlib
from functools import cache
from pathlib import Path
from string import Template
from typing import NamedTuple

from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean

_FOLDER = Path(__file__).resolve().parent


def names(study: str | None = None) -> list[str]:
    """All prompts, sorted, as ``render`` takes them; with ``study`` only those of its folder."""
    found = sorted(path.relative_to(_FOLDER).with_suffix("").as_posix() for path in _FOLDER.rglob("*.txt"))
    return [name for name in found if study is None or name.startswith(f"{study}/")]


@cache
def source(name: str) -> str:
    """The text of a prompt file as it is written, without the line end that closes it.

    Raises InputError for an unknown name.
    """
    known = names()
    if name not in known:
        raise InputError(
            f"unknown prompt {name!r}{did_you_mean(name, known)} (known: {', '.join(known) or 'none'})"
        )
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")


def digest(name: str) -> str:
    """Hex SHA-256 of a prompt's text: two runs with equal digests used the same words."""
    return hashlib.sha256(source(name).encode()).hexdigest()


def wanted(name: str) -> list[str]:
    """The names a prompt must be given, in the order in which they first occur.

    Raises InputError for a file with a stray dollar sign.
    """
    return list(_read(name).names)


class _Prompt(NamedTuple):
    template: Template
    names: tuple[str, ...]


@cache
def _read(name: str) -> _Prompt:
    template = Template(source(name))
    if not template.is_valid():
        raise InputError(f"prompt {name!r} has a '$' that starts no name; write '$$' for a dollar sign")
    return _Prompt(template, tuple(template.get_identifiers()))


def render(name: str, **values: str | int | float) -> str:
    """The prompt with its names filled in.

    Raises InputError naming what is missing, and what was given but stands nowhere in the file.
    """
    template, needs = _read(name)
    missing = [key for key in needs if key not in values]
    unused = [key for key in values if key not in needs]
    if missing or unused:
        said = [f"missing: {', '.join(missing)}"] if missing else []
        said += [f"not in the file: {', '.join(unused)}"] if unused else []
        raise InputError(
            f"prompt {name!r} was given other names than it holds ({'; '.join(said)}); "
            f"it takes {', '.join(needs) or 'none'}"
        )
    return template.substitute(values)
