# ruff: noqa: N818  -- the names are the words of the log; all of them are LLMErrors
"""Failures of a program, a class each, in the words of the call log. None of them is tried again."""

from crs_lib.llm.errors import LLMError


class WrongAnswer(LLMError):
    """The answer breaks the contract; the text names the field that is wrong and what was expected."""

    kind = "wrong answer"


class Crashed(LLMError):
    """The program ended, or raised, before it answered."""

    kind = "crashed"


class TooSlow(LLMError):
    """The program did not answer within the time-out."""

    kind = "too slow"


class NotStarted(LLMError):
    """The program cannot be started: no such command, module or class."""

    kind = "not started"
