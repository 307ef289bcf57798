"""Can automatic signals tell how people rate a conversation? Always beside what raters could reach."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pandas as pd

from crs_lib.core.text import words
from crs_lib.cosrec.agreement import quality_agreement
from crs_lib.cosrec.records import Conversation, Partition
from crs_lib.cosrec.statistics import conversation_ratings
from crs_lib.stats import cluster_bootstrap_correlation


def signals(conversation: Conversation) -> dict[str, float]:
    """Facts of a conversation that need no rater: lengths, questions, repetition, form."""
    said = [u.text for u in conversation.utterances]
    tokens = [word for text in said for word in words(text)]
    user = [u.text for u in conversation.utterances if u.speaker == "U"]
    speakers = [u.speaker for u in conversation.utterances]
    pairs = list(pairwise(tokens))
    return {
        "lines": len(said),
        "words per line": len(tokens) / len(said),
        "questions by the user": sum("?" in text for text in user) / max(1, len(user)),
        "distinct words": len(set(tokens)) / max(1, len(tokens)),
        "distinct word pairs": len(set(pairs)) / max(1, len(pairs)),
        "repeated lines": 1 - len(set(said)) / len(said),
        "ends with the user": float(speakers[-1] == "U"),
        "same speaker twice": float(any(a == b for a, b in pairwise(speakers))),
    }


def signal_table(corpus: Mapping[str, Partition]) -> pd.DataFrame:
    """One row a rated conversation: partition, conversation, its mean ratings, one column a signal."""
    ratings = conversation_ratings(corpus)
    rows = [
        signals(corpus[p].conversations[c])
        for p, c in zip(ratings["partition"], ratings["conversation"], strict=True)
    ]
    return pd.concat([ratings, pd.DataFrame(rows)], axis=1)


def signal_correlations(table: pd.DataFrame, *, resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Spearman correlation in [-1, 1] of each signal with the mean rating, strongest first.

    Intervals of 95 % over conversations; NaN for a signal that does not vary.
    """
    first = list(table.columns).index("raters") + 1
    rows = []
    for name in table.columns[first:]:
        found = cluster_bootstrap_correlation(
            table, name, "average", scenario="conversation", resamples=resamples, seed=seed
        ).iloc[0]
        row = {"signal": name, "correlation": found["correlation"]}
        rows.append(row | {"low": found["low"], "high": found["high"], "n": int(found["n"])})
    frame = pd.DataFrame(rows)
    order = frame["correlation"].abs().fillna(-1).sort_values(ascending=False, kind="stable").index
    return frame.loc[order].reset_index(drop=True)


def noise_ceiling(corpus: Mapping[str, Partition], *, resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """The highest correlation with the mean rating that raters' own noise allows: sqrt of ICC(1,k).

    Beside it what one rater reaches against the others. A prediction above the ceiling fits noise.
    """
    found = quality_agreement(corpus, resamples=resamples, seed=seed)
    average = found[found["what"] == "average"].set_index("measure")
    rows = []
    for label, measure, root in (
        ("a perfect predictor", "ICC(1,k)", True),
        ("one rater", "one rater against the others", False),
    ):
        values = average.loc[measure, ["value", "low", "high"]].to_numpy(dtype=float)
        shown = np.sqrt(np.maximum(values, 0)) if root else values
        rows.append(
            {"ceiling": label, **dict(zip(("correlation", "low", "high"), shown.tolist(), strict=True))}
        )
    return pd.DataFrame(rows)
