"""Sessions on a Dask cluster; a lost worker's sessions are retried, one process writes the ledger.

Anybody who reaches a scheduler's port can run code on its workers. A local cluster listens on this machine
only; use ``tls://`` for any other address (Dask's configuration names the certificates).
"""

import multiprocessing
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from crs_lib.core.errors import InputError, RunError
from crs_lib.core.tables import fingerprint

LOCAL = "local"
_SCHEMES = ("tcp", "tls", "ws", "wss", "ucx")
ANSWERS_WITHIN = 5.0  # seconds that a scheduler may take to be reached
WORKERS_WITHIN = 120.0  # seconds to wait for the first worker
LOSSES = 3  # workers that a task may lose before its sessions count as failed
T = TypeVar("T")


@contextmanager
def connected(scheduler: str, workers: int) -> Iterator[Any]:
    """A client of a scheduler, ``local`` or an address; RunError where none answers or no worker comes.
    InputError for what is no address, or for a package that is not there.
    """
    check(scheduler)
    others = set(multiprocessing.active_children())
    cluster, client = _connect(scheduler, workers)
    patience = {}
    try:
        _wait_for_workers(client, scheduler)
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
            if cluster is not None:
                cluster.close(**patience)


def check(scheduler: str) -> None:
    """Raise InputError for what is neither ``local`` nor the address of a scheduler; nothing is asked."""
    example = "give 'local', tcp://host:8786 or tls://host:8786"
    if "@" in scheduler or "?" in scheduler:
        raise InputError(f"scheduler holds a name, a password or a query, which Dask does not use; {example}")
    try:
        parts = urlsplit(scheduler)
        is_address = bool(parts.hostname and parts.port) and parts.scheme in _SCHEMES
    except ValueError:
        is_address = False
    if scheduler != LOCAL and not is_address:
        raise InputError(f"scheduler is {scheduler!r}; {example}")


def _connect(scheduler: str, workers: int) -> tuple[Any, Any]:
    """The cluster of our own, if it is to be local, and a client of the scheduler."""
    try:
        import distributed
    except ImportError as error:
        raise InputError('a cluster needs Dask; install it with: pip install "crs-lib[dist]"') from error
    cluster = None
    try:
        if scheduler != LOCAL:
            parts = urlsplit(scheduler)
            socket.create_connection((parts.hostname or "", parts.port or 0), ANSWERS_WITHIN).close()
        else:
            here = {"threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
            cluster = distributed.LocalCluster(n_workers=workers, **here)
        client = distributed.Client(cluster or scheduler, timeout=10, set_as_default=False)
    except (OSError, TimeoutError) as error:
        wrong = f"no Dask scheduler answers at {scheduler} ({error}); start one, or try 'local'"
        raise RunError(wrong) from error
    except (ValueError, TypeError) as error:
        raise InputError(f"scheduler is {scheduler!r}, which is no address ({error})") from error
    return cluster, client


def _wait_for_workers(client: Any, scheduler: str) -> None:
    try:
        client.wait_for_workers(1, timeout=WORKERS_WITHIN)
    except TimeoutError as error:
        wait = f"{WORKERS_WITHIN:.0f} s"
        raise RunError(f"no worker came to {scheduler} within {wait}; start some") from error


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


class _Makers:
    """The session maker of a worker's process: that of the last job, by what makes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._address = ""
        self._maker: Any = None

    def get(self, make: partial[Any]) -> Any:
        address = fingerprint([make.func.__module__, make.func.__qualname__, repr(make.args)])
        with self._lock:
            if address != self._address:
                self._maker = None  # two of them might not fit into the memory
                self._maker = make()
                self._address = address
            return self._maker


_MAKERS = _Makers()


def _work(do: Callable[[Any, Any], T], make: partial[Any], task: Any) -> T:
    """A task, done on a worker with the maker of its process; RunError where it lacks the run's files."""
    for argument in make.args:
        if isinstance(argument, str) and Path(argument).is_absolute() and not Path(argument).exists():
            raise RunError(_sees_nothing(Path(argument)), ends_run=True)
    return do(_MAKERS.get(make), task)


def _sees_nothing(path: Path) -> str:
    """What is said where a worker does not see a file of the run."""
    from distributed import get_worker

    name = f"the Dask worker {get_worker().name} on {socket.gethostname()}"
    cure = "all machines must share the results folder under one path (CRS_RESULTS names it)"
    return f"{name} does not see {path}: {cure}; mount it there, or start workers where it is"


def on_every_machine(scheduler: str, do: Callable[[str], list[T]], argument: str) -> list[T]:
    """The rows that ``do(argument)`` returns on each machine that is left; on this one for ``local``."""
    if scheduler == LOCAL:
        return do(argument)
    rows = []
    with connected(scheduler, 1) as client:
        for part in client.run(do, argument).values():
            rows += part
    return rows
