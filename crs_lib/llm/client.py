"""LLM: what studies use. A backend with limits, retries, a cache and a log around it."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from crs_lib.errors import InputError
from crs_lib.llm import cache as caches
from crs_lib.llm import calls, loop
from crs_lib.llm.base import BACKENDS, Backend, Reply, Request
from crs_lib.llm.errors import LLMError
from crs_lib.llm.limits import DEFAULTS, Endpoints, check_fits
from crs_lib.llm.retry import Course, Retry, persist


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

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def complete(self, request: Request) -> Reply:
        """The reply to a request, from the cache or the model; blocks until it is there.

        Raises LLMError when all attempts failed; it is never a stand-in text. Every outcome is a row of
        the log. Works where an event loop runs already (a notebook); inside a coroutine use ``acomplete``.
        """
        return loop.run(self._call(request))

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
        if not request.messages:
            raise InputError("a request has no messages; give at least one")
        request, started = self.filled(request), time.perf_counter()
        digest, reply, failure = "", None, None
        try:
            check_fits(request)
            digest = await self._digest()
            reply = await self._answer(request, digest)
            return reply
        except LLMError as error:
            failure = error
            raise
        finally:
            if self.recorder is not None and (reply or failure):
                spent = time.perf_counter() - started
                record = calls.row(self.spec, request, reply, failure, spent, digest)
                self.recorder.add(record, request.tags)

    async def _answer(self, request: Request, digest: str) -> Reply:
        address = caches.key(digest, self.backend.settings(), request)
        if self.cache is not None and (known := self.cache.get(address)):
            return known
        course = Course(request, self._retry)
        reply = await persist(course, lambda: self._attempt(course.request))
        reply = replace(
            reply, digest=reply.digest or digest, attempts=len(course.tried) + 1, tried=tuple(course.tried)
        )
        if self.cache is not None:
            self.cache.put(address, reply)
        return reply

    async def _attempt(self, request: Request) -> Reply:
        endpoint = await self._slots.take()
        with self._slots.using(endpoint):
            return await self.backend.acomplete(request, endpoint)

    async def _digest(self) -> str:
        """The weights' digest, with the same patience as a call."""
        return await persist(Course(Request((), "digest"), self._retry), self.backend.digest)
