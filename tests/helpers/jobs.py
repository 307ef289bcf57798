"""Work for the batch tests, importable by worker processes; ``python jobs.py LEDGER N WORKERS PAUSE`` does it."""

import gc
import json
import os
import signal
import struct
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from crs_lib.core.errors import InputError, RunError
from crs_lib.core.rng import stream
from crs_lib.runs.jobs import check_failures, sessions
from crs_lib.runs.ledger import Key, Ledger

KEYS_OF = ("tracker", "echo")


def keys(n):
    return [Key(system, session) for system in KEYS_OF for session in range(n)]


def run(ledger, wanted, *arguments, **options):
    """Make the sessions that the ledger lacks and say which failed; returns the number made now."""
    number = sessions(ledger, wanted, *arguments, **options)
    check_failures(ledger, wanted)
    return number


class Draws:
    """A session of random numbers; takes ``pause`` seconds, fails where it is told to."""

    def __init__(self, seed, pause=0.0, failing=()):
        self.seed, self.pause, self.failing = seed, pause, set(failing)

    def __call__(self, key):
        time.sleep(self.pause)
        if key in self.failing:
            raise ValueError(f"no session {key.session}")
        numbers = stream(self.seed, key.system, key.session).random(400).tolist()
        return json.dumps({"key": list(key), "numbers": numbers})


class Refuses:
    def __init__(self, text):
        raise InputError(text)


class Dies:
    """Ends its process as the system does when memory runs out."""

    def __call__(self, key):
        os.kill(os.getpid(), signal.SIGKILL)


def wait_until(condition, seconds=120):
    """Wait for what is sure to come, and return it; the limit only keeps a defect from hanging the tests."""
    end = time.monotonic() + seconds
    value = condition()
    while not value:
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)
        value = condition()
    return value


def killed_when(context, work, job, condition):
    """Do the work in a process that is killed once the condition holds; whether it was, and how the process ended."""
    process = context.Process(target=work, args=job)
    process.start()
    while process.is_alive() and not condition():
        time.sleep(0.002)
    if killed := process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return killed, process.exitcode


def killed_until_done(context, work, job, targets, reached, then=lambda: None):
    """Start the job again and again, each time killed once so much was reached; how often it was killed."""
    times = 0
    for target in [*targets, None]:
        killed, ended = killed_when(context, work, job, lambda to=target: to and reached() >= to)
        times += killed
        then()
    assert ended == 0, f"the last start ended with {ended}"
    return times


def alive(pid):
    """Whether a process runs (one that only its parent has not yet noticed to be dead does not)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def stored(path):
    """How many finished sessions a ledger holds; none where it is not there yet."""
    if not path.exists():
        return 0
    try:
        with Ledger(path) as ledger:
            return len(ledger.finished())
    except RunError:  # the table is not there yet
        return 0


def half_a_result(sign):
    """Write half a result into the worker's pipe, make the file ``sign``, and go on for a minute."""
    connections = [thing for thing in gc.get_objects() if isinstance(thing, Connection)]
    (pipe,) = [connection for connection in connections if connection.writable]
    os.write(pipe.fileno(), struct.pack("!i", 1_000) + b"half")
    Path(sign).touch()
    time.sleep(60)


if __name__ == "__main__":
    path, n, workers, pause = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    try:
        with Ledger(path) as ledger:
            run(ledger, keys(n), Draws, (5, pause), workers=workers, chunk=5)
    except RunError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
