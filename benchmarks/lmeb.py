"""RealTalk's rankers on the terms of the public benchmark LMEB: nDCG@10 and recall@10, also by sub-task.

    PYTHONPATH=. python benchmarks/lmeb.py [DATA [ENCODER [RANKER [TEACHERS]]]]

One corpus of all messages gives BM25 its word statistics; each query ranks the messages of its own chat; gold
is read strictly, binary; means are over questions. A message's title is its day. With texts alone our rankers
know no speaker, time, session, order or photo. The test split is refused.
Source: Zhao et al. (2026), LMEB, arXiv:2603.12572.
"""

import hashlib
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import bm25s
import pandas as pd
from Stemmer import Stemmer

from crs_lib.metrics import evidence
from crs_lib.realtalk import agent, compare, corpus, learning, search
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk.config import STRANGERS, RealTalkConfig
from crs_lib.realtalk.corpus import Chat, ChatMessage, ChatQuestion
from crs_lib.retrieval.bm25 import BM25

MEASURES = ["ndcg@10", "r@10", "mrr"]
TASKS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
K1, B = 1.5, 0.75  # of the benchmark's BM25
Form = Callable[[ChatMessage], str]
Rankings = list[list[int]]  # positions in the chat, one list a question


class ChatQuestions(NamedTuple):
    """The questions with gold of a chat."""

    chat: Chat
    questions: list[ChatQuestion]
    gold: Mapping[int, frozenset[int]]


def plain(message: ChatMessage) -> str:
    """The text of a message."""
    return message.text


def titled(message: ChatMessage) -> str:
    """Title and text of a message as one document."""
    day = f"{message.time:%d %B %Y} " if message.time else ""
    return f"{day}{message.speaker}: {message.text}"


def measure(config: RealTalkConfig) -> pd.DataFrame:
    """One row a ranker: the measures over all questions, then by sub-task."""
    config = config.changed(reading=corpus.STRICT)
    records, chats = compare.predictions(config)
    asked = []
    for chat in chats:
        gold = corpus.gold(chat, corpus.STRICT)
        asked.append(ChatQuestions(chat, [q for q in chat.questions if q.index in gold], gold))
    rankings = {"BM25, text": by_bm25(asked, plain), "BM25, day, speaker and text": by_bm25(asked, titled)}
    rankings.update(by_vectors(config, asked))
    rankings["ours, texts alone"] = by_texts_alone(config, asked)
    rankings["ours, all that a chat shows"] = by_records(records, asked)
    rows = []
    for ranker, lists in rankings.items():
        ranked = iter(lists)
        for part in asked:
            for question in part.questions:
                task = TASKS[part.chat.schema][str(question.category)][0]
                scores = evidence.rank_scores(next(ranked), part.gold[question.index])
                rows.append({"ranker": ranker, "task": task, **scores})
    return by_task(pd.DataFrame(rows))


def by_task(rows: pd.DataFrame) -> pd.DataFrame:
    """Means of all questions, then nDCG@10 and recall@10 of each sub-task; one row a ranker, in order."""
    by_ranker = rows.groupby("ranker", sort=False)
    parts = rows.groupby(["ranker", "task"], sort=False)[MEASURES[:2]].mean().reset_index()
    parts = parts.pivot_table(MEASURES[:2], "ranker", "task", sort=False)
    parts.columns = [f"{task} {measure}" for measure, task in parts.columns]
    return by_ranker.size().to_frame("n").join(by_ranker[MEASURES].mean()).join(parts).reset_index()


def by_records(records: Sequence[Mapping[str, Any]], asked: Sequence[ChatQuestions]) -> Rankings:
    """The rankings of predictions."""
    ranked = {(str(record["chat"]), record["qa_index"]): record["ranked"] for record in records}
    lists = []
    for chat, questions, _ in asked:
        for question in questions:
            lists.append([chat.position[name] for name in ranked[chat.name, question.index]])
    return lists


def by_bm25(asked: Sequence[ChatQuestions], form: Form) -> Rankings:
    """The benchmark's BM25: English Snowball stems and stop words."""

    def tokens(texts: Sequence[str]) -> list[list[str]]:
        stemmer = Stemmer("english")
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False)

    documents = [form(message) for part in asked for message in part.chat.messages]
    index = BM25(K1, B).fit(tokens(documents))
    lists = []
    start = 0
    for chat, questions, _ in asked:
        end = start + len(chat.messages)
        for words in tokens([question.text for question in questions]):
            lists.append(search.ranking(index.scores(words)[start:end]).tolist())
        start = end
    return lists


def by_vectors(config: RealTalkConfig, asked: Sequence[ChatQuestions]) -> dict[str, Rankings]:
    """The cosine of sentence vectors: texts, titled texts, and those with the benchmark's instructions."""
    rankings: dict[str, Rankings] = {}
    for chat, questions, _ in asked:
        index = indexes.build(chat, indexes.choose_encoder(config.encoder))
        texts = [question.text for question in questions]
        instructed = []
        for question in questions:
            instruction = TASKS[chat.schema][str(question.category)][1]
            instructed.append(f"Instruct: {instruction}\nQuery:{question.text}")
        ways: list[tuple[str, Form, list[str]]] = [
            ("text", plain, texts),
            ("day, speaker and text", titled, texts),
            ("the same, instructed", titled, instructed),
        ]
        for name, form, queries in ways:
            documents = index.encode([form(message) for message in chat.messages]).sentences
            lists = rankings.setdefault(f"{index.main}, {name}", [])
            for scores in index.encode(queries).sentences @ documents.T:
                lists.append(search.ranking(scores).tolist())
    return rankings


def by_texts_alone(config: RealTalkConfig, asked: Sequence[ChatQuestions]) -> Rankings:
    """The pipeline, learnt and used where every chat is nothing but a bag of texts."""
    encoder = indexes.choose_encoder(config.encoder, config.ranker)
    own = [] if config.ranker == "hand" else learning.train_chats()
    lists = []
    for chat, questions, _ in asked:
        teachers = learning.not_of(chat, own) if config.teachers == STRANGERS else own
        bare = texts_alone(chat)
        bare_teachers = [texts_alone(teacher) for teacher in teachers]
        ranker = learning.for_chat(bare, bare_teachers, lambda chat: indexes.build(chat, encoder))
        index = indexes.build(replace(bare, questions=tuple(questions)), encoder)
        for record in agent.predict(index, ranker, config):
            lists.append([chat.position[name] for name in record["ranked"]])
    return lists


def texts_alone(chat: Chat) -> Chat:
    """The chat as texts without speaker, time, photo or session, in an order that says nothing."""

    def digest(message: ChatMessage) -> str:
        return hashlib.sha256(f"{message.id} {message.text}".encode()).hexdigest()

    messages = []
    for position, message in enumerate(sorted(chat.messages, key=digest)):
        messages.append(ChatMessage(message.id, position, position + 1, "", message.text, None))
    return replace(chat, speakers=(), messages=tuple(messages))


def main(
    data: str = "realtalk", encoder: str = "auto", ranker: str = "auto", teachers: str = "realtalk"
) -> None:
    """Print the table, in per cent."""
    split = corpus.TRAIN if data == "realtalk" else "all"
    config = RealTalkConfig(data=data, split=split, encoder=encoder, ranker=ranker, teachers=teachers)
    table = measure(config).set_index("ranker")
    shares = table.columns.difference(["n"])
    table[shares] = 100 * table[shares]
    print(table.round(1).T.to_string())


if __name__ == "__main__":
    main(*sys.argv[1:])
