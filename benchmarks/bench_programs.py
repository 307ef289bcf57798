"""The cost of our own code per turn with a program under test, and whether sessions keep its server busy.

``python benchmarks/bench_programs.py`` prints CPU milliseconds per turn of everything but the program (user,
request, answer, films and titles, call log): without the HTTP client (a class that answers at once), with it,
through a pipe, and beside them the rule-based tracker. Then the share of the time in which the 8 slots of a
server work that takes 50 ms an answer: with 8 sessions in parallel, and with 16, one waiting for each slot.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from model_server import ROOT, busy, shown

from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World
from crs_lib.systems.programs import Programs

SESSIONS, TURNS, SLOTS = 6, 20, 8
ANSWER = {"reply": "How about Metropolis (1927)? It suits you.", "recommended": ["metropolis-1927"]}
PIPE = f"import sys\nfor line in sys.stdin: print({json.dumps(ANSWER)!r}, flush=True)"


class AtOnce:
    """A program that takes no time."""

    def __init__(self, catalog: Any) -> None:
        pass

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        """The same answer always."""
        return ANSWER


def serve(delay: float) -> None:
    """Answer in ``delay`` seconds, 8 at once; a GET gives requests and seconds worked."""
    from tests.helpers.programs import ProgramServer

    with ProgramServer(lambda _: (200, ANSWER), delay=delay, slots=SLOTS) as server:
        print(server.url, flush=True)
        sys.stdin.read()


@contextmanager
def server(delay: float) -> Iterator[str]:
    """The address of a server in a process of its own."""
    command = [sys.executable, __file__, "--serve", str(delay)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def worked(url: str) -> dict[str, float]:
    """Requests so far, and the seconds that the server's slots worked."""
    with urllib.request.urlopen(url) as answer:
        found: dict[str, float] = json.load(answer)
    return found


def per_turn(world: World, spec: str) -> float:
    """CPU milliseconds a turn, with a fresh call log; scenarios are planned in it, too."""
    with tempfile.TemporaryDirectory() as folder, Programs(Path(folder), catalog=world.catalog) as programs:
        mine = World(world.catalog, world.grounder, programs=programs)
        config = SimulateConfig(systems=[spec], n_sessions=SESSIONS, n_turns=TURNS)
        simulate.session(mine, spec, SESSIONS, config)  # opens the connection or starts the program
        started = time.process_time()
        for number in range(SESSIONS):
            assert len(simulate.session(mine, spec, number, config).turns) == 2 * TURNS
        return (time.process_time() - started) / (SESSIONS * TURNS) * 1000


def busy_share(url: str, sessions: int, seed: int) -> float:
    """Share of the server's 8 slots that work between a tenth and nine tenths of a batch's requests."""
    config = SimulateConfig(
        run=f"bench-{sessions}-{seed}", systems=[url], n_sessions=48, n_turns=15, seed=seed,
        llm={"slots": sessions // 2},
    )  # fmt: skip
    calls = config.n_sessions * config.n_turns

    def counted() -> tuple[float, float]:
        found = worked(url)
        return found["requests"], found["busy"]

    return busy(counted, calls, SLOTS, lambda: simulate.simulate(config, progress=False))


def main(rounds: int = 7) -> None:
    """Both measurements."""
    catalog = sources.load("sample")
    world = World(catalog, Grounder(catalog))
    pipe = Path(tempfile.mkdtemp()) / "pipe.py"
    pipe.write_text(PIPE, encoding="utf-8")
    sys.path.insert(0, str(ROOT / "benchmarks"))
    with server(0.0) as url:
        specs = {
            "turn of the rule-based tracker": "tracker",
            "a program, without any client": "python:bench_programs:AtOnce",
            "a program behind a pipe": f"exec:{sys.executable} {pipe}",
            "a program behind HTTP": url,
        }
        found: dict[str, list[float]] = {name: [] for name in specs}
        for round_ in range(rounds):
            for name in list(specs)[:: 1 if round_ % 2 else -1]:
                found[name].append(per_turn(world, specs[name]))
    for name, values in found.items():
        shown(name, values, "ms")
    print("share of the time in which 8 slots of a server work that takes 50 ms an answer")
    with tempfile.TemporaryDirectory() as folder, server(0.05) as url:
        os.environ["CRS_RESULTS"] = folder
        for sessions in (SLOTS, 2 * SLOTS):
            shares = [100 * busy_share(url, sessions, seed) for seed in range(3)]
            shown(f"{sessions} sessions, slots={sessions // 2}", shares, "% ")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(float(sys.argv[2]))
    else:
        main()
