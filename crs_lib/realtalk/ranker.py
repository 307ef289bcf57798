"""Second stage: candidates in a new order, by the first stage itself or as learnt on other chats.

Training questions are the candidates of chats with known evidence, cached by content.
"""

import contextlib
import gzip
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib import data as datasets
from crs_lib.core import paths, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.rng import one_thread
from crs_lib.realtalk import channels, corpus, features, levels, plan, wording
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.config import FOREIGN, OWN, STRANGERS
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.features import NAMES
from crs_lib.realtalk.index import ChatIndex

Floats = NDArray[np.float32]
Floats64 = NDArray[np.float64]
VERSION = 5
SEEDS = (0, 1, 2, 3)
SHIPPED = Path(__file__).with_name("rankers.json.gz")
ROUNDS, DEEPEST, HALF = 120, 80, 0.5
SHARE, LEAST, LAST_TRAIN = 0.25, 60, 7
STRENGTH, FURTHEST = 0.1, 4.0  # of the linear model: inverse penalty; standard deviations a feature counts
PARAMETERS = {
    "objective": "lambdarank", "num_leaves": 7, "learning_rate": 0.08, "min_data_in_leaf": 50,
    "feature_fraction": 0.15, "bagging_fraction": 0.7, "bagging_freq": 1, "label_gain": [0, 1],
    "lambdarank_truncation_level": 30, "num_threads": 1, "deterministic": True, "force_row_wise": True,
    "verbose": -1,
}  # fmt: skip


class _TrainingQuestion(NamedTuple):
    """The candidates of one training question: features, which of them are gold, and its weight."""

    features: Floats
    gold: NDArray[np.int8]
    weight: float


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


def _standard(features: Floats, mean: Floats64, scale: Floats64) -> Floats64:
    """Features in standard deviations from the mean, in [-FURTHEST, FURTHEST]: a message unlike any that was
    learnt from must not win by one huge feature.
    """
    return np.clip((features.astype(np.float64) - mean) / scale, -FURTHEST, FURTHEST)


class _Learned:
    """The mean of boosted trees that order candidates (LambdaMART, four seeds) and a logistic regression. The
    two err differently: together they rank better than either. Without LightGBM the regression stands alone,
    and ``name`` says so. The trees' scores of the same candidates are kept on disk
    (:func:`crs_lib.realtalk.index.kept_arrays`), so that a second run does without LightGBM. Source: Burges
    (2010), From RankNet to LambdaRank to LambdaMART; Ke et al. (2017), LightGBM.
    """

    unit = 1.0

    def __init__(self, linear: Mapping[str, Any], models: Sequence[str], origin: str) -> None:
        """``linear`` are mean, scale and weights of features, and the bias of the log-odds; ``models`` are
        LightGBM's model texts; ``origin`` says in words what all was learnt from.
        """
        self.name, self.origin, self._models = "learned" if models else "linear", origin, tuple(models)
        self._linear = {name: np.asarray(value, np.float64) for name, value in linear.items()}

    def score(self, features: Floats, fused: Floats, *_: object) -> Floats:
        """Scores of candidates, (candidates,); comparable inside one question only."""
        if not len(features):
            return np.zeros(0, dtype=np.float32)
        linear = self._linear
        scores = _standard(features, linear["mean"], linear["scale"]) @ linear["weights"] + linear["bias"]
        if self._models:
            key = ("trees", self._digest, hashlib.sha256(features.tobytes()).hexdigest())
            (found,) = indexes.kept_arrays([key], [features], lambda rows: list(map(self._grown, rows)))
            scores = (scores + found[:, 0]) / 2
        return scores.astype(np.float32)

    def _grown(self, features: Floats) -> Floats:
        """The trees' mean, (candidates, 1)."""
        said = [trees.predict(features, num_threads=1) for trees in self._trees]
        out: Floats = np.stack(said, axis=1).mean(axis=1, keepdims=True).astype(np.float32)
        return out

    @cached_property
    def _trees(self) -> list[Any]:
        return [need_trees().Booster(model_str=text) for text in self._models]

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256("\n".join(self._models).encode()).hexdigest()


def shipped(encoder: str) -> tuple["_Learned", list[list[int]]] | None:
    """The ranker that comes with the package for an encoder, and the sketches of the chats that taught it.
    None where there is none for this encoder, or the features have changed since it was made. It holds
    numbers only: weights and thresholds of features, no word of any chat.
    """
    if not SHIPPED.is_file():
        return None
    with gzip.open(SHIPPED, "rt", encoding="utf-8") as file:
        record = json.load(file)
    made = record["rankers"].get(encoder)
    if made is None or record["features"] != _features_key():
        return None
    models = made["models"] if _available() else []
    return _Learned(made["linear"], models, record["origin"]), record["sketches"]


def _write_shipped(
    rankers: Mapping[str, Mapping[str, Any]], origin: str, sketches: Sequence[Sequence[int]]
) -> None:
    """Write the rankers that come with the package, by encoder; the same ones give the same bytes."""
    record = {
        "features": _features_key(), "origin": origin, "sketches": [list(s) for s in sketches],
        "rankers": dict(rankers),
    }  # fmt: skip
    SHIPPED.write_bytes(gzip.compress(json.dumps(record, sort_keys=True).encode(), mtime=0))


def _features_key() -> str:
    """16 hex digits of the names of all features, in order."""
    return hashlib.sha256("\n".join(NAMES).encode()).hexdigest()[:16]


def _available() -> bool:
    """Whether LightGBM is installed."""
    from importlib.util import find_spec

    return find_spec("lightgbm") is not None


def need_trees() -> Any:
    """LightGBM; InputError where it is not installed."""
    try:
        import lightgbm
    except ImportError as error:
        raise InputError('the learned ranker needs LightGBM; pip install "crs-lib[memory]"') from error
    return lightgbm


def _learn(groups: Sequence[_TrainingQuestion], origin: str, folder: Path | None = None) -> _Learned:
    """The ranker of these training questions, from the cache where the same ones were learnt before. The
    cache key is the content of the groups, the parameters and the feature names. Questions none of whose
    candidates is gold teach nothing and are left out. Raises InputError where none is left.
    """
    useful = [group for group in groups if group.gold.any()]
    marks = np.concatenate([group.gold[:DEEPEST] for group in useful]) if useful else np.zeros(0)
    if not 0 < marks.sum() < len(marks):
        raise InputError("no training question has gold among its candidates; give chats with evidence")
    base = folder or paths.data() / "processed" / "realtalk" / "rankers"
    path = base / f"{_key(useful)}.json"
    with contextlib.suppress(ValueError, KeyError, TypeError):  # none, or a damaged one: it is made
        return _read(path, origin)
    tables.write_json(path, _fit(useful) | {"origin": origin, "questions": len(useful)})
    return _read(path, origin)


def _read(path: Path, origin: str) -> _Learned:
    """A ranker from its file; read even when just made, so that the first run is the second's equal."""
    record = safety.read_object(path)
    return _Learned(record["linear"], record["models"], origin)


def _fit(groups: Sequence[_TrainingQuestion], seeds: Sequence[int] = SEEDS) -> dict[str, Any]:
    """The numbers of a ranker learnt from training questions: linear half, and trees with LightGBM."""
    useful = [group for group in groups if group.gold.any()]
    models = [_fit_trees(useful, seed) for seed in seeds] if _available() else []
    return {"linear": _fit_linear(useful), "models": models}


def _key(groups: Sequence[_TrainingQuestion]) -> str:
    """32 hex digits of all that decides the trees."""
    made_by = [VERSION, PARAMETERS, ROUNDS, DEEPEST, SEEDS, STRENGTH, FURTHEST, NAMES, _available()]
    facts = json.dumps(made_by, sort_keys=True)
    digest = hashlib.sha256(facts.encode())
    for group in groups:
        digest.update(np.ascontiguousarray(group.features).tobytes())
        digest.update(group.gold.astype(np.int8).tobytes())
        digest.update(repr(group.weight).encode())
    return digest.hexdigest()[:32]


def _stacked(groups: Sequence[_TrainingQuestion]) -> tuple[Floats, NDArray[np.int8], Floats64, list[int]]:
    """Features, marks and weights of the 80 best candidates of each question, and how many each has."""
    sizes = [min(len(group.gold), DEEPEST) for group in groups]
    weights = np.repeat([group.weight for group in groups], sizes)
    features = np.concatenate([group.features[:DEEPEST] for group in groups])
    return features, np.concatenate([group.gold[:DEEPEST] for group in groups]), weights, sizes


def _fit_linear(groups: Sequence[_TrainingQuestion]) -> dict[str, Any]:
    """The logistic regression, penalised, exactly solved: its numbers."""
    from sklearn.linear_model import LogisticRegression

    features, gold, weights, _ = _stacked(groups)
    mean, scale = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    scale[scale < 1e-6] = 1.0
    model = LogisticRegression(C=STRENGTH, solver="newton-cholesky")
    with one_thread():
        model.fit(_standard(features, mean, scale), gold, sample_weight=weights)
    weights, bias = model.coef_[0].astype(np.float64).tolist(), float(model.intercept_[0])
    return {"mean": mean.tolist(), "scale": scale.tolist(), "weights": weights, "bias": bias}


def _fit_trees(groups: Sequence[_TrainingQuestion], seed: int) -> str:
    """One model's text."""
    lightgbm = need_trees()
    features, gold, weights, sizes = _stacked(groups)
    data = lightgbm.Dataset(features, gold, group=sizes, weight=weights)
    return str(lightgbm.train({**PARAMETERS, "seed": seed}, data, ROUNDS).model_to_string())


# ── training questions ───────────────────────────────────────────────────────────────────────────────


def depth(messages: int, share: float = SHARE) -> int:
    """How many candidates a chat of so many messages gives: a quarter of it, at least 60, at most all."""
    return min(messages, max(LEAST, int(share * messages)))


def _training_questions(index: ChatIndex, weight: float = 1.0) -> list[_TrainingQuestion]:
    """The training questions of a chat, read with the ``valid`` reading; their features are kept on disk."""
    gold = corpus.gold(index.chat)
    asked = [(q, index.plan(q.text), sorted(gold[q.index])) for q in index.chat.questions if q.index in gold]
    code = indexes.source_digest(channels, features, indexes, levels, plan, wording)
    chat = ("training", VERSION, code, index.chat.digest, index.encoder, index.tuned, SHARE)
    keys = [(*chat, q.text, made._asdict(), places) for q, made, places in asked]

    def make(missing: Sequence[tuple[corpus.ChatQuestion, plan.QueryPlan, list[int]]]) -> list[Floats]:
        with one_thread():
            found = channels.scores(index, [q.text for q, _, _ in missing], [made for _, made, _ in missing])
            told = zip(missing, found, strict=True)
            return [_candidates(index, made, scores, places) for (_, made, places), scores in told]

    return [
        _TrainingQuestion(rows[:, :-1], rows[:, -1].astype(np.int8), weight)
        for rows in indexes.kept_arrays(keys, asked, make)
    ]


def _candidates(
    index: ChatIndex, made: plan.QueryPlan, scores: Mapping[str, Floats], gold: Sequence[int]
) -> Floats:
    """The features of a question's candidates, and in the last column whether each is gold."""
    fused = channels.fuse(index, made, scores)
    best = channels.ranking(fused)[: depth(index.size)]
    rows = features.matrix(index, made, scores, fused)[best]
    return np.column_stack([rows, np.isin(best, gold)]).astype(np.float32)


def train_chats(folder: Path | None = None, teachers: str = OWN) -> tuple[list[Chat], list[Chat]]:
    """RealTalk's train chats and, where asked for, LoCoMo's 1 to 7; an empty list where one is not found.
    ``folder`` holds ``realtalk/`` and ``locomo/``; without it they are where the registry of external files
    finds them (``CRS_MIRROR``, or the downloads). Chats of the test split are never among them.
    """
    found: dict[str, list[Chat]] = {OWN: [], FOREIGN: []}
    for name in (OWN if teachers == STRANGERS else teachers).split("+"):
        with contextlib.suppress(InputError, RunError):
            found[name] = corpus.read_folder(folder / name if folder else datasets.locate(name))
    own = [chat for chat in found[OWN] if corpus.split_of(chat) == corpus.TRAIN]
    return own, [chat for chat in found[FOREIGN] if corpus.number(chat.name) <= LAST_TRAIN]


def not_of(chat: Chat, others: Sequence[Chat]) -> list[Chat]:
    """The chats that none of this chat's people takes part in."""
    return [other for other in others if not {*chat.speakers} & {*other.speakers}]


def for_chat(
    chat: Chat, own: Sequence[Chat], foreign: Sequence[Chat], build: Callable[[Chat], ChatIndex]
) -> Ranker:
    """The ranker for a chat, learnt on all train chats but this one; the hand order where there is none. A
    chat is recognised by its messages, not by its file name or its annotations: nothing that is known about
    its questions can reach its own ranking, also where a few messages were changed. LoCoMo questions count
    half.
    """
    mine = [c for c in own if not _same_talk(c, chat)]
    other = [c for c in foreign if not _same_talk(c, chat)]
    if not mine and not other:
        return Hand()
    rows = [g for c in mine for g in _training_questions(build(c))]
    rows += [g for c in other for g in _training_questions(build(c), HALF)]
    origin = ", ".join([c.name for c in mine] + [f"LoCoMo {c.name}" for c in other])
    return _learn(rows, origin)


def _same_talk(one: Chat, two: Chat) -> bool:
    """Whether two files hold the same conversation: equal messages, or a fifth of the longer ones shared.
    Longer means more than 20 letters and digits; two conversations hardly share any of those by chance.
    """
    return one.digest == two.digest or corpus.resembles(one.sketch, two.sketch)


def teach(own: Sequence[Chat], encoders: Sequence[str], build: Callable[[Chat, str], ChatIndex]) -> str:
    """Make the rankers that come with the package, one an encoder, from these chats; returns their origin."""
    made = {
        name: _fit([q for chat in own for q in _training_questions(build(chat, name))], SEEDS[:2])
        for name in encoders
    }
    origin = f"comes with the package; taught by {', '.join(chat.name for chat in own)}"
    _write_shipped(made, origin, [chat.sketch for chat in own])
    return origin
