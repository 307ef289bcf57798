"""The two errors that a user may meet; the command line prints them without a traceback."""


class InputError(ValueError):
    """A value is not as expected; the text says what was given, what is expected and what to do."""


class RunError(RuntimeError):
    """A run cannot start, continue or be read. No file of the run was overwritten."""
