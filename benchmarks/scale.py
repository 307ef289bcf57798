"""The costs of a session, measured in a pilot, and the model of docs/scale.md checked on a larger run.

``python benchmarks/scale.py --sessions 10000`` simulates 10 LLM-free systems in a pilot of 1,000 sessions,
foretells CPU time, memory and disk of the larger run, then makes that run on a local Dask cluster of 2
workers, one of which is killed on the way, scores it and reads it, and prints measured beside foretold. The
pilot's sessions must be the same bytes in both runs, and every session must be there once.
"""

import argparse
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pandas as pd

from crs_lib import evaluate, simulate
from crs_lib.evaluate.run import EvaluateConfig

SYSTEMS = (
    "tracker", "amnesiac", "sticky", "popular", "random", "slot_echo", "echo", "noisy:0.3", "bm25",
    "bm25:last",
)  # fmt: skip
PILOT, PILOT_RUN, RUN = 1000, "scale-pilot", "scale"
CHUNK = 10  # sessions of a task
FILES = ("ledger.sqlite", "dialogues.jsonl", "turns.parquet", "shifts.parquet", "results.jsonl")


def config(run: str, sessions: int, workers: int) -> simulate.SimulateConfig:
    """The batch: as many scenarios as give so many sessions; more than one worker is a Dask cluster."""
    scheduler = "local" if workers > 1 else ""
    return simulate.SimulateConfig(
        run, systems=SYSTEMS, n_sessions=sessions // len(SYSTEMS), workers=workers, scheduler=scheduler
    )


def simulated(run: str, sessions: int, workers: int) -> None:
    """Simulate; where workers are several, one of them is killed when a third of the sessions is done."""
    if workers > 1 and run == RUN:
        threading.Thread(target=kill_one, args=(run, sessions // 3), daemon=True).start()
    simulate.simulate(config(run, sessions, workers), progress=False)


def kill_one(run: str, after: int) -> None:
    """End one worker process with SIGKILL once so many sessions are in the ledger."""
    import psutil

    path = simulate.run_folder(run) / "ledger.sqlite"
    while True:
        time.sleep(0.1)
        with suppress(sqlite3.Error):
            ledger = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            if ledger.execute("SELECT count(*) FROM sessions").fetchone()[0] >= after:
                break
    workers = [p for p in psutil.Process().children() if any("spawn_main" in word for word in p.cmdline())]
    victim = max(workers, key=lambda worker: worker.cpu_times().user)
    os.kill(victim.pid, signal.SIGKILL)
    print(f"killed worker {victim.pid} of {len(workers)} after {after} sessions", file=sys.stderr)


def evaluated(run: str, sessions: int, workers: int) -> None:
    """Score the run."""
    evaluate.evaluate(EvaluateConfig(run))


def analysed(run: str, sessions: int, workers: int) -> None:
    """Read all tables at once, as notebook 05 does, and average a metric by turn."""
    turns = evaluate.read(run, "turns")
    turns.groupby(["model", "turn"])["item_tas"].mean()
    evaluate.read(run, "results")
    evaluate.read(run, "shifts")


def in_pieces(run: str, sessions: int, workers: int) -> None:
    """The same averages from the Parquet file in pieces."""
    sums = pd.DataFrame()
    for piece in evaluate.pieces(run, "turns", ["model", "turn", "item_tas"], rows=20_000):
        part = piece.groupby(["model", "turn"])["item_tas"].agg(["sum", "count"])
        sums = part if sums.empty else sums.add(part, fill_value=0)
    assert len(sums) == 20 * len(SYSTEMS)


STAGES: dict[str, Callable[[str, int, int], None]] = {
    "simulate": simulated, "evaluate": evaluated, "analyse": analysed, "in pieces": in_pieces
}  # fmt: skip


def measured(stage: str, run: str, sessions: int, workers: int) -> dict[str, float]:
    """Wall-clock and CPU seconds and the peak memory in MB of a stage, in a process of its own."""
    command = [sys.executable, __file__, "--stage", stage, run, str(sessions), str(workers)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def one_stage(stage: str, run: str, sessions: int, workers: int) -> None:
    """Do a stage and print what it took; the time to import everything is left out."""
    began, before = time.perf_counter(), cpu()
    STAGES[stage](run, sessions, workers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": time.perf_counter() - began, "cpu": cpu() - before, "peak": peak}))


def cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def sizes(run: str) -> dict[str, float]:
    """MB of each file of a run."""
    folder = simulate.run_folder(run)
    return {name: (folder / name).stat().st_size / 1e6 for name in FILES}


def main(sessions: int, workers: int) -> None:
    """Pilot, forecast, run, comparison."""
    half = {stage: measured(stage, f"{PILOT_RUN}-half", PILOT // 2, 1) for stage in STAGES}
    whole = {stage: measured(stage, PILOT_RUN, PILOT, 1) for stage in STAGES}
    start = measured("simulate", "scale-start", 2 * len(SYSTEMS), workers)["cpu"]
    cluster = measured("simulate", "scale-cluster", PILOT, workers)["cpu"]
    each = (whole["simulate"]["cpu"] - half["simulate"]["cpu"]) / (PILOT - PILOT // 2)
    task = max(0.0, (cluster - start - each * PILOT) / (PILOT / CHUNK))
    large = {stage: measured(stage, RUN, sessions, workers) for stage in STAGES}
    print(f"{len(SYSTEMS)} systems x {sessions // len(SYSTEMS)} scenarios x 20 turns, {workers} Dask workers")
    print(f"{'':22}{'a session':>14}{'foretold':>12}{'measured':>12}{'ratio':>8}")
    for stage in STAGES:
        for unit, shown in (("cpu", "CPU s"), ("peak", "peak MB")):
            slope = max(0.0, (whole[stage][unit] - half[stage][unit]) / (PILOT - PILOT // 2))
            foretold = whole[stage][unit] + slope * (sessions - PILOT)
            if (stage, unit) == ("simulate", "cpu"):  # one worker starts a second time
                foretold = start * (workers + 1) / workers + slope * sessions + task * sessions / CHUNK
            line(
                f"{stage}, {shown}",
                slope * 1000,
                "ms" if unit == "cpu" else "kB",
                foretold,
                large[stage][unit],
            )
        print(f"{f'{stage}, wall s':<22}{'':>26}{large[stage]['wall']:>12.1f}")
    before, after = sizes(PILOT_RUN), sizes(RUN)
    for name in FILES:
        line(f"{name}, MB", before[name] / PILOT * 1000, "kB", before[name] / PILOT * sessions, after[name])
    print(f"starting {workers} workers: {start:.1f} CPU s; a task of {CHUNK} sessions: {task:.4f} CPU s")
    same(sessions)


def line(name: str, each: float, unit: str, foretold: float, found: float) -> None:
    """One row of the comparison."""
    print(f"{name:<22}{each:>10.2f} {unit:<3}{foretold:>12.1f}{found:>12.1f}{found / foretold:>8.2f}")


def same(sessions: int) -> None:
    """Whether every session is there once, and those of the pilot are the same bytes."""
    pilot = {(d.model_name, d.session_id): d.dumps() for d in simulate.iter_dialogues(PILOT_RUN)}
    seen, equal = set(), 0
    for dialogue in simulate.iter_dialogues(RUN):
        key = (dialogue.model_name, dialogue.session_id)
        assert key not in seen, key
        seen.add(key)
        equal += pilot.get(key) == dialogue.dumps()
    assert len(seen) == sessions
    assert equal == PILOT, (equal, PILOT)
    print(f"{len(seen)} sessions, none doubled; the pilot's {equal} are the same bytes")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stage"]:
        one_stage(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--sessions", type=int, default=10_000, help="sessions of the larger run")
        parser.add_argument("--workers", type=int, default=2, help="Dask workers, 2 or more")
        given = parser.parse_args()
        with tempfile.TemporaryDirectory() as place:
            os.environ["CRS_RESULTS"] = str(Path(place) / "results")
            main(given.sessions, given.workers)
