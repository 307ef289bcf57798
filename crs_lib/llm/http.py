"""HTTP for the two server backends: addresses, keys that stay at home, deadlines, failures as LLMErrors."""

import base64
import ipaddress
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, ClassVar
from urllib.parse import SplitResult, urlsplit

import httpx

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm.base import BEHIND, Backend, LLMError, Reply, Request, check_options, check_read
from crs_lib.llm.text import Completion, answered

ALTERNATIVES = 20  # the most tokens that a server weighs, where a reply is one of some choices
BUSY = (408, 425, 429)  # statuses below 500 at which the same request may succeed later
_Trace = Callable[[str, Mapping[str, Any]], None]
# What httpcore tells, under the name of its event, of the connection of the call under way.
_TRACE: ContextVar[_Trace | None] = ContextVar("trace", default=None)
_URL_SAFE = str.maketrans("+/", "-_")
_ABOUT_KEYS = re.compile(r"api.?key|authenticat|unauthori[sz]ed", re.IGNORECASE)
_PASSES = re.compile("rate|overload|busy|unavailable|timeout|server_error", re.IGNORECASE)
_LONG_PAUSE = 60.0  # seconds from which an error says how long the server asks to wait
# How servers name the tokens of their context, in errors about a prompt that is too long.
_CONTEXTS = (
    r"n_ctx\W{1,4}(\d+)",
    r"context (?:length|size|window)(?: is| of|:)?(?: only)? \(?([\d,]*\d)",
    r"(?:<=|maximum of|at most) ([\d,]*\d)",
    r"> ([\d,]*\d) maximum",
    r"tokens allowed \(?([\d,]*\d)",
    r"less than ([\d,]*\d) tokens",
)
# Words of such errors, in small letters.
_TOO_LONG = (
    "context",
    "n_ctx",
    "max_new_tokens",
    "prompt is too long",
    "input token count",
    "must have less than",
)
_FOLD = 2  # how many times as long a call may take that waits in the server for another of ours
_SHORTEST_ECHO = 6  # characters of base64 by which a key is recognised


class Clients:
    """One HTTP client a server, made when it is first asked for and shared by threads. ``make(address,
    settings)`` makes it out of the keywords of an httpx client. ``key`` goes to these servers only.
    """

    def __init__(self, make: Callable[..., Any], timeout: float, key: str | None = None) -> None:
        if not timeout > 0:
            raise InputError(f"timeout is {timeout}; give seconds above 0: a call must be able to end")
        self._make = make
        self._timeout = timeout
        self._key = key
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def at(self, address: str) -> Any:
        """The client of one server."""
        with self._lock:
            if address not in self._clients:
                self._clients[address] = self._make(address, self.settings(address))
            return self._clients[address]

    def settings(self, address: str) -> dict[str, Any]:
        """The keywords of an httpx client for one server: bounded in time, no proxy on this machine."""
        return {
            "timeout": httpx.Timeout(_FOLD * self._timeout, connect=min(10.0, self._timeout), pool=None),
            # Used again, a connection gives what follows one answer as the answer to the next call.
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=0),
            "follow_redirects": False,
            "headers": {"accept-encoding": "identity"},
            "trust_env": not is_local(address),
            "verify": _certificates(),
            "event_hooks": {"request": [self._prepare], "response": [_read_whole]},
        }

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """Within, the calls of this thread end by the time-out, from connecting to the last byte; by twice as
        much where a call of ours may be before them in the server. Then ReadTimeout. httpx's own time-out
        counts from one piece of an answer to the next: a server that sends a byte of a header now and then,
        or answers 103 without end, would never be timed out.
        """
        deadline = _Deadline()
        seconds = self._timeout * _FOLD if BEHIND.get() else self._timeout
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), deadline.end)
        timer.daemon = True
        token = _TRACE.set(deadline.watch)
        timer.start()
        try:
            yield
            if deadline.over.is_set():
                raise TimeoutError
        except Exception as error:
            if deadline.over.is_set():
                raise httpx.ReadTimeout("the answer took longer than the time-out") from error
            raise
        finally:
            timer.cancel()
            _TRACE.reset(token)

    def _prepare(self, request: httpx.Request) -> None:
        """A request begins: our key or none (the ollama client adds its own), no cookie; it is watched."""
        for header in ("authorization", "cookie"):
            request.headers.pop(header, None)
        if self._key:
            request.headers["authorization"] = f"Bearer {self._key}"
        trace = _TRACE.get()
        if trace:
            request.extensions["trace"] = trace

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        with self._lock:
            clients = list(self._clients.values())
            self._clients.clear()
        for client in clients:
            client.close()


class _Deadline:
    """The end of a call: it shuts the connection down, whatever the call waits for."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self._socket: socket.socket | None = None

    def watch(self, event: str, facts: Mapping[str, Any]) -> None:
        """Keep the connection of the call, which httpcore tells of."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = facts["return_value"].get_extra_info("socket")
            if self.over.is_set():
                self.end()

    def end(self) -> None:
        """End the call now."""
        self.over.set()
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


@cache
def _echo(secret: str) -> re.Pattern[bytes]:
    """A secret as a server may echo it: plain, percent-encoded, with JSON's escapes, or within base64."""
    patterns = [_escaped(secret)]
    for before in range(3):  # base64 has three spellings; letters that neighbours share are left out
        packed = base64.b64encode(b"\0" * before + secret.encode()).decode().rstrip("=")
        inner = packed[-(-4 * before // 3) : -1]
        if len(inner) >= _SHORTEST_ECHO:
            patterns.append(_escaped(inner))
            patterns.append(_escaped(inner.translate(_URL_SAFE)))
    return re.compile("|".join(patterns).encode())


def _escaped(text: str) -> str:
    """A pattern of a text, each character itself, behind a backslash, or its number in an address or JSON."""
    parts = []
    for byte in text.encode():
        plain = re.escape(chr(byte))
        digits = f"{byte:02x}"
        parts.append(rf"(?:\\?{plain}|(?i:%{digits}|\\u00{digits}))")
    return "".join(parts)


@cache
def _certificates() -> ssl.SSLContext:
    """The certificates that httpx trusts, read once a process: reading them takes 30 ms and more."""
    return httpx.create_ssl_context()


def _read_whole(response: httpx.Response) -> None:
    """An answer begins: it is read up to the limit ``answer_bytes``, and an echo of the key that was sent is
    masked. A compressed answer, which nobody asked for and whose size nobody knows, is not read.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise httpx.DecodingError("it is compressed, and was asked for as it is")
    stream: Any = response.stream
    content = bytearray()
    most = safety.limit("answer_bytes")
    for piece in stream:
        content += piece
        if len(content) > most:
            variable = safety.limit_variable("answer_bytes")
            raise httpx.DecodingError(f"it is longer than the limit, {most:,} bytes; {variable} raises it")
    stream.close()
    secret = response.request.headers.get("authorization", "").removeprefix("Bearer ")
    masked = _echo(secret).sub(b"[key]", content) if secret else bytes(content)
    response.stream = httpx.ByteStream(masked)


class Server(Backend):
    """A model on one server or several: their addresses and connections, one attempt, and its failures.
    ``host`` is one address or several with commas between; without it the environment ``variable``, else this
    machine. ``timeout`` bounds one attempt in seconds. ``send_key`` sends the key in the environment variable
    ``key`` to these hosts; otherwise it is never sent.
    """

    kind: ClassVar[str]
    variable: ClassVar[str]
    key: ClassVar[str]
    port: ClassVar[int]
    start: ClassVar[str]  # what to do where no server answers
    get: ClassVar[str]  # what to do where a server lacks the model
    other: ClassVar[str] = ""  # what to do where a server answers with a model of another name
    without_tools: ClassVar[tuple[str, ...]] = ("refused",)  # kinds of a rejection that may be about tools
    options: Collection[str]  # that the server knows: it would ignore a misspelt one without a word

    def __init__(
        self, argument: str, *, host: str | None = None, timeout: float = 300.0, send_key: bool = False
    ) -> None:
        self.spec = f"{self.kind}:{argument}"
        self.model = argument
        self.timeout = timeout
        hosts = host or os.environ.get(self.variable) or "127.0.0.1"
        addresses = parse(hosts, port=self.port, variable=self.variable)
        self.endpoints = tuple(self.base(address) for address in addresses)
        secret = os.environ.get(self.key) if send_key else None
        if send_key and not secret:
            raise InputError(f"send_key is true, and {self.key} is not set; set it, or leave send_key out")
        self.clients = Clients(self.client, timeout, secret)

    def base(self, address: str) -> str:
        """What an address that a user gave is to the protocol: paths stand behind it."""
        return address.removesuffix("/v1")

    def client(self, address: str, settings: dict[str, Any]) -> Any:
        """The client of one server."""
        return httpx.Client(**settings)

    def ask(self, request: Request, address: str) -> Completion:
        """What the server at an address answers."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all connections."""
        self.clients.close()

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt; every failure is an LLMError."""
        began = time.perf_counter()
        address = endpoint or self.endpoints[0]
        check_options(request, self.options)
        try:
            with self.translated(address):
                completion = self.ask(request, address)
        except LLMError as error:
            about_tools = error.kind in self.without_tools and "tool" in str(error).lower()
            if request.tools and about_tools:
                raise LLMError("no tools", str(error)) from error
            raise
        if completion.model and not self.is_mine(completion.model):
            other = shorten(completion.model, 80)
            fault = f"{shown(address)} answered with {other}, not with {self.model}"
            raise LLMError("other model", f"{fault}{self.other}")
        check_read(request, completion.tokens_in)
        return answered(request, completion, time.perf_counter() - began, shown(address))

    def is_mine(self, model: str) -> bool:
        """Whether a model's name in an answer may be that of ours: it, dated, or a path to it."""
        ours = self.model.lower()
        theirs = model.lower()
        name = ours.rpartition("/")[2]
        file = theirs.rpartition("/")[2]
        dated = theirs.startswith((f"{ours}-", f"{ours}:", f"{ours}@"))
        return dated or theirs == ours or file == name or file.startswith(f"{name}.")

    @contextmanager
    def translated(self, address: str) -> Iterator[None]:
        """Within, every way in which a call can fail becomes an LLMError."""
        try:
            with self.clients.in_time():
                yield
        except (ConnectionError, httpx.HTTPError) as error:
            raise from_transport(error, address, self.timeout, self.start) from error
        except InputError as error:
            raise LLMError("garbled", str(error)) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            reason = shorten(" ".join(str(error).split()), 300)
            fault = f"{shown(address)} answered with something that is no chat answer ({reason})"
            raise LLMError("garbled", fault) from error

    def refused(self, status: int, text: str, address: str, pause: float = 0.0) -> LLMError:
        """The error of an HTTP status; ``text`` is its own, ``pause`` the seconds that it asks for."""
        fault = f"{shown(address)} said: {shorten(text.strip() or 'nothing', 300)} (HTTP {status})"
        if status == 404:
            return LLMError("model missing", f"{fault}; {self.get} {self.model}")
        if status in (401, 403) or (status >= 500 and _ABOUT_KEYS.search(text)):
            cure = f"the key? Set {self.key} and send_key, if the server wants one"
            return LLMError("refused", f"{fault}; {cure}")
        if status in (400, 413, 422, 500) and _exceeds_context(text):
            cure = f"lower num_ctx{_context_in(text)}, or shorten the prompt"
            return LLMError("prompt too long", f"{fault}; {cure}")
        if "more system memory" in text:
            return LLMError("refused", f"{fault}; take a smaller model, or lower num_ctx")
        if status in BUSY or status >= 500 or status < 0:
            if pause > _LONG_PAUSE:
                fault += f"; it asks to wait {pause:,.0f} seconds"
            return LLMError("busy", fault, pause=pause)
        return LLMError("refused", fault)


def _exceeds_context(text: str) -> bool:
    """Whether an error says that a prompt is longer than the server's context."""
    words = text.lower()
    return any(sign in words for sign in _TOO_LONG)


def _context_in(text: str) -> str:
    """The tokens of the server's context that an error names, as the end of "lower num_ctx"; or nothing."""
    for pattern in _CONTEXTS:
        named = re.search(pattern, text, re.IGNORECASE)
        if named:
            return f" to {named[1].replace(',', '')}"
    return ""


def pause_of(headers: Mapping[str, str]) -> float:
    """The seconds that a server asks us to wait: ``retry-after-ms``, else ``Retry-After`` as a number, also
    with decimals or an "s", or as a date; 0 where it says nothing that can be read.
    """
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        number = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]*)?)s?", value)
        if number:
            return float(number[1]) * scale
        with suppress(ValueError):
            until = parsedate_to_datetime(value)
            return max(0.0, until.timestamp() - time.time())
    return 0.0


def reported(error: object, who: str) -> LLMError:
    """The error that an answer of status 200 reports: "busy" where it may pass, else "refused"."""
    if isinstance(error, list):
        error = error[0]
    facts = error if isinstance(error, Mapping) else {"message": error}
    code = str(facts.get("code") or facts.get("status") or facts.get("type") or "")
    message = facts.get("message") or facts.get("detail") or error
    words = shorten(" ".join(str(message).split()), 300)
    fault = f"{who} answered with an error: {words}"
    if code:
        fault += f" ({code})"
    passes = code in map(str, BUSY) or re.fullmatch(r"5\d\d", code) or _PASSES.search(code)
    return LLMError("busy" if passes else "refused", fault)


def check_no_error(answer: object, who: str) -> None:
    """Raise LLMError for an error that came with status 200, in place of an answer or within a completion."""
    if not isinstance(answer, Mapping):
        return
    error = answer.get("error") or answer.get("errors")
    failed = answer.get("success") is False or answer.get("status") == "error"
    if not error and (failed or answer.get("object") == "error"):
        error = answer
    choices = answer.get("choices")
    if not error and isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        error = _error_of(choices[0])
    if error:
        raise reported(error, who)


def _error_of(choice: Mapping[str, Any]) -> object:
    """The error in a choice of a chat completion, also one that only its end tells; None for none."""
    if choice.get("error"):
        return choice["error"]
    if choice.get("finish_reason") == "error":
        return {"message": "finish_reason is error", "code": "server_error"}
    return None


def shown(address: str) -> str:
    """An address as it is shown and stored: scheme, host and port, without whatever follows them."""
    parts = urlsplit(address)
    if not parts.netloc:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def from_transport(error: Exception, address: str, timeout: float, hint: str = "is it running?") -> LLMError:
    """The error of a connection as one of ours."""
    address = shown(address)
    if isinstance(error, ConnectionError | httpx.ConnectError | httpx.ConnectTimeout):
        return LLMError("unreachable", f"no server answers at {address}; {hint}")
    if isinstance(error, httpx.TimeoutException):
        return LLMError("timeout", f"{address} did not answer within {timeout:g} seconds")
    if isinstance(error, httpx.DecodingError | httpx.UnsupportedProtocol | httpx.InvalidURL):
        return LLMError("garbled", f"{address} answered with something that cannot be read ({error})")
    return LLMError("dropped", f"the connection to {address} ended early ({type(error).__name__})")


def parse(hosts: str, *, port: int, variable: str) -> tuple[str, ...]:
    """The base addresses in a comma-separated list: ``gpu1:11434, http://gpu2`` gives two. A missing scheme
    is http, and with it a missing port ``port``; 0.0.0.0 means this machine.

    Raises InputError for an empty list, an address that stands twice, another scheme, a name and password,
    or a query, which could hold a key, but for ``?api-version=``.
    """
    addresses = tuple(_address(part.strip(), port) for part in hosts.split(",") if part.strip())
    if not addresses or len(set(addresses)) < len(addresses):
        listed = ", ".join(map(shown, addresses)) or repr(hosts[:80])
        expected = f"{variable} or host: give one address, or several with commas between, each once"
        raise InputError(f"{expected} (given: {listed})")
    return addresses


def _address(text: str, port: int) -> str:
    """One address in full."""
    if _ip(text) and ":" in text:
        text = f"[{text}]"
    has_scheme = "://" in text
    example = f"write it like http://gpu1:{port}"
    parts = _split(text if has_scheme else f"http://{text}", example)
    query = re.fullmatch(r"(api-version=[\w.-]+)?", parts.query)
    if has_scheme and not parts.netloc:
        raise InputError(f"a server's address needs a host behind '://'; {example}")
    if parts.username or parts.password or not query or parts.fragment or ";" in parts.path:
        wrong = "a name and password, '?' (but for ?api-version=), '#' or ';'"
        raise InputError(f"a server's address must not hold {wrong}; put a key into the environment")
    if parts.scheme not in ("http", "https"):
        raise InputError(f"{parts.scheme[:40]!r} is no scheme of a server's address; {example}")
    name = parts.hostname or ""
    if name in ("", "0.0.0.0", "::"):
        name = "127.0.0.1"
    address = f"{parts.scheme}://{_bracketed(name)}"
    if parts.port:
        address += f":{parts.port}"
    elif not has_scheme:
        address += f":{port}"
    address += parts.path.rstrip("/")
    return f"{address}?{parts.query}" if parts.query else address


def _split(url: str, example: str) -> SplitResult:
    """The parts of an address, which can all be read; InputError otherwise."""
    try:
        parts = urlsplit(url)
        name = parts.hostname or ""
        if name.split() not in ([], [name]):
            raise ValueError(name)
        httpx.URL(f"http://{_bracketed(name)}:{parts.port or 80}")
    except (ValueError, httpx.InvalidURL) as error:
        raise InputError(f"a server's address cannot be read; {example}") from error
    return parts


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_local(address: str) -> bool:
    """Whether the address is this machine's own; such calls never go through a proxy."""
    name = urlsplit(address).hostname or ""
    ip = _ip(name)
    return ip.is_loopback if ip else name == "localhost"
