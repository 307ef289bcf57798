"""Is a rewritten query the wanted one? ROUGE, BLEU and chrF in [0, 1] against the closest reference."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import exp, log
from operator import or_
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


def _rouge_n(candidate: str, references: _References, order: int = 1) -> float:
    """F1 of word n-grams, best reference, in [0, 1]; 0 where one side has none. Source: Lin (2004)."""
    _need(references)
    ours, every = _grams(words(candidate), order), [_grams(words(text), order) for text in references]
    return max(_f1((ours & theirs).total(), ours.total(), theirs.total()) for theirs in every)


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
    """Corpus BLEU-4 in [0, 1]: clipped n-gram precisions, geometric mean, brevity penalty; precisions of 0
    are smoothed by halving (NIST). Equal to sacrebleu (Post 2018). Source: Papineni et al. (2002).
    """
    matches, totals, ours, closest = [0] * 4, [0] * 4, 0, 0
    for candidate, allowed in zip(candidates, references, strict=True):
        _need(allowed)
        tokens, others = words(candidate), [words(reference) for reference in allowed]
        ours += len(tokens)
        closest += min((abs(len(other) - len(tokens)), len(other)) for other in others)[1]
        for n in range(4):
            grams, most = _grams(tokens, n + 1), reduce(or_, (_grams(other, n + 1) for other in others))
            matches[n] += (grams & most).total()
            totals[n] += grams.total()
    if not all(totals) or not any(matches):
        return 0.0
    smooth, logs = 1.0, 0.0
    for match, total in zip(matches, totals, strict=True):
        if match == 0:
            smooth *= 2
        logs += log(match / total if match else 1 / (smooth * total))
    return (1.0 if ours >= closest else exp(1 - closest / ours)) * exp(logs / 4)


def chrf(candidate: str, references: _References) -> float:
    """Character n-gram F-score (chrF2) in [0, 1], blanks left out, best reference; over the orders that both
    texts are long enough for. Equal to sacrebleu's on folded text. Source: Popović (2015), WMT.
    """
    _need(references)
    ours = fold(candidate).replace(" ", "")
    return max(_chrf(ours, fold(reference).replace(" ", "")) for reference in references)


def _chrf(ours: str, theirs: str) -> float:
    pairs = [(_grams(ours, n), _grams(theirs, n)) for n in range(1, 7)]
    shares = [((a & b).total() / a.total(), (a & b).total() / b.total()) for a, b in pairs if a and b]
    if not any(precision for precision, _ in shares):
        return 0.0
    precision, recall = (float(sum(side)) / len(shares) for side in zip(*shares, strict=True))
    return 5 * precision * recall / (4 * precision + recall)  # recall counts twice as much


SENTENCE: dict[str, Callable[[str, _References], float]] = {
    "rouge1": _rouge_n, "rouge2": partial(_rouge_n, order=2), "rougeL": rouge_l, "chrF": chrf,
}  # fmt: skip
