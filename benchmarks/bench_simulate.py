"""Simulating and scoring a batch: time and peak memory at growing numbers of sessions.

    python benchmarks/bench_simulate.py [--sessions 1000 3000 6000] [--turns 20] [--workers 2] [--thesis]

The tracker with templates on the embedded catalogue; with --thesis instead six policies,
1,000 sessions each. Every size runs in a process of its own; the peak is its
own plus those of its workers, pages that they share counted each time. Scores are asserted complete.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from rounds import slope


class Workers:
    """The peak memory of this process's workers in MiB, looked at while they live (Linux; else 0)."""

    def __init__(self) -> None:
        self.peaks: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Workers":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            for process in multiprocessing.active_children():
                status = Path(f"/proc/{process.pid}/status")
                try:
                    lines = status.read_text().splitlines()
                except OSError:  # it has just ended, or this is no Linux
                    continue
                peak = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")]
                self.peaks[process.pid or 0] = max([self.peaks.get(process.pid or 0, 0.0), *peak])


THESIS = ("oracle", "tracker", "sticky", "amnesiac", "popular", "random")


def cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def one(systems: tuple[str, ...], n_sessions: int, n_turns: int, workers: int) -> dict[str, float]:
    """Simulate and score in this process; seconds on the clock and of CPU, and peak MiB."""
    from crs_lib import evaluate, simulate
    from crs_lib.evaluate.run import EvaluateConfig
    from crs_lib.simulate.config import SimulateConfig

    config = SimulateConfig(
        run="bench", systems=list(systems), n_sessions=n_sessions, n_turns=n_turns, workers=workers
    )
    start, begun = time.perf_counter(), cpu()
    with Workers() as watched:
        simulate.simulate(config, progress=False)
    simulated, simulated_cpu = time.perf_counter(), cpu()
    evaluate.evaluate(EvaluateConfig(run="bench"))
    scored = time.perf_counter()
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    assert len(evaluate.read("bench", "results")) == len(systems) * n_sessions
    assert len(evaluate.read("bench", "turns")) == len(systems) * n_sessions * n_turns
    unit = 1024 if sys.platform != "darwin" else 1024**2
    return {
        "simulate": simulated - start,
        "evaluate": scored - simulated,
        "simulate_cpu": simulated_cpu - begun,
        "evaluate_cpu": cpu() - simulated_cpu,
        "main": usage[0].ru_maxrss / unit,
        "workers": sum(watched.peaks.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, nargs="+", default=[1_000, 3_000, 6_000])
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--thesis", action="store_true", help="six policies x 1,000 sessions, once")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    systems = THESIS if options.thesis else ("tracker",)
    if options.one:
        print(json.dumps(one(systems, options.sessions[0], options.turns, options.workers)))
        return
    if options.thesis:
        options.sessions = [1_000]
    print(f"{', '.join(systems)}: {options.turns} turns, {options.workers} workers; memory in MiB")
    heads = ("sessions", "simulate s", "evaluate s", "CPU", "CPU", "sessions/s", "main", "workers", "peak")
    print("".join(f"{head:>12}" for head in heads))
    totals, peaks = [], []
    for n in options.sessions:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--one", "--sessions", str(n), "--turns", str(options.turns)]
            done = subprocess.run(
                [*command, "--workers", str(options.workers), *(["--thesis"] * options.thesis)],
                env=os.environ | {"CRS_RESULTS": folder}, capture_output=True, text=True, check=True,
            )  # fmt: skip
        row = json.loads(done.stdout)
        total, peak = row["simulate"] + row["evaluate"], row["main"] + row["workers"]
        totals.append(total)
        peaks.append(peak)
        spent = (row["simulate_cpu"], row["evaluate_cpu"])
        times = (row["simulate"], row["evaluate"], *spent, len(systems) * n / total)
        memory = (row["main"], row["workers"], peak)
        print(f"{n:12,}" + "".join(f"{t:12.1f}" for t in times) + "".join(f"{m:12.0f}" for m in memory))
    if len(totals) > 1:
        sizes = options.sessions
        print(f"log–log slope of time {slope(sizes, totals):.2f}, of memory {slope(sizes, peaks):.2f}")


if __name__ == "__main__":
    main()
