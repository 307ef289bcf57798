"""The test server of the model benchmarks, in a process of its own."""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def server(delay: float, slots: int) -> Iterator[str]:
    """The server's address; it waits ``delay`` seconds per call and answers ``slots`` calls at once."""
    command = [
        sys.executable,
        str(ROOT / "tests" / "helpers" / "ollama_server.py"),
        "--delay",
        str(delay),
        "--slots",
        str(slots),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def stats(url: str) -> dict[str, float]:
    """What the server counted so far: chats, and the seconds that its slots worked."""
    with urllib.request.urlopen(f"{url}/stats") as answer:
        found: dict[str, float] = json.load(answer)
    return found


def busy(
    counted: Callable[[], tuple[float, float]], calls: int, slots: int, work: Callable[[], object]
) -> float:
    """Share of a server's slots that are at work between a tenth and nine tenths of the calls of ``work``.

    ``counted`` gives the calls that the server has answered, and the seconds that its slots have worked.
    """
    before = counted()[0]
    marks: list[tuple[float, float]] = []

    def watch() -> None:
        for share in (0.1, 0.9):
            while counted()[0] < before + share * calls:
                time.sleep(0.05)
            marks.append((time.perf_counter(), counted()[1]))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    work()
    watcher.join()
    (began, worked_before), (ended, worked) = marks
    return (worked - worked_before) / (slots * (ended - began))


def shown(name: str, values: list[float], unit: str) -> None:
    """One line: the median and the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    print(f"{name:>42}  {middle:8.3f} {unit}   quartiles {low:.3f} to {high:.3f}", flush=True)
