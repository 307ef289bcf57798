"""Evidence measures: whether the messages that bear an answer are found, ranked and kept. Gold and selection
are sets of message positions, a ranking is a sequence of them; without gold all is NaN.
"""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crs_lib.core.text import words
from crs_lib.metrics.records import mean_defined

_REACH = 3
_CUTOFFS = (1, 5, 10, 20, 50)
BUCKETS = ("unresolvable", "lost at candidates", "lost at reranking", "lost at selection", "kept")


class SetScore(NamedTuple):
    """Exact recall, precision and F1 of a selection, each in [0, 1], and its size."""

    recall: float
    precision: float
    f1: float
    size: int


def set_score(selected: Collection[int], gold: Collection[int]) -> SetScore:
    """Recall ``|S∩E|/|E|``, precision ``|S∩E|/|S|`` (0 where S is empty) and their harmonic mean; NaN without
    gold. Source: van Rijsbergen (1979), Information Retrieval, chapter 7.
    """
    chosen, wanted = set(selected), set(gold)
    if not wanted:
        return SetScore(math.nan, math.nan, math.nan, len(chosen))
    hits = len(chosen & wanted)
    if not hits:
        return SetScore(0.0, 0.0, 0.0, len(chosen))
    recall = hits / len(wanted)
    precision = hits / len(chosen)
    return SetScore(recall, precision, 2 * recall * precision / (recall + precision), len(chosen))


def fuzzy_recall(selected: Collection[int], gold: Collection[int], sessions: Sequence[int]) -> float:
    """Share of gold with a selected message at most 3 away in the same session, in [0, 1]; NaN without gold.
    Nearly free (ten random messages reach about 0.11): only ever shown beside exact recall.
    """
    if not gold:
        return math.nan
    near = 0
    for position in gold:
        near += any(_is_near(position, chosen, sessions) for chosen in selected)
    return near / len(gold)


def _is_near(first: int, second: int, sessions: Sequence[int]) -> bool:
    return abs(first - second) <= _REACH and sessions[first] == sessions[second]


def dcg(gains: Sequence[float], k: int | None) -> float:
    """Sum of gain/log2(rank + 1) over the first ``k`` gains, at least 0 (Järvelin and Kekäläinen 2002)."""
    total = 0.0
    for rank, gain in enumerate(gains[:k], start=1):
        if gain:
            total += gain / math.log2(rank + 1)
    return total


def rank_scores(ranked: Sequence[int], gold: Collection[int]) -> dict[str, float]:
    """All rank measures of a question by column name, each in [0, 1]; NaN without gold. ``r@k``: share of
    gold among the first k; ``p@k``: gold among them divided by k; ``hit@10`` and ``all@10``: any or all gold
    among the first ten; ``mrr``: 1 / rank of the first gold; ``ndcg@10``: :func:`dcg` over the best one.
    """
    wanted = set(gold)
    hits = [position in wanted for position in ranked]
    scores = {}
    for k in _CUTOFFS:
        scores[f"r@{k}"] = sum(hits[:k]) / max(1, len(wanted))
    for k in (5, 10):
        scores[f"p@{k}"] = sum(hits[:k]) / k
    scores["hit@10"] = float(any(hits[:10]))
    scores["all@10"] = float(sum(hits[:10]) == len(wanted))
    scores["mrr"] = 1 / (hits.index(True) + 1) if True in hits else 0.0
    scores["ndcg@10"] = dcg(hits, 10) / max(1.0, dcg([True] * len(wanted), 10))
    if not wanted:
        return dict.fromkeys(scores, math.nan)
    return scores


def answer_f1(answer: str | None, expected: str | None) -> float:
    """Token F1 of two answers on folded words counted with repetition, in [0, 1]; NaN where one is missing, 1
    for two empty texts. Source: Rajpurkar et al. (2016), SQuAD.
    """
    if answer is None or expected is None:
        return math.nan
    answered, wanted = Counter(words(answer)), Counter(words(expected))
    if not answered or not wanted:
        return float(answered == wanted)
    return 2 * (answered & wanted).total() / (answered.total() + wanted.total())


def answer_exact(answer: str | None, expected: str | None) -> float:
    """1 if both answers have the same folded words but for a, an, the, else 0; NaN where one is missing.
    Source: Rajpurkar et al. (2016), SQuAD.
    """
    if answer is None or expected is None:
        return math.nan
    return float(_without_articles(answer) == _without_articles(expected))


def _without_articles(text: str) -> list[str]:
    return [word for word in words(text) if word not in ("a", "an", "the")]


class ArcScore(NamedTuple):
    """Scores of a narrative answer in phases, each in [0, 1]; see :func:`arc_score`."""

    global_recall: float
    global_precision: float
    coverage_any: float
    coverage_aligned: float
    mean_phase_recall: float
    phases: int
    size: int


def arc_score(phases: Sequence[Collection[int]], gold: Sequence[Collection[int]]) -> ArcScore:
    """How well answered phases cover the gold phases; NaN without gold. ``coverage_any`` counts a gold phase
    that any selected message meets, ``coverage_aligned`` only where the phase matched to it does (one to one,
    largest total overlap); ``mean_phase_recall`` averages the recall by matched phases.
    """
    wanted = [set(phase) for phase in gold if phase]
    answered = [set(phase) for phase in phases if phase]
    union = set[int]().union(*answered)
    whole = set_score(union, set[int]().union(*wanted))
    if not wanted:
        nan = math.nan
        return ArcScore(nan, nan, nan, nan, nan, len(answered), len(union))
    met_by_any, met_in_place, recalls = 0, 0, 0.0
    for phase, met in zip(wanted, _matched(wanted, answered), strict=True):
        met_by_any += bool(phase & union)
        met_in_place += met > 0
        recalls += met / len(phase)
    n = len(wanted)
    return ArcScore(
        whole.recall,
        whole.precision,
        met_by_any / n,
        met_in_place / n,
        recalls / n,
        len(answered),
        len(union),
    )


def _matched(wanted: Sequence[set[int]], answered: Sequence[set[int]]) -> list[int]:
    """The overlap of each gold phase with the answered one that is matched to it, 0 for none."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    overlap = np.zeros((len(wanted), len(answered)), dtype=int)
    for row, phase in enumerate(wanted):
        for column, other in enumerate(answered):
            overlap[row, column] = len(phase & other)
    met = [0] * len(wanted)
    for row, column in zip(*linear_sum_assignment(overlap, maximize=True), strict=True):
        met[row] = int(overlap[row, column])
    return met


def in_order(phases: Sequence[Collection[int]]) -> float:
    """Share of neighbouring phases whose mean position ascends, in [0, 1]; NaN for fewer than two."""
    centres = [sum(phase) / len(phase) for phase in phases if phase]
    if len(centres) < 2:
        return math.nan
    ascents = [first < second for first, second in itertools.pairwise(centres)]
    return sum(ascents) / len(ascents)


def bucket(
    position: int, candidates: Collection[int], ranked: Collection[int], selected: Collection[int]
) -> str:
    """Where one gold message was lost, one of ``BUCKETS`` (never "unresolvable", which has no position)."""
    if position not in candidates:
        return "lost at candidates"
    if position not in ranked:
        return "lost at reranking"
    return "kept" if position in selected else "lost at selection"


def means(rows: Sequence[Mapping[str, float]], columns: Sequence[str]) -> dict[str, float]:
    """Mean of each column over the rows where it is defined; NaN where none is."""
    return {column: mean_defined(row[column] for row in rows) for column in columns}
