"""The router: kernel regression on what annotators settle on, then a look at the turns before.

It learns shares and not labels: for each turn, how likely each intent and none are, given the annotators'
votes, their types and the regression's own opinion. Annotators see one conversation each and carry no name,
so that a table of confusions for each of them cannot be learned. Their types can: some call any stated
constraint a search, most only a question for knowledge. Each type has a table of confusions, learned from
all conversations together with a classifier's opinion of each turn.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.cosrec.intents import GRID, MODELS, Training, grouped_folds, position_features, vectorizers
from crs_lib.cosrec.labels import Floats, counts, f1
from crs_lib.cosrec.records import INTENTS
from crs_lib.retrieval import encoders as sentence_encoders

_KINDS = len(INTENTS) + 1
_TYPES, _ROUNDS = 2, 10
_LEAST = 0.02  # of a classifier's share: none is impossible
_SEARCH, _ADVICE = INTENTS.index("search"), INTENTS.index("recommendation")
_RIDGE = 3.0
_PASSES = 3  # settle the votes, learn from them, settle again
_SEEDS = 4  # of the trees, whose mean is taken; one is enough where only the level is chosen
_DIGITS = 4  # of the shares that trees see: what a thread or a machine changes is far smaller
_CUES = (  # what shoppers say when they ask for advice, knowledge, details, more, or nothing
    r"\brecommend|suggest", r"\b(?:looking for|need|want)\b",
    r"^(?:what|how|why|can|do|is|are|does|could|which)", r"\bhow\b", r"\bwhat\b.*\b(?:are|is)\b",
    r"\b(?:does it|is it|do they|are they|its)\b", r"\b(?:this one|that one|these|those)\b",
    r"\b(?:tell me|explain|difference|benefit)", r"\bany\b",
    r"\b(?:other|else|alternative|more options|similar)\b", r"\b(?:thanks|thank you|great|perfect|sounds)\b",
    r"\b(?:specific|brand|model)\b", r"\b(?:price|cost|afford|budget|cheap)\b",
)  # fmt: skip
_SYSTEM_CUES = (r"(?i)recommend|suggest", r"(?i)would you like", r"\$|price", r"[A-Z][a-z]+ [A-Z]")


class _Settled(NamedTuple):
    """Shares of the four kinds a turn (turns, 4), annotators' types, and what a type calls each kind.

    ``types`` is (conversations, annotators, 2), the probability of each type; ``calls`` is (2, 4, 4): type,
    true kind, kind given; rows sum to 1. The second type starts as those who call an opening a search.
    """

    shares: Floats
    types: Floats
    calls: Floats


def settle(cast: Floats, codes: NDArray[np.intp], prior: Floats) -> _Settled:
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
    made: Floats = out / out.sum(axis=-1, keepdims=True)
    return made


def _cue_features(frame: pd.DataFrame) -> Floats:
    """(turns, 17) of 0 and 1: which cues stand in the turn and in the system's line before it."""
    said = frame["user"].str.lower()
    columns = [said.str.contains(cue, regex=True) for cue in _CUES]
    columns += [frame["system"].str.contains(cue, regex=True) for cue in _SYSTEM_CUES]
    return np.stack([column.to_numpy(dtype=float) for column in columns], axis=1)


def _encoders() -> list[str]:
    """The sentence encoders that can run here: MiniLM, gte-small, both or none."""
    here = sentence_encoders.minilm_installed() or sentence_encoders.onnx_available("minilm-onnx")
    found = ["minilm"] if here else []
    return found + (["gte-small"] if sentence_encoders.onnx_available("gte-small") else [])


class _Scaled:
    """Standard scores of columns, learned from the training rows."""

    def __init__(self, make: Callable[[pd.DataFrame], Floats]) -> None:
        self._make = make

    def fit(self, frame: pd.DataFrame) -> Floats:
        rows = self._make(frame)
        self._mean, self._spread = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-9)
        return self.of(frame)

    def of(self, frame: pd.DataFrame) -> Floats:
        out: Floats = (self._make(frame) - self._mean) / self._spread
        return out


def _nearness(a: Floats, b: Floats) -> Floats:
    """exp(-d² / 2) with the mean squared distance of the columns."""
    far = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None] - 2 * a @ b.T
    out: Floats = np.exp(-0.5 * np.maximum(far, 0) / a.shape[1])
    return out


class _Kernel:
    """How alike two turns are: words and characters, sentence vectors, position, cues; a weighted sum."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def fit(self, frame: pd.DataFrame) -> Floats:
        """Learn vocabulary and scales from the training turns; the kernel among them."""
        self._words = vectorizers(system=0.25, rare=2, characters=0.5)
        self._known_words = [model.fit_transform(frame[column]) for column, _, model in self._words]
        self._scaled = [(0.5, _Scaled(position_features)), (0.3, _Scaled(_cue_features))]
        self._known_scaled = [scaled.fit(frame) for _, scaled in self._scaled]
        self._vectors = [(name, column) for name in self._names for column in ("user", "system")]
        self._centres = [_sentences(*which, frame).mean(axis=0) for which in self._vectors]
        self._known_vectors = [self._vector(i, frame) for i in range(len(self._vectors))]
        return self.to_known(frame)

    def to_known(self, frame: pd.DataFrame) -> Floats:
        """(turns, training turns): the kernel with what was learned from."""
        total = np.zeros((len(frame), self._known_words[0].shape[0]))
        for (column, weight, model), known in zip(self._words, self._known_words, strict=True):
            total += weight * (model.transform(frame[column]) @ known.T).toarray()
        for (weight, scaled), rows in zip(self._scaled, self._known_scaled, strict=True):
            total += weight * _nearness(scaled.of(frame), rows)
        for i, ((_, column), rows) in enumerate(zip(self._vectors, self._known_vectors, strict=True)):
            total += (0.5 if column == "user" else 0.15) * self._vector(i, frame) @ rows.T
        return total

    def _vector(self, i: int, frame: pd.DataFrame) -> Floats:
        centred = _sentences(*self._vectors[i], frame) - self._centres[i]
        out: Floats = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9)
        return out


def _sentences(name: str, column: str, frame: pd.DataFrame) -> Floats:
    made = sentence_encoders.cached(
        name, list(frame[column]), lambda: sentence_encoders.ENCODERS.create(name)
    ).sentences
    return np.asarray(made, dtype=np.float64)


class _Ridge:
    """Kernel ridge regression of shares; the same turns can be learned from several times."""

    def __init__(self, names: Sequence[str], frame: pd.DataFrame) -> None:
        from scipy.linalg import cho_factor

        self._kernel = _Kernel(names)
        known = self._kernel.fit(frame)
        known[np.diag_indices_from(known)] += _RIDGE
        self._factor = cho_factor(known, overwrite_a=True, check_finite=False)

    def to_known(self, frame: pd.DataFrame) -> Floats:
        """(turns, training turns): the kernel that :meth:`shares` takes."""
        return self._kernel.to_known(frame)

    def learn(self, shares: Floats) -> "_Ridge":
        """Learn the shares of the training turns, in place of those learned before; returns itself."""
        from scipy.linalg import cho_solve

        self._mean = shares.mean(axis=0)
        self._weights = cho_solve(self._factor, shares - self._mean, check_finite=False)
        return self

    def shares(self, to_known: Floats) -> Floats:
        """The shares expected, rounded so that noise of arithmetic goes."""
        out: Floats = np.round(to_known @ self._weights + self._mean, _DIGITS)
        return out


def sequence_features(frame: pd.DataFrame, shares: Floats) -> Floats:
    """Shares of the turn, of the two turns before, the highest so far, position and cues; nothing later."""
    before, earlier, highest = (np.zeros_like(shares) for _ in range(3))
    names, turns = frame["conversation"].to_numpy(), frame["turn"].to_numpy()
    for i in range(1, len(frame)):
        if names[i] == names[i - 1] and turns[i] == turns[i - 1] + 1:
            before[i], earlier[i] = shares[i - 1], before[i - 1]
            highest[i] = np.maximum(highest[i - 1], shares[i - 1])
    return np.hstack([shares, before, earlier, highest, position_features(frame), _cue_features(frame)])


def agreed(shares: Floats, given: Floats, level: float = 0.5) -> NDArray[np.int64]:
    """0/1 for each intent: that of the largest share, and every intent given above a level.

    ``shares`` (turns, 4) are of the intents and none, ``given`` (turns, 3) the part who gave each intent.
    """
    out = (given > level).astype(np.int64)
    best = shares.argmax(axis=1)
    chosen = np.flatnonzero(best < len(INTENTS))
    out[chosen, best[chosen]] = 1
    return out


@MODELS.register("annotators", vectors=True)
class Annotators:
    """Regression on what annotators settle on, with sentence vectors, cues and the turns before.

    Kernel ridge over words, sentence vectors (of the encoders installed), position and cues; boosted trees
    correct it with the shares of earlier turns; the mean of both is the score. A turn has the intent of the
    largest share, if that is not none, and every intent above a level, which has the best micro F1 on
    out-of-fold scores of the training conversations, against the label that annotators would settle on.
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        """``names`` of sentence encoders; None takes those that can run here."""
        self._names = _encoders() if names is None else list(names)

    def fit(self, data: Training) -> "Annotators":
        """Learn both stages and, from grouped folds, the level; InputError for one conversation alone."""
        codes = pd.factorize(data.turns["conversation"])[0]
        folds = _HeldOut(self._names, data.turns, codes)
        target = data.weighted
        for _ in range(_PASSES):
            target = settle(data.votes, codes, folds.first(target)).shares
        first = folds.first(target)
        ready = sequence_features(data.turns, first)
        found = _mean(first, folds.second(ready, target))
        truth = agreed(target, data.given)
        micro = [f1(counts(truth, agreed(found, found[:, :-1], level)).sum(axis=1)) for level in GRID]
        self.level = float(GRID[int(np.argmax(micro))])
        self._first = _Ridge(self._names, data.turns).learn(target)
        self._trees = _trees(ready, target, _SEEDS)
        return self

    def _shares(self, frame: pd.DataFrame) -> Floats:
        first = self._first.shares(self._first.to_known(frame))
        return _mean(first, _grown(self._trees, sequence_features(frame, first)))

    def scores(self, frame: pd.DataFrame) -> Floats:
        """How likely each intent is, cut to [0, 1]."""
        return self._shares(frame)[:, :-1]

    def predict(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """1 for the intent of the largest share, unless none is, and for every intent above the level."""
        found = self._shares(frame)
        return agreed(found, found[:, :-1], self.level)


def _mean(first: Floats, second: Floats) -> Floats:
    out: Floats = np.clip((first + second) / 2, 0.0, 1.0)
    return out


class _HeldOut:
    """Predictions of every training turn by models that have not seen its conversation."""

    def __init__(self, names: Sequence[str], frame: pd.DataFrame, codes: NDArray[np.intp]) -> None:
        self._parts = grouped_folds(codes)
        ridges = [_Ridge(names, frame.iloc[train]) for train, _ in self._parts]
        self._ridges = [
            (ridge, ridge.to_known(frame.iloc[test]))
            for ridge, (_, test) in zip(ridges, self._parts, strict=True)
        ]

    def first(self, shares: Floats) -> Floats:
        """Kernel regression of the shares."""
        out = np.zeros_like(shares)
        for (train, test), (ridge, to_known) in zip(self._parts, self._ridges, strict=True):
            out[test] = ridge.learn(shares[train]).shares(to_known)
        return out

    def second(self, ready: Floats, shares: Floats) -> Floats:
        """Boosted trees on ready features."""
        out = np.zeros_like(shares)
        for train, test in self._parts:
            out[test] = _grown(_trees(ready[train], shares[train], 1), ready[test])
        return out


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
    out: Floats = np.mean(grown, axis=0)
    return out
