"""One session and its outcome: what a process, a thread or a cluster does with a key."""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from crs_lib.core.errors import RunError
from crs_lib.runs.ledger import Done, Key, pack


class SessionMaker(Protocol):
    """Makes the body (a line of JSON) of one session; must be reproducible from the key alone."""

    def __call__(self, key: Key) -> str: ...


@runtime_checkable
class Halting(Protocol):
    """A session maker that can be told to leave off: sessions under way then fail at their next step."""

    def halt(self) -> None: ...


def chunks(todo: Sequence[Key], size: int) -> Iterator[list[Key]]:
    """The keys in order, in lists of so many."""
    return (list(todo[i : i + size]) for i in range(0, len(todo), size))


def attempt(maker: SessionMaker | None, key: Key) -> Done:
    """One session's outcome: its body, or the error that ended it."""
    if maker is None:
        raise RunError("the worker was not started; this is a defect, please report it")
    try:
        return Done(key, pack(maker(key)), "")
    except Exception as error:
        return Done(key, None, f"{type(error).__name__}: {error}")
