"""LLM, the model that studies ask (a backend with slots, retries, cache and log), and the Pool of a run."""

import math
import os
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.rng import address_seed
from crs_lib.core.text import shorten
from crs_lib.llm import base, calls
from crs_lib.llm.base import BACKENDS, DEFAULTS, Backend, LLMError, Reply, Request, giving_choices
from crs_lib.llm.settings import LLMSettings
from crs_lib.llm.text import checked

if TYPE_CHECKING:
    from tenacity import RetryCallState

_QUOTED = 600  # characters of a message that a failure quotes
COOL_OFF = 30.0  # seconds that an endpoint which failed is left alone
_ANSWERS = 3  # the fewest by which it is judged whether an endpoint can work on one call more
_SHORTEST = 1e-6  # seconds
CACHE, LOG = "llm_cache.sqlite", "llm_calls.sqlite"
_HALTED = "the run was stopped before this call; started again, it continues"
T = TypeVar("T")


class Retry(NamedTuple):
    """How often a call is tried again, and after what pause.

    Parameters
    ----------
    waits
        More attempts after trouble on the way, with growing pauses.
    seeds
        More attempts for replies that cannot be used, each with another seed.
    first, longest
        Seconds of the first pause and of the longest.
    """

    waits: int = 5
    seeds: int = 2
    first: float = 0.5
    longest: float = 60.0

    def following(self, request: Request, error: LLMError, tried: Sequence[str]) -> Request | None:
        """The next request after an error and the kinds of those before; None for no further attempt."""
        used = sum(base.REMEDIES[kind] == error.remedy for kind in tried)
        if error.remedy == "wait" and used < self.waits:
            return request
        if error.remedy == "other seed" and used < self.seeds:
            if request.seed is None:
                return request
            return replace(request, seed=address_seed(request.seed, "attempt", used + 1))
        if error.remedy == "more room" and not used:
            return _enlarged(request, whole=not error.text)
        return None

    def pause(self, state: "RetryCallState") -> float:
        """Seconds before the next attempt; 0 where waiting would not help. What a server asks for counts up
        to ``longest``. By chance callers that failed together come back apart.
        """
        from tenacity import wait_exponential, wait_random

        error = state.outcome.exception() if state.outcome else None
        if not isinstance(error, LLMError) or error.remedy != "wait":
            return 0.0
        growing = wait_exponential(self.first, max=self.longest)(state)
        apart = wait_random(0, self.first)(state)
        return max(growing, min(error.pause, self.longest)) + apart


def _enlarged(request: Request, *, whole: bool) -> Request | None:
    """The request with room for twice the answer, as far as the context allows, or with the ``whole`` room
    that it leaves, where thinking used all; None where it has no more.
    """
    options = {**DEFAULTS, **request.options}
    needed = request.tokens or base.tokens_at_most(request.messages)
    answer = options["num_ctx"] - needed
    if not whole:
        answer = min(2 * options["num_predict"], answer)
    if answer <= options["num_predict"]:
        return None
    return replace(request, options={**request.options, "num_predict": answer})


@dataclass
class _Attempts(Generic[T]):
    """The attempts at one request: what is sent next depends on how the last one failed."""

    retry: Retry
    request: Request
    attempt: Callable[[Request], T]
    halted: Event
    tried: tuple[str, ...] = ()  # the kinds of the failures

    def once(self) -> T:
        """One attempt at the request as it now is."""
        return self.attempt(self.request)

    def again(self, error: BaseException) -> bool:
        """Whether another attempt is worth it, for which the request is then set."""
        if not isinstance(error, LLMError):
            return False
        error.attempts = len(self.tried) + 1
        error.tried = self.tried
        if self.halted.is_set():
            return False
        following = self.retry.following(self.request, error, self.tried)
        if following is None:
            return False
        self.request = following
        self.tried = (*self.tried, error.kind)
        return True


def persist(
    retry: Retry, request: Request, attempt: Callable[[Request], T], halted: Event
) -> tuple[T, tuple[str, ...]]:
    """The result of ``attempt(request)``, tried until it succeeds, and the kinds of the failures before it.
    Raises the last LLMError where the policy gives up or the work is ``halted``, which ends a pause; its note
    says what was sent and what came back.
    """
    from tenacity import Retrying, retry_if_exception
    from tenacity.nap import sleep_using_event

    attempts = _Attempts(retry, request, attempt, halted)
    until_it_succeeds = Retrying(
        retry=retry_if_exception(attempts.again), wait=retry.pause, sleep=sleep_using_event(halted)
    )
    try:
        result = until_it_succeeds(attempts.once)
    except LLMError as error:
        error.add_note(_exchange(request, error))
        raise
    return result, attempts.tried


def _exchange(request: Request, error: LLMError) -> str:
    """The last message of a request and what was answered, in a line each."""
    sent = "a question without a text"
    if request.messages:
        sent = shorten(request.messages[-1].content, _QUOTED)
    answer = shorten(error.text, _QUOTED) or "nothing that could be read"
    return f"sent, as message {len(request.messages)}: {sent}\ncame back: {answer}"


class LLM(AbstractContextManager["LLM", None]):
    r"""A language model in use: a backend with slots, retries, cache and log. Threads may share one.

    Parameters
    ----------
    spec
        The backend and its model: ``ollama:llama3:instruct``.
    cache, recorder
        Where replies are kept and calls are logged, if anywhere.
    options
        Defaults that a request may override; a change of ``num_ctx`` reloads a model.
    retry
        How often a failed call is tried again.
    slots
        How many calls each endpoint gets at once, at most.
    weights
        The digest that a run began with: any other raises the RunError that ends a run.
    halted
        Once it is set pauses end and further calls are refused.
    **settings
        Those of the backend: host, timeout, …

    Examples
    --------
    >>> LLM("template").complete(Request.ask("crs", "Say this:\n- Noted.")).text
    'Noted.'
    """

    def __init__(
        self,
        spec: str,
        *,
        cache: calls.Cache | None = None,
        recorder: calls.Recorder | None = None,
        options: Mapping[str, Any] | None = None,
        retry: Retry | None = None,
        slots: int = 4,
        weights: str = "",
        halted: Event | None = None,
        **settings: Any,
    ) -> None:
        self.spec = spec
        self.backend = BACKENDS.create(spec, **settings)
        self.cache = cache
        self.recorder = recorder
        self._gives_choices = bool(BACKENDS.get(spec).facts.get("choices"))
        self._options = {**DEFAULTS, **(options or {})}
        self._retry = retry or Retry()
        self._halted = halted or Event()
        self._slots = Slots(self.backend.endpoints, slots)
        self._run_weights = weights
        self._digest = ""

    def __exit__(self, *_: object) -> None:
        self.close()

    def complete(self, request: Request) -> Reply:
        """The reply to a request, from the cache or the model; blocks until it is there. Raises LLMError when
        all attempts failed; the reply is never a stand-in text. Every outcome is a row of the log. An
        interrupt closes the call's connection, so that the server stops writing.
        """
        if not request.messages:
            raise InputError("a request has no messages; give at least one")
        if request.choices and not self._gives_choices:
            raise InputError(f"{self.spec} does not say how probable its words are; {giving_choices()} do")
        request = self.filled(request)
        started = time.perf_counter()
        digest = ""
        try:
            base.check_fits(request)
            digest = self._weights()
            reply = self._answer(request, digest)
        except LLMError as error:
            self._record(request, error, started, digest)
            raise
        self._record(request, reply, started, digest)
        return reply

    def _record(self, request: Request, outcome: Reply | LLMError, started: float, digest: str) -> None:
        if self.recorder is not None:
            seconds = time.perf_counter() - started
            row = calls.row(self.spec, request, outcome, seconds, digest)
            self.recorder.add(row, request.tags)

    def gather(self, requests: Iterable[Request]) -> list[Reply | LLMError]:
        """The replies to many requests in their order, as many at once as the endpoints take, LLMErrors in
        the place of what failed. Any other error or an interrupt is raised, and requests that wait are not
        sent; calls under way then are not waited for, their replies still go into the cache.
        """
        waiting = list(requests)
        if len(waiting) < 2 or not any(self.backend.endpoints):
            return [self._outcome(request) for request in waiting]
        threads = ThreadPoolExecutor(min(self._slots.total, len(waiting)), "llm-call")
        try:
            sent = [threads.submit(self._outcome, request) for request in waiting]
            for ended in wait(sent, return_when=FIRST_EXCEPTION).done:
                ended.result()
            return [call.result() for call in sent]
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def _outcome(self, request: Request) -> Reply | LLMError:
        try:
            return self.complete(request)
        except LLMError as error:
            return error

    def close(self) -> None:
        """Close connections; cache and recorder stay open, they may be shared."""
        self.backend.close()

    def filled(self, request: Request) -> Request:
        """The request with this model's default options in it: what is sent, logged and cached."""
        return replace(request, options={**self._options, **request.options})

    def _answer(self, request: Request, digest: str) -> Reply:
        """The reply from the cache, else from the model, which the cache then keeps."""
        if self.cache is None:
            return self._from_model(request, digest)
        address = calls.key(digest, self.backend.settings(), request)
        stored = self.cache.get(address)
        if stored is not None:
            if _usable(stored, request):
                return stored
            self.cache.drop(address)
        reply = self._from_model(request, digest)
        self.cache.put(address, reply)
        return reply

    def _from_model(self, request: Request, digest: str) -> Reply:
        """The model's reply with its history: how many attempts there were, and how the others failed."""
        reply, tried = persist(self._retry, request, self._attempt, self._halted)
        digest = reply.digest or digest
        if base.is_served(self.spec):
            self._check_weights(digest)
        return replace(reply, digest=digest, attempts=len(tried) + 1, tried=tried)

    def _attempt(self, request: Request) -> Reply:
        def ask(endpoint: str) -> Reply:
            if self._halted.is_set():
                raise RunError(_HALTED)
            return self.backend.complete(request, endpoint)

        return self._slots.answer(ask)

    def _weights(self) -> str:
        """The weights' digest, with the same patience as a call; asked once."""
        if not self._digest:
            self._digest = digest_of(self.backend, self._retry, self._halted)
        self._check_weights(self._digest)
        return self._digest

    def _check_weights(self, digest: str) -> None:
        if self._run_weights and digest != self._run_weights:
            raise base.other_weights(self.spec, self._run_weights, digest)


def digest_of(backend: Backend, retry: Retry, halted: Event) -> str:
    """The identity of a backend's weights, asked with the patience of a call."""
    digest, _ = persist(retry, Request((), "digest"), lambda _: backend.digest(), halted)
    return digest


def _usable(stored: Reply, request: Request) -> bool:
    """Whether a stored reply keeps what is asked of a new one."""
    if safety.valid(stored.text) != stored.text:
        return False
    if stored.calls:
        return bool(request.tools)
    try:
        return checked(stored.text, stored.stop, request.schema) == stored.text
    except LLMError:
        return False


@dataclass
class _Call:
    """A call under way at an ``endpoint``: how many there were with it when it was ``sent``, and when its
    ``turn`` came, as the server works on a number of calls at once and lets the others wait.
    """

    endpoint: str
    level: int
    sent: float
    turn: float | None = None


@dataclass
class _Mean:
    """A mean that grows."""

    count: int = 0
    total: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value

    @property
    def value(self) -> float:
        return self.total / self.count


class _Endpoint:
    """The calls at one endpoint: one at first; one more is sent as long as answers do not get slower in
    proportion to their number. So at most one call waits in the server.
    """

    def __init__(self, slots: int) -> None:
        self.failed = -math.inf  # when a call failed in a way that is worth a pause
        self.limit = 1  # of the calls under way
        self._slots = slots
        self._calls: list[_Call] = []  # as they were sent
        self._served = 1  # calls that the server was seen to work on at once
        self._seconds: dict[int, _Mean] = defaultdict(_Mean)  # of an answer, by how many calls were under way
        # By level too: the seconds of an answer over those of a call that is alone at the server.
        self._slowness: dict[int, _Mean] = defaultdict(_Mean)

    @property
    def busy(self) -> int:
        """How many calls are under way."""
        return len(self._calls)

    @property
    def free(self) -> int:
        """How many more calls may be sent; below 0 after a failure that made the limit smaller."""
        return self.limit - len(self._calls)

    def send(self, name: str) -> _Call:
        """A call begins."""
        now = time.monotonic()
        call = _Call(name, len(self._calls) + 1, now)
        if call.level <= self._served:
            call.turn = now
        self._calls.append(call)
        return call

    @property
    def crowded(self) -> bool:
        """Whether more calls may be sent than are worked on: one sent later may reach the server sooner."""
        return self.limit > self._served

    def end(self, call: _Call) -> None:
        """A call has ended: the turn of another may have come."""
        now = time.monotonic()
        self._calls.remove(call)
        for other in self._calls[: self._served]:
            if other.turn is None:
                other.turn = now

    def fail(self) -> None:
        """A call has failed in a way that is worth a pause."""
        self.failed = time.monotonic()
        self.limit = self._served

    def waited(self, call: _Call, reply: Reply) -> float:
        """The seconds for which an answered call waited in the server for others of ours: as the server
        says, else until its turn came, if it was slower in proportion.
        """
        if call.level == 1:
            return 0.0
        if reply.waited is not None:
            return reply.waited
        before = self._seconds[self._served]
        slow = before.count and reply.seconds >= before.value * _in_proportion(call.level)
        return call.turn - call.sent if slow and call.turn is not None else 0.0

    def learn(self, call: _Call, reply: Reply) -> None:
        """Count an answer, and send one call more at once if its like are not slower in proportion."""
        level = call.level
        if level != self.limit:
            return
        before = self._seconds[level - 1]
        alone = reply.seconds - (reply.waited or 0.0)
        if reply.waited is None and before.count:
            alone = before.value
        self._seconds[level].add(reply.seconds)
        slowness = self._slowness[level]
        slowness.add(reply.seconds / max(alone, _SHORTEST))
        enough = slowness.count >= max(_ANSWERS, 1.5 * level)
        slow_ones_too = not self._calls or self._calls[0].sent >= call.sent
        as_fast = level == 1 or slowness.value < _in_proportion(level)
        if enough and slow_ones_too and as_fast:
            self._served = level
            self.limit = min(level + 1, self._slots)


def _in_proportion(level: int) -> float:
    """How many times as slow as with one call less: halfway between as fast and slower in proportion."""
    return 1 + 0.5 / (level - 1)


class Slots:
    """The endpoints of one model, each with as many calls under way as it works on at once, and one more, up
    to ``slots``; the least busy one that works serves next. One that failed is left alone for half a minute,
    unless all did: a dead server would draw all calls to itself.
    """

    def __init__(self, endpoints: Sequence[str], slots: int) -> None:
        if slots < 1:
            raise InputError(f"slots is {slots}; give the number of calls an endpoint takes at once, >= 1")
        self.total = slots * len(endpoints)
        self._endpoints = {name: _Endpoint(slots) for name in endpoints}
        self._freed = threading.Condition()

    def answer(self, attempt: Callable[[str], Reply]) -> Reply:
        """The answer of an attempt at the endpoint that is free, its wait in the server for others of ours
        told apart from its seconds. Its time-out allows for one before it. A failure that is worth a pause
        marks the endpoint.
        """
        call = self._take()
        endpoint = self._endpoints[call.endpoint]
        behind = base.BEHIND.set(call.turn is None or endpoint.crowded)
        try:
            reply = attempt(call.endpoint)
        except BaseException as error:
            with self._freed:
                endpoint.end(call)
                if isinstance(error, LLMError) and error.remedy == "wait":
                    endpoint.fail()
                self._freed.notify_all()
            raise
        finally:
            base.BEHIND.reset(behind)
        with self._freed:
            endpoint.end(call)
            waited = min(endpoint.waited(call, reply), reply.seconds)
            endpoint.learn(call, reply)
            self._freed.notify_all()
        return replace(reply, seconds=reply.seconds - waited, waited=waited)

    def _take(self) -> _Call:
        with self._freed:
            free = self._free()
            while not free:
                self._freed.wait()
                free = self._free()
            name = min(free, key=lambda name: self._endpoints[name].busy)
            return self._endpoints[name].send(name)

    def _free(self) -> list[str]:
        """Endpoints that may be sent a call, among those that work, or among all if none does."""
        now = time.monotonic()
        working = [name for name, endpoint in self._endpoints.items() if now - endpoint.failed >= COOL_OFF]
        return [name for name in working or self._endpoints if self._endpoints[name].free > 0]


def scratch(name: str) -> Path:
    """The user's folder on this machine's own disk, below ``CRS_SCRATCH`` or the temporary folder."""
    parent = Path(os.environ.get("CRS_SCRATCH") or tempfile.gettempdir())
    folder = parent / f"crs-{os.getuid()}" / paths.slug(name)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def drain_scratch(name: str) -> list[tuple[str, str]]:
    """The rows of the call log in :func:`scratch`, which are then gone from it."""
    path = scratch(name) / LOG
    if not path.exists():
        return []
    with closing(calls.Recorder(path)) as recorder:
        return recorder.drain()


class Pool(AbstractContextManager["Pool", None]):
    """The models of a run, one LLM for each spec, made when it is first asked; threads may share the pool.

    Parameters
    ----------
    folder
        Where cache and log lie; None for neither.
    llm
        The settings of all models.
    models
        LLMs that are there already, by spec.
    retry
        How often a failed call is tried again.
    weights
        The digests, by spec, that a run began with: calls under others end the run.
    options
        Those of every call.
    """

    def __init__(
        self,
        folder: Path | None,
        llm: LLMSettings | None = None,
        models: Mapping[str, LLM] | None = None,
        *,
        retry: Retry | None = None,
        weights: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.llm = llm or LLMSettings()
        self.cache = calls.Cache(folder / CACHE) if folder else None
        self.recorder = calls.Recorder(folder / LOG) if folder else None
        self._models = dict(models or {})
        self._retry = retry
        self._weights = weights or {}
        self._options = options
        self._lock = threading.Lock()
        self._halted = Event()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, spec: str) -> LLM:
        """The LLM of a spec; InputError for one that no backend knows, RunError after :meth:`halt`."""
        if self._halted.is_set():
            raise RunError(_HALTED)
        with self._lock:
            if spec not in self._models:
                self._models[spec] = self._model(spec)
            return self._models[spec]

    def _model(self, spec: str) -> LLM:
        return LLM(
            spec,
            cache=self.cache,
            recorder=self.recorder,
            options=self._options,
            retry=self._retry,
            slots=self.llm.slots,
            weights=self._weights.get(spec, ""),
            halted=self._halted,
            **self.llm.settings_for(spec),
        )

    def complete(self, spec: str, request: Request) -> Reply:
        """The reply of a model; raises LLMError, and RunError after :meth:`halt`."""
        return self(spec).complete(request)

    def width(self, specs: Iterable[str]) -> int:
        """Sessions at once that keep all slots of these models' servers busy; 1 for an engine of our own."""
        widths = [1]
        for spec in specs:
            if BACKENDS.get(spec).facts["kind"] != "engine":
                endpoints = len(self(spec).backend.endpoints)
                widths.append(self.llm.at_once * endpoints)
        return max(widths)

    def halt(self) -> None:
        """Refuse all further calls and end pauses, so that threads which call come to an end."""
        self._halted.set()

    def release(self, spec: str) -> None:
        """Free a model's memory on its servers."""
        if spec in self._models:
            self._models[spec].backend.unload()

    def close(self) -> None:
        """Close connections and files; using the pool afterwards opens them again."""
        with self._lock:
            for part in (*self._models.values(), self.cache, self.recorder):
                if part is not None:
                    part.close()
