"""A server on loopback that speaks Ollama's REST API and the OpenAI chat endpoint, and fails on request. It
answers by the rules of the template backend: the same prompt and seed give the same reply, so whole dialogues
run on it. ``python -m tests.helpers.ollama_server --delay 0.05 --slots 8`` starts one by hand.
"""

import argparse
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crs_lib.llm.template import answer as template_answer
from tests.helpers.raw_server import Answering, Served

# What can be made to go wrong with one chat request.
FAULTS = (
    "drop", "400", "404", "429", "500", "503", "broken", "prose", "empty", "think", "think_field", "truncate",
    "cut", "noise", "hang", "no_done", "error_line", "endless", "drip",
)  # fmt: skip
NOISE = "<script>alert(1)</script> {curly} $dollar \x00\x07\x1b[31m \u202e \ud800 </td>"
DIGEST = "5" * 64


@dataclass
class Faults:
    """Faults of one model: first those in ``plan``, one a request ("" is none), then by chance. With ``rate``
    each further request fails with that probability, in one of the ways in ``kinds``; the ``seed`` and the
    number of the request decide, not the clock.
    """

    plan: Sequence[str] = ()
    rate: float = 0.0
    kinds: Sequence[str] = ("drop", "429", "500", "503", "broken", "empty")
    seed: int = 0

    def of(self, number):
        if number < len(self.plan):
            return self.plan[number]
        chance = random.Random(f"{self.seed}/{number}")
        return chance.choice(list(self.kinds)) if chance.random() < self.rate else ""


class OllamaServer(Served):
    """The server; a context manager. ``url`` is its address, ``bodies`` the chat requests it got.

    ``answer(prompt, schema, seed)`` makes the texts. ``tools(body)`` gives the tool calls of an answer to a
    request that offers tools, as (name, arguments); None is a server that has no tools and rejects the request.
    ``delay`` seconds pass per answer, of which ``slots`` run at a time. ``faults`` are for all, or a dict by model.
    """

    def __init__(
        self, models=("tiny:latest",), *, answer=template_answer, tools=None, faults=None, delay=0.0, slots=64,
        context=32_768, version="0.13.0", port=0,
    ):  # fmt: skip
        self.models = dict(models) if isinstance(models, dict) else dict.fromkeys(models, DIGEST)
        self.answer, self.delay, self.context, self.version = answer, delay, context, version
        self.tools = tools
        self.faults = faults if isinstance(faults, dict) else dict.fromkeys(self.models, faults or Faults())
        self.counts, self.given = Counter(), Counter()
        self.bodies, self.headers = [], []
        self.most_at_once = self._now = 0
        self.busy = 0.0
        self._lock, self._slots = threading.Lock(), threading.Semaphore(slots)
        self._stopped = threading.Event()
        super().__init__(_Handler, port, owner=self)

    def __exit__(self, *_):
        self._stopped.set()
        super().__exit__()

    @property
    def chats(self):
        """How many chat or generate requests came in, failed ones included."""
        return self.counts["chat"]

    def full(self, model):
        """The model's name with its tag, as Ollama completes it."""
        return model if model in self.models or ":" in model else f"{model}:latest"

    def fault(self, body, headers):
        """Count a chat request and say what goes wrong with it."""
        with self._lock:
            model = self.full(str(body.get("model")))
            number = self.counts[f"chat {model}"]
            self.counts.update(["chat", f"chat {model}"])
            self.bodies.append(body)
            self.headers.append(headers)
            kind = self.faults.get(model, Faults()).of(number)
            self.given.update([kind] if kind else [])
            return kind

    def work(self):
        with self._slots:
            with self._lock:
                self._now += 1
                self.most_at_once = max(self.most_at_once, self._now)
            started = time.perf_counter()
            self._stopped.wait(self.delay)
            with self._lock:
                self._now -= 1
                self.busy += time.perf_counter() - started

    def text(self, prompt, schema, seed, fault):
        """The text of an answer, with the fault in it."""
        if fault == "empty":
            return ""
        if fault == "noise":
            return NOISE + "x" * 1_000_000
        text = self.answer(prompt, None if fault == "prose" else schema, seed)
        if fault == "cut":
            return text[: max(1, len(text) // 2)]
        return f"<think>Let me see. {{}} </think>\n{text}" if fault == "think" else text

    def tokens(self, body, text):
        return len(text) // 4


class _Handler(Answering):
    def do_GET(self):
        owner = self.owner
        owner.counts.update([self.path])
        if self.path == "/api/version":
            self.answer({"version": owner.version})
        elif self.path == "/api/tags":
            self.answer({"models": [_entry(name, digest) for name, digest in owner.models.items()]})
        elif self.path == "/api/ps":
            models = [{**_entry(n, d), "context_length": owner.context} for n, d in owner.models.items()]
            self.answer({"models": models})
        elif self.path == "/v1/models":
            data = [{"id": name, "object": "model", "max_model_len": owner.context} for name in owner.models]
            self.answer({"object": "list", "data": data})
        elif self.path == "/stats":
            self.answer({"chats": owner.chats, "busy": owner.busy, "most_at_once": owner.most_at_once})
        else:
            self.answer({"error": "not found"}, 404)

    def do_POST(self):
        owner = self.owner
        if owner._stopped.is_set():
            return self._hang_up()
        told = self.rfile.read(size := int(self.headers.get("content-length", 0)))
        if len(told) < size:  # the client died while it wrote
            return self._hang_up()
        body = json.loads(told or b"{}")
        model = str(body.get("model"))
        full = owner.full(model)
        if self.path == "/api/show":
            if full not in owner.models:
                return self.answer({"error": f"model '{model}' not found"}, 404)
            return self.answer({"model_info": {"tiny.context_length": owner.context}, "details": {}})
        if self.path not in ("/api/chat", "/api/generate", "/v1/chat/completions"):
            return self.answer({"error": "not found"}, 404)
        if self.path == "/api/generate" and not body.get("prompt"):
            owner.counts.update(["unload" if body.get("keep_alive") == 0 else "load"])
            return self.answer({"model": model, "response": "", "done": True, "done_reason": "unload"})
        fault = owner.fault(body, {name.lower(): value for name, value in self.headers.items()})
        if full not in owner.models:
            return self.answer({"error": f"model '{model}' not found, try pulling it first"}, 404)
        if body.get("tools") and owner.tools is None:
            return self.answer({"error": f"{model} does not support tools"}, 400)
        owner.work()
        if fault == "hang":
            owner._stopped.wait(30)
        if fault in ("endless", "drip"):
            return self._on_and_on(b'{"model": "tiny", "text": "' if fault == "drip" else b"x" * 2**16, fault)
        if fault.isdigit():
            said = {"400": "invalid options", "429": "too many requests"}.get(fault, "server error")
            return self.answer({"error": said}, int(fault), {"retry-after": "0"})
        if fault == "broken":
            return self.answer(b'{"model": "tiny", "message": {"content": "half')
        return self._chat(body, fault)

    def _on_and_on(self, piece, fault):
        """An answer that never ends: as fast as it can be read, or a few bytes every tenth of a second."""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while not self.owner._stopped.is_set():
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
            if fault == "drip":
                self.owner._stopped.wait(0.1)

    def _chat(self, body, fault):
        openai = self.path.startswith("/v1")
        messages = body.get("messages") or [{"content": body.get("prompt", "")}]
        prompt = "\n".join(str(m.get("content") or "") for m in messages)
        if openai:
            schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
            seed = int(body.get("seed") or 0)
        else:
            schema = body.get("format") or None
            seed = int((body.get("options") or {}).get("seed") or 0)
        text = self.owner.text(prompt, schema, seed, fault)
        thinking = "Let me see." if fault == "think_field" else None
        used = 1 if fault == "truncate" else len(prompt) // 4 + len(prompt.split())
        owner = self.owner
        calls = list(owner.tools(body)) if body.get("tools") and owner.tools else []
        text = "" if calls else text
        stop = "length" if fault == "cut" else "stop"
        facts = _Facts(text, thinking, stop, used, owner.tokens(body, text), fault, calls)
        if openai:
            return self._openai(body, facts)
        field = "response" if self.path == "/api/generate" else "message"
        if body.get("stream", True):
            return self._stream(body, facts, field)
        done = fault != "no_done"
        send = self._half if fault == "drop" else self.answer
        return send({**_piece(body, facts, field, facts.text), **facts.end(done)})

    def _openai(self, body, facts):
        message = {"role": "assistant", "content": facts.text, "reasoning_content": facts.thinking}
        if facts.calls:
            message["tool_calls"] = [
                {"id": f"call-{i}", "type": "function",
                 "function": {"name": name, "arguments": told if isinstance(told, str) else json.dumps(told)}}
                for i, (name, told) in enumerate(facts.calls)
            ]  # fmt: skip
        choice = {"index": 0, "message": message, "finish_reason": facts.stop}
        usage = {"prompt_tokens": facts.used, "completion_tokens": facts.made}
        send = self._half if facts.fault == "drop" else self.answer
        send({"model": body["model"], "choices": [choice], "usage": usage})

    def _stream(self, body, facts, field):
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        pieces = [facts.text[i : i + 4096] for i in range(0, len(facts.text), 4096)] or [""]
        for piece in pieces:
            self._chunk({**_piece(body, facts, field, piece), "done": False})
        if facts.fault == "drop":
            self.wfile.flush()
            return self._hang_up()
        if facts.fault == "error_line":
            self._chunk({"error": "the runner stopped"})
        elif facts.fault != "no_done":
            self._chunk({**_piece(body, facts, field, ""), **facts.end(True)})
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        return None

    def _chunk(self, record):
        line = json.dumps(record).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")

    def _half(self, record):
        data = json.dumps(record)
        self.answer(data[: len(data) // 2], headers={"content-length": str(len(data))})
        self._hang_up()

    def _hang_up(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True)
class _Facts:
    text: str
    thinking: str | None
    stop: str
    used: int
    made: int
    fault: str
    calls: Sequence[tuple[str, Any]] = ()

    def end(self, done):
        return {
            "done": done, "done_reason": self.stop, "prompt_eval_count": self.used, "eval_count": self.made,
            "total_duration": 1,
        }  # fmt: skip


def _piece(body, facts, field, text):
    said = text
    if field == "message":
        said = {"role": "assistant", "content": text, "thinking": facts.thinking}
        if facts.calls and not body.get("stream", True):
            said["tool_calls"] = [{"function": {"name": n, "arguments": told}} for n, told in facts.calls]
    return {"model": body["model"], "created_at": "2026-01-01T00:00:00Z", field: said}


def _entry(name, digest):
    return {"name": name, "model": name, "digest": digest, "size": 1, "modified_at": "2026-01-01T00:00:00Z"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=["tiny:latest"])
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    with OllamaServer(given.models, delay=given.delay, slots=given.slots, port=given.port) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
