"""The same questions asked in different ways: one lever set differently, the ladder, the public benchmark."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core import prompts
from crs_lib.core.errors import InputError
from crs_lib.core.rng import one_thread
from crs_lib.metrics import evidence
from crs_lib.realtalk import channels, corpus, plan, query, ranker, scoring, study
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.config import STRANGERS, RealTalkConfig
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.wording import content_words
from crs_lib.retrieval.bm25 import BM25

SHOWN = ("r@5", "r@10", "r@20", "mrr", "ndcg@10", "recall", "precision", "f1", "size")
LOST = ("lost at candidates", "lost at reranking", "lost at selection", "kept")


def table(config: RealTalkConfig, lever: str, values: Sequence[Any]) -> pd.DataFrame:
    """One row a value of the lever: means over questions, where gold ids end, narrative recall. Nothing is
    written. The test split is refused: levers are chosen on the train chats. Raises InputError for an unknown
    lever or value.
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
        lever: value, **scoring.means(rows, SHOWN).iloc[0].drop("questions").to_dict(),
        **{bucket: int(rows[bucket].sum()) for bucket in LOST}, "density": float(rows["density"].mean()),
        "arc recall": float(story["global_recall"].mean()),
        "arc aligned": float(story["coverage_aligned"].mean()),
    }  # fmt: skip


STEPS_SHOWN = ("r@1", "r@5", "r@10", "r@20", "r@50", "mrr", "ndcg@10")
RungScores = dict[str, NDArray[np.floating]]
_PLAIN = {"words": 1.0, "first": 1.0, "tokens": 0.7}


def ladder(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a step: mean rank measures over the questions with gold, and their number ``n``. ``rows`` are
    those of :func:`ladder_rows`. The first two steps calibrate the harness: they are what public benchmarks
    report for the same task.
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
    plans = list(map(index.plan, texts))
    bm25 = BM25(1.2, 0.75).fit([content_words(m.text) for m in chat.messages])
    named = index.encode([f"{m.speaker}: {m.text}" for m in chat.messages]).sentences
    shown = index.encoders | {"tuned": f"{index.main} tuned"}
    with one_thread():
        raw = index.encode(texts).sentences
        scored = channels.scores(index, texts, plans)
        for row, (question, made, found) in enumerate(zip(chat.questions, plans, scored, strict=True)):
            steps = {
                "BM25, text and question as they stand": bm25.scores(content_words(question.text)),
                f"{index.main}, 'speaker: text', question as it stands": named @ raw[row],
                "BM25 with captions, names left out": found["words"],
                f"{index.main}, question in the first person": found["first"],
            }
            for role in index.encoders:
                steps[f"{shown[role]}, best token matches"] = found[f"{role} tokens".strip()]
            yield question.index, steps | _fusions(index, made, found)


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


# ── the terms of the public benchmark ────────────────────────────────────────────────────────────────


def lmeb(config: RealTalkConfig) -> pd.DataFrame:
    """One row a ranker: nDCG@10 and recall@10, in all and by sub-task, on the terms of LMEB. One corpus of
    all messages gives BM25 its word statistics; each query ranks the messages of its own chat; gold is read
    strictly, binary; means are over questions. A message's title is its day. "Ours" are the rankers and
    teachers of ``config``; with texts alone they know no speaker, time, session, order or photo. The test
    split is refused. Source: Zhao et al. (2026), LMEB, arXiv:2603.12572.
    """
    config = config.changed(reading=corpus.STRICT)
    told, found = _told(config)
    gold = {chat.name: corpus.gold(chat, corpus.STRICT) for chat in found}
    asked = [(chat, [q for q in chat.questions if q.index in gold[chat.name]]) for chat in found]
    shown = {(str(record["chat"]), record["qa_index"]): record["ranked"] for record in told}
    ways: dict[str, list[list[int]]] = {
        "BM25, text": _by_bm25(asked, _TEXT),
        "BM25, day, speaker and text": _by_bm25(asked, _titled),
        **_by_vectors(config, asked),
        "ours, texts alone": _by_texts_alone(config, asked),
        "ours, all that a chat shows": [
            [chat.position[name] for name in shown[chat.name, q.index]] for chat, part in asked for q in part
        ],
    }
    tasks = prompts.lists("realtalk/lmeb")
    rows = [
        {"ranker": name, "task": tasks[chat.schema][str(q.category)][0]}
        | evidence.rank_scores(order, gold[chat.name][q.index])
        for name, ranked in ways.items()
        for (chat, q), order in zip([(c, q) for c, part in asked for q in part], ranked, strict=True)
    ]
    return _by_task(pd.DataFrame(rows))


def _by_task(rows: pd.DataFrame) -> pd.DataFrame:
    """Means of all questions, then nDCG@10 and recall@10 of each sub-task; one row a ranker, in order."""
    measures = ["ndcg@10", "r@10", "mrr"]
    by_ranker = rows.groupby("ranker", sort=False)
    parts = rows.groupby(["ranker", "task"], sort=False)[measures[:2]].mean()
    parts = parts.reset_index().pivot_table(measures[:2], "ranker", "task", sort=False)
    parts.columns = [f"{task} {measure}" for measure, task in parts.columns]
    return by_ranker.size().to_frame("n").join(by_ranker[measures].mean()).join(parts).reset_index()


def _titled(message: corpus.ChatMessage) -> str:
    """Title and text of a message as one document."""
    day = f"{message.time:%d %B %Y} " if message.time else ""
    return f"{day}{message.speaker}: {message.text}"


_Asked = Sequence[tuple[Chat, Sequence[corpus.ChatQuestion]]]
_Form = Callable[[corpus.ChatMessage], str]
_TEXT: _Form = attrgetter("text")


def _by_bm25(asked: _Asked, form: _Form) -> list[list[int]]:
    """The messages of its chat for each question by the benchmark's BM25: Snowball stems, k1 1.5."""
    try:
        import bm25s
        from Stemmer import Stemmer
    except ImportError as error:
        raise InputError('the protocol lmeb needs bm25s; pip install "crs-lib[retrieval]"') from error
    how = {"stopwords": "en", "stemmer": Stemmer("english"), "return_ids": False, "show_progress": False}
    read = partial(bm25s.tokenize, **how)
    index = BM25(1.5, 0.75).fit(read([form(message) for chat, _ in asked for message in chat.messages]))
    out, own = list[list[int]](), slice(0)
    for chat, part in asked:
        own = slice(own.stop, own.stop + len(chat.messages))
        words = read([q.text for q in part])
        out += [channels.ranking(index.scores(one)[own]).tolist() for one in words]
    return out


def _by_vectors(config: RealTalkConfig, asked: _Asked) -> dict[str, list[list[int]]]:
    """The same by cosine of sentence vectors: texts, titled texts, and those with the instructions."""
    tasks = prompts.lists("realtalk/lmeb")
    out: dict[str, list[list[int]]] = defaultdict(list)
    for chat, part in asked:
        index = indexes.build(chat, indexes.choose_encoder(config.encoder))
        plain = [q.text for q in part]
        led = [f"Instruct: {tasks[chat.schema][str(q.category)][1]}\nQuery:{q.text}" for q in part]
        ways: list[tuple[str, _Form, list[str]]] = [
            ("text", _TEXT, plain),
            ("day, speaker and text", _titled, plain),
            ("the same, instructed", _titled, led),
        ]
        for name, form, texts in ways:
            near = index.encode(texts).sentences @ index.encode(list(map(form, chat.messages))).sentences.T
            out[f"{index.main}, {name}"] += [channels.ranking(row).tolist() for row in near]
    return out


def _by_texts_alone(config: RealTalkConfig, asked: _Asked) -> list[list[int]]:
    """The same by the pipeline, learnt and used where every chat is nothing but a bag of texts."""
    encoder = indexes.choose_encoder(config.encoder, config.ranker)
    own = [] if config.ranker == "hand" else ranker.train_chats(teachers=config.teachers)[0]
    out: list[list[int]] = []
    for chat, part in asked:
        taught = ranker.not_of(chat, own) if config.teachers == STRANGERS else own
        bare = _texts_alone(chat)
        others = list(map(_texts_alone, taught))
        learnt = ranker.for_chat(bare, others, [], lambda c: indexes.build(c, encoder))
        told = query.predict(indexes.build(replace(bare, questions=tuple(part)), encoder), learnt, config)
        out += [[chat.position[name] for name in record["ranked"]] for record in told]
    return out


def _texts_alone(chat: Chat) -> Chat:
    """The chat as texts without speaker, time, photo or session, in an order that says nothing."""
    order = sorted(chat.messages, key=lambda m: hashlib.sha256(f"{m.id} {m.text}".encode()).hexdigest())
    bare = [corpus.ChatMessage(m.id, i, i + 1, "", m.text, None) for i, m in enumerate(order)]
    return replace(chat, speakers=(), messages=tuple(bare))
