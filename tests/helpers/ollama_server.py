"""A server on loopback that speaks Ollama's REST API and the OpenAI chat endpoint, and fails on request. It
answers by the rules of the template backend: the same prompt and seed give the same reply, so whole dialogues
run on it. ``python -m tests.helpers.ollama_server --delay 0.05 --slots 8`` starts one by hand.
"""

import argparse
import json
import random
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from crs_lib.llm.template import answer as template_answer
from tests.helpers.raw_server import Answering, Served

# What can be made to go wrong with one chat request.
FAULTS = (
    "drop",
    "400",
    "404",
    "429",
    "500",
    "503",
    "broken",
    "prose",
    "empty",
    "think",
    "think_field",
    "truncate",
    "cut",
    "noise",
    "hang",
    "no_done",
    "endless",
    "drip",
)
NOISE = "<script>alert(1)</script> {curly} $dollar \x07\x1b[31m \u202e </td>"
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
        if chance.random() >= self.rate:
            return ""
        return chance.choice(list(self.kinds))


class Handler(Answering):
    """The paths of both; ``chat`` gives the whole answer to a chat request that does not fail before."""

    def do_GET(self):
        owner = self.owner
        owner.counts.update([self.path])
        facts = {"size": 1, "modified_at": "2026-01-01T00:00:00Z"}
        tags = [
            {"name": name, "model": name, "digest": entry, **facts} for name, entry in owner.models.items()
        ]
        models = [{"id": name, "object": "model", "max_model_len": owner.context} for name in owner.models]
        expected = {
            "/api/version": {"version": owner.version},
            "/api/tags": {"models": tags},
            "/api/ps": {
                "models": [{"model": name, **facts, "context_length": owner.loaded} for name in owner.models]
            },
            "/v1/models": {"object": "list", "data": models},
            "/stats": {"chats": owner.chats, "busy": owner.busy},
        }
        if self.path in expected:
            return self.answer(expected[self.path])
        return self.answer({"error": "not found"}, 404)

    def do_POST(self):
        owner = self.owner
        if owner._stopped.is_set():
            return self._hang_up()
        line = self.rfile.read(size := int(self.headers.get("content-length", 0)))
        if len(line) < size:  # the client died while it wrote
            return self._hang_up()
        body = json.loads(line or b"{}")
        model = str(body.get("model"))
        full = owner.full(model)
        if self.path == "/api/show":
            if full not in owner.models:
                return self.answer({"error": f"model '{model}' not found"}, 404)
            return self.answer({"model_info": {"tiny.context_length": owner.context}, "details": {}})
        if self.path == "/api/generate":  # without a prompt: the model leaves the memory
            owner.counts.update(["unload" if body.get("keep_alive") == 0 else "load"])
            return self.answer({"model": model, "response": "", "done": True, "done_reason": "unload"})
        if self.path not in ("/api/chat", "/v1/chat/completions"):
            return self.answer({"error": "not found"}, 404)
        fault = owner.fault(body, {name.lower(): value for name, value in self.headers.items()})
        if full not in owner.models:
            return self.answer({"error": f"model '{model}' not found, try pulling it first"}, 404)
        if body.get("tools") and owner.tools is None:
            return self.answer({"error": f"{model} does not support tools"}, 400)
        owner.work()
        if fault == "hang":
            owner._stopped.wait(30)
        if fault == "endless":
            return self._on_and_on(b"x" * 2**16)
        if fault == "drip":
            return self._on_and_on(b'{"model": "tiny", "text": "', 0.1)
        if fault.isdigit():
            words = {"400": "invalid options", "429": "too many requests"}.get(fault, "server error")
            return self.answer({"error": words}, int(fault), {"retry-after": "0"})
        if fault == "broken":
            return self.answer(b'{"model": "tiny", "message": {"content": "half')
        return self.chat(body, fault)

    def _on_and_on(self, piece, pause=0.0):
        """An answer that never ends: as fast as it can be read, or a piece after every pause."""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while not self.owner._stopped.is_set():
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
            self.owner._stopped.wait(pause)

    def chat(self, body, fault):
        owner = self.owner
        openai = self.path.startswith("/v1")
        prompt = "\n".join(str(m.get("content") or "") for m in body["messages"])
        if openai:
            options = body
            form = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
        else:
            options = body.get("options") or {}
            form = body.get("format")
        seed = int(options.get("seed") or 0)
        text = owner.text(prompt, form, seed, fault)
        calls = []
        if body.get("tools"):
            calls = list(owner.tools(body))
        if calls:
            text = ""
        stop = "length" if fault == "cut" else "stop"
        used = len(prompt) // 4 + len(prompt.split())
        if fault == "truncate":
            used = 1
        words = {"role": "assistant", "content": text}
        thoughts = "reasoning_content" if openai else "thinking"
        words[thoughts] = "Let me see." if fault == "think_field" else None
        for number, (name, line) in enumerate(calls):
            line = json.dumps(line) if openai and not isinstance(line, str) else line
            call = {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": line}}
            words.setdefault("tool_calls", []).append(call)
        built = owner.tokens(body, text)
        send = self._half if fault == "drop" else self.answer
        if openai:
            usage = {"prompt_tokens": used, "completion_tokens": built}
            choice = {"index": 0, "message": words, "finish_reason": stop}
            return send({"model": body["model"], "choices": [choice], "usage": usage})
        return send(
            {
                "model": body["model"],
                "created_at": "2026-01-01T00:00:00Z",
                "message": words,
                "done": fault != "no_done",
                "done_reason": stop,
                "prompt_eval_count": used,
                "eval_count": built,
                "total_duration": 1,
            }
        )

    def _half(self, record):
        data = json.dumps(record)
        self.answer(data[: len(data) // 2], headers={"content-length": str(len(data))})
        self._hang_up()

    def _hang_up(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


class OllamaServer(Served):
    """The server; a context manager. ``url`` is its address, ``bodies`` the chat requests it got.

    ``answer(prompt, schema, seed)`` makes the texts. ``tools(body)`` gives the tool calls of an answer to a
    request that offers tools, as (name, arguments); None is a server that has no tools and rejects the request.
    ``delay`` seconds pass per answer, of which ``slots`` run at a time. ``faults`` are for all, or a dict by model.
    """

    handler = Handler

    def __init__(
        self,
        models=("tiny:latest",),
        *,
        answer=template_answer,
        tools=None,
        faults=None,
        delay=0.0,
        slots=64,
        context=32_768,
        version="0.13.0",
        loaded=None,
    ):
        self.models = dict(models) if isinstance(models, dict) else dict.fromkeys(models, DIGEST)
        self.answer = answer
        self.tools = tools
        self.context = context
        self.version = version
        self.loaded = loaded  # the context of a model in memory
        self.faults = faults if isinstance(faults, dict) else dict.fromkeys(self.models, faults or Faults())
        self.counts = Counter()
        self.given = Counter()
        self.bodies = []
        self.headers = []
        super().__init__(self.handler, delay, slots)

    @property
    def chats(self):
        """How many chat requests came in, failed ones included."""
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

    def text(self, prompt, schema, seed, fault):
        """The text of an answer, with the fault in it."""
        if fault == "empty":
            return ""
        if fault == "noise":
            return NOISE + "x" * 1_000_000
        if fault == "prose":
            schema = None
        text = self.answer(prompt, schema, seed)
        if fault == "cut":
            return text[: max(1, len(text) // 2)]
        if fault == "think":
            return f"<think>Let me see. {{}} </think>\n{text}"
        return text

    def tokens(self, body, text):
        return len(text) // 4


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--slots", type=int, default=64)
    with OllamaServer(**vars(parser.parse_args())) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
