"""Can automatic signals tell how people rate a conversation? Always beside what raters could reach."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.core.text import words
from crs_lib.cosrec.audit import conversation_ratings
from crs_lib.cosrec.labels import quality_agreement
from crs_lib.cosrec.records import Conversation, Partition
from crs_lib.stats import Design, cluster_bootstrap_correlation


def _signals(conversation: Conversation) -> dict[str, float]:
    """Facts of a conversation that need no rater: lengths, questions, repetition, form."""
    said, user = conversation.texts(), conversation.texts("U")
    speakers = [one.speaker for one in conversation.utterances]
    tokens = [word for text in said for word in words(text)]
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


def _further_signals(conversation: Conversation) -> dict[str, float]:
    """Signals that only the prediction uses: lengths, variety by length, shares of each speaker, marks."""
    said, user, system = (conversation.texts(who) for who in ("US", "U", "S"))
    system = system or [""]
    tokens = [word for text in said for word in words(text)] or [""]
    lengths = [len(words(text)) for text in user] or [0]
    return {
        "user words": float(np.mean(lengths)),
        "system words": float(np.mean([len(words(text)) for text in system])),
        "distinct words by root of length": len(set(tokens)) / np.sqrt(len(tokens)),
        "log words": float(np.log(len(tokens))),
        "questions by the system": float(np.mean(["?" in text for text in system])),
        "thanks": float(any("thank" in text.lower() for text in user[-2:])),
        "exclamations": float(np.mean([text.count("!") for text in said])),
        "short user lines": float(np.mean([n < 6 for n in lengths])),
        "last user words": float(lengths[-1]),
        "system lines with numbers": float(np.mean([any(c.isdigit() for c in text) for text in system])),
        "capitals of the system": float(np.mean([_capitals(text) for text in system])),
        "lines with marks": float(np.mean(["..." in t or "*" in t or "[" in t for t in said])),
    }


def _capitals(text: str) -> float:
    """Share of words in [0, 1], the first left out, that begin with a capital."""
    parts = text.split()
    return sum(part[:1].isupper() for part in parts[1:]) / max(1, len(parts))


def _learn(partition: Partition) -> Any:
    """A model of how raters order conversations: support vectors on the ranks of signals.

    It learns the rank of the mean rating, in [0, 1]. All its settings were chosen by folds of crowd, ranks in
    place of values since they carry over better to conversations of another length. InputError for fewer than
    two rated conversations.
    """
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import QuantileTransformer, StandardScaler
    from sklearn.svm import SVR

    rated = conversation_ratings({partition.name: partition})
    if len(rated) < 2:
        raise InputError("a quality model needs at least two rated conversations to learn from")
    ranks = rated["average"].rank().to_numpy() / len(rated)
    steps = QuantileTransformer(n_quantiles=min(50, len(rated))), StandardScaler()
    talks = [partition.conversations[name] for name in rated["conversation"]]
    return make_pipeline(*steps, SVR(C=0.1, gamma=0.03)).fit(_signal_rows(talks), ranks)


def _signal_rows(conversations: Iterable[Conversation]) -> NDArray[np.float64]:
    return np.array([[*_signals(talk).values(), *_further_signals(talk).values()] for talk in conversations])


def predicted_quality(crowd: Partition, curated: Partition, **draws: Any) -> pd.DataFrame:
    """Spearman correlation with the mean rating, of the model and of the share of distinct words alone.

    The third row of a partition, ``model - distinct words``, is their difference in the same draws. On crowd
    out of ten folds, on curated by the model that learned from all of crowd; 95 % intervals over
    conversations; ``both`` takes these predictions together. A partition without ratings has no rows.
    """
    from sklearn.model_selection import KFold

    parts = []
    for partition in (crowd, curated):
        rated = conversation_ratings({partition.name: partition})
        talks = [partition.conversations[name] for name in rated["conversation"]]
        if len(rated) < 3:
            continue
        if partition is curated:
            guess = _learn(crowd).predict(_signal_rows(talks))
        else:
            guess = np.zeros(len(rated))
            folds = KFold(min(10, len(rated)), shuffle=True, random_state=draws.get("seed", 0))
            for train, test in folds.split(guess):
                known = {name: partition.ratings[name] for name in rated["conversation"].iloc[train]}
                model = _learn(replace(partition, ratings=known))
                guess[test] = model.predict(_signal_rows(talks[i] for i in test))
        words_alone = [_signals(talk)["distinct words"] for talk in talks]
        parts.append(rated.assign(**{"model": guess, "distinct words": words_alone}))
    tables = []
    for table in [*parts, *([pd.concat(parts, ignore_index=True)] if len(parts) > 1 else [])]:
        held = "both" if len(set(table["partition"])) > 1 else table["partition"].iloc[0]
        for name, minus in (("model", ""), ("distinct words", ""), ("model", "distinct words")):
            shown = f"{name} - {minus}" if minus else name
            tables.append([held, shown, *_correlation(table, name, draws, minus)])
    return pd.DataFrame(tables, columns=["partition", "predictor", "correlation", "low", "high", "n"])


def signal_table(corpus: Mapping[str, Partition]) -> pd.DataFrame:
    """One row a rated conversation: partition, conversation, its mean ratings, one column a signal."""
    ratings = conversation_ratings(corpus)
    talks = [corpus[row.partition].conversations[row.conversation] for row in ratings.itertuples()]
    return pd.concat([ratings, pd.DataFrame(map(_signals, talks))], axis=1)


def _correlation(table: pd.DataFrame, column: str, draws: Mapping[str, Any], minus: str = "") -> list[Any]:
    """Spearman correlation of a column with the mean rating, its interval, and how many conversations."""
    design = Design(scenario="conversation", **draws)
    found = cluster_bootstrap_correlation(table, column, "average", design, minus=minus).iloc[0]
    return [found["correlation"], found["low"], found["high"], int(found["n"])]


def signal_correlations(table: pd.DataFrame, **draws: Any) -> pd.DataFrame:
    """Spearman correlation in [-1, 1] of each signal with the mean rating, strongest first.

    Intervals of 95 % over conversations; NaN for a signal that does not vary.
    """
    first = list(table.columns).index("raters") + 1
    rows = [[name, *_correlation(table, name, draws)] for name in table.columns[first:]]
    frame = pd.DataFrame(rows, columns=["signal", "correlation", "low", "high", "n"])
    order = frame["correlation"].abs().fillna(-1).sort_values(ascending=False, kind="stable").index
    return frame.loc[order].reset_index(drop=True)


def noise_ceiling(corpus: Mapping[str, Partition], **draws: Any) -> pd.DataFrame:
    """The highest correlation with the mean rating that raters' own noise allows: sqrt of ICC(1,k).

    Beside it what one rater reaches against the others. A prediction above the ceiling fits noise; the
    ceiling is 0 where the means of conversations differ by no more than noise. One row a partition and
    ceiling, and, of several partitions, ``both`` first: all conversations together.
    """
    parts = {name: {name: partition} for name, partition in corpus.items()}
    rows = []
    for held, part in ({"both": dict(corpus)} | parts if len(corpus) > 1 else parts).items():
        found = quality_agreement(part, **draws)
        average = found[found["what"] == "average"].set_index("measure")[["value", "low", "high"]]
        perfect = np.sqrt(np.maximum(average.loc["ICC(1,k)"].to_numpy(dtype=float), 0))
        rows.append([held, "a perfect predictor", *perfect.tolist()])
        rows.append([held, "one rater", *average.loc["one rater against the others"].astype(float)])
    return pd.DataFrame(rows, columns=["partition", "ceiling", "correlation", "low", "high"])
