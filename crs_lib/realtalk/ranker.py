"""Second stage: candidates in a new order, by the first stage itself or by trees learnt on other chats."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib import paths, tables
from crs_lib.errors import InputError
from crs_lib.realtalk.features import NAMES

Floats = NDArray[np.float32]
VERSION = 3
SEEDS = (0, 1)
ROUNDS, DEEPEST, MIX, FOREIGN = 120, 80, 0.1, 0.5
PARAMETERS = {
    "objective": "lambdarank", "num_leaves": 7, "learning_rate": 0.08, "min_data_in_leaf": 50,
    "feature_fraction": 0.15, "bagging_fraction": 0.7, "bagging_freq": 1, "label_gain": [0, 1],
    "lambdarank_truncation_level": 30, "num_threads": 1, "deterministic": True, "force_row_wise": True,
    "verbose": -1,
}  # fmt: skip


class Group(NamedTuple):
    """The candidates of one training question: features, which of them are gold, and its weight."""

    features: Floats
    gold: NDArray[np.int8]
    weight: float


class Ranker(Protocol):
    """Scores candidates; ``name`` says what it is and ``origin`` what it was learnt from.

    ``unit`` is the difference of scores that selection counts as one step.
    """

    name: str
    origin: str
    unit: float

    def score(self, features: Floats, fused: Floats) -> Floats: ...


class Hand:
    """The first stage's own order: no learning."""

    name, origin, unit = "hand", "no training data", 0.75

    def score(self, features: Floats, fused: Floats) -> Floats:
        """The first-stage scores as they are, (candidates,)."""
        return fused


class Learned:
    """LambdaMART: boosted trees that order candidates, mean of two seeds, plus 0.1 of the first stage.

    Source: Burges (2010), From RankNet to LambdaRank to LambdaMART; Ke et al. (2017), LightGBM.
    """

    name, unit = "learned", 1.0

    def __init__(self, models: Sequence[str], origin: str) -> None:
        """``models`` are LightGBM's model texts; ``origin`` says in words what they were learnt from."""
        lightgbm = _lightgbm()
        self.origin = origin
        self._trees = [lightgbm.Booster(model_str=text) for text in models]

    def score(self, features: Floats, fused: Floats) -> Floats:
        """Scores of candidates, (candidates,); comparable inside one question only."""
        if not len(features):
            return np.zeros(0, dtype=np.float32)
        scores = np.mean([trees.predict(features, num_threads=1) for trees in self._trees], axis=0)
        out: Floats = (scores + MIX * fused).astype(np.float32)
        return out


def available() -> bool:
    """Whether LightGBM is installed."""
    from importlib.util import find_spec

    return find_spec("lightgbm") is not None


def _lightgbm() -> Any:
    try:
        import lightgbm
    except ImportError as error:
        raise InputError('the learned ranker needs LightGBM; pip install "crs-lib[memory]"') from error
    return lightgbm


def learn(groups: Sequence[Group], origin: str, folder: Path | None = None) -> Learned:
    """The ranker of these training questions, from the cache where the same ones were learnt before.

    The cache key is the content of the groups, the parameters and the feature names. Questions none of
    whose candidates is gold teach nothing and are left out. Raises InputError where none is left.
    """
    useful = [group for group in groups if group.gold.any()]
    if not useful:
        raise InputError("no training question has gold among its candidates; give chats with evidence")
    base = folder or paths.data() / "processed" / "realtalk" / "rankers"
    path = base / f"{key(useful)}.json"
    if path.is_file():
        try:
            return Learned(json.loads(path.read_text(encoding="utf-8"))["models"], origin)
        except (ValueError, KeyError):  # a damaged file is made again
            pass
    models = [_fit(useful, seed) for seed in SEEDS]
    tables.write_json(path, {"models": models, "origin": origin, "questions": len(useful)})
    return Learned(models, origin)


def key(groups: Sequence[Group]) -> str:
    """32 hex digits of all that decides the trees."""
    facts = json.dumps([VERSION, PARAMETERS, ROUNDS, DEEPEST, SEEDS, NAMES], sort_keys=True)
    digest = hashlib.sha256(facts.encode())
    for group in groups:
        digest.update(np.ascontiguousarray(group.features).tobytes())
        digest.update(group.gold.astype(np.int8).tobytes())
        digest.update(repr(group.weight).encode())
    return digest.hexdigest()[:32]


def _fit(groups: Sequence[Group], seed: int) -> str:
    """One model's text; only the 80 best candidates of a question are shown to it."""
    lightgbm = _lightgbm()
    sizes = [min(len(group.gold), DEEPEST) for group in groups]
    data = lightgbm.Dataset(
        np.concatenate([group.features[:DEEPEST] for group in groups]),
        np.concatenate([group.gold[:DEEPEST] for group in groups]),
        group=sizes,
        weight=np.repeat([group.weight for group in groups], sizes),
    )
    trees = lightgbm.train({**PARAMETERS, "seed": seed}, data, ROUNDS)
    return str(trees.model_to_string())
