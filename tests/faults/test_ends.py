"""A command that has said its last word ends, and Ctrl-C ends it in time, whatever it waits for."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from crs_lib.core import paths
from tests.helpers.jobs import wait_until
from tests.helpers.raw_server import RawServer, http_answer
from tests.helpers.sample import scored

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


GENRES = ("Drama", "Comedy", "Horror")
BUSY = 2.0  # seconds of processor time after the start of a command in which its input is not yet read


def large_catalogue(folder):
    """A catalogue whose reading takes far longer than BUSY seconds."""
    path = folder / "films.csv"
    plot = "words " * 30
    with path.open("w", encoding="utf-8") as file:
        file.write("title,year,genre,plot\n")
        for number in range(200_000):
            genre = GENRES[number % 3]
            file.write(f"Film {number},{1930 + number % 90},{genre},{plot}\n")
    return path


def catalogue_of_one_piece(folder):
    """A catalogue of one JSON value, which the parser reads in one call."""
    path = folder / "films.json"
    films = {}
    for number in range(100_000):
        films[f"Film {number}"] = {"genre": ["Drama"], "plot": "w " * 200}
    path.write_text(json.dumps(films), encoding="utf-8")
    return path


def large_log(folder):
    """A log of many short conversations."""
    path = folder / "log.jsonl"
    messages = [
        {"role": "user", "content": "A drama, please."},
        {"role": "assistant", "content": "See Alma."},
    ]
    with path.open("w", encoding="utf-8") as file:
        for number in range(200_000):
            file.write(json.dumps({"id": f"s{number}", "model": "ours", "messages": messages}) + "\n")
    return path


def log_of_long_replies(folder):
    """A log of replies that name 100,000 films each, which are looked for in the catalogue."""
    path = folder / "log.jsonl"
    reply = "Watch Metropolis (1927), not The Long Night. " * 40_000
    messages = [{"role": "user", "content": "A drama, please."}, {"role": "assistant", "content": reply}]
    with path.open("w", encoding="utf-8") as file:
        for number in range(30):
            file.write(json.dumps({"id": f"s{number}", "model": "ours", "messages": messages}) + "\n")
    return path


# Stages at work when Ctrl-C arrives: the command, and what makes the input that it reads.
READING = {
    "parses a catalogue": (["catalog", "show", "--catalog"], large_catalogue),
    "parses JSON in one piece": (["catalog", "show", "--catalog"], catalogue_of_one_piece),
    "parses a log": (["data", "import"], large_log),
    "matches titles": (["data", "import", "--run", "x"], log_of_long_replies),
}


def interrupted(process):
    """The seconds that a process takes to end after an interrupt; it says that it was stopped."""
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    seconds = time.monotonic() - began
    assert process.returncode == 130, output
    assert "stopped; what was finished is stored" in output
    assert "Traceback" not in output
    return seconds


def is_busy(process, seconds):
    """Whether a process has used the processor for so long; it must not have ended before."""
    assert process.poll() is None, process.communicate()[0]
    return sum(psutil.Process(process.pid).cpu_times()[:2]) > seconds


@pytest.mark.full
@pytest.mark.parametrize("stage", READING)
def test_a_stage_that_reads_ends_within_two_seconds_of_an_interrupt(stage, tmp_path):
    words, make = READING[stage]
    process = start(["-m", "crs_lib", *words, str(make(tmp_path))], tmp_path)
    wait_until(lambda: is_busy(process, BUSY))
    assert interrupted(process) < in_time(2.0)


@pytest.mark.full
@pytest.mark.parametrize("command", ["simulate", "chat"])
def test_a_command_that_waits_for_a_server_ends_within_two_seconds_of_an_interrupt(command, tmp_path):
    answer, drip = HELD["silent"]
    with RawServer(answer, drip=drip) as server:
        process = start(["-m", "crs_lib", *words_of(command, server.url)], tmp_path)
        wait_until(lambda: server.connections)
        assert interrupted(process) < in_time(2.0)


@pytest.mark.full
def test_a_command_that_draws_ends_within_two_seconds_of_an_interrupt(tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    scored("x", systems=["tracker", "random"], n_sessions=30, n_turns=8)
    process = start(["-m", "crs_lib", "show", "figures", "--run", "x"], tmp_path)
    wait_until(lambda: is_busy(process, 2 * BUSY))
    assert interrupted(process) < in_time(2.0)


@pytest.mark.full
def test_a_command_that_makes_sessions_ends_within_two_seconds_of_an_interrupt(tmp_path):
    words = ["simulate", "-p", "run", "x", "-p", "systems", "tracker", "-p", "n_sessions", "3000"]
    process = start(["-m", "crs_lib", *words], tmp_path)
    wait_until((tmp_path / "movies" / "x" / "ledger.sqlite").exists)
    assert interrupted(process) < in_time(2.0)
