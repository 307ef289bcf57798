"""The same questions asked in different ways: one lever set differently, and the ladder of retrieval."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core.rng import one_thread
from crs_lib.metrics import evidence
from crs_lib.realtalk import channels, corpus, plan, scoring, study
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.wording import content_words
from crs_lib.retrieval.bm25 import BM25

SHOWN = ("r@5", "r@10", "r@20", "mrr", "ndcg@10", "recall", "precision", "f1", "size")
LOST = ("lost at candidates", "lost at reranking", "lost at selection", "kept")


def table(config: RealTalkConfig, lever: str, values: Sequence[Any]) -> pd.DataFrame:
    """One row a value of the lever: means over questions, where gold ids end, narrative recall.

    Nothing is written. The test split is refused: levers are chosen on the train chats. Raises
    InputError for an unknown lever or value.
    """
    configs = [config.changed(**{lever: value}) for value in values]  # all are checked before the first runs
    return pd.DataFrame([_row(one, lever, value) for one, value in zip(configs, values, strict=True)])


def questions(config: RealTalkConfig, lever: str, values: Sequence[Any]) -> pd.DataFrame:
    """One row a question and value of the lever, with its scores: what paired differences are made of."""
    parts = []
    for value in values:
        now = config.changed(**{lever: value})
        rows = scoring.questions(*_told(now), now.reading)
        parts.append(scoring.with_question(rows).assign(**{lever: value}))
    return pd.concat(parts, ignore_index=True)


def _told(config: RealTalkConfig) -> tuple[list[dict[str, Any]], list[Chat]]:
    """Predictions under a config, and its chats; nothing is written, the test split is refused."""
    found = study.chats(config)
    if study.is_test(found):
        study.refuse_test_split()
    return list(study.answered(config, found, study.language_model(config))), found


def _row(config: RealTalkConfig, lever: str, value: Any) -> dict[str, Any]:
    told, found = _told(config)
    rows = scoring.questions(told, found, config.reading)
    scoring.need_gold(rows, config.reading)
    story = scoring.narratives(told, found, study.cases(config, found))
    return {
        lever: value,
        **scoring.means(rows, SHOWN).iloc[0].drop("questions").to_dict(),
        **{bucket: int(rows[bucket].sum()) for bucket in LOST},
        "density": float(rows["density"].mean()),
        "arc recall": float(story["global_recall"].mean()),
        "arc aligned": float(story["coverage_aligned"].mean()),
    }


STEPS_SHOWN = ("r@1", "r@5", "r@10", "r@20", "r@50", "mrr", "ndcg@10")
RungScores = dict[str, NDArray[np.floating]]
_PLAIN = {"words": 1.0, "first": 1.0, "tokens": 0.7}


def ladder(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a step: mean rank measures over the questions with gold, and their number ``n``.

    ``rows`` are those of :func:`ladder_rows`. The first two steps calibrate the harness: they are what public
    benchmarks report for the same task.
    """
    out = [
        {"step": step, "n": len(part), **evidence.means(part.to_dict("records"), STEPS_SHOWN)}
        for step, part in (rows.groupby("step", sort=False) if len(rows) else ())
    ]
    return pd.DataFrame(out, columns=["step", "n", *STEPS_SHOWN])


def ladder_rows(chats: Sequence[Chat], encoder: str, reading: str = corpus.VALID) -> pd.DataFrame:
    """One row a step and question with gold: ``step``, ``question``, and its rank measures."""
    rows: list[dict[str, Any]] = []
    for chat in chats:
        gold = corpus.gold(chat, reading)
        for asked, scores in _steps(chat, encoder):
            if asked in gold:
                for step, values in scores.items():
                    found = evidence.rank_scores(channels.ranking(values).tolist(), gold[asked])
                    rows.append({"step": step, "question": f"{chat.name} {asked}", **found})
    return pd.DataFrame(rows)


def _steps(chat: Chat, encoder: str) -> Iterator[tuple[int, RungScores]]:
    """Scores of all messages at each step, for every question by its index."""
    index = indexes.build(chat, encoder)
    texts = [question.text for question in chat.questions]
    plans = [plan.make(text, index.names, index.today) for text in texts]
    bm25 = BM25(1.2, 0.75).fit([content_words(m.text) for m in chat.messages])
    named = index.encode([f"{m.speaker}: {m.text}" for m in chat.messages]).sentences
    with one_thread():
        raw = index.encode(texts).sentences
        scored = channels.scores(index, texts, plans)
        for row, (question, made, found) in enumerate(zip(chat.questions, plans, scored, strict=True)):
            steps = {
                "BM25, text and question as they stand": bm25.scores(content_words(question.text)),
                f"{index.main}, 'speaker: text', question as it stands": named @ raw[row],
                "BM25 with captions, names left out": found["words"],
                f"{index.main}, question in the first person": found["first"],
                f"{index.main}, best token matches": found["tokens"],
            }
            yield question.index, steps | _beside(index, found) | _fusions(index, made, found)


def _beside(index: ChatIndex, found: RungScores) -> RungScores:
    shown = {"beside": index.beside.get("beside"), "tuned": f"{index.main} tuned"}
    return {f"{shown[role]}, best token matches": found[f"{role} tokens"] for role in index.beside}


def _fusions(index: ChatIndex, made: plan.QueryPlan, found: dict[str, NDArray[np.float32]]) -> RungScores:
    fuse = partial(channels.fuse, index, made, found)
    full = channels.default_weights(index.encoder)
    placed = {name: full[name] for name in ("other speaker", "stated day")}
    return {
        "z-sum of the three": fuse(_PLAIN, (0.0, 0.0)),
        "+ speaker and stated day": fuse({**_PLAIN, **placed}, (0.0, 0.0)),
        "+ neighbours": fuse({**_PLAIN, **placed}, channels.SMOOTHING),
        "hand fusion: + exchanges and message priors": fuse(full, channels.SMOOTHING),
    }
