"""The programs of a run: channels that sessions take turns with, retries, and the call log around them."""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crs_lib.core.errors import RunError
from crs_lib.core.registry import split_spec
from crs_lib.llm import calls
from crs_lib.llm.base import LLMError, Message, Reply, Request
from crs_lib.llm.client import LOG, Retry, persist
from crs_lib.llm.settings import LLMSettings
from crs_lib.systems import contract, module, process, server  # noqa: F401  (each registers its way)
from crs_lib.systems.programs import PROGRAMS, Channel


def is_program(spec: str) -> bool:
    """Whether a spec names a program behind the contract."""
    return spec in PROGRAMS


def identity(spec: str) -> str:
    """The version of a program as far as it can be known: an address, or a digest of its files."""
    found: str = PROGRAMS.get(spec).facts["identity"](split_spec(spec)[1] or "")
    return found


def missing(specs: Sequence[str]) -> list[str]:
    """The reasons why programs cannot be reached or started, one for each such program; often none."""
    found = []
    for spec in specs:
        try:
            PROGRAMS.get(spec).facts["ready"](split_spec(spec)[1] or "")
        except LLMError as error:
            found.append(f"crs: {error}")
    return found


def width(spec: str, llm: LLMSettings, workers: int) -> int:
    """How many sessions at once: as many as a server gets calls, or one for each of ``workers``."""
    return llm.at_once if PROGRAMS.get(spec).facts["shared"] else workers


class Programs:
    """The programs that a process talks to, shared by threads; the call log lies in ``folder``.

    A channel that is not shared (a process, an object) serves one request at a time: each thread takes an
    idle one, or starts one. With ``folder`` None nothing is logged. ``catalog`` is what ``python:`` classes
    are made with, ``name`` the catalogue's name in requests.
    """

    def __init__(
        self,
        folder: Path | None,
        llm: LLMSettings | None = None,
        catalog: Any = None,
        name: str = "sample",
        retry: Retry | None = None,
    ) -> None:
        self.timeout, self.catalog, self.name = (llm or LLMSettings()).timeout, catalog, name
        self._retry = retry or Retry()
        self.recorder = calls.Recorder(folder / LOG) if folder else None
        self._shared: dict[str, Channel] = {}
        self._idle: dict[str, list[Channel]] = {}
        self._busy: list[Channel] = []
        self._identity: dict[str, str] = {}
        self._lock = threading.Lock()
        self._halted = threading.Event()

    def __enter__(self) -> "Programs":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self, spec: str, request: Mapping[str, Any], tags: Mapping[str, str | int] | None = None
    ) -> contract.Answer:
        """The checked answer of a program; every outcome is a row of the call log.

        Raises LLMError with the reason, after further attempts where a connection failed or a server
        answered with status 5xx; RunError after :meth:`halt`.
        """
        if self.recorder is None:
            return self._answer(spec, request)[0][1]
        started, failure = time.perf_counter(), None
        reply: Reply | None = None
        try:
            (given, answer), tried = self._answer(spec, request)
            text = json.dumps(given, ensure_ascii=False, default=str)
            reply = Reply(
                text, seconds=time.perf_counter() - started, attempts=len(tried) + 1, tried=tried,
                digest=self._version(spec),
            )  # fmt: skip
            return answer
        except LLMError as error:
            failure = error
            raise
        finally:
            if reply or failure:
                asked = _as_call(request, tags or {})
                spent = time.perf_counter() - started
                row = calls.row(spec, asked, reply, failure, spent, self._version(spec))
                self.recorder.add(row, asked.tags)

    def _answer(
        self, spec: str, request: Mapping[str, Any]
    ) -> tuple[tuple[object, contract.Answer], tuple[str, ...]]:
        """The answer as it was given and as it was read, and the kinds of the failures before it."""
        return persist(self._retry, _NOTHING, lambda _: self._attempt(spec, request), self._halted)

    def _attempt(self, spec: str, request: Mapping[str, Any]) -> tuple[object, contract.Answer]:
        """One request over a shared channel, or one that nobody else uses now and that a failure closes."""
        if self._halted.is_set():
            raise RunError("the run was stopped before this call; started again, it continues")
        if PROGRAMS.get(spec).facts["shared"]:
            given = self._shared_one(spec).ask(request)
            return given, contract.read(given)
        channel = self._idle_one(spec) or self._open(spec)
        with self._lock:
            self._busy.append(channel)
        answered = False
        try:
            given = channel.ask(request)
            answer = contract.read(given)
            answered = True
            return given, answer
        finally:
            with self._lock:
                self._busy.remove(channel)
                if answered:
                    self._idle.setdefault(spec, []).append(channel)
            if not answered:
                channel.close()

    def _open(self, spec: str) -> Channel:
        return PROGRAMS.create(spec, timeout=self.timeout, catalog=self.catalog)

    def _shared_one(self, spec: str) -> Channel:
        with self._lock:
            if spec not in self._shared:
                self._shared[spec] = self._open(spec)
            return self._shared[spec]

    def _idle_one(self, spec: str) -> Channel | None:
        """An idle channel that can be used; those that ended or wrote something unasked are closed."""
        while True:
            with self._lock:
                if not self._idle.get(spec):
                    return None
                channel = self._idle[spec].pop()
            if channel.usable():
                return channel
            channel.close()

    def _version(self, spec: str) -> str:
        if spec not in self._identity:
            self._identity[spec] = identity(spec)
        return self._identity[spec]

    def halt(self) -> None:
        """Refuse all further calls and end the programs under way, so that threads come to an end."""
        self._halted.set()
        with self._lock:
            for channel in self._busy:
                channel.halt()

    def close(self, spec: str = "") -> None:
        """End the idle programs of a spec, or all of them and the log; the next request starts new ones."""
        with self._lock:
            specs = [spec] if spec else [*self._idle, *self._shared]
            idle = [channel for one in specs for channel in self._idle.pop(one, [])]
            idle += [self._shared.pop(one) for one in specs if one in self._shared]
        for channel in idle:
            channel.close()
        if not spec and self.recorder is not None:
            self.recorder.close()


_NOTHING = Request((), "crs")


def _as_call(request: Mapping[str, Any], tags: Mapping[str, str | int]) -> Request:
    """The request as the call log knows calls: the conversation as messages, without options."""
    talk = tuple(Message(one["role"], one["content"]) for one in request["conversation"])
    return Request(talk, "crs", tags=tags)
