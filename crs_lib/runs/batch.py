"""Batches of sessions in one process, several processes, threads or a cluster; a stopped batch continues.

A worker receives keys and returns bodies; one process writes the bodies to the ledger. The body of a session
depends on its key alone, so the number and kind of workers never change a result.
"""

import gc
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from crs_lib.core import safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.progress import bar as progress_bar
from crs_lib.runs.ledger import Done, Key, Ledger
from crs_lib.runs.processes import processes
from crs_lib.runs.worker import Halting, SessionMaker, attempt, chunks

T = TypeVar("T")
_WORKER: "SessionMaker | None" = None
_REFUSED: list[Exception] = []
PATIENCE = 20  # sessions that may fail one after the other before threads or a cluster give up


def run(
    ledger: Ledger,
    keys: Sequence[Key],
    make: Callable[..., SessionMaker],
    arguments: tuple[Any, ...],
    *,
    workers: int = 1,
    threads: int = 0,
    scheduler: str = "",
    chunk: int = 10,
    progress: bool = True,
    label: str = "sessions",
) -> int:
    """Make every session of ``keys`` that the ledger lacks; returns the number of sessions made now.

    ``make(*arguments)`` builds the session maker, once in each process; with more than one worker both
    must be picklable. With ``threads`` the sessions share one maker in this process (for work that waits for
    a server); with ``scheduler`` they go to a Dask cluster (``crs_lib.runs.dask``). A session that raises
    is recorded as failed and the others continue; at the end a RunError names the first failure, and the next
    start tries the failed sessions again. A batch of threads or of a cluster stops after ``PATIENCE``
    failures in a row: its server is gone.
    """
    done = work(
        ledger, keys, make, arguments, workers=workers, threads=threads, scheduler=scheduler, chunk=chunk,
        progress=progress, label=label,
    )  # fmt: skip
    check(ledger, keys)
    return done


def work(
    ledger: Ledger,
    keys: Sequence[Key],
    make: Callable[..., SessionMaker],
    arguments: tuple[Any, ...],
    *,
    workers: int = 1,
    threads: int = 0,
    scheduler: str = "",
    chunk: int = 10,
    progress: bool = True,
    label: str = "sessions",
) -> int:
    """:func:`run` without the error at the end; :func:`check` raises it, after further work if need be."""
    if workers < 1 or threads < 0:
        raise InputError(f"workers is {workers}, threads {threads}; give whole numbers >= 1")
    safety.check_limit("workers", max(workers, threads), "workers or threads at once are")
    done = ledger.finished()
    todo = [key for key in keys if key not in done]
    failing, before = 0, {key for key, _ in ledger.failures()}
    with progress_bar(len(keys), done=len(keys) - len(todo), label=label, shown=progress) as bar:
        results = _results(todo, make, arguments, min(workers, max(1, len(todo))), threads, scheduler, chunk)
        try:
            for batch in results:
                ledger.record(batch)
                bar.update(len(batch))
                # A session that failed at an earlier start says nothing about the server now.
                failing += sum(item.key not in before for item in batch)
                failing = 0 if any(item.body is not None for item in batch) else failing
                if failing >= PATIENCE and (threads or scheduler):
                    results.close()
                    raise RunError(
                        f"{failing} sessions failed one after the other, the last with {batch[-1].error}. "
                        "What was finished is stored; mend the cause and start the same command again"
                    )
        except KeyboardInterrupt as error:
            results.throw(error)  # wherever it arrived: the sessions under way are not waited for
    return len(todo)


def part_size(sessions: int) -> int:
    """Sessions of one task of a large batch without models: 10, and up to 100 where there are 1,000 tasks.

    Handing out a task costs a cluster as much as ten sessions; a worker that is lost loses its tasks.
    """
    return max(10, min(100, sessions // 1000))


def check(ledger: Ledger, keys: Sequence[Key], most: int = 0, hint: str = "") -> None:
    """Raise RunError if more than ``most`` sessions failed; it names the first and ends with ``hint``."""
    asked = set(keys)
    failed = [(key, error) for key, error in ledger.failures() if key in asked]
    if len(failed) > most:
        (key, error), n = failed[0], len(failed)
        raise RunError(
            f"{n} of {len(keys)} sessions failed; the first is session {key.session} of {key.system!r}: "
            f"{error}. The others are stored; start the same command again to retry the failed ones{hint}"
        )


def shard(keys: Sequence[Key], part: str) -> list[Key]:
    """The keys of one part of N, ``"2/4"``: each key in exactly one, whatever else is in the batch.

    All systems of a scenario are in the same part, so that they meet the same user even where a model
    words what the user says. An empty text gives all of them. Raises InputError as :func:`check_shard`.
    """
    if not check_shard(part):
        return list(keys)
    number, _, of = part.partition("/")
    return [key for key in keys if key.session % int(of) == int(number) - 1]


def check_shard(part: str) -> str:
    """The text itself if it is empty or k/N with 1 <= k <= N <= 10,000; else InputError."""
    number, _, of = part.partition("/")
    if part and not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of) <= 10_000):
        raise InputError(f"shard {part!r} is not k/N; give e.g. 1/4 for the first of four parts")
    return part


def _results(
    todo: Sequence[Key],
    make: Callable[..., SessionMaker],
    arguments: tuple[Any, ...],
    workers: int,
    threads: int,
    scheduler: str,
    chunk: int,
) -> Generator[list[Done]]:
    """Lists of outcomes, in the order in which the sessions finish."""
    if not todo:
        return
    if scheduler:
        from crs_lib.runs import dask

        yield from dask.results(todo, make, arguments, scheduler, workers, chunk)
    elif threads:
        yield from _in_threads(todo, make(*arguments), threads)
    elif workers == 1:
        maker = make(*arguments)
        for part in chunks(todo, chunk):
            yield [attempt(maker, key) for key in part]
    else:
        yield from _in_processes(todo, make, arguments, workers, chunk)


def _in_threads(todo: Sequence[Key], maker: SessionMaker, threads: int) -> Iterator[list[Done]]:
    """Outcomes of sessions that share one maker; closing the generator halts the sessions under way.

    After an interrupt they are not waited for. Freezes existing objects (gc.freeze): collecting the catalogue
    would pause every thread.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="session")
    ended, patient = False, True
    gc.freeze()
    try:
        tasks = ((maker, key) for key in todo)
        # Twice the threads: whoever ends a session finds the next one waiting, whatever this thread does.
        for done in _window(pool, lambda task: attempt(*task), tasks, 2 * threads):
            yield [done]
        ended = True
    except KeyboardInterrupt:
        patient = False
        raise
    finally:
        if not ended and isinstance(maker, Halting):
            maker.halt()
        pool.shutdown(wait=patient, cancel_futures=True)
        gc.unfreeze()


def _in_processes(
    todo: Sequence[Key],
    make: Callable[..., SessionMaker],
    arguments: tuple[Any, ...],
    workers: int,
    chunk: int,
) -> Iterator[list[Done]]:
    """Outcomes of chunks of sessions, made in separate processes with one maker each."""
    with processes(workers, _start_worker, (make, arguments)) as pool:
        try:
            yield from _window(pool, _work, chunks(todo, chunk), 2 * workers)
        except BrokenProcessPool as error:
            raise RunError(
                "a worker process ended without an answer, often for want of memory; what was finished is "
                "stored. Start the same command again, perhaps with fewer workers: it continues"
            ) from error


def _window(pool: Executor, do: Callable[[Any], T], parts: Iterator[Any], size: int) -> Iterator[T]:
    """Results in the order in which they are ready; at most ``size`` parts are under way at once."""
    under_way: set[Future[T]] = {pool.submit(do, part) for part in islice(parts, size)}
    try:
        while under_way:
            ready, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            under_way |= {pool.submit(do, part) for part in islice(parts, len(ready))}
            for future in ready:
                yield future.result()
    finally:
        for future in under_way:
            future.cancel()


def _start_worker(make: Callable[..., SessionMaker], arguments: tuple[Any, ...]) -> None:
    global _WORKER
    try:
        _WORKER = make(*arguments)
    except Exception as error:  # raised again, with its type, when the first sessions are asked for
        _REFUSED.append(error)


def _work(part: Sequence[Key]) -> list[Done]:
    if _REFUSED:
        raise _REFUSED[0]
    return [attempt(_WORKER, key) for key in part]
