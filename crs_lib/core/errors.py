"""The errors that a user may meet; the command line prints them without a traceback."""

from crs_lib.core.printable import printable

_LONGEST = 20_000  # characters of a message


class InputError(ValueError):
    """A value is not as expected; the text says what was given, what is expected and what to do.

    Control characters in what was given are shown as escapes.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message[:_LONGEST]))


class NoDataError(InputError):
    """The data are sound but hold nothing for this figure or table; a page says so and does without it."""


class RunError(RuntimeError):
    """A run cannot start, continue or be read. No file of the run was overwritten.

    Control characters in what was given are shown as escapes. With ``ends_run`` the error concerns all
    sessions of a run, not the one that met it: the run ends, and no session is marked as failed.
    """

    def __init__(self, message: str = "", *, ends_run: bool = False) -> None:
        super().__init__(printable(message[:_LONGEST]))
        self.ends_run = ends_run
