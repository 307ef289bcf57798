r"""The errors that a user may meet, and foreign text made fit to be printed.

The command line prints an error without a traceback. What steers a terminal is shown as an escape
(``\x1b``), never obeyed; what may be secret in an address is not shown.
"""

import difflib
import itertools
import logging
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from crs_lib.core.text import printable, without_secrets

_LONGEST = 20_000  # characters of a message
_SEARCHED = 5_000  # names among which near ones are looked for
_FEW = 0.5  # the share of names below which a join warns
_LOG = logging.getLogger("crs_lib")


class _OneLineError(Exception):
    """An error that IPython shows without a traceback, by its protocol ``_render_traceback_``."""

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(without_secrets(message[:_LONGEST])))

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class InputError(_OneLineError, ValueError):
    """A value is not as expected; the text says what was given, what is expected and what to do."""


class RunError(_OneLineError, RuntimeError):
    """A run cannot start, continue or be read; none of its files was overwritten.

    With ``ends_run`` the error concerns all sessions of a run: the run ends, and no session is marked failed.
    """

    def __init__(self, message: str = "", *, ends_run: bool = False) -> None:
        super().__init__(message)
        self.ends_run = ends_run


class NoDataError(InputError):
    """The data are sound but hold nothing for this figure or table; a page says so and does without it."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``"; did you mean 'tracker'?"`` for a near miss, else an empty string."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    if not near:
        return ""
    return f"; did you mean {near[0]!r}?"


def unknown(kind: str, name: object, names: Iterable[str]) -> InputError:
    """The error for a name that is none of ``names``: it suggests a near one, and lists all."""
    choices = list(names)
    hint = did_you_mean(str(name), choices)
    listed = ", ".join(choices) or "none"
    return InputError(f"unknown {kind} {name!r}{hint} (known: {listed})")


class Match(NamedTuple):
    """How many of ``n`` names the other side of a join has, in words that end a command."""

    matched: int
    n: int
    sentence: str


def match(what: str, names: Iterable[str], known: Collection[str], cure: str = "") -> Match:
    """Count the names that the other side of a join knows (:func:`joined`), each once."""
    distinct = list(dict.fromkeys(names))
    strangers = [name for name in distinct if name not in known]
    return joined(what, len(distinct) - len(strangers), strangers, known, cure)


def joined(what: str, matched: int, strangers: Sequence[str], known: Iterable[str], cure: str = "") -> Match:
    """The account of a join of ``what`` ("topics of run 'a'"): how many match, and how many are strangers.

    Raises InputError where there are strangers alone; logs a warning where fewer than half match. Both name
    three strangers, each with the nearest known name, and the ``cure``.
    """
    n = matched + len(strangers)
    sentence = f"{what}: {matched:,} of {n:,} match"
    if matched >= _FEW * n:
        return Match(matched, n, sentence)
    candidates = list(itertools.islice(known, _SEARCHED))
    examples = []
    for name in strangers[:3]:
        near = difflib.get_close_matches(name, candidates, n=1, cutoff=0)
        examples.append(f"{name!r} (nearest: {near[0]!r})" if near else repr(name))
    parts = [sentence, f"unknown are {', '.join(examples)}", cure]
    sentence = "; ".join(filter(None, parts))
    if not matched:
        raise InputError(sentence)
    _LOG.warning(sentence)
    return Match(matched, n, sentence)
