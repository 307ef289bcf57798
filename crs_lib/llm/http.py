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
from functools import cache
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm.base import Backend, LLMError, Reply, Request, check_options, check_read
from crs_lib.llm.text import answered

ALTERNATIVES = 20  # the most tokens that a server weighs, where a reply is one of some choices


class Clients:
    """One HTTP client a server, made when it is first asked for and shared by threads. ``make(address,
    settings)`` makes it out of the keywords of an httpx client. ``key`` goes to these servers only.
    """

    def __init__(self, make: Callable[..., Any], timeout: float, key: str | None = None) -> None:
        if not timeout > 0:
            raise InputError(f"timeout is {timeout}; give seconds above 0: a call must be able to end")
        self._make, self._timeout, self._key = make, timeout, key
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()

    def at(self, address: str) -> Any:
        """The client of one server."""
        with self._lock:
            if address not in self._made:
                self._made[address] = self._make(address, self.settings(address))
            return self._made[address]

    def settings(self, address: str) -> dict[str, Any]:
        """The keywords of an httpx client for one server: bounded in time, no proxy on this machine."""
        return {
            "timeout": httpx.Timeout(self._timeout, connect=min(10.0, self._timeout), pool=None),
            # Used again, a connection gives what follows one answer as the answer to the next call.
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=0),
            "follow_redirects": False, "headers": {"accept-encoding": "identity"},
            "trust_env": not _is_local(address), "verify": _certificates(),
            "event_hooks": {"request": [self._prepare], "response": [_read_whole]},
        }  # fmt: skip

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """Within, the calls of this thread end by the time-out, from connecting to the last byte. Then
        ReadTimeout. httpx's own time-out counts from one piece of an answer to the next: a server that sends
        a byte of a header now and then, or answers 103 without end, would never be timed out.
        """
        over, sockets = threading.Event(), list[socket.socket]()

        def end() -> None:
            over.set()
            for one in sockets[-1:]:
                with suppress(OSError):
                    socket.socket.shutdown(one, socket.SHUT_RDWR)

        def told(event: str, facts: Mapping[str, Any]) -> None:
            if event.endswith(("connect_tcp.complete", "start_tls.complete")):
                sockets.append(facts["return_value"].get_extra_info("socket"))
                if over.is_set():
                    end()

        watch = threading.Timer(min(self._timeout, threading.TIMEOUT_MAX), end)
        watch.daemon = True
        token = _TOLD.set(told)
        watch.start()
        try:
            yield
            if over.is_set():
                raise TimeoutError
        except Exception as error:
            if over.is_set():
                raise httpx.ReadTimeout("the answer took longer than the time-out") from error
            raise
        finally:
            watch.cancel()
            _TOLD.reset(token)

    def _prepare(self, request: httpx.Request) -> None:
        """A request begins: our key or none (the ollama client adds its own), no cookie; it is watched."""
        for header in ("authorization", "cookie"):
            request.headers.pop(header, None)
        if self._key:
            request.headers["authorization"] = f"Bearer {self._key}"
        if told := _TOLD.get():
            request.extensions["trace"] = told

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        with self._lock:
            made, self._made = self._made, {}
        for client in made.values():
            client.close()


# What httpcore tells, under the name of its event, of the connection of the call under way.
_TOLD: ContextVar[Callable[[str, Mapping[str, Any]], None] | None] = ContextVar("told", default=None)


@cache
def _spelt(secret: str) -> re.Pattern[bytes]:
    """A secret as a server may echo it: plain, percent-encoded, with JSON's escapes, or within base64."""
    forms = [_either(secret)]
    for before in range(3):  # base64 has three spellings; letters that neighbours share are left out
        packed = base64.b64encode(b"\0" * before + secret.encode()).decode().rstrip("=")
        inner = packed[-(-4 * before // 3) : -1]
        forms += [_either(inner), _either(inner.translate(_URL_SAFE))] if len(inner) >= 6 else []
    return re.compile("|".join(forms).encode())


_URL_SAFE = str.maketrans("+/", "-_")


def _either(text: str) -> str:
    """A pattern of a text, each character itself, behind a backslash, or its number in an address or JSON."""
    forms = ((re.escape(chr(byte)), f"{byte:02x}") for byte in text.encode())
    return "".join(rf"(?:\\?{plain}|(?i:%{digits}|\\u00{digits}))" for plain, digits in forms)


@cache
def _certificates() -> ssl.SSLContext:
    """The certificates that httpx trusts, read once a process: reading them takes 30 ms and more."""
    return httpx.create_ssl_context()


def _read_whole(response: httpx.Response) -> None:
    """An answer begins: it is read up to the limit ``answer_bytes``, and an echo of the key that was sent is
    masked. A compressed answer, which nobody asked for and whose size nobody knows, is not read.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise httpx.DecodingError("it is compressed, and was asked for as it is")
    stream: Any = response.stream
    whole, most = bytearray(), safety.limit("answer_bytes")
    for piece in stream:
        whole += piece
        if len(whole) > most:
            raised = f"{safety.limit_variable('answer_bytes')} raises it"
            raise httpx.DecodingError(f"it is longer than the limit, {most:,} bytes; {raised}")
    stream.close()
    secret = response.request.headers.get("authorization", "").removeprefix("Bearer ")
    response.stream = httpx.ByteStream(_spelt(secret).sub(b"[key]", whole) if secret else bytes(whole))


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
    without_tools: ClassVar[tuple[str, ...]] = ("refused",)  # kinds of a rejection that may be about tools
    options: Collection[str]  # that the server knows: it would ignore a misspelt one without a word

    def __init__(
        self, argument: str, *, host: str | None = None, timeout: float = 300.0, send_key: bool = False
    ) -> None:
        self.spec, self.model, self.timeout = f"{self.kind}:{argument}", argument, timeout
        named = host or os.environ.get(self.variable) or "127.0.0.1"
        found = parse(named, port=self.port, variable=self.variable)
        self.endpoints = tuple(address.removesuffix("/v1") for address in found)
        secret = os.environ.get(self.key) if send_key else None
        if send_key and not secret:
            raise InputError(f"send_key is true, and {self.key} is not set; set it, or leave send_key out")
        self._clients = Clients(self._client, timeout, secret)

    def _client(self, address: str, settings: dict[str, Any]) -> Any:
        return httpx.Client(base_url=address, **settings)

    def _said(self, request: Request, address: str) -> dict[str, Any]:
        """The facts of a server's answer, as :func:`crs_lib.llm.text.answered` takes them, and its model."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all connections."""
        self._clients.close()

    def complete(self, request: Request, endpoint: str = "") -> Reply:
        """One attempt; every failure is an LLMError."""
        began, address = time.perf_counter(), endpoint or self.endpoints[0]
        check_options(request, self.options)
        try:
            with self._translated(address):
                facts = self._said(request, address)
        except LLMError as error:
            rejected = request.tools and error.kind in self.without_tools and "tool" in str(error).lower()
            raise LLMError("no tools", str(error)) if rejected else error from error
        told = str(facts.pop("model", None) or self.model)
        if not self._is_mine(told):
            told = f"{shown(address)} answered with {shorten(told, 80)}, not with {self.model}"
            raise LLMError("other model", told)
        check_read(request, facts["tokens_in"])
        seconds = time.perf_counter() - began
        return answered(request, **facts, seconds=seconds, endpoint=shown(address))

    def _is_mine(self, told: str) -> bool:
        """Whether a model's name in an answer may be that of ours: it, dated, or a path to it."""
        mine, theirs = self.model.lower(), told.lower()
        named, file = mine.rpartition("/")[2], theirs.rpartition("/")[2]
        dated = theirs.startswith((f"{mine}-", f"{mine}:", f"{mine}@"))
        return dated or theirs == mine or file == named or file.startswith(f"{named}.")

    @contextmanager
    def _translated(self, address: str) -> Iterator[None]:
        """Within, every way in which a call can fail becomes an LLMError."""
        try:
            with self._clients.in_time():
                yield
        except (ConnectionError, httpx.HTTPError) as error:
            raise from_transport(error, address, self.timeout, self.start) from error
        except InputError as error:
            raise LLMError("garbled", str(error)) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            why = shorten(" ".join(str(error).split()), 300)
            told = f"{shown(address)} answered with something that is no chat answer ({why})"
            raise LLMError("garbled", told) from error

    def _refused(self, status: int, said: str, address: str, wait: str = "") -> LLMError:
        """The error of an HTTP status; ``said`` is its own text, ``wait`` the seconds that it asks for."""
        told = f"{shown(address)} said: {shorten(said.strip() or 'nothing', 300)} (HTTP {status})"
        if status == 404:
            return LLMError("model missing", f"{told}; {self.get} {self.model}")
        if status in (408, 429) or status >= 500 or status < 0:
            return LLMError("busy", told, pause=seconds_of(wait))
        if status == 400 and "context" in said.lower():
            return LLMError("prompt too long", f"{told}; raise num_ctx, or shorten the prompt")
        return LLMError("refused", told)


def seconds_of(wait: str) -> float:
    """The seconds of a header Retry-After; 0 for a date and anything else."""
    return float(wait) if re.fullmatch("[0-9]{1,6}", wait.strip()) else 0.0


def shown(address: str) -> str:
    """An address as it is shown and stored: scheme, host and port, without whatever follows them."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""


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
    is http, and with it a missing port ``port``; 0.0.0.0 means this machine. Raises InputError for an empty
    list, another scheme, a name and password, or a query, which could hold a key.
    """
    found = tuple(_one(part.strip(), port) for part in hosts.split(",") if part.strip())
    if not found or len(set(found)) < len(found):
        given = ", ".join(map(shown, found)) or repr(hosts[:80])
        told = f"{variable} or host: give one address, or several with commas between, each once"
        raise InputError(f"{told} (given: {given})")
    return found


def _one(text: str, port: int) -> str:
    example = f"write it like http://gpu1:{port}"
    if _ip(text) and ":" in text:
        text = f"[{text}]"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        given, name = parts.port, parts.hostname or ""
        if name.split() not in ([], [name]):
            raise ValueError(name)
        httpx.URL(f"http://[{name}]" if ":" in name else f"http://{name}")
    except (ValueError, httpx.InvalidURL) as error:
        raise InputError(f"a server's address cannot be read; {example}") from error
    if parts.username or parts.password or parts.query or parts.fragment or ";" in parts.path:
        wrong = "a name and password, '?', '#' or ';'"
        raise InputError(f"a server's address must not hold {wrong}; put a key into the environment")
    if parts.scheme not in ("http", "https"):
        raise InputError(f"{parts.scheme[:40]!r} is no scheme of a server's address; {example}")
    name = "127.0.0.1" if name in ("", "0.0.0.0", "::") else f"[{name}]" if ":" in name else name
    chosen = given or (None if "://" in text else port)
    return f"{parts.scheme}://{name}{f':{chosen}' if chosen else ''}{parts.path.rstrip('/')}"


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_local(address: str) -> bool:
    """Whether the address is this machine's own; such calls never go through a proxy."""
    name = urlsplit(address).hostname or ""
    found = _ip(name)
    return found.is_loopback if found else name == "localhost"
