"""Training questions of the ranker: candidates of chats with known evidence, cached by content."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from crs_lib import data as datasets
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.rng import one_thread
from crs_lib.realtalk import (
    channels,
    corpus,
    dates,
    features,
    kept,
    plan,
    ranker,
    readings,
    segments,
    signals,
    wording,
)
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import ChatIndex

SHARE, LEAST = 0.25, 60
OWN, BOTH, FOREIGN = "realtalk", "realtalk+locomo", "locomo"
TEACHERS = (OWN, BOTH, FOREIGN)
_LAST_TRAIN = 7


def depth(messages: int, share: float = SHARE) -> int:
    """How many candidates a chat of so many messages gives: a quarter of it, at least 60, at most all."""
    return min(messages, max(LEAST, int(share * messages)))


def groups(
    index: ChatIndex, weight: float = 1.0, folder: Path | None = None
) -> list[ranker.TrainingQuestion]:
    """The training questions of a chat, read with the ``valid`` reading; cached as two ``.npy`` files."""
    gold = readings.gold(index.chat)
    asked = [question for question in index.chat.questions if question.index in gold]
    base = folder or paths.data() / "processed" / "realtalk" / "features"
    plans = [plan.make(q.text, index.names, index.today) for q in asked]
    place = base / _key(index, plans, [sorted(gold[q.index]) for q in asked])
    if not (place / "gold.npy").is_file():
        made = []
        with one_thread():
            found = channels.scores(index, [q.text for q in asked], plans)
            for question, planned, scores in zip(asked, plans, found, strict=True):
                fused = channels.fuse(index, planned, scores)
                best = channels.ranking(fused)[: depth(index.size)]
                rows = features.matrix(index, planned, scores, fused)[best]
                made.append((rows, np.isin(best, sorted(gold[question.index])).astype(np.int8)))
        _store(place, made)
    rows, marks = np.load(place / "features.npy"), np.load(place / "gold.npy")
    return [ranker.TrainingQuestion(f, g, weight) for f, g in zip(rows, marks, strict=True)]


def _store(place: Path, made: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    width = len(features.NAMES)
    stacked = {
        "features": np.stack([f for f, _ in made]) if made else np.zeros((0, 0, width), np.float32),
        "gold": np.stack([g for _, g in made]) if made else np.zeros((0, 0), np.int8),
    }
    for name, array in stacked.items():
        with tables.write_aside(place / f"{name}.npy", "wb") as file:
            np.save(file, array)


def _key(index: ChatIndex, plans: Sequence[plan.QueryPlan], gold: Sequence[list[int]]) -> str:
    """32 hex digits of the chat, the questions, the encoder and the code that makes the features."""
    code = kept.code(channels, dates, features, indexes, plan, segments, signals, wording)
    asked = [made.to_json() for made in plans]
    facts = [ranker.VERSION, index.encoder, index.tuned, index.chat.digest, asked, list(gold), SHARE, code]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def train_chats(folder: Path | None = None, teachers: str = OWN) -> tuple[list[Chat], list[Chat]]:
    """RealTalk's train chats and, where asked for, LoCoMo's 1 to 7; an empty list where one is not found.

    ``folder`` holds ``realtalk/`` and ``locomo/``; without it they are where the registry of external
    files finds them (``CRS_MIRROR``, or the downloads). Chats of the test split are never among them.
    """
    if teachers not in TEACHERS:
        raise InputError(f"teachers {teachers!r} are not known; expected one of {', '.join(TEACHERS)}")
    found: list[list[Chat]] = []
    for name in ("realtalk", "locomo"):
        try:
            if name not in teachers.split("+"):
                raise InputError(f"{name} was not asked for")
            found.append(corpus.read_folder(folder / name if folder else datasets.locate(name)))
        except (InputError, RunError):
            found.append([])
    own = [chat for chat in found[0] if corpus.split_of(chat) == corpus.TRAIN]
    return own, [chat for chat in found[1] if corpus.number(chat.name) <= _LAST_TRAIN]


def for_chat(
    chat: Chat, own: Sequence[Chat], foreign: Sequence[Chat], build: Callable[[Chat], ChatIndex]
) -> ranker.Ranker:
    """The ranker for a chat, learnt on all train chats but this one; the hand order where there is none.

    A chat is recognised by its messages, not by its file name or its annotations: nothing that is known
    about its questions can reach its own ranking, also where a few messages were changed. LoCoMo
    questions count half.
    """
    mine = [c for c in own if not same_talk(c, chat)]
    other = [c for c in foreign if not same_talk(c, chat)]
    if not mine and not other:
        return ranker.Hand()
    rows = [g for c in mine for g in groups(build(c))]
    rows += [g for c in other for g in groups(build(c), ranker.FOREIGN)]
    origin = ", ".join([c.name for c in mine] + [f"LoCoMo {c.name}" for c in other])
    return ranker.learn(rows, origin)


def same_talk(one: Chat, two: Chat) -> bool:
    """Whether two files hold the same conversation: equal messages, or a fifth of the longer ones shared.

    Longer means more than 20 letters and digits; two conversations hardly share any of those by chance.
    """
    return one.digest == two.digest or corpus.resembles(one.sketch, two.sketch)


def teach(own: Sequence[Chat], encoders: Sequence[str], build: Callable[[Chat, str], ChatIndex]) -> str:
    """Make the rankers that come with the package, one an encoder, from these chats; returns their origin."""
    made = {
        name: ranker.fit([q for chat in own for q in groups(build(chat, name))], ranker.SEEDS[:2])
        for name in encoders
    }
    origin = f"comes with the package; taught by {', '.join(chat.name for chat in own)}"
    ranker.write_shipped(made, origin, [chat.sketch for chat in own])
    return origin
