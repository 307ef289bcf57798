"""Sessions on a Dask cluster; a lost worker's sessions are retried, one process writes the ledger.

Anybody who reaches a scheduler's port can run code on its workers. A local cluster listens on this machine
only; use ``tls://`` for any other address (Dask's configuration names the certificates).
"""

import multiprocessing
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from typing import Any, TypeVar

from crs_lib.core.errors import InputError, RunError
from crs_lib.core.tables import fingerprint
from crs_lib.runs.ledger import Done, Key

LOCAL = "local"
WORKERS_WITHIN = 120.0  # seconds to wait for the first worker
LOSSES = 3  # workers that a task may lose before its sessions count as failed
_MAKERS: dict[str, Any] = {}
_LOCK = threading.Lock()
_NUMBERS = count()
T = TypeVar("T")


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise InputError('a cluster needs Dask; install it with: pip install "crs-lib[dist]"') from error
    return distributed


@contextmanager
def connected(scheduler: str, workers: int) -> Iterator[Any]:
    """A client of a scheduler, ``local`` or an address; RunError where none answers or no worker comes."""
    distributed = _distributed()
    if scheduler != LOCAL and "://" not in scheduler:
        raise InputError(f"scheduler is {scheduler!r}; give 'local', tcp://host:8786 or tls://host:8786")
    own, others = None, set(multiprocessing.active_children())
    try:
        if scheduler == LOCAL:
            own = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
            )
        client = distributed.Client(own or scheduler, timeout=30, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise RunError(
            f"no Dask scheduler answers at {scheduler} ({error}); start one, or try 'local'"
        ) from error
    except (ValueError, TypeError) as error:
        raise InputError(f"scheduler is {scheduler!r}, which is no address ({error})") from error
    patience: dict[str, float] = {}
    try:
        _wait_for_a_worker(client, scheduler)
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


def _wait_for_a_worker(client: Any, scheduler: str) -> None:
    try:
        client.wait_for_workers(1, timeout=WORKERS_WITHIN)
    except TimeoutError as error:
        raise RunError(f"no worker came to {scheduler} within {WORKERS_WITHIN:.0f} s; start some") from error


def results(
    do: Callable[[Any, Sequence[Key]], list[Done]],
    tasks: Iterable[list[Key]],
    make: Callable[..., Any],
    arguments: tuple[Any, ...],
    scheduler: str,
    workers: int,
) -> Generator[list[Done]]:
    """Lists of outcomes, in the order in which tasks finish; two tasks a thread are under way at once.

    A task is ``do(made, keys)``, with ``made`` from ``make(*arguments)`` once in each process. A task whose
    worker dies goes to another worker; after the third loss its sessions count as failed.
    """
    distributed = _distributed()
    with connected(scheduler, workers) as client:
        name = f"crs-{fingerprint([repr(arguments), next(_NUMBERS)])[:8]}"
        parts = enumerate(tasks)
        sent: dict[str, list[Key]] = {}

        def send(numbered: tuple[int, list[Key]]) -> Any:
            number, part = numbered
            key = f"{name}-{number}"
            sent[key] = part
            return client.submit(_work, do, make, arguments, part, key=key, pure=False, retries=LOSSES)

        width = 2 * max(1, sum(client.nthreads().values()))
        first = [send(part) for part in islice(parts, width)]
        under_way = distributed.as_completed(first, loop=client.loop)
        for future in under_way:
            done = _outcome(future, sent.pop(future.key))
            for following in islice(parts, 1):
                under_way.add(send(following))
            yield done


def _outcome(future: Any, part: Sequence[Key]) -> list[Done]:
    """The outcomes of a task; all of its sessions failed if the cluster gave the task up."""
    try:
        found: list[Done] = future.result()
    except InputError:
        raise
    except Exception as error:  # KilledWorker and other errors of a cluster
        if isinstance(error, RunError) and error.ends_run:
            raise
        return [Done(key, None, f"{type(error).__name__}: {error}") for key in part]
    return found


def _work(
    do: Callable[[Any, Sequence[Key]], list[Done]],
    make: Callable[..., Any],
    arguments: tuple[Any, ...],
    part: Sequence[Key],
) -> list[Done]:
    """The sessions of a task, made on a worker with the maker of its process."""
    address = fingerprint([make.__module__, make.__qualname__, repr(arguments)])
    with _LOCK:
        if address not in _MAKERS:
            _MAKERS.clear()
            _MAKERS[address] = make(*arguments)
        maker = _MAKERS[address]
    return do(maker, part)


def on_every_machine(scheduler: str, do: Callable[[str], list[T]], argument: str) -> list[T]:
    """The rows that ``do(argument)`` returns on each machine of the cluster; on this machine for ``local``.

    A machine that is gone adds no rows.
    """
    if scheduler == LOCAL:
        return do(argument)
    with connected(scheduler, 1) as client:
        return [row for found in client.run(do, argument).values() for row in found]
