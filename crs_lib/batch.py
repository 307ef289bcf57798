"""Many sessions: the same work on one process, on several, resumed where it stopped.

What a session is does not depend on who does it: workers get keys and return bodies, one process
writes them to the ledger, in batches.
"""

import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Protocol

from crs_lib.errors import InputError, RunError
from crs_lib.ledger import Done, Key, Ledger, pack
from crs_lib.progress import bar as progress_bar

_WORKER: "SessionMaker | None" = None
_REFUSED: list[Exception] = []


class SessionMaker(Protocol):
    """Makes the body (a line of JSON) of one session; must be reproducible from the key alone."""

    def __call__(self, key: Key) -> str: ...


def run(
    ledger: Ledger,
    keys: Sequence[Key],
    make: Callable[..., SessionMaker],
    arguments: tuple[Any, ...],
    *,
    workers: int = 1,
    chunk: int = 10,
    progress: bool = True,
    label: str = "sessions",
) -> int:
    """Do every session of ``keys`` that the ledger does not have; returns how many were done now.

    ``make(*arguments)`` builds the session maker, once in each process; with more than one worker both
    must be picklable. A session that raises is recorded as failed, the others go on, and at the end a
    RunError names the first failure; the next start tries the failed ones again.
    """
    if workers < 1:
        raise InputError(f"workers is {workers}; give a whole number >= 1")
    done = ledger.finished()
    todo = [key for key in keys if key not in done]
    with progress_bar(len(keys), done=len(keys) - len(todo), label=label, shown=progress) as bar:
        for batch in _results(todo, make, arguments, min(workers, max(1, len(todo))), chunk):
            ledger.record(batch)
            bar.update(len(batch))
    asked = set(keys)
    failed = [(key, error) for key, error in ledger.failures() if key in asked]
    if failed:
        (key, error), n = failed[0], len(failed)
        raise RunError(
            f"{n} of {len(keys)} sessions failed; the first is session {key.session} of {key.system!r}: "
            f"{error}. The others are stored; start the same command again to retry the failed ones"
        )
    return len(todo)


def _results(
    todo: Sequence[Key],
    make: Callable[..., SessionMaker],
    arguments: tuple[Any, ...],
    workers: int,
    chunk: int,
) -> Iterator[list[Done]]:
    """Batches of outcomes as they come; at most two chunks a worker are under way at once."""
    chunks = (list(todo[i : i + chunk]) for i in range(0, len(todo), chunk))
    if workers == 1:
        maker = make(*arguments) if todo else None
        for part in chunks:
            yield [_attempt(maker, key) for key in part]
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start_worker, (make, arguments)) as pool:
        under_way: set[Future[list[Done]]] = {
            pool.submit(_work, part) for part in islice(chunks, 2 * workers)
        }
        try:
            while under_way:
                ready, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                under_way |= {pool.submit(_work, part) for part in islice(chunks, len(ready))}
                for future in ready:
                    yield future.result()
        except BrokenProcessPool as error:
            raise RunError(
                "a worker process ended without an answer, often for want of memory; what was finished is "
                "stored. Start the same command again, perhaps with fewer workers: it continues"
            ) from error
        finally:
            for future in under_way:
                future.cancel()


def _start_worker(make: Callable[..., SessionMaker], arguments: tuple[Any, ...]) -> None:
    global _WORKER
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _WORKER = make(*arguments)
    except Exception as error:  # raised where the first sessions are asked for, with its own type
        _REFUSED.append(error)


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone: a killed run leaves nothing behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _work(part: Sequence[Key]) -> list[Done]:
    if _REFUSED:
        raise _REFUSED[0]
    return [_attempt(_WORKER, key) for key in part]


def _attempt(maker: SessionMaker | None, key: Key) -> Done:
    if maker is None:
        raise RunError("the worker was not started; this is a defect, please report it")
    try:
        return Done(key, pack(maker(key)), "")
    except Exception as error:
        return Done(key, None, f"{type(error).__name__}: {error}")
