"""Systems that are programs of others behind the contract: ``http:URL``, ``exec:COMMAND``, ``python:Class``.
The program gets the conversation and nothing else. Films are read from ids or titles in its answer, or from
the titles in its reply; titles that the catalogue lacks are counted.
"""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from pathlib import Path
from typing import Any

from crs_lib.catalog.grounder import films_named, without_year
from crs_lib.core.dialogue import SYSTEM, USER
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.text import fold
from crs_lib.llm import calls
from crs_lib.llm.base import LLMError, Message, Reply, Request
from crs_lib.llm.client import LOG, Retry, persist
from crs_lib.llm.settings import LLMSettings
from crs_lib.systems import contract
from crs_lib.systems.base import SYSTEMS, SystemReply, World
from crs_lib.systems.channels import CHANNELS, Channel
from crs_lib.systems.contract import Answer


def _channel(spec: str) -> tuple[type[Channel], str]:
    """The way to a program, and the rest of its spec."""
    name, _, argument = spec.partition(":")
    return CHANNELS[name], argument


def identity(spec: str) -> str:
    """The version of a program: an address, or a digest of its files; InputError if it cannot be read."""
    channel, argument = _channel(spec)
    try:
        return channel.identity(argument)
    except LLMError as error:
        raise InputError(str(error)) from error


def missing(specs: Sequence[str]) -> list[str]:
    """The reasons why programs cannot be reached or started, one for each such program; often none."""
    found = []
    for channel, argument in map(_channel, specs):
        try:
            channel.check_ready(argument)
        except LLMError as error:
            found.append(f"crs: {error}")
    return found


def width(spec: str, llm: LLMSettings, workers: int) -> int:
    """How many sessions at once: as many as a server gets calls, or one for each of ``workers``."""
    return llm.at_once if _channel(spec)[0].shared else workers


class Programs(AbstractContextManager["Programs", None]):
    """The programs that a process talks to, shared by threads; the call log lies in ``folder``. A channel
    that is not shared (a process, an object) serves one request at a time: each thread takes an idle one, or
    starts one. Each lane of conversations has channels of its own, so that nothing remembered in one reaches
    another. With ``folder`` None nothing is logged. ``catalog`` is what ``python:`` classes get, ``name`` its
    name in requests.
    """

    def __init__(
        self, folder: Path | None, llm: LLMSettings | None = None, catalog: Any = None, name: str = "sample",
        retry: Retry | None = None,
    ) -> None:  # fmt: skip
        self.catalog, self.name = catalog, name
        self._timeout, self._retry = (llm or LLMSettings()).timeout, retry or Retry()
        self.recorder = calls.Recorder(folder / LOG) if folder else None
        self._idle: dict[tuple[str, int], list[Channel]] = {}  # by spec and lane
        self._busy: list[Channel] = []
        self._version = cache(lambda spec: identity(spec) if self.recorder else "")
        self._lock = threading.Lock()
        self._halted = threading.Event()

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self, spec: str, request: Mapping[str, Any], tags: Mapping[str, str | int] | None = None,
        lane: int = 0,
    ) -> Answer:  # fmt: skip
        """The checked answer of a program; every outcome is a row of the call log. Raises LLMError with the
        reason, after further attempts for a failed connection or a status 5xx; RunError after :meth:`halt`.
        """
        talk = tuple(Message(one["role"], one["content"]) for one in request["conversation"])
        asked = Request(talk, "crs", tags=tags or {})
        outcome: Reply | LLMError | None = None
        version, started = self._version(spec), time.perf_counter()
        try:
            attempt = partial(self._attempt, spec, request, lane)
            (given, answer), tried = persist(self._retry, asked, lambda _: attempt(), self._halted)
            text = json.dumps(given, ensure_ascii=False, default=str) if self.recorder else ""
            how: Any = {"attempts": len(tried) + 1, "tried": tried, "digest": version}
            outcome = Reply(text, seconds=time.perf_counter() - started, **how)
            return answer
        except LLMError as error:
            outcome = error
            raise
        finally:
            if self.recorder is not None and outcome is not None:
                row = calls.row(spec, asked, outcome, time.perf_counter() - started, version)
                self.recorder.add(row, asked.tags)

    def _attempt(self, spec: str, request: Mapping[str, Any], lane: int) -> tuple[object, Answer]:
        """One request over a channel; one that is not shared is closed by a failure."""
        if self._halted.is_set():
            raise RunError("the run was stopped before this call; started again, it continues")
        shared = _channel(spec)[0].shared
        place = (spec, 0 if shared else lane)
        channel = self._taken(place, keep=shared)
        answered = shared
        try:
            given = channel.ask(request)
            answer = contract.read(given)
            answered = True
            return given, answer
        finally:
            if not shared:
                with self._lock:
                    self._busy.remove(channel)
                    if answered:
                        self._idle.setdefault(place, []).append(channel)
            if not answered:
                channel.close()

    def _taken(self, place: tuple[str, int], *, keep: bool) -> Channel:
        """A channel to a program, shared, idle or new; idle ones that ended or wrote unasked are closed."""
        kind, argument = _channel(place[0])
        with self._lock:
            idle = self._idle.setdefault(place, [])
            while idle and not idle[-1].usable():
                idle.pop().close()
            if keep and not idle:
                idle.append(kind(argument, self._timeout, self.catalog))
            if keep:
                return idle[-1]
            channel = idle.pop() if idle else None
        channel = channel or kind(argument, self._timeout, self.catalog)
        with self._lock:
            self._busy.append(channel)
        return channel

    def halt(self) -> None:
        """Refuse all further calls and end the programs under way, so that threads come to an end."""
        self._halted.set()
        with self._lock:
            for channel in self._busy:
                channel.halt()

    def close(self, spec: str = "") -> None:
        """End the idle programs of a spec, or all of them and the log; the next request starts new ones."""
        with self._lock:
            places = [place for place in self._idle if spec in ("", place[0])]
            idle = [channel for place in places for channel in self._idle.pop(place)]
        for channel in idle:
            channel.close()
        if not spec and self.recorder is not None:
            self.recorder.close()


class _Program:
    """One conversation of a program, sent whole at every turn; LLMError where no usable answer comes."""

    sees_state = False

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: Any = None) -> None:
        if world.programs is None:
            raise InputError(f"system {spec!r} is a program; give the World a Programs as programs")
        self.world, self.spec, self.session = world, spec, session
        self.programs, self.want = world.programs, world.llm.most
        self.conversation: list[tuple[str, str]] = []

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Ask the program for the reply; ``user_meta`` is not looked at."""
        self.conversation.append((USER, text))
        name, place = self.world.conversation or f"{self.session:05d}", (len(self.conversation) + 1) // 2
        request = contract.request(name, place, self.want, self.programs.name, self.conversation)
        tags: dict[str, str | int] = {"session": self.session, "system": self.spec, "turn": turn}
        answer = self.programs.ask(self.spec, request, tags, self.world.lane)
        self.conversation.append((SYSTEM, answer.reply))
        return self._understood(answer, text)

    def _understood(self, answer: Answer, utterance: str) -> SystemReply:
        """The answer in terms of the catalogue; at most as many films as were wanted count."""
        grounder, catalog = self.world.grounder, self.world.catalog
        mentions = grounder.titles(answer.reply)
        named = tuple(dict.fromkeys(mention.item for mention in mentions))
        foreign: list[str] = []
        if answer.recommended is None:
            about = {mention.item for mention in grounder.titles(utterance)}
            found = tuple(item for item in grounder.recommended(answer.reply, mentions) if item not in about)
        else:
            found, foreign = films_named(catalog, answer.recommended)
        told = tuple(fold(without_year(title)) for title in foreign)
        unknown = grounder.unknown_titles(answer.reply, mentions, utterance)
        foreign += [one.title for one in unknown if not fold(one.title).endswith(told)]
        items = found[: self.want]
        extra: dict[str, Any] = {}
        if beyond := len(found) - len(items):
            extra["films_beyond"] = beyond
        if mentioned := [catalog.items[item].item_id for item in named if item not in items]:
            extra["mentioned_ids"] = mentioned
        if answer.state is not None:
            extra["state"] = dict(answer.state)
        once = {fold(without_year(title)): title for title in reversed(foreign)}
        hallucinated = tuple(title for title in dict.fromkeys(foreign) if title in once.values())
        return SystemReply(answer.reply, items, catalog.known_values(answer.state or {}), hallucinated, extra)


for _name, _way in CHANNELS.items():
    _system: Any = type(f"{_way.__name__}Program", (_Program,), {"__doc__": _way.__doc__})
    SYSTEMS.register(
        _name, program=True, apart=_way.apart, argument=_way.argument, example=_way.example, parse=_way.parsed
    )(_system)
