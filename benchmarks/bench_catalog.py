"""Catalogue queries: our postings beside a dictionary of sets, at two thousand and a million films.

    python benchmarks/bench_catalog.py [--items 2000 1000000] [--queries 2000] [--rounds 7]

Answers are asserted equal first. The films are invented: few genres and languages, many people. ``--memory``
measures instead what exporting them, simulating with them and indexing a chat of so many messages take.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rounds import Contender, report, seconds

from crs_lib.catalog.catalog import Catalog

GENRES = ("Drama", "Comedy", "War", "Horror", "Crime", "Family", "Action", "Music", "Mystery", "Romance")
LANGUAGES = ("English", "French", "German", "Hindi", "Korean")
Codes = tuple[int, ...]


def films(n: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Films with two genres, one language and five credits; some people have many, most have few."""
    draw = np.random.default_rng(1)
    people = ((draw.random((n, 5)) ** 3) * max(500, n // 4)).astype(int).tolist()
    genre, language = draw.integers(0, 10, (n, 2)).tolist(), draw.integers(0, 5, n).tolist()
    year = draw.integers(1925, 2025, n).tolist()
    for i in range(n):
        names = [f"Person N{number}" for number in people[i]]
        yield f"Film {i}", {
            "year": str(year[i]), "genre": [GENRES[g] for g in genre[i]],
            "language": [LANGUAGES[language[i]]], "actor": names[:3], "director": names[3:4],
            "writer": names[4:],
        }  # fmt: skip


def questions(catalog: Catalog, n: int) -> list[Codes]:
    """Two or three wishes that some film meets, or (one in four) that mostly none meets."""
    draw = np.random.default_rng(2)
    asked = []
    for number in range(n):
        facts = catalog.facts(int(draw.integers(len(catalog))))
        if number % 4 == 0:
            facts = np.concatenate([facts, catalog.facts(int(draw.integers(len(catalog))))])
        asked.append(
            tuple(int(c) for c in draw.choice(np.unique(facts), size=int(draw.integers(2, 4)), replace=False))
        )
    return asked


class Sets:
    """The plain way: one Python set of items per concept, intersected from the smallest on."""

    def __init__(self, catalog: Catalog) -> None:
        self.items = [set(catalog.items_with(code).tolist()) for code in range(len(catalog.vocabulary))]

    def __call__(self, codes: Codes) -> list[int]:
        first, *others = sorted((self.items[code] for code in codes), key=len)
        return sorted(first.intersection(*others))


def compare(n: int, n_queries: int, rounds: int) -> None:
    """Build the catalogue, check the answers, time the queries."""
    start = time.process_time()
    catalog = Catalog.from_records(films(n), f"{n} invented films")
    built = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 if sys.platform != "darwin" else 1024**2
    )
    concepts = len(catalog.vocabulary)
    print(f"\n{n:,} films, {concepts:,} concepts: built in {built:.1f} s, peak {peak:,.0f} MiB")
    sets, asked = Sets(catalog), questions(catalog, n_queries)
    terms = catalog.vocabulary
    pairs = [[(terms.field[code], terms.value[code]) for code in codes] for codes in asked]
    answers = [catalog._search(wanted, relax=False).items.tolist() for wanted in pairs]
    assert answers == [sets(codes) for codes in asked], "the two ways disagree"
    sizes = [len(answer) for answer in answers]
    print(f"{len(asked):,} queries agree; {np.median(sizes):,.0f} films (median) to {max(sizes):,}")
    took = seconds(
        {
            "dictionary of sets": Contender(lambda: [sets(codes) for codes in asked]),
            "ours": Contender(lambda: [catalog._search(wanted, relax=False) for wanted in pairs]),
        },
        rounds,
    )
    report(took, "queries", len(asked), "dictionary of sets")


def memory(n: int, messages: int) -> None:
    """The peak memory of commands over n films, and over a chat of so many messages."""
    draw, when = np.random.default_rng(1), "29.12.2023, 18:22:00"
    talk: dict[str, Any] = {"name": {"speaker_1": "A", "speaker_2": "B"}}
    numbers = draw.integers(0, 5_000, (messages, 15)).tolist()
    for place, row in enumerate(numbers):
        session, said = place // 50 + 1, " ".join(f"word{one}" for one in row)
        message = {"clean_text": said, "speaker": "AB"[place % 2], "date_time": when}
        message["dia_id"] = f"D{session}:{place % 50 + 1}"
        talk.setdefault(f"session_{session}", []).append(message)
        talk[f"session_{session}_date_time"] = when
    talk["qa"] = [{"question": "Who said word7?", "answer": "A", "evidence": ["D1:1"], "category": 1}]
    with tempfile.TemporaryDirectory() as folder:
        source, chat = Path(folder, "films.jsonl"), Path(folder, "chat.json")
        with source.open("w") as file:
            file.writelines(json.dumps({"title": title, **film}) + "\n" for title, film in films(n))
        chat.write_text(json.dumps(talk))
        env = {**os.environ, "CRS_RESULTS": folder, "CRS_DATA": folder}
        for line in (
            f"catalog export --catalog {source} --out {folder}/out.jsonl",
            f"simulate -p run r -p systems tracker -p n_sessions 2 -p n_turns 4 -p catalog {source}",
            f"realtalk predict --chat {chat} --out {folder}/p.jsonl --encoder hashing",
        ):
            command = [sys.executable, "-m", "crs_lib", *line.split()]
            done = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
            _, status, used = os.wait4(done.pid, 0)
            print(f"{line.split(' -')[0]}: {used.ru_maxrss / 2**20:.2f} GiB, ends {status}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, nargs="+", default=[2_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", type=int, nargs=2, metavar=("FILMS", "MESSAGES"))
    options = parser.parse_args()
    if options.memory:
        memory(*options.memory)
    for n in [] if options.memory else options.items:
        compare(n, options.queries, options.rounds)


if __name__ == "__main__":
    main()
