"""Intents of a user turn: search, recommendation, product details; models that learn them, and scores.

Models learn from the crowd partition only and see nothing of the future of a conversation: the user's
words, the system's turn before, how many turns there were. A turn may carry several intents or none.
"""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.core.tables import write_jsonl
from crs_lib.cosrec.corpus import read_partition
from crs_lib.cosrec.labels import Floats, counts, curated_labels, f1, f1_table, majority_labels
from crs_lib.cosrec.records import INTENTS, Partition

_FOLDS = 5
ROUTER = "annotators"
VECTORS = ("auto", "none", "minilm", "gte-small", "minilm+gte-small")
GRID = np.round(np.arange(0.1, 0.9, 0.02), 2)


def turns(partition: Partition) -> pd.DataFrame:
    """One row a user turn: conversation, turn, user's text, the system's text before it ("" at first)."""
    rows = []
    for name, conversation in partition.conversations.items():
        for turn, i in enumerate(conversation.turns):
            before = conversation.utterances[i - 1].text if i else ""
            rows.append((name, turn, conversation.utterances[i].text, before))
    return pd.DataFrame(rows, columns=["conversation", "turn", "user", "system"])


class Training(NamedTuple):
    """The data that a model learns from: the turns, 0/1 labels (n, 3), and the annotators' views (n, 4).

    A view row is a distribution over the three intents and none: each annotator splits one vote among
    the intents they gave. ``weighted`` is the same with votes weighted by how far an annotator agrees with
    the others of the conversation, ``given`` (n, 3) the weighted part of the annotators who gave each intent.
    ``votes`` (n, annotators, 4) are the votes themselves, 0 where a conversation has fewer annotators.
    """

    turns: pd.DataFrame
    labels: NDArray[np.int64]
    views: Floats
    weighted: Floats
    given: Floats
    votes: Floats

    def take(self, rows: NDArray[np.intp]) -> "Training":
        """The training data of some rows."""
        return Training(self.turns.iloc[rows], self.labels[rows], *(part[rows] for part in self[2:]))


def training(crowd: Partition) -> Training:
    """Every user turn of the crowd partition; a turn without record is a turn in which all saw none.

    InputError where no annotator names an intent in any turn.
    """
    if not any(
        kinds for records in crowd.annotations.values() for record in records for kinds in record.cells
    ):
        raise InputError(
            f"no annotator of {crowd.name!r} names an intent in any turn; there is nothing to learn from"
        )
    frame = turns(crowd)
    labels = majority_labels(crowd)[list(INTENTS)].to_numpy(dtype=np.int64)
    parts = [votes(crowd, name) for name in crowd.conversations]
    most = max(part.shape[1] for part in parts)
    return Training(
        frame,
        labels,
        np.concatenate([part.mean(axis=1) for part in parts]),
        np.concatenate([np.einsum("tac,a->tc", part, trust(part)) for part in parts]),
        np.concatenate([np.einsum("tac,a->tc", (part[:, :, :-1] > 0), trust(part)) for part in parts]),
        np.concatenate([np.pad(part, ((0, 0), (0, most - part.shape[1]), (0, 0))) for part in parts]),
    )


def votes(crowd: Partition, name: str) -> Floats:
    """(turns, annotators, 4): each annotator's vote, split among the intents they gave, or none.

    A turn without record counts as none by all. A record with fewer annotators than other records of the
    conversation repeats its first ones.
    """
    records = {record.turn: record for record in crowd.annotations.get(name, ())}
    n = max([1, *(len(record.cells) for record in records.values())])
    out = np.zeros((len(crowd.conversations[name].turns), n, len(INTENTS) + 1))
    for turn in range(len(out)):
        cells = records[turn].cells if turn in records and records[turn].cells else ((),)
        for annotator in range(n):
            kinds = {label.type for label in cells[annotator % len(cells)]}
            for kind in kinds:
                out[turn, annotator, INTENTS.index(kind)] = 1 / len(kinds)
            out[turn, annotator, -1] = not kinds
    return out


def trust(cast: Floats) -> Floats:
    """Weights of a conversation's annotators, of sum 1: the square of how far the others agree with them.

    Agreement is the mean share of a vote that the other annotators' weighted vote has in common with it;
    three rounds from equal weights.
    """
    n = cast.shape[1]
    weights = np.full(n, 1 / n)
    for _ in range(3 if n > 1 else 0):
        all_of = np.einsum("tac,a->tc", cast, weights)
        others = (all_of[:, None] - weights[:, None] * cast) / np.maximum(1 - weights[:, None], 1e-9)
        weights = np.maximum((cast * others).sum(axis=2).mean(axis=0), 0.02) ** 2
        weights /= weights.sum()
    return np.asarray(weights)


class IntentModel(Protocol):
    """Learns from turns and labels; gives a score in [0, 1] for each turn and intent, and decisions."""

    def fit(self, data: Training) -> "IntentModel":
        """Learn; returns itself."""

    def scores(self, frame: pd.DataFrame) -> Floats:
        """(turns, 3) scores in [0, 1]."""

    def predict(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """(turns, 3) of 0 and 1."""


MODELS: Registry[IntentModel] = Registry("intent model", room="crs_lib.cosrec")


def position_features(frame: pd.DataFrame) -> Floats:
    """(turns, 9): where the turn stands, and the plainest facts of its form."""
    user, system = frame["user"], frame["system"]
    columns = [
        frame["turn"] / 5,
        frame["turn"] == 0,
        frame["turn"] == 1,
        frame["turn"] == 2,
        user.str.contains("?", regex=False),
        user.str.count(r"\?"),
        system.str.contains("?", regex=False),
        user.str.split().str.len() / 20,
        user.str.contains(r"\bthank", case=False),
    ]
    return np.stack([column.to_numpy(dtype=float) for column in columns], axis=1)


def vectorizers(system: float, rare: int, characters: float) -> list[tuple[str, float, Any]]:
    """TF-IDF of the user's words, the system's and the user's characters: column, weight, vectorizer.

    ``rare`` is the fewest turns that a word of the system must stand in.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    shared: dict[str, Any] = {"sublinear_tf": True, "dtype": np.float64}
    return [
        ("user", 1.0, TfidfVectorizer(ngram_range=(1, 2), min_df=2, **shared)),
        ("system", system, TfidfVectorizer(ngram_range=(1, 2), min_df=rare, **shared)),
        ("user", characters, TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), min_df=3, **shared)),
    ]


def grouped_folds(groups: NDArray[Any]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows to learn from and rows held out, conversations together; InputError for one conversation alone."""
    from sklearn.model_selection import GroupKFold

    folds = min(_FOLDS, len(set(groups.tolist())))
    if folds < 2:
        raise InputError("the intent model needs turns of at least two conversations to learn from")
    return list(GroupKFold(folds).split(groups, groups=groups))


@MODELS.register("views")
class Views:
    """Words and position; learns every annotator's view (softmax over the intents and none), own thresholds.

    Thresholds are those with the best F1 on out-of-fold scores of the training conversations. Learning
    from views and not from the majority keeps what annotators were unsure of.
    """

    def fit(self, data: Training) -> "Views":
        """Learn the softmax and, from grouped folds, the thresholds."""
        self._thresholds = self._choose(data)
        self._softmax(data)
        return self

    def _features(self, frame: pd.DataFrame, *, fit: bool = False) -> Any:
        """Sparse TF-IDF of the turn and the system's turn before it, beside the position features."""
        from scipy import sparse

        if fit:
            self._words = vectorizers(system=0.5, rare=3, characters=0.7)
        blocks = [
            weight * (vectorizer.fit_transform if fit else vectorizer.transform)(frame[column])
            for column, weight, vectorizer in self._words
        ]
        return sparse.hstack([*blocks, sparse.csr_array(position_features(frame))]).tocsr()

    def _softmax(self, data: Training) -> None:
        from scipy import sparse
        from sklearn.linear_model import LogisticRegression

        x, weights = self._features(data.turns, fit=True), data.views.T.ravel()
        y = np.repeat(np.arange(data.views.shape[1]), len(data.turns))
        kept = weights > 0
        stacked = sparse.vstack([x] * data.views.shape[1]).tocsr()[kept]
        model = LogisticRegression(C=1.0, max_iter=1000, tol=1e-4)
        self._model = model.fit(stacked, y[kept], sample_weight=weights[kept])

    def _choose(self, data: Training) -> Floats:
        found = np.zeros(data.labels.shape)
        for train, test in grouped_folds(data.turns["conversation"].to_numpy()):
            inner = Views()
            inner._softmax(data.take(train))
            found[test] = inner.scores(data.turns.iloc[test])
        found_counts = np.stack([counts(data.labels, (found > level).astype(np.int64)) for level in GRID])
        return np.array([GRID[f1(found_counts[:, :, j].T).argmax()] for j in range(len(INTENTS))])

    def scores(self, frame: pd.DataFrame) -> Floats:
        """Share of annotators expected to give each intent."""
        probability = self._model.predict_proba(self._features(frame))
        out = np.zeros((len(frame), len(INTENTS) + 1))
        out[:, self._model.classes_] = probability
        return out[:, :-1]

    def predict(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """1 where the score exceeds the intent's threshold."""
        return (self.scores(frame) > self._thresholds).astype(np.int64)


def made(name: str, vectors: str = "auto") -> IntentModel:
    """A model by name; ``vectors`` names the encoders that it may use, one of ``VECTORS``."""
    entry = MODELS.get(name)
    if not entry.facts.get("vectors") or vectors == "auto":
        return entry.make()
    return entry.make(() if vectors == "none" else tuple(vectors.split("+")))


_LEARNED: dict[tuple[object, ...], IntentModel] = {}


def learned(crowd: Partition, name: str, vectors: str = "auto", data: Training | None = None) -> IntentModel:
    """A model trained on the crowd partition, whose training data may be given; once a process."""
    key = (MODELS.get(name).make, vectors, *sorted(crowd.hashes.items()))
    if not crowd.hashes or key not in _LEARNED:
        _LEARNED[key] = made(name, vectors).fit(data or training(crowd))
    return _LEARNED[key]


def compare(
    crowd: Partition,
    curated: Partition,
    models: tuple[str, ...] = (),
    seed: int = 0,
    vectors: str = "auto",
) -> pd.DataFrame:
    """Models trained on the crowd and scored on the curated partition: model, intent, f1, low, high, n."""
    data, frame = training(crowd), turns(curated)
    truth = curated_labels(curated)[list(INTENTS)].to_numpy(dtype=np.int64)
    tables = []
    for name in models or MODELS.names():
        guess = learned(crowd, name, vectors, data).predict(frame)
        tables.append(f1_table(frame["conversation"], truth, guess, seed).assign(model=name))
    found = pd.concat(tables, ignore_index=True)
    return found[["model", "intent", "f1", "low", "high", "n"]]


def predict_files(train: Path, test: Path, out: Path, model: str = "", seed: int = 0) -> pd.DataFrame | None:
    """Train on one partition's folder, predict another's, and write one line a user turn to ``out``.

    A line holds conversation, turn, the predicted intents and the score of each intent. Returns the F1 table
    where the tested partition has intents, else None. Raises InputError where the training partition has no
    annotations.
    """
    known, asked = read_partition(train), read_partition(test)
    if not known.annotations:
        raise InputError(f"{train.name!r} has no intent_annotations.jsonl to learn from; train on crowd")
    if shared := sorted(set(known.conversations) & set(asked.conversations)):
        raise InputError(
            f"{len(shared)} conversations stand in {train.name!r} and in {test.name!r}, the first is "
            f"{shared[0]!r}; a model is tested on conversations that it did not learn from"
        )
    name, frame = model or ROUTER, turns(asked)
    fitted = MODELS.create(name).fit(training(known))
    scores, guess = fitted.scores(frame), fitted.predict(frame)
    keys = zip(frame["conversation"], frame["turn"], strict=True)
    rows = (
        {
            "conversation": talk,
            "turn": int(turn),
            "intents": [kind for kind, on in zip(INTENTS, said, strict=True) if on],
            "probabilities": {k: round(float(s), 4) for k, s in zip(INTENTS, given, strict=True)},
        }
        for (talk, turn), said, given in zip(keys, guess.tolist(), scores, strict=True)
    )
    write_jsonl(out, rows)
    if not asked.intents:
        return None
    truth = curated_labels(asked)[list(INTENTS)].to_numpy(dtype=np.int64)
    return f1_table(frame["conversation"], truth, guess, seed).assign(model=name)
