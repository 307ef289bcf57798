"""The thesis's evaluation beside its own way of working (``naive_thesis.py``), results asserted equal first.

    python benchmarks/bench_thesis.py [--rounds 7] [--only substring embed legacy lda queries memory]

With the thesis's data at hand (CRS_MIRROR) its logs are used, else logs of ours on the sample catalogue.
One process, one BLAS thread; set OMP_NUM_THREADS=1.
"""

import argparse
import itertools
import math
import os
import resource
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import naive_thesis as naive
from crs_lib.metrics.similarity import TfidfSpace, read_vocabulary
from rounds import Contender, report, seconds

from crs_lib import data as logs
from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.core import paths
from crs_lib.core.dialogue import Dialogue
from crs_lib.evaluate.tables import stream
from crs_lib.metrics.conventions import get
from crs_lib.thesis import extractors, topics
from crs_lib.thesis.catalog import ThesisCatalog
from crs_lib.thesis.grounded import GroundedScorer
from crs_lib.thesis.legacy import LegacyScorer
from crs_lib.thesis.topics import TopicModel, train

PARTS = ("substring", "embed", "legacy", "lda", "queries", "memory")


class World:
    """The catalogue, logs of both lengths, the sentence space and the topic model."""

    def __init__(self) -> None:
        mirror = paths.mirror()
        self.data = mirror / "thesis" if mirror and (mirror / "thesis").is_dir() else None
        self.catalog = ThesisCatalog.load(self.data / "opendialkg_movie_data.json" if self.data else "sample")
        if self.data:
            self.vocabulary = read_vocabulary(self.data / "reference" / "tfidf_vocabulary_4096.txt")
            self.model = TopicModel.load(self.data / "lda")
        else:
            self.vocabulary = list(TfidfSpace(self.catalog.documents).vocabulary)
            self.model = train(self.catalog.documents[len(self.catalog) :], n_topics=20, passes=5, least=3)
        self.space = TfidfSpace(self.catalog.documents, self.vocabulary)

    def dialogues(self, turns: int, n: int) -> list[Dialogue]:
        if self.data:
            return list(itertools.islice(logs.read(self.data / f"logs_{turns}turns"), n))
        with tempfile.TemporaryDirectory() as folder:
            os.environ["CRS_RESULTS"] = folder
            config = simulate.SimulateConfig(run="bench", systems=("tracker",), n_sessions=n, n_turns=turns)
            simulate.simulate(config, progress=False)
            return simulate.dialogues("bench")


def compare(
    title: str,
    ours: Callable[[], Sequence[Any]],
    slow: Callable[[Sequence[Dialogue]], list[dict[str, float]]],
    dialogues: Sequence[Dialogue],
    few: int,
    rounds: int,
) -> None:
    """Assert that a few sessions agree, then time all of ours beside the few of the naive way."""
    mine = ours()
    for scores, wanted in zip(mine, slow(dialogues[:few]), strict=False):
        for name, value in wanted.items():
            assert math.isclose(scores.session[name], value, rel_tol=1e-7, abs_tol=1e-9), (name, value)
    took = seconds(
        {
            "naive reference": Contender(lambda: slow(dialogues[:few]), few / len(dialogues)),
            "ours": Contender(ours),
        },
        rounds,
    )
    print(f"\n{title}: {len(dialogues)} sessions of {len(dialogues[0].pairs())} turns, results equal")
    report(took, "sessions", len(dialogues), "naive reference")


def grounded(world: World, mode: str, rounds: int) -> None:
    dialogues = world.dialogues(50, 100)
    extractor = extractors.create(mode, extractors.ExtractorInputs(world.catalog.space))
    scorer = GroundedScorer(world.catalog, extractor, world.space, get("thesis_grounded"))
    concepts = naive.Concepts(world.catalog, mode)
    sentences = naive.Sentences(world.catalog, world.vocabulary, cached=False)
    compare(
        f"thesis_grounded, {mode}",
        lambda: list(stream(dialogues, scorer)),
        lambda some: [naive.grounded(one, concepts, sentences) for one in some],
        dialogues,
        3 if mode == "substring" else 1,
        rounds,
    )


def legacy(world: World, kind: str, rounds: int) -> None:
    """Caches start empty each time, on both sides."""
    dialogues = world.dialogues(20, 300)
    name = "lda" if kind == "lda" else "heuristic"
    model = world.model if kind == "lda" else None
    fresh = topics.create("heuristic")
    if model is not None:
        fresh = topics.Lda.__new__(topics.Lda)
        fresh._model, fresh.name = model, "lda"
    sentences = naive.Sentences(world.catalog, world.vocabulary, cached=True)

    def slow(some: Sequence[Dialogue]) -> list[dict[str, float]]:
        sentences.cache = {}
        named = naive.Topics(model)
        return [naive.legacy(one, named, sentences) for one in some]

    compare(
        f"thesis_legacy, topics by {name}",
        lambda: list(stream(dialogues, LegacyScorer(world.space, fresh, get("thesis_legacy")))),
        slow,
        dialogues,
        20,
        rounds,
    )


def queries(world: World, rounds: int) -> None:
    """The constraints of the logged systems; ours gives up fields by name instead of uniting them.

    Ours is timed three times: with everything forgotten before each round that earlier queries left, with
    the answers forgotten ("cold": what a spelling stands for is known), and with the answers kept.
    """
    catalog = sources.load(world.data / "opendialkg_movie_data.json" if world.data else "sample")
    wished = [
        {k: v for k, v in (pair.system.meta.get("constraints") or {}).items() if k in naive.FIELDS}
        for dialogue in world.dialogues(50, 100)
        for pair in dialogue.pairs()
    ]

    def ask() -> list[Any]:
        return [catalog.query(constraints, relax=True) for constraints in wished]

    def forgetting(forget: Callable[[], None]) -> list[Any]:
        forget()
        return ask()

    took = seconds(
        {
            "naive reference": Contender(
                lambda: [naive.recommend_films(world.catalog, w) for w in wished[:500]], 500 / len(wished)
            ),
            "ours, nothing known": Contender(lambda: forgetting(catalog.forget)),
            "ours, cold": Contender(lambda: forgetting(catalog.forget)),
            "ours, warm": Contender(ask),
        },
        rounds,
    )
    distinct = len({repr(sorted(constraints.items())) for constraints in wished})
    print(f"\n{len(wished)} queries, {distinct} of them distinct, of logged systems, {len(catalog)} films")
    report(took, "queries", len(wished), "naive reference")


def memory(world: World) -> None:
    """Peak memory after 600 and after 6,000 sessions of 20 turns."""
    dialogues = world.dialogues(20, 600)
    lda = topics.Lda.__new__(topics.Lda)
    lda._model, lda.name = world.model, "lda"
    scorer = LegacyScorer(world.space, lda, get("thesis_legacy"))
    for n in (600, 6000):
        count = sum(1 for _ in stream(itertools.islice(itertools.cycle(dialogues), n), scorer))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"\n{count} sessions scored: peak memory {peak:,.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    world = World()
    for part in options.only:
        if part in ("substring", "embed"):
            grounded(world, part, options.rounds)
        elif part in ("legacy", "lda"):
            legacy(world, part, options.rounds)
        elif part == "queries":
            queries(world, options.rounds)
        else:
            memory(world)


if __name__ == "__main__":
    main()
