"""Servers on loopback: one made of a handler, and one that answers with given bytes, whatever is asked."""

import json
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """A client that goes away is no news."""


class Served:
    """A server in the background, the ``owner`` of its handler, to which ``facts`` are attributes, too. An answer
    that calls ``work`` takes ``delay`` seconds, of which ``slots`` run at a time; ``turns`` and ``busy`` count.
    """

    def __init__(self, handler, delay=0.0, slots=64, **facts):
        self._http = _Quiet(("127.0.0.1", 0), type("Handler", (handler,), {"owner": self, **facts}))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self.delay, self.busy, self.turns, self.most_at_once, self._now = delay, 0.0, 0, 0, 0
        self._lock, self._slots = threading.Lock(), threading.Semaphore(slots)
        self._stopped = threading.Event()

    def __enter__(self):
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._http.shutdown()
        self._http.server_close()

    def work(self):
        with self._slots:
            with self._lock:
                self.turns, self._now = self.turns + 1, self._now + 1
                self.most_at_once = max(self.most_at_once, self._now)
            started = time.perf_counter()
            self._stopped.wait(self.delay)
            with self._lock:
                self._now -= 1
                self.busy += time.perf_counter() - started


class Answering(BaseHTTPRequestHandler):
    """A handler that says nothing of what it does."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def read(self):
        return json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")

    def answer(self, value, status=200, headers=()):
        """Send bytes, a text or a JSON value whole."""
        data = value if isinstance(value, bytes | str) else json.dumps(value)
        data = data.encode() if isinstance(data, str) else data
        self.send_response(status)
        head = {"content-type": "application/json", "content-length": str(len(data)), **dict(headers)}
        for name, value in head.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, *_):
        pass


def http_answer(body, status="200 OK", *headers):
    text = json.dumps(body) if isinstance(body, dict) else body
    data = text.encode() if isinstance(text, str) else text
    head = [f"HTTP/1.1 {status}", f"content-length: {len(data)}", "content-type: application/json", *headers]
    return "\r\n".join([*head, "", ""]).encode() + data


class RawServer:
    """Answers every request with the next of some raw texts, with the last one again and again. Between two
    pieces of one it waits ``pause`` seconds. After it ``drip`` comes every 0.05 s, without end. Its end waits
    for its threads: one that still waited for a client could answer the client of the next server.
    """

    def __init__(self, *answers, pieces=1, pause=0.0, hang_up=False, drip=b""):
        self.answers, self.pieces, self.pause, self.hang_up = list(answers), pieces, pause, hang_up
        self.drip, self.connections = drip, 0
        self.heads: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        for connection in (self._listening, *self._open):  # what waits on them wakes up
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self.connections += 1
                self._open.append(connection)
                self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
                self._threads[-1].start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as read, suppress(OSError):
            while head := _head(read):
                self.heads.append(head)
                read.read(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                size = -(-len(answer) // self.pieces)
                with suppress(OSError):
                    for start in range(0, len(answer), size or 1):
                        connection.sendall(answer[start : start + size])
                        time.sleep(self.pause if self.pieces > 1 else 0)
                    while self.drip:
                        connection.sendall(self.drip)
                        time.sleep(0.05)
                if self.hang_up:
                    return


def _head(read):
    """The head of a request; empty where the client has gone."""
    lines = []
    while (line := read.readline()) != b"\r\n":
        if not line:
            return b""
        lines.append(line)
    return b"".join(lines)
