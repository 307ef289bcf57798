"""The two errors a user can meet on purpose; the command line prints them without a traceback."""


class InputError(ValueError):
    """Something given is not what was expected: says what was given, what was expected, what to do."""


class RunError(RuntimeError):
    """A run cannot start, go on or be read; nothing was written over."""
