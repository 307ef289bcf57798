"""A command that has said its last word ends, and Ctrl-C ends it in time, whatever it waits for."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from crs_lib.core import paths
from tests.helpers.jobs import wait_until
from tests.helpers.raw_server import RawServer, http_answer

pytestmark = pytest.mark.subprocess
WITHIN = 5.0  # seconds from the last line of a command to its end
REPLY = http_answer({"reply": "You could watch Metropolis (1927)."})
# How a server treats a command whose end is watched.
HELD = {
    "open": (REPLY, b""),  # the connection stays open after the answer
    "drips": (REPLY, b"x"),  # bytes without end behind its answer
    "silent": (b"", b""),  # never an answer
}
LINGERING = """
import sys, threading, time
from crs_lib.cli import app
app.do = lambda words: (threading.Thread(target=time.sleep, args=(60,)).start(), print("finished"))
sys.argv = ["crs", "x"]
sys.exit(app.main())
"""


def in_time(seconds):
    """The seconds on this machine, which others may be using: as many times longer as its cores are waited for."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def start(words, folder):
    environment = {
        **os.environ,
        "CRS_RESULTS": str(folder),
        "TMPDIR": str(folder),
        "PYTHONPATH": str(paths.ROOT),
    }
    environment |= {"CRS_PROGRESS": "", "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, *words], env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True
    )


def seconds_after_the_last_line(process):
    """How long a process lives on after the last line that it prints, and all its lines."""
    lines = []
    last = time.monotonic()
    for line in process.stdout:
        lines.append(line)
        last = time.monotonic()
    process.wait(60)
    return time.monotonic() - last, lines


def test_a_thread_that_does_not_end_holds_up_no_finished_command(tmp_path):
    process = start(["-c", LINGERING], tmp_path)
    assert process.stdout.readline() == "finished\n"
    began = time.monotonic()
    assert process.wait(60) == 0
    assert time.monotonic() - began < in_time(WITHIN)
    (dump,) = tmp_path.glob("crs-threads-*.txt")
    assert "File" in dump.read_text()


def words_of(command, url):
    values = {"run": "x", "systems": json.dumps([f"{url}/reply"]), "n_sessions": "2", "n_turns": "2"}
    values["llm"] = json.dumps({"timeout": 2, "slots": 1})
    parameters = []
    for name, value in values.items():
        parameters += ["-p", name, value]
    chat = ["chat", "--simulated", f"{url}/reply", "--llm", values["llm"]]
    return {"simulate": ["simulate", *parameters], "chat": chat}[command]


@pytest.mark.full
@pytest.mark.parametrize("how", HELD)
@pytest.mark.parametrize("command", ["simulate", "chat"])
def test_a_command_ends_whatever_its_server_does_with_the_connections(command, how, tmp_path):
    answer, drip = HELD[how]
    with RawServer(answer, drip=drip) as server:
        process = start(["-m", "crs_lib", *words_of(command, server.url)], tmp_path)
        seconds, lines = seconds_after_the_last_line(process)
    assert seconds < in_time(WITHIN), lines
    assert process.returncode in (0, 2), lines
    assert list(tmp_path.glob("crs-threads-*.txt")) == []


# Stages at work when Ctrl-C arrives: the command, and what says that the work has begun.
STAGES = {
    "waits for a server": ("simulate", "silent"),
    "draws sessions": ("many", "open"),
}


@pytest.mark.full
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_ends_within_two_seconds_of_an_interrupt(stage, tmp_path):
    command, how = STAGES[stage]
    answer, drip = HELD[how]
    with RawServer(answer, drip=drip) as server:
        words = words_of("simulate", server.url)
        if command == "many":
            words = ["simulate", "-p", "run", "x", "-p", "systems", "tracker", "-p", "n_sessions", "3000"]
        process = start(["-m", "crs_lib", *words], tmp_path)
        ledger = tmp_path / "movies" / "x" / "ledger.sqlite"
        wait_until(lambda: ledger.exists() and (server.connections or command == "many"))
        time.sleep(0.5)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=60)[0]
    assert time.monotonic() - began < in_time(2.0)
    assert process.returncode == 130, output
    assert re.search("stopped; what was finished is stored", output)
