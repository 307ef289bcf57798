"""The sessions of a stage, made in one process, several processes, threads or a cluster, with their models.

A worker receives keys and returns bodies; one process writes the bodies to the ledger. The body of a session
depends on its key alone, so the number and kind of workers never change a result. A stopped job continues.
"""

import gc
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crs_lib.core import safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.progress import bar as progress_bar
from crs_lib.runs import processes
from crs_lib.runs.folder import Stage
from crs_lib.runs.ledger import Done, Key, Ledger, pack

if TYPE_CHECKING:
    from crs_lib.llm.client import Pool, Retry
    from crs_lib.llm.preflight import Need
    from crs_lib.llm.settings import LLMSettings


PATIENCE = 20  # sessions that may fail one after the other before threads or a cluster give up
_WEIGHTS = "weights of "
# Makes the body (a line of JSON) of a session; the same key must give the same body. Threads share one whose
# sessions wait for models; its attribute ``models`` is their Pool, or what has the Pool's methods.
_Maker = Callable[[Key], str]


class Part(NamedTuple):
    """Sessions that are made together, and the models that they wait for."""

    keys: Sequence[Key]
    models: tuple[str, ...] = ()
    label: str = "sessions"


class Start(NamedTuple):
    """One start of a job, as its makers are told it. Calls are cached and logged in ``folder``; without one,
    where other runs of this machine find them (by ``run``). At the nth of ``starts`` n times as many seeds
    are tried for a usable reply. ``weights`` are the digests, by spec, that the run began with.
    """

    folder: str = ""
    run: str = ""
    starts: int = 1
    weights: Mapping[str, str] = {}

    @property
    def place(self) -> Path:
        """The folder of the call cache and the call log."""
        from crs_lib.llm.client import scratch

        return Path(self.folder) if self.folder else scratch(self.run)

    def pool(self, llm: "LLMSettings", retry: "Retry | None" = None) -> "Pool":
        """The models of this start, with cache and log."""
        from crs_lib.llm.client import Pool

        return Pool(self.place, llm, retry=retry, weights=self.weights)


def weights(
    before: Mapping[str, Any], specs: Sequence[str], needs: Callable[[], Sequence["Need"]]
) -> dict[str, str]:
    """The digests of models as inputs of a stage: a run is finished with the weights it began with.
    ``before`` is the stage's entry in the manifest; where it is finished nobody needs a server any more, and
    its digests are given back. Raises one RunError that lists all that is missing.
    """
    kept = weights_in(before.get("inputs", {}))
    if before.get("status") == "finished" and kept.keys() == {*specs}:
        return weights_as_inputs(kept)
    return weights_as_inputs(checked(needs())) if specs else {}


def checked(needs: Sequence["Need"]) -> dict[str, str]:
    """The digests of models, by spec, after the preflight; one RunError that lists all that is missing."""
    from crs_lib.llm.preflight import preflight

    return preflight(needs)


def weights_as_inputs(digests: Mapping[str, str]) -> dict[str, str]:
    """Digests by spec as inputs of a stage."""
    return {f"{_WEIGHTS}{spec}": digest for spec, digest in digests.items()}


def weights_in(inputs: Mapping[str, str]) -> dict[str, str]:
    """The digests of models, by spec, among the inputs of a stage."""
    return {name.removeprefix(_WEIGHTS): d for name, d in inputs.items() if name.startswith(_WEIGHTS) and d}


def job(
    stage: Stage, ledger: Ledger, parts: Sequence[Part], make: Callable[..., _Maker],
    arguments: tuple[Any, ...], *, llm: "LLMSettings | None" = None, workers: int = 1, scheduler: str = "",
    logged: bool = False, most_failed: int = 0, hint: str = "", progress: bool = True,
) -> None:  # fmt: skip
    """Make every session of ``parts`` that the ledger lacks, part by part. ``make(*arguments, start)`` builds
    the session maker: once for all parts with models, which take threads as their servers have room for; once
    in each process or worker of a cluster (``scheduler``) otherwise, and then all of it must be picklable.
    Before and after each part the servers (``llm``) must hold the weights that the stage's inputs name. With
    ``logged`` calls end in the run's ``llm_calls.jsonl`` whatever happens. A session that fails does not stop
    the others, and the next start tries it again; at the end more than ``most_failed`` are a RunError with
    ``hint``.
    """
    start = Start(str(stage.folder), stage.run, 1 + ledger.tries(), weights_in(stage.inputs))
    far = start._replace(folder="") if scheduler else start
    shared: Any = cache(partial(make, *arguments, start))  # made when the first part with models begins
    with _calls_exported(stage, ledger, scheduler, logged):
        try:
            for place, part in enumerate(parts):
                if ledger.finished().issuperset(part.keys):
                    continue
                _check_weights(start, part, llm)
                told: dict[str, Any] = {"progress": progress, "label": part.label}
                if part.models and not scheduler:
                    width = shared().models.width(part.models)
                    sessions(ledger, part.keys, shared, (), threads=width, **told)
                    for spec in {*part.models}.difference(*(rest.models for rest in parts[place + 1 :])):
                        shared().models.release(spec)
                else:
                    # Handing out a task costs a cluster as much as ten sessions; a lost worker loses its own.
                    chunk = 1 if part.models else max(10, min(100, len(part.keys) // 1000))
                    told |= {"workers": workers, "scheduler": scheduler, "chunk": chunk}
                    sessions(ledger, part.keys, make, (*arguments, far), **told)
                _check_weights(start, part, llm)
        finally:
            if shared.cache_info().currsize:
                shared().models.close()
    _check(ledger, [key for part in parts for key in part.keys], most_failed, hint)


def _check_weights(start: Start, part: Part, llm: "LLMSettings | None") -> None:
    """RunError, which ends the run, where a server has other weights of a model than the run began with."""
    began = {spec: start.weights[spec] for spec in part.models if spec in start.weights}
    if began and llm is not None:
        from crs_lib.llm.preflight import unchanged

        unchanged(began, llm.settings_for)


@contextmanager
def _calls_exported(stage: Stage, ledger: Ledger, scheduler: str, logged: bool) -> Iterator[None]:
    """Whatever happens within: calls (of a cluster, from each machine) are exported, the stage counted."""
    try:
        yield
    finally:
        earlier = sys.exception()
        try:
            if scheduler and logged:
                from crs_lib.llm.calls import Recorder
                from crs_lib.llm.client import LOG, drain_scratch
                from crs_lib.runs import dask

                with closing(Recorder(stage.folder / LOG)) as recorder:
                    recorder.put(dask.on_every_machine(scheduler, drain_scratch, stage.run))
        except Exception as error:
            if earlier is None:
                raise
            earlier.add_note(f"after it: {type(error).__name__}: {error}")
        finally:
            if logged:
                from crs_lib.llm.calls import export_all

                stage.counts["llm_calls"] = export_all(stage.folder)
            stage.counts |= ledger.counts()


def sessions(
    ledger: Ledger, keys: Sequence[Key], make: Callable[..., _Maker], arguments: tuple[Any, ...], *,
    workers: int = 1, threads: int = 0, scheduler: str = "", chunk: int = 10, progress: bool = True,
    label: str = "sessions",
) -> int:  # fmt: skip
    """Make every session of ``keys`` that the ledger lacks; returns the number of sessions made now.
    ``make(*arguments)`` builds the session maker, once in each process, and both must be picklable; with
    ``threads`` the sessions share one in this process, with ``scheduler`` they go to a Dask cluster. A
    session that raises is recorded as failed. A batch of threads or of a cluster stops with a RunError after
    ``PATIENCE`` failures in a row: its server is gone.
    """
    if workers < 1:
        raise InputError(f"workers is {workers}; give a whole number >= 1")
    safety.check_limit("workers", max(workers, threads), "workers or threads at once are")
    done = ledger.finished()
    todo = [key for key in keys if key not in done]
    failing, before = 0, {key for key, _ in ledger.failures()}
    build: Callable[[], _Maker] = partial(make, *arguments)
    with progress_bar(len(keys), done=len(keys) - len(todo), label=label, shown=progress) as bar:
        size = 1 if threads else chunk
        tasks = [todo[i : i + size] for i in range(0, len(todo), size)]
        results = _outcomes(tasks, build, min(workers, len(todo)), threads, scheduler)
        try:
            for batch in results:
                ledger.record(batch)
                bar.update(len(batch))
                # A session that failed at an earlier start says nothing about the server now.
                failing += sum(item.key not in before for item in batch)
                failing = 0 if any(item.body is not None for item in batch) else failing
                if failing >= PATIENCE and (threads or scheduler):
                    results.close()
                    told = f"{failing} sessions failed one after the other, the last with {batch[-1].error}"
                    better = "What was finished is stored; mend the cause and start the same command again"
                    raise RunError(f"{told}. {better}")
        except KeyboardInterrupt as error:
            results.throw(error)  # wherever it arrived: the sessions under way are not waited for
    return len(todo)


def _check(ledger: Ledger, keys: Sequence[Key], most: int = 0, hint: str = "") -> None:
    """Raise RunError if more than ``most`` sessions failed; it names the first and ends with ``hint``."""
    asked = set(keys)
    failed = [(key, error) for key, error in ledger.failures() if key in asked]
    if len(failed) > most:
        key, error = failed[0]
        first = f"the first is session {key.session} of {key.system!r}: {error}"
        better = "The others are stored; start the same command again to retry the failed ones"
        raise RunError(f"{len(failed)} of {len(keys)} sessions failed; {first}. {better}{hint}")


def _attempts(maker: _Maker, keys: Sequence[Key]) -> list[Done]:
    """The outcome of each session: its body, or its error; an error that ends the run is raised."""
    found = list[Done]()
    for key in keys:
        try:
            found.append(Done(key, pack(maker(key)), ""))
        except Exception as error:
            if isinstance(error, RunError) and error.ends_run:
                raise
            found.append(Done(key, None, f"{getattr(error, 'kind', type(error).__name__)}: {error}"))
    return found


def _outcomes(
    tasks: Sequence[Sequence[Key]], make: Callable[[], _Maker], workers: int, threads: int, scheduler: str
) -> Generator[list[Done]]:
    """Lists of outcomes, in the order in which tasks finish."""
    if tasks and not scheduler and not threads and workers == 1:
        maker = make()
        yield from (_attempts(maker, part) for part in tasks)
    elif tasks:
        from crs_lib.runs import dask

        far = dask.submitter(_attempts, make, scheduler, workers) if scheduler else None
        near = _threads(make, threads) if threads else processes.submitter(_attempts, make, workers)
        with far or near as (submit, width):
            for keys, future in processes.completed(submit, tasks, width):
                lost = future.exception()
                if not scheduler or isinstance(lost, InputError) or getattr(lost, "ends_run", False):
                    future.result()
                told = f"{type(lost).__name__}: {lost}"  # the cluster gave the task up
                yield [Done(key, None, told) for key in keys] if lost else future.result()


@contextmanager
def _threads(make: Callable[[], _Maker], threads: int) -> Iterator[tuple[Callable[[Any], Any], int]]:
    """As :func:`processes.submitter`, for threads that share a maker; an interrupt halts those under way.
    Existing objects are frozen (gc.freeze): collecting the catalogue would pause every thread.
    """
    maker, pool, patient = make(), ThreadPoolExecutor(threads, thread_name_prefix="session"), True
    gc.freeze()
    try:
        # Twice the threads: whoever ends a session finds the next one waiting, whatever this thread does.
        yield lambda keys: pool.submit(_attempts, maker, keys), 2 * threads
    except BaseException as error:
        patient = not isinstance(error, KeyboardInterrupt)
        if models := getattr(maker, "models", None):
            models.halt()
        raise
    finally:
        pool.shutdown(wait=patient, cancel_futures=True)
        gc.unfreeze()
