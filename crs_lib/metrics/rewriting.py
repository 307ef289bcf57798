"""Is a rewritten query the wanted one? ROUGE, BLEU and chrF against one or several references.

All work on the folded words of :mod:`crs_lib.core.text`, so case and punctuation do not matter. Scores are
in [0, 1]. With several references a candidate is held against the closest one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from math import exp, log
from typing import Any

from crs_lib.core.errors import InputError
from crs_lib.core.text import fold, words

_References = Sequence[str]


def _need(references: _References) -> None:
    if not references:
        raise InputError("no reference given; a candidate needs at least one")


def _grams(items: Sequence[Any], order: int) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(items[i : i + order]) for i in range(len(items) - order + 1))


def _f1(overlap: int, candidate: int, reference: int) -> float:
    return 2 * overlap / (candidate + reference) if candidate + reference else 0.0


def rouge_n(candidate: str, references: _References, order: int = 1) -> float:
    """F1 of word n-grams, best reference, in [0, 1]; 0 where one side has none. Source: Lin (2004)."""
    _need(references)
    ours = _grams(words(candidate), order)
    scores = []
    for reference in references:
        theirs = _grams(words(reference), order)
        scores.append(_f1(sum((ours & theirs).values()), ours.total(), theirs.total()))
    return max(scores)


def rouge_l(candidate: str, references: _References) -> float:
    """F1 of the longest common subsequence of words, best reference, in [0, 1]. Source: Lin (2004)."""
    _need(references)
    ours = words(candidate)
    return max(_f1(_common(ours, theirs), len(ours), len(theirs)) for theirs in map(words, references))


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence."""
    row = [0] * (len(b) + 1)
    for item in a:
        before = 0
        for j, other in enumerate(b, start=1):
            before, row[j] = row[j], before + 1 if item == other else max(row[j], row[j - 1])
    return row[-1]


def bleu(candidates: Sequence[str], references: Sequence[_References]) -> float:
    """Corpus BLEU-4 in [0, 1]: clipped n-gram precisions, geometric mean, brevity penalty.

    Precisions of 0 are smoothed by halving (NIST, sacrebleu's ``exp``); orders that no candidate is long
    enough for count as 0. Equal to sacrebleu on the same tokens. Source: Papineni et al. (2002); Post (2018).
    """
    matches, totals, ours, closest = [0] * 4, [0] * 4, 0, 0
    for candidate, allowed in zip(candidates, references, strict=True):
        _need(allowed)
        tokens, others = words(candidate), [words(reference) for reference in allowed]
        ours += len(tokens)
        closest += min((abs(len(other) - len(tokens)), len(other)) for other in others)[1]
        for n in range(4):
            most: Counter[tuple[str, ...]] = Counter()
            for other in others:
                most |= _grams(other, n + 1)
            grams = _grams(tokens, n + 1)
            matches[n] += (grams & most).total()
            totals[n] += grams.total()
    return _bleu(matches, totals, ours, closest)


def _bleu(matches: Sequence[int], totals: Sequence[int], ours: int, closest: int) -> float:
    if not all(totals) or not any(matches):
        return 0.0
    smooth, logs = 1.0, 0.0
    for match, total in zip(matches, totals, strict=True):
        if match == 0:
            smooth *= 2
        logs += log(match / total if match else 1 / (smooth * total))
    return (1.0 if ours >= closest else exp(1 - closest / ours)) * exp(logs / 4)


def chrf(candidate: str, references: _References, order: int = 6, beta: float = 2.0) -> float:
    """Character n-gram F-score (chrF2) in [0, 1], blanks left out, best reference.

    Precision and recall are averaged over the orders that both texts are long enough for. Equal to
    sacrebleu's sentence chrF on folded text. Source: Popović (2015), WMT.
    """
    _need(references)
    ours = fold(candidate).replace(" ", "")
    return max(_chrf(ours, fold(reference).replace(" ", ""), order, beta) for reference in references)


def _chrf(ours: str, theirs: str, order: int, beta: float) -> float:
    precision = recall = orders = 0.0
    for n in range(1, order + 1):
        a, b = _grams(ours, n), _grams(theirs, n)
        if not a or not b:
            continue
        overlap = (a & b).total()
        precision, recall, orders = precision + overlap / a.total(), recall + overlap / b.total(), orders + 1
    if not precision or not recall:
        return 0.0
    precision, recall = precision / orders, recall / orders
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


SENTENCE: dict[str, Callable[[str, _References], float]] = {
    "rouge1": lambda candidate, references: rouge_n(candidate, references, 1),
    "rouge2": lambda candidate, references: rouge_n(candidate, references, 2),
    "rougeL": rouge_l,
    "chrF": chrf,
}
