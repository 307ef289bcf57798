"""Scoring one dialogue whose reply grows to 10 MB: seconds and memory for every convention and extractor.

    PYTHONPATH=. python benchmarks/bench_length.py [--largest 10000000] [--only default]

Four kinds of text: ``words`` drawn from a vocabulary with titles and values of the catalogue among them,
``one word`` again and again, ``no space`` (one letter without end) and ``marks`` (a letter under combining
marks). The request is of the same kind and a tenth of the reply's length. ``growth`` is log10 of the time for
the largest text over that for a tenth of it: 1 is linear, 2 is quadratic. The process ends with code 1 where
a growth is above 1.3 and its time above a second.
"""

import argparse
import math
import os
import resource
import sys
import time
from collections.abc import Callable

import numpy as np

from crs_lib.catalog import sources
from crs_lib.core.dialogue import Dialogue
from crs_lib.evaluate.choose import ScoringConfig

LINEAR = 1.3
WAYS = (
    "default", "default extractor=substring", "default extractor=rules", "default extractor=fuzzy",
    "default extractor=embed", "default extractor=hybrid", "thesis_grounded",
    "thesis_legacy topics=heuristic", "thesis_legacy",
)  # fmt: skip


def drawn(size: int) -> str:
    """Words of a vocabulary of 20,000 with a title or value of the catalogue in every twentieth place."""
    draw = np.random.default_rng(1)
    catalog = sources.load()
    named = [item.title for item in catalog.items] + [
        value for item in catalog.items for value in item.values["actor"]
    ]
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    vocabulary = ["".join(draw.choice(letters, n)) for n in draw.integers(2, 11, 20_000)]
    parts: list[str] = []
    length = 0
    while length < size:
        part = [vocabulary[i] for i in draw.integers(0, len(vocabulary), 2_000)]
        part[::20] = [named[i] for i in draw.integers(0, len(named), 100)]
        parts.append(" ".join(part))
        length += len(parts[-1]) + 1
    return " ".join(parts)[:size]


KINDS: dict[str, Callable[[int], str]] = {
    "words": drawn,
    "one word": lambda size: ("drama " * (size // 6 + 1))[:size],
    "no space": lambda size: "x" * size,
    "marks": lambda size: "a" + "\u0301" * (size - 1),
}


def dialogue(kind: str, size: int) -> Dialogue:
    """One turn whose reply has ``size`` characters, and its request a tenth of them."""
    said = KINDS[kind](size)
    turns = [
        {"speaker": "USER", "text": said[: size // 10], "user_meta": {"constraints": {"genre": "Drama"}}},
        {"speaker": "SYSTEM", "text": said, "rec_titles": []},
    ]
    return Dialogue.from_json({"session_id": "0", "model_name": "m", "conversation": turns})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10_000_000, help="characters of the longest reply")
    parser.add_argument("--only", default="", help="ways of scoring whose name contains this")
    given = parser.parse_args()
    os.environ["CRS_MOST_TURN_CHARACTERS"] = str(max(given.largest, 2_000_000))
    sizes = [given.largest // 100, given.largest // 10, given.largest]
    print(f"{'':34}{'text':>10}" + "".join(f"{f'{size:,}':>14}" for size in sizes) + "    growth")
    steep = 0
    for way in WAYS:
        if given.only not in way:
            continue
        name, *settings = way.split(" ")
        scorer = (
            ScoringConfig(catalog="sample", convention=name, **dict(one.split("=") for one in settings))
            .make()
            .scorer
        )
        scorer.score_many([dialogue("one word", 1_000)])
        for kind in KINDS:
            took = []
            for size in sizes:
                made = dialogue(kind, size)
                start = time.process_time()
                scorer.score_many([made])
                took.append(time.process_time() - start)
            growth = math.log10(max(took[-1], 1e-3) / max(took[-2], 1e-3))
            wrong = growth > LINEAR and took[-1] > 1
            steep += wrong
            shown = "".join(f"{seconds:>12.2f} s" for seconds in took)
            print(f"{way:34}{kind:>10}{shown}{growth:>10.2f}{'  steep' if wrong else ''}", flush=True)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"memory at most {most:,.0f} MiB")
    return int(steep > 0)


if __name__ == "__main__":
    sys.exit(main())
