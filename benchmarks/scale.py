"""The costs of a session, measured in a pilot, and the model of docs/scale.md checked on a larger run.

``python benchmarks/scale.py --sessions 10000`` simulates 10 LLM-free systems in a pilot of 1,000 sessions,
foretells CPU time, memory and disk of the larger run, then makes that run on a local Dask cluster of 2
workers, one of which is killed on the way, scores it and reads it, and prints measured beside foretold. The
pilot's sessions must be the same bytes in both runs, and every session must be there once. ``--turns`` makes
sessions of fewer turns than 20, ``--stages simulate`` leaves out the later ones.
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
TURNS = "SCALE_TURNS"  # the environment hands the stages on how many turns a session has
FILES = {
    "simulate": ("ledger.sqlite", "dialogues.jsonl"),
    "evaluate": ("turns.parquet", "shifts.parquet", "results.jsonl"),
}


def _part_size(sessions: int) -> int:
    """Sessions of one task, as crs_lib.runs.jobs.job cuts them."""
    return max(10, min(100, sessions // 1000))


def config(run: str, sessions: int, workers: int) -> simulate.SimulateConfig:
    """The batch: as many scenarios as give so many sessions; more than one worker is a Dask cluster."""
    scheduler = "local" if workers > 1 else ""
    return simulate.SimulateConfig(
        run=run, systems=SYSTEMS, n_sessions=sessions // len(SYSTEMS), n_turns=turns(), workers=workers,
        scheduler=scheduler, voices="A",
    )  # fmt: skip


def turns() -> int:
    """The turns of a session."""
    return int(os.environ[TURNS])


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
    evaluate.evaluate(EvaluateConfig(run=run))


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
    assert len(sums) == turns() * len(SYSTEMS)


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


def size(run: str, name: str) -> float:
    """MB of a file of a run."""
    return (simulate.run_folder(run) / name).stat().st_size / 1e6


def main(sessions: int, workers: int, stages: list[str]) -> None:
    """Pilot, forecast, run, comparison, stage by stage; what was measured is printed at once."""
    scenarios, tasks = sessions // len(SYSTEMS), sessions / _part_size(sessions)
    print(f"{len(SYSTEMS)} systems x {scenarios} scenarios x {turns()} turns, {workers} Dask workers")
    print(f"{'':22}{'a session':>14}{'foretold':>12}{'measured':>12}{'ratio':>8}")
    for stage in stages:
        half = measured(stage, f"{PILOT_RUN}-half", PILOT // 2, 1)
        whole = measured(stage, PILOT_RUN, PILOT, 1)
        each = {unit: max(0.0, (whole[unit] - half[unit]) / (PILOT - PILOT // 2)) for unit in ("cpu", "peak")}
        foretold = {unit: whole[unit] + each[unit] * (sessions - PILOT) for unit in each}
        if stage == "simulate":
            start = measured(stage, "scale-start", 2 * len(SYSTEMS), workers)["cpu"]
            cluster = measured(stage, "scale-cluster", PILOT, workers)["cpu"]
            task = max(0.0, (cluster - start - each["cpu"] * PILOT) / (PILOT / _part_size(PILOT)))
            # One worker starts a second time.
            foretold["cpu"] = start * (workers + 1) / workers + each["cpu"] * sessions + task * tasks
            print(
                f"starting {workers} workers: {start:.1f} CPU s; each of {tasks:.0f} tasks: {task:.4f} CPU s"
            )
        large = measured(stage, RUN, sessions, workers)
        line(f"{stage}, CPU s", each["cpu"] * 1000, "ms", foretold["cpu"], large["cpu"])
        line(f"{stage}, peak MB", each["peak"] * 1000, "kB", foretold["peak"], large["peak"])
        print(f"{f'{stage}, wall s':<22}{'':>26}{large['wall']:>12.1f}")
        for name in FILES.get(stage, ()):
            one = size(PILOT_RUN, name) / PILOT
            line(f"{name}, MB", one * 1000, "kB", one * sessions, size(RUN, name))
        if stage == "simulate":
            same(sessions)


def line(name: str, each: float, unit: str, foretold: float, found: float) -> None:
    """One row of the comparison."""
    print(
        f"{name:<22}{each:>10.2f} {unit:<3}{foretold:>12.1f}{found:>12.1f}{found / foretold:>8.2f}",
        flush=True,
    )


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
    print(f"{len(seen)} sessions, none doubled; the pilot's {equal} are the same bytes", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stage"]:
        one_stage(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--sessions", type=int, default=10_000, help="sessions of the larger run")
        parser.add_argument("--workers", type=int, default=2, help="Dask workers, 2 or more")
        parser.add_argument("--turns", type=int, default=20, help="turns of a session")
        parser.add_argument(
            "--stages", nargs="+", choices=STAGES, default=list(STAGES), help="the first ones"
        )
        given = parser.parse_args()
        os.environ[TURNS] = str(given.turns)
        with tempfile.TemporaryDirectory() as place:
            os.environ["CRS_RESULTS"] = str(Path(place) / "results")
            main(given.sessions, given.workers, given.stages)
