"""The test server of the model benchmarks, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def server(delay: float, slots: int) -> Iterator[str]:
    """The server's address; it waits ``delay`` seconds per call and answers ``slots`` calls at once."""
    command = [
        sys.executable,
        str(ROOT / "tests" / "ollama_server.py"),
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
