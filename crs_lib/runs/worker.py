"""One session and its outcome: the work of a process, a thread or a cluster's worker."""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

from crs_lib.core.errors import RunError
from crs_lib.runs.ledger import Done, Key, pack


class SessionMaker(Protocol):
    """Makes the body (a line of JSON) of a session; the same key must give the same body."""

    def __call__(self, key: Key) -> str: ...


@runtime_checkable
class Halting(Protocol):
    """A session maker that can be halted: sessions under way then fail at their next step."""

    def halt(self) -> None: ...


def chunks(todo: Sequence[Key], size: int) -> Iterator[list[Key]]:
    """The keys in order, in lists of ``size``."""
    return (list(todo[i : i + size]) for i in range(0, len(todo), size))


def attempt(maker: SessionMaker | None, key: Key) -> Done:
    """The outcome of a session: its body, or its error; an error that ends the run is raised."""
    if maker is None:
        raise RunError("the worker was not started; this is a defect, please report it")
    try:
        return Done(key, pack(maker(key)), "")
    except Exception as error:
        if isinstance(error, RunError) and error.ends_run:
            raise
        return Done(key, None, f"{type(error).__name__}: {error}")
