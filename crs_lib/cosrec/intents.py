"""Intents of a user turn: search, recommendation, product details; models that learn them, and scores.

Models learn from the crowd partition only and see nothing of the future of a conversation: the user's
words, the system's turn before, how many turns there were. A turn may carry several intents or none.

Both models are a softmax over the three intents and none, learned from shares and not from labels: for each
turn, how likely each intent and none are. They differ in the shares. ``views`` takes the annotators' votes as
they are. The router ``annotators`` takes what the votes settle on, given the annotators' types
(:func:`crs_lib.cosrec.labels.settle`), and also sees cues of the turn.
"""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core import paths, prompts
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.core.tables import write_jsonl
from crs_lib.cosrec import corpus
from crs_lib.cosrec.labels import (
    Floats,
    Labels,
    agreed,
    counts,
    curated_labels,
    f1,
    f1_table,
    grouped_folds,
    majority_labels,
    settle,
    trust,
    votes_of,
)
from crs_lib.cosrec.records import INTENTS, Partition, balance
from crs_lib.retrieval import encoders

ROUTER = "annotators"
VECTORS = ("auto", "none", "minilm", "gte-small", "minilm+gte-small")
_KINDS = len(INTENTS) + 1
_LEVELS = np.round(np.arange(0.1, 0.9, 0.02), 2)  # that are tried
_LEAST = 0.001  # a smaller share counts as none: it would cost a row and teach nothing


def turns(partition: Partition) -> pd.DataFrame:
    """One row a user turn: conversation, turn, user's text, the system's text before it ("" at first)."""
    rows = []
    for talk, turn in partition.user_turns():
        rows.append((talk.id, turn, talk.texts("U")[turn], talk.before(turn)))
    return pd.DataFrame(rows, columns=["conversation", "turn", "user", "system"])


class Training(NamedTuple):
    """The data that a model learns from: the turns (``turns``), 0/1 ``labels`` (n, 3), and the annotators'
    ``votes`` (n, annotators, 4), each split among the intents that the annotator gave, or none; 0 where a
    conversation has fewer annotators. ``weights`` (n, annotators) say how far an annotator agrees with the
    others of the conversation; those of a turn sum to 1.
    """

    turns: pd.DataFrame
    labels: Labels
    votes: Floats
    weights: Floats

    @classmethod
    def of(cls, crowd: Partition) -> "Training":
        """Every user turn of the crowd partition; a turn without record is a turn in which all saw none.
        InputError where no annotator names an intent in any turn.
        """
        cast = {name: votes_of(crowd, name) for name in crowd.conversations}
        if not any(part[:, :, :-1].any() for part in cast.values()):
            raise InputError(f"no annotator of {crowd.name!r} names an intent in any turn to learn from")
        most = max(part.shape[1] for part in cast.values())
        padded, weights = [], []
        for part in cast.values():
            absent = most - part.shape[1]
            padded.append(np.pad(part, ((0, 0), (0, absent), (0, 0))))
            trusted = np.pad(trust(part), (0, absent))
            weights.append(np.tile(trusted, (len(part), 1)))
        labels = majority_labels(crowd)[list(INTENTS)].to_numpy(dtype=np.int64)
        return cls(turns(crowd), labels, np.concatenate(padded), np.concatenate(weights))

    def take(self, rows: NDArray[np.intp]) -> "Training":
        """The training data of some rows."""
        return Training(self.turns.iloc[rows], self.labels[rows], self.votes[rows], self.weights[rows])

    def views(self) -> Floats:
        """(n, 4): the mean vote of each turn's annotators, a distribution over the intents and none."""
        present = np.maximum(self.votes.any(axis=2).sum(axis=1), 1)
        return np.asarray(self.votes.sum(axis=1) / present[:, None])

    def weighted(self) -> Floats:
        """(n, 4): the same with weighted votes."""
        return np.asarray(np.einsum("nal,na->nl", self.votes, self.weights))

    def given(self) -> Floats:
        """(n, 3): the weighted part of the annotators who gave each intent."""
        return np.asarray(np.einsum("nal,na->nl", self.votes[:, :, :-1] > 0, self.weights))


class IntentModel(Protocol):
    """Learns from turns and labels; gives a score in [0, 1] for each turn and intent, and decisions."""

    def fit(self, data: Training) -> "IntentModel":
        """Learn; returns itself."""

    def scores(self, frame: pd.DataFrame) -> Floats:
        """(turns, 3) scores in [0, 1]."""

    def predict(self, frame: pd.DataFrame) -> Labels:
        """(turns, 3) of 0 and 1."""


MODELS: Registry[IntentModel] = Registry("intent model", room="crs_lib.cosrec")


def _position_features(frame: pd.DataFrame) -> Floats:
    """(turns, 9): where the turn stands, and the plainest facts of its form."""
    turn = frame["turn"]
    user = frame["user"]
    columns = [
        turn / 5,
        turn == 0,
        turn == 1,
        turn == 2,
        user.str.contains("?", regex=False),
        user.str.count(r"\?"),
        frame["system"].str.contains("?", regex=False),
        user.str.split().str.len() / 20,
        user.str.contains(r"\bthank", case=False),
    ]
    return _stacked(columns)


def _cue_features(frame: pd.DataFrame) -> Floats:
    """(turns, 17) of 0 and 1: which cues stand in the turn and in the system's line before it."""
    user = frame["user"].str.lower()
    cues = prompts.lists("cosrec/cues")
    columns = [user.str.contains(cue, regex=True) for cue in cues["user"]]
    columns += [frame["system"].str.contains(cue, regex=True) for cue in cues["system"]]
    return _stacked(columns)


def _stacked(columns: list[pd.Series]) -> Floats:
    return np.stack([column.to_numpy(dtype=float) for column in columns], axis=1)


class _Block(NamedTuple):
    """A part of the features: a column's TF-IDF by a vectorizer, times a weight."""

    column: str
    weight: float
    vectorizer: Any


class _Softmax:
    """Shares of the intents and none, by logistic regression on words, position and, where asked, cues and
    sentence vectors. One that learned nothing yet makes others of the same settings.
    """

    def __init__(self, regularisation: float = 1.0, cues: bool = False, encoders: tuple[str, ...] = ()):
        self.settings = (regularisation, cues, encoders)
        self._cues = cues
        self._encoders = encoders
        self._regularisation = regularisation

    def fit(self, frame: pd.DataFrame, shares: Floats) -> "_Softmax":
        """Learn the shares (turns, 4): each turn counts once for every kind, by its share."""
        from scipy import sparse
        from sklearn.linear_model import LogisticRegression

        self._blocks = _tfidf_blocks()
        for block in self._blocks:
            block.vectorizer.fit(frame[block.column])
        rows = sparse.vstack([self._features(frame)] * _KINDS).tocsr()
        kinds = np.repeat(np.arange(_KINDS), len(frame))
        weights = shares.T.ravel()
        counted = weights > _LEAST
        model = LogisticRegression(C=self._regularisation, max_iter=1000, tol=1e-4)
        self._model = model.fit(rows[counted], kinds[counted], weights[counted])
        return self

    def _features(self, frame: pd.DataFrame) -> Any:
        """Sparse features of the turn and the system's turn before it."""
        from scipy import sparse

        parts = [block.weight * block.vectorizer.transform(frame[block.column]) for block in self._blocks]
        parts.append(sparse.csr_array(_position_features(frame)))
        if self._cues:
            parts.append(sparse.csr_array(_cue_features(frame)))
        for name in self._encoders:
            parts.append(sparse.csr_array(_sentences(name, frame["user"])))
            parts.append(sparse.csr_array(0.3 * _sentences(name, frame["system"])))
        return sparse.hstack(parts).tocsr()

    def shares(self, frame: pd.DataFrame) -> Floats:
        """(turns, 4): the shares expected."""
        shares = np.zeros((len(frame), _KINDS))
        shares[:, self._model.classes_] = self._model.predict_proba(self._features(frame))
        return shares

    def out_of_fold(self, frame: pd.DataFrame, shares: Floats) -> Floats:
        """(turns, 4): the shares expected by models that have not seen the turn's conversation."""
        expected = np.zeros_like(shares)
        for train, test in grouped_folds(frame["conversation"].to_numpy()):
            model = _Softmax(*self.settings).fit(frame.iloc[train], shares[train])
            expected[test] = model.shares(frame.iloc[test])
        return expected


def _tfidf_blocks() -> list[_Block]:
    """The user's words, the system's, and the user's characters."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    def words(rare: int) -> Any:
        return TfidfVectorizer(ngram_range=(1, 2), min_df=rare, sublinear_tf=True, dtype=np.float64)

    characters = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(2, 5), min_df=3, sublinear_tf=True, dtype=np.float64
    )
    return [
        _Block("user", 1.0, words(2)),
        _Block("system", 0.5, words(3)),
        _Block("user", 0.7, characters),
    ]


def _sentences(name: str, texts: pd.Series) -> Floats:
    """Sentence vectors of texts, from the cache where they are."""
    encoded = encoders.cached(name, list(texts), lambda: encoders.ENCODERS.create(name))
    return encoded.sentences.astype(np.float64)


@MODELS.register("views")
class _Views:
    """Words and position; learns every annotator's view (softmax over the intents and none), own thresholds.

    Thresholds are those with the best F1 on out-of-fold scores of the training conversations. Learning
    from views and not from the majority keeps what annotators were unsure of.
    """

    def fit(self, data: Training) -> "_Views":
        """Learn the softmax and, from grouped folds, the thresholds."""
        views = data.views()
        expected = _Softmax().out_of_fold(data.turns, views)[:, :-1]
        scores = [f1(counts(data.labels, (expected > level).astype(np.int64))) for level in _LEVELS]
        self._levels = _LEVELS[np.argmax(scores, axis=0)]
        self._softmax = _Softmax().fit(data.turns, views)
        return self

    def scores(self, frame: pd.DataFrame) -> Floats:
        """Share of annotators expected to give each intent."""
        return self._softmax.shares(frame)[:, :-1]

    def predict(self, frame: pd.DataFrame) -> Labels:
        """1 where the score exceeds the intent's threshold."""
        return np.asarray(self.scores(frame) > self._levels, dtype=np.int64)


@MODELS.register("annotators", vectors=True)
class _Annotators:
    """Words, position and cues; learns what annotators settle on, given their types.

    A turn has the intent of the largest share, if that is not none, and every intent above a level, which
    has the best micro F1 on out-of-fold scores of the training conversations, against the label that
    annotators would settle on. Sentence vectors of the encoders named are further features.
    """

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        """``names`` of sentence encoders."""
        self._softmax = _Softmax(3.0, cues=True, encoders=names)

    def fit(self, data: Training) -> "_Annotators":
        """Learn from the settled shares and, from grouped folds, the level; InputError for one conversation
        alone.
        """
        codes = pd.factorize(data.turns["conversation"])[0]
        opinion = self._softmax.out_of_fold(data.turns, data.weighted())
        settled = settle(data.votes, codes, opinion).shares
        expected = self._softmax.out_of_fold(data.turns, settled)
        truth = agreed(settled, data.given())
        scores = []
        for level in _LEVELS:
            guess = agreed(expected, expected[:, :-1], level)
            scores.append(f1(counts(truth, guess).sum(axis=1)))
        self._level = float(_LEVELS[np.argmax(scores)])
        self._softmax.fit(data.turns, settled)
        return self

    def scores(self, frame: pd.DataFrame) -> Floats:
        """How likely each intent is."""
        return self._softmax.shares(frame)[:, :-1]

    def predict(self, frame: pd.DataFrame) -> Labels:
        """1 for the intent of the largest share, unless none is, and for every intent above the level."""
        shares = self._softmax.shares(frame)
        return agreed(shares, shares[:, :-1], self._level)


def _encoder_names(vectors: str) -> tuple[str, ...]:
    """The sentence encoders of one of ``VECTORS``; ``auto`` takes those that run here."""
    if vectors == "none":
        return ()
    if vectors != "auto":
        return tuple(vectors.split("+"))
    names = []
    if encoders.minilm_installed() or encoders.onnx_available("minilm-onnx"):
        names.append("minilm")
    if encoders.onnx_available("gte-small"):
        names.append("gte-small")
    return tuple(names)


_models: dict[tuple[object, ...], IntentModel] = {}  # remembered for the process


def learned(crowd: Partition, name: str, vectors: str = "auto") -> IntentModel:
    """A model trained on the crowd partition, once a process. ``vectors``
    names the encoders that the model may use, one of ``VECTORS``.
    """
    entry = MODELS.get(name)
    names: tuple[str, ...] = ()
    if entry.facts.get("vectors"):
        names = _encoder_names(vectors)
    key = (entry.make, names, *sorted(crowd.hashes.items()))
    if crowd.hashes and key in _models:
        return _models[key]
    model = entry.make(names) if entry.facts.get("vectors") else entry.make()
    _models[key] = model.fit(Training.of(crowd))
    return _models[key]


def compare(crowd: Partition, curated: Partition, seed: int = 0, vectors: str = "auto") -> pd.DataFrame:
    """Models trained on the crowd and scored on the curated partition: model, intent, f1, low, high, n."""
    frame = turns(curated)
    tables = []
    for name in MODELS.names():
        guess = learned(crowd, name, vectors).predict(frame)
        tables.append(_scored(curated, frame, guess, seed).assign(model=name))
    return pd.concat(tables, ignore_index=True)[["model", "intent", "f1", "low", "high", "n"]]


def _scored(curated: Partition, frame: pd.DataFrame, guess: Labels, seed: int) -> pd.DataFrame:
    truth = curated_labels(curated)[list(INTENTS)].to_numpy(dtype=np.int64)
    return f1_table(frame["conversation"], truth, guess, seed)


def predict_files(
    train: Path | str, test: Path | str, out: Path | str, model: str = "", seed: int = 0
) -> tuple[pd.DataFrame | None, str]:
    """Train on one partition's folder, predict another's, and write one line a user turn to ``out``. A line
    holds conversation, turn, the predicted intents and the score of each intent. Returns the F1 table (None
    where the tested partition has no intents) and the line that tells what was passed over. Raises InputError
    where the training partition has no annotations.
    """
    train = Path(train)
    test = Path(test)
    crowd = corpus.load(train.parent, train.name)
    tested = corpus.load(test.parent, test.name)
    if not crowd.annotations:
        raise InputError(f"{train.name!r} has no intent_annotations.jsonl to learn from; train on crowd")
    shared = sorted(set(crowd.conversations) & set(tested.conversations))
    if shared:
        both = f"{len(shared)} conversations stand in {train.name!r} and in {test.name!r}"
        raise InputError(f"{both}, the first is {shared[0]!r}; test on others than are learned from")
    name = model or ROUTER
    frame = turns(tested)
    fitted = learned(crowd, name)
    guess = fitted.predict(frame)
    write_jsonl(Path(out), _prediction_lines(frame, guess, fitted.scores(frame)))
    labels = majority_labels(crowd)
    unseen = {"without record, learned as turns without an intent": int((~labels["recorded"]).sum())}
    account = balance("turns", len(labels) + len(frame), unseen, paths.shown(Path(out)))
    if not tested.intents:
        return None, account
    return _scored(tested, frame, guess, seed).assign(model=name), account


def _prediction_lines(frame: pd.DataFrame, guess: Labels, scores: Floats) -> list[dict[str, Any]]:
    lines = []
    for row, (name, turn) in enumerate(zip(frame["conversation"], frame["turn"], strict=True)):
        line: dict[str, Any] = {"conversation": name, "turn": int(turn)}
        line["intents"] = [kind for kind, on in zip(INTENTS, guess[row], strict=True) if on]
        likely = scores[row].round(4).tolist()
        line["probabilities"] = dict(zip(INTENTS, likely, strict=True))
        lines.append(line)
    return lines
