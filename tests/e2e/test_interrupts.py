"""Ctrl-C ends every command within two seconds, whatever it waits for, a second one at once; and a full disk."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers.jobs import stored
from tests.helpers.ollama_server import Faults, OllamaServer

pytestmark = [pytest.mark.full, pytest.mark.subprocess, pytest.mark.slow]
STOPPED = "stopped; what was finished is stored, the same command continues"
LONG = ["-p", "run", "x", "-p", "n_sessions", "3000", "-p", "n_turns", "20", "-p", "workers", "2"]
# The whole process ignores the interrupt but for the thread that watches: as in a long computation in C.
DEAF = """
import sys, time
from crs_lib import notebooks
from crs_lib.__main__ import main

def never(*_):
    print("deaf", file=sys.stderr, flush=True)
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            pass

notebooks.refresh = never
main(["run", "--refresh"])
"""
# What a command that waits for a model's server is asked to do, and how the server treats it.
WAITING = {
    "endless": ("simulate", "endless"), "hang": ("simulate", "hang"), "drip": ("simulate", "drip"),
    "gone": ("simulate", "503"), "notebook": ("run 03_simulate", "hang"),
}  # fmt: skip


def start(words, folder, limit=None):
    """The command as a process group of its own; with a limit no file can grow beyond that many bytes."""

    def bound():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if limit:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, *words], env={**os.environ, "CRS_RESULTS": str(folder)}, preexec_fn=bound,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def wait(condition, process, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "the command did not begin its work"
        time.sleep(0.05)


def interrupt(process, times=1, within=2.0):
    """Send the signals; the command ends in time, says so, and leaves no process of its session behind."""
    began = time.monotonic()
    for number in range(times):
        time.sleep(0.1 if number else 0)
        process.send_signal(signal.SIGINT)
    message = process.communicate(timeout=60)[1]
    took = time.monotonic() - began
    assert process.returncode == 130, message
    assert message.strip().splitlines()[-1] == STOPPED
    assert "Traceback" not in message
    assert took < within
    time.sleep(0.2)
    shown = subprocess.run(["ps", "-s", str(process.pid), "-o", "stat="], capture_output=True, text=True)
    assert [state for state in shown.stdout.split() if not state.startswith("Z")] == []


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """All commands that wait for a server, started at once: process, server and results folder by name."""
    started = {}
    with contextlib.ExitStack() as servers:
        for name, (command, kind) in WAITING.items():
            server = servers.enter_context(OllamaServer(faults=Faults(rate=1.0, kinds=(kind,))))
            folder = tmp_path_factory.mktemp(name)
            words = ["-m", "crs_lib", *command.split(), "-p", "run", "x", "-p", "systems", "ollama:tiny"]
            words += ["-p", "n_sessions", "3", "-p", "llm", json.dumps({"host": server.url})]
            started[name] = (start(words, folder), server, folder)
        yield started
        for process, *_ in started.values():
            process.kill()


@pytest.mark.parametrize("name", WAITING)
def test_a_server_that_does_not_come_to_an_end_does_not_hold_up_the_end(waiting, name):
    """Nor do one that is gone, the pauses between attempts (of seconds by now), and a notebook's kernel."""
    process, server, folder = waiting[name]
    wait(lambda: server.chats > (12 if name == "gone" else 0), process)
    interrupt(process)
    stages = json.loads((folder / "movies" / "x" / "manifest.json").read_text())["stages"]
    assert stages["simulate"]["status"] == "failed"


@pytest.mark.parametrize(("words", "times"), [("", 1), ("--scheduler local", 1), ("--scheduler local", 2)])
def test_processes_and_a_cluster_end_with_the_command(tmp_path, words, times):
    if words:
        pytest.importorskip("distributed")
    process = start(["-m", "crs_lib", "simulate", *LONG, *words.split()], tmp_path)
    wait((tmp_path / "movies" / "x" / "ledger.sqlite").exists, process)
    time.sleep(1.5)  # workers start
    interrupt(process, times)


def test_a_command_that_does_not_listen_is_ended_in_time_or_by_the_second_interrupt(tmp_path):
    for times, within in [(1, 2.0), (2, 0.6)]:
        process = start(["-c", DEAF], tmp_path)
        assert process.stderr.readline() == "deaf\n"
        interrupt(process, times, within)


def test_a_full_disk_in_mid_batch_says_so_and_the_batch_goes_on_later(tmp_path):
    words = ["-m", "crs_lib", "simulate", "-p", "systems", "tracker,random,echo", "-p", "n_sessions", "80"]
    place = tmp_path / "movies"
    for run, limit, code in (("whole", None, 0), ("full", 400_000, 2), ("full", None, 0)):
        process = start([*words, "-p", "n_turns", "10", "-p", "run", run], tmp_path, limit)
        message = process.communicate(timeout=300)[1]
        assert process.returncode == code, message
        if limit:
            assert "RunError: the ledger" in message
            assert "Free some space" in message
            assert not (place / "full" / "dialogues.jsonl").exists()
            assert 0 < stored(place / "full" / "ledger.sqlite") < 3 * 80
    whole, full = ((place / run / "dialogues.jsonl").read_bytes() for run in ("whole", "full"))
    assert full == whole
