"""Scores of predictions against annotated evidence: one row a question, then tables of means."""

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.metrics import evidence
from crs_lib.realtalk import arcs, corpus
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.wording import find_dates

Record = Mapping[str, Any]
RANKS = ("r@1", "r@5", "r@10", "r@20", "r@50", "p@5", "p@10", "hit@10", "all@10", "mrr", "ndcg@10")
SETS = ("recall", "precision", "f1", "fuzzy_recall", "size")
ARCS = tuple(
    "global_recall global_precision coverage_any coverage_aligned mean_phase_recall phases size".split()
)


def questions(predictions: Sequence[Record], chats: Sequence[Chat], reading: str) -> pd.DataFrame:
    """One row a predicted question: rank and set scores, checkpoint counts; NaN where it has no gold.
    ``gold`` is the number of gold messages, ``unresolvable`` the annotated ids that the reading could not
    place, ``density`` the candidates as a share of the chat.
    """
    return pd.DataFrame([_question(*one, reading) for one in _asked(predictions, chats)])


def gold_ids(predictions: Sequence[Record], chats: Sequence[Chat], reading: str) -> list[dict[str, Any]]:
    """One record a question: its gold ids, and which of them each checkpoint still holds."""
    rows = []
    for record, chat, asked in _asked(predictions, chats):
        gold = chat.ids(corpus.evidence(chat, asked, reading).positions)
        stages = {
            "candidates": record["candidates"], "reranked": record["ranked"][: int(record["kept"])],
            "selected": record["selected"], "narrative": record["narrative"],
        }  # fmt: skip
        left = {name: [one for one in gold if one in set(ids)] for name, ids in stages.items()}
        rows.append({"chat": chat.name, "qa_index": asked.index, "gold": gold, **left})
    return rows


def _asked(
    predictions: Sequence[Record], chats: Sequence[Chat]
) -> Iterator[tuple[Record, Chat, corpus.ChatQuestion]]:
    """Each prediction with its chat and its question."""
    known = {chat.name: chat for chat in chats}
    for record in predictions:
        chat = known[str(record["chat"])]
        yield record, chat, chat.asked[record["qa_index"]]


def need_gold(frame: pd.DataFrame, reading: str) -> None:
    """Raise InputError where no question has gold: a chat without evidence is answered, never scored."""
    if frame.empty or not (frame["gold"] > 0).any():
        raise InputError(
            f"none of the {len(frame)} questions has evidence that exists in its chat (reading {reading!r}): "
            "there is nothing to score. realtalk predict answers a chat without evidence"
        )


def _question(record: Record, chat: Chat, asked: corpus.ChatQuestion, reading: str) -> dict[str, Any]:
    found = corpus.evidence(chat, asked, reading)
    gold = set(found.positions)
    candidates, ranked, chosen = (
        [chat.position[name] for name in record[key]] for key in ("candidates", "ranked", "selected")
    )
    whole = evidence.set_score(chosen, gold)
    kept = set(ranked[: int(record["kept"])])
    buckets = [evidence.bucket(g, set(candidates), kept, set(chosen)) for g in gold]
    return {
        "chat": chat.name, "qa_index": asked.index, "category": asked.category,
        "kind": record["plan"]["kind"], "gold": len(gold),
        "sessions": len(corpus.sessions_of(chat, found.positions)), **evidence.rank_scores(ranked, gold),
        "recall": whole.recall, "precision": whole.precision, "f1": whole.f1,
        "fuzzy_recall": evidence.fuzzy_recall(chosen, gold, chat.sessions), "size": whole.size,
        "density": len(candidates) / len(chat.messages), "unresolvable": len(found.unresolved),
        **{name: buckets.count(name) for name in evidence.BUCKETS[1:]},
    }  # fmt: skip


def means(frame: pd.DataFrame, columns: Sequence[str], by: str | None = None) -> pd.DataFrame:
    """Means over questions with gold, ``n`` of them, ``excluded`` the others; one row, or one a group."""
    rows = []
    for _, name, part in _groups(frame, by) if by else [("", "all", frame)]:
        scored = part[part["gold"] > 0]
        rows.append({
            by or "questions": name, "n": len(scored), "excluded": len(part) - len(scored),
            **{column: float(scored[column].mean()) for column in columns},
        })  # fmt: skip
    return pd.DataFrame(rows)


def _groups(frame: pd.DataFrame, *by: str) -> list[tuple[str, str, pd.DataFrame]]:
    """Each group of each column: the column, the group's name, its rows."""
    return [(name, str(key), part) for name in by for key, part in frame.groupby(name, sort=True)]


def attribution(frame: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Where gold ids end, in counts and as shares of all; a row for all, then one a group of each ``by``. The
    buckets sum to ``ids`` in every row (asserted); "unresolvable" ids are among them.
    """
    rows = []
    for name, key, part in [("all", "all", frame), *_groups(frame, *by)]:
        counts = {bucket: int(part[bucket].sum()) for bucket in evidence.BUCKETS}
        ids = int(part["gold"].sum()) + counts["unresolvable"]
        if sum(counts.values()) != ids:
            raise AssertionError("the buckets do not sum to the gold ids; this is a defect, please report it")
        shares = {f"{bucket} %": 100 * count / ids if ids else math.nan for bucket, count in counts.items()}
        rows.append({"by": name, "group": key, "ids": ids, **counts, **shares})
    return pd.DataFrame(rows)


def intervals(
    frame: pd.DataFrame, columns: Sequence[str], unit: str, resamples: int = 2000, seed: int = 0
) -> pd.DataFrame:
    """Means of columns with 95 % bootstrap intervals, drawing the values of ``unit``; one row a measure.
    ``n`` counts the rows that have a value; no row where the frame is empty.
    """
    from crs_lib.stats import Design, cluster_bootstrap

    if frame.empty:
        return pd.DataFrame(columns=["measure", "mean", "low", "high", "n"])
    long = frame.astype(dict.fromkeys(columns, float)).melt([unit], list(columns), "measure", "value")
    design = Design(system="measure", scenario=unit, value="value", resamples=resamples, seed=seed)
    found = cluster_bootstrap(long, design).set_index("system")
    return found.loc[list(columns), ["mean", "low", "high", "n"]].rename_axis("measure").reset_index()


def rank_intervals(frame: pd.DataFrame, columns: Sequence[str], seed: int = 0) -> pd.DataFrame:
    """The intervals of questions with gold, drawing questions, then drawing whole chats."""
    scored = with_gold(frame)
    one, two = (intervals(scored, columns, unit, seed=seed) for unit in ("question", "chat"))
    both = one.assign(chats_low=two["low"], chats_high=two["high"])
    return both[["measure", "mean", "low", "high", "chats_low", "chats_high", "n"]]


def with_gold(frame: pd.DataFrame) -> pd.DataFrame:
    """The questions that have gold, with the column ``question``."""
    return with_question(frame[frame["gold"] > 0])


def visits(predictions: Sequence[Record]) -> pd.DataFrame:
    """One row a question: searched ``again``, answer ``given``, ``phases`` and ``ids`` of its narrative."""
    rows = [
        (f"{one['chat']} {one['qa_index']}", one["timings"]["rounds"] > 1, one["answer"]["text"] is not None)
        + (len(one["phases"]), len(one["narrative"]))
        for one in predictions
    ]
    return pd.DataFrame(rows, columns=["question", "again", "given", "phases", "ids"])


def with_question(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the column ``question``: chat and number of the question."""
    return frame.assign(question=frame["chat"] + " " + frame["qa_index"].astype(str))


def narratives(
    predictions: Sequence[Record], chats: Sequence[Chat], cases: Sequence[arcs.Arc]
) -> pd.DataFrame:
    """One row an ARC case: how the predicted phases of its question cover the gold phases."""
    known = {chat.name: chat for chat in chats}
    told = {(str(r["chat"]), r["question"]): r for r in predictions}
    rows = []
    for case in cases:
        if (record := told.get((case.chat, case.question))) is None:
            continue
        place = known[case.chat].position
        given = [[place[i] for i in phase["ids"]] for phase in record["phases"]]
        score = evidence.arc_score(given, [[place[i] for i in phase.ids] for phase in case.phases])
        row = {"case": case.name, "chat": case.chat, **score._asdict()}
        rows.append(row | {"in_order": evidence.in_order(given)})
    return pd.DataFrame(rows, columns=["case", "chat", *evidence.ArcScore._fields, "in_order"])


ANSWERED = ("exact", "token_f1", "date_accuracy", "baseline_exact", "baseline_f1")


def answered(predictions: Sequence[Record], chats: Sequence[Chat]) -> pd.DataFrame:
    """One row a question with an annotated answer: whether it was answered, and how well. An abstention
    scores 0 (``abstained`` counts it). ``date_accuracy`` is 1 where the days of the answer meet those that
    the annotated answer names, null where that names none. The baseline answers with the whole first message
    of the ranking.
    """
    rows = []
    for record, chat, asked in _asked(predictions, chats):
        if asked.answer is None or not asked.answer.strip():
            continue
        given = record["answer"]["text"]
        best = chat.messages[chat.position[record["ranked"][0]]].text if record["ranked"] else ""
        rows.append({
            "chat": chat.name, "qa_index": asked.index, "category": asked.category,
            "abstained": given is None,
            "exact": evidence.answer_exact(given or "", asked.answer),
            "token_f1": evidence.answer_f1(given, asked.answer) if given else 0.0,
            "date_accuracy": _date_hit(record["answer"], asked.answer, chat),
            "baseline_exact": evidence.answer_exact(best, asked.answer),
            "baseline_f1": evidence.answer_f1(best, asked.answer),
        })  # fmt: skip
    columns = ["chat", "qa_index", "category", "abstained", *ANSWERED]
    return with_question(pd.DataFrame(rows, columns=columns))


def _date_hit(answer: Mapping[str, Any], expected: str, chat: Chat) -> float:
    """Whether the answer's days meet those of the annotated answer; NaN where that names no day."""
    today = chat.today or dt.date(2000, 1, 1)
    if not (wanted := [span for span in find_dates(expected, today) if (span.end - span.start).days <= 31]):
        return math.nan
    if answer["days"]:
        first, last = (dt.date.fromisoformat(day) for day in answer["days"])
    else:
        if not (told := find_dates(answer["text"] or "", today)):
            return 0.0
        first, last = told[0].start, told[0].end
    return float(any(first <= span.end and span.start <= last for span in wanted))


def answer_means(frame: pd.DataFrame) -> pd.DataFrame:
    """Means of the answers' scores, for all and by category; ``dated`` is how many name a day."""
    rows = [
        {
            "category": name, "n": len(part), "abstained": int(part["abstained"].sum()),
            "dated": int(part["date_accuracy"].notna().sum()),
            **{column: float(part[column].mean()) for column in ANSWERED},
        }
        for _, name, part in [("", "all", frame), *_groups(frame, "category")]
    ]  # fmt: skip
    return pd.DataFrame(rows)


def unmoved(frame: pd.DataFrame) -> pd.DataFrame:
    """Questions that no order of the candidates could change, by chat: all gold there, none, or some.
    ``nothing to rank`` have no gold among the candidates; ``density`` is the candidates' share of the chat:
    the larger, the less "all gold is there" says.
    """
    scored = frame[frame["gold"] > 0]
    lost = scored["lost at candidates"]
    told = scored.assign(**{
        "all gold is there": lost == 0, "some is missing": (lost > 0) & (lost < scored["gold"]),
        "nothing to rank": lost == scored["gold"],
    })  # fmt: skip
    by = told.groupby("chat")
    counts = by[["all gold is there", "some is missing", "nothing to rank"]].sum()
    return counts.assign(n=by.size(), density=by["density"].mean()).reset_index()
