"""How requests reach a model server over plain HTTP: httpx's transport on asyncio's own streams.

A batch makes many short calls, and most of what one of them costs us is the layers under httpx: this
transport halves the CPU time of a call (``benchmarks/bench_llm.py``). HTTPS and proxies stay httpx's.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from typing import Any

import h11
import httpx

_CHUNK = 65_536  # bytes read at once


class PlainHTTP(httpx.AsyncBaseTransport):
    """HTTP/1.1 without encryption, connections kept open; to be used on one event loop.

    The time for connecting is bounded by the request's own time-out; the time for all of a call must be
    bounded by its caller. Raises httpx's errors: ConnectError, ConnectTimeout, ReadError,
    RemoteProtocolError.
    """

    def __init__(self) -> None:
        self._idle: defaultdict[tuple[str, int], list[_Connection]] = defaultdict(list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read the head of its answer; the body is read by whoever iterates over it."""
        server = (request.url.host, request.url.port or 80)
        connection = self._open(server) or await _connect(server, request)
        try:
            head = await connection.ask(request, await request.aread())
        except BaseException:
            connection.close()
            raise
        body = _Body(connection, self._idle[server])
        return httpx.Response(head.status_code, headers=head.headers.raw_items(), stream=body)

    async def aclose(self) -> None:
        """Close the connections that wait for a request."""
        for connections in self._idle.values():
            while connections:
                connections.pop().close()

    def _open(self, server: tuple[str, int]) -> "_Connection | None":
        """A connection that waits and that the server has not closed meanwhile."""
        waiting = self._idle[server]
        while waiting:
            connection = waiting.pop()
            if connection.usable():
                return connection
            connection.close()
        return None


class NoCookies(CookieJar):
    """Keeps nothing: a model server sets no cookies, and looking for them costs time in every call."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Leave them."""


class _Connection:
    """One connection and the state of its protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)

    async def ask(self, request: httpx.Request, body: bytes) -> Any:
        """Send the request and wait for the head of the answer."""
        with _errors():
            head = h11.Request(
                method=request.method, target=request.url.raw_path, headers=request.headers.raw
            )
            parts = [head, *([h11.Data(data=body)] if body else []), h11.EndOfMessage()]
            self._writer.write(b"".join(self._http.send(part) or b"" for part in parts))
            await self._writer.drain()
            event = await self._event()
            while isinstance(event, h11.InformationalResponse):  # "100 Continue" and its like
                event = await self._event()
            return event

    async def read(self) -> bytes | None:
        """The next piece of the body; None at its end."""
        with _errors():
            event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def usable(self) -> bool:
        """Whether the answer was read to its end and both sides keep the connection open."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        idle = self._http.our_state is h11.IDLE
        return idle and not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        """Close it at once."""
        self._writer.close()

    async def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_CHUNK))
        return event


class _Body(httpx.AsyncByteStream):
    """The body of an answer; at its end the connection waits for the next request."""

    def __init__(self, connection: _Connection, idle: list[_Connection]) -> None:
        self._connection, self._idle = connection, idle

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._connection.read()) is not None:
            yield piece

    async def aclose(self) -> None:
        """Keep the connection if the body was read to its end, else close it."""
        if self._connection.usable():
            self._idle.append(self._connection)
        else:
            self._connection.close()


async def _connect(server: tuple[str, int], request: httpx.Request) -> _Connection:
    seconds = request.extensions.get("timeout", {}).get("connect")
    try:
        async with asyncio.timeout(seconds):
            return _Connection(*await asyncio.open_connection(*server))
    except TimeoutError as error:
        raise httpx.ConnectTimeout(f"no connection within {seconds} seconds") from error
    except OSError as error:
        raise httpx.ConnectError(str(error)) from error


@contextmanager
def _errors() -> Any:
    """Failures of a connection as httpx's errors."""
    try:
        yield
    except h11.RemoteProtocolError as error:
        raise httpx.RemoteProtocolError(str(error)) from error
    except OSError as error:
        raise httpx.ReadError(str(error)) from error
