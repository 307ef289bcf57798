"""Worker processes that end with the process that started them, and at once where it is interrupted."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from crs_lib.core import safety

PATIENCE = 60.0  # seconds that workers have to end after an error in another session


@contextmanager
def processes(
    workers: int, start: Callable[..., object] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh processes, each of which calls ``start(*arguments)`` first.

    After an interrupt nobody waits for them: they are ended. After an error, or where nobody takes further
    results, they may finish their sessions within ``PATIENCE`` seconds. Raises InputError for more than the
    limit ``workers``.
    """
    safety.check_limit("workers", workers, "workers is")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, (start, arguments))
    try:
        yield pool
    except BaseException as error:
        results = getattr(pool, "_result_queue", None)
        pool.shutdown(wait=False, cancel_futures=True)
        patient = isinstance(error, Exception | GeneratorExit)
        until = time.monotonic() + (PATIENCE if patient else 0)
        for process in set(multiprocessing.active_children()) - others:
            process.join(max(0.0, until - time.monotonic()))
            process.kill()
        # A worker that is killed while it writes leaves half a result. The pool's thread waits for the other
        # half as long as a process could write it, this one included, and the interpreter's end waits for it.
        if results is not None:
            results._writer.close()
        raise
    pool.shutdown()


def _begin(start: Callable[..., object] | None, arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if start is not None:
        start(*arguments)


def _end_with_parent() -> None:
    """End this worker when its parent process ends, so that a killed run leaves no process behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
