"""What the two server backends share: keys that stay at home, and HTTP failures as our errors."""

import os
from collections.abc import Generator, Sequence

import httpx

from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm import addresses
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
    if address.startswith("http:") and not addresses.has_proxy(address):
        return {**settings, "transport": PlainHTTP()}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    return {**settings, "trust_env": not addresses.is_local(address), "limits": limits}


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
