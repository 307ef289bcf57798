r"""The two errors that a user may meet, and foreign text made fit to be printed.

The command line prints an error without a traceback. What steers a terminal is shown as an escape
(``\x1b``), never obeyed.
"""

import difflib
import re
from collections.abc import Iterable

_LONGEST = 20_000  # characters of a message
# C0 and C1 controls but tab and line feed, line separators, bidirectional marks, lone surrogates.
_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with control characters, bidirectional marks and lone surrogates as escapes."""
    return _STEERS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str, limit: int = 1_000) -> str:
    r"""``printable`` on one line of at most ``limit`` characters; a line break is shown as ``\n``."""
    plain = printable(text[: limit + 1]).replace("\n", "\\n")
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


class _OneLineError(Exception):
    """An error that IPython shows without a traceback, by its protocol ``_render_traceback_``."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class InputError(_OneLineError, ValueError):
    """A value is not as expected; the text says what was given, what is expected and what to do."""

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message[:_LONGEST]))


class RunError(_OneLineError, RuntimeError):
    """A run cannot start, continue or be read. No file of the run was overwritten.

    With ``ends_run`` the error concerns all sessions of a run, not the one that met it: the run ends, and no
    session is marked as failed.
    """

    def __init__(self, message: str = "", *, ends_run: bool = False) -> None:
        super().__init__(printable(message[:_LONGEST]))
        self.ends_run = ends_run


class NoDataError(InputError):
    """The data are sound but hold nothing for this figure or table; a page says so and does without it."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """``"; did you mean 'tracker'?"`` for a near miss, else an empty string."""
    close = difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown(kind: str, given: object, known: Iterable[str]) -> InputError:
    """The error for a name that is none of the known: it suggests a near one, and lists all."""
    names = list(known)
    hint = did_you_mean(str(given), names)
    return InputError(f"unknown {kind} {given!r}{hint} (known: {', '.join(names) or 'none'})")
