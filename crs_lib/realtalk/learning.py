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
from crs_lib.realtalk import corpus, search, wording
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.config import OWN, STRANGERS
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.search import NAMES, Floats, Hand, Learned, LinearModel, Ranker
from crs_lib.realtalk.wording import QueryPlan
from crs_lib.retrieval.encoders import CrossEncoder

VERSION = 6  # of the training questions
SEEDS = (0, 1, 2, 3)
TREES = 120
DEEPEST = 80  # candidates of a question that teach
STRENGTH = 0.1  # inverse penalty of the linear model


class TrainingQuestion(NamedTuple):
    """The candidates of one training question: features, and which of them are gold."""

    features: Floats
    gold: NDArray[np.int8]


def choose_ranker(name: str, index: ChatIndex, folder: Path | None = None, teachers: str = OWN) -> Ranker:
    """The ranker of a name for a chat, which never teaches its own ranker.

    ``auto`` is the ranker that comes with the package, unless this chat taught it. Then, and where a folder
    or other teachers are named, it learns from the train chats where these are there; else the hand order.
    Without LightGBM what is learnt is linear. ``hand`` never learns; ``learned`` raises InputError where it
    cannot.
    """
    if name == "hand":
        return Hand()
    if name.startswith("onnx:"):
        return CrossEncoder(name.partition(":")[2])
    if name == "learned":
        search.need_trees()
    if name == "auto" and folder is None and teachers == OWN:
        ready = search.shipped(index.encoder)
        if ready and not ready.knows(index.chat):
            return ready.ranker
    others = train_chats(folder)
    if teachers == STRANGERS:
        others = not_of(index.chat, others)
    ranker = for_chat(index.chat, others, lambda chat: indexes.build(chat, index.encoder))
    if name == "learned" and ranker.name == Hand.name:
        cure = "set CRS_MIRROR or download them, or use ranker 'hand'"
        raise InputError(f"no training chats were found; {cure}")
    return ranker


def for_chat(chat: Chat, others: Sequence[Chat], build: Callable[[Chat], ChatIndex]) -> Ranker:
    """The ranker for a chat, learnt on all train chats but this one; the hand order where there is none.

    A chat is recognised by its messages, not by its file name or its annotations: nothing that is known about
    its questions can reach its own ranking, also where a few messages were changed.
    """
    questions: list[TrainingQuestion] = []
    teachers = [other for other in others if not same_talk(other, chat)]
    for teacher in teachers:
        questions += training_questions(build(teacher))
    if not teachers:
        return Hand()
    return learn(questions, ", ".join(teacher.name for teacher in teachers))


def same_talk(chat: Chat, other: Chat) -> bool:
    """Whether two files hold the same conversation: equal messages, or a fifth of the shorter one's longer
    texts shared. Two conversations hardly share any of those by chance.
    """
    return chat.digest == other.digest or corpus.resembles(chat.sketch, other.sketch)


def not_of(chat: Chat, others: Sequence[Chat]) -> list[Chat]:
    """The chats that none of this chat's people takes part in."""
    people = set(chat.speakers)
    return [other for other in others if people.isdisjoint(other.speakers)]


def train_chats(folder: Path | None = None) -> list[Chat]:
    """RealTalk's train chats; an empty list where they are not there.

    ``folder`` holds ``realtalk/``; without it they are where the registry of external files finds them
    (``CRS_MIRROR``, or the downloads). Chats of the test split are never among them.
    """
    chats: list[Chat] = []
    with contextlib.suppress(InputError, RunError):
        chats = corpus.read_folder(folder / OWN if folder else datasets.locate(OWN))
    return [chat for chat in chats if corpus.split_of(chat) == corpus.TRAIN]


# ── training questions ───────────────────────────────────────────────────────────────────────────────


class _Annotated(NamedTuple):
    """The text of a question with its plan and the positions of its gold."""

    text: str
    plan: QueryPlan
    gold: list[int]


def training_questions(index: ChatIndex) -> list[TrainingQuestion]:
    """The training questions of a chat, read in the interpretation ``valid``; their features stay on disk."""
    annotated = []
    for number, positions in corpus.gold(index.chat).items():
        text = index.chat.asked[number].text
        annotated.append(_Annotated(text, index.plan(text), sorted(positions)))
    code = indexes.source_digest(indexes, search, wording)
    made_by = ("training", VERSION, code, search.SHARE)
    chat = (*made_by, index.chat.digest, index.encoder, index.tuned)
    keys = []
    for item in annotated:
        keys.append((*chat, item.text, item.plan._asdict(), item.gold))
    training = []
    for rows in indexes.stored(keys, annotated, lambda missing: _candidate_tables(index, missing)):
        gold = rows[:, -1].astype(np.int8)
        training.append(TrainingQuestion(rows[:, :-1], gold))
    return training


def _candidate_tables(index: ChatIndex, annotated: Sequence[_Annotated]) -> list[Floats]:
    """The features of each question's candidates, and in the last column whether each is gold."""
    texts = [item.text for item in annotated]
    plans = [item.plan for item in annotated]
    candidate_tables = []
    with one_thread():
        for item, scores in zip(annotated, search.scores(index, texts, plans), strict=True):
            fused = search.fuse(index, item.plan, scores)
            best = search.ranking(fused)[: search.depth(index.size)]
            rows = search.matrix(index, item.plan, scores, fused)[best]
            table = np.column_stack([rows, np.isin(best, item.gold)])
            candidate_tables.append(table.astype(np.float32))
    return candidate_tables


# ── learning ─────────────────────────────────────────────────────────────────────────────────────────


def learn(questions: Sequence[TrainingQuestion], origin: str, folder: Path | None = None) -> Learned:
    """The ranker of these training questions, from the cache where the same ones were learnt before.

    The cache key is the content of the questions, the parameters and the feature names. Questions none of
    whose candidates is gold teach nothing and are left out. Raises InputError where none is left.
    """
    useful = _with_gold(questions)
    teaching = [question.gold[:DEEPEST] for question in useful]
    if not any(0 < gold.sum() < len(gold) for gold in teaching):
        raise InputError("no training question has gold among its candidates; give chats with evidence")
    base = folder or paths.data() / "processed" / "realtalk" / "rankers"
    path = base / f"{_key(useful)}.json"
    with contextlib.suppress(ValueError, KeyError, TypeError):  # none, or a damaged one: it is made
        return _read(path, origin)
    record = fit(useful)
    tables.write_json(path, record | {"origin": origin, "questions": len(useful)})
    return _read(path, origin)  # also when just made, so that the first run is the second's equal


def _with_gold(questions: Sequence[TrainingQuestion]) -> list[TrainingQuestion]:
    """The questions with gold among their candidates, also where it stands behind the best, which teach."""
    return [question for question in questions if question.gold.any()]


def _read(path: Path, origin: str) -> Learned:
    record = safety.read_object(path)
    return Learned(LinearModel.from_json(record["linear"]), record["models"], origin)


def _key(questions: Sequence[TrainingQuestion]) -> str:
    """32 hex digits of all that decides the trees."""
    settings = [VERSION, _parameters(), TREES, DEEPEST, SEEDS, STRENGTH, search.FURTHEST, NAMES]
    text = json.dumps([*settings, search.has_trees()], sort_keys=True)
    digest = hashlib.sha256(text.encode())
    for question in questions:
        digest.update(np.ascontiguousarray(question.features).tobytes())
        digest.update(question.gold.tobytes())
    return digest.hexdigest()[:32]


def fit(questions: Sequence[TrainingQuestion], seeds: Sequence[int] = SEEDS) -> dict[str, Any]:
    """The numbers of a ranker learnt from training questions: linear half, and trees with LightGBM."""
    useful = _with_gold(questions)
    marks = [question.gold[:DEEPEST] for question in useful]
    rows = np.concatenate([question.features[:DEEPEST] for question in useful])
    gold = np.concatenate(marks)
    sizes = list(map(len, marks))
    models = []
    if search.has_trees():
        models = [_fit_trees(rows, gold, sizes, seed) for seed in seeds]
    return {"linear": _fit_linear(rows, gold), "models": models}


def _fit_linear(rows: Floats, gold: NDArray[np.int8]) -> dict[str, Any]:
    """The logistic regression, penalised, exactly solved: its numbers."""
    from sklearn.linear_model import LogisticRegression

    mean = rows.mean(axis=0, dtype=np.float64)
    scale = rows.std(axis=0, dtype=np.float64)
    scale[scale < 1e-6] = 1.0
    standard = LinearModel(mean, scale, np.zeros(len(mean)), 0.0)
    model = LogisticRegression(C=STRENGTH, solver="newton-cholesky")
    with one_thread():
        model.fit(standard.standardised(rows), gold)
    weights = model.coef_[0].astype(np.float64).tolist()
    bias = float(model.intercept_[0])
    return {"mean": mean.tolist(), "scale": scale.tolist(), "weights": weights, "bias": bias}


def _parameters() -> dict[str, Any]:
    """LightGBM's parameters."""
    return dict(prompts.lists("realtalk/fusion")["trees"])


def _fit_trees(rows: Floats, gold: NDArray[np.int8], sizes: Sequence[int], seed: int) -> str:
    """One model's text; ``sizes`` says how many rows each question has."""
    lightgbm = search.need_trees()
    data = lightgbm.Dataset(rows, gold, group=sizes)
    booster = lightgbm.train({**_parameters(), "seed": seed}, data, TREES)
    return str(booster.model_to_string())
