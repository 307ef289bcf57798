"""Side by side in one process: interleaved A B C C B A, on CPU time, with medians and quartiles."""

import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Contender:
    """A way to do the work; ``share`` is the part of it that one call does (a slow one does less)."""

    run: Callable[[], Any]
    share: float = 1.0


def seconds(contenders: Mapping[str, Contender], rounds: int = 7) -> dict[str, list[float]]:
    """CPU seconds of the whole work per contender and round, scaled up from each one's share."""
    names = list(contenders)
    took: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            start = time.process_time()
            contenders[name].run()
            took[name].append((time.process_time() - start) / contenders[name].share)
        if sys.stderr.isatty():
            print(f"\rround {number + 1} of {rounds}", end="", file=sys.stderr)
    return took


def report(took: Mapping[str, list[float]], unit: str, amount: float, against: str) -> None:
    """A line per contender: speed at the median round, and how many times faster than ``against``."""
    print(f"{'':24}{unit + '/s':>14}{'times ' + against:>22}   quartiles")
    for name, times in took.items():
        ratios = [slow / fast for slow, fast in zip(took[against], times, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        speed = amount / statistics.median(times)
        print(f"{name:24}{speed:14,.0f}{middle:22,.2f}   {low:,.2f} … {high:,.2f}")


def slope(sizes: list[int], values: list[float]) -> float:
    """Log–log slope between the smallest and the largest size: 1 is linear, 0 is flat."""
    return math.log(values[-1] / values[0]) / math.log(sizes[-1] / sizes[0])
