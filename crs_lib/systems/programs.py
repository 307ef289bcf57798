"""Systems that are programs of others behind the contract: ``http:URL``, ``exec:COMMAND``, ``python:Class``.
The program gets the conversation and nothing else. Films are read from ids or titles in its answer, or from
the titles in its reply; titles that the catalogue lacks are counted.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crs_lib.catalog.titles import films_named, without_year
from crs_lib.core.dialogue import SYSTEM, USER
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.tables import fingerprint
from crs_lib.core.text import fold
from crs_lib.llm import calls
from crs_lib.llm.base import LLMError, Message, Reply, Request
from crs_lib.llm.client import LOG, Retry, persist
from crs_lib.llm.settings import LLMSettings
from crs_lib.runs.ledger import Answers, Turn
from crs_lib.systems import contract
from crs_lib.systems.base import SYSTEMS, Items, SystemReply, World
from crs_lib.systems.channels import Channel
from crs_lib.systems.contract import Answer
from crs_lib.systems.replies import SaidReply
from crs_lib.systems.servers import CHANNELS, HttpServer, LaneServer
from crs_lib.systems.settings import ModelSettings

_STARTING = 60.0  # seconds that a server may take to listen


class _Program(NamedTuple):
    """A program: the way to it, and what its spec says behind the colon."""

    channel: type[Channel]
    argument: str

    @classmethod
    def parse(cls, spec: str) -> "_Program":
        """The program that a spec names."""
        name, _, argument = spec.partition(":")
        return cls(CHANNELS[name].fitting(argument), argument)

    def starts_anew(self, fresh_server: str) -> bool:
        """Whether a command, if any, starts its server anew for each lane."""
        return bool(fresh_server) and issubclass(self.channel, HttpServer)


def identity(spec: str) -> str:
    """The version of a program: an address, or a digest of its files; InputError if it cannot be read."""
    program = _Program.parse(spec)
    try:
        return program.channel.identity(program.argument)
    except LLMError as error:
        raise InputError(str(error)) from error


def missing(specs: Sequence[str], fresh_server: str = "") -> list[str]:
    """The reasons why programs cannot be reached or started, one for each such program; often none. Servers
    that a command starts anew are not looked for.
    """
    reasons = []
    for spec in specs:
        program = _Program.parse(spec)
        if program.starts_anew(fresh_server):
            continue
        try:
            program.channel.check_ready(program.argument)
        except LLMError as error:
            reasons.append(f"crs: {error}")
    return reasons


def not_isolated(specs: Sequence[str], fresh_server: str = "") -> list[str]:
    """The programs that one process or server is for all lanes, so that memory can pass from arm to arm."""
    shared = []
    for spec in specs:
        program = _Program.parse(spec)
        if program.channel.shared and not program.starts_anew(fresh_server):
            shared.append(spec)
    return shared


def width(spec: str, llm: LLMSettings, workers: int) -> int:
    """How many sessions at once: as many as a server gets calls, or one for each of ``workers``."""
    return llm.at_once if _Program.parse(spec).channel.shared else workers


class _Line(NamedTuple):
    """Who may use a channel: the sessions of one program, and of one lane where it is not shared."""

    spec: str
    lane: int


class Programs(AbstractContextManager["Programs", None]):
    """The programs that a process talks to, shared by threads. A channel that is not shared (a process, an
    object) serves one request at a time: each thread takes an idle one, or starts one. Each lane of
    conversations has channels of its own, so that nothing remembered in one reaches another.

    Parameters
    ----------
    folder
        Where the call log lies; None for none.
    llm
        Settings: the time-out, and those of servers that take another form (names, accept_model).
    catalog
        What ``python:`` classes get.
    name
        The catalogue's name in requests.
    retry
        How often a call is tried again.
    fresh_server
        A command that starts a server anew for each lane, if any.
    ledger
        The file of a run's ledger, which keeps the answers, too; "" for none.
    """

    def __init__(
        self,
        folder: Path | None,
        llm: LLMSettings | None = None,
        catalog: Any = None,
        name: str = "sample",
        retry: Retry | None = None,
        fresh_server: str = "",
        ledger: str = "",
    ) -> None:
        self.catalog = catalog
        self.name = name
        self.recorder = calls.Recorder(folder / LOG) if folder else None
        self._answers = Answers(Path(ledger)) if ledger else None
        self._attempts: dict[tuple[str, str], int] = {}  # of conversations with systems that keep state
        self._llm = llm or LLMSettings()
        self._fresh_server = fresh_server
        self._retry = retry or Retry()
        self._idle: dict[_Line, list[Channel]] = {}
        self._servers: dict[_Line, LaneServer] = {}
        self._busy: list[Channel] = []
        self._versions: dict[str, str] = {}
        self._lock = threading.Lock()
        self._halted = threading.Event()

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self,
        spec: str,
        request: Mapping[str, Any],
        tags: Mapping[str, str | int] | None = None,
        lane: int = 0,
    ) -> Answer:
        """The checked answer of a program; every outcome is a row of the call log. Raises LLMError with the
        reason, after further attempts for a failed connection or a status 5xx; RunError after :meth:`halt`.

        In a run an answer is stored before it is used. An earlier start's answer to the same request stands,
        unless the program keeps a state: then a conversation that was not finished begins anew, as another.
        """
        if self._answers is None:
            return self._asked(spec, request, tags or {}, lane)
        digest = fingerprint([request])
        conversation, number = request["session"], request["turn"]
        if self.is_stateless(spec):
            stored = self._answers.find(spec, conversation, number, digest)
            if stored is not None:
                return Answer.loads(stored)
            attempt = 1 + self._answers.attempts(spec, conversation, number)
        else:
            attempt = self._attempt_at(spec, conversation, number)
            if attempt > 1:
                request = {**request, "session": f"{conversation}{attempt:02d}"}
        turn = Turn(spec, conversation, number, attempt)
        self._answers.note(turn, digest)
        answer = self._asked(spec, request, tags or {}, lane)
        self._answers.keep(turn, answer.dumps())
        return answer

    def is_stateless(self, spec: str) -> bool:
        """Whether a program keeps nothing of a conversation, by the settings or else its protocol."""
        stateless = self._llm.stateless if isinstance(self._llm, ModelSettings) else None
        return _Program.parse(spec).channel.stateless if stateless is None else stateless

    def _attempt_at(self, spec: str, conversation: str, number: int) -> int:
        """The attempt at a conversation with a program that keeps a state; its first turn begins the next."""
        key = spec, conversation
        if self._answers is not None and (number == 1 or key not in self._attempts):
            self._attempts[key] = 1 + self._answers.attempts(*key)
        return self._attempts[key]

    def _asked(
        self, spec: str, request: Mapping[str, Any], tags: Mapping[str, str | int], lane: int
    ) -> Answer:
        """The checked answer of a program, which is asked now."""
        talk = tuple(Message(turn["role"], turn["content"]) for turn in request["conversation"])
        call = Request(talk, "crs", tags=tags)
        version = self._version(spec) if self.recorder else ""
        started = time.perf_counter()
        outcome: Reply | LLMError | None = None
        try:
            attempt = partial(self._attempt, spec, request, lane)
            (raw, answer), tried = persist(self._retry, call, lambda _: attempt(), self._halted)
            text = json.dumps(raw, ensure_ascii=False, default=str) if self.recorder else ""
            seconds = time.perf_counter() - started
            outcome = Reply(text, seconds=seconds, digest=version, attempts=len(tried) + 1, tried=tried)
            return answer
        except LLMError as error:
            outcome = error
            raise
        finally:
            if self.recorder is not None and outcome is not None:
                seconds = time.perf_counter() - started
                self.recorder.add(calls.row(spec, call, outcome, seconds, version), call.tags)

    def _version(self, spec: str) -> str:
        """The version of a program, read once."""
        if spec not in self._versions:
            self._versions[spec] = identity(spec)
        return self._versions[spec]

    def _attempt(self, spec: str, request: Mapping[str, Any], lane: int) -> tuple[object, Answer]:
        """One request over a channel: the value that came back, and the answer in it."""
        if self._halted.is_set():
            raise RunError("the run was stopped before this call; started again, it continues")
        with self._channel(spec, lane) as channel:
            raw = channel.ask(request)
            return raw, contract.read(raw)

    @contextmanager
    def _channel(self, spec: str, lane: int) -> Iterator[Channel]:
        """A channel to a program, for this request alone unless it is shared; a failure closes it then."""
        program = _Program.parse(spec)
        line = _Line(spec, lane)
        if program.channel.shared:
            line = line if program.starts_anew(self._fresh_server) else _Line(spec, 0)
            yield self._shared(line, program)
            return
        channel = self._taken(line, program)
        answered = False
        try:
            yield channel
            answered = True
        finally:
            with self._lock:
                self._busy.remove(channel)
                if answered:
                    self._idle.setdefault(line, []).append(channel)
            if not answered:
                channel.close()

    def _shared(self, line: _Line, program: _Program) -> Channel:
        """The channel that all threads use."""
        with self._lock:
            channels = self._idle.setdefault(line, [])
            if not channels:
                channels.append(self._opened_in(line, program))
            return channels[0]

    def _opened_in(self, line: _Line, program: _Program) -> Channel:
        """A channel to a server, which is started anew for its lane where a command says how."""
        if not program.starts_anew(self._fresh_server):
            return self._opened(program)
        url = program.channel.parsed(program.argument)
        server = LaneServer(self._fresh_server, url, _STARTING)
        self._servers[line] = server
        return self._opened(program._replace(argument=server.url))

    def _taken(self, line: _Line, program: _Program) -> Channel:
        """An idle channel, or a new one; idle ones that ended or wrote unasked are closed."""
        channel = None
        with self._lock:
            idle = self._idle.setdefault(line, [])
            while idle and channel is None:
                channel = idle.pop()
                if not channel.usable():
                    channel.close()
                    channel = None
        channel = channel or self._opened(program)
        with self._lock:
            self._busy.append(channel)
        return channel

    def _opened(self, program: _Program) -> Channel:
        return program.channel(program.argument, self._llm, self.catalog)

    def halt(self) -> None:
        """Refuse all further calls and end the programs under way, so that threads come to an end."""
        self._halted.set()
        with self._lock:
            channels = list(self._busy)
            for idle in self._idle.values():
                channels += [channel for channel in idle if channel.shared]
            for channel in channels:
                channel.halt()

    def close(self, spec: str = "") -> None:
        """End the idle programs of a spec, or all of them and the log; the next request starts new ones."""
        channels = []
        with self._lock:
            for line in list(self._idle):
                if spec in ("", line.spec):
                    channels += self._idle.pop(line)
        for channel in channels:
            channel.close()
        for line in list(self._servers):
            if spec in ("", line.spec):
                self._servers.pop(line).close()
        if not spec:
            for part in (self.recorder, self._answers):
                if part is not None:
                    part.close()


class _ProgramSystem:
    """One conversation of a program, sent whole at every turn; LLMError where no usable answer comes."""

    sees_state = False

    def __init__(self, world: World, seed: int, session: int, spec: str, argument: Any = None) -> None:
        if world.programs is None:
            raise InputError(f"system {spec!r} is a program; give the World a Programs as programs")
        self.world = world
        self.spec = spec
        self.session = session
        self.programs = world.programs
        self.want = world.llm.most
        self.conversation: list[tuple[str, str]] = []

    def reply(self, turn: int, text: str, user_meta: Mapping[str, Any]) -> SystemReply:
        """Ask the program for the reply; ``user_meta`` is not looked at."""
        self.conversation.append((USER, text))
        name = self.world.conversation or f"{self.session:05d}"
        number = (len(self.conversation) + 1) // 2  # of the turn in this conversation
        request = contract.request(name, number, self.want, self.programs.name, self.conversation)
        tags: dict[str, str | int] = {"session": self.session, "system": self.spec, "turn": turn}
        answer = self.programs.ask(self.spec, request, tags, self.world.lane)
        reply = self._understood(answer, text)
        self.conversation.append((SYSTEM, reply.text))
        return reply

    def _understood(self, answer: Answer, utterance: str) -> SystemReply:
        """The answer in terms of the catalogue; at most as many films as were wanted count."""
        catalog = self.world.catalog
        wanted = "\n".join(text for speaker, text in self.conversation if speaker == USER)
        heard = SaidReply(
            self.world.grounder, answer.reply, utterance, thinking=answer.thinking, wanted=wanted
        )
        named: list[str] = []
        if answer.recommended is None:
            items: Items = heard.recommended()
        else:
            items, named = films_named(catalog, answer.recommended)
        understood = heard.understood(items, _once(named, heard.unknown()), self.want, answer.state)
        extra: dict[str, Any] = {}
        if understood.beyond:
            extra["films_beyond"] = understood.beyond
        if understood.mentioned:
            extra["mentioned_ids"] = [catalog.items[item].item_id for item in understood.mentioned]
        if answer.state is not None:
            extra["state"] = dict(answer.state)
        if understood.ambiguous:
            extra["ambiguous_titles"] = list(understood.ambiguous)
        if understood.thinking:
            extra["thinking"] = understood.thinking
        constraints = catalog.known_values(answer.state or {})
        return SystemReply(understood.text, understood.items, constraints, understood.hallucinated, extra)


def _once(named: Sequence[str], in_text: Sequence[str]) -> list[str]:
    """The titles that the catalogue lacks, each once: those that an answer names beside its text, then those
    of the text; of equal titles the first.
    """
    endings = tuple(_plain(title) for title in named)
    titles: dict[str, str] = {}
    for title in named:
        titles.setdefault(_plain(title), title)
    for title in in_text:
        if not fold(title).endswith(endings):
            titles.setdefault(_plain(title), title)
    return list(titles.values())


def _plain(title: str) -> str:
    return fold(without_year(title))


class _ProgramMaker:
    """Makes the systems behind a kind of channel."""

    def __init__(self, channel: type[Channel]) -> None:
        self.__doc__ = channel.__doc__

    def __call__(self, **parts: Any) -> _ProgramSystem:
        return _ProgramSystem(**parts)


for _name, _channel in CHANNELS.items():
    SYSTEMS.register(
        _name,
        program=True,
        apart=_channel.apart,
        hidden=_channel.hidden,
        argument=_channel.argument,
        example=_channel.example,
        parse=_channel.parsed,
    )(_ProgramMaker(_channel))
