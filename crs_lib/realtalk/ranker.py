"""Second stage: candidates in a new order, by the first stage itself or as learnt on other chats."""

import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.features import NAMES

Floats = NDArray[np.float32]
Floats64 = NDArray[np.float64]
SHIPPED = Path(__file__).with_name("rankers.json.gz")
SHARE, LEAST = 0.25, 60  # of a chat's messages: the share that becomes candidates, at least so many
FURTHEST = 4.0  # standard deviations that a feature counts at most


class Ranker(Protocol):
    """Scores candidates of a question by features, first-stage scores or texts. ``name`` says what it is,
    ``origin`` what it was learnt from, ``unit`` the difference of scores that selection counts as one step.
    """

    name: str
    origin: str
    unit: float

    def score(self, features: Floats, fused: Floats, question: str, texts: Sequence[str], /) -> Floats: ...


class Hand:
    """The first stage's own order: no learning."""

    name, origin, unit = "hand", "no training data", 0.75

    def score(self, features: Floats, fused: Floats, *_: object) -> Floats:
        """The first-stage scores as they are, (candidates,)."""
        return fused


@dataclass(frozen=True)
class LinearModel:
    """A logistic regression on standardised features: (features,) each, and the bias of the log-odds."""

    mean: Floats64
    scale: Floats64
    weights: Floats64
    bias: float

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "LinearModel":
        """The model of its record of numbers."""
        mean = np.asarray(record["mean"], np.float64)
        scale = np.asarray(record["scale"], np.float64)
        weights = np.asarray(record["weights"], np.float64)
        return cls(mean, scale, weights, float(record["bias"]))

    def log_odds(self, features: Floats) -> Floats64:
        """The log-odds of each candidate, (candidates,)."""
        return standardised(features, self.mean, self.scale) @ self.weights + self.bias


def standardised(features: Floats, mean: Floats64, scale: Floats64) -> Floats64:
    """Features in standard deviations from the mean, in [-FURTHEST, FURTHEST]: a message unlike any that was
    learnt from must not win by one huge feature.
    """
    return np.clip((features.astype(np.float64) - mean) / scale, -FURTHEST, FURTHEST)


class Learned:
    """The mean of boosted trees that order candidates (LambdaMART, four seeds) and a logistic regression.

    The two err differently: together they rank better than either. Without LightGBM the regression stands
    alone, and ``name`` says so. The trees' scores of the same candidates are kept on disk, so that a second
    run does without LightGBM. ``models`` are LightGBM's model texts; ``origin`` says in words what all was
    learnt from. Source: Burges (2010), From RankNet to LambdaRank to LambdaMART; Ke et al. (2017), LightGBM.
    """

    unit = 1.0

    def __init__(self, linear: LinearModel, models: Sequence[str], origin: str) -> None:
        self.name = "learned" if models else "linear"
        self.origin = origin
        self._linear = linear
        self._models = tuple(models)

    def score(self, features: Floats, fused: Floats, *_: object) -> Floats:
        """Scores of candidates, (candidates,); comparable inside one question only."""
        if not len(features):
            return np.zeros(0, dtype=np.float32)
        scores = self._linear.log_odds(features)
        if self._models:
            candidates = hashlib.sha256(features.tobytes()).hexdigest()
            key = ("trees", self._digest, candidates)
            (by_trees,) = indexes.stored([key], [features], self._by_trees)
            scores = (scores + by_trees[:, 0]) / 2
        return scores.astype(np.float32)

    def _by_trees(self, tables: Sequence[Floats]) -> list[Floats]:
        """The trees' mean for each table of features, (candidates, 1)."""
        means = []
        for features in tables:
            scores = [booster.predict(features, num_threads=1) for booster in self._boosters]
            mean = np.stack(scores, axis=1).mean(axis=1, keepdims=True)
            means.append(mean.astype(np.float32))
        return means

    @cached_property
    def _boosters(self) -> list[Any]:
        lightgbm = need_trees()
        return [lightgbm.Booster(model_str=text) for text in self._models]

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256("\n".join(self._models).encode()).hexdigest()


class ShippedRanker:
    """A ranker that comes with the package and the sketches of the chats that taught it. It holds numbers
    only: weights and thresholds of features, no word of any chat.
    """

    def __init__(self, ranker: Learned, sketches: Sequence[Sequence[int]]) -> None:
        self.ranker = ranker
        self.sketches = sketches


def shipped(encoder: str) -> ShippedRanker | None:
    """The ranker that comes with the package for an encoder; None where there is none for this encoder, or
    the features have changed since it was made.
    """
    if not SHIPPED.is_file():
        return None
    with gzip.open(SHIPPED, "rt", encoding="utf-8") as file:
        record = json.load(file)
    weights = record["rankers"].get(encoder)
    if weights is None or record["features"] != features_key():
        return None
    models = weights["models"] if has_trees() else []
    ranker = Learned(LinearModel.from_json(weights["linear"]), models, record["origin"])
    return ShippedRanker(ranker, record["sketches"])


def features_key() -> str:
    """16 hex digits of the names of all features, in order."""
    return hashlib.sha256("\n".join(NAMES).encode()).hexdigest()[:16]


def has_trees() -> bool:
    """Whether LightGBM is installed."""
    return find_spec("lightgbm") is not None


def need_trees() -> Any:
    """LightGBM; InputError where it is not installed."""
    try:
        import lightgbm
    except ImportError as error:
        raise InputError('the learned ranker needs LightGBM; pip install "crs-lib[memory]"') from error
    return lightgbm


def depth(messages: int, share: float = SHARE) -> int:
    """How many candidates a chat of so many messages gives: a quarter of it, at least 60, at most all."""
    return min(messages, max(LEAST, int(share * messages)))
