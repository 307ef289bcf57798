"""Tables of the corpus (content, oddities, evidence under each reading), and the trace of one question."""

import html
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.data.logs import Quirk, quirk_counts, quirks_table
from crs_lib.metrics import evidence as measures
from crs_lib.realtalk import corpus, plan
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.wording import learn_names


def chats(found: Sequence[Chat]) -> pd.DataFrame:
    """One row a chat: split, sessions, messages, photos, questions by category, raw evidence strings."""
    rows = []
    for chat in found:
        categories = Counter(q.category for q in chat.questions)
        rows.append({
            "chat": chat.name, "split": corpus.split_of(chat), "sessions": len(set(chat.sessions)),
            "messages": len(chat.messages), "bursts": _bursts(chat),
            "photos": sum(m.photo for m in chat.messages), "questions": len(chat.questions),
            **{f"category {c}": categories.get(c, 0) for c in sorted({1, 2, 3} | categories.keys())},
            "evidence strings": sum(len(q.evidence) for q in chat.questions),
        })  # fmt: skip
    return pd.DataFrame(rows).fillna(0)


def _bursts(chat: Chat) -> int:
    """Stretches of talk without a silence of more than 30 minutes; they may cross a session's border."""
    times = [message.time for message in chat.messages if message.time]
    return 1 + sum((after - before).total_seconds() > 1800 for before, after in pairwise(times))


def evidence(found: Sequence[Chat]) -> pd.DataFrame:
    """One row a reading: questions with gold and without, ids, one or several messages, sessions met."""
    rows = []
    for reading in corpus.READINGS:
        asked = questions(found, reading)
        gold = asked[asked["gold"] > 0]
        rows.append({
            "reading": reading, "questions": len(gold), "excluded": len(asked) - len(gold),
            "ids": gold["gold"].sum(), "one message": (gold["gold"] == 1).sum(),
            "several": (gold["gold"] > 1).sum(),
            **{f"{n}+ sessions": (gold["sessions"] >= n).sum() for n in (2, 3)},
        })  # fmt: skip
    return pd.DataFrame(rows)


def quirks(found: Sequence[Chat]) -> pd.DataFrame:
    """One row a kind of oddity, of the files and of the annotated evidence: count, chats, an example."""
    every = [quirk.inside(chat.name) for chat in found for quirk in [*chat.quirks, *_evidence_quirks(chat)]]
    report = quirks_table(every, ["chat", "where"])
    counted = quirk_counts(report, [], "chat", ("count", "chats"), "where", ["quirk"])
    return counted.sort_values("quirk", ignore_index=True)


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
    names = corpus.read_ids(text, chat)
    lost = [name for name in names if name not in chat.position]
    if not names:
        return "evidence not readable"
    if any(corpus.photo_neighbour(chat, name) is not None for name in lost):
        return "evidence id of a dropped photo"
    return "evidence id that does not exist" if lost else "evidence string repaired"


def questions(found: Sequence[Chat], reading: str = corpus.VALID) -> pd.DataFrame:
    """One row a question: ``gold`` messages, their ``sessions`` (``apart``: several), ``odd`` annotation. Odd
    is evidence that is missing or not exactly one existing id: what the readings differ in. ``named`` is the
    number of people that the question names, ``own`` how many of its messages they wrote.
    """
    rows = []
    for chat in found:
        gold, known = corpus.gold(chat, reading), learn_names(chat)
        for one in chat.questions:
            places = sorted(gold.get(one.index, ()))
            met = len(corpus.sessions_of(chat, places))
            made = plan.make(one.text, known, chat.today)
            rows.append({
                "chat": chat.name, "question": f"{chat.name} {one.index}", "gold": len(places),
                "sessions": met, "apart": met > 1,
                "odd": not one.evidence or any(text not in chat.position for text in one.evidence),
                "named": len(made.speakers),
                "own": sum(chat.messages[p].speaker in made.speakers for p in places),
            })  # fmt: skip
    columns = ["chat", "question", "gold", "sessions", "apart", "odd", "named", "own"]
    return pd.DataFrame(rows, columns=columns)


def spoken(asked: pd.DataFrame) -> pd.DataFrame:
    """One row an evidence message of a question that names one person: ``own`` where that person said it."""
    one = asked[(asked["named"] == 1) & (asked["gold"] > 0)]
    rows = one.loc[one.index.repeat(one["gold"]), ["question", "own"]]
    return rows.assign(own=rows.groupby("question").cumcount() < rows["own"])


def thread_pairs(built: Sequence[ChatIndex]) -> pd.DataFrame:
    """One row a pair of a question's gold messages from different sessions: is it joined, and by chance?
    Columns are chat, question, ``joined`` (1 where one thread holds both) and ``by_chance`` (the share of all
    such pairs of the chat that a thread joins). Gold is used to judge the index, never to build it. No rows
    where there is no such pair.
    """
    rows = []
    for one in built:
        of = one.thread
        chance = _joined_by_chance(of, one.session)
        for question, places in corpus.gold(one.chat).items():
            for a, b in combinations(sorted(places), 2):
                if one.session[a] != one.session[b]:
                    together = float(of[a] >= 0 and of[a] == of[b])
                    rows.append((one.chat.name, f"{one.chat.name} {question}", together, chance))
    return pd.DataFrame(rows, columns=["chat", "question", "joined", "by_chance"])


def _joined_by_chance(of: NDArray[np.intp], session: NDArray[np.intp]) -> float:
    """Share of all pairs of messages from different sessions that stand in one thread; NaN without any."""
    apart = [session[of == k] for k in range(int(of.max(initial=-1)) + 1)]
    same = sum(float(len(s)) ** 2 - float((np.bincount(s).astype(float) ** 2).sum()) for s in apart if len(s))
    every = float(len(session)) ** 2 - float((np.bincount(session).astype(float) ** 2).sum())
    return same / every if every else float("nan")


# ── the trace of one question ────────────────────────────────────────────────────────────────────────


def trace(chat: Chat, record: Mapping[str, Any]) -> pd.DataFrame:
    """One row a gold message of a question: id, rank as candidate, rank after re-ranking, whether kept, the
    bucket that it ends in, and its words. Ranks count from 1; null where it is not in that checkpoint.
    """
    place = chat.position
    candidates = [place[i] for i in record["candidates"]]
    ranked = [place[i] for i in record["ranked"]][: int(record["kept"])]
    chosen = {place[i] for i in record["selected"]}
    rows = []
    for gold in corpus.evidence(chat, chat.asked[record["qa_index"]]).positions:
        message = chat.messages[gold]
        rows.append((
            message.id, candidates.index(gold) + 1 if gold in candidates else None,
            ranked.index(gold) + 1 if gold in ranked else None, gold in chosen,
            measures.bucket(gold, candidates, ranked, chosen), f"{message.speaker}: {message.text}",
        ))  # fmt: skip
    columns = ["id", "candidates", "re-ranked", "kept", "bucket", "message"]
    return pd.DataFrame(rows, columns=columns).astype({"candidates": "Int64", "re-ranked": "Int64"})


# ── the page of a chat ───────────────────────────────────────────────────────────────────────────────


def sections(index: ChatIndex, told: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """The parts of a chat's page as (title, anchor, HTML): questions with arcs, threads, and the messages.
    ``told`` are the predictions for the chat; all texts are escaped, ids and threads lead to their messages.
    """
    joined = {i: n for n, thread in enumerate(index.threads) for i in thread}
    asked = "".join(map(_asked_part, told)) or '<p class="quiet">No question was asked.</p>'
    threads = "".join(
        f'<li id="thread-{n}">{_thread_part(index, thread)}</li>' for n, thread in enumerate(index.threads)
    )
    cut = [_segment_part(index, i, joined.get(i)) for i in range(len(index.segments))]
    return [
        (f"Questions and arcs ({len(told)})", "questions", asked),
        (f"Threads ({len(index.threads)})", "threads", f"<ol>{threads}</ol>" if threads else "<p>None.</p>"),
        (f"Segments and messages ({len(cut)}, {index.size})", "messages", "".join(cut)),
    ]


def _asked_part(record: Mapping[str, Any]) -> str:
    """A question, its answer and evidence, and its narrative in phases, folded."""
    phases = "".join(
        f"<li>{html.escape(phase['title'])} ({str(phase['start'])[:10]}): {_links(phase['ids'])}<br>"
        f"{html.escape(phase['conclusion'])}</li>"
        for phase in record["phases"]
    )
    answer = html.escape(record["answer"]["text"] or "no answer found")
    return (
        f"<details><summary>{html.escape(record['question'])}</summary><p><strong>{answer}</strong></p>"
        f"<p>Evidence: {_links(record['selected'])}</p>{f'<ol>{phases}</ol>' if phases else ''}</details>"
    )


def _links(ids: Sequence[str]) -> str:
    return ", ".join(f'<a href="#{html.escape(name)}">{html.escape(name)}</a>' for name in ids)


def _thread_part(index: ChatIndex, numbers: Sequence[int]) -> str:
    """The three commonest label words of a thread, and a link to each of its segments."""
    said = Counter(word for i in numbers for word in index.segments[i].label).most_common(3)
    days = [(i, html.escape(_day(index.chat.messages[index.segments[i].start]))) for i in numbers]
    links = ", ".join(f'<a href="#segment-{i}">{day}</a>' for i, day in days)
    return f"{html.escape(' · '.join(word for word, _ in said))}: {links}"


def _day(message: corpus.ChatMessage) -> str:
    return f"{message.time:%d %B %Y}" if message.time else f"session {message.session}"


def _segment_part(index: ChatIndex, number: int, thread: int | None) -> str:
    """A segment's day, words and thread, then its messages."""
    segment = index.segments[number]
    messages = index.chat.messages[segment.start : segment.end]
    rows = "".join(
        f'<li id="{html.escape(m.id)}">'
        f"<small>{html.escape(m.id)}{f', {m.time:%H:%M}' if m.time else ''}</small>"
        f"<b>{html.escape(m.speaker)}</b> {html.escape(m.text)}"
        f"{f' <i>[photo: {html.escape(m.caption)}]</i>' if m.photo else ''}</li>"
        for m in messages
    )
    led = f' <a href="#thread-{thread}">thread {thread + 1}</a>' if thread is not None else ""
    title = html.escape(f"{_day(messages[0])}: {' · '.join(segment.label)}")
    return f'<div class="segment" id="segment-{number}"><h3>{title}{led}</h3><ul>{rows}</ul></div>'
