"""Rankers learnt on other chats: training questions are the candidates of chats with known evidence, kept on
disk by content.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib import data as datasets
from crs_lib.core import paths, prompts, safety, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.rng import one_thread
from crs_lib.realtalk import channels, corpus, dates, features, levels, parse, plan, wording
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk import ranker as rankers
from crs_lib.realtalk.config import FOREIGN, OWN, STRANGERS
from crs_lib.realtalk.corpus import Chat, ChatQuestion
from crs_lib.realtalk.features import NAMES
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.plan import QueryPlan
from crs_lib.realtalk.ranker import Floats, Hand, Learned, LinearModel, Ranker

VERSION = 5  # of the training questions
SEEDS = (0, 1, 2, 3)
TREES = 120
DEEPEST = 80  # candidates of a question that teach
FOREIGN_WEIGHT = 0.5
STRENGTH = 0.1  # inverse penalty of the linear model
_FOREIGN_LAST_TRAIN = 7  # LoCoMo's chats with a larger number teach nothing


class TrainingQuestion(NamedTuple):
    """The candidates of one training question: features, which of them are gold, and its weight."""

    features: Floats
    gold: NDArray[np.int8]
    weight: float


def for_chat(
    chat: Chat, own: Sequence[Chat], foreign: Sequence[Chat], build: Callable[[Chat], ChatIndex]
) -> Ranker:
    """The ranker for a chat, learnt on all train chats but this one; the hand order where there is none.

    A chat is recognised by its messages, not by its file name or its annotations: nothing that is known about
    its questions can reach its own ranking, also where a few messages were changed. LoCoMo questions count
    half.
    """
    questions: list[TrainingQuestion] = []
    teachers = []
    for teacher in own:
        if not _same_talk(teacher, chat):
            teachers.append(teacher.name)
            questions += training_questions(build(teacher))
    for teacher in foreign:
        if not _same_talk(teacher, chat):
            teachers.append(f"LoCoMo {teacher.name}")
            questions += training_questions(build(teacher), FOREIGN_WEIGHT)
    if not teachers:
        return Hand()
    return learn(questions, ", ".join(teachers))


def _same_talk(chat: Chat, other: Chat) -> bool:
    """Whether two files hold the same conversation: equal messages, or a fifth of the shorter one's longer
    texts shared. Two conversations hardly share any of those by chance.
    """
    return chat.digest == other.digest or corpus.resembles(chat.sketch, other.sketch)


def not_of(chat: Chat, others: Sequence[Chat]) -> list[Chat]:
    """The chats that none of this chat's people takes part in."""
    people = set(chat.speakers)
    return [other for other in others if people.isdisjoint(other.speakers)]


def train_chats(folder: Path | None = None, teachers: str = OWN) -> tuple[list[Chat], list[Chat]]:
    """RealTalk's train chats and, where asked for, LoCoMo's 1 to 7; an empty list where one is not there.

    ``folder`` holds ``realtalk/`` and ``locomo/``; without it they are where the registry of external files
    finds them (``CRS_MIRROR``, or the downloads). Chats of the test split are never among them.
    """
    sources = [OWN] if teachers == STRANGERS else teachers.split("+")
    own: list[Chat] = []
    foreign: list[Chat] = []
    if OWN in sources:
        for chat in _source(OWN, folder):
            if corpus.split_of(chat) == corpus.TRAIN:
                own.append(chat)
    if FOREIGN in sources:
        for chat in _source(FOREIGN, folder):
            if corpus.number(chat.name) <= _FOREIGN_LAST_TRAIN:
                foreign.append(chat)
    return own, foreign


def _source(name: str, folder: Path | None) -> list[Chat]:
    with contextlib.suppress(InputError, RunError):
        return parse.read_folder(folder / name if folder else datasets.locate(name))
    return []


# ── training questions ───────────────────────────────────────────────────────────────────────────────


class _Annotated(NamedTuple):
    """A question of a chat with its plan and the positions of its gold."""

    question: ChatQuestion
    plan: QueryPlan
    gold: list[int]


def training_questions(index: ChatIndex, weight: float = 1.0) -> list[TrainingQuestion]:
    """The training questions of a chat, read in the interpretation ``valid``; their features stay on disk."""
    gold = corpus.gold(index.chat)
    annotated = []
    for question in index.chat.questions:
        if question.index in gold:
            plan_ = index.plan(question.text)
            annotated.append(_Annotated(question, plan_, sorted(gold[question.index])))
    code = indexes.source_digest(channels, dates, features, indexes, levels, plan, wording)
    chat = ("training", VERSION, code, index.chat.digest, index.encoder, index.tuned, rankers.SHARE)
    keys = []
    for item in annotated:
        keys.append((*chat, item.question.text, item.plan._asdict(), item.gold))
    training = []
    for rows in indexes.stored(keys, annotated, lambda missing: _candidate_tables(index, missing)):
        is_gold = rows[:, -1].astype(np.int8)
        training.append(TrainingQuestion(rows[:, :-1], is_gold, weight))
    return training


def _candidate_tables(index: ChatIndex, annotated: Sequence[_Annotated]) -> list[Floats]:
    """The features of each question's candidates, and in the last column whether each is gold."""
    texts = [item.question.text for item in annotated]
    plans = [item.plan for item in annotated]
    candidate_tables = []
    with one_thread():
        for item, scores in zip(annotated, channels.scores(index, texts, plans), strict=True):
            fused = channels.fuse(index, item.plan, scores)
            best = channels.ranking(fused)[: rankers.depth(index.size)]
            rows = features.matrix(index, item.plan, scores, fused)[best]
            table = np.column_stack([rows, np.isin(best, item.gold)])
            candidate_tables.append(table.astype(np.float32))
    return candidate_tables


# ── learning ─────────────────────────────────────────────────────────────────────────────────────────


def learn(questions: Sequence[TrainingQuestion], origin: str, folder: Path | None = None) -> Learned:
    """The ranker of these training questions, from the cache where the same ones were learnt before.

    The cache key is the content of the questions, the parameters and the feature names. Questions none of
    whose candidates is gold teach nothing and are left out. Raises InputError where none is left.
    """
    useful = [question for question in questions if question.gold.any()]
    marks: list[int] = []
    for question in useful:
        marks += question.gold[:DEEPEST].tolist()
    if not 0 < sum(marks) < len(marks):
        raise InputError("no training question has gold among its candidates; give chats with evidence")
    base = folder or paths.data() / "processed" / "realtalk" / "rankers"
    path = base / f"{_key(useful)}.json"
    with contextlib.suppress(ValueError, KeyError, TypeError):  # none, or a damaged one: it is made
        return _read(path, origin)
    record = fit(useful)
    tables.write_json(path, record | {"origin": origin, "questions": len(useful)})
    return _read(path, origin)  # also when just made, so that the first run is the second's equal


def _read(path: Path, origin: str) -> Learned:
    record = safety.read_object(path)
    return Learned(LinearModel.from_json(record["linear"]), record["models"], origin)


def fit(questions: Sequence[TrainingQuestion], seeds: Sequence[int] = SEEDS) -> dict[str, Any]:
    """The numbers of a ranker learnt from training questions: linear half, and trees with LightGBM."""
    useful = [question for question in questions if question.gold.any()]
    examples = _Examples.of(useful)
    models = []
    if rankers.has_trees():
        models = [_fit_trees(examples, seed) for seed in seeds]
    return {"linear": _fit_linear(examples), "models": models}


def _key(questions: Sequence[TrainingQuestion]) -> str:
    """32 hex digits of all that decides the trees."""
    settings = [VERSION, _parameters(), TREES, DEEPEST, SEEDS, STRENGTH, rankers.FURTHEST, NAMES]
    text = json.dumps([*settings, rankers.has_trees()], sort_keys=True)
    digest = hashlib.sha256(text.encode())
    for question in questions:
        digest.update(np.ascontiguousarray(question.features).tobytes())
        digest.update(question.gold.astype(np.int8).tobytes())
        digest.update(repr(question.weight).encode())
    return digest.hexdigest()[:32]


class _Examples(NamedTuple):
    """The 80 best candidates of every question, one row each; ``sizes`` says how many each question has."""

    features: Floats
    gold: NDArray[np.int8]
    weights: NDArray[np.float64]
    sizes: list[int]

    @classmethod
    def of(cls, questions: Sequence[TrainingQuestion]) -> "_Examples":
        sizes = [min(len(question.gold), DEEPEST) for question in questions]
        rows = np.concatenate([question.features[:DEEPEST] for question in questions])
        gold = np.concatenate([question.gold[:DEEPEST] for question in questions])
        weights = np.repeat([question.weight for question in questions], sizes)
        return cls(rows, gold, weights, sizes)


def _fit_linear(examples: _Examples) -> dict[str, Any]:
    """The logistic regression, penalised, exactly solved: its numbers."""
    from sklearn.linear_model import LogisticRegression

    mean = examples.features.mean(axis=0, dtype=np.float64)
    scale = examples.features.std(axis=0, dtype=np.float64)
    scale[scale < 1e-6] = 1.0
    model = LogisticRegression(C=STRENGTH, solver="newton-cholesky")
    standardised = rankers.standardised(examples.features, mean, scale)
    with one_thread():
        model.fit(standardised, examples.gold, sample_weight=examples.weights)
    weights = model.coef_[0].astype(np.float64).tolist()
    bias = float(model.intercept_[0])
    return {"mean": mean.tolist(), "scale": scale.tolist(), "weights": weights, "bias": bias}


def _parameters() -> dict[str, Any]:
    """LightGBM's parameters."""
    return dict(prompts.lists("realtalk/fusion")["trees"])


def _fit_trees(examples: _Examples, seed: int) -> str:
    """One model's text."""
    lightgbm = rankers.need_trees()
    data = lightgbm.Dataset(examples.features, examples.gold, group=examples.sizes, weight=examples.weights)
    booster = lightgbm.train({**_parameters(), "seed": seed}, data, TREES)
    return str(booster.model_to_string())
