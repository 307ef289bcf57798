"""HTTP for the two server backends: addresses, keys that stay at home, deadlines, failures as LLMErrors."""

import ipaddress
import os
import re
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache
from http.cookiejar import CookieJar
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import urlsplit

import httpx

from crs_lib.core import safety
from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm.base import LLMError, Reply, Request, check_read
from crs_lib.llm.text import answered


class _Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)


class Clients(Generic[C]):
    """One HTTP client a server, made when it is first asked for and shared by threads.

    ``make(address, settings)`` makes it out of the keywords of an httpx client. A forked process makes its
    own: two processes on one connection would read each other's answers.
    """

    def __init__(
        self,
        make: Callable[[str, dict[str, Any]], C],
        addresses: Sequence[str],
        timeout: float,
        key: str | None,
    ) -> None:
        if not timeout > 0:
            raise InputError(f"timeout is {timeout}; give seconds above 0: a call must be able to end")
        self._make, self._timeout = make, timeout
        self._auth = _KeyOnlyTo(key, addresses)
        self._made: dict[tuple[int, str], C] = {}
        self._lock = threading.Lock()

    def at(self, address: str) -> C:
        """The client of one server."""
        place = (os.getpid(), address)
        with self._lock:
            if place not in self._made:
                self._made[place] = self._make(address, self.settings(address))
            return self._made[place]

    def settings(self, address: str) -> dict[str, Any]:
        """The keywords of an httpx client for one server: bounded in time, no proxy on this machine."""
        return {
            "timeout": httpx.Timeout(self._timeout, connect=min(10.0, self._timeout), pool=None),
            # Used again, a connection gives what follows one answer as the answer to the next call.
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=0),
            "auth": self._auth,
            "cookies": _NoCookies(),
            "follow_redirects": False,
            "headers": {"accept-encoding": "identity"},
            "trust_env": not is_local(address),
            "verify": _certificates(),
            "event_hooks": {"request": [_Deadline(self._timeout)], "response": [_watch_answer]},
        }

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        with self._lock:
            made, self._made = self._made, {}
        for (process, _), client in made.items():
            if process == os.getpid():
                client.close()


class Servers(Generic[C]):
    """What backends share that reach servers: their addresses, their connections, and a reply's checks.

    ``named`` is one address or several with commas between; without it the environment ``variable``, else
    this machine.
    """

    def __init__(
        self,
        spec: str,
        named: str | None,
        make: Callable[[str, dict[str, Any]], C],
        *,
        variable: str,
        port: int,
        timeout: float,
        key: str,
        send_key: bool,
    ) -> None:
        self.spec, self.model = spec, spec.partition(":")[2]
        found = parse(named or os.environ.get(variable) or "127.0.0.1", port=port, variable=variable)
        self._endpoints = tuple(address.removesuffix("/v1") for address in found)
        self.timeout = timeout
        self._clients = Clients(make, self._endpoints, timeout, secret(key, send_key))

    @property
    def endpoints(self) -> Sequence[str]:
        """The addresses of the servers, without ``/v1``."""
        return self._endpoints

    def close(self) -> None:
        """Close all connections."""
        self._clients.close()

    def _reply(
        self, request: Request, address: str, began: float, used: int | None, text: str, **facts: Any
    ) -> Reply:
        """The reply made of an answer, as :func:`answered`, with the prompt's tokens compared."""
        check_read(request, used)
        facts |= {"seconds": time.perf_counter() - began, "endpoint": shown(address), "tokens_in": used}
        return answered(request, text, **facts)


class _KeyOnlyTo(httpx.Auth):
    """Sends a key to the hosts that were configured and to no other; without a key, sends none.

    The ollama client puts OLLAMA_API_KEY into every request, whatever the host; this takes it out again.
    """

    def __init__(self, key: str | None, hosts: Sequence[str]) -> None:
        self._key = key
        self._hosts = {httpx.URL(host).host for host in hosts}

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """One request, with the header set or removed."""
        request.headers.pop("authorization", None)
        if self._key and request.url.host in self._hosts:
            request.headers["authorization"] = f"Bearer {self._key}"
        yield request


class _NoCookies(CookieJar):
    """Keeps no cookie: a model server sets none, and looking for them costs time in every call."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Leave the cookies where they are."""


def secret(variable: str, send: bool) -> str | None:
    """The key in an environment variable if it is to be sent; InputError where it is asked for and absent."""
    key = os.environ.get(variable) if send else None
    if send and not key:
        raise InputError(f"send_key is true, and {variable} is not set; set it, or leave send_key out")
    return key


@cache
def _certificates() -> ssl.SSLContext:
    """The certificates that httpx trusts, read once a process: reading them takes 30 ms and more."""
    return httpx.create_ssl_context()


class _Deadline:
    """Bounds a whole exchange: httpx's own time-out counts from one piece of an answer to the next.

    Without a deadline, a server that sends a byte now and then is never timed out (proxies do so to keep a
    connection open). A server that falls silent within its answer may take up to twice ``seconds``.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __call__(self, request: httpx.Request) -> None:
        """A request begins: note when its answer must be whole."""
        request.extensions["deadline"] = time.monotonic() + self._seconds


def _watch_answer(response: httpx.Response) -> None:
    """An answer begins: its deadline and its size are watched while its pieces are read.

    A compressed answer, which nobody asked for and whose size nobody knows, is not read.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise httpx.DecodingError("it is compressed, and was asked for as it is")
    if isinstance(response.stream, httpx.SyncByteStream):
        response.stream = _BoundedAnswer(response)


class _BoundedAnswer(httpx.SyncByteStream):
    """The pieces of an answer until its deadline (then ReadTimeout), up to the limit ``answer_bytes``."""

    def __init__(self, response: httpx.Response) -> None:
        self._stream: Any = response.stream
        self._deadline: float = response.request.extensions["deadline"]

    def __iter__(self) -> Iterator[bytes]:
        left = safety.limit("answer_bytes")
        for piece in self._stream:
            left -= len(piece)
            if time.monotonic() > self._deadline:
                raise httpx.ReadTimeout("the answer took longer than the time-out")
            if left < 0:
                most, variable = safety.limit("answer_bytes"), safety.limit_variable("answer_bytes")
                raise httpx.DecodingError(
                    f"it is longer than the limit, {most:,} bytes; {variable} raises it"
                )
            yield piece

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


def shown(address: str) -> str:
    """An address as it is shown and stored: scheme, host and port, without whatever follows them."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""


def from_transport(error: Exception, address: str, timeout: float) -> LLMError:
    """The error of a connection as one of ours."""
    address = shown(address)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return LLMError(
            "unreachable", f"no server answers at {address}; is it running, and is the address right?"
        )
    if isinstance(error, httpx.TimeoutException):
        return LLMError("timeout", f"{address} did not answer within {timeout:g} seconds")
    if isinstance(error, httpx.DecodingError | httpx.UnsupportedProtocol | httpx.InvalidURL):
        return LLMError("garbled", f"{address} answered with something that cannot be read ({error})")
    return LLMError("dropped", f"the connection to {address} ended early ({type(error).__name__})")


def from_status(status: int, said: str, address: str, model: str, pause: float = 0.0) -> LLMError:
    """The error of an HTTP status as one of ours; ``said`` is the server's own text."""
    answered = f"{shown(address)} said: {shorten(str(said).strip() or 'nothing', 300)}"
    if status == 404:
        return LLMError("model missing", f"{answered}; get the model with: ollama pull {model}")
    if status in (408, 429) or status >= 500 or status < 0:
        return LLMError("busy", f"{answered} (HTTP {status})", pause=pause)
    if status == 400 and "context" in str(said).lower():
        return LLMError("prompt too long", f"{answered}; raise num_ctx, or shorten the prompt")
    return LLMError("refused", f"{answered} (HTTP {status})")


def no_tools(error: LLMError, request: Request) -> LLMError:
    """LLMError "no tools" where a request with tools was rejected because of them; else the error itself."""
    return LLMError("no tools", str(error)) if request.tools and "tool" in str(error).lower() else error


def parse(hosts: str, *, port: int, variable: str) -> tuple[str, ...]:
    """The base addresses in a comma-separated list: ``gpu1:11434, http://gpu2`` gives two.

    A missing scheme is http, and with it a missing port ``port``; 0.0.0.0, which is where a server
    listens, means this machine. Raises InputError for an empty list, another scheme, a name and password, or
    a query, which could hold a key.
    """
    found = tuple(_one(part.strip(), port) for part in hosts.split(",") if part.strip())
    if not found:
        raise InputError(
            f"no address in {hosts[:80]!r}; give one, or several with commas between ({variable})"
        )
    if len(set(found)) < len(found):
        raise InputError(f"an address occurs twice in {', '.join(map(shown, found))}; name each server once")
    return found


def _one(text: str, port: int) -> str:
    if _is_ipv6(text):
        text = f"[{text}]"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        given, name = parts.port, parts.hostname or ""
    except ValueError as error:
        raise InputError("a server address cannot be read; write it like http://gpu1:11434") from error
    if parts.username or parts.password:
        raise InputError("a server address must not hold a name and password; put a key in the environment")
    if parts.query or parts.fragment or ";" in parts.path:
        raise InputError("a server address ends before '?', '#' or ';'; put a key in the environment")
    if parts.scheme not in ("http", "https"):
        raise InputError(
            f"{parts.scheme[:40]!r} is no scheme of a server's address; write it like http://gpu1:{port}"
        )
    try:
        httpx.URL(f"http://[{name}]" if ":" in name else f"http://{name}")
    except httpx.InvalidURL:
        name = " "
    if re.search(r"[\s\x00-\x20]", name):
        raise InputError(f"the server's name in {text[:80]!r} is none; write it like http://gpu1:{port}")
    name = "127.0.0.1" if name in ("", "0.0.0.0", "::") else f"[{name}]" if ":" in name else name
    chosen = given or (None if "://" in text else port)
    return f"{parts.scheme}://{name}{f':{chosen}' if chosen else ''}{parts.path.rstrip('/')}"


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


def is_local(address: str) -> bool:
    """Whether the address is this machine's own; such calls never go through a proxy."""
    name = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
