"""The ways to reach a program: a class of the user's own, a function, or a command that is started here.

Those behind an address are in :mod:`crs_lib.systems.servers`.
"""

import base64
import hashlib
import importlib
import inspect
import json
import os
import pickle
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import cloudpickle

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.core.text import listing, shorten
from crs_lib.llm.base import LLMError
from crs_lib.llm.settings import LLMSettings
from crs_lib.systems import contract

_LAST_LINES = 8  # of standard error that a failure quotes
_PIECE = 65_536  # bytes that are read or written at once
_LOADING, _CLOSING = 600.0, 5.0  # seconds that the user's Python code may take to load, and to close
_INTERRUPTED = "interrupted"  # the user's own code raised KeyboardInterrupt
_MOST_BYTES = 200_000_000  # of a function with all that it uses, of which every lane has a copy


class Channel:
    """A line to a program: one request at a time, or many at once where it is ``shared``.
    ``argument`` and ``example`` say what follows the colon of a spec; the sessions of a program that is
    ``apart`` wait for another process. One that is not ``stateless`` remembers what it was asked before.
    """

    argument: ClassVar[str]
    example: ClassVar[str]
    shared: ClassVar[bool] = False
    apart: ClassVar[bool] = True
    stateless: ClassVar[bool] = True
    hidden: ClassVar[bool] = False

    def __init__(self, argument: str, llm: LLMSettings, catalog: Any = None) -> None:
        """Open the line; raises LLMError where there can be none."""

    @classmethod
    def fitting(cls, argument: str) -> "type[Channel]":
        """The channel that an argument of this kind goes over: this one, as a rule."""
        return cls

    @staticmethod
    def parsed(argument: str) -> Any:
        """The argument, read; InputError where it cannot be. Without more, as it is."""
        return argument

    @classmethod
    def check_ready(cls, argument: str) -> None:
        """Raise LLMError where the program cannot be reached; nothing is asked of it."""

    @classmethod
    def identity(cls, argument: str) -> str:
        """The version of the program, as far as it can be known."""
        raise NotImplementedError

    def ask(self, request: Mapping[str, Any]) -> object:
        """The program's answer as a JSON value; raises LLMError. After a failure the channel is given up."""
        raise NotImplementedError

    def usable(self) -> bool:
        """Whether the channel can take another request."""
        return True

    def halt(self) -> None:
        """Let a request under way, of another thread, come to an end at once where that is possible."""

    def close(self) -> None:
        """End the program, or give back connections."""


class Process(Channel):
    """A running program: one JSON line in, one JSON line out, as docs/your-system.md describes.
    A failure ends the process; the next request starts a new one.
    """

    argument = "a command"
    example = "node adapter.js"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of the program beside those of this process."""
        return {}

    def __init__(self, argument: str, llm: LLMSettings, catalog: Any = None) -> None:
        self.timeout = llm.timeout
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._buffer = bytearray()
        self._mark = uuid.uuid4().hex
        self._process = self._started(argument)
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._errors = (pipe.fileno() for pipe in self._pipes)
        os.set_blocking(self._in, False)
        self._reader = threading.Thread(target=self._read_errors, name="stderr", daemon=True)
        self._reader.start()

    def _started(self, argument: str) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE
        environment = {**os.environ, "CRS_PROGRAM": self._mark, **self.variables}
        try:
            return subprocess.Popen(
                self.command(argument),
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                bufsize=0,
                start_new_session=True,
                env=environment,
            )
        except OSError as error:
            reason = f"({error.strerror or error}); relative paths begin in {Path.cwd().name}/"
            raise LLMError("not started", f"exec:{argument} cannot be started {reason}") from error

    def command(self, argument: str) -> list[str]:
        """The words that start the program."""
        words: list[str] = self.parsed(argument)
        return words

    @staticmethod
    def parsed(argument: str) -> Any:
        """The words of a command line, read as a shell reads them; InputError where there is none."""
        try:
            words = shlex.split(argument)
        except ValueError as error:
            raise InputError(f"not a command line ({error}); quote it as for a shell") from error
        if not words:
            raise InputError("no command; give one")
        return words

    @classmethod
    def check_ready(cls, argument: str) -> None:
        """Raise LLMError where the command is not there or may not be executed."""
        name = cls.parsed(argument)[0]
        if shutil.which(name) is None:
            reason = "is not executable (chmod +x)" if Path(name).is_file() else "is not there"
            where = f"relative paths begin in {Path.cwd().name}/"
            raise LLMError("not started", f"exec:{argument}: {name} {reason}; {where}")

    @classmethod
    def identity(cls, argument: str) -> str:
        """A digest of the words and of the program: a script, or the first file after its interpreter. Files
        behind it are the program's data, which it may write.
        """
        words: list[str] = cls.parsed(argument)
        program = shutil.which(words[0])
        if program and Path(program).read_bytes()[:2] == b"#!":
            files = [program]
        else:
            files = [word for word in words[1:] if Path(word).is_file()]
        digests = [tables.sha256(Path(file)) for file in files[:1]]
        return tables.fingerprint([words, *digests])

    def ask(self, request: Mapping[str, Any]) -> object:
        """Write the request as a line and read the line that answers it."""
        line = json.dumps(request, ensure_ascii=True).encode() + b"\n"
        text = contract.decoded(self.exchange(line, self.timeout))
        answer = contract.parse(text)
        if self._buffer.strip():
            fault = "more than one line answers a request; print one line, all else to standard error"
            raise LLMError("wrong answer", fault, text)
        return answer

    def usable(self) -> bool:
        """Whether the program runs and has written nothing unasked."""
        return self._process.poll() is None and not _ready(0.0, self._out)

    def halt(self) -> None:
        """End the program and what it started; what left its group is known by our mark (on Linux)."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if self._mark.encode() in environment.read_bytes():
                    os.kill(int(environment.parent.name), signal.SIGKILL)

    def close(self) -> None:
        """End the program and what it started, and close its pipes."""
        self.halt()
        self._process.wait()
        self._reader.join(1.0)
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.close()

    def exchange(self, line: bytes, seconds: float) -> bytes:
        """Write all of ``line`` while reading, until a line has come back; LLMError where none comes."""
        deadline = time.monotonic() + seconds
        unwritten = memoryview(line)
        while b"\n" not in self._buffer:
            pause = deadline - time.monotonic()
            ready = _ready(max(0.0, pause), self._out, self._in if unwritten else None)
            if self._out in ready:
                self._read_piece()
            elif self._in in ready:
                unwritten = unwritten[self._write_piece(unwritten) :]
            elif pause <= 0:
                raise LLMError("too slow", f"the program did not answer within {seconds:g} seconds")
        answer, _, behind = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(behind)
        return answer

    def _read_piece(self) -> None:
        """Read what the program has written so far; LLMError where it is gone, or has written too much."""
        piece = os.read(self._out, _PIECE)
        if not piece:
            raise self._ended()
        self._buffer += piece
        contract.check_length(self._buffer)

    def _write_piece(self, unwritten: memoryview) -> int:
        """Write what the program takes now; the number of bytes."""
        try:
            return os.write(self._in, unwritten[:_PIECE])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._ended() from error

    def _ended(self) -> LLMError:
        """The failure of a program that is gone, with its exit and its last words."""
        how = "closed its output"
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1.0)
            self._reader.join(1.0)
            how = f"ended with exit code {code}"
            if code < 0:
                how = f"was ended by {_signal(-code)}"
        words = shorten(" | ".join(self._last_lines), 1000)
        last = f"its last words: {words}" if words else "it wrote nothing to standard error"
        return LLMError("crashed", f"the program {how} before it answered; {last}")

    def _read_errors(self) -> None:
        """Keep the last lines of standard error, so that the program never waits for a reader."""
        unfinished = b""
        piece = b" "
        with suppress(OSError, ValueError):
            while piece:
                piece = os.read(self._errors, _PIECE)
                buffer = unfinished + (piece or b"\n")
                *lines, unfinished = buffer[-_PIECE:].split(b"\n")
                for line in lines:
                    self._keep(line.decode("utf-8", "replace").strip())

    def _keep(self, line: str) -> None:
        if line.strip("~^ "):  # marks below a line of a traceback
            self._last_lines.append(shorten(line, 300))


class _Hosted(Process):
    """Python code of the user's in a process of its own, one for each lane of a worker: what a module
    remembers of one arm of a scenario reaches no other. Values pass as pickles, one a line; what is printed
    goes to standard error.
    """

    def __init__(self, argument: str, llm: LLMSettings, catalog: Any = None) -> None:
        super().__init__(argument, llm)
        self._answers = True
        try:
            self._call(self.parts(argument, catalog), max(self.timeout, _LOADING))
        except LLMError:
            self.close()
            raise

    @classmethod
    def parts(cls, argument: str, catalog: Any) -> tuple[Any, ...]:
        """What the process answers with: a function that gives a :class:`Served`, and its arguments."""
        raise NotImplementedError

    def command(self, argument: str) -> list[str]:
        """The interpreter that serves the code."""
        return [sys.executable, "-c", f"from {__name__} import _serve; _serve()"]

    @property
    def variables(self) -> dict[str, str]:
        """The places where this process finds modules."""
        return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def ask(self, request: Mapping[str, Any]) -> object:
        """The value that the code returns."""
        return self._call(dict(request), self.timeout)

    def close(self) -> None:
        """Let the code close what it opened, and end the process."""
        if self._answers:
            with suppress(LLMError):
                self._call(None, _CLOSING)
        super().close()

    def _call(self, value: object, seconds: float) -> object:
        """What the process returns for a value; LLMError for what it raises."""
        line = base64.b64encode(cloudpickle.dumps(value)) + b"\n"
        try:
            answer = self.exchange(line, seconds)
        except LLMError:
            self._answers = False
            raise
        failure, result = pickle.loads(base64.b64decode(answer))  # from the user's own code
        if failure == _INTERRUPTED:
            raise KeyboardInterrupt
        if failure:
            raise LLMError(failure, result)
        return result


class Served(NamedTuple):
    """What a process of :class:`_Hosted` answers with, and how it ends."""

    reply: Callable[[dict[str, Any]], object]
    close: Callable[[], object] | None = None


def _serve() -> None:
    """Answer the requests of a :class:`_Hosted` channel, one a line, until it closes."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what the user's code prints is no answer
    served = None
    for line in sys.stdin.buffer:
        value = None
        try:
            value = pickle.loads(base64.b64decode(line))
            if served is None:
                make, *arguments = value
                served = make(*arguments)
                answer: object = None
            elif value is None:
                answer = served.close() if served.close else None
            else:
                answer = served.reply(value)
            outcome = cloudpickle.dumps(("", answer))
        except KeyboardInterrupt:
            outcome = pickle.dumps((_INTERRUPTED, None))
        except LLMError as error:
            outcome = pickle.dumps((error.kind, str(error)))
        except Exception as error:
            outcome = pickle.dumps(("crashed", _located(error)))
        answers.write(base64.b64encode(outcome) + b"\n")


class Instance(_Hosted):
    """An object of the user's class, as docs/your-system.md describes, in a process for each lane."""

    argument = "a module and a class"
    example = "my_system:MySystem"
    apart = False
    _digests: ClassVar[dict[str, str]] = {}  # of each module's file when it was read

    @classmethod
    def parts(cls, argument: str, catalog: Any) -> tuple[Any, ...]:
        """The class by its name, and the catalogue that it is given."""
        return cls.served, argument, catalog

    @classmethod
    def served(cls, argument: str, catalog: Any) -> Served:
        """An object of the class, with its ``reply`` and its ``close``, if it has one."""
        kind = cls._load(argument)
        try:
            instance = kind(catalog)
        except Exception as error:
            raise LLMError("crashed", f"{kind.__name__}(catalog) raised {_located(error)}") from error
        close = getattr(instance, "close", None)
        return Served(partial(_replied, instance.reply), close if callable(close) else None)

    @staticmethod
    def parsed(argument: str) -> tuple[str, str]:
        """Module and class of ``package.module:Class``; InputError where it is not written so."""
        module, _, name = argument.partition(":")
        names = [name, *module.split(".")]
        if not all(part.isidentifier() for part in names):
            raise InputError("no class; write python:package.module:Class")
        return module, name

    @classmethod
    def _load(cls, argument: str) -> type[Any]:
        """The class, imported from the current folder, from notebooks/ or any other place of Python's path.
        Raises LLMError where it cannot be imported.
        """
        module, name = cls.parsed(argument)
        try:
            imported = cls._imported(module)
        except Exception as error:
            folders = dict.fromkeys((f"{Path.cwd().name}/", "notebooks/", "Python's path"))
            fault = f"{module} cannot be imported ({_located(error)}); looked for in {' and '.join(folders)}"
            raise LLMError("not started", f"python:{argument}: {fault}") from error
        kind = getattr(imported, name, None)
        if not isinstance(kind, type):
            classes = [other for other, value in vars(imported).items() if isinstance(value, type)]
            fault = f"{module} has no class {name} (it has: {', '.join(classes)})"
            raise LLMError("not started", f"python:{argument}: {fault}")
        if not callable(getattr(kind, "reply", None)):
            raise LLMError("not started", f"python:{argument}: {name} has no method reply(request)")
        return kind

    @classmethod
    def _imported(cls, name: str) -> ModuleType:
        """The module; one whose file was changed is read again."""
        for folder in (Path.cwd(), paths.notebooks()):
            if str(folder) not in sys.path:
                sys.path.append(str(folder))
        importlib.invalidate_caches()
        module = importlib.import_module(name)
        digest = _digest(module.__file__)
        if cls._digests.setdefault(name, digest) != digest:
            module = importlib.reload(module)
            cls._digests[name] = digest
        return module

    @classmethod
    def check_ready(cls, argument: str) -> None:
        """Raise LLMError where the class cannot be imported or has no ``reply``."""
        cls._load(argument)

    @classmethod
    def identity(cls, argument: str) -> str:
        """The digest of the file that holds the class."""
        try:
            return _digest(inspect.getsourcefile(cls._load(argument)))
        except TypeError:
            return _digest(None)


def _replied(reply: Callable[[dict[str, Any]], object], request: dict[str, Any]) -> object:
    """What an object's ``reply`` returns; LLMError where it raises."""
    try:
        return reply(request)
    except Exception as error:
        raise LLMError("crashed", f"reply raised {_located(error)}") from error


Messages = list[dict[str, str]]
FUNCTIONS: dict[str, Callable[[Messages], object]] = {}  # of this process, by name


class Function(_Hosted):
    """A function of this Python process, ``messages -> reply``, as :func:`crs_lib.compare` is given them.
    ``messages`` are ``{"role": "user" or "assistant", "content": text}`` from the first to the user's latest.
    It returns a text, a list of films (ids or titles), or an answer of the contract. A copy of it, with the
    variables that it uses, runs in a process for each lane; :class:`_Together` where it cannot be copied.
    """

    argument = "a name of FUNCTIONS"
    example = "mine"
    hidden = True
    _copies: ClassVar[dict[str, tuple[Callable[[Messages], object], bytes]]] = {}  # empty: none can be made

    @classmethod
    def fitting(cls, argument: str) -> type[Channel]:
        """The channel of functions that can be copied, or that of those that cannot."""
        return cls if argument not in FUNCTIONS or cls._copy(argument) else _Together

    @classmethod
    def _copy(cls, argument: str) -> bytes:
        """The function as a pickle, made once; empty where it cannot be copied, or is too large."""
        function = FUNCTIONS[argument]
        if cls._copies.get(argument, (None, b""))[0] is not function:
            pickled = b""
            with suppress(Exception):  # whatever the user's own objects raise
                pickled = cloudpickle.dumps(function)
            cls._copies[argument] = (function, pickled if len(pickled) <= _MOST_BYTES else b"")
        return cls._copies[argument][1]

    @classmethod
    def parts(cls, argument: str, catalog: Any) -> tuple[Any, ...]:
        """The copy of the function."""
        cls.check_ready(argument)
        return cls.served, cls._copy(argument)

    @classmethod
    def served(cls, pickled: bytes) -> Served:
        """The copy at work."""
        return Served(partial(_called, pickle.loads(pickled)))

    @staticmethod
    def parsed(argument: str) -> str:
        """The name as it is."""
        return argument

    @classmethod
    def check_ready(cls, argument: str) -> None:
        """Raise LLMError where this process has no such function; the next copy is of it as it is now."""
        cls._copies.pop(argument, None)
        if argument not in FUNCTIONS:
            fault = f"this process has no function {argument!r}; give it to crs_lib.compare again"
            raise LLMError("not started", fault)

    @classmethod
    def identity(cls, argument: str) -> str:
        """The digest of the function's source; of its name where there is none."""
        try:
            source = inspect.getsource(FUNCTIONS[argument])
        except (OSError, TypeError):
            source = argument
        return hashlib.sha256(source.encode()).hexdigest()


class _Together(Channel):
    """A function that cannot be copied: all lanes and threads share it in this process, not isolated."""

    argument = Function.argument
    example = Function.example
    shared = True
    hidden = True

    def __init__(self, argument: str, llm: LLMSettings, catalog: Any = None) -> None:
        Function.check_ready(argument)
        self._function = FUNCTIONS[argument]

    @classmethod
    def check_ready(cls, argument: str) -> None:
        """As :meth:`Function.check_ready`."""
        Function.check_ready(argument)

    @classmethod
    def identity(cls, argument: str) -> str:
        """As :meth:`Function.identity`."""
        return Function.identity(argument)

    def ask(self, request: Mapping[str, Any]) -> object:
        """What the function returns, as an answer of the contract."""
        return _called(self._function, request)


def _called(function: Callable[[Messages], object], request: Mapping[str, Any]) -> object:
    """What a function returns for a conversation, as an answer of the contract; LLMError where it raises."""
    messages = [dict(message) for message in request["conversation"]]
    try:
        answer = function(messages)
    except Exception as error:
        raise LLMError("crashed", f"the function raised {_located(error)}") from error
    if isinstance(answer, str):
        return {"reply": answer}
    if isinstance(answer, Iterable) and not isinstance(answer, Mapping | bytes):
        films = list(answer)
        listed = listing(map(str, films), "or")
        return {"reply": f"How about {listed}?", "recommended": films}
    return answer


def _digest(path: str | None) -> str:
    if path and Path(path).is_file():
        return tables.sha256(Path(path))
    return "no file"


def _located(error: BaseException) -> str:
    """An error with the line of the user's file where it came up."""
    text = f"{type(error).__name__}: {error}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    if not frames:
        return text
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _ready(seconds: float, reads: int, writes: int | None = None) -> set[int]:
    """The file descriptors that can be read, or written, or whose other end is gone, after a wait."""
    poll = select.poll()
    poll.register(reads, select.POLLIN)
    if writes is not None:
        poll.register(writes, select.POLLOUT)
    return {descriptor for descriptor, _ in poll.poll(seconds * 1000)}
