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


class _SetScore(NamedTuple):
    """Exact recall, precision and F1 of a selection, each in [0, 1], and its size."""

    recall: float
    precision: float
    f1: float
    size: int


def set_score(selected: Collection[int], gold: Collection[int]) -> _SetScore:
    """Recall ``|S∩E|/|E|``, precision ``|S∩E|/|S|`` (0 where S is empty) and their harmonic mean; NaN without
    gold. Source: van Rijsbergen (1979), Information Retrieval, chapter 7.
    """
    chosen, wanted = set(selected), set(gold)
    if not wanted:
        return _SetScore(math.nan, math.nan, math.nan, len(chosen))
    hits = len(chosen & wanted)
    recall = hits / len(wanted)
    precision = hits / len(chosen) if chosen else 0.0
    f1 = 2 * recall * precision / (recall + precision) if hits else 0.0
    return _SetScore(recall, precision, f1, len(chosen))


def fuzzy_recall(selected: Collection[int], gold: Collection[int], sessions: Sequence[int]) -> float:
    """Share of gold with a selected message at most 3 away in the same session, in [0, 1]; NaN without gold.
    Nearly free (ten random messages reach about 0.11): only ever shown beside exact recall.
    """
    if not gold:
        return math.nan
    near = [any(abs(s - e) <= _REACH and sessions[s] == sessions[e] for s in selected) for e in gold]
    return sum(near) / len(near)


def dcg(gains: Sequence[float], k: int | None) -> float:
    """Sum of gain/log2(rank + 1) over the first ``k`` gains, at least 0 (Järvelin and Kekäläinen 2002)."""
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:k], start=1) if gain)


def rank_scores(ranked: Sequence[int], gold: Collection[int]) -> dict[str, float]:
    """All rank measures of a question by column name, each in [0, 1]; NaN without gold. ``r@k``: share of
    gold among the first k; ``p@k``: gold among them divided by k; ``hit@10`` and ``all@10``: any or all gold
    among the first ten; ``mrr``: 1 / rank of the first gold; ``ndcg@10``: :func:`dcg` over the best one.
    """
    wanted = set(gold)
    hits = [place in wanted for place in ranked]
    size = len(wanted) or math.nan
    found = {f"r@{k}": sum(hits[:k]) / size for k in _CUTOFFS}
    found |= {f"p@{k}": sum(hits[:k]) / k for k in (5, 10)}
    found |= {"hit@10": float(any(hits[:10])), "all@10": float(sum(hits[:10]) == len(wanted))}
    found["mrr"] = next((1 / rank for rank, hit in enumerate(hits, start=1) if hit), 0.0)
    found["ndcg@10"] = dcg(hits, 10) / (dcg([True] * len(wanted), 10) or math.nan)
    return found if wanted else dict.fromkeys(found, math.nan)


def answer_f1(answer: str | None, expected: str | None) -> float:
    """Token F1 of two answers on folded words counted with repetition, in [0, 1]; NaN where one is missing, 1
    for two empty texts. Source: Rajpurkar et al. (2016), SQuAD.
    """
    if answer is None or expected is None:
        return math.nan
    given, wanted = Counter(words(answer)), Counter(words(expected))
    if not given or not wanted:
        return float(given == wanted)
    return 2 * (given & wanted).total() / (given.total() + wanted.total())


def answer_exact(answer: str | None, expected: str | None) -> float:
    """1 if both answers have the same folded words but for a, an, the, else 0; NaN where one is missing.
    Source: Rajpurkar et al. (2016), SQuAD.
    """
    if answer is None or expected is None:
        return math.nan
    given, wanted = ([w for w in words(text) if w not in ("a", "an", "the")] for text in (answer, expected))
    return float(given == wanted)


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
    wanted, given = ([set(phase) for phase in side if phase] for side in (gold, phases))
    union, target = (set[int]().union(*side) for side in (given, wanted))
    n, whole = len(wanted) or math.nan, set_score(union, target)
    from scipy.optimize import linear_sum_assignment

    overlap = np.array([len(g & p) for g in wanted for p in given]).reshape(len(wanted), len(given))
    met = [0] * len(wanted)
    for row, column in zip(*linear_sum_assignment(overlap, maximize=True), strict=True):
        met[row] = int(overlap[row, column])
    return ArcScore(
        whole.recall, whole.precision, sum(bool(g & union) for g in wanted) / n,
        sum(found > 0 for found in met) / n,
        sum(found / len(g) for found, g in zip(met, wanted, strict=True)) / n, len(given), len(union),
    )  # fmt: skip


def in_order(phases: Sequence[Collection[int]]) -> float:
    """Share of neighbouring phases whose mean position ascends, in [0, 1]; NaN for fewer than two."""
    centres = [sum(p) / len(p) for p in phases if p]
    if len(centres) < 2:
        return math.nan
    return sum(a < b for a, b in itertools.pairwise(centres)) / (len(centres) - 1)


def bucket(
    place: int, candidates: Collection[int], ranked: Collection[int], selected: Collection[int]
) -> str:
    """Where one gold message was lost, one of ``BUCKETS`` (never "unresolvable", which has no position)."""
    if place not in candidates:
        return "lost at candidates"
    if place not in ranked:
        return "lost at reranking"
    return "kept" if place in selected else "lost at selection"


def means(rows: Sequence[Mapping[str, float]], columns: Sequence[str]) -> dict[str, float]:
    """Mean of each column over the rows where it is defined; NaN where none is."""
    return {column: mean_defined(row[column] for row in rows) for column in columns}
