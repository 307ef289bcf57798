"""Reading a catalogue in MovieLens's form: time and memory of this checkout beside those of another.

    python benchmarks/bench_reading.py [--rows 1000000] [--base FOLDER] [--rounds 3]

The rows are invented: a fifth have their article behind, a twentieth a second title. A reading is a process
of its own. With ``--base`` (another checkout) the best round of both is compared; more than 1.2 times its
time or memory ends with 1.
"""

import argparse
import csv
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

MOST = 1.2  # times the other checkout's
GENRES = ("Action", "Comedy", "Crime", "Drama", "Film-Noir", "Horror", "Romance", "Sci-Fi", "War")
WORDS = [
    first + last for first in ("ba", "de", "fi", "go", "lu", "me") for last in ("lor", "nak", "mir", "tas")
]
READ = """
import resource, sys, time
from crs_lib.catalog import sources
start = time.process_time()
catalog = sources.load(sys.argv[1])
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


class Cost(NamedTuple):
    """Seconds of processor time and MiB at the peak."""

    seconds: float
    memory: float


def write(path: Path, rows: int) -> None:
    """Invented films as MovieLens writes them."""
    draw = random.Random(1)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["movieId", "title", "genres"])
        for number in range(1, rows + 1):
            title = f"{' '.join(draw.choices(WORDS, k=draw.randint(1, 4))).title()} {number}"
            title += draw.choices(["", ", The", f" (a.k.a. {draw.choice(WORDS)})"], [15, 4, 1])[0]
            genres = "|".join(draw.sample(GENRES, draw.randint(1, 3)))
            writer.writerow([number, f"{title} ({draw.randint(1925, 2024)})", genres])


def cost(checkout: Path, path: Path, rounds: int) -> Cost:
    """The least that reading the file takes with the package of a checkout."""
    costs = []
    for _ in range(rounds):
        command = [sys.executable, "-c", READ, str(path)]
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
        seconds, memory = done.stdout.split()
        costs.append(Cost(float(seconds), float(memory)))
    return min(costs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "movies.csv")
        write(path, options.rows)
        ours = cost(Path(__file__).parents[1], path, options.rounds)
        print(f"{options.rows:,} rows: {ours.seconds:.1f} s, {ours.memory:,.0f} MiB")
        if options.base:
            base = cost(options.base, path, options.rounds)
            print(f"{options.base.name}: {base.seconds:.1f} s, {base.memory:,.0f} MiB")
            ratios = Cost(ours.seconds / base.seconds, ours.memory / base.memory)
            print(f"times: {ratios.seconds:.2f} of the time, {ratios.memory:.2f} of the memory")
            sys.exit(max(ratios) > MOST)


if __name__ == "__main__":
    main()
