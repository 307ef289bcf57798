"""Overlap of user and system: concepts (CC, CR, slots), copied words (I), and the state that is stated."""

import math
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple, TypeVar

from crs_lib.core.text import ngrams
from crs_lib.metrics.base import HIGHER, LOWER, NEITHER, TURN, fact, metric
from crs_lib.metrics.records import Background, TurnRecord

T = TypeVar("T")
Weights = Sequence[float] | Mapping[int, float]  # by the code of a concept
BOTH_EMPTY = "no concept on either side"
_OVERLAP = "concept overlap (docs/metrics.md, section 2)"
_PENALTY = "copying penalty (docs/metrics.md, section 3)"
_COPYING = "copying without values (docs/metrics.md, section 3)"
_SLOTS = "dialogue-state tracking baseline"
_STATED = "dialogue-state accuracy (docs/metrics.md, section 4)"
_AGREEMENT_OF_NOTHING = {"skip": math.nan, "zero": 0.0, "one": 1.0}


def jaccard(user: Set[T], system: Set[T], *, empty: str = "skip") -> float:
    """|A∩B| / |A∪B| of two concept sets, in [0, 1]. Both empty: NaN with ``empty="skip"``, 0 with "zero", 1
    with "one" (the thesis's: silence agrees with silence).
    """
    if not user and not system:
        return _AGREEMENT_OF_NOTHING[empty]
    shared = len(user & system)
    return shared / (len(user) + len(system) - shared)


def idf_cosine(user: Set[int], system: Set[int], idf: Weights, *, empty: str = "skip") -> float:
    """Cosine of the idf-weighted presence vectors of two concept sets, in [0, 1]; 0 where one is empty. Both
    empty: NaN with ``empty="skip"``, else 0 (the thesis's).
    """
    if not user and not system:
        return math.nan if empty == "skip" else 0.0
    shared = user & system
    if not shared:
        return 0.0
    norms = _squares(user, idf) * _squares(system, idf)
    return _squares(shared, idf) / math.sqrt(norms)


def _squares(codes: Set[int], idf: Weights) -> float:
    """The sum of the squared weights; in the order of the codes, so that it is the same everywhere."""
    return sum(idf[code] ** 2 for code in sorted(codes))


class Agreement(NamedTuple):
    """Precision, recall and F1 of predicted concepts in [0, 1], and whether the sets are equal."""

    precision: float
    recall: float
    f1: float
    joint: float


_UNKNOWN = Agreement(math.nan, math.nan, math.nan, math.nan)


def agreement(gold: Set[int], predicted: Set[int]) -> Agreement:
    """Agreement of two concept sets; of nothing wanted all is recalled, and nothing predicted is precise."""
    shared = len(gold & predicted)
    precision = shared / len(predicted) if predicted else float(not gold)
    recall = shared / len(gold) if gold else 1.0
    f1 = 0.0
    if precision + recall:
        f1 = 2 * precision * recall / (precision + recall)
    return Agreement(precision, recall, f1, float(gold == predicted))


def _idf(background: Background) -> list[float]:
    weights: list[float] = background.concepts.idf.tolist()
    return weights


@metric("cross_coherence", "CC", TURN, 0, 1, HIGHER, _OVERLAP, gate=False, column=1)
def cross_coherence(turn: TurnRecord) -> float:
    """CC: Jaccard overlap of the concepts of utterance and reply, in [0, 1]; see :func:`jaccard`."""
    return jaccard(turn.user.concepts, turn.system.concepts, empty=turn.convention.empty)


@metric("context_retention", "CR", TURN, 0, 1, HIGHER, _OVERLAP, gate=False, column=2)
def context_retention(turn: TurnRecord) -> float:
    """CR: idf cosine of the concepts of utterance and reply, in [0, 1]; see :func:`idf_cosine`."""
    idf = turn.background.once(_idf)
    return idf_cosine(turn.user.concepts, turn.system.concepts, idf, empty=turn.convention.empty)


@fact("undefined", TURN, column=5)
def _undefined(turn: TurnRecord) -> str:
    """The reason why CC is undefined; empty where it is defined."""
    if math.isnan(turn.once(cross_coherence)):
        return BOTH_EMPTY
    return ""


@metric("missing_concepts", "missing", TURN, 0, math.inf, LOWER, _OVERLAP, averaged=False, column=19)
def _missing_concepts(turn: TurnRecord) -> list[str]:
    """The concepts of the utterance that the reply lacks, as sorted keys; the metric is their number."""
    missing = turn.user.concepts - turn.system.concepts
    return turn.background.concepts.keys(missing)


@metric("hallucinated_concepts", "added", TURN, 0, math.inf, NEITHER, _OVERLAP, averaged=False, column=20)
def _hallucinated_concepts(turn: TurnRecord) -> list[str]:
    """The concepts that only the reply names, as sorted keys; the metric is their number."""
    added = turn.system.concepts - turn.user.concepts
    return turn.background.concepts.keys(added)


@metric("slot_f1", "slot F1", TURN, 0, 1, HIGHER, _SLOTS, gate=False, column=6)
def _slot_f1(turn: TurnRecord) -> float:
    """F1 of the reply's concepts with the logged constraints (without a log the utterance's), in [0, 1]."""
    wanted = turn.constraints or turn.user.concepts
    return agreement(wanted, turn.system.concepts).f1


def copied_share(
    reply: Sequence[str],
    request: Sequence[str],
    orders: Sequence[int] = (3, 4),
    ignore: Set[str] = frozenset(),
) -> float:
    """Largest share of the reply's word n-grams that the request has too, in [0, 1]; 1 is pure echo, 0
    without words. Orders longer than the reply are left out, words in ``ignore`` taken out of both first.
    Source: grounded evaluation, the copying penalty I (docs/metrics.md, section 3).
    """
    if ignore:
        reply = _without(reply, ignore)
        request = _without(request, ignore)
    largest = 0.0
    for order in sorted(orders):
        own = ngrams(reply, order)
        shared = own.intersection(ngrams(request, order))
        if not shared:  # then no longer n-gram is shared either
            break
        largest = max(largest, len(shared) / len(own))
    return largest


def _without(words: Sequence[str], ignore: Set[str]) -> list[str]:
    return [word for word in words if word not in ignore]


@metric("topic_interference", "interference", TURN, 0, 1, LOWER, _PENALTY, gate=False, column=3)
def interference(turn: TurnRecord) -> float:
    """I: :func:`copied_share` of the reply, in [0, 1]."""
    return copied_share(turn.system.words, turn.user.words, turn.convention.copy_orders)


@metric("copying", "copying", TURN, 0, 1, LOWER, _COPYING, gate=False, column=14)
def copying_without_values(turn: TurnRecord) -> float:
    """:func:`copied_share` without the words of the catalogue values that either side names, in [0, 1]."""
    ignore: set[str] = set()
    for code in turn.user.concepts | turn.system.concepts:
        value = turn.background.concepts.key(code).split("=", 1)[1]
        ignore.update(value.split(" "))
    return copied_share(turn.system.words, turn.user.words, turn.convention.copy_orders, ignore)


def _stated_values(meta: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The state that a reply's log states: under ``state`` what a program or model said it understood, else
    under ``constraints`` what the system tracks; None where it states nothing.
    """
    if "state" in meta and isinstance(meta["state"], Mapping):
        return meta["state"]
    constraints = meta.get("constraints")
    if isinstance(constraints, Mapping) and (constraints or "state" in meta):
        return constraints
    return None


def _stated(turn: TurnRecord) -> Agreement:
    """The agreement of the stated state with the constraints; a value that the catalogue lacks is wrong."""
    values = _stated_values(turn.pair.system.meta)
    if values is None or not turn.constraints:
        return _UNKNOWN
    codes = turn.background.all_codes(values)
    stated = {code for code in codes if code is not None}
    stated.update(range(-codes.count(None), 0))
    return agreement(turn.constraints, stated)


@metric("state_f1", "state F1", TURN, 0, 1, HIGHER, _STATED, gate=False, column=17)
def _state_f1(turn: TurnRecord) -> float:
    """F1 of the stated values with the active constraints, in [0, 1].
    A value that the catalogue lacks is wrong. NaN where nothing is stated, and without constraints.
    """
    return turn.once(_stated).f1


@metric("state_joint", "state joint", TURN, 0, 1, HIGHER, _STATED, gate=False, column=18)
def _state_joint(turn: TurnRecord) -> float:
    """1 where the stated values are exactly the active constraints, else 0 (joint goal accuracy).
    NaN where nothing is stated, and without constraints.
    """
    return turn.once(_stated).joint
