"""What the two server backends share: keys that stay at home, and HTTP failures as our errors."""

import ipaddress
import os
from collections.abc import Generator, Sequence
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm.errors import (
    Busy,
    Dropped,
    Garbled,
    LLMError,
    ModelMissing,
    PromptTooLong,
    Refused,
    TimedOut,
    Unreachable,
)
from crs_lib.llm.transport import NoCookies, PlainHTTP


class KeyOnlyTo(httpx.Auth):
    """Sends a key to the hosts that were configured and to no other; without a key, sends none.

    The ollama client would send OLLAMA_API_KEY to whatever host it is given; this takes it off again.
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


def secret(variable: str, send: bool) -> str | None:
    """The key in an environment variable if it is to be sent; InputError where it is asked for and absent."""
    key = os.environ.get(variable) if send else None
    if send and not key:
        raise InputError(f"send_key is true, and {variable} is not set; set it, or leave send_key out")
    return key


def check_timeout(seconds: float) -> float:
    """The time-out itself; InputError unless it is above 0."""
    if not seconds > 0:
        raise InputError(f"timeout is {seconds}; give seconds above 0: a call must be able to end")
    return seconds


def connection(address: str, timeout: float, auth: httpx.Auth) -> dict[str, object]:
    """The keywords of an httpx client for one server: bounded in time, no proxy on this machine.

    Plain HTTP without a proxy goes through our own transport, all else through httpx's.
    """
    settings: dict[str, object] = {
        "timeout": httpx.Timeout(timeout, connect=min(10.0, timeout), pool=None),
        "auth": auth,
        "follow_redirects": False,
        "cookies": NoCookies(),
    }
    if address.startswith("http:") and not has_proxy(address):
        return {**settings, "transport": PlainHTTP()}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    return {**settings, "trust_env": not is_local(address), "limits": limits}


def from_transport(error: Exception, address: str, timeout: float) -> LLMError:
    """The error of a connection as one of ours."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return Unreachable(f"no server answers at {address}; is it running, and is the address right?")
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return TimedOut(f"{address} did not answer within {timeout:g} seconds")
    if isinstance(error, httpx.DecodingError | httpx.UnsupportedProtocol | httpx.InvalidURL):
        return Garbled(f"{address} answered with something that cannot be read ({error})")
    return Dropped(f"the connection to {address} ended early ({type(error).__name__})")


def from_status(status: int, said: str, address: str, model: str, pause: float = 0.0) -> LLMError:
    """The error of an HTTP status as one of ours; ``said`` is the server's own text."""
    told = f"{address} said: {shorten(str(said).strip() or 'nothing', 300)}"
    if status == 404:
        return ModelMissing(f"{told}; get the model with: ollama pull {model}")
    if status in (408, 429) or status >= 500 or status < 0:
        return Busy(f"{told} (HTTP {status})", pause=pause)
    if status == 400 and "context" in str(said).lower():
        return PromptTooLong(f"{told}; raise num_ctx, or shorten the prompt")
    return Refused(f"{told} (HTTP {status})")


def parse(hosts: str, *, port: int, variable: str) -> tuple[str, ...]:
    """The base addresses in a comma-separated list: ``gpu1:11434, http://gpu2`` gives two.

    A missing scheme is http, and with it a missing port ``port``; 0.0.0.0, which is where a server
    listens, means this machine. Raises InputError for an empty list, another scheme, a name and password, or
    a query, which could hold a key.
    """
    found = tuple(_one(part.strip(), port) for part in hosts.split(",") if part.strip())
    if not found:
        raise InputError(f"no address in {hosts!r}; give one, or several with commas between ({variable})")
    if len(set(found)) < len(found):
        raise InputError(f"an address occurs twice in {', '.join(found)}; name each server once")
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
    if parts.query or parts.fragment:
        raise InputError("a server address ends before '?' or '#'; put a key in the environment")
    if parts.scheme not in ("http", "https"):
        raise InputError(f"{text!r} is not an address of a server; write it like http://gpu1:{port}")
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


def has_proxy(address: str) -> bool:
    """Whether calls to the address go through a proxy: HTTP_PROXY, ALL_PROXY and NO_PROXY say."""
    parts, known = urlsplit(address), getproxies()
    asked = not is_local(address) and bool({parts.scheme, "all"} & known.keys())
    return asked and not proxy_bypass(parts.netloc)
