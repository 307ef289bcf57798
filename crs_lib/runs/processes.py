"""Worker processes that end with the process that started them, and at once where it is interrupted.

Each worker has a pipe of its own, so that one which is lost, or ended while it writes, holds up nobody else.
"""

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from multiprocessing import connection
from typing import Any, NamedTuple

from crs_lib.core import safety
from crs_lib.core.errors import RunError

PATIENCE = 60.0  # seconds that workers have to end after an error in another session
_Do = Callable[..., Any]


class _Outcome(NamedTuple):
    """The result of a task, or the error that it raised; ``number`` is the task's place among all."""

    number: int
    value: Any = None
    error: Exception | None = None

    def result(self) -> Any:
        """The result; raises the task's error."""
        if self.error is not None:
            raise self.error
        return self.value


def outcomes(
    do: _Do,
    tasks: Iterable[Any],
    workers: int,
    make: _Do | None = None,
    arguments: tuple[Any, ...] = (),
    *,
    ordered: bool = False,
) -> Iterator[_Outcome]:
    """The outcomes of ``do(task)`` in fresh processes, as they are ready or in the tasks' order.

    With ``make`` each process makes ``make(*arguments)`` once and calls ``do(made, task)``. Tasks are taken
    as workers come free (in order: at most twice as many ahead), so memory stays flat.

    After an interrupt nobody waits for the workers: they are ended. After an error, or where nobody takes
    further outcomes, they may finish their tasks within ``PATIENCE`` seconds. Raises InputError for more than
    the limit ``workers``, RunError where a worker ends without an answer.
    """
    safety.check_limit("workers", workers, "workers is")
    numbered, due = enumerate(tasks), 0
    early, ready = dict[int, _Outcome](), list[_Outcome]()
    pool = dict(_started(do, make, arguments) for _ in range(workers))
    idle, patience = list(pool), PATIENCE
    try:
        while True:
            free = min(len(idle), 2 * workers - len(early)) if ordered else len(idle)
            for task in islice(numbered, free):
                idle.pop().send(task)
            yield from ready  # after the next tasks were handed out: nobody waits for whoever reads this
            ready.clear()
            if not (busy := pool.keys() - idle):
                break
            for pipe in connection.wait(list(busy)):
                outcome = _received(pipe)
                idle.append(pipe)
                early[outcome.number] = outcome
                ready += [] if ordered else [early.pop(outcome.number)]
            while due in early:
                ready.append(early.pop(due))
                due += 1
    except (KeyboardInterrupt, SystemExit):
        patience = 0.0
        raise
    finally:
        _end(pool, patience)


def _started(do: _Do, make: _Do | None, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """The pipe to a new worker, and its process."""
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    process = context.Process(target=_serve, args=(its, do, make, arguments), daemon=True)
    process.start()
    its.close()
    return mine, process


def _received(pipe: Any) -> _Outcome:
    try:
        outcome: _Outcome = pipe.recv()
    except (EOFError, OSError) as error:
        told = "a worker process ended without an answer, often for want of memory; what is finished is kept"
        raise RunError(f"{told}. Start the same command again, perhaps with fewer workers") from error
    return outcome


def _end(pool: Mapping[Any, Any], patience: float) -> None:
    """Let workers end that wait for a task, and end those that are not done within ``patience`` seconds."""
    until = time.monotonic() + patience
    for pipe in pool:
        pipe.close()
    for process in pool.values():
        process.join(max(0.0, until - time.monotonic()))
        process.kill()


def _serve(pipe: Any, do: _Do, make: _Do | None, arguments: tuple[Any, ...]) -> None:
    """The work of a process: a task after the other until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    made = _outcome(-1, partial(make, *arguments)) if make is not None else None
    with suppress(EOFError, OSError):
        while True:
            number, task = pipe.recv()
            if made is None or made.error is None:
                pipe.send(_outcome(number, partial(do, *([made.value] if made else []), task)))
            else:  # answered, with its type, when the first task comes
                pipe.send(made._replace(number=number))


def _outcome(number: int, call: Callable[[], Any]) -> _Outcome:
    try:
        return _Outcome(number, call())
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # an error that no other process can hold
            return _Outcome(number, error=RunError(f"{type(error).__name__}: {error}"))
        return _Outcome(number, error=error)


def _end_with_parent() -> None:
    """End this worker when its parent process ends, so that a killed run leaves no process behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
