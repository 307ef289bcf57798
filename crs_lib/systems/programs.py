"""The ways to reach a program, by name: one registered class each, made for one program."""

from collections.abc import Mapping
from typing import Any, Protocol

from crs_lib.core.registry import Registry


class Channel(Protocol):
    """A line to a program: one request at a time, or many at once where the way's fact ``shared`` says so."""

    def ask(self, request: Mapping[str, Any]) -> object:
        """The program's answer as a JSON value; raises LLMError. After a failure the channel is given up."""
        ...

    def usable(self) -> bool:
        """Whether the channel can take another request."""
        ...

    def halt(self) -> None:
        """Let a request under way, of another thread, come to an end at once where that is possible."""
        ...

    def close(self) -> None:
        """End the program, or give back connections."""
        ...


# Facts of a row: ``check`` reads the argument (InputError), ``ready`` says whether the program can be reached
# (raises LLMError), ``identity`` names the program's version, ``shared`` is true where one channel serves all
# threads, and ``apart`` where sessions wait for another process.
PROGRAMS: Registry[Channel] = Registry("program")
