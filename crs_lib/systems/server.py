"""``http:URL``: a program behind an address; requests are posted, several at once."""

import json
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from crs_lib.core.errors import InputError
from crs_lib.core.text import shorten
from crs_lib.llm import http
from crs_lib.llm.base import LLMError
from crs_lib.systems import contract
from crs_lib.systems.programs import PROGRAMS

_HEADERS = {"content-type": "application/json", "accept": "application/json"}


def address(argument: str) -> str:
    """The URL that an argument means: ``http:localhost:8000/reply``, ``http://…`` and ``http:https://…``.

    InputError for what is no address, and for one that holds a name and password or a query.
    """
    text = f"http:{argument}" if argument.startswith("//") else argument
    found = http.parse(text, port=80, variable="http:URL")
    if len(found) > 1:
        raise InputError("several addresses; give each a system of its own")
    return found[0]


def ready(argument: str) -> None:
    """Raise LLMError where nothing listens at the address; nothing is sent."""
    url = urlsplit(address(argument))
    place = (url.hostname or "", url.port or (443 if url.scheme == "https" else 80))
    try:
        socket.create_connection(place, timeout=10).close()
    except OSError as error:
        raise LLMError(
            "unreachable",
            f"no server answers at {address(argument)} ({error}); is it running, and is the address right?",
        ) from error


def identity(argument: str) -> str:
    """The address: a server does not say which version of a program it runs."""
    return f"address:{address(argument)}"


@PROGRAMS.register(
    "http", argument="a URL", example="//127.0.0.1:8000/reply",
    check=address, ready=ready, identity=identity, shared=True, apart=True,
)  # fmt: skip
class Server:
    """A program behind an HTTP address, as docs/your-system.md describes.

    Connection faults and answers of status 5xx are worth another attempt, those of 4xx are not, and a request
    that was not answered in time is not sent again.
    """

    def __init__(self, argument: str, *, timeout: float = 300.0, catalog: Any = None) -> None:
        self.url, self.timeout = address(argument), timeout
        self._clients = http.Clients(_client, [self.url], timeout, None)

    def ask(self, request: Mapping[str, Any]) -> object:
        """Post the request and read the answer."""
        body = json.dumps(request, ensure_ascii=False).encode("utf-8", "replace")
        try:
            with self._clients.at(self.url).stream(
                "POST", self.url, content=body, headers=_HEADERS
            ) as answer:
                text = _text(answer)
        except httpx.HTTPError as error:
            raise self._failed(error) from error
        if answer.status_code != 200:
            raise self._refused(answer, text)
        return contract.parse(text)

    def _failed(self, error: httpx.HTTPError) -> LLMError:
        found = http.from_transport(error, self.url, self.timeout)
        return LLMError("too slow", str(found)) if found.kind == "timeout" else found

    def _refused(self, answer: httpx.Response, text: str) -> LLMError:
        status = answer.status_code
        said = f"{self.url} said: {shorten(' '.join(text.split()) or 'nothing', 300)} (HTTP {status})"
        if status < 500:
            return LLMError("refused", said)
        wait = answer.headers.get("retry-after", "")
        return LLMError("busy", said, pause=float(wait) if wait.isdigit() else 0.0)

    def usable(self) -> bool:
        """Always: connections are opened as they are needed."""
        return True

    def halt(self) -> None:
        """Nothing: a request under way ends with its time-out."""

    def close(self) -> None:
        """Close all connections."""
        self._clients.close()


def _client(url: str, settings: dict[str, Any]) -> httpx.Client:
    return httpx.Client(**settings)


def _text(answer: httpx.Response) -> str:
    body = bytearray()
    for piece in answer.iter_bytes():
        body += piece
        if len(body) > contract.LONGEST:
            raise LLMError(
                "wrong answer", f"the answer is longer than {contract.LONGEST:,} bytes; send the reply only"
            )
    return body.decode("utf-8", "replace")
