"""LLM: what studies use. A backend with limits, retries, a cache and a log around it."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from crs_lib.core.errors import InputError
from crs_lib.llm import cache as caches
from crs_lib.llm import calls, loop
from crs_lib.llm.backends import BACKENDS
from crs_lib.llm.base import Backend, Reply, Request
from crs_lib.llm.errors import LLMError
from crs_lib.llm.limits import DEFAULTS, Endpoints, check_fits
from crs_lib.llm.retry import Course, Retry, persist, recover


class LLM:
    """A model in use: ``LLM("ollama:llama3:instruct", cache=…, recorder=…).complete(request)``.

    ``options`` are defaults that a request may override; keep ``num_ctx`` the same for all calls of a
    model, a change reloads it. ``slots`` is how many calls each endpoint gets at once. Further keywords
    go to the backend (host, timeout, keep_alive, …). Safe to share between threads.
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
        **settings: Any,
    ) -> None:
        self.spec = spec
        self.backend: Backend = BACKENDS.create(spec, **settings)
        self.cache, self.recorder = cache, recorder
        self._options = {**DEFAULTS, **(options or {})}
        self._retry = retry or Retry()
        self._slots = Endpoints(self.backend.endpoints, slots)
        self._digest = ""

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def complete(self, request: Request) -> Reply:
        """The reply to a request, from the cache or the model; blocks until it is there.

        Raises LLMError when all attempts failed; it is never a stand-in text. Every outcome is a row of
        the log. Works where an event loop runs already (a notebook); inside a coroutine use ``acomplete``.
        """
        with self._logged(request) as call:  # this thread reads and writes files, the loop talks to servers
            call.digest = self._digest or loop.run(self._weights())
            call.reply = self._known(call) or self._kept(call, *self._asked(call))
        return call.reply

    async def acomplete(self, request: Request) -> Reply:
        """The same for coroutines, on any event loop."""
        return await loop.awaited(self._call(request))

    def gather(self, requests: Iterable[Request]) -> list[Reply | LLMError]:
        """The replies to many requests, in their order, as many at once as the endpoints take.

        A request that failed has its LLMError in its place; the others go on.
        """
        return loop.run(self._gather(list(requests)))

    def close(self) -> None:
        """Close connections; cache and recorder stay open, they may be shared."""
        loop.run(self.backend.aclose())

    def unload(self) -> None:
        """Free the model's memory on its servers, where the backend can."""
        release = getattr(self.backend, "unload", None)
        if release is not None:
            loop.run(release())

    def filled(self, request: Request) -> Request:
        """The request with this model's default options in it: what is sent, logged and cached."""
        return replace(request, options={**self._options, **request.options})

    async def _gather(self, requests: list[Request]) -> list[Reply | LLMError]:
        async def one(request: Request) -> Reply | LLMError:
            try:
                return await self._call(request)
            except LLMError as error:
                return error

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(request)) for request in requests]
        except ExceptionGroup as errors:  # what is no LLMError is wrong with all of them: say it once
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _call(self, request: Request) -> Reply:
        with self._logged(request) as call:
            call.digest = self._digest or await self._weights()
            call.reply = self._known(call) or self._kept(call, *await self._answer(call))
        return call.reply

    @contextmanager
    def _logged(self, request: Request) -> Iterator["_Call"]:
        """Within, a call is made; its outcome becomes a row of the log."""
        if not request.messages:
            raise InputError("a request has no messages; give at least one")
        call, started = _Call(self.filled(request)), time.perf_counter()
        failure = None
        try:
            check_fits(call.request)
            yield call
        except LLMError as error:
            failure = error
            raise
        finally:
            if self.recorder is not None and (call.reply or failure):
                spent = time.perf_counter() - started
                record = calls.row(self.spec, call.request, call.reply, failure, spent, call.digest)
                self.recorder.add(record, request.tags)

    def _known(self, call: "_Call") -> Reply | None:
        """The reply in the cache."""
        if self.cache is None:
            return None
        call.address = caches.key(call.digest, self.backend.settings(), call.request)
        return self.cache.get(call.address)

    def _kept(self, call: "_Call", reply: Reply, tried: tuple[str, ...]) -> Reply:
        """The model's reply with its history, put into the cache."""
        reply = replace(reply, digest=reply.digest or call.digest, attempts=len(tried) + 1, tried=tried)
        if self.cache is not None:
            self.cache.put(call.address, reply)
        return reply

    def _asked(self, call: "_Call") -> tuple[Reply, tuple[str, ...]]:
        """The same as ``_answer``, waiting for it; what needs no server is asked in this thread."""
        if any(self.backend.endpoints):
            return loop.run(self._answer(call))
        try:
            return self.backend.complete(call.request), ()
        except LLMError as error:
            return loop.run(self._answer(call, error))

    async def _answer(self, call: "_Call", failed: LLMError | None = None) -> tuple[Reply, tuple[str, ...]]:
        """The model's reply, and what failed before it; ``failed`` is how a first attempt ended."""
        course = Course(call.request, self._retry)
        attempts = (course, lambda: self._attempt(course.request))
        reply = await (persist(*attempts) if failed is None else recover(*attempts, failed))
        return reply, tuple(course.tried)

    async def _attempt(self, request: Request) -> Reply:
        endpoint = await self._slots.take()
        with self._slots.using(endpoint):
            return await self.backend.acomplete(request, endpoint)

    async def _weights(self) -> str:
        """The weights' digest, with the same patience as a call; asked once."""
        self._digest = await persist(Course(Request((), "digest"), self._retry), self.backend.digest)
        return self._digest


@dataclass
class _Call:
    """What is known of a call while it is made."""

    request: Request
    digest: str = ""
    address: str = ""
    reply: Reply | None = None
