"""Intents of a user turn: search, recommendation, product details; models that learn them, and scores.

Models learn from the crowd partition only and see nothing of the future of a conversation: the user's
words, the system's turn before, how many turns there were. A turn may carry several intents or none.

The router is a kernel regression on what annotators settle on, then a look at the turns before. It learns
shares and not labels: for each turn, how likely each intent and none are, given the annotators' votes, their
types and the regression's own opinion. Annotators see one conversation each and carry no name, so that a
table of confusions for each of them cannot be learned. Their types can: some call any stated constraint a
search, most only a question for knowledge. Each type has a table of confusions, learned from all
conversations together with a classifier's opinion of each turn.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.core.tables import write_jsonl
from crs_lib.cosrec.corpus import read_partition
from crs_lib.cosrec.labels import (
    Floats,
    Labels,
    counts,
    curated_labels,
    f1,
    f1_table,
    grouped_folds,
    majority_labels,
)
from crs_lib.cosrec.records import INTENTS, Partition
from crs_lib.retrieval import encoders

ROUTER = "annotators"
VECTORS = ("auto", "none", "minilm", "gte-small", "minilm+gte-small")
_GRID = np.round(np.arange(0.1, 0.9, 0.02), 2)  # levels that are tried
_KINDS = len(INTENTS) + 1
_TYPES, _ROUNDS = 2, 10
_LEAST = 0.02  # of a classifier's share: none is impossible
_SEARCH, _ADVICE = INTENTS.index("search"), INTENTS.index("recommendation")
_RIDGE = 3.0
_PASSES = 3  # settle the votes, learn from them, settle again
_SEEDS = 4  # of the trees, whose mean is taken; one is enough where only the level is chosen
_DIGITS = 4  # of the shares that trees see: what a thread or a machine changes is far smaller


def turns(partition: Partition) -> pd.DataFrame:
    """One row a user turn: conversation, turn, user's text, the system's text before it ("" at first)."""
    rows = [
        (name, turn, text, talk.before(turn))
        for name, talk in partition.conversations.items()
        for turn, text in enumerate(talk.texts("U"))
    ]
    return pd.DataFrame(rows, columns=["conversation", "turn", "user", "system"])


class _Training(NamedTuple):
    """The data that a model learns from: the turns, 0/1 labels (n, 3), and the annotators' views (n, 4). A
    view row is a distribution over the three intents and none: each annotator splits one vote among the
    intents they gave. ``weighted`` is the same with votes weighted by how far an annotator agrees with the
    others of the conversation, ``given`` (n, 3) the weighted part of the annotators who gave each intent.
    ``votes`` (n, annotators, 4) are the votes themselves, 0 where a conversation has fewer annotators.
    """

    turns: pd.DataFrame
    labels: Labels
    views: Floats
    weighted: Floats
    given: Floats
    votes: Floats

    def take(self, rows: NDArray[np.intp]) -> "_Training":
        """The training data of some rows."""
        return _Training(self.turns.iloc[rows], self.labels[rows], *(part[rows] for part in self[2:]))


def _training(crowd: Partition) -> _Training:
    """Every user turn of the crowd partition; a turn without record is a turn in which all saw none.
    InputError where no annotator names an intent in any turn.
    """
    if not any(cell for turns in crowd.annotations.values() for turn in turns for cell in turn.cells):
        raise InputError(f"no annotator of {crowd.name!r} names an intent in any turn to learn from")
    labels = majority_labels(crowd)[list(INTENTS)].to_numpy(dtype=np.int64)
    parts = [_votes(crowd, name) for name in crowd.conversations]
    most = max(part.shape[1] for part in parts)
    weighed = [(part, _trust(part)) for part in parts]
    mean = [np.einsum("tac,a->tc", part, weights) for part, weights in weighed]
    given = [np.einsum("tac,a->tc", part[:, :, :-1] > 0, weights) for part, weights in weighed]
    padded = [np.pad(part, ((0, 0), (0, most - part.shape[1]), (0, 0))) for part in parts]
    views = [part.mean(axis=1) for part in parts]
    return _Training(turns(crowd), labels, *map(np.concatenate, (views, mean, given, padded)))


def _votes(crowd: Partition, name: str) -> Floats:
    """(turns, annotators, 4): each annotator's vote, split among the intents they gave, or none. A turn
    without record counts as none by all. A record with fewer annotators than other records of the
    conversation repeats its first ones.
    """
    cells = {record.turn: record.cells for record in crowd.annotations.get(name, ())}
    n = max([1, *map(len, cells.values())])
    out = np.zeros((len(crowd.conversations[name].turns), n, _KINDS))
    for turn, annotator in np.ndindex(*out.shape[:2]):
        views = cells.get(turn) or ((),)
        kinds = {label.type for label in views[annotator % len(views)]}
        out[turn, annotator, [INTENTS.index(kind) for kind in kinds] or -1] = 1 / max(1, len(kinds))
    return out


def _trust(cast: Floats) -> Floats:
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

    def fit(self, data: _Training) -> "IntentModel":
        """Learn; returns itself."""

    def scores(self, frame: pd.DataFrame) -> Floats:
        """(turns, 3) scores in [0, 1]."""

    def predict(self, frame: pd.DataFrame) -> Labels:
        """(turns, 3) of 0 and 1."""


MODELS: Registry[IntentModel] = Registry("intent model", room="crs_lib.cosrec")


def _position_features(frame: pd.DataFrame) -> Floats:
    """(turns, 9): where the turn stands, and the plainest facts of its form."""
    turn, user, system = frame["turn"], frame["user"], frame["system"]
    columns = [
        turn / 5, turn == 0, turn == 1, turn == 2, user.str.contains("?", regex=False),
        user.str.count(r"\?"), system.str.contains("?", regex=False), user.str.split().str.len() / 20,
        user.str.contains(r"\bthank", case=False),
    ]  # fmt: skip
    return np.stack([column.to_numpy(dtype=float) for column in columns], axis=1)


def _cue_features(frame: pd.DataFrame) -> Floats:
    """(turns, 17) of 0 and 1: which cues stand in the turn and in the system's line before it."""
    said, cues = frame["user"].str.lower(), prompts.lists("cosrec/cues")
    columns = [said.str.contains(cue, regex=True) for cue in cues["user"]]
    columns += [frame["system"].str.contains(cue, regex=True) for cue in cues["system"]]
    return np.stack([column.to_numpy(dtype=float) for column in columns], axis=1)


def _vectorizers(system: float, rare: int, characters: float) -> list[tuple[str, float, Any]]:
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


@MODELS.register("views")
class _Views:
    """Words and position; learns every annotator's view (softmax over the intents and none), own thresholds.

    Thresholds are those with the best F1 on out-of-fold scores of the training conversations. Learning
    from views and not from the majority keeps what annotators were unsure of.
    """

    def fit(self, data: _Training) -> "_Views":
        """Learn the softmax and, from grouped folds, the thresholds."""
        found = np.zeros(data.labels.shape)
        for train, test in grouped_folds(data.turns["conversation"].to_numpy()):
            found[test] = _Views()._softmax(data.take(train)).scores(data.turns.iloc[test])
        tried = np.stack([counts(data.labels, (found > level).astype(np.int64)) for level in _GRID])
        self._levels = np.array([_GRID[f1(tried[:, :, j].T).argmax()] for j in range(len(INTENTS))])
        return self._softmax(data)

    def _features(self, frame: pd.DataFrame, *, fit: bool = False) -> Any:
        """Sparse TF-IDF of the turn and the system's turn before it, beside the position features."""
        from scipy import sparse

        if fit:
            self._words = _vectorizers(system=0.5, rare=3, characters=0.7)
        name = "fit_transform" if fit else "transform"
        blocks = [weight * getattr(one, name)(frame[column]) for column, weight, one in self._words]
        return sparse.hstack([*blocks, sparse.csr_array(_position_features(frame))]).tocsr()

    def _softmax(self, data: _Training) -> "_Views":
        from scipy import sparse
        from sklearn.linear_model import LogisticRegression

        x, weights = self._features(data.turns, fit=True), data.views.T.ravel()
        y, kept = np.repeat(np.arange(_KINDS), len(data.turns)), weights > 0
        model = LogisticRegression(C=1.0, max_iter=1000, tol=1e-4)
        self._model = model.fit(sparse.vstack([x] * _KINDS).tocsr()[kept], y[kept], weights[kept])
        return self

    def scores(self, frame: pd.DataFrame) -> Floats:
        """Share of annotators expected to give each intent."""
        out = np.zeros((len(frame), _KINDS))
        out[:, self._model.classes_] = self._model.predict_proba(self._features(frame))
        return out[:, :-1]

    def predict(self, frame: pd.DataFrame) -> Labels:
        """1 where the score exceeds the intent's threshold."""
        return (self.scores(frame) > self._levels).astype(np.int64)


class _Settled(NamedTuple):
    """Shares of the four kinds a turn (turns, 4), annotators' types, and what a type calls each kind.
    ``types`` is (conversations, annotators, 2), the probability of each type; ``calls`` is (2, 4, 4): type,
    true kind, kind given; rows sum to 1. The second type starts as those who call an opening a search.
    """

    shares: Floats
    types: Floats
    calls: Floats


def _settle(cast: Floats, codes: NDArray[np.intp], prior: Floats) -> _Settled:
    """The kinds that votes and a classifier together make likely, by expectation and maximisation. ``cast``
    (turns, annotators, 4) are votes, each of sum 1 over the intents and none, or 0 where there is no such
    annotator; ``codes`` number the turns' conversations from 0, the first row of each being its first turn;
    ``prior`` (turns, 4) is the classifier's opinion, made without the turn's own conversation. Source: Dawid
    and Skene (1979), Applied Statistics 28(1); with a classifier: Raykar et al. (2010), JMLR.
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
    return _Settled(shares, types, calls)


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
    return np.asarray(out / out.sum(axis=-1, keepdims=True))


class _Ridge:
    """Kernel ridge regression of shares; the same turns can be learned from several times. The kernel, how
    alike two turns are, is a weighted sum over words and characters, sentence vectors, position and cues.
    """

    def __init__(self, names: Sequence[str], frame: pd.DataFrame) -> None:
        """Learn vocabulary and scales from the training turns; ``names`` are those of sentence encoders."""
        from scipy.linalg import cho_factor

        words = _vectorizers(system=0.25, rare=2, characters=0.5)
        self._words = [(c, weight, model, model.fit_transform(frame[c])) for c, weight, model in words]
        self._scaled = [(0.5, *_scales(_position_features, frame)), (0.3, *_scales(_cue_features, frame))]
        vectors = [(name, column) for name in names for column in ("user", "system")]
        centres = [_sentences(*which, frame).mean(axis=0) for which in vectors]
        centred = zip(vectors, centres, strict=True)
        self._vectors = [(*which, centre, _centred(*which, frame, centre)) for which, centre in centred]
        self._size = len(frame)
        known = self.to_known(frame)
        known[np.diag_indices_from(known)] += _RIDGE
        self._factor = cho_factor(known, overwrite_a=True, check_finite=False)

    def to_known(self, frame: pd.DataFrame) -> Floats:
        """(turns, training turns): the kernel with what was learned from, which :meth:`shares` takes."""
        total = np.zeros((len(frame), self._size))
        for column, weight, model, known in self._words:
            total += weight * (model.transform(frame[column]) @ known.T).toarray()
        for weight, scaled, rows in self._scaled:
            total += weight * _nearness(scaled(frame), rows)
        for name, column, centre, known in self._vectors:
            total += (0.5 if column == "user" else 0.15) * _centred(name, column, frame, centre) @ known.T
        return total

    def learn(self, shares: Floats) -> "_Ridge":
        """Learn the shares of the training turns, in place of those learned before; returns itself."""
        from scipy.linalg import cho_solve

        self._mean = shares.mean(axis=0)
        self._weights = cho_solve(self._factor, shares - self._mean, check_finite=False)
        return self

    def shares(self, to_known: Floats) -> Floats:
        """The shares expected, rounded so that noise of arithmetic goes."""
        return np.asarray(np.round(to_known @ self._weights + self._mean, _DIGITS))


_Features = Callable[[pd.DataFrame], Floats]


def _scales(make: _Features, frame: pd.DataFrame) -> tuple[_Features, Floats]:
    """Standard scores of features, as learned from the training turns, and those of these turns."""
    rows = make(frame)
    mean, spread = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-9)
    return lambda asked: (make(asked) - mean) / spread, (rows - mean) / spread


def _nearness(a: Floats, b: Floats) -> Floats:
    """exp(-d² / 2) with the mean squared distance of the columns."""
    far = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None] - 2 * a @ b.T
    return np.asarray(np.exp(-0.5 * np.maximum(far, 0) / a.shape[1]))


def _sentences(name: str, column: str, frame: pd.DataFrame) -> Floats:
    made = encoders.cached(name, list(frame[column]), lambda: encoders.ENCODERS.create(name))
    return made.sentences.astype(np.float64)


def _centred(name: str, column: str, frame: pd.DataFrame, centre: Floats) -> Floats:
    """Sentence vectors around a centre, of length 1."""
    rows = _sentences(name, column, frame) - centre
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9))


def _sequence_features(frame: pd.DataFrame, shares: Floats) -> Floats:
    """Shares of the turn, of the two turns before, the highest so far, position and cues; nothing later."""
    before, earlier, highest = (np.zeros_like(shares) for _ in range(3))
    names, turns = frame["conversation"].to_numpy(), frame["turn"].to_numpy()
    for i in range(1, len(frame)):
        if names[i] == names[i - 1] and turns[i] == turns[i - 1] + 1:
            before[i], earlier[i] = shares[i - 1], before[i - 1]
            highest[i] = np.maximum(highest[i - 1], shares[i - 1])
    return np.hstack([shares, before, earlier, highest, _position_features(frame), _cue_features(frame)])


def _agreed(shares: Floats, given: Floats, level: float = 0.5) -> Labels:
    """0/1 for each intent: that of the largest share, and every intent given above a level. ``shares``
    (turns, 4) are of the intents and none, ``given`` (turns, 3) the part who gave each intent.
    """
    best = shares.argmax(axis=1)[:, None] == np.arange(len(INTENTS))
    return np.asarray((given > level) | best, dtype=np.int64)


@MODELS.register("annotators", vectors=True)
class _Annotators:
    """Regression on what annotators settle on, with sentence vectors, cues and the turns before.

    Kernel ridge over words, sentence vectors (of the encoders installed), position and cues; boosted trees
    correct it with the shares of earlier turns; the mean of both is the score. A turn has the intent of the
    largest share, if that is not none, and every intent above a level, which has the best micro F1 on
    out-of-fold scores of the training conversations, against the label that annotators would settle on.
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        """``names`` of sentence encoders; None takes those of MiniLM and gte-small that run here."""
        minilm = encoders.minilm_installed() or encoders.onnx_available("minilm-onnx")
        here = {"minilm": minilm, "gte-small": encoders.onnx_available("gte-small")}
        self._names = tuple(name for name in here if here[name]) if names is None else tuple(names)

    def fit(self, data: _Training) -> "_Annotators":
        """Learn both stages and, from grouped folds, the level; InputError for one conversation alone."""
        frame, codes = data.turns, pd.factorize(data.turns["conversation"])[0]
        folds = grouped_folds(codes)
        ridges = [_Ridge(self._names, frame.iloc[train]) for train, _ in folds]
        asked = [ridge.to_known(frame.iloc[test]) for ridge, (_, test) in zip(ridges, folds, strict=True)]

        def held_out(shares: Floats) -> Floats:
            """Kernel regression of every turn by models that have not seen its conversation."""
            out = np.zeros_like(shares)
            for (train, test), ridge, to_known in zip(folds, ridges, asked, strict=True):
                out[test] = ridge.learn(shares[train]).shares(to_known)
            return out

        target = data.weighted
        for _ in range(_PASSES):
            target = _settle(data.votes, codes, held_out(target)).shares
        first = held_out(target)
        ready, second = _sequence_features(frame, first), np.zeros_like(first)
        for train, test in folds:
            second[test] = _grown(_trees(ready[train], target[train], 1), ready[test])
        found, truth = _mean(first, second), _agreed(target, data.given)
        micro = [f1(counts(truth, _agreed(found, found[:, :-1], level)).sum(axis=1)) for level in _GRID]
        self.level = float(_GRID[int(np.argmax(micro))])
        self._first = _Ridge(self._names, frame).learn(target)
        self._trees = _trees(ready, target, _SEEDS)
        return self

    def _shares(self, frame: pd.DataFrame) -> Floats:
        first = self._first.shares(self._first.to_known(frame))
        return _mean(first, _grown(self._trees, _sequence_features(frame, first)))

    def scores(self, frame: pd.DataFrame) -> Floats:
        """How likely each intent is, cut to [0, 1]."""
        return self._shares(frame)[:, :-1]

    def predict(self, frame: pd.DataFrame) -> Labels:
        """1 for the intent of the largest share, unless none is, and for every intent above the level."""
        found = self._shares(frame)
        return _agreed(found, found[:, :-1], self.level)


def _mean(first: Floats, second: Floats) -> Floats:
    return np.asarray(np.clip((first + second) / 2, 0.0, 1.0))


def _trees(rows: Floats, shares: Floats, seeds: int) -> list[list[Any]]:
    """For each seed one boosted regression a share, small."""
    from sklearn.ensemble import GradientBoostingRegressor

    settings: dict[str, Any] = {"n_estimators": 120, "learning_rate": 0.05, "max_depth": 3, "subsample": 0.7}
    settings |= {"max_features": 0.5, "min_samples_leaf": 20}
    return [
        [GradientBoostingRegressor(**settings, random_state=seed).fit(rows, column) for column in shares.T]
        for seed in range(seeds)
    ]


def _grown(trees: list[list[Any]], rows: Floats) -> Floats:
    """Mean prediction over the seeds."""
    grown = [np.stack([tree.predict(rows) for tree in some], axis=1) for some in trees]
    return np.asarray(np.mean(grown, axis=0))


_LEARNED: dict[tuple[object, ...], IntentModel] = {}


def learned(crowd: Partition, name: str, vectors: str = "auto", data: _Training | None = None) -> IntentModel:
    """A model trained on the crowd partition, whose training data may be given; once a process. ``vectors``
    names the encoders that the model may use, one of ``VECTORS``.
    """
    entry = MODELS.get(name)
    key = (entry.make, vectors, *sorted(crowd.hashes.items()))
    if not crowd.hashes or key not in _LEARNED:
        named = bool(entry.facts.get("vectors")) and vectors != "auto"
        model = entry.make(tuple(vectors.split("+")) if vectors != "none" else ()) if named else entry.make()
        _LEARNED[key] = model.fit(data or _training(crowd))
    return _LEARNED[key]


def compare(crowd: Partition, curated: Partition, seed: int = 0, vectors: str = "auto") -> pd.DataFrame:
    """Models trained on the crowd and scored on the curated partition: model, intent, f1, low, high, n."""
    data, frame = _training(crowd), turns(curated)
    tables = []
    for name in MODELS.names():
        guess = learned(crowd, name, vectors, data).predict(frame)
        tables.append(_scored(curated, frame, guess, seed).assign(model=name))
    return pd.concat(tables, ignore_index=True)[["model", "intent", "f1", "low", "high", "n"]]


def _scored(curated: Partition, frame: pd.DataFrame, guess: Labels, seed: int) -> pd.DataFrame:
    truth = curated_labels(curated)[list(INTENTS)].to_numpy(dtype=np.int64)
    return f1_table(frame["conversation"], truth, guess, seed)


def predict_files(train: Path, test: Path, out: Path, model: str = "", seed: int = 0) -> pd.DataFrame | None:
    """Train on one partition's folder, predict another's, and write one line a user turn to ``out``. A line
    holds conversation, turn, the predicted intents and the score of each intent. Returns the F1 table where
    the tested partition has intents, else None. Raises InputError where the training partition has no
    annotations.
    """
    known, asked = read_partition(train), read_partition(test)
    if not known.annotations:
        raise InputError(f"{train.name!r} has no intent_annotations.jsonl to learn from; train on crowd")
    if shared := sorted(set(known.conversations) & set(asked.conversations)):
        both = f"{len(shared)} conversations stand in {train.name!r} and in {test.name!r}"
        raise InputError(f"{both}, the first is {shared[0]!r}; test on others than are learned from")
    name, frame = model or ROUTER, turns(asked)
    fitted = MODELS.create(name).fit(_training(known))
    scores, guess = fitted.scores(frame), fitted.predict(frame)
    rows = []
    for turn, said, given in zip(frame.itertuples(), guess.tolist(), scores.tolist(), strict=True):
        intents = [kind for kind, on in zip(INTENTS, said, strict=True) if on]
        likely = {kind: round(score, 4) for kind, score in zip(INTENTS, given, strict=True)}
        place = {"conversation": turn.conversation, "turn": int(turn.turn)}
        rows.append(place | {"intents": intents, "probabilities": likely})
    write_jsonl(out, rows)
    return _scored(asked, frame, guess, seed).assign(model=name) if asked.intents else None
