"""Bands of a line over turns: ours against a plain loop and seaborn; and a whole run of figures.

    python benchmarks/bench_figures.py [--sessions 750] [--rounds 7]

Made-up tables of 8 systems. The three bands rest on 200 draws of the sessions each and must agree before
anything is timed: means exactly, interval ends within a fifth of the interval's width. One process,
CPU time, rounds interleaved A B C C B A. The whole run writes all PNGs, PDFs and tables but
those of language models' calls, power and other conventions.
"""

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib import figures
from crs_lib.core import rng
from crs_lib.figures import stability
from crs_lib.figures.base import means
from crs_lib.metrics import base

SYSTEMS = ("oracle", "tracker", "amnesiac", "sticky", "popular", "random", "slot_echo", "echo")
METRICS = (
    "item_tas", "satisfaction", "satisfaction_corrected", "novelty", "topic_interference_leakage", "copying",
    "topic_adaptation_score", "cross_coherence", "context_retention", "topic_interference", "slot_f1",
)  # fmt: skip
TURNS, SHIFTS, DRAWS = 20, (4, 8, 12, 16), 200
Bands = NDArray[np.float64]  # (cells, 3): mean, low, high


def tables(n_sessions: int) -> dict[str, pd.DataFrame]:
    draw, n = rng.stream(0, "bench", "figures"), len(SYSTEMS) * n_sessions
    keys = pd.MultiIndex.from_product([SYSTEMS, range(n_sessions)], names=["model", "session_id"])
    turns = pd.DataFrame(index=keys.repeat(TURNS)).reset_index()
    turns["turn"] = np.tile(np.arange(1, TURNS + 1), n)
    for metric in METRICS:
        turns[metric] = draw.random(len(turns)) * 0.5 + np.repeat(np.arange(8) / 16, n_sessions * TURNS)
    turns["since_shift"] = pd.array((turns["turn"] % 4).where(turns["turn"] >= 4), dtype="Int64")
    words = [f"genre={k}" for k in range(300)]
    for column in ("missing_concepts", "hallucinated_concepts"):
        turns[column] = [[words[i] for i in row] for row in draw.zipf(1.5, (len(turns), 3)) % 300]
    shifts = pd.DataFrame(index=keys.repeat(len(SHIFTS))).reset_index()
    shifts["type"] = np.resize(["switch", "replace", "refine", "return"], len(shifts))
    shifts["watched"], delay = 4, draw.integers(0, 6, len(shifts))
    shifts["delay_item"] = np.where(delay < 4, delay.astype(float), np.nan)
    shifts["recovered_item"] = delay < 3
    results = turns.groupby(["model", "session_id"], sort=False)[list(METRICS)].mean().reset_index()
    by_session = shifts.groupby(["model", "session_id"], sort=False)["recovered_item"].mean().to_numpy()
    results["item_recovery_rate"] = results["topic_recovery_rate"] = by_session
    judged = draw.integers(2, 11, (n, 3)) / 2
    names = ("coherence", "personalization", "proactiveness")
    results["judge"] = [dict(zip(names, row, strict=True)) for row in judged.tolist()]
    parts = []
    for metric in (*METRICS, "item_recovery_rate", "topic_recovery_rate"):
        found = results.groupby("model", sort=False)[metric].agg(["mean", "sem", "size"]).reset_index()
        found = found.assign(metric=metric, low=found["mean"] - 2 * found["sem"], n_missing=0)
        found = found.assign(high=found["mean"] + 2 * found["sem"], direction=base.get(metric).direction)
        parts.append(found.rename(columns={"size": "n"}))
    scores = pd.concat(parts, ignore_index=True)
    weights = stability.weights(turns)
    return {
        "turns": turns, "shifts": shifts, "results": results, "model_metrics": scores,
        "sensitivity_weights": weights,
    }  # fmt: skip


def ours(turns: pd.DataFrame) -> Bands:
    found = means(turns, ["model", "turn"], "item_tas", resamples=DRAWS)
    return found[["mean", "low", "high"]].to_numpy()


def loop(turns: pd.DataFrame) -> Bands:
    """Draw sessions, take their rows, average each cell: what one writes first."""
    wide = {key: part["item_tas"].to_numpy() for key, part in turns.groupby(["model", "turn"], sort=False)}
    generator, rows = rng.stream(1, "loop"), []
    for values in wide.values():
        drawn = []
        for _ in range(DRAWS):
            chosen = generator.integers(0, len(values), len(values))
            drawn.append(sum(values[i] for i in chosen) / len(values))
        rows.append([values.mean(), *np.quantile(drawn, [0.025, 0.975])])
    return np.array(rows)


def seaborns(turns: pd.DataFrame) -> Bands:
    """Seaborn's bootstrap, cell by cell: a cell has one row of each session, so rows are its clusters."""
    from seaborn.algorithms import bootstrap

    rows = []
    for _, part in turns.groupby(["model", "turn"], sort=False):
        values = part["item_tas"].to_numpy()
        rows.append([values.mean(), *np.quantile(bootstrap(values, n_boot=DRAWS, seed=1), [0.025, 0.975])])
    return np.array(rows)


def check(turns: pd.DataFrame) -> None:
    mine, others = ours(turns), {"loop": loop(turns), "seaborn": seaborns(turns)}
    for name, theirs in others.items():
        assert np.allclose(mine[:, 0], theirs[:, 0]), name
        off = np.abs(mine[:, 1:] - theirs[:, 1:]).mean() / (mine[:, 2] - mine[:, 1]).mean()
        assert off < 0.2, f"{name}: ends differ by {off:.2f} of the width"


def cpu(work: Callable[[pd.DataFrame], Bands], turns: pd.DataFrame) -> float:
    started = time.process_time()
    work(turns)
    return time.process_time() - started


def bands(turns: pd.DataFrame, rounds: int) -> None:
    check(turns)
    times: dict[str, list[float]] = {"ours": [], "loop": [], "seaborn": []}
    work = {"ours": ours, "loop": loop, "seaborn": seaborns}
    for turn in range(rounds):
        for name in list(work) if turn % 2 == 0 else reversed(work):
            times[name].append(cpu(work[name], turns))
    for name in ("loop", "seaborn"):
        ratios = [theirs / mine for theirs, mine in zip(times[name], times["ours"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"bands of 160 cells: {middle:5.1f} × {name} (quartiles {low:.1f} to {high:.1f}, {rounds} rounds)"
        )


def read(frames: dict[str, pd.DataFrame], run: str, table: str) -> pd.DataFrame:
    if table not in frames:
        raise figures.NoDataError(f"{table} is not part of the benchmark")
    return frames[table]


def whole(frames: dict[str, pd.DataFrame], n_sessions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CRS_FIGURES"] = folder
        started = time.process_time()
        done = figures.redraw("bench", read=partial(read, frames))
        seconds = time.process_time() - started
        size = sum(Path(path).stat().st_size for path in done) / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(
        f"all figures and tables of {len(SYSTEMS) * n_sessions:,} sessions: {seconds:.1f} s CPU "
        f"({120 / seconds:.0f} × inside 2 minutes), {len(done)} files, {size:.1f} MiB, peak {peak:.0f} MiB"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sessions", type=int, default=750, help="sessions of each of 8 systems")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    made = tables(given.sessions)
    bands(made["turns"], given.rounds)
    whole(made, given.sessions)
