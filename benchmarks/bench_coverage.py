"""How often intervals of costs cover: a population of scenarios, and samples of 20, 50 and 100 from it.

    python benchmarks/bench_coverage.py [--scenarios 1000] [--voices A] [--metric shift_cost]

Each system's population are the primary windows of as many scenarios; a withheld interval counts as a miss.
The table that decided for ``stats.mean_interval`` stands in docs/records/coverage.csv.
"""

import argparse

import numpy as np
import pandas as pd

from crs_lib import simulate, stats
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core.rng import stream
from crs_lib.systems.base import World
from crs_lib.validity import arms

SYSTEMS = ("sticky", "tracker", "amnesiac", "bm25", "random_free", "popular", "silent")
SIZES, DRAWS, TURNS = (20, 50, 100), 400, 8  # so few turns hold the first shift


def population(scenarios: int, voices: str, metric: str, seed: int = 11) -> pd.DataFrame:
    """One row a scenario, one column a system: the metric in its primary window."""
    catalog = sources.load()
    config = simulate.SimulateConfig(systems=SYSTEMS, voices=voices, seed=seed, n_turns=TURNS)
    found = arms.scored(World(catalog, Grounder(catalog)), config, scenarios)
    rows = [(talk.session_id, talk.model_name, scores.session[metric]) for talk, scores in found]
    frame = pd.DataFrame(rows, columns=["scenario", "system", "value"])
    return frame.pivot_table(index="scenario", columns="system", values="value", sort=False)


def _t(values: np.ndarray) -> tuple[float, float]:
    from scipy.stats import t

    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return values.mean() - half, values.mean() + half


def _bca(values: np.ndarray) -> tuple[float, float]:
    frame = pd.DataFrame({"system": "a", "scenario": range(len(values)), "value": values})
    row = stats.cluster_bootstrap(frame, stats.Design(resamples=500)).iloc[0]
    return row["low"], row["high"]


def _ours(values: np.ndarray) -> tuple[float, float]:
    found = stats.mean_interval(values)
    return found.low, found.high


METHODS = {"t": _t, "BCa": _bca, "mean_interval": _ours}


def coverage(values: np.ndarray, seed: int = 1) -> list[dict[str, float]]:
    """One row a sample size: the share of draws whose interval holds the mean and its width, by method."""
    rows = []
    for n in SIZES:
        draw, row = stream(seed, "coverage", n), {"n": n}
        samples = [draw.choice(values, n, replace=False) for _ in range(DRAWS)]
        for name, method in METHODS.items():
            found = np.array([method(sample) for sample in samples])
            held = (found[:, 0] - 1e-12 <= values.mean()) & (values.mean() <= found[:, 1] + 1e-12)
            row |= {name: held.mean(), f"{name} width": np.nanmean(found[:, 1] - found[:, 0])}
        rows.append(row)
    return rows


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The coverage of every system's population."""
    rows = []
    for name in frame:
        values = frame[name].dropna().to_numpy()
        facts = {"system": name, "N": len(values), "mean": values.mean(), "sd": values.std(),
                 "zeros": np.mean(values == 0)}  # fmt: skip
        rows += [facts | row for row in coverage(values)]
    return pd.DataFrame(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenarios", type=int, default=1000)
    parser.add_argument("--voices", default="A")
    parser.add_argument("--metric", default="shift_cost")
    asked = parser.parse_args()
    print(table(population(asked.scenarios, asked.voices, asked.metric)).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
