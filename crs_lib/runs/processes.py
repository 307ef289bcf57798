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
Submit = Callable[[T], "Future[Any]"]


@contextmanager
def submitter(
    do: Callable[..., Any], make: Callable[[], Any] | None, workers: int
) -> Iterator[tuple[Submit[Any], int]]:
    """The function that sends a task to fresh processes and returns its future, and how many to send at once.

    A task is ``do(made, task)``, with ``made`` from ``make()`` once in each process, or without ``make``
    ``do(task)``. After an interrupt nobody waits for the workers, after an error up to ``PATIENCE`` seconds.
    Raises InputError beyond the limit ``workers``; the future of a task whose worker dies has a RunError.
    """
    safety.check_limit("workers", workers, "workers is")
    idle = SimpleQueue[Any]()
    processes = [_start(idle, do, make) for _ in range(workers)]
    threads = ThreadPoolExecutor(workers, "worker")
    patience = PATIENCE

    def submit(task: Any) -> "Future[Any]":
        return threads.submit(_answer, idle, task)

    try:
        yield submit, 2 * workers
    except (KeyboardInterrupt, SystemExit):
        patience = 0.0
        raise
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        _end(processes, idle, time.monotonic() + patience)


def _start(idle: SimpleQueue[Any], do: Callable[..., Any], make: Callable[[], Any] | None) -> Any:
    """A new worker; its pipe is among the idle ones."""
    context = multiprocessing.get_context("spawn")
    near_end, far_end = context.Pipe()
    process = context.Process(target=_serve, args=(far_end, do, make), daemon=True)
    process.start()
    far_end.close()
    idle.put(near_end)
    return process


def _end(processes: list[Any], idle: SimpleQueue[Any], until: float) -> None:
    """Close the pipes of workers as they become idle, and kill those that have not ended in time."""
    for _ in processes:
        with suppress(Empty):
            pipe = idle.get(timeout=max(0.0, until - time.monotonic()))
            pipe.close()
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        process.kill()


def _answer(idle: SimpleQueue[Any], task: Any) -> Any:
    """The result of a task from an idle worker; its error is raised here."""
    pipe = idle.get()
    try:
        pipe.send(task)
        value, error = pipe.recv()
    except (EOFError, OSError) as lost:
        raise RunError(
            "a worker process ended without an answer, often for want of memory; what is finished is kept. "
            "Start the same command again, perhaps with fewer workers"
        ) from lost
    finally:
        idle.put(pipe)
    if error is not None:
        raise error
    return value


def completed(submit: Submit[T], tasks: Iterable[T], width: int) -> Iterator[tuple[T, "Future[Any]"]]:
    """Tasks with their futures, in the order in which they end; ``width`` are under way at once."""
    waiting = iter(tasks)
    sent = {}
    for task in islice(waiting, width):
        sent[submit(task)] = task
    while sent:
        ready, _ = wait(sent, return_when=FIRST_COMPLETED)
        for task in islice(waiting, len(ready)):
            sent[submit(task)] = task
        for future in ready:
            yield sent.pop(future), future


def in_order(submit: Submit[T], tasks: Iterable[T], width: int) -> Iterator[Any]:
    """The results of tasks in their order; ``width`` are under way or wait to be read."""
    waiting = iter(tasks)
    sent = deque(submit(task) for task in islice(waiting, width))
    while sent:
        yield sent.popleft().result()
        for task in islice(waiting, 1):
            sent.append(submit(task))


def _serve(pipe: Any, do: Callable[..., Any], make: Callable[[], Any] | None) -> None:
    """The work of a process: a task after the other until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    error = None
    if make is not None:
        maker, error = _outcome(make)
        do = partial(do, maker)
    with suppress(EOFError, OSError):
        while True:
            task = pipe.recv()
            pipe.send((None, error) if error else _outcome(partial(do, task)))


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
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)
