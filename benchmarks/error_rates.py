"""How often the tests of means err, and whether the power that they claim is real.

    python -m benchmarks.error_rates [--samples 4000] [--scenarios 300] [--out docs/records/error_rates.csv]

Samples are drawn from populations of paired differences with a known mean. Half of the pairs of the power
study are policies of this repository: their population are the kept differences in gain after a change.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks import bench_coverage
from crs_lib.core.rng import stream
from crs_lib.metrics.base import PRIMARY
from crs_lib.stats import Design
from crs_lib.stats.bounded import Means
from crs_lib.stats.design import GAIN, SHARE, Floats
from crs_lib.stats.power import contrast_curves

SIZES = (50, 72, 100, 150, 200)
POWER_SIZES = (50, 100, 200)
EFFECTS = (0.05, 0.1)  # the smallest that matters, and twice as much
FLIPS, PILOTS, LEVEL, MARGIN = 999, 200, 0.05, 0.05
LIMITS = GAIN.of_differences
REAL_PAIRS = (("tracker", "amnesiac"), ("bm25", "popular"), ("amnesiac", "sticky"), ("bm25", "random_free"))
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]


class Row(NamedTuple):
    """A rate in [0, 1] of a check, beside that of the test it replaces (or the real power)."""

    check: str
    case: str
    n: int
    rate: float
    beside: float


def losses(share: float, size: float = 1.0, noise: float = 0.0) -> Draw:
    """Differences of which a share are losses of one size, the others 0, with normal noise."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        lost = size * (rng.random(shape) < share)
        return np.asarray(lost + noise * rng.normal(size=shape))

    return draw


def wins_and_losses(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """One in twenty wins a whole gain, as many lose one."""
    return rng.choice([-1.0, 0.0, 1.0], p=[0.05, 0.9, 0.05], size=shape)


def heavy(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Student's t with three degrees of freedom."""
    return np.clip(0.2 * rng.standard_t(3, shape), -2, 2)


SYMMETRIC: dict[str, Draw] = {
    "normal, sd .4": lambda rng, shape: rng.normal(0, 0.4, shape),
    "uniform": lambda rng, shape: rng.uniform(-0.5, 0.5, shape),
    "Laplace": lambda rng, shape: rng.laplace(0, 0.2, shape),
    "t, 3 df": heavy,
    "5 % at 1, 5 % at -1": wins_and_losses,
}
SKEWED = {
    "6 % losses of 1": (losses(0.06), 0.06),
    "6 % losses of 1, noise .05": (losses(0.06, noise=0.05), 0.06),
    "3 % losses of 1": (losses(0.03), 0.03),
    "3 % losses of 1, noise .05": (losses(0.03, noise=0.05), 0.03),
}
EDGES: dict[str, Draw] = {
    "normal, sd .2": lambda rng, shape: rng.normal(0.05, 0.2, shape),
    "normal, sd .15": lambda rng, shape: rng.normal(0.05, 0.15, shape),
    "5 % losses of 1": losses(0.05),
    "5 % losses of 1, noise .05": losses(0.05, noise=0.05),
    "10 % losses of .5": losses(0.1, 0.5),
    "2.5 % losses of 2": losses(0.025, 2.0),
}
DRAWN: dict[str, Draw] = {
    "normal .1, sd .4": lambda rng, shape: rng.normal(0.1, 0.4, shape),
    "normal .06, sd .3": lambda rng, shape: rng.normal(0.06, 0.3, shape),
    "8 % losses of 1": losses(0.08),
    "20 % losses of .5": losses(0.2, 0.5),
}


def sign_flips(samples: Floats, rng: np.random.Generator) -> Floats:
    """The p of sign flips for every sample (row)."""
    flips = rng.choice([-1.0, 1.0], size=(FLIPS, samples.shape[1]))
    observed = np.abs(samples.sum(axis=1)) - 1e-12
    extreme = (np.abs(flips @ samples.T) >= observed).sum(axis=0)
    return np.asarray((extreme + 1) / (FLIPS + 1))


def nulls(count: int) -> Iterator[Row]:
    """How often a difference is found where there is none; beside it, sign flips."""
    cases = {name: ("symmetric null", draw, 0.0) for name, draw in SYMMETRIC.items()}
    for name, (draw, mean) in SKEWED.items():
        cases[name] = ("skewed null", draw, mean)
    for name, (check, draw, mean) in cases.items():
        for n in SIZES:
            rng = stream(1, "error rates", name, n)
            samples = draw(rng, (count, n)) - mean
            found = Means.of(samples, LIMITS).p_differs() <= LEVEL
            flipped = sign_flips(samples, rng) <= LEVEL
            yield Row(check, name, n, found.mean(), flipped.mean())


def edges(count: int) -> Iterator[Row]:
    """How often two systems are called alike that differ by the margin; beside it, by the t interval."""
    for name, draw in EDGES.items():
        for n in SIZES:
            samples = draw(stream(2, "error rates", name, n), (count, n))
            alike = Means.of(samples, LIMITS).p_within(MARGIN) <= LEVEL
            plain = Means.of(samples, Design().limits).p_within(MARGIN) <= LEVEL
            yield Row("equivalence at its edge", name, n, alike.mean(), plain.mean())


def ranges(count: int) -> Iterator[Row]:
    """The share of intervals of a share that leave [0, 1]; beside it, those of t."""
    for share in (0.02, 0.5, 0.98):
        for n in (8, 20, 100):
            samples = losses(share)(stream(3, "error rates", str(share), n), (count, n))
            outside = []
            for limits in (SHARE, Design().limits):
                low, high = Means.of(samples, limits).ends()
                outside.append(((low < 0) | (high > 1)).mean())
            yield Row("interval outside its range", f"share {share}", n, *outside)


def populations(scenarios: int) -> dict[str, Draw]:
    """Eight populations of differences: four pairs of policies, from their kept scenarios, four made up."""
    frame = bench_coverage.population(scenarios, "A", PRIMARY)
    pairs: dict[str, Draw] = {}
    for a, b in REAL_PAIRS:
        gaps = (frame[a] - frame[b]).dropna().to_numpy()

        def draw(rng: np.random.Generator, shape: tuple[int, int], gaps: Floats = gaps) -> Floats:
            return rng.choice(gaps, shape)

        pairs[f"{a} - {b}"] = draw
    return pairs | DRAWN


def powers(count: int, scenarios: int) -> Iterator[Row]:
    """The mean power that pilots claim for an effect; beside it, the real one."""
    for name, draw in populations(scenarios).items():
        whole = draw(stream(4, "error rates", name), (1, 100_000))
        for n in POWER_SIZES:
            rng = stream(5, "error rates", name, n)
            centred = draw(rng, (count, n)) - whole.mean()
            claims = np.array([claimed(pilot) for pilot in draw(rng, (PILOTS, n))])
            for effect, claim in zip(EFFECTS, claims.mean(axis=0), strict=True):
                means = Means.of(centred + effect, LIMITS)
                real = (means.p_differs() <= LEVEL) & (means.mean > 0)
                yield Row(f"power to find {effect:g}", name, n, claim, real.mean())


def claimed(pilot: Floats) -> list[float]:
    """The power that a pilot claims for every effect, in its own direction as drawn."""
    n = len(pilot)
    frame = pd.DataFrame({"system": "a", "scenario": range(n), "value": pilot})
    frame = pd.concat([frame, frame.assign(system="b", value=0.0)], ignore_index=True)
    curves = contrast_curves(frame, EFFECTS, [n], Design(limits=GAIN, resamples=400))
    return curves["power"].tolist() or [0.0] * len(EFFECTS)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--scenarios", type=int, default=300)
    parser.add_argument("--out", default="docs/records/error_rates.csv")
    options = parser.parse_args()
    rows = [*nulls(options.samples), *edges(options.samples), *ranges(options.samples)]
    rows += powers(options.samples, options.scenarios)
    table = pd.DataFrame(rows, columns=Row._fields).round(3)
    table.to_csv(Path(options.out), index=False)
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
