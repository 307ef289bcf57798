"""F1 of multi-label decisions, with intervals over conversations."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.cosrec.records import INTENTS
from crs_lib.stats import bootstrap_estimates

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
