"""A server on loopback that answers with given bytes, whatever is asked."""

import json
import socket
import threading
import time
from typing import Any


def http_answer(body: bytes | str | dict[str, Any], status: str = "200 OK", *headers: str) -> bytes:
    """A whole HTTP answer."""
    text = json.dumps(body) if isinstance(body, dict) else body
    data = text.encode() if isinstance(text, str) else text
    head = [f"HTTP/1.1 {status}", f"content-length: {len(data)}", "content-type: application/json", *headers]
    return "\r\n".join([*head, "", ""]).encode() + data


class RawServer:
    """Answers every request with the next of some raw texts, with the last one again and again.

    Between two pieces of one it waits ``pause`` seconds.
    """

    def __init__(self, *answers: bytes, pieces: int = 1, pause: float = 0.0, hang_up: bool = False) -> None:
        self.answers, self.pieces, self.pause, self.hang_up = list(answers), pieces, pause, hang_up
        self.connections = 0
        self.heads: list[bytes] = []
        self.left = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> "RawServer":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as read:
            while head := b"".join(iter(read.readline, b"\r\n")) if read.peek(1) else b"":
                self.heads.append(head)
                read.read(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                size = -(-len(answer) // self.pieces)
                for start in range(0, len(answer), size):
                    try:
                        connection.sendall(answer[start : start + size])
                    except OSError:
                        break
                    time.sleep(self.pause if self.pieces > 1 else 0)
                if self.hang_up:
                    return
            self.left.set()
