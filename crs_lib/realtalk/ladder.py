"""The ladder of retrieval: what each step adds, from BM25 on the bare text to the hand fusion."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.metrics import evidence
from crs_lib.realtalk import channels, plan, readings
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.records import Chat
from crs_lib.realtalk.wording import content_words
from crs_lib.retrieval import dense
from crs_lib.retrieval.bm25 import BM25

SHOWN = ("r@1", "r@5", "r@10", "r@20", "r@50", "mrr", "ndcg@10")
Scores = dict[str, NDArray[np.floating]]
_PLAIN = {"words": 1.0, "first": 1.0, "tokens": 0.7}


def table(chats: Sequence[Chat], encoder: str, reading: str = readings.VALID) -> pd.DataFrame:
    """One row a step: mean rank measures over the questions with gold, and their number ``n``.

    The first two steps calibrate the harness: they are what public benchmarks report for the same task.
    """
    rows: dict[str, list[dict[str, float]]] = {}
    for chat in chats:
        gold = readings.gold(chat, reading)
        for index, scores in _steps(chat, encoder):
            if index in gold:
                for step, values in scores.items():
                    ranked = channels.ranking(values).tolist()
                    rows.setdefault(step, []).append(evidence.rank_scores(ranked, gold[index]))
    out = [{"step": step, "n": len(found), **evidence.means(found, SHOWN)} for step, found in rows.items()]
    return pd.DataFrame(out, columns=["step", "n", *SHOWN])


def _steps(chat: Chat, encoder: str) -> Iterator[tuple[int, Scores]]:
    """Scores of all messages at each step, for every question by its index."""
    index = indexes.build(chat, encoder)
    texts = [question.text for question in chat.questions]
    plans = [plan.make(text, index.names, index.today) for text in texts]
    bm25 = BM25(1.2, 0.75).fit([content_words(m.text) for m in chat.messages])
    named = index.encode([f"{m.speaker}: {m.text}" for m in chat.messages]).sentences
    with dense.one_thread():
        for question, query in zip(chat.questions, channels.queries(index, texts, plans), strict=True):
            found = channels.scores(index, query)
            fused = _fusions(index, query.plan, found)
            yield (
                question.index,
                {
                    "BM25, text and question as they stand": bm25.scores(content_words(question.text)),
                    f"{encoder}, 'speaker: text', question as it stands": named
                    @ query.raw.sentences[query.row],
                    "BM25 with captions, names left out": found["words"],
                    f"{encoder}, question in the first person": found["first"],
                    f"{encoder}, best token matches": found["tokens"],
                    **fused,
                },
            )


def _fusions(index: ChatIndex, made: plan.Plan, found: dict[str, NDArray[np.float32]]) -> Scores:
    def fuse(weights: dict[str, float], smoothing: tuple[float, float]) -> NDArray[np.float32]:
        return channels.fuse(index, made, found, weights, smoothing)

    full = channels.default_weights(index.encoder)
    placed = {name: full[name] for name in ("other speaker", "stated day")}
    steps: dict[str, Callable[[], NDArray[np.float32]]] = {
        "z-sum of the three": lambda: fuse(_PLAIN, (0.0, 0.0)),
        "+ speaker and stated day": lambda: fuse({**_PLAIN, **placed}, (0.0, 0.0)),
        "+ neighbours": lambda: fuse({**_PLAIN, **placed}, channels.SMOOTHING),
        "hand fusion: + exchanges and message priors": lambda: fuse(full, channels.SMOOTHING),
    }
    return {name: step() for name, step in steps.items()}
