"""The same questions asked in different ways: one lever set differently, and the steps up to the fusion."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from crs_lib.core.rng import one_thread
from crs_lib.metrics import evidence
from crs_lib.realtalk import corpus, experiments, scoring, search, study
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.config import RealTalkConfig
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.wording import content_words
from crs_lib.retrieval.bm25 import BM25

SHOWN = ("r@5", "r@10", "r@20", "mrr", "ndcg@10", "recall", "precision", "f1", "size")
LOST = ("lost at candidates", "lost at reranking", "lost at selection", "kept")
STEPS_SHOWN = ("r@1", "r@5", "r@10", "r@20", "r@50", "mrr", "ndcg@10")
_K1, _B = 1.2, 0.75
_PLAIN = {"words": 1.0, "first": 1.0, "tokens": 0.7}
_ALONE = (0.0, 0.0)  # no smoothing over neighbours


class Predictions(NamedTuple):
    """Predictions under a config, and its chats."""

    records: list[dict[str, Any]]
    chats: list[Chat]


def predictions(config: RealTalkConfig) -> Predictions:
    """Predictions under a config; nothing is written. RunError for the test split: levers are chosen on the
    train chats.
    """
    chats = study.chats(config)
    if experiments.is_test(chats):
        experiments.refuse_test_split()
    return Predictions(list(study.answered(config, chats, study.language_model(config))), chats)


def _changed(config: RealTalkConfig, lever: str, values: Sequence[Any]) -> list[RealTalkConfig]:
    """A config for each value of the lever; InputError for an unknown lever or value."""
    return [config.changed(**{lever: value}) for value in values]


def table(config: RealTalkConfig, lever: str, values: Sequence[Any]) -> pd.DataFrame:
    """One row a value of the lever: means over questions, where gold ids end, narrative recall. Nothing is
    written. Raises InputError for an unknown lever or value, before the first runs.
    """
    rows = []
    for changed in _changed(config, lever, values):
        records, chats = predictions(changed)
        rows.append({lever: getattr(changed, lever), **_measures(changed, records, chats)})
    return pd.DataFrame(rows)


def _measures(
    config: RealTalkConfig, records: Sequence[scoring.Record], chats: Sequence[Chat]
) -> dict[str, Any]:
    """What one value of a lever gives: means, where gold ids end, and the recall of narratives."""
    questions = scoring.questions(records, chats, config.reading)
    scoring.need_gold(questions, config.reading)
    questions = scoring.counted(questions, config.with_unanswerable)
    stories = scoring.narratives(records, chats, study.cases(config, chats))
    means = scoring.means(questions, SHOWN).iloc[0]
    row: dict[str, Any] = means.drop("questions").to_dict()
    row |= questions[list(LOST)].sum().astype(int).to_dict()
    row["density"] = float(questions["density"].mean())
    row["arc recall"] = float(stories["global_recall"].mean())
    row["arc aligned"] = float(stories["coverage_aligned"].mean())
    return row


def questions(config: RealTalkConfig, lever: str, values: Sequence[Any]) -> pd.DataFrame:
    """One row a question and value of the lever, with its scores: what paired differences are made of."""
    parts = []
    for changed in _changed(config, lever, values):
        every = scoring.questions(*predictions(changed), changed.reading)
        rows = scoring.counted(every, changed.with_unanswerable)
        part = scoring.with_question(rows)
        parts.append(part.assign(**{lever: getattr(changed, lever)}))
    return pd.concat(parts, ignore_index=True)


def ladder(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a step: mean rank measures over the questions with gold, and their number ``n``.

    ``rows`` are those of :func:`ladder_rows`. The first two steps calibrate the harness: they are what public
    benchmarks report for the same task.
    """
    if rows.empty:
        return pd.DataFrame(columns=["step", "n", *STEPS_SHOWN])
    steps = rows.groupby("step", sort=False)
    means = steps[list(STEPS_SHOWN)].mean()
    means.insert(0, "n", steps.size())
    return means.reset_index()


def ladder_rows(chats: Sequence[Chat], encoder: str, reading: str = corpus.VALID) -> pd.DataFrame:
    """One row a step and question with gold: ``step``, ``question``, and its rank measures."""
    rows: list[dict[str, Any]] = []
    for chat in chats:
        gold = corpus.gold(chat, reading)
        for question, step, scores in _steps(indexes.build(chat, encoder)):
            if question in gold:
                measures = evidence.rank_scores(search.ranking(scores).tolist(), gold[question])
                rows.append({"step": step, "question": f"{chat.name} {question}", **measures})
    return pd.DataFrame(rows)


def _steps(index: ChatIndex) -> Iterator[tuple[int, str, search.Values]]:
    """For every question, by its index, each step and the scores of all messages at it."""
    chat = index.chat
    texts = [question.text for question in chat.questions]
    plans = [index.plan(text) for text in texts]
    bm25 = BM25(_K1, _B).fit(map(content_words, chat.texts))
    full = search.default_weights(index.encoder)
    placed = _PLAIN | {"other speaker": full["other speaker"], "stated day": full["stated day"]}
    with one_thread():
        titled = index.encode([f"{message.speaker}: {message.text}" for message in chat.messages])
        vectors = index.encode(texts).sentences
        scored = search.scores(index, texts, plans)
        for row, question in enumerate(chat.questions):
            plan, scores = plans[row], scored[row]
            steps: dict[str, search.Values] = {}
            steps["BM25, text and question as they stand"] = bm25.scores(content_words(question.text))
            as_text = titled.sentences @ vectors[row]
            steps[f"{index.main}, 'speaker: text', question as it stands"] = as_text
            steps["BM25 with captions, names left out"] = scores["words"]
            steps[f"{index.main}, question in the first person"] = scores["first"]
            for role, name in index.encoders.items():
                name = f"{index.main} tuned" if role == "tuned" else name
                steps[f"{name}, best token matches"] = scores[f"{role} tokens".strip()]
            steps["z-sum of the three"] = search.fuse(index, plan, scores, _PLAIN, _ALONE)
            steps["+ speaker and stated day"] = search.fuse(index, plan, scores, placed, _ALONE)
            steps["+ neighbours"] = search.fuse(index, plan, scores, placed)
            steps["hand fusion: + exchanges and message priors"] = search.fuse(index, plan, scores, full)
            for step, values in steps.items():
                yield question.index, step, values
