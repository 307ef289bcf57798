"""The sessions of a stage, made in one process, several processes, threads or a cluster, with their models.

A worker receives keys and returns bodies; one process writes the bodies to the ledger. The body of a session
depends on its key alone, so the number and kind of workers never change a result. A stopped job continues.
"""

import gc
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crs_lib.core import safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.progress import Bar
from crs_lib.core.progress import bar as progress_bar
from crs_lib.core.text import listing
from crs_lib.runs import dask, processes
from crs_lib.runs.folder import Stage
from crs_lib.runs.ledger import Answers, Done, Key, Ledger, pack

if TYPE_CHECKING:  # runs without models, and what only reads them, load no client of a server
    from crs_lib.llm.client import Pool, Retry
    from crs_lib.llm.preflight import Need
    from crs_lib.llm.settings import LLMSettings

PATIENCE = 3  # equal failures of a system in a row that end a job
_MOST = 3  # systems that a bar names
_NUMBER = re.compile(r"\d+")  # of a session or a line, which equal failures differ in
_WEIGHTS = "weights of "  # how the names of inputs begin that are digests of models
# Makes the body (a line of JSON) of a session; the same key must give the same body. Threads share one whose
# sessions wait for models; its attribute ``models`` is their Pool, or what has the Pool's methods.
Maker = Callable[[Key], str]


class UnansweredError(Exception):
    """A session in which a system gave no usable reply: the ``cause``, and the body without such replies."""

    def __init__(self, cause: Exception, body: str) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.body = body


class Part(NamedTuple):
    """Sessions that are made together, and the models that they wait for; ``label``: what a bar names instead
    of their systems.
    """

    keys: Sequence[Key]
    models: tuple[str, ...] = ()
    label: str = ""


class Start(NamedTuple):
    """One start of a job, as its makers are told it.

    Calls are cached and logged in ``folder``; without one, where other runs of this machine find them (by
    ``run``). At the nth of ``starts`` n times as many seeds are tried for a usable reply. ``weights`` are the
    digests, by spec, that the run began with. ``answers`` is the ledger that keeps the answers of programs;
    empty on the machines of a cluster, which do not see it.
    """

    folder: str = ""
    run: str = ""
    starts: int = 1
    weights: Mapping[str, str] = {}
    answers: str = ""

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
    recorded = weights_in(before.get("inputs", {}))
    if before.get("status") == "finished" and set(recorded) == set(specs):
        return weights_as_inputs(recorded)
    if not specs:
        return {}
    return weights_as_inputs(checked(needs()))


def checked(needs: Sequence["Need"]) -> dict[str, str]:
    """The digests of models, by spec, after the preflight; one RunError that lists all that is missing."""
    from crs_lib.llm.preflight import preflight

    return preflight(needs)


def weights_as_inputs(digests: Mapping[str, str]) -> dict[str, str]:
    """Digests by spec as inputs of a stage."""
    return {f"{_WEIGHTS}{spec}": digest for spec, digest in digests.items()}


def weights_in(inputs: Mapping[str, str]) -> dict[str, str]:
    """The digests of models, by spec, among the inputs of a stage."""
    digests = {}
    for name, digest in inputs.items():
        if name.startswith(_WEIGHTS) and digest:
            digests[name.removeprefix(_WEIGHTS)] = digest
    return digests


class _SharedMaker:
    """The session maker of all parts with models, made when the first of them begins."""

    def __init__(self, build: Callable[[], Maker]) -> None:
        self._build = build
        self._maker: Any = None

    def __call__(self) -> Any:
        if self._maker is None:
            self._maker = self._build()
        return self._maker

    def close(self) -> None:
        if self._maker is not None:
            self._maker.models.close()


def job(
    stage: Stage,
    ledger: Ledger,
    parts: Sequence[Part],
    make: Callable[..., Maker],
    arguments: tuple[Any, ...],
    *,
    llm: "LLMSettings | None" = None,
    workers: int = 1,
    scheduler: str = "",
    logged: bool = False,
    most_failed: int = 0,
    hint: str = "",
    progress: bool = True,
) -> None:
    """Make every session of ``parts`` that the ledger lacks, part by part.

    ``make(*arguments, start)`` builds the session maker: once for all parts with models, which take threads
    as their servers have room for; once in each process or worker of a cluster (``scheduler``) otherwise, and
    then all of it must be picklable. Before and after each part the servers (``llm``) must hold the weights
    that the stage's inputs name. With ``logged`` calls end in the run's ``llm_calls.jsonl`` whatever happens.
    A session that fails does not stop the others, and the next start tries it again; ``PATIENCE`` equal
    failures of a system in a row end the job, where more than ``most_failed`` failed; at the end more than
    those are a RunError with ``hint``.
    """
    start = Start(
        str(stage.folder), stage.run, 1 + ledger.tries(), weights_in(stage.inputs), str(ledger.path)
    )
    far = _as_workers_see_it(start, scheduler)
    shared = _SharedMaker(partial(make, *arguments, start))
    keys = [key for part in parts for key in part.keys]
    done = len(ledger.finished().intersection(keys))
    label = (parts[0].label or _label(parts[0].keys)) if parts else ""
    with (
        _calls_exported(stage, ledger, scheduler, logged),
        closing(shared),
        progress_bar(len(keys), done=done, label=label, shown=progress) as bar,
    ):
        for number, part in enumerate(parts):
            if ledger.finished().issuperset(part.keys):
                continue
            _check_weights(start, part, llm)
            if part.models and not scheduler:
                models = shared().models
                threads = models.width(part.models)
                sessions(
                    ledger,
                    part.keys,
                    shared,
                    (),
                    threads=threads,
                    most_failed=most_failed,
                    bar=bar,
                    label=part.label,
                )
                for spec in _no_longer_needed(part, parts[number + 1 :]):
                    models.release(spec)
            else:
                sessions(
                    ledger,
                    part.keys,
                    make,
                    (*arguments, far),
                    workers=workers,
                    scheduler=scheduler,
                    chunk=_chunk(part),
                    most_failed=most_failed,
                    bar=bar,
                    label=part.label,
                )
            _check_weights(start, part, llm)
    check_failures(ledger, keys, most_failed, hint)


def _as_workers_see_it(start: Start, scheduler: str) -> Start:
    """A start for workers: those of a cluster have their own call log, those on this machine its ledger."""
    if not scheduler:
        return start
    if scheduler == dask.LOCAL:
        return start._replace(folder="")
    return start._replace(folder="", answers="")


def _label(keys: Iterable[Key]) -> str:
    """The systems of some sessions, as a bar names them."""
    systems = list(dict.fromkeys(key.system for key in keys))
    if len(systems) > _MOST:
        return f"{len(systems)} systems"
    return listing(systems)


def _no_longer_needed(part: Part, later: Sequence[Part]) -> set[str]:
    """The models of a part that no later part waits for."""
    specs = set(part.models)
    for other in later:
        specs.difference_update(other.models)
    return specs


def _chunk(part: Part) -> int:
    """The sessions of a task: handing one out costs a cluster as much as ten sessions; a lost worker loses
    its own.
    """
    if part.models:
        return 1
    return max(10, min(100, len(part.keys) // 1000))


def _check_weights(start: Start, part: Part, llm: "LLMSettings | None") -> None:
    """RunError, which ends the run, where a server has other weights of a model than the run began with."""
    digests = {spec: start.weights[spec] for spec in part.models if spec in start.weights}
    if digests and llm is not None:
        from crs_lib.llm.preflight import unchanged

        unchanged(digests, llm.settings_for)


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

                rows = dask.on_every_machine(scheduler, drain_scratch, stage.run)
                with closing(Recorder(stage.folder / LOG)) as recorder:
                    recorder.put(rows)
        except Exception as error:
            if earlier is None:
                raise
            earlier.add_note(f"after it: {type(error).__name__}: {error}")
        finally:
            if logged:
                from crs_lib.llm.calls import export_all

                stage.counts["llm_calls"] = export_all(stage.folder)
                with Answers(ledger.path) as answers:
                    stage.counts["asked_again"] = answers.asked_again()
            stage.counts.update(ledger.counts())


def sessions(
    ledger: Ledger,
    keys: Sequence[Key],
    make: Callable[..., Maker],
    arguments: tuple[Any, ...],
    *,
    workers: int = 1,
    threads: int = 0,
    scheduler: str = "",
    chunk: int = 10,
    most_failed: int = 0,
    bar: Bar | None = None,
    label: str = "",
) -> int:
    """Make every session of ``keys`` that the ledger lacks; returns the number of sessions made now.

    ``make(*arguments)`` builds the session maker, once in each process, and both must be picklable; with
    ``threads`` the sessions share one in this process, with ``scheduler`` they go to a Dask cluster. A
    session that raises is recorded as failed. The batch stops with a RunError after ``PATIENCE`` equal
    failures of a system in a row, once more than ``most_failed`` sessions failed: they would all fail.
    """
    if workers < 1:
        raise InputError(f"workers is {workers}; give a whole number >= 1")
    safety.check_limit("workers", max(workers, threads), "workers or threads at once are")
    finished = ledger.finished()
    missing = [key for key in keys if key not in finished]
    size = 1 if threads else chunk
    tasks = [missing[start : start + size] for start in range(0, len(missing), size)]
    build = partial(make, *arguments)
    outcomes = _outcomes(tasks, build, min(workers, len(missing)), threads, scheduler)
    try:
        _record(outcomes, ledger, most_failed, bar, label)
    except KeyboardInterrupt as error:
        outcomes.throw(error)  # wherever it arrived: the sessions under way are not waited for
    return len(missing)


def _record(
    outcomes: Generator[list[Done]], ledger: Ledger, most_failed: int, bar: Bar | None, label: str
) -> None:
    """Store outcomes as they come; RunError after ``PATIENCE`` equal failures of a system in a row, where
    more than ``most_failed`` failed or the system has finished none.
    """
    # A session that failed at an earlier start says nothing about the system now.
    before = {key for key, _ in ledger.failures()}
    failures: dict[str, list[str]] = {}
    answered = {key.system for key in ledger.finished()}
    n_failed = 0
    for batch in outcomes:
        ledger.record(batch)
        if bar is not None:
            bar.update(len(batch), label=label or _label([outcome.key for outcome in batch]))
        for outcome in batch:
            if outcome.key in before:
                continue
            streak = failures.setdefault(outcome.key.system, [])
            words = _NUMBER.sub("", outcome.error)
            if words not in streak:
                streak.clear()
            if outcome.body is None:
                streak.append(words)
                n_failed += 1
            else:
                answered.add(outcome.key.system)
            hopeless = n_failed > most_failed or outcome.key.system not in answered
            if len(streak) >= PATIENCE and hopeless:
                outcomes.close()
                raise RunError(_gives_up(outcome, len(streak)))


def _gives_up(last: Done, n: int) -> str:
    """What is said where a system fails again and again: its message, what was sent, what came back."""
    exchange = f"\n{last.exchange}" if last.exchange else ""
    return (
        f"{n} sessions of {last.key.system!r} failed in a row in the same way, so the others were not tried: "
        f"{last.error}{exchange}\n"
        "What was finished is stored; mend the cause and give the same command again"
    )


def check_failures(ledger: Ledger, keys: Sequence[Key], most: int = 0, hint: str = "") -> None:
    """RunError if more than ``most`` of these sessions failed; it names the first and ends with ``hint``."""
    wanted = set(keys)
    failures = [(key, error) for key, error in ledger.failures() if key in wanted]
    if len(failures) <= most:
        return
    key, error = failures[0]
    raise RunError(
        f"{len(failures)} of {len(keys)} sessions failed; "
        f"the first is session {key.session} of {key.system!r}: {error}. "
        f"The others are stored; start the same command again to retry the failed ones{hint}"
    )


def _attempts(maker: Maker, keys: Sequence[Key]) -> list[Done]:
    """The outcome of each session: its body, or its error; an error that ends the run is raised."""
    return [_attempt(maker, key) for key in keys]


def _attempt(maker: Maker, key: Key) -> Done:
    try:
        return Done(key, pack(maker(key)), "")
    except UnansweredError as failure:
        return _failed(key, failure.cause)._replace(partial=pack(failure.body))
    except Exception as error:
        if isinstance(error, RunError) and error.ends_run:
            raise
        return _failed(key, error)


def _failed(key: Key, error: Exception) -> Done:
    kind = getattr(error, "kind", type(error).__name__)
    exchange = "\n".join(getattr(error, "__notes__", ()))
    return Done(key, None, f"{kind}: {error}", exchange)


def _outcomes(
    tasks: Sequence[Sequence[Key]], build: Callable[[], Maker], workers: int, threads: int, scheduler: str
) -> Generator[list[Done]]:
    """Lists of outcomes, in the order in which tasks finish."""
    if not tasks:
        return
    if scheduler:
        pool = dask.submitter(_attempts, build, scheduler, workers)
    elif threads:
        pool = _threads(build, threads)
    elif workers > 1:
        pool = processes.submitter(_attempts, build, workers)
    else:
        maker = build()
        for keys in tasks:
            yield _attempts(maker, keys)
        return
    with pool as (submit, width):
        for keys, future in processes.completed(submit, tasks, width):
            yield _far_outcomes(keys, future) if scheduler else future.result()


def _far_outcomes(keys: Sequence[Key], future: "Future[list[Done]]") -> list[Done]:
    """What a cluster made of a task; its sessions count as failed where it gave the task up."""
    error = future.exception()
    ends_run = isinstance(error, InputError) or getattr(error, "ends_run", False)
    if error is None or ends_run:
        return future.result()
    return [Done(key, None, f"{type(error).__name__}: {error}") for key in keys]


@contextmanager
def _threads(build: Callable[[], Maker], threads: int) -> Iterator[tuple[Callable[[Any], Any], int]]:
    """As :func:`processes.submitter`, for threads that share a maker; an interrupt halts those under way.

    Existing objects are frozen (gc.freeze): collecting the catalogue would pause every thread.
    """
    maker = build()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="session")
    wait = True

    def submit(keys: Sequence[Key]) -> "Future[list[Done]]":
        return pool.submit(_attempts, maker, keys)

    gc.freeze()
    try:
        # Twice the threads: whoever ends a session finds the next one waiting, whatever this thread does.
        yield submit, 2 * threads
    except BaseException as error:
        wait = not isinstance(error, KeyboardInterrupt)
        models = getattr(maker, "models", None)
        if models:
            models.halt()
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)
        gc.unfreeze()
