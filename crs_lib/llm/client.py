"""LLM, the model that studies ask (a backend with slots, retries, cache and log), and the Pool of a run."""

import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, TypeVar

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.rng import address_seed
from crs_lib.llm import base, calls
from crs_lib.llm.base import BACKENDS, DEFAULTS, Backend, LLMError, Reply, Request, giving_choices
from crs_lib.llm.settings import LLMSettings
from crs_lib.llm.text import checked

COOL_OFF = 30.0  # seconds that an endpoint which failed is left alone
CACHE, LOG = "llm_cache.sqlite", "llm_calls.sqlite"
_HALTED = "the run was stopped before this call; started again, it continues"
T = TypeVar("T")


class Retry(NamedTuple):
    """``waits`` more attempts after trouble on the way, with growing pauses; ``seeds`` for bad replies."""

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
            seed = request.seed
            return replace(request, seed=seed if seed is None else address_seed(seed, "attempt", used + 1))
        if error.remedy != "more room" or used:
            return None
        options = {**DEFAULTS, **request.options}
        needs = request.tokens or base.tokens_at_most(request.messages)
        enlarged = min(2 * options["num_predict"], options["num_ctx"] - needs)  # as the context allows
        more = replace(request, options={**request.options, "num_predict": enlarged})
        return more if enlarged > options["num_predict"] else None

    def pause(self, error: LLMError, attempt: int) -> float:
        """Seconds before the next attempt after the nth failed; 0 where waiting would not help. What a server
        asks for counts up to ``longest``. By chance callers that failed together come back apart.
        """
        if error.remedy != "wait":
            return 0.0
        grown: float = min(self.first * 2 ** (attempt - 1), self.longest)
        return max(grown, min(error.pause, self.longest)) + random.uniform(0, self.first)


def persist(
    retry: Retry, request: Request, attempt: Callable[[Request], T], halted: Event
) -> tuple[T, tuple[str, ...]]:
    """The result of ``attempt(request)``, tried until it succeeds, and the kinds of the failures before it.
    Raises the last LLMError where the policy gives up or the work is ``halted``, which ends a pause.
    """
    tried: list[str] = []
    while True:
        try:
            return attempt(request), tuple(tried)
        except LLMError as error:
            error.attempts, error.tried = len(tried) + 1, tuple(tried)
            following = None if halted.is_set() else retry.following(request, error, tried)
            if following is None:
                raise
            tried.append(error.kind)
            request = following
            halted.wait(retry.pause(error, len(tried)))


class LLM(AbstractContextManager["LLM", None]):
    """A model in use: ``LLM("ollama:llama3:instruct", cache=…, recorder=…).complete(request)``. ``options``
    are defaults that a request may override; a change of ``num_ctx`` reloads a model. ``slots`` is how many
    calls each endpoint gets at once. Further keywords go to the backend (host, timeout, …). Threads may share
    one LLM. Once ``halted`` is set pauses end and further calls are refused. ``weights`` is the digest that a
    run began with: any other raises the RunError that ends a run.
    """

    def __init__(
        self, spec: str, *, cache: calls.Cache | None = None, recorder: calls.Recorder | None = None,
        options: Mapping[str, Any] | None = None, retry: Retry | None = None, slots: int = 4,
        weights: str = "", halted: Event | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        self.spec, self._run_weights = spec, weights
        self.backend, self._facts = BACKENDS.create(spec, **settings), BACKENDS.get(spec).facts
        self.cache, self.recorder = cache, recorder
        self._options = {**DEFAULTS, **(options or {})}
        self._retry, self._halted = retry or Retry(), halted or Event()
        self._slots = _Slots(self.backend.endpoints, slots)
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
        if request.choices and not self._facts.get("choices"):
            raise InputError(f"{self.spec} does not say how probable its words are; {giving_choices()} do")
        request, started, digest = self.filled(request), time.perf_counter(), ""
        outcome: Reply | LLMError | None = None
        try:
            base.check_fits(request)
            digest = self._weights()
            outcome = self._answer(request, digest)
            return outcome
        except LLMError as error:
            outcome = error
            raise
        finally:
            if self.recorder is not None and outcome is not None:
                row = calls.row(self.spec, request, outcome, time.perf_counter() - started, digest)
                self.recorder.add(row, request.tags)

    def gather(self, requests: Iterable[Request]) -> list[Reply | LLMError]:
        """The replies to many requests in their order, as many at once as the endpoints take, LLMErrors in
        the place of what failed. Any other error or an interrupt is raised, and requests that wait are not
        sent; calls under way then are not waited for, their replies still go into the cache.
        """

        def outcome(request: Request) -> Reply | LLMError:
            try:
                return self.complete(request)
            except LLMError as error:
                return error

        asked = list(requests)
        if len(asked) < 2 or not any(self.backend.endpoints):
            return [outcome(request) for request in asked]
        threads = ThreadPoolExecutor(min(self._slots.total, len(asked)), "llm-call")
        try:
            sent = [threads.submit(outcome, request) for request in asked]
            for ended in wait(sent, return_when=FIRST_EXCEPTION).done:
                ended.result()
            return [one.result() for one in sent]
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Close connections; cache and recorder stay open, they may be shared."""
        self.backend.close()

    def filled(self, request: Request) -> Request:
        """The request with this model's default options in it: what is sent, logged and cached."""
        return replace(request, options={**self._options, **request.options})

    def _answer(self, request: Request, digest: str) -> Reply:
        """The reply from the cache, else from the model, which the cache then keeps."""
        if self.cache is None:
            return self._asked(request, digest)
        address = calls.key(digest, self.backend.settings(), request)
        if kept := self.cache.get(address):
            if _usable(kept, request):
                return kept
            self.cache.drop(address)
        reply = self._asked(request, digest)
        self.cache.put(address, reply)
        return reply

    def _asked(self, request: Request, digest: str) -> Reply:
        """The model's reply with its history: how many attempts there were, and how the others failed."""

        def attempt(request: Request) -> Reply:
            with self._slots.taken() as endpoint:
                if self._halted.is_set():
                    raise RunError(_HALTED)
                return self.backend.complete(request, endpoint)

        reply, tried = persist(self._retry, request, attempt, self._halted)
        digest = reply.digest or digest
        if self._facts.get("kind") == "server":
            self._check_weights(digest)
        return replace(reply, digest=digest, attempts=len(tried) + 1, tried=tried)

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
    return persist(retry, Request((), "digest"), lambda _: backend.digest(), halted)[0]


def _usable(kept: Reply, request: Request) -> bool:
    """Whether a stored reply keeps what is asked of a new one."""
    try:
        if kept.calls and not request.tools:
            return False
        same = kept.text if kept.calls else checked(kept.text, kept.stop, request.schema)
        return safety.valid(kept.text) == kept.text == same
    except LLMError:
        return False


class _Slots:
    """The endpoints of one model, each with so many slots; the least busy one that works serves next. One
    that failed is left alone for half a minute, unless all did: a dead server would draw all calls to itself.
    """

    def __init__(self, endpoints: Sequence[str], slots: int) -> None:
        if slots < 1:
            raise InputError(f"slots is {slots}; give the number of calls an endpoint takes at once, >= 1")
        self._busy = dict.fromkeys(endpoints, 0)
        self._failed = dict.fromkeys(endpoints, float("-inf"))
        self._freed = threading.Condition()
        self._slots, self.total = slots, slots * len(self._busy)

    @contextmanager
    def taken(self) -> Iterator[str]:
        """Occupy a slot within, and give its endpoint; an error that is worth a pause marks it as failed."""
        with self._freed:
            while not (free := self._free()):
                self._freed.wait()
            chosen = min(free, key=self._busy.__getitem__)
            self._busy[chosen] += 1
        failed = False
        try:
            yield chosen
        except LLMError as error:
            failed = error.remedy == "wait"
            raise
        finally:
            with self._freed:
                self._busy[chosen] -= 1
                if failed:
                    self._failed[chosen] = time.monotonic()
                self._freed.notify(sum(self._slots - self._busy[endpoint] for endpoint in self._free()))

    def _free(self) -> list[str]:
        """Endpoints with a free slot, among those that work, or among all if none does."""
        now = time.monotonic()
        works = [name for name, failed in self._failed.items() if now - failed >= COOL_OFF]
        return [name for name in works or self._busy if self._busy[name] < self._slots]


def scratch(name: str) -> Path:
    """The user's folder on this machine's own disk, below ``CRS_SCRATCH`` or the temporary folder."""
    place = Path(os.environ.get("CRS_SCRATCH") or tempfile.gettempdir())
    folder = place / f"crs-{os.getuid()}" / paths.slug(name)
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
    """One LLM for each spec, made when it is first asked, or given in ``made``; safe to share between
    threads. Cache and log lie in ``folder``, if there is one. ``weights`` are the digests, by spec, that a
    run began with: calls under others end the run. ``options`` are those of every call.
    """

    def __init__(
        self, folder: Path | None, llm: LLMSettings | None = None, made: Mapping[str, LLM] | None = None, *,
        retry: Retry | None = None, weights: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.llm, self._weights = llm or LLMSettings(), weights or {}
        self.cache = calls.Cache(folder / CACHE) if folder else None
        self.recorder = calls.Recorder(folder / LOG) if folder else None
        self._made, self._lock, self._halted = dict(made or {}), threading.Lock(), Event()
        self._shared: dict[str, Any] = {
            "cache": self.cache, "recorder": self.recorder, "retry": retry, "options": options,
            "slots": self.llm.at_once, "halted": self._halted,
        }  # fmt: skip

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(self, spec: str) -> LLM:
        """The LLM of a spec; InputError for one that no backend knows, RunError after :meth:`halt`."""
        if self._halted.is_set():
            raise RunError(_HALTED)
        with self._lock:
            if spec not in self._made:
                own = self.llm.settings_for(spec)
                self._made[spec] = LLM(spec, weights=self._weights.get(spec, ""), **self._shared, **own)
            return self._made[spec]

    def complete(self, spec: str, request: Request) -> Reply:
        """The reply of a model; raises LLMError, and RunError after :meth:`halt`."""
        return self(spec).complete(request)

    def width(self, specs: Iterable[str]) -> int:
        """Sessions at once that keep all slots of these models' servers busy; 1 for an engine of our own."""
        served = [spec for spec in specs if BACKENDS.get(spec).facts["kind"] != "engine"]
        return max((self.llm.at_once * len(self(spec).backend.endpoints) for spec in served), default=1)

    def halt(self) -> None:
        """Refuse all further calls and end pauses, so that threads which call come to an end."""
        self._halted.set()

    def release(self, spec: str) -> None:
        """Free a model's memory on its servers."""
        if spec in self._made:
            self._made[spec].backend.unload()

    def close(self) -> None:
        """Close connections and files; using the pool afterwards opens them again."""
        with self._lock:
            for opened in (*self._made.values(), self.cache, self.recorder):
                if opened is not None:
                    opened.close()
