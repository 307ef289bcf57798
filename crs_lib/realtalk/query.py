"""Predictions: lines of JSON that any other program can read, how sure they are, and who ranks for a chat."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from crs_lib.core import tables
from crs_lib.core.errors import InputError
from crs_lib.realtalk import answers, channels, corpus, learning, wording
from crs_lib.realtalk import index as indexes
from crs_lib.realtalk import ranker as rankers
from crs_lib.realtalk.agent import Agent, ModelForm, Result
from crs_lib.realtalk.config import OWN, STRANGERS, RealTalkConfig
from crs_lib.realtalk.corpus import Chat, ChatQuestion
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.ranker import Hand, Ranker
from crs_lib.retrieval.encoders import CrossEncoder

Record = Mapping[str, Any]  # a prediction as a line of JSON holds it
KEYS = ("chat", "qa_index", "question", "plan", "candidates", "ranked", "selected", "phases", "timings")


def predict(
    index: ChatIndex,
    ranker: Ranker,
    config: RealTalkConfig | None = None,
    model: ModelForm | None = None,
) -> Iterator[dict[str, Any]]:
    """One record a question of the chat, in file order; ids instead of positions.

    ``ranked`` holds 200 ids (all of a shorter chat), best first; ``scores`` are those of the first ``kept``
    after re-ranking; ``selected`` the evidence of a fact, ``phases`` the evidence of a narrative, ``answer``
    its text or null, ``trace`` the state after each node. ``timings`` says how often the retriever was
    visited. Equal inputs give equal bytes.
    """
    agent = Agent(index, ranker, config, model)
    questions = index.chat.questions[: agent.config.questions or None]
    made_with: dict[str, Any] = {"encoder": index.encoder, "tuned": index.tuned}
    made_with["ranker"] = ranker.name
    made_with["learnt_from"] = ranker.origin
    made_with["selection"] = agent.config.selection
    made_with["mode"] = "agent"
    made_with["engine"] = agent.engine
    made_with["forms"] = agent.forms
    made_with["llm"] = model.name if model else ""
    results = agent.ask([question.text for question in questions])
    for question, result in zip(questions, results, strict=True):
        yield {**_record(index.chat, question, result), "made_with": dict(made_with)}


def _record(chat: Chat, question: ChatQuestion, result: Result) -> dict[str, Any]:
    record: dict[str, Any] = {}
    record["chat"] = chat.name
    record["qa_index"] = question.index
    record["question"] = question.text
    record["plan"] = result.plan._asdict()
    record["candidates"] = chat.ids(result.candidates)
    record["ranked"] = chat.ids(result.ranked)
    record["kept"] = len(result.reranked)
    record["scores"] = result.scores
    record["selected"] = chat.ids(result.selected)
    record["narrative"] = chat.ids(result.narrative)
    record["phases"] = [phase._asdict() for phase in result.phases]
    record["answer"] = result.answer._asdict()
    record["trace"] = result.trace
    record["timings"] = {"rounds": result.rounds, "seconds": None}
    return record


# ── how sure an answer is ────────────────────────────────────────────────────────────────────────────

SURE = 0.311  # below it the chat holds no answer
_NEAR, _NAMED, _STRANGE, _BIAS = 10.92, 2.97, -1.72, -7.42  # of the log-odds
_BEST = 5  # messages that are looked at


def confidence(index: ChatIndex, record: Record) -> float:
    """How likely a chat holds the answer of a prediction, in [0, 1], where every other question is foreign.

    By the best token match among the five best messages, the number of its people that the question names,
    and that of names in it that the chat never says. A logistic regression on questions of RealTalk chats 1
    to 4 and 320 about other chats, of which ``SURE`` refuses 85 %; without MiniLM a rough guess. Where under
    90 % of a chat's times are read it falls by the unread share (by half of it where no time is asked for).
    """
    question = record["question"]
    plan = index.plan(question)
    (scores,) = channels.scores(index, [question], [plan])
    near = [index.chat.position[name] for name in record["ranked"][:_BEST]]
    best = float(scores["tokens"][near].max())
    usual = answers.FAR["minilm"]
    scaled = best * usual / answers.FAR.get(index.main, usual)
    strange = _strange_names(index, question)
    log_odds = _NEAR * scaled + _NAMED * len(plan.speakers) + _STRANGE * strange + _BIAS
    sure = 1 / (1 + math.exp(-log_odds))
    if not index.chat.time_note:
        return sure
    if plan.kind == "when" or plan.windows:
        return sure * index.chat.timed
    return sure * (1 + index.chat.timed) / 2


def _strange_names(index: ChatIndex, question: str) -> int:
    """How many capitalised words behind the first mean no speaker and stand nowhere in the chat."""
    capitalised = set(re.findall(r"\b[A-Z][a-z]+\b", question.partition(" ")[2]))
    strange = set()
    for name in capitalised.difference(wording.named(question, index.names)):
        for stem in wording.content_words(name):
            if not len(index.having(stem)):
                strange.add(name)
    return len(strange)


def read(path: Path, chats: Iterable[Chat]) -> list[dict[str, Any]]:
    """The predictions of a file, checked against their chats. Raises InputError for a missing key, an unknown
    chat, or an id that the chat does not have: every id must exist, or groundedness is not 1.
    """
    by_name = {chat.name: chat for chat in chats}
    records = []
    for number, record in enumerate(tables.read_jsonl(path), start=1):
        _check(record, by_name, f"{path.name}, line {number}")
        records.append(record)
    return records


def _check(record: Record, by_name: Mapping[str, Chat], where: str) -> None:
    missing = [key for key in KEYS if key not in record]
    if missing:
        raise InputError(f"{where}: keys {missing} are missing; expected {', '.join(KEYS)}")
    chat = by_name.get(str(record["chat"]))
    if chat is None:
        raise InputError(f"{where}: chat {record['chat']!r} is not among {', '.join(sorted(by_name))}")
    ids = [*record["candidates"], *record["ranked"], *record["selected"]]
    for phase in record["phases"]:
        ids += phase["ids"]
    for name in ids:
        if name not in chat.position:
            raise InputError(f"{where}: {chat.name} has no message {name!r}")


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
        rankers.need_trees()
    if name == "auto" and folder is None and teachers == OWN:
        ready = rankers.shipped(index.encoder)
        if ready and not any(corpus.resembles(index.chat.sketch, sketch) for sketch in ready.sketches):
            return ready.ranker
    own, foreign = learning.train_chats(folder, teachers)
    if teachers == STRANGERS:
        own = learning.not_of(index.chat, own)
    ranker = learning.for_chat(index.chat, own, foreign, lambda chat: indexes.build(chat, index.encoder))
    if name == "learned" and ranker.name == Hand.name:
        cure = "set CRS_MIRROR or download them, or use ranker 'hand'"
        raise InputError(f"no training chats were found; {cure}")
    return ranker
