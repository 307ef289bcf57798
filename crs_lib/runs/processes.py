"""Worker processes that end with the process that started them, and at once where it is interrupted.

Each worker has a pipe and a thread of its own: one that is lost, or ended while it writes, holds up nobody.
"""

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from multiprocessing import connection
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from crs_lib.core import safety
from crs_lib.core.errors import RunError

PATIENCE = 60.0  # seconds that workers have to end after an error in another session
T = TypeVar("T")
_Make = Callable[[], Any] | None
_Submit = Callable[[T], "Future[Any]"]


@contextmanager
def submitter(do: Callable[..., Any], make: _Make, workers: int) -> Iterator[tuple[_Submit[Any], int]]:
    """The function that sends a task to fresh processes and returns its future, and how many to send at once.
    A task is ``do(made, task)``, with ``made`` from ``make()`` once in each process, or without ``make``
    ``do(task)``. After an interrupt nobody waits for the workers, after an error up to ``PATIENCE`` seconds.
    Raises InputError beyond the limit ``workers``; the future of a task whose worker dies has a RunError.
    """
    safety.check_limit("workers", workers, "workers is")
    idle, patience = SimpleQueue[Any](), PATIENCE
    processes = [_started(idle, do, make) for _ in range(workers)]
    threads = ThreadPoolExecutor(workers, "worker")
    try:
        yield lambda task: threads.submit(_answer, idle, task), 2 * workers
    except (KeyboardInterrupt, SystemExit):
        patience = 0.0
        raise
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        until = time.monotonic() + patience
        for _ in processes:
            with suppress(Empty):
                idle.get(timeout=max(0.0, until - time.monotonic())).close()
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
            process.kill()


def _started(idle: SimpleQueue[Any], do: Callable[..., Any], make: _Make) -> Any:
    """A new worker; its pipe is among the idle ones."""
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    process = context.Process(target=_serve, args=(its, do, make), daemon=True)
    process.start()
    its.close()
    idle.put(mine)
    return process


def _answer(idle: SimpleQueue[Any], task: Any) -> Any:
    """The result of a task from an idle worker; its error is raised here."""
    pipe = idle.get()
    try:
        pipe.send(task)
        value, error = pipe.recv()
    except (EOFError, OSError) as lost:
        told = "a worker process ended without an answer, often for want of memory; what is finished is kept"
        raise RunError(f"{told}. Start the same command again, perhaps with fewer workers") from lost
    finally:
        idle.put(pipe)
    if error is not None:
        raise error
    return value


def completed(submit: _Submit[T], tasks: Iterable[T], width: int) -> Iterator[tuple[T, "Future[Any]"]]:
    """Tasks with their futures, in the order in which they end; ``width`` are under way at once."""
    waiting = iter(tasks)
    sent = {submit(task): task for task in islice(waiting, width)}
    while sent:
        ready, _ = wait(sent, return_when=FIRST_COMPLETED)
        sent |= {submit(task): task for task in islice(waiting, len(ready))}
        yield from ((sent.pop(future), future) for future in ready)


def in_order(submit: _Submit[T], tasks: Iterable[T], width: int) -> Iterator[Any]:
    """The results of tasks in their order; ``width`` are under way or wait to be read."""
    waiting = iter(tasks)
    sent = deque(map(submit, islice(waiting, width)))
    while sent:
        yield sent.popleft().result()
        sent.extend(map(submit, islice(waiting, 1)))


def _serve(pipe: Any, do: Callable[..., Any], make: _Make) -> None:
    """The work of a process: a task after the other until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    made, error = _outcome(make) if make is not None else (None, None)
    call = partial(do, made) if make is not None else do
    with suppress(EOFError, OSError):
        while True:
            task = pipe.recv()
            pipe.send((None, error) if error else _outcome(partial(call, task)))


def _outcome(call: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What a call returns, and the error that it raises, as another process can hold it."""
    try:
        return call(), None
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # an error that no other process can hold
            return None, RunError(f"{type(error).__name__}: {error}")
        return None, error


def _end_with_parent() -> None:
    """End this worker when its parent process ends, so that a killed run leaves no process behind."""
    if (parent := multiprocessing.parent_process()) is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
