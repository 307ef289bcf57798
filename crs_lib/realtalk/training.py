"""Training questions of the ranker: candidates of chats with known evidence, cached by content."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from crs_lib import datasets, paths, tables
from crs_lib.errors import InputError, RunError
from crs_lib.realtalk import channels, corpus, features, plan, ranker, readings
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.records import Chat
from crs_lib.retrieval import dense

SHARE, LEAST, _LAST_TRAIN = 0.25, 60, 7


def depth(messages: int, share: float = SHARE) -> int:
    """How many candidates a chat of so many messages gives: a quarter of it, at least 60, at most all."""
    return min(messages, max(LEAST, int(share * messages)))


def groups(index: ChatIndex, weight: float = 1.0, folder: Path | None = None) -> list[ranker.Group]:
    """The training questions of a chat, read with the ``valid`` reading; cached as two ``.npy`` files."""
    gold = readings.gold(index.chat)
    asked = [question for question in index.chat.questions if question.index in gold]
    base = folder or paths.data() / "processed" / "realtalk" / "features"
    place = base / _key(index, [(q.text, sorted(gold[q.index])) for q in asked])
    if not (place / "gold.npy").is_file():
        plans = [plan.make(q.text, index.names, index.today) for q in asked]
        made = []
        with dense.one_thread():
            for question, query in zip(
                asked, channels.queries(index, [q.text for q in asked], plans), strict=True
            ):
                scores = channels.scores(index, query)
                fused = channels.fuse(index, query.plan, scores)
                kept = channels.ranking(fused)[: depth(index.size)]
                rows = features.matrix(index, query, scores, fused)[kept]
                made.append((rows, np.isin(kept, sorted(gold[question.index])).astype(np.int8)))
        _store(place, made)
    rows, marks = np.load(place / "features.npy"), np.load(place / "gold.npy")
    return [ranker.Group(f, g, weight) for f, g in zip(rows, marks, strict=True)]


def _store(place: Path, made: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    width = len(features.NAMES)
    stacked = {
        "features": np.stack([f for f, _ in made]) if made else np.zeros((0, 0, width), np.float32),
        "gold": np.stack([g for _, g in made]) if made else np.zeros((0, 0), np.int8),
    }
    for name, array in stacked.items():
        with tables.write_aside(place / f"{name}.npy", "wb") as file:
            np.save(file, array)


def _key(index: ChatIndex, asked: Sequence[tuple[str, list[int]]]) -> str:
    facts = [
        ranker.VERSION, index.encoder, index.chat.digest, list(asked), features.NAMES,
        channels.default_weights(index.encoder), channels.SMOOTHING, SHARE,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def train_chats(folder: Path | None = None) -> tuple[list[Chat], list[Chat]]:
    """RealTalk's train chats and LoCoMo's chats 1 to 7; an empty list where one is not found.

    ``folder`` holds ``realtalk/`` and ``locomo/``; without it they are where the registry of external
    files finds them (``CRS_MIRROR``, or the downloads). Chats of the test split are never among them.
    """
    found = []
    for name in ("realtalk", "locomo"):
        try:
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
    about its questions can reach its own ranking. LoCoMo questions count half.
    """
    mine = [c for c in own if c.digest != chat.digest]
    other = [c for c in foreign if c.digest != chat.digest]
    if not mine and not other:
        return ranker.Hand()
    rows = [g for c in mine for g in groups(build(c))]
    rows += [g for c in other for g in groups(build(c), ranker.FOREIGN)]
    names = ", ".join([c.name for c in mine] + [f"LoCoMo {c.name}" for c in other])
    return ranker.learn(rows, names)
