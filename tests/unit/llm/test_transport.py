"""Plain HTTP by our own transport: whole, kept open, closed, broken off, and left to httpx where it must be."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest

from crs_lib.llm import http
from crs_lib.llm.http import KeyOnlyTo, connection
from crs_lib.llm.transport import PlainHTTP

WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello"
UNTIL_END = b"HTTP/1.1 200 OK\r\n\r\nhello"
AFTER_HINT = b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE


class Server:
    """Answers every request with the next of some raw texts; an empty one never comes."""

    def __init__(self, *answers: bytes, hang_up: bool = False) -> None:
        self.answers, self.hang_up = list(answers), hang_up
        self.connections = 0
        self.bodies: list[bytes] = []
        self.gone = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while head := await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b"":
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
            self.bodies.append(await reader.readexactly(length))
            answer = self.answers.pop(0)
            if not answer:
                await reader.read()
                self.gone.set()
                break
            writer.write(answer)
            if self.hang_up:
                break
        writer.close()


def talk(server: Server, action: Callable[[httpx.AsyncClient], Awaitable[object]]) -> object:
    """What the action gives with a client of this server."""

    async def main() -> object:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        client = httpx.AsyncClient(base_url=url, transport=PlainHTTP(), timeout=5)
        async with listening, client:
            return await action(client)

    return asyncio.run(main())


@pytest.mark.parametrize("answer", [WHOLE, CHUNKED, LAST, AFTER_HINT])
def test_an_answer_comes_whole(answer: bytes) -> None:
    server = Server(answer)
    found = talk(server, lambda client: client.post("/x", json={"a": 1}))
    assert isinstance(found, httpx.Response)
    assert (found.status_code, found.text, server.bodies) == (200, "hello", [b'{"a":1}'])


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    server = Server(UNTIL_END, hang_up=True)
    found = talk(server, lambda client: client.get("/x"))
    assert isinstance(found, httpx.Response) and found.text == "hello"


@pytest.mark.parametrize(("answer", "connections"), [(WHOLE, 1), (CHUNKED, 1), (LAST, 3)])
def test_a_connection_is_kept_where_the_server_keeps_it(answer: bytes, connections: int) -> None:
    server = Server(*[answer] * 3)

    async def thrice(client: httpx.AsyncClient) -> list[str]:
        return [(await client.post("/x", content=b"b")).text for _ in range(3)]

    assert talk(server, thrice) == ["hello"] * 3
    assert (server.connections, server.bodies) == (connections, [b"b"] * 3)


def test_calls_at_once_have_a_connection_each() -> None:
    server = Server(*[WHOLE] * 8)

    async def at_once(client: httpx.AsyncClient) -> set[str]:
        texts: set[str] = set()
        for _ in range(2):
            texts |= {one.text for one in await asyncio.gather(*(client.get("/x") for _ in range(4)))}
        return texts

    assert talk(server, at_once) == {"hello"} and server.connections == 4


def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    server = Server(WHOLE, WHOLE, hang_up=True)

    async def twice(client: httpx.AsyncClient) -> list[str]:
        first = await client.get("/x")
        await asyncio.sleep(0.05)
        return [first.text, (await client.get("/x")).text]

    assert talk(server, twice) == ["hello"] * 2 and server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [WHOLE[:-2], CHUNKED[:-9], WHOLE[:20], b"SMTP ready\r\n\r\n", b"HTTP/1.1 200 OK\r\n\x00\r\n\r\n"],
)
def test_what_breaks_off_or_is_no_http_is_an_error_of_httpx(answer: bytes) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        talk(Server(answer, hang_up=True), lambda client: client.get("/x"))


def test_a_body_left_early_closes_its_connection() -> None:
    server = Server(CHUNKED, WHOLE)

    async def leave(client: httpx.AsyncClient) -> str:
        async with client.stream("GET", "/x") as answer:
            assert answer.status_code == 200
        return (await client.get("/x")).text

    assert talk(server, leave) == "hello" and server.connections == 2


def test_a_cancelled_call_hangs_up() -> None:
    server = Server(b"")

    async def cancel(client: httpx.AsyncClient) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.get("/x")
        await asyncio.wait_for(server.gone.wait(), 5)

    talk(server, cancel)
    assert server.gone.is_set()


def test_no_server_is_no_connection() -> None:
    async def nobody() -> None:
        async with httpx.AsyncClient(transport=PlainHTTP()) as client:
            await client.get("http://127.0.0.1:1/x")

    with pytest.raises(httpx.ConnectError):
        asyncio.run(nobody())


@pytest.mark.parametrize(
    ("address", "environment", "proxied"),
    [
        ("http://gpu1:11434", {}, False),
        ("http://gpu1:11434", {"http_proxy": "http://p:3128"}, True),
        ("http://gpu1:11434", {"https_proxy": "http://p:3128"}, False),
        ("http://gpu1:11434", {"all_proxy": "http://p:3128"}, True),
        ("http://gpu1:11434", {"http_proxy": "http://p:3128", "no_proxy": "gpu1"}, False),
        ("http://127.0.0.1:11434", {"http_proxy": "http://p:3128"}, False),
    ],
)
def test_proxies_and_encryption_are_left_to_httpx(
    address: str, environment: dict[str, str], proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    auth = KeyOnlyTo(None, [address])
    assert http.has_proxy(address) is proxied
    assert ("transport" in connection(address, 5, auth)) is not proxied
    assert "transport" not in connection(address.replace("http:", "https:"), 5, auth)
