"""LLM, the model that studies ask: a backend with slots, retries, a cache and a log around it."""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from crs_lib.core import outside
from crs_lib.core.errors import InputError, RunError
from crs_lib.llm import cache as caches
from crs_lib.llm import calls
from crs_lib.llm.base import BACKENDS, Backend, Reply, Request
from crs_lib.llm.errors import LLMError, other_weights
from crs_lib.llm.limits import DEFAULTS, check_fits
from crs_lib.llm.retry import Attempts, Retry, persist
from crs_lib.llm.text import checked

COOL_OFF = 30.0  # seconds that an endpoint which failed is left alone


class LLM:
    """A model in use: ``LLM("ollama:llama3:instruct", cache=…, recorder=…).complete(request)``.

    ``options`` are defaults that a request may override; keep ``num_ctx`` the same for all calls of a
    model, a change reloads it. ``slots`` is how many calls each endpoint gets at once. Further keywords
    go to the backend (host, timeout, keep_alive, …). Threads may share one LLM.

    ``weights`` is the digest that a run began with: a call under any other, or a reply that carries any
    other, raises the RunError that ends a run.
    """

    def __init__(
        self,
        spec: str,
        *,
        cache: caches.Cache | None = None,
        recorder: calls.Recorder | None = None,
        options: Mapping[str, Any] | None = None,
        retry: Retry | None = None,
        slots: int = 4,
        weights: str = "",
        **settings: Any,
    ) -> None:
        self.spec, self._run_weights = spec, weights
        self.backend: Backend = BACKENDS.create(spec, **settings)
        self.cache, self.recorder = cache, recorder
        self._options = {**DEFAULTS, **(options or {})}
        self._retry = retry or Retry()
        self._slots = Slots(self.backend.endpoints, slots)
        self._digest = ""
        self._halted = threading.Event()

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def complete(self, request: Request) -> Reply:
        """The reply to a request, from the cache or the model; blocks until it is there.

        Raises LLMError when all attempts failed; the reply is never a stand-in text. Every outcome is a row
        of the log. An interrupt closes the call's connection, so that the server stops writing.
        """
        if not request.messages:
            raise InputError("a request has no messages; give at least one")
        if request.choices and not BACKENDS.get(self.spec).facts.get("choices"):
            raise InputError(f"{self.spec} does not say how probable its words are; {giving_choices()} do")
        request, started = self.filled(request), time.perf_counter()
        digest = ""
        reply: Reply | None = None
        failure: LLMError | None = None
        try:
            check_fits(request)
            digest = self._weights()
            reply = self._answer(request, digest)
            return reply
        except LLMError as error:
            failure = error
            raise
        finally:
            if self.recorder is not None and (reply or failure):
                spent = time.perf_counter() - started
                row = calls.row(self.spec, request, reply, failure, spent, digest)
                self.recorder.add(row, request.tags)

    def gather(self, requests: Iterable[Request]) -> list[Reply | LLMError]:
        """The replies to many requests, in their order, as many at once as the endpoints take.

        A request that failed has its LLMError in its place; the others go on. Any other error is raised, and
        requests that wait are not sent; so it is with an interrupt. Calls under way then are not waited for,
        their replies still go into the cache.
        """
        waiting = deque(enumerate(requests))
        found: list[Reply | LLMError | None] = [None] * len(waiting)
        wrong: list[BaseException] = []

        def work() -> None:
            while not wrong:
                try:
                    number, request = waiting.popleft()
                except IndexError:
                    return
                try:
                    found[number] = self.complete(request)
                except LLMError as error:
                    found[number] = error
                except BaseException as error:
                    wrong.append(error)

        width = min(self._slots.total, len(waiting)) if any(self.backend.endpoints) else 1
        if width <= 1:
            work()
        else:
            _in_threads(work, width, waiting)
        if wrong:
            raise wrong[0]
        return [one for one in found if one is not None]

    def halt(self) -> None:
        """End pauses between attempts; calls under way are the last ones, further ones are refused."""
        self._halted.set()

    def close(self) -> None:
        """Close connections; cache and recorder stay open, they may be shared."""
        self.backend.close()

    def unload(self) -> None:
        """Free the model's memory on its servers, where the backend can."""
        release = getattr(self.backend, "unload", None)
        if release is not None:
            release()

    def filled(self, request: Request) -> Request:
        """The request with this model's default options in it: what is sent, logged and cached."""
        return replace(request, options={**self._options, **request.options})

    def _answer(self, request: Request, digest: str) -> Reply:
        """The reply from the cache, else from the model, which the cache then keeps."""
        if self.cache is None:
            return self._asked(request, digest)
        address = caches.key(digest, self.backend.settings(), request)
        kept = self.cache.get(address)
        if kept is not None and _usable(kept, request):
            return kept
        if kept is not None:
            self.cache.drop(address)
        reply = self._asked(request, digest)
        self.cache.put(address, reply)
        return reply

    def _asked(self, request: Request, digest: str) -> Reply:
        """The model's reply with its history: how many attempts there were, and how the others failed."""
        attempts = Attempts(request, self._retry)

        def attempt() -> Reply:
            with self._slots.taken() as endpoint:
                if self._halted.is_set():
                    raise RunError("the run was stopped before this call; started again, it continues")
                return self.backend.complete(attempts.request, endpoint)

        reply, tried = persist(attempts, attempt, self._halted), tuple(attempts.tried)
        if BACKENDS.get(self.spec).facts.get("kind") == "server":
            self._same_weights(reply.digest or digest)
        return replace(reply, digest=reply.digest or digest, attempts=len(tried) + 1, tried=tried)

    def _weights(self) -> str:
        """The weights' digest, with the same patience as a call; asked once."""
        if not self._digest:
            first = Attempts(Request((), "digest"), self._retry)
            self._digest = persist(first, self.backend.digest, self._halted)
        self._same_weights(self._digest)
        return self._digest

    def _same_weights(self, digest: str) -> None:
        if self._run_weights and digest != self._run_weights:
            raise other_weights(self.spec, self._run_weights, digest)


def giving_choices() -> str:
    """The backends that say how probable each of a request's choices is, as one text."""
    return ", ".join(sorted(entry.name for entry in BACKENDS if entry.facts.get("choices")))


def _usable(kept: Reply, request: Request) -> bool:
    """Whether a stored reply keeps what is asked of a new one."""
    try:
        same = kept.text if kept.calls else checked(kept.text, kept.stop, request.schema)
        return outside.valid(kept.text) == kept.text == same
    except LLMError:
        return False


class Slots:
    """The endpoints of one model, each with so many slots; the least busy one that works serves next.

    An endpoint that failed is left alone for half a minute, unless all of them failed: a dead server answers
    at once and would draw all calls to itself.
    """

    def __init__(self, endpoints: Sequence[str], slots: int) -> None:
        if slots < 1:
            raise InputError(f"slots is {slots}; give the number of calls an endpoint takes at once, >= 1")
        self._busy = dict.fromkeys(endpoints or [""], 0)
        self._failed = dict.fromkeys(self._busy, float("-inf"))
        self._freed = threading.Condition()
        self._slots = slots

    @property
    def total(self) -> int:
        """The slots of all endpoints together."""
        return self._slots * len(self._busy)

    @contextmanager
    def taken(self) -> Iterator[str]:
        """Wait for a slot and occupy it within; gives its endpoint.

        An error that is worth a pause marks the endpoint as failed.
        """
        with self._freed:
            while not (free := self._free()):
                self._freed.wait()
            chosen = min(free, key=lambda endpoint: self._busy[endpoint])
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


def _in_threads(work: Any, width: int, waiting: deque[Any]) -> None:
    """Do the work in so many threads; an interrupt leaves the rest undone, and no thread is waited for.

    The threads are daemons: those that still wait for a server do not hold up the end of the process.
    """
    threads = [threading.Thread(target=work, name="llm-call", daemon=True) for _ in range(width)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        waiting.clear()
        raise
