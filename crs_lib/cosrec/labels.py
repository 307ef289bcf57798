"""Which intents a user turn carries: by majority of the annotators, or by the curated list."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.cosrec.records import INTENTS, AnnotatedTurn, Partition
from crs_lib.stats import bootstrap_estimates


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


Floats = NDArray[np.float64]


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

    found = bootstrap_estimates(statistic, len(names), seed=seed)
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
