"""The test server of the model benchmarks, in a process of its own."""

import json
import os
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
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


def shown(name: str, values: list[float], unit: str) -> None:
    """One line: the median and the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    print(f"{name:>42}  {middle:8.3f} {unit}   quartiles {low:.3f} to {high:.3f}", flush=True)
