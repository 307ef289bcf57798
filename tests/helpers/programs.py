"""Programs of others for the tests: adapters that answer, crash, dawdle and talk rubbish, and a small server."""

import json
import sys
from pathlib import Path

from crs_lib.simulate.run import conversation_id
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
    ``requests`` holds what came in.
    """

    def __init__(self, answer, delay=0.0, slots=64):
        self.program, self.requests = answer, []
        super().__init__(_Handler, delay, slots)
        self.url += "/reply"


class _Handler(Answering):
    def do_POST(self):
        request = self.read()
        self.owner.requests.append(request)
        self.owner.work()
        status, value = self.owner.program(request)
        if status is None:  # the connection ends without an answer
            self.close_connection = True
            return
        self.answer(value, status)

    def do_GET(self):
        self.answer({"requests": self.owner.turns, "busy": self.owner.busy})
