"""Grounding many texts: ours beside a loop over values with ``in`` and beside ahocorasick_rs.

    python benchmarks/bench_grounding.py [--texts 60000] [--rounds 7] [--million 1000000]

Values and texts are those of the thesis where CRS_MIRROR has them (evenly from all its files), else eight
thousand invented values and simulated dialogues. There are two loops: "in, substrings" looks for every value
of every field in the lower-cased text, as the thesis did, and also finds it inside words; "in, whole words"
looks for every spelling between blanks in the folded text. What the latter, the automaton and ours find is
asserted equal before anything is timed. A loop does some three hundred texts, and its time is scaled up.
Every contender folds the texts itself.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rounds import Contender, report, seconds

from crs_lib import data as logs
from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths
from crs_lib.core.text import fold
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World

LEAST = {"in, substrings": 90.0}  # how many times faster than this ours must be


def material(n_texts: int) -> tuple[Catalog, list[str], str]:
    """A catalogue, texts, and where they are from."""
    mirror = paths.mirror()
    source = mirror / "thesis" / "opendialkg_movie_data.json" if mirror else None
    files = sorted((mirror / "thesis").glob("logs_*/*.jsonl.gz")) if mirror else []
    if source is not None and source.exists() and files:
        each = -(-n_texts // len(files))
        said = ((turn.text for talk in logs.read(path) for turn in talk.turns) for path in files)
        texts = [text for one in said for text in itertools.islice(one, each)]
        return sources.load(source), texts[:n_texts], "thesis catalogue and logs"
    catalog = Catalog.from_records(itertools.chain(_sample(), invented(8_000)), "sample and invented people")
    return catalog, list(itertools.islice(_said(catalog), n_texts)), "invented values, simulated dialogues"


def _sample() -> Iterator[tuple[str, dict[str, Any]]]:
    catalog = sources.load()
    for item in range(len(catalog)):
        record = catalog.record(item)
        yield record["name"], record


def invented(n: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Films with five people each, until there are n people; names of two or three syllable words."""
    draw = np.random.default_rng(1)
    syllables = [
        a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "ar", "en", "il", "or", "un")
    ]
    pairs = [(a + b).capitalize() for a in syllables for b in syllables]
    seen: set[str] = set()
    people: list[str] = []
    while len(people) < n:
        parts = draw.integers(0, len(pairs), 3)
        name = " ".join(pairs[i] for i in parts[: int(draw.integers(2, 4))])
        if name not in seen:
            seen.add(name)
            people.append(name)
    for start in range(0, n, 5):
        yield f"Invented Film {start}", {"actor": people[start : start + 5], "year": "1999"}


def _said(catalog: Catalog) -> Iterator[str]:
    world = World(catalog, Grounder(catalog))
    config = SimulateConfig(systems=["tracker"], n_turns=50)
    for number in itertools.count():
        for turn in simulate.session(world, "tracker", number, config).turns:
            yield turn.text


class Loop:
    """The naive way: every value is looked for in every text with ``in``; blanks make it whole words."""

    def __init__(self, forms: Sequence[str]) -> None:
        self.padded = [f" {form} " for form in forms]

    def __call__(self, texts: Sequence[str]) -> list[set[int]]:
        folded = (f" {fold(text)} " for text in texts)
        return [{i for i, form in enumerate(self.padded) if form in text} for text in folded]


class Substrings:
    """The thesis's way: every value of every field is looked for with ``in``, also inside words."""

    def __init__(self, catalog: Catalog) -> None:
        self.values = [value.lower() for value in catalog.vocabulary.value]

    def __call__(self, texts: Sequence[str]) -> list[set[int]]:
        lowered = (text.lower() for text in texts)
        return [{i for i, value in enumerate(self.values) if value in text} for text in lowered]


class Automaton:
    """The library's way: an Aho-Corasick automaton over folded texts, all overlapping matches."""

    def __init__(self, forms: Sequence[str]) -> None:
        from ahocorasick_rs import AhoCorasick

        self.find = AhoCorasick([f" {form} " for form in forms]).find_matches_as_indexes

    def __call__(self, texts: Sequence[str]) -> list[set[int]]:
        padded = (f" {fold(text)} " for text in texts)
        return [{match[0] for match in self.find(text, overlapping=True)} for text in padded]


def check(grounder: Grounder, loop: Loop, automaton: Automaton, texts: Sequence[str]) -> int:
    """Assert that all contenders find the same; returns the number of matches."""
    naive, found = loop(texts), automaton(texts)
    assert found == naive, "the automaton disagrees with the loop"
    forms = grounder.catalog.vocabulary
    for text, hits, codes in zip(texts, naive, grounder.ground(texts), strict=True):
        matches = grounder.audit(text)
        assert {fold(text[m.start : m.end]) for m in matches} == {loop.padded[i].strip() for i in hits}, text
        assert {m.code for m in matches if not m.rejected} == codes, text
        assert all(0 <= code < len(forms) for code in codes)
    return sum(map(len, naive))


def forms_of(catalog: Catalog) -> list[str]:
    """Every folded spelling of every concept, once."""
    from crs_lib.catalog.fields import FIELDS

    terms = catalog.vocabulary
    return list(
        dict.fromkeys(f for n, v in zip(terms.field, terms.value, strict=True) for f in FIELDS[n].forms(v))
    )


def scaling(catalog: Catalog, texts: Sequence[str], n_values: int, rounds: int) -> None:
    """The same texts against the catalogue alone, and with invented people up to n values."""
    records = [(item.title, catalog.record(i)) for i, item in enumerate(catalog.items)]
    start = time.process_time()
    large = Catalog.from_records(itertools.chain(records, invented(n_values)), "large")
    print(
        f"\n{len(large.vocabulary):,} values: catalogue built in {time.process_time() - start:.0f} s",
        end=", ",
    )
    small = Grounder(catalog)
    start = time.process_time()
    big = Grounder(large)
    expected = [{small.key(c) for c in codes} for codes in small.ground(texts[:500])]
    found = [{big.key(c) for c in codes} for codes in big.ground(texts[:500])]
    assert found == expected, "invented names were found in the texts"
    print(f"its grounder in {time.process_time() - start:.0f} s")
    took = seconds(
        {"few": Contender(lambda: small.ground(texts)), "many": Contender(lambda: big.ground(texts))}, rounds
    )
    low, middle, high = quartiles(took["many"], took["few"])
    print(
        f"{len(catalog.vocabulary):,} → {len(large.vocabulary):,} values: {middle:.2f} × the time "
        f"({low:.2f} … {high:.2f})"
    )


def quartiles(slow: Sequence[float], fast: Sequence[float]) -> list[float]:
    """Quartiles of the ratios of two contenders, round by round."""
    return statistics.quantiles([one / other for one, other in zip(slow, fast, strict=True)], n=4)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--million", type=int, default=1_000_000, help="values of the large catalogue; 0: left out"
    )
    options = parser.parse_args()
    catalog, texts, where = material(options.texts)
    forms = forms_of(catalog)
    grounder = Grounder(catalog)
    loop, automaton, substrings = Loop(forms), Automaton(forms), Substrings(catalog)
    few = texts[:: max(1, len(texts) // 300) | 1]  # an odd step: users and systems take turns
    matches = check(grounder, loop, automaton, few)
    size = sum(map(len, texts)) / 1e6
    print(f"{where}: {len(forms):,} forms, {len(texts):,} texts ({len(set(texts)):,} distinct)")
    print(f"{size:.1f} million characters; all agree on {len(few):,} texts with {matches:,} matches")
    took = seconds(
        {
            "in, substrings": Contender(lambda: substrings(few), len(few) / len(texts)),
            "in, whole words": Contender(lambda: loop(few), len(few) / len(texts)),
            "ahocorasick_rs": Contender(lambda: automaton(texts)),
            "ours": Contender(lambda: grounder.ground(texts)),
        },
        options.rounds,
    )
    report(took, "texts", len(texts), "in, substrings")
    print()
    report(took, "texts", len(texts), "in, whole words")
    print()
    for name, least in LEAST.items():
        _, middle, _ = quartiles(took[name], took["ours"])
        held = "held" if middle >= least else "missed"
        print(f"ours is {middle:.2f} × as fast as {name!r}; at least {least:g} × is asked: {held}")
    if options.million:
        scaling(catalog, texts[: max(1, len(texts) // 3)], options.million, options.rounds)


if __name__ == "__main__":
    main()
