"""Which intents a user turn carries: by majority of the annotators, or by the curated list."""

import pandas as pd

from crs_lib.cosrec.records import INTENTS, AnnotatedTurn, Partition


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
