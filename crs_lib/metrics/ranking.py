"""Measures of rankings against graded judgments, named as in ir_measures: ``nDCG@10``, ``AP``, ``ERR@10``.
Written out because ir_measures takes five times as long (a floor scores each topic a hundred times) and needs
Perl for ERR; where both score, they agree to the last bit (tested). Without judgment the grade is 0.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core.errors import InputError, did_you_mean
from crs_lib.core.rng import stream
from crs_lib.metrics.evidence import dcg
from crs_lib.retrieval.runs import Ranking, ranked

Grades = Sequence[float | None]
TOP_GRADE = 2


class Judged:
    """One topic's ranking: ``grades`` along it (None: not judged), ``pool`` with all grades of the topic."""

    def __init__(self, grades: Grades, pool: Sequence[float]) -> None:
        self.grades = grades
        self.pool = tuple(pool)

    @cached_property
    def gains(self) -> list[float]:
        """The gain of each document shown, its grade, at least 0; 0 without judgment."""
        return [grade if grade and grade > 0 else 0 for grade in self.grades]


Score = Callable[[Judged, int | None, int], float]
_SPEC = re.compile(r"(?P<name>\w+)(?:\(rel=(?P<rel>\d+)\))?(?:@(?P<cutoff>\d+))?")


@lru_cache(maxsize=1024)  # of a pool that is ranked many times
def _ideal(pool: tuple[float, ...], cutoff: int | None) -> float:
    """The discounted gain of the best order of a pool."""
    gains = [max(0, grade) for grade in pool]
    return dcg(sorted(gains, reverse=True), cutoff)


@lru_cache(maxsize=1024)
def _relevant(pool: tuple[float, ...], rel: int) -> int:
    """The number of relevant documents of a pool."""
    return sum(grade >= rel for grade in pool)


def _ndcg(judged: Judged, cutoff: int | None, rel: int) -> float:
    """Discounted gain over the best possible one, in [0, 1]; the gain is the grade (as trec_eval)."""
    ideal = _ideal(judged.pool, cutoff)
    if not ideal:
        return 0.0
    return dcg(judged.gains, cutoff) / ideal


def _exponential_ndcg(judged: Judged, cutoff: int | None, rel: int) -> float:
    """Discounted gain with gains 2^grade - 1 over the best possible one, in [0, 1] (Burges et al. 2005)."""
    grades = _exponential(judged.grades)
    exponential = Judged(grades, _exponential(judged.pool))
    return _ndcg(exponential, cutoff, rel)


def _exponential(grades: Grades) -> list[float]:
    return [2.0 ** max(0, grade or 0) - 1 for grade in grades]


def _ranks(judged: Judged, cutoff: int | None, rel: int) -> list[int]:
    """The ranks of the relevant documents, from 1."""
    return [rank for rank, gain in enumerate(judged.gains[:cutoff], start=1) if gain >= rel]


def _average_precision(judged: Judged, cutoff: int | None, rel: int) -> float:
    """Mean over all relevant documents of the precision where they stand (0 if not found), in [0, 1]."""
    total = 0.0
    for hits, rank in enumerate(_ranks(judged, cutoff, rel), start=1):
        total += hits / rank
    return total / (_relevant(judged.pool, rel) or 1)


def _precision(judged: Judged, cutoff: int | None, rel: int) -> float:
    """Share of the first ``cutoff`` places that hold a relevant document, in [0, 1]; empty places count."""
    size = cutoff
    if size is None:
        size = len(judged.grades)
    if not size:
        return 0.0
    return len(_ranks(judged, cutoff, rel)) / size


def _recall(judged: Judged, cutoff: int | None, rel: int) -> float:
    """Share of the relevant documents among the first ``cutoff``, in [0, 1]."""
    relevant = _relevant(judged.pool, rel) or 1
    return len(_ranks(judged, cutoff, rel)) / relevant


def _reciprocal_rank(judged: Judged, cutoff: int | None, rel: int) -> float:
    """1 over the rank of the first relevant document, 0 if there is none, in [0, 1]."""
    for rank in _ranks(judged, cutoff, rel):
        return 1 / rank
    return 0.0


def _expected_reciprocal_rank(judged: Judged, cutoff: int | None, rel: int) -> float:
    """Expected 1/rank at which a user is satisfied, in [0, 0.75]: grade g satisfies with probability (2^g -
    1) / 2^2. Source: Chapelle et al. (2009), CIKM.
    """
    going_on = 1.0
    total = 0.0
    for rank, gain in enumerate(judged.gains[:cutoff], start=1):
        satisfied = (2 ** min(gain, TOP_GRADE) - 1) / 2**TOP_GRADE
        total += going_on * satisfied / rank
        going_on *= 1 - satisfied
    return total


def _judged_share(judged: Judged, cutoff: int | None, rel: int) -> float:
    """Share of the documents shown (up to ``cutoff``) that have a judgment, in [0, 1]; 0 for none shown."""
    shown = judged.grades[:cutoff]
    if not shown:
        return 0.0
    n_judged = len(shown) - shown.count(None)
    return n_judged / len(shown)


MEASURES: dict[str, Score] = {
    "nDCG": _ndcg,
    "nDCGexp": _exponential_ndcg,
    "AP": _average_precision,
    "P": _precision,
    "R": _recall,
    "RR": _reciprocal_rank,
    "ERR": _expected_reciprocal_rank,
    "Judged": _judged_share,
}


class Measure(NamedTuple):
    """A measure as its spec names it; ``rel`` is the lowest grade that counts as relevant."""

    spec: str
    score: Score
    cutoff: int | None
    rel: int

    def __call__(self, judged: Judged) -> float:
        """The measure of one ranking."""
        return self.score(judged, self.cutoff, self.rel)


def measure(spec: str) -> Measure:
    """Read a spec such as ``nDCG@10`` or ``P(rel=2)@5``; InputError with a suggestion for an unknown one."""
    match = _SPEC.fullmatch(spec)
    if match is None or match["name"] not in MEASURES or "0" in (match["cutoff"], match["rel"]):
        name = spec.partition("@")[0].partition("(")[0]
        close = did_you_mean(name, MEASURES)
        raise InputError(f"unknown measure {spec!r}{close} (known: {', '.join(MEASURES)}; e.g. P(rel=2)@5)")
    cutoff = int(match["cutoff"]) if match["cutoff"] else None
    return Measure(spec, MEASURES[match["name"]], cutoff, int(match["rel"] or 1))


class RankingScores(NamedTuple):
    """Scores of a run: one row a judged topic, one column a measure; the topics without match."""

    topics: pd.DataFrame
    missing: list[str]
    unknown: list[str]


def score_run(
    run: Mapping[str, Ranking], qrels: Mapping[str, Mapping[str, int]], measures: Sequence[str]
) -> RankingScores:
    """Every measure of every judged topic, hits in trec_eval's order (``crs_lib.retrieval.runs.ranked``). A
    topic that the run lacks scores 0 and is in ``missing``; one without judgments is in ``unknown``.
    """
    chosen = [measure(spec) for spec in measures]
    rows = {}
    for topic, grades in qrels.items():
        along = [grades.get(hit.id) for hit in ranked(run.get(topic, ()))]
        judged = Judged(along, list(grades.values()))
        rows[topic] = [score(judged) for score in chosen]
    missing = [topic for topic in qrels if not run.get(topic)]
    unknown = [topic for topic in run if topic not in qrels]
    return RankingScores(_table(rows, measures), missing, unknown)


def _table(rows: Mapping[str, list[float]], measures: Sequence[str]) -> pd.DataFrame:
    """A row a topic, a column a measure."""
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(measures)).rename_axis("topic")


def random_floor(
    qrels: Mapping[str, Mapping[str, int]],
    measures: Sequence[str],
    *,
    draws: int = 100,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    depth: int = 100,
) -> pd.DataFrame:
    """Mean score of each topic's judged pool in random order, a row a topic: the floor under any re-ranking.
    With ``sizes``, the documents in each topic's collection, that of ``depth`` documents drawn from it: the
    floor under a search.
    """
    chosen = [measure(spec) for spec in measures]
    rows = {}
    for topic, grades in qrels.items():
        if sizes is not None and topic not in sizes:
            continue
        pool = np.array(list(grades.values()))
        size = None
        if sizes is not None:
            size = max(sizes[topic], len(pool))
        rng = stream(seed, "metrics", "random floor", topic)
        scores = np.zeros(len(chosen))
        for _ in range(draws):
            judged = Judged(_shuffled(pool, size, depth, rng), pool.tolist())
            scores += [score(judged) for score in chosen]
        rows[topic] = (scores / draws).tolist()
    return _table(rows, measures)


def _shuffled(
    pool: NDArray[np.int64], size: int | None, depth: int, rng: np.random.Generator
) -> list[int | None]:
    """The grades of a random ranking: of the pool, or of documents drawn from a collection of a size."""
    if size is None:
        grades: list[int | None] = rng.permutation(pool).tolist()
        return grades
    documents = rng.choice(size, min(depth, size), replace=False)
    shuffled: list[int | None] = []
    for document in documents.tolist():
        is_judged = document < len(pool)
        shuffled.append(int(pool[document]) if is_judged else None)
    return shuffled
