"""Sessions on a Dask cluster; a lost worker's sessions are retried, one process writes the ledger.

Anybody who reaches a scheduler's port can run code on its workers. A local cluster listens on this machine
only; use ``tls://`` for any other address (Dask's configuration names the certificates).
"""

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from crs_lib.core.errors import InputError, RunError
from crs_lib.core.tables import fingerprint

LOCAL = "local"
WORKERS_WITHIN = 120.0  # seconds to wait for the first worker
LOSSES = 3  # workers that a task may lose before its sessions count as failed
_MAKERS: dict[str, Any] = {}
_LOCK = threading.Lock()
T = TypeVar("T")


@contextmanager
def connected(scheduler: str, workers: int) -> Iterator[Any]:
    """A client of a scheduler, ``local`` or an address; RunError where none answers or no worker comes."""
    try:
        import distributed
    except ImportError as error:
        raise InputError('a cluster needs Dask; install it with: pip install "crs-lib[dist]"') from error
    if scheduler != LOCAL and "://" not in scheduler:
        raise InputError(f"scheduler is {scheduler!r}; give 'local', tcp://host:8786 or tls://host:8786")
    own, others, patience = None, {*multiprocessing.active_children()}, dict[str, float]()
    try:
        if scheduler == LOCAL:
            here = {"threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
            own = distributed.LocalCluster(n_workers=workers, **here)
        client = distributed.Client(own or scheduler, timeout=30, set_as_default=False)
    except (OSError, TimeoutError) as error:
        told = f"no Dask scheduler answers at {scheduler} ({error}); start one, or try 'local'"
        raise RunError(told) from error
    except (ValueError, TypeError) as error:
        raise InputError(f"scheduler is {scheduler!r}, which is no address ({error})") from error
    try:
        try:
            client.wait_for_workers(1, timeout=WORKERS_WITHIN)
        except TimeoutError as error:
            told = f"no worker came to {scheduler} within {WORKERS_WITHIN:.0f} s; start some"
            raise RunError(told) from error
        yield client
    except KeyboardInterrupt:
        patience = {"timeout": 0.2}
        for process in multiprocessing.active_children():
            if process not in others:
                process.kill()
        raise
    finally:
        with suppress(TimeoutError):
            client.close(**patience)
            if own is not None:
                own.close(**patience)


@contextmanager
def submitter(
    do: Callable[[Any, Any], Any], make: Callable[[], Any], scheduler: str, workers: int
) -> Iterator[tuple[Callable[[Any], Any], int]]:
    """The function that sends a task ``do(made, task)`` to a cluster and returns its future, and how many to
    send at once; ``made`` is made once in each process. A task goes to up to ``LOSSES`` workers, if they die.
    """
    with connected(scheduler, workers) as client:
        executor = client.get_executor(pure=False, retries=LOSSES)
        width = 2 * max(1, sum(client.nthreads().values()))
        yield partial(executor.submit, _work, do, make), width


def _work(do: Callable[[Any, Any], T], make: partial[Any], task: Any) -> T:
    """A task, done on a worker with the maker of its process."""
    address = fingerprint([make.func.__module__, make.func.__qualname__, repr(make.args)])
    with _LOCK:
        if address not in _MAKERS:
            _MAKERS.clear()
            _MAKERS[address] = make()
        maker = _MAKERS[address]
    return do(maker, task)


def on_every_machine(scheduler: str, do: Callable[[str], list[T]], argument: str) -> list[T]:
    """The rows that ``do(argument)`` returns on each machine that is left; on this one for ``local``."""
    if scheduler == LOCAL:
        return do(argument)
    with connected(scheduler, 1) as client:
        return [row for found in client.run(do, argument).values() for row in found]
