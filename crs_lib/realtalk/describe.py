"""Tables of the corpus (content, oddities, evidence by interpretation), and the trace of one question."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.data.logs import Quirk, quirk_counts, quirks_table
from crs_lib.metrics import evidence as measures
from crs_lib.realtalk import corpus, wording
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import GAP_SECONDS, ChatIndex, Positions
from crs_lib.realtalk.scoring import Predicted, Record

_CATEGORIES = (1, 2, 3)  # columns of every table; others follow where a chat has them
_QUESTIONS = ("chat", "question", "gold", "sessions", "apart", "odd", "named", "own")


def chats(corpus_chats: Sequence[Chat]) -> pd.DataFrame:
    """One row a chat: split, sessions, messages, bursts (talk without a silence of 30 minutes), photos, the
    share of times that could be read, questions by category, raw evidence strings.
    """
    rows = []
    for chat in corpus_chats:
        row: dict[str, Any] = {"chat": chat.name, "split": corpus.split_of(chat)}
        row["sessions"] = len(set(chat.sessions))
        row["messages"] = len(chat.messages)
        row["bursts"] = _bursts(chat)
        row["photos"] = sum(message.photo for message in chat.messages)
        row["times read"] = chat.timed
        row["questions"] = len(chat.questions)
        categories = Counter(question.category for question in chat.questions)
        for category in sorted({*_CATEGORIES, *categories}):
            row[f"category {category}"] = categories[category]
        row["evidence strings"] = sum(len(question.evidence) for question in chat.questions)
        rows.append(row)
    return pd.DataFrame(rows).fillna(0)


def _bursts(chat: Chat) -> int:
    """Stretches of talk without a silence of more than 30 minutes; they may cross a session's border."""
    times = [message.time for message in chat.messages if message.time]
    silences = 0
    for before, after in pairwise(times):
        silences += (after - before).total_seconds() > GAP_SECONDS
    return 1 + silences


def evidence(corpus_chats: Sequence[Chat]) -> pd.DataFrame:
    """One row an interpretation: questions with gold and without, ids, one or several messages, sessions."""
    rows = []
    for reading in corpus.READINGS:
        every = questions(corpus_chats, reading)
        with_gold = every[every["gold"] > 0]
        row = {"reading": reading, "questions": len(with_gold)}
        row["excluded"] = len(every) - len(with_gold)
        row["ids"] = with_gold["gold"].sum()
        row["one message"] = (with_gold["gold"] == 1).sum()
        row["several"] = (with_gold["gold"] > 1).sum()
        for least in (2, 3):
            row[f"{least}+ sessions"] = (with_gold["sessions"] >= least).sum()
        rows.append(row)
    return pd.DataFrame(rows)


def quirks(corpus_chats: Sequence[Chat]) -> pd.DataFrame:
    """One row a kind of oddity, of the files and of the annotated evidence: count, chats, an example."""
    every: list[Quirk] = []
    for chat in corpus_chats:
        quirks_of_chat = [*chat.quirks, *_evidence_quirks(chat)]
        every += [quirk.inside(chat.name) for quirk in quirks_of_chat]
    report = quirks_table(every, ["chat", "where"])
    counts = quirk_counts(report, [], "chat", ("count", "chats"), "where", ["quirk"])
    return counts.sort_values("quirk", ignore_index=True)


def _evidence_quirks(chat: Chat) -> Iterator[Quirk]:
    """Annotated evidence that is missing, or not exactly one existing id, question by question."""
    for question in chat.questions:
        where = f"question {question.index}"
        if not question.evidence:
            yield Quirk("no evidence given", (where,))
        for text in question.evidence:
            if text not in chat.position:
                yield Quirk(_slip(chat, text), (f"{where}, {text!r}",))


def _slip(chat: Chat, text: str) -> str:
    """What is wrong with an evidence string that is not one existing id."""
    names = corpus.read_ids(text, chat)
    if not names:
        return "evidence not readable"
    slip = "evidence string repaired"
    for name in names:
        if name in chat.position:
            continue
        slip = "evidence id that does not exist"
        if corpus.photo_neighbour(chat, name) is not None:
            return "evidence id of a dropped photo"
    return slip


def questions(corpus_chats: Sequence[Chat], reading: str = corpus.VALID) -> pd.DataFrame:
    """One row a question: ``gold`` messages, their ``sessions`` (``apart``: several), ``odd`` annotation.

    Odd is evidence that is missing or not exactly one existing id: what the interpretations differ in.
    ``named`` is the number of people that the question names, ``own`` how many of its messages they wrote.
    """
    rows = []
    for chat in corpus_chats:
        gold = corpus.gold(chat, reading)
        names = wording.learn_names(chat)
        for question in chat.questions:
            positions = sorted(gold.get(question.index, ()))
            sessions = len(chat.sessions_of(positions))
            people = wording.plan(question.text, names, chat.today).speakers
            odd = not question.evidence or not chat.position.keys() >= set(question.evidence)
            own = sum(chat.messages[position].speaker in people for position in positions)
            row: dict[str, Any] = {"chat": chat.name, "question": f"{chat.name} {question.index}"}
            row["gold"] = len(positions)
            row["sessions"] = sessions
            row["apart"] = sessions > 1
            row["odd"] = odd
            row["named"] = len(people)
            row["own"] = own
            rows.append(row)
    return pd.DataFrame(rows, columns=list(_QUESTIONS))


def spoken(questions: pd.DataFrame) -> pd.DataFrame:
    """One row an evidence message of a question that names one person: ``own`` where that person said it."""
    single = questions[(questions["named"] == 1) & (questions["gold"] > 0)]
    rows = single.loc[single.index.repeat(single["gold"]), ["question", "own"]]
    return rows.assign(own=rows.groupby("question").cumcount() < rows["own"])


def thread_pairs(indexes: Sequence[ChatIndex]) -> pd.DataFrame:
    """One row a pair of a question's gold messages from different sessions: is it joined, and by chance?

    Columns are chat, question, ``joined`` (1 where one thread holds both) and ``by_chance`` (the share of all
    such pairs of the chat that a thread joins). Gold is used to judge the index, never to build it. No rows
    where there is no such pair.
    """
    rows = []
    for index in indexes:
        thread, session = index.thread, index.session
        chance = _joined_by_chance(thread, session)
        name = index.chat.name
        for question, positions in corpus.gold(index.chat).items():
            for first, second in combinations(sorted(positions), 2):
                if session[first] != session[second]:
                    joined = float(thread[first] >= 0 and thread[first] == thread[second])
                    rows.append((name, f"{name} {question}", joined, chance))
    return pd.DataFrame(rows, columns=["chat", "question", "joined", "by_chance"])


def _joined_by_chance(thread: Positions, session: Positions) -> float:
    """Share of all pairs of messages from different sessions that stand in one thread; NaN without any."""
    numbers = range(int(thread.max(initial=-1)) + 1)
    joined = sum(_pairs_apart(session[thread == number]) for number in numbers)
    every = _pairs_apart(session)
    return joined / every if every else float("nan")


def _pairs_apart(session: Positions) -> float:
    """How many ordered pairs of messages lie in different sessions."""
    counts = np.bincount(session).astype(float)
    return float(len(session)) ** 2 - float((counts**2).sum())


def trace(chat: Chat, record: Record) -> pd.DataFrame:
    """One row a gold message of a question: id, rank as candidate, rank after re-ranking, whether selected,
    the bucket that it ends in, and its words. Ranks count from 1; null where it is not in that checkpoint.
    """
    predicted = Predicted(record, chat, chat.asked[record["qa_index"]])
    candidates = predicted.positions("candidates")
    reranked = predicted.positions("ranked")[: int(record["kept"])]
    selected = predicted.positions("selected")
    rows = []
    for position in corpus.evidence(chat, predicted.question).positions:
        message = chat.messages[position]
        bucket = measures.bucket(position, candidates, reranked, selected)
        ranks = (_rank(position, candidates), _rank(position, reranked))
        text = f"{message.speaker}: {message.text}"
        rows.append((message.id, *ranks, position in selected, bucket, text))
    columns = ["id", "candidates", "re-ranked", "kept", "bucket", "message"]
    return pd.DataFrame(rows, columns=columns).astype({"candidates": "Int64", "re-ranked": "Int64"})


def _rank(position: int, ranking: Sequence[int]) -> int | None:
    return ranking.index(position) + 1 if position in ranking else None
