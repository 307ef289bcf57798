"""Scores of predictions against annotated evidence: one row a question, then tables of means."""

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib.core import tables
from crs_lib.core.errors import InputError
from crs_lib.metrics import evidence
from crs_lib.realtalk import arcs, corpus
from crs_lib.realtalk.corpus import Chat, ChatQuestion
from crs_lib.realtalk.wording import Span, find_dates, short_spans
from crs_lib.stats import Design, cluster_bootstrap

RANKS = ("r@1", "r@5", "r@10", "r@20", "r@50", "p@5", "p@10", "hit@10", "all@10", "mrr", "ndcg@10")
SETS = ("recall", "precision", "f1", "fuzzy_recall", "size")
ARCS = (
    "global_recall",
    "global_precision",
    "coverage_any",
    "coverage_aligned",
    "mean_phase_recall",
    "phases",
    "size",
)
ANSWERED = ("exact", "token_f1", "date_accuracy", "baseline_exact", "baseline_f1")
RESISTED = "resisted"  # of questions without answer: whether none was given
KEYS = ("chat", "qa_index", "question", "plan", "candidates", "ranked", "selected", "phases", "timings")
_PER_CENT = 100
Record = Mapping[str, Any]  # a prediction as a line of JSON holds it
Row = dict[str, Any]


def read(path: Path, chats: Sequence[Chat]) -> list[dict[str, Any]]:
    """The predictions of a file, checked against their chats. Raises InputError for a missing key, an unknown
    chat, or an id that the chat does not have: every id must exist, or groundedness is not 1.
    """
    by_name = {chat.name: chat for chat in chats}
    records = []
    for number, record in enumerate(tables.read_jsonl(path), start=1):
        fault = _fault(record, by_name)
        if fault:
            raise InputError(f"{path.name}, line {number}: {fault}")
        records.append(record)
    return records


def _fault(record: Record, by_name: Mapping[str, Chat]) -> str:
    """What is wrong with a prediction; empty where nothing is."""
    missing = [key for key in KEYS if key not in record]
    if missing:
        return f"keys {missing} are missing; expected {', '.join(KEYS)}"
    chat = by_name.get(str(record["chat"]))
    if chat is None:
        return f"chat {record['chat']!r} is not among {', '.join(sorted(by_name))}"
    ids = [*record["candidates"], *record["ranked"], *record["selected"]]
    for phase in record["phases"]:
        ids += phase["ids"]
    unknown = [name for name in ids if name not in chat.position]
    return f"{chat.name} has no message {unknown[0]!r}" if unknown else ""


class Predicted(NamedTuple):
    """A prediction with its chat and its annotated question."""

    record: Record
    chat: Chat
    question: ChatQuestion

    def positions(self, checkpoint: str) -> list[int]:
        """Positions of the ids of a checkpoint, in its order."""
        return self.chat.positions(self.record[checkpoint])


def _predicted(predictions: Sequence[Record], chats: Sequence[Chat]) -> Iterator[Predicted]:
    by_name = {chat.name: chat for chat in chats}
    for record in predictions:
        chat = by_name[str(record["chat"])]
        yield Predicted(record, chat, chat.asked[record["qa_index"]])


def questions(predictions: Sequence[Record], chats: Sequence[Chat], reading: str) -> pd.DataFrame:
    """One row a predicted question: rank and set scores, checkpoint counts; NaN where it has no gold.
    ``gold`` is the number of gold messages, ``unresolvable`` the annotated ids that the interpretation could
    not place, ``density`` the candidates as a share of the chat.
    """
    return pd.DataFrame([_question_row(item, reading) for item in _predicted(predictions, chats)])


def counted(frame: pd.DataFrame, with_unanswerable: bool) -> pd.DataFrame:
    """The questions that are among "all": those with an answer, or every one where that is asked for."""
    return frame if with_unanswerable else frame[~frame["unanswerable"]]


def _question_row(item: Predicted, reading: str) -> Row:
    """The row of one question: scores of its ranking and evidence set, and how many gold ids end where."""
    annotated = corpus.evidence(item.chat, item.question, reading)
    gold = set(annotated.positions)
    candidates, ranked, selected = map(item.positions, ("candidates", "ranked", "selected"))
    reranked = ranked[: int(item.record["kept"])]
    row = _row_of(item)
    row["kind"] = item.record["plan"]["kind"]
    row["unanswerable"] = item.question.unanswerable
    row["gold"] = len(gold)
    row["sessions"] = len(item.chat.sessions_of(annotated.positions))
    row.update(evidence.rank_scores(ranked, gold))
    recall, precision, f1, size = evidence.set_score(selected, gold)
    fuzzy = evidence.fuzzy_recall(selected, gold, item.chat.sessions)
    row.update(zip(SETS, (recall, precision, f1, fuzzy, size), strict=True))
    row["density"] = len(candidates) / len(item.chat.messages)
    row["unresolvable"] = len(annotated.unresolved)
    row.update(dict.fromkeys(evidence.BUCKETS[1:], 0))
    for position in gold:
        row[evidence.bucket(position, candidates, reranked, selected)] += 1
    return row


def _row_of(item: Predicted) -> Row:
    """What every row of a question begins with."""
    question = item.question
    return {"chat": item.chat.name, "qa_index": question.index, "category": question.category}


def gold_ids(predictions: Sequence[Record], chats: Sequence[Chat], reading: str) -> list[Row]:
    """One record a question: its gold ids, and which of them each checkpoint still holds."""
    rows = []
    for record, chat, question in _predicted(predictions, chats):
        gold = chat.ids(corpus.evidence(chat, question, reading).positions)
        row: Row = {"chat": chat.name, "qa_index": question.index, "gold": gold}
        checkpoints = {**record, "reranked": record["ranked"][: int(record["kept"])]}
        for name in ("candidates", "reranked", "selected", "narrative"):
            ids = set(checkpoints[name])
            row[name] = [gold_id for gold_id in gold if gold_id in ids]
        rows.append(row)
    return rows


def need_gold(frame: pd.DataFrame, reading: str) -> None:
    """Raise InputError where no question has gold: a chat without evidence is answered, never scored."""
    if frame.empty or not (frame["gold"] > 0).any():
        raise InputError(
            f"none of the {len(frame)} questions has evidence that exists in its chat (reading {reading!r}): "
            "there is nothing to score. realtalk predict answers a chat without evidence"
        )


class _Group(NamedTuple):
    """Rows of a table that have one value in a column."""

    column: str
    value: str
    rows: pd.DataFrame


def _groups(frame: pd.DataFrame, *columns: str) -> list[_Group]:
    """Each group of each column, by value."""
    groups = []
    for column in columns:
        for value, rows in frame.groupby(column, sort=True):
            groups.append(_Group(column, str(value), rows))
    return groups


def means(frame: pd.DataFrame, columns: Sequence[str], by: str | None = None) -> pd.DataFrame:
    """Means over questions with gold, ``n`` of them, ``excluded`` the others; one row, or one a group."""
    groups = _groups(frame, by) if by else [_Group("questions", "all", frame)]
    table = []
    for column, value, rows in groups:
        scored = rows[rows["gold"] > 0]
        row: Row = {column: value, "n": len(scored)}
        row["excluded"] = len(rows) - len(scored)
        row |= scored[list(columns)].astype(float).mean().to_dict()
        table.append(row)
    return pd.DataFrame(table)


def attribution(frame: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Where gold ids end, in counts and as shares of all; a row for all, then one a group of each ``by``. The
    buckets sum to ``ids`` in every row (asserted); "unresolvable" ids are among them.
    """
    table = []
    groups = [_Group("all", "all", frame), *_groups(frame, *by)]
    for column, value, rows in groups:
        counts = {bucket: int(rows[bucket].sum()) for bucket in evidence.BUCKETS}
        ids = int(rows["gold"].sum()) + counts["unresolvable"]
        if sum(counts.values()) != ids:
            raise AssertionError("the buckets do not sum to the gold ids; this is a defect, please report it")
        row: Row = {"by": column, "group": value, "ids": ids, **counts}
        for bucket, count in counts.items():
            row[f"{bucket} %"] = _PER_CENT * count / ids if ids else math.nan
        table.append(row)
    return pd.DataFrame(table)


def intervals(
    frame: pd.DataFrame, columns: Sequence[str], unit: str, resamples: int = 2000, seed: int = 0
) -> pd.DataFrame:
    """Means of columns with 95 % bootstrap intervals, drawing the values of ``unit``; one row a measure.
    ``n`` counts the rows that have a value; no row where the frame is empty.
    """
    if frame.empty:
        return pd.DataFrame(columns=["measure", "mean", "low", "high", "n"])
    floats = frame.astype(dict.fromkeys(columns, float))
    long = floats.melt([unit], list(columns), "measure", "value")
    design = Design(system="measure", scenario=unit, value="value", resamples=resamples, seed=seed)
    estimates = cluster_bootstrap(long, design).set_index("system")
    table = estimates.loc[list(columns), ["mean", "low", "high", "n"]]
    return table.rename_axis("measure").reset_index()


def rank_intervals(frame: pd.DataFrame, columns: Sequence[str], seed: int = 0) -> pd.DataFrame:
    """The intervals of questions with gold, drawing questions, then drawing whole chats."""
    scored = with_gold(frame)
    by_question = intervals(scored, columns, "question", seed=seed)
    by_chat = intervals(scored, columns, "chat", seed=seed)
    both = by_question.assign(chats_low=by_chat["low"], chats_high=by_chat["high"])
    return both[["measure", "mean", "low", "high", "chats_low", "chats_high", "n"]]


def with_gold(frame: pd.DataFrame) -> pd.DataFrame:
    """The questions that have gold, with the column ``question``."""
    return with_question(frame[frame["gold"] > 0])


def with_question(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the column ``question``: chat and number of the question."""
    return frame.assign(question=frame["chat"] + " " + frame["qa_index"].astype(str))


def visits(predictions: Sequence[Record]) -> pd.DataFrame:
    """One row a question: searched ``again``, answer ``given``, ``phases`` and ``ids`` of its narrative."""
    rows = []
    for record in predictions:
        question = f"{record['chat']} {record['qa_index']}"
        again = record["timings"]["rounds"] > 1
        answered = record["answer"]["text"] is not None
        phases, ids = len(record["phases"]), len(record["narrative"])
        rows.append((question, again, answered, phases, ids))
    return pd.DataFrame(rows, columns=["question", "again", "given", "phases", "ids"])


def narratives(
    predictions: Sequence[Record], chats: Sequence[Chat], cases: Sequence[arcs.Arc]
) -> pd.DataFrame:
    """One row an ARC case: how the predicted phases of its question cover the gold phases."""
    by_question = {}
    for item in _predicted(predictions, chats):
        by_question[item.chat.name, item.record["question"]] = item
    rows = []
    for case in cases:
        answering = by_question.get((case.chat, case.question))
        if answering is None:
            continue
        chat = answering.chat
        predicted = [chat.positions(phase["ids"]) for phase in answering.record["phases"]]
        gold = [chat.positions(phase.ids) for phase in case.phases]
        row: Row = {"case": case.name, "chat": case.chat}
        row |= evidence.arc_score(predicted, gold)._asdict()
        row["in_order"] = evidence.in_order(predicted)
        rows.append(row)
    return pd.DataFrame(rows, columns=["case", "chat", *evidence.ArcScore._fields, "in_order"])


def answered(
    predictions: Sequence[Record], chats: Sequence[Chat], with_unanswerable: bool = False
) -> pd.DataFrame:
    """One row a question with an annotated answer, or without any: whether it was answered, and how well.

    Of several accepted answers the best counts. An abstention scores 0 (``abstained`` counts it), but where
    the chat holds no answer (``unanswerable``) it alone is right: ``resisted`` is 1 or 0, null elsewhere, and
    the other scores are null, or ``resisted`` too ``with_unanswerable``. ``date_accuracy`` is 1 where the
    days of the answer meet those that the annotated answer names, null where that names none. The baseline
    answers with the whole first message of the ranking.
    """
    rows = []
    for item in _predicted(predictions, chats):
        text = item.record["answer"]["text"]
        row = _row_of(item)
        row["unanswerable"] = item.question.unanswerable
        row["abstained"] = text is None or corpus.is_abstention(text)
        if item.question.unanswerable:
            rows.append(row | _resistance(item, row["abstained"], with_unanswerable))
        elif item.question.accepted:
            rows.append(row | _answer_scores(item))
    columns = ["chat", "qa_index", "category", "abstained", *ANSWERED, "unanswerable", RESISTED]
    frame = pd.DataFrame(rows, columns=columns)
    return with_question(frame.astype({"unanswerable": bool, RESISTED: float}))


def _answer_scores(item: Predicted) -> Row:
    """The scores of an answer, and of the best message in its place, by the best of the accepted answers."""
    answer = item.record["answer"]
    text = answer["text"] or ""
    accepted = item.question.accepted
    ranked = item.positions("ranked")
    best = item.chat.messages[ranked[0]].text if ranked else ""
    row = dict.fromkeys(ANSWERED, 0.0)
    accuracies = []
    for expected in accepted:
        row["exact"] = max(row["exact"], evidence.answer_exact(text, expected))
        if text:
            row["token_f1"] = max(row["token_f1"], evidence.answer_f1(text, expected))
        row["baseline_exact"] = max(row["baseline_exact"], evidence.answer_exact(best, expected))
        row["baseline_f1"] = max(row["baseline_f1"], evidence.answer_f1(best, expected))
        accuracies.append(_date_accuracy(answer, expected, item.chat))
    row["date_accuracy"] = max(filter(math.isfinite, accuracies), default=math.nan)
    return row


def _resistance(item: Predicted, abstained: bool, in_all: bool) -> Row:
    """The scores of a question without answer: right is to abstain, or to give a text that the file accepts.
    With ``in_all`` that counts among all questions, where the baseline, which always answers, has 0.
    """
    text = item.record["answer"]["text"] or ""
    matches = [evidence.answer_exact(text, expected) for expected in item.question.accepted]
    resisted = float(abstained or 1.0 in matches)
    if not in_all:
        return {RESISTED: resisted}
    scores = dict.fromkeys(("exact", "token_f1", RESISTED), resisted)
    return scores | {"baseline_exact": 0.0, "baseline_f1": 0.0}


def _date_accuracy(answer: Mapping[str, Any], expected: str, chat: Chat) -> float:
    """Whether the answer's days meet those of the annotated answer; NaN where that names no day."""
    today = chat.today or dt.date(2000, 1, 1)
    wanted = short_spans(find_dates(expected, today))
    if not wanted:
        return math.nan
    spans = find_dates(answer["text"] or "", today)
    if answer["days"]:
        first, last = map(dt.date.fromisoformat, answer["days"])
        spans = [Span(first, last, "", exact=False)]
    if not spans:
        return 0.0
    answered_day = spans[0]
    for span in wanted:
        if answered_day.start <= span.end and span.start <= answered_day.end:
            return 1.0
    return 0.0


def answer_means(frame: pd.DataFrame) -> pd.DataFrame:
    """Means of the answers' scores, for all and by category; ``n`` questions have an answer, ``dated`` of
    them one that names a day, ``unanswerable`` have none: their share without a reply is ``resisted``.
    """
    table = []
    groups = [_Group("category", "all", frame), *_groups(frame, "category")]
    for _, value, rows in groups:
        answerable = rows[~rows["unanswerable"]]
        row: Row = {"category": value, "n": len(answerable)}
        row["abstained"] = int(answerable["abstained"].sum())
        row["dated"] = int(rows["date_accuracy"].notna().sum())
        row.update(rows[list(ANSWERED)].astype(float).mean().to_dict())
        row["unanswerable"] = int(rows["unanswerable"].sum())
        row[RESISTED] = float(rows[RESISTED].mean())
        table.append(row)
    return pd.DataFrame(table)


def unmoved(frame: pd.DataFrame) -> pd.DataFrame:
    """Questions that no order of the candidates could change, by chat: all gold there, none, or some.
    ``nothing to rank`` have no gold among the candidates; ``density`` is the candidates' share of the chat:
    the larger, the less "all gold is there" says.
    """
    scored = frame[frame["gold"] > 0].copy()
    lost = scored["lost at candidates"]
    scored["all gold is there"] = lost == 0
    scored["some is missing"] = (lost > 0) & (lost < scored["gold"])
    scored["nothing to rank"] = lost == scored["gold"]
    by_chat = scored.groupby("chat")
    counts = by_chat[["all gold is there", "some is missing", "nothing to rank"]].sum()
    counts["n"] = by_chat.size()
    counts["density"] = by_chat["density"].mean()
    return counts.reset_index()
