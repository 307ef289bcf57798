"""Joins and labels of the world: rankings in trec_eval's order, times of chats, evidence, abstentions."""

import pytest

from crs_lib.metrics.ranking import score_run
from crs_lib.realtalk import corpus, scoring
from crs_lib.retrieval.runs import read_folder, read_qrels, read_run
from tests.edges.cases import cases

QRELS = {"1_0_0": {"a": 0, "b": 1, "c": 0}}


def ranking(path):
    """The documents of the first topic, best first."""
    hits = next(iter(read_run(path).values()))
    return [hit.id for hit in hits]


def measures(path):
    """nDCG@10, RR@10 and P@1 of a run of the topic 1_0_0, whose document b is relevant."""
    scores = score_run(read_run(path), QRELS, ["nDCG@10", "RR@10", "P@1"]).topics
    return [round(score, 4) for score in scores.loc["1_0_0"].tolist()]


def names(path):
    """The runs of the folder of a file, and what was not read."""
    files = read_folder(path.parent)
    lines = list(files.runs)
    for name in files.unread:
        lines.append(f"not read: {name}")
    return lines


def chat_of(times, **extra):
    """A chat of one message a time."""
    messages = []
    for number, time in enumerate(times, start=1):
        messages.append({"speaker": "Ada", "dia_id": f"D1:{number}", "clean_text": "hi", "date_time": time})
    return corpus.parse_chat({"session_1": messages, **extra}, "chat")


def times(cells):
    """The times of a chat's messages, or "none"."""
    read = []
    for message in chat_of(cells).messages:
        read.append(message.time.isoformat() if message.time else "none")
    return read


def time_note(cells):
    return chat_of(cells).time_note


def gold(texts, reading):
    """What an evidence list means in a chat of two sessions of four messages, and what it leaves over."""
    sessions = {"session_2": [{"dia_id": f"D2:{number}", "text": "ho"} for number in range(1, 5)]}
    chat = chat_of(["2023-05-08"] * 4, **sessions)
    question = corpus.ChatQuestion(0, "Where?", None, tuple(texts), 1)
    read = corpus.evidence(chat, question, reading)
    return chat.ids(read.positions), [f"not resolved: {name}" for name in read.unresolved]


def evidence(texts):
    """The messages that an evidence list means."""
    names, _ = gold(texts, corpus.VALID)
    return names


def unresolved_evidence(texts):
    """The messages that an evidence list means, and what it leaves over."""
    names, unresolved = gold(texts, corpus.REPAIRED)
    return names + unresolved


def scores(case):
    """Token F1, or "resisted", of a reply (empty: none) to a question as a file writes it."""
    chat = chat_of(["2023-05-08"], qa=[{"question": "What?", **case["question"]}])
    answer = {"text": case["reply"] or None, "days": None}
    record = {"chat": "chat", "qa_index": 0, "answer": answer, "ranked": ["D1:1"]}
    row = scoring.answered([record], [chat]).iloc[0]
    if row["unanswerable"]:
        return f"resisted {row['resisted']:.0f}"
    return round(row["token_f1"], 3)


def questions(path):
    """Each question of each chat of a file: chat, accepted answers, evidence, day of the last message."""
    lines = []
    for chat in corpus.read_chats(path):
        for question in chat.questions:
            gold = chat.ids(corpus.evidence(chat, question).positions)
            answers = " or ".join(question.accepted) or "none"
            lines.append(f"{chat.name} | {answers} | {' '.join(gold)} | {chat.today}")
    return lines


CALLS = {
    "ranking": ranking,
    "measures": measures,
    "judgments": read_qrels,
    "names": names,
    "times": times,
    "time note": time_note,
    "evidence": evidence,
    "unresolved evidence": unresolved_evidence,
    "scores": scores,
    "questions": questions,
    "one chat": corpus.read_chat,
}


@pytest.mark.parametrize("case", cases("labels"))
def test_names_and_labels_are_read_as_they_are_meant(case, tmp_path):
    case.check(CALLS, tmp_path)
