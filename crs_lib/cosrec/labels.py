"""Which intents a user turn carries: by majority, by what types of annotators settle on, by the curated list.

Annotators see one conversation each and carry no name, so that a table of confusions for each of them
cannot be learned. Their types can: some call any stated constraint a search, most only a question for
knowledge. Each type has a table of confusions, learned from all conversations together with a classifier's
opinion of each turn.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.cosrec.records import INTENTS, AnnotatedTurn, Partition
from crs_lib.stats import Design, bootstrap_estimates

Floats = NDArray[np.float64]
_KINDS = len(INTENTS) + 1
_TYPES, _ROUNDS = 2, 10
_LEAST = 0.02  # of a classifier's share: none is impossible
_SEARCH, _ADVICE = INTENTS.index("search"), INTENTS.index("recommendation")


def shares(turn: AnnotatedTurn) -> dict[str, float]:
    """For each intent the share of annotators, in [0, 1], who gave it at least once; 0 without annotators."""
    n = max(1, len(turn.cells))
    return {kind: sum(any(need.type == kind for need in cell) for cell in turn.cells) / n for kind in INTENTS}


def majority_labels(partition: Partition) -> pd.DataFrame:
    """One row a user turn: 0/1 for each intent, given where more than half of the annotators gave it.

    ``recorded`` is False for a turn that the file leaves out: nobody saw an intent there, and all labels
    are 0. ``ties`` counts intents that exactly half gave; a tie is not a majority. ``annotators`` is
    missing for turns without record.
    """
    rows = []
    for name, conversation in partition.conversations.items():
        records = {record.turn: record for record in partition.annotations.get(name, ())}
        for turn in range(len(conversation.turns)):
            record = records.get(turn)
            given = shares(record) if record else dict.fromkeys(INTENTS, 0.0)
            rows.append(
                {
                    "conversation": name,
                    "turn": turn,
                    **{kind: int(share > 0.5) for kind, share in given.items()},
                    "recorded": record is not None,
                    "annotators": len(record.cells) if record else None,
                    "ties": sum(share == 0.5 for share in given.values()),
                }
            )
    return pd.DataFrame(rows).astype({"annotators": "Int64"})


def curated_labels(partition: Partition) -> pd.DataFrame:
    """One row a user turn: 0/1 for each intent, as the curated list has it."""
    rows = []
    for name, conversation in partition.conversations.items():
        kinds: dict[int, set[str]] = {}
        for intent in partition.intents.get(name, ()):
            kinds.setdefault(intent.turn, set()).add(intent.type)
        for turn in range(len(conversation.turns)):
            given = {kind: int(kind in kinds.get(turn, ())) for kind in INTENTS}
            rows.append({"conversation": name, "turn": turn, **given})
    return pd.DataFrame(rows)


def counts(truth: NDArray[np.int64], guess: NDArray[np.int64]) -> Floats:
    """(3 kinds of count, intents): true positives, false positives, false negatives."""
    cells = np.stack([truth * guess, (1 - truth) * guess, truth * (1 - guess)])
    return np.asarray(cells.sum(axis=1), dtype=float)


def f1(counts: Floats) -> Floats:
    """F1 from (3, …) counts; 0 where there is neither truth nor guess."""
    hits, wrong, missed = counts
    total = 2 * hits + wrong + missed
    return np.asarray(np.divide(2 * hits, total, out=np.zeros_like(total), where=total > 0))


def f1_table(
    conversations: pd.Series, truth: NDArray[np.int64], guess: NDArray[np.int64], seed: int = 0
) -> pd.DataFrame:
    """F1 of each intent, ``micro`` and ``macro``, in [0, 1], with intervals over conversations.

    BCa intervals of 95 %; ``n`` counts the turns that carry the intent.
    """
    codes, names = pd.factorize(conversations)
    table = np.stack([counts(truth[codes == c], guess[codes == c]) for c in range(len(names))])

    def statistic(weights: Floats) -> Floats:
        drawn = np.einsum("bc,cki->kbi", weights, table)
        each = f1(drawn)
        return np.column_stack([each, f1(drawn.sum(axis=2)), each.mean(axis=1)])

    found = bootstrap_estimates(statistic, len(names), Design(seed=seed))
    positives = truth.sum(axis=0).tolist()
    return pd.DataFrame(
        {
            "intent": [*INTENTS, "micro", "macro"],
            "f1": found.estimate,
            "low": found.low,
            "high": found.high,
            "n": [*positives, sum(positives), len(truth)],
        }
    )


class Settled(NamedTuple):
    """Shares of the four kinds a turn (turns, 4), annotators' types, and what a type calls each kind.

    ``types`` is (conversations, annotators, 2), the probability of each type; ``calls`` is (2, 4, 4): type,
    true kind, kind given; rows sum to 1. The second type starts as those who call an opening a search.
    """

    shares: Floats
    types: Floats
    calls: Floats


def settle(cast: Floats, codes: NDArray[np.intp], prior: Floats) -> Settled:
    """The kinds that votes and a classifier together make likely, by expectation and maximisation.

    ``cast`` (turns, annotators, 4) are votes, each of sum 1 over the intents and none, or 0 where there is
    no such annotator; ``codes`` number the turns' conversations from 0, the first row of each being its first
    turn; ``prior`` (turns, 4) is the classifier's opinion, made without the turn's own conversation.

    Source: Dawid and Skene (1979), Applied Statistics 28(1); with a classifier: Raykar et al. (2010), JMLR.
    """
    opinion = np.maximum(prior, _LEAST)
    opinion = np.log(opinion / opinion.sum(axis=1, keepdims=True))
    types, calls, rates = _begin(cast, codes)
    there = _summed(cast.sum(axis=2), codes) > 0
    for _ in range(_ROUNDS):
        given = np.einsum("nal,kyl->naky", cast, np.log(calls))
        mixed = np.einsum("naky,nak->nay", given, types[codes])
        evidence = opinion + mixed.sum(axis=1)
        shares = _softmax(evidence)
        others = _softmax(evidence[:, None] - mixed)  # without the annotator's own vote
        fits = np.log(np.einsum("nay,naky->nak", others, np.exp(given)))
        types = _softmax(_summed(fits, codes) + np.log(rates))
        calls = 1 + 3 * np.eye(_KINDS) + np.einsum("ny,nal,nak->kyl", shares, cast, types[codes])
        calls /= calls.sum(axis=2, keepdims=True)
        rates = 1 + types[there].sum(axis=0)
        rates /= rates.sum()
    return Settled(shares, types, calls)


def _begin(cast: Floats, codes: NDArray[np.intp]) -> tuple[Floats, Floats, Floats]:
    """Types by who calls the opening a search, tables of confusions that say so, equal rates."""
    first = np.unique(codes, return_index=True)[1]
    literal = cast[first][:, :, _SEARCH] > 0
    types = np.where(literal[:, :, None], [0.1, 0.9], [0.9, 0.1])
    calls = np.tile(np.full((_KINDS, _KINDS), 0.1) + 0.6 * np.eye(_KINDS), (_TYPES, 1, 1))
    calls[1, _ADVICE] = 0.05
    calls[1, _ADVICE, [_SEARCH, _ADVICE]] = 0.5, 0.4
    return types, calls, np.full(_TYPES, 1 / _TYPES)


def _summed(rows: Floats, codes: NDArray[np.intp]) -> Floats:
    """Sums of rows by conversation."""
    out = np.zeros((int(codes.max()) + 1, *rows.shape[1:]))
    np.add.at(out, codes, rows)
    return out


def _softmax(logarithms: Floats) -> Floats:
    out = np.exp(logarithms - logarithms.max(axis=-1, keepdims=True))
    made: Floats = out / out.sum(axis=-1, keepdims=True)
    return made
