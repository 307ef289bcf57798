"""How often a comparison says something good of systems that a sceptic sends, or something bad of good ones.

    PYTHONPATH=. python -m benchmarks.adversaries [--scenarios 420] [--only AsksBack …] [--memory]

Every system of tests/helpers/adversaries.py meets the same users; a run is a resample of 100 of them, in
which it is compared with the tracker and with the system that it spoils. Favourable: it "adapts better", or
both "adapt equally". Unfavourable: the other one adapts better, or loses less. With --memory: how often
the order test warns of systems with a memory, in a module, a file and a server, and of honest ones. The last
tables are docs/records/adversaries.csv and order_test.csv.
"""

import argparse
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crs_lib import evaluate, simulate, stats
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.simulate.config import SimulateConfig
from crs_lib.stats.adaptation import BETTER, COLUMNS, EQUALLY, LESS_TO_LOSE
from crs_lib.systems.base import World
from crs_lib.validity import arms
from tests.helpers import adversaries
from tests.helpers.programs import ProgramServer

TURNS = 8  # so few hold the first change and its window
USERS = 100  # of a run: as many as a verdict takes
KINDS = (adversaries.Tracker, *adversaries.ABLE, *adversaries.UNABLE)
BASES = {"DumbAtBareValues": "Sticky", "ClingsNear": "Sticky"}  # what a system spoils, if not the tracker
HONEST = ("tracker", "sticky", "amnesiac", "bm25")


def primary_windows(seed: int, n: int, kinds: Sequence[type] = KINDS) -> pd.DataFrame:
    """The primary window of every system and scenario: gains and costs."""
    catalog = sources.load()
    world = World(catalog, Grounder(catalog), programs=adversaries.InProcess(catalog))
    systems = [adversaries.spec(kind) for kind in kinds]
    config = SimulateConfig(systems=systems, n_turns=TURNS, seed=seed)
    rows = []
    for _, scores in arms.scored(world, config, n):
        rows += [row for row in scores.shifts if row["primary"]]
    return pd.DataFrame(rows).rename(columns={"model": "system", "session_id": "scenario"})


def samples(scenarios: Sequence[str], runs: int) -> Iterator[list[str]]:
    """The users of each run, drawn without replacement."""
    draw = np.random.default_rng(0)
    for _ in range(runs):
        yield draw.choice(scenarios, USERS, replace=False).tolist()


def pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Every system with the tracker, and with what it spoils."""
    present = list(names)
    with_tracker = [(name, "Tracker") for name in present if name != "Tracker"]
    spoilt = [(name, base) for name, base in BASES.items() if {name, base} <= set(present)]
    return with_tracker + spoilt


def sentences(windows: pd.DataFrame, a: str, b: str, runs: int) -> Counter[str]:
    """How often a run's sentence on a pair is favourable and unfavourable to the first, and its words."""
    own = windows[windows["system"].isin([a, b])].dropna(subset=list(COLUMNS[:3]))
    both = own.groupby("scenario").filter(lambda rows: len(rows) == 2)
    counts: Counter[str] = Counter()
    for users in samples(sorted(set(both["scenario"])), runs):
        pair = stats.adaptation_of(both[both["scenario"].isin(users)], a, b)
        counts[pair.word] += 1
        counts["favourable"] += pair.word == EQUALLY or (pair.word == BETTER and pair.ahead == a)
        counts["unfavourable"] += (pair.word == BETTER and pair.ahead == b) or (
            pair.word == LESS_TO_LOSE and pair.behind == b
        )
    return counts


def rates(windows: pd.DataFrame, runs: int) -> pd.DataFrame:
    """The tracker's means, then a row a pair: means of the first system, and rates of sentences."""
    by_system = windows.groupby("system", sort=False)
    means = by_system[[*COLUMNS, "delay"]].mean().round(3)
    n = by_system[COLUMNS[0]].count()
    rows: list[dict[str, Any]] = [{"system": "Tracker", **means.loc["Tracker"], "n": n["Tracker"]}]
    for a, b in pairs(means.index):
        counts = sentences(windows, a, b, runs)
        row: dict[str, Any] = {"system": a, "against": b, **means.loc[a], "n": n[a]}
        for name in ("favourable", "unfavourable"):
            row[name] = counts.pop(name, 0) / runs
        row["most often"] = counts.most_common(1)[0][0]
        rows.append(row)
    columns = ["system", "against", *COLUMNS, "delay", "n", "favourable", "unfavourable", "most often"]
    return pd.DataFrame(rows, columns=columns)


@contextmanager
def remembering() -> Iterator[list[str]]:
    """Specs of a system with a memory in its module, in a file and in a server, while they can be reached."""
    remembers = adversaries.Remembers(sources.load())

    def answer(request: dict[str, Any]) -> tuple[int, object]:
        return 200, remembers.reply(request)

    with tempfile.TemporaryDirectory() as folder, ProgramServer(answer) as server:
        command = [sys.executable, adversaries.__file__, "Remembers", str(Path(folder) / "memory.json")]
        module = f"Module=python:{adversaries.__name__}:Remembers"
        yield [module, f"File=exec:{shlex.join(command)}", f"Server={server.url}"]


def warnings(seed: int, n: int, runs: int) -> pd.DataFrame:
    """A row a system: how much gain its memory saves, and how often the order test warns of it."""
    with remembering() as specs:
        systems = [*HONEST, *specs]
        settings: dict[str, Any] = {"n_sessions": n, "n_turns": TURNS, "seed": seed, "llm": {"slots": 1}}
        simulate.simulate(SimulateConfig(run=f"memory-{seed}", systems=systems, **settings))
    evaluate.evaluate(evaluate.EvaluateConfig(run=f"memory-{seed}"))
    shifts = evaluate.read(f"memory-{seed}", "shifts")
    whole = pd.DataFrame(evaluate.memory(shifts)).set_index("system")
    names = list(whole.index)
    warned: Counter[str] = Counter()
    for users in samples(sorted(set(shifts["session_id"])), runs):
        part = shifts[shifts["session_id"].isin(users)]
        warned.update(test.system for test in evaluate.memory(part) if test.remembers)
    whole["warned"] = [warned[name] / runs for name in names]
    return whole.round(3).reset_index()


def main() -> None:
    """Print a table."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--seed", type=int, default=905)
    parser.add_argument("--scenarios", type=int, default=420)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", nargs="+", default=[kind.__name__ for kind in KINDS], metavar="SYSTEM")
    parser.add_argument("--memory", action="store_true", help="the order test instead")
    options = parser.parse_args()
    if options.memory:
        table = warnings(options.seed, options.scenarios, options.runs)
    else:
        kinds = [kind for kind in KINDS if kind.__name__ in ("Tracker", *options.only)]
        table = rates(primary_windows(options.seed, options.scenarios, kinds), options.runs)
    print(table.to_csv(index=False))


if __name__ == "__main__":
    main()
