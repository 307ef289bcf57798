"""Is a rewritten query the wanted one? ROUGE, BLEU and chrF in [0, 1] against the closest reference."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from crs_lib.core.errors import InputError
from crs_lib.core.text import fold, words

References = Sequence[str]
_BLEU_ORDERS = (1, 2, 3, 4)
_CHRF_ORDERS = (1, 2, 3, 4, 5, 6)


def _need(references: References) -> None:
    if not references:
        raise InputError("no reference given; a candidate needs at least one")


def _grams(items: Sequence[Any], order: int) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(items[start : start + order]) for start in range(len(items) - order + 1))


def _f1(overlap: int, candidate: int, reference: int) -> float:
    return 2 * overlap / (candidate + reference) if candidate + reference else 0.0


def rouge_n(candidate: str, references: References, order: int = 1) -> float:
    """F1 of word n-grams, best reference, in [0, 1]; 0 where one side has none. Source: Lin (2004)."""
    _need(references)
    ours = _grams(words(candidate), order)
    best = 0.0
    for reference in references:
        theirs = _grams(words(reference), order)
        best = max(best, _f1((ours & theirs).total(), ours.total(), theirs.total()))
    return best


def rouge_2(candidate: str, references: References) -> float:
    """:func:`rouge_n` of pairs of words."""
    return rouge_n(candidate, references, 2)


def rouge_l(candidate: str, references: References) -> float:
    """F1 of the longest common subsequence of words, best reference, in [0, 1]. Source: Lin (2004)."""
    _need(references)
    ours = words(candidate)
    best = 0.0
    for reference in references:
        theirs = words(reference)
        best = max(best, _f1(_common(ours, theirs), len(ours), len(theirs)))
    return best


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    lengths = [0] * (len(second) + 1)
    for item in first:
        diagonal = 0
        for column, other in enumerate(second, start=1):
            above = lengths[column]
            lengths[column] = diagonal + 1 if item == other else max(above, lengths[column - 1])
            diagonal = above
    return lengths[-1]


def bleu(candidates: Sequence[str], references: Sequence[References]) -> float:
    """Corpus BLEU-4 in [0, 1]: clipped n-gram precisions, geometric mean, brevity penalty; precisions of 0
    are smoothed by halving (NIST). Equal to sacrebleu (Post 2018). Source: Papineni et al. (2002).
    """
    matches, totals = Counter[int](), Counter[int]()
    length, closest = 0, 0
    for candidate, allowed in zip(candidates, references, strict=True):
        _need(allowed)
        ours = words(candidate)
        others = [words(reference) for reference in allowed]
        length += len(ours)
        closest += min((len(other) for other in others), key=lambda n: (abs(n - len(ours)), n))
        for order in _BLEU_ORDERS:
            grams = _grams(ours, order)
            most: Counter[tuple[Any, ...]] = Counter()
            for other in others:
                most |= _grams(other, order)
            matches[order] += (grams & most).total()
            totals[order] += grams.total()
    if not all(totals[order] for order in _BLEU_ORDERS) or not any(matches.values()):
        return 0.0
    brevity = 1.0 if length >= closest else math.exp(1 - closest / length)
    return brevity * math.exp(_log_precisions(matches, totals) / len(_BLEU_ORDERS))


def _log_precisions(matches: Counter[int], totals: Counter[int]) -> float:
    """The sum of the logarithms of the precisions; of 0 a half, then a quarter of one match, and so on."""
    smooth, logs = 1.0, 0.0
    for order in _BLEU_ORDERS:
        if matches[order]:
            logs += math.log(matches[order] / totals[order])
        else:
            smooth *= 2
            logs += math.log(1 / (smooth * totals[order]))
    return logs


def chrf(candidate: str, references: References) -> float:
    """Character n-gram F-score (chrF2) in [0, 1], blanks left out, best reference; over the orders that both
    texts are long enough for. Equal to sacrebleu's on folded text. Source: Popović (2015), WMT.
    """
    _need(references)
    ours = fold(candidate).replace(" ", "")
    return max(_chrf(ours, fold(reference).replace(" ", "")) for reference in references)


def _chrf(ours: str, theirs: str) -> float:
    precision, recall, orders = 0.0, 0.0, 0
    for order in _CHRF_ORDERS:
        first, second = _grams(ours, order), _grams(theirs, order)
        if first and second:
            shared = (first & second).total()
            precision += shared / first.total()
            recall += shared / second.total()
            orders += 1
    if not precision:
        return 0.0
    precision /= orders
    recall /= orders
    return 5 * precision * recall / (4 * precision + recall)  # recall counts twice as much


SENTENCE: dict[str, Callable[[str, References], float]] = {
    "rouge1": rouge_n,
    "rouge2": rouge_2,
    "rougeL": rouge_l,
    "chrF": chrf,
}
