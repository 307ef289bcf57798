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

from crs_lib.core import paths
from crs_lib.core.errors import InputError
from crs_lib.core.registry import did_you_mean

_FOLDER = Path(__file__).resolve().parents[1] / "prompts"


def names(study: str | None = None) -> list[str]:
    """All prompts, sorted, as ``render`` takes them; with ``study`` only those of its folder."""
    found = sorted(path.relative_to(_FOLDER).with_suffix("").as_posix() for path in _FOLDER.rglob("*.txt"))
    return [name for name in found if study is None or name.startswith(f"{study}/")]


@cache
def source(name: str, folder: str = "") -> str:
    """The text of a prompt file as it is written, without the line end that closes it.

    ``folder`` is one of a user's own prompts: ``conversation.txt`` there replaces
    ``cosrec/conversation``; what it lacks is the shipped text. Raises InputError for an unknown name.
    """
    known = names()
    if name not in known:
        raise InputError(
            f"unknown prompt {name!r}{did_you_mean(name, known)} (known: {', '.join(known) or 'none'})"
        )
    own = paths.given(folder) / f"{name.rpartition('/')[2]}.txt"
    path = own if folder and own.is_file() else _FOLDER / f"{name}.txt"
    return path.read_text(encoding="utf-8").removesuffix("\n")


def digest(name: str, folder: str = "") -> str:
    """Hex SHA-256 of a prompt's text: two runs with equal digests used the same words."""
    return hashlib.sha256(source(name, folder).encode()).hexdigest()


def wanted(name: str, folder: str = "") -> list[str]:
    """The names a prompt must be given, in the order in which they first occur.

    Raises InputError for a file with a stray dollar sign.
    """
    return list(_read(name, folder).names)


class _Prompt(NamedTuple):
    template: Template
    names: tuple[str, ...]


@cache
def _read(name: str, folder: str = "") -> _Prompt:
    template = Template(source(name, folder))
    if not template.is_valid():
        raise InputError(f"prompt {name!r} has a '$' that starts no name; write '$$' for a dollar sign")
    return _Prompt(template, tuple(template.get_identifiers()))


def render(name: str, folder: str = "", /, **values: str | int | float) -> str:
    """The prompt with its names filled in; ``folder`` as in :func:`source`.

    Raises InputError naming what is missing, and what was given but stands nowhere in a shipped file; a
    user's own prompt may leave out what it does not need.
    """
    template, needs = _read(name, folder)
    missing = [key for key in needs if key not in values]
    unused = [] if folder else [key for key in values if key not in needs]
    if missing or unused:
        said = [f"missing: {', '.join(missing)}"] if missing else []
        said += [f"not in the file: {', '.join(unused)}"] if unused else []
        raise InputError(
            f"prompt {name!r} was given other names than it holds ({'; '.join(said)}); "
            f"it takes {', '.join(needs) or 'none'}"
        )
    return template.substitute(values)
