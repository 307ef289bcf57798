"""The ways to reach a program: a class of the user's own, a command that is started here, or an address."""

import hashlib
import importlib
import inspect
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx

from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError
from crs_lib.core.text import listing, shorten
from crs_lib.llm import http
from crs_lib.llm.base import LLMError
from crs_lib.systems import contract

_LAST_LINES = 8  # of standard error that a failure quotes
_PIECE = 65_536
_HEADERS = {"content-type": "application/json", "accept": "application/json"}
_READ: dict[str, str] = {}  # the digest of each module's file when it was read


class Channel:
    """A line to a program: one request at a time, or many at once where it is ``shared``.
    ``argument`` and ``example`` say what follows the colon of a spec; the sessions of a program that is
    ``apart`` wait for another process.
    """

    argument: ClassVar[str]
    example: ClassVar[str]
    shared: ClassVar[bool] = False
    apart: ClassVar[bool] = True

    def __init__(self, argument: str, timeout: float, catalog: Any = None) -> None:
        """Open the line; raises LLMError where there can be none."""

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


class _Instance(Channel):
    """An object of the user's class, as docs/your-system.md describes; one for each lane of a worker."""

    argument, example, apart = "a module and a class", "my_system:MySystem", False

    def __init__(self, argument: str, timeout: float, catalog: Any = None) -> None:
        made = self._load(argument)
        try:
            self._object = made(catalog)
        except Exception as error:
            raise LLMError("crashed", f"{made.__name__}(catalog) raised {_located(error)}") from error

    @staticmethod
    def parsed(argument: str) -> tuple[str, str]:
        """Module and class of ``package.module:Class``; InputError where it is not written so."""
        module, colon, name = argument.partition(":")
        if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            raise InputError("no class; write python:package.module:Class")
        return module, name

    @classmethod
    def _load(cls, argument: str) -> type[Any]:
        """The class, imported from the current folder, from notebooks/ or any other place of Python's path. A
        module whose file was changed is read again. Raises LLMError where it cannot be imported.
        """
        module, name = cls.parsed(argument)
        for place in (Path.cwd(), paths.notebooks()):
            if str(place) not in sys.path:
                sys.path.append(str(place))
        try:
            importlib.invalidate_caches()
            found = importlib.import_module(module)
            digest = _digest(found.__file__)
            if _READ.setdefault(module, digest) != digest:
                found, _READ[module] = importlib.reload(found), digest
        except Exception as error:
            places = " and ".join(dict.fromkeys((f"{Path.cwd().name}/", "notebooks/", "Python's path")))
            told = f"{module} cannot be imported ({_located(error)}); looked for in {places}"
            raise LLMError("not started", f"python:{argument}: {told}") from error
        made = getattr(found, name, None)
        if not isinstance(made, type):
            known = ", ".join(other for other, value in vars(found).items() if isinstance(value, type))
            told = f"{module} has no class {name} (it has: {known})"
            raise LLMError("not started", f"python:{argument}: {told}")
        if not callable(getattr(made, "reply", None)):
            raise LLMError("not started", f"python:{argument}: {name} has no method reply(request)")
        return made

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

    def ask(self, request: Mapping[str, Any]) -> object:
        """The value that ``reply`` returns."""
        try:
            return self._object.reply(dict(request))
        except Exception as error:
            raise LLMError("crashed", f"reply raised {_located(error)}") from error

    def close(self) -> None:
        """Call the object's own ``close``, if it has one."""
        ending = getattr(self._object, "close", None)
        if callable(ending):
            ending()


class _Function(Channel):
    """A function of this Python process, ``messages -> reply``, as :func:`crs_lib.compare` is given them.
    ``messages`` are ``{"role": "user" or "assistant", "content": text}`` from the first to the user's latest.
    It returns a text, a list of films (ids or titles), or an answer of the contract. All threads share it.
    """

    argument, example, shared = "a name of FUNCTIONS", "mine", True

    def __init__(self, argument: str, timeout: float, catalog: Any = None) -> None:
        self.check_ready(argument)
        self._function = FUNCTIONS[argument]

    @classmethod
    def check_ready(cls, argument: str) -> None:
        """Raise LLMError where this process knows no such function."""
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

    def ask(self, request: Mapping[str, Any]) -> object:
        """What the function returns, as an answer of the contract."""
        try:
            found = self._function([dict(one) for one in request["conversation"]])
        except Exception as error:
            raise LLMError("crashed", f"the function raised {_located(error)}") from error
        if isinstance(found, str):
            return {"reply": found}
        if isinstance(found, list | tuple):
            return {"reply": f"How about {listing(list(map(str, found)), 'or')}?", "recommended": found}
        return found


FUNCTIONS: dict[str, Callable[[list[dict[str, str]]], object]] = {}  # of this process, by name


def _digest(path: str | None) -> str:
    return tables.sha256(Path(path)) if path and Path(path).is_file() else "no file"


def _located(error: BaseException) -> str:
    """An error with the line of the user's file where it came up."""
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    where = f" ({Path(places[-1].filename).name}, line {places[-1].lineno})" if places else ""
    return f"{type(error).__name__}: {error}{where}"


class _Process(Channel):
    """A running program: one JSON line in, one JSON line out, as docs/your-system.md describes.
    A failure ends the process; the next request starts a new one.
    """

    argument, example = "a command", "node adapter.js"

    def __init__(self, argument: str, timeout: float, catalog: Any = None) -> None:
        self.timeout = timeout
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._buffer, self._mark = bytearray(), uuid.uuid4().hex
        try:
            self._process = subprocess.Popen(
                self.parsed(argument), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                bufsize=0, start_new_session=True, env={**os.environ, "CRS_PROGRAM": self._mark},
            )  # fmt: skip
        except OSError as error:
            told = f"({error.strerror or error}); relative paths begin in {Path.cwd().name}/"
            raise LLMError("not started", f"exec:{argument} cannot be started {told}") from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._errors = (pipe.fileno() for pipe in self._pipes)
        os.set_blocking(self._in, False)
        self._reader = threading.Thread(target=self._read_errors, name="stderr", daemon=True)
        self._reader.start()

    @staticmethod
    def parsed(argument: str) -> list[str]:
        """The words of a command line, read as a shell reads them; InputError where there is none."""
        try:
            found = shlex.split(argument)
        except ValueError as error:
            raise InputError(f"not a command line ({error}); quote it as for a shell") from error
        if not found:
            raise InputError("no command; give one")
        return found

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
        words = cls.parsed(argument)
        found = shutil.which(words[0])
        script = bool(found) and Path(str(found)).read_bytes()[:2] == b"#!"
        named = [str(found)] if script else [word for word in words[1:] if Path(word).is_file()]
        return tables.fingerprint([words, *(tables.sha256(Path(name)) for name in named[:1])])

    def ask(self, request: Mapping[str, Any]) -> object:
        """Write the request as a line and read the line that answers it."""
        line = json.dumps(request, ensure_ascii=True).encode() + b"\n"
        text = self._exchange(line).decode("utf-8", "replace")
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
        for told in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if self._mark.encode() in told.read_bytes():
                    os.kill(int(told.parent.name), signal.SIGKILL)

    def close(self) -> None:
        """End the program and what it started, and close its pipes."""
        self.halt()
        self._process.wait()
        self._reader.join(1.0)
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.close()

    def _exchange(self, line: bytes) -> bytes:
        """Write all of ``line`` while reading, until a line has come back."""
        deadline, left = time.monotonic() + self.timeout, memoryview(line)
        while b"\n" not in self._buffer:
            pause = deadline - time.monotonic()
            able = _ready(max(0.0, pause), self._out, self._in if left else None)
            if self._out in able:
                piece = os.read(self._out, _PIECE)
                if not piece:
                    raise self._ended()
                self._buffer += piece
                contract.check_length(self._buffer)
            elif self._in in able:
                try:
                    left = left[os.write(self._in, left[:_PIECE]) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise self._ended() from error
            elif pause <= 0:
                raise LLMError("too slow", f"the program did not answer within {self.timeout:g} seconds")
        found, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return found

    def _ended(self) -> LLMError:
        """The failure of a program that is gone, with its exit and its last words."""
        how = "closed its output"
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1.0)
            self._reader.join(1.0)
            names = {one.value: one.name for one in signal.Signals}
            ended = f"was ended by {names.get(-code, f'signal {-code}')}"
            how = ended if code < 0 else f"ended with exit code {code}"
        said = shorten(" | ".join(self._last_lines), 1000)
        last = f"its last words: {said}" if said else "it wrote nothing to standard error"
        return LLMError("crashed", f"the program {how} before it answered; {last}")

    def _read_errors(self) -> None:
        """Keep the last lines of standard error, so that the program never waits for a reader."""
        with suppress(OSError, ValueError):
            rest, piece = b"", b" "
            while piece:
                piece = os.read(self._errors, _PIECE)
                *lines, rest = (rest + (piece or b"\n"))[-_PIECE:].split(b"\n")
                texts = (line.decode("utf-8", "replace").strip() for line in lines)
                self._last_lines.extend(shorten(text, 300) for text in texts if text.strip("~^ "))


def _ready(seconds: float, reads: int, writes: int | None = None) -> set[int]:
    """The file descriptors that can be read, or written, or whose other end is gone, after a wait."""
    poll = select.poll()
    poll.register(reads, select.POLLIN)
    if writes is not None:
        poll.register(writes, select.POLLOUT)
    return {found for found, _ in poll.poll(seconds * 1000)}


class _Server(Channel):
    """A program behind an HTTP address, as docs/your-system.md describes.
    Connection faults and answers of status 5xx are worth another attempt, those of 4xx are not, and a request
    that was not answered in time is not sent again. A subclass speaks to servers of others: they have a
    ``name``, are asked again where an answer does not follow their protocol, and get back the cookies of each
    conversation. ``path`` stands behind an address that has none. The environment variable ``key`` holds the
    key that goes to such a server, and to no other channel's.
    """

    argument, example, shared = "a URL", "//127.0.0.1:8000/reply", True
    name, path, key = "", "", ""

    def __init__(self, argument: str, timeout: float, catalog: Any = None) -> None:
        self.url, self.timeout = self.parsed(argument), timeout
        self._bare = not urlsplit(self.url).path
        self.url += self.path if self._bare else ""
        self._clients = http.Clients(_client, timeout, os.environ.get(self.key))
        self._kept: dict[str, dict[str, Any]] = {}  # what belongs to each conversation
        self._headers: dict[str, str] = {}  # that this server wants beside the usual ones

    def body(self, request: Mapping[str, Any], kept: dict[str, Any]) -> object:
        """The JSON value that is posted for a request; ``kept`` is what belongs to its conversation."""
        return request

    def read(self, given: Any, kept: dict[str, Any]) -> object:
        """The answer of the contract in the JSON value that comes back."""
        return given

    @staticmethod
    def parsed(argument: str) -> str:
        """The URL of an argument: ``http:localhost:8000/reply``, ``http://…`` and ``http:https://…``.
        InputError for what is no address, and for one that holds a name and password or a query.
        """
        text = f"http:{argument}" if argument.startswith("//") else argument
        found = http.parse(text, port=80, variable="http:URL")
        if len(found) > 1:
            raise InputError("several addresses; give each a system of its own")
        return found[0]

    @classmethod
    def check_ready(cls, argument: str) -> None:
        """Raise LLMError where nothing listens at the address; nothing is sent."""
        url = urlsplit(cls.parsed(argument))
        place = (url.hostname or "", url.port or (443 if url.scheme == "https" else 80))
        try:
            socket.create_connection(place, timeout=10).close()
        except OSError as error:
            told = f"no server answers at {url.geturl()} ({error}); is it running, and is the address right?"
            raise LLMError("unreachable", told) from error

    @classmethod
    def identity(cls, argument: str) -> str:
        """The address: a server does not say which version of a program it runs."""
        return f"address:{cls.parsed(argument)}"

    def ask(self, request: Mapping[str, Any]) -> object:
        """Post the request and read the answer."""
        if request["turn"] == 1 or request["session"] not in self._kept:
            self._kept[request["session"]] = {"jar": httpx.Cookies()}
        kept = self._kept[request["session"]]
        body = json.dumps(self.body(request, kept), ensure_ascii=False).encode("utf-8", "replace")
        text = self._sent("POST", self.url, body, kept)
        if not self.name:
            return contract.parse(text)
        try:
            return self.read(safety.loads(text, "the answer"), kept)
        except (InputError, LookupError, TypeError, AttributeError, ValueError) as error:
            told = f"{self.url} answered like no {self.name}: {shorten(text, 300)}"
            raise LLMError("garbled", told, text) from error

    def _sent(self, method: str, url: str, body: bytes | None, kept: Mapping[str, Any]) -> str:
        """The text of the answer to a request; LLMError for every other status than 200."""
        client, found = self._clients.at(self.url), bytearray()
        more = {"headers": _HEADERS | self._headers, "extensions": {"jar": kept["jar"]}}
        try:
            with self._clients.in_time(), client.stream(method, url, content=body, **more) as answer:
                for piece in answer.iter_bytes():
                    found += piece
                    contract.check_length(found)
        except httpx.HTTPError as error:
            fault = http.from_transport(error, url, self.timeout)
            raise (LLMError("too slow", str(fault)) if fault.kind == "timeout" else fault) from error
        if self.name:
            kept["jar"].extract_cookies(answer)
        status, text = answer.status_code, found.decode("utf-8", "replace")
        if status == 200:
            return text
        said = f"{self.url} said: {shorten(' '.join(text.split()) or 'nothing', 300)} (HTTP {status})"
        if status < 500:
            raise LLMError("refused", said)
        raise LLMError("busy", said, pause=http.seconds_of(answer.headers.get("retry-after", "")))

    def close(self) -> None:
        """Close all connections."""
        self._clients.close()


def _client(url: str, settings: dict[str, Any]) -> httpx.Client:
    """A client that sends the cookies of the conversation that a request belongs to, and no others."""
    client = httpx.Client(**settings)
    client.event_hooks["request"].append(lambda request: request.extensions["jar"].set_cookie_header(request))
    return client


class _Assistant(_Server):
    """An OpenAI-style assistant, behind an HTTP address."""

    name, path, key = "OpenAI-style assistant", "/v1/chat/completions", "CRS_CHAT_KEY"
    example = f"http://127.0.0.1:8000{path}"

    def body(self, request: Mapping[str, Any], kept: dict[str, Any]) -> object:
        return {"model": self.model(), "messages": request["conversation"]}

    def read(self, given: Any, kept: dict[str, Any]) -> object:
        return {"reply": given["choices"][0]["message"]["content"]}

    @classmethod
    def identity(cls, argument: str) -> str:
        """The address, and the model that is asked for."""
        return super().identity(argument) + ("" if cls.model() == "default" else f" model:{cls.model()}")

    @staticmethod
    def model() -> str:
        """The model that an assistant is asked for."""
        return os.environ.get("CRS_CHAT_MODEL", "default")


class _IEvaLM(_Server):
    """A server of iEvaLM, behind an HTTP address."""

    name, path, example = "server of iEvaLM", "/", "http://127.0.0.1:8000/"

    def body(self, request: Mapping[str, Any], kept: dict[str, Any]) -> object:
        *context, message = [one["content"] for one in request["conversation"]]
        return {"context": context, "message": message}

    def read(self, given: Any, kept: dict[str, Any]) -> object:
        """The text; where it lists items by numbers, these are what it recommends, known or not."""
        listed = _LISTED.findall(given["response"])
        return {"reply": given["response"]} | ({"recommended": listed} if listed else {})


_OTHER_VERSION = (-32601, -32009)  # what an agent of version 1.0 says to a method of version 0.3
_LISTED = re.compile(r"(?:^|:)[ \t]*\d+[:.)][ \t]+(\S.*?)[ \t]*$", re.MULTILINE)


class _Agent(_Server):
    """An agent of the protocol Agent2Agent, behind an HTTP address."""

    name, path, example = "agent of the protocol Agent2Agent", "/", "http://127.0.0.1:8000/"

    def body(self, request: Mapping[str, Any], kept: dict[str, Any]) -> object:
        """The user's latest words as a message; the agent keeps the conversation under its context."""
        if self._bare:
            self._read_card(kept)
        part = {"text": request["conversation"][-1]["content"]}
        new = kept["new"] = bool(self._headers)
        place = f"{request['session']}-{request['turn']}"
        kind = {} if new else {"kind": "message"}
        message: dict[str, Any] = kind | {"messageId": place, "role": "ROLE_USER" if new else "user"}
        message |= {"parts": [part if new else {"kind": "text", **part}]}
        message |= {"contextId": kept["context"]} if "context" in kept else {}
        method = "SendMessage" if new else "message/send"
        return {"jsonrpc": "2.0", "id": place, "method": method, "params": {"message": message}}

    def read(self, given: Any, kept: dict[str, Any]) -> object:
        """The text of a message, or of a task's artifacts, else of its status."""
        if fault := given.get("error"):
            code, told = fault.get("code"), f"the agent said: {shorten(str(fault.get('message')), 300)}"
            newer = code in _OTHER_VERSION and not kept["new"]
            self._headers |= {"A2A-Version": "1.0"} if newer else {}
            raise LLMError("busy" if newer or code == -32603 else "refused", told)
        found = given["result"]
        found = found.get("message") or found.get("task") or found
        kept["context"] = found["contextId"]
        said = found.get("artifacts") or [found if "parts" in found else found["status"]["message"]]
        texts = (part["text"] for one in said for part in one["parts"] if "text" in part)
        return {"reply": "\n".join(texts)}

    def _read_card(self, kept: Mapping[str, Any]) -> None:
        """Take the path of the JSON-RPC address from the agent's card; where it has none, the usual one."""
        with suppress(LLMError, InputError, LookupError, TypeError, AttributeError, ValueError):
            place = f"{self.url}.well-known/agent-card.json"
            card = safety.loads(self._sent("GET", place, None, kept), "the card")
            known = [*card.get("supportedInterfaces", ()), *card.get("additionalInterfaces", ()), card]
            spoken = [(one.get("protocolBinding") or one.get("transport"), one) for one in known]
            url = next(one["url"] for kind, one in spoken if kind in ("JSONRPC", None))
            self.url = self.url.removesuffix("/") + (urlsplit(url).path or self.path)
        self._bare = False


CHANNELS: dict[str, type[Channel]] = {
    "python": _Instance, "function": _Function, "exec": _Process, "http": _Server,
    "openai-chat": _Assistant, "ievalm": _IEvaLM, "a2a": _Agent,
}  # fmt: skip
