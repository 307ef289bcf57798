"""Programs of others for the tests: adapters that answer, crash, dawdle and talk rubbish, and a small server."""

import json
import sys
import threading
import time
from pathlib import Path

from crs_lib.simulate.conversation import conversation_id
from tests.helpers.raw_server import Answering, Served

SHELL = """#!/bin/sh
# Answers every line with the same film; counts its lines in a file.
while read -r line; do
    echo "$line" >> "$1"
    printf '{"reply": "How about Metropolis (1927)?", "recommended": ["Metropolis (1927)"], "state": {"genre": "drama"}}\\n'
done
"""
NODE = """
// Recommends a film by id; its state is the last word of the user.
require("readline").createInterface({input: process.stdin}).on("line", line => {
  const talk = JSON.parse(line).conversation;
  const said = talk[talk.length - 1].content;
  console.error("turn " + talk.length);
  console.log(JSON.stringify({reply: "See Metropolis.", recommended: ["metropolis-1927"], state: {genre: said.split(" ")[2]}}));
});
"""
# Misbehaves at given sessions: crashes, is silent for a while, answers rubbish, answers twice.
ODD = """
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    how = json.loads(sys.argv[1]).get(request["session"]) if request["turn"] == 2 else None
    if how and not os.path.exists(sys.argv[2]):
        if how == "crash":
            print("about to fail", file=sys.stderr); raise KeyError("films")
        if how == "kill":
            os.kill(os.getpid(), 9)
        if how == "slow":
            time.sleep(30)
        if how == "rubbish":
            print("I am no JSON", flush=True); continue
        if how == "twice":
            sys.stdout.write('{"reply": "One."}\\n{"reply": "Two."}\\n'); sys.stdout.flush(); continue
        if how == "field":
            print('{"reply": "One.", "recommended": "Metropolis"}', flush=True); continue
        if how == "flood":
            sys.stdout.write("x" * 2_000_000); sys.stdout.flush()
    print(json.dumps({"reply": "See Metropolis (1927)."}), flush=True)
"""


def script(folder, name, text):
    path = Path(folder) / name
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def odd(folder, how):
    """The spec of the misbehaving program, how by session; a file "mended" beside it lets it behave."""
    path = script(folder, "odd.py", ODD)
    how = {conversation_id(7, f"{session:05d}", "shift"): what for session, what in how.items()}
    return f"exec:{sys.executable} -S {path} '{json.dumps(how)}' {Path(folder) / 'mended'}"


class ProgramServer(Served):
    """A program behind an address; ``answer(request)`` gives a status and a JSON value or a text.
    ``requests`` holds what came in. Each answer takes ``delay`` seconds, of which ``slots`` run at a time;
    ``busy`` counts the seconds worked.
    """

    def __init__(self, answer, delay=0.0, slots=64):
        self.answer, self.delay = answer, delay
        self.requests, self.busy = [], 0.0
        self._slots, self._lock = threading.Semaphore(slots), threading.Lock()
        super().__init__(_Handler, program=self)
        self.url += "/reply"

    def work(self, request):
        """The status and the body for a request, after the delay."""
        with self._slots:
            began = time.perf_counter()
            with self._lock:
                self.requests.append(request)
            time.sleep(self.delay)
            found = self.answer(request)
            with self._lock:
                self.busy += time.perf_counter() - began
        return found


class _Handler(Answering):
    def do_POST(self):
        status, value = self.program.work(self.read())
        if status is None:  # the connection ends without an answer
            self.close_connection = True
            return
        self.answer(value, status)

    def do_GET(self):
        self.answer({"requests": len(self.program.requests), "busy": self.program.busy})
