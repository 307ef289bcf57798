"""Corpus tables: what is in the chats, what is odd in them, and what each reading of the evidence keeps."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.data.quirks import Quirk, quirk_counts, quirks_table
from crs_lib.realtalk import corpus, dates, plan, readings
from crs_lib.realtalk.corpus import Chat
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.wording import learn_names


def chats(found: Sequence[Chat]) -> pd.DataFrame:
    """One row a chat: split, sessions, messages, photos, questions by category, raw evidence strings."""
    rows = []
    for chat in found:
        categories = Counter(q.category for q in chat.questions)
        rows.append({
            "chat": chat.name,
            "split": corpus.split_of(chat),
            "sessions": len(set(chat.sessions)),
            "messages": len(chat.messages),
            "bursts": bursts(chat),
            "photos": sum(m.photo for m in chat.messages),
            "questions": len(chat.questions),
            **{f"category {c}": categories.get(c, 0) for c in sorted({1, 2, 3} | categories.keys())},
            "evidence strings": sum(len(q.evidence) for q in chat.questions),
        })  # fmt: skip
    return pd.DataFrame(rows).fillna(0)


def bursts(chat: Chat, minutes: int = 30) -> int:
    """Stretches of talk without a silence of more than ``minutes``; they may cross a session's border."""
    times = [message.time for message in chat.messages if message.time]
    gaps = [(after - before).total_seconds() / 60 for before, after in pairwise(times)]
    return 1 + sum(gap > minutes for gap in gaps)


def evidence(found: Sequence[Chat]) -> pd.DataFrame:
    """One row a reading: questions with gold and without, ids, one or several messages, sessions met."""
    rows = []
    for reading in readings.READINGS:
        gold = [(chat, places) for chat in found for places in readings.gold(chat, reading).values()]
        sizes = [len(places) for _, places in gold]
        met = [len(readings.sessions_of(chat, sorted(places))) for chat, places in gold]
        total = sum(len(chat.questions) for chat in found)
        rows.append({
            "reading": reading,
            "questions": len(gold),
            "excluded": total - len(gold),
            "ids": sum(sizes),
            "one message": sum(size == 1 for size in sizes),
            "several": sum(size > 1 for size in sizes),
            "2+ sessions": sum(n >= 2 for n in met),
            "3+ sessions": sum(n >= 3 for n in met),
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
    names = readings.read_ids(text, chat)
    lost = [name for name in names if name not in chat.position]
    if not names:
        return "evidence not readable"
    if any(readings.photo_neighbour(chat, name) is not None for name in lost):
        return "evidence id of a dropped photo"
    return "evidence id that does not exist" if lost else "evidence string repaired"


def regularities(found: Sequence[Chat]) -> pd.DataFrame:
    """What a planner can count on: people named, whose words bear the evidence, days, forms of questions."""
    named: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    own = ids = dated = 0
    for chat in found:
        known, today = learn_names(chat), max((m.time for m in chat.messages if m.time), default=None)
        gold = readings.gold(chat)
        for question in chat.questions:
            made = plan.make(question.text, known, today.date() if today else None)
            named[len(made.speakers)] += 1
            kinds[made.kind] += 1
            dated += bool(made.windows)
            if len(made.speakers) == 1:
                places = gold.get(question.index, frozenset())
                ids += len(places)
                own += sum(chat.messages[p].speaker == made.speakers[0] for p in places)
    rows: list[tuple[str, float]] = [
        (f"questions naming {n} speakers", count) for n, count in sorted(named.items())
    ]
    rows += [("evidence by the one speaker named, %", round(100 * own / ids, 1) if ids else np.nan)]
    rows += [("questions with a calendar day", dated)]
    rows += [(f"questions of kind {kind!r}", count) for kind, count in kinds.most_common()]
    return pd.DataFrame(rows, columns=["regularity", "value"])


def index(built: ChatIndex) -> pd.DataFrame:
    """The index of a chat in one column of numbers: L1 segments, L1.5 signals, L2 threads."""
    from crs_lib.realtalk import threads

    found = threads.find(built)
    sizes = [s.end - s.start for s in built.segments]
    spans: list[dates.Span] = [span for day in built.signals.days for span in day]
    rows: list[tuple[str, float]] = [
        ("L1 segments", len(sizes)),
        ("L1 messages a segment", round(float(np.mean(sizes)), 2)),
        ("L1.5 messages that ask", int(built.signals.column("question").sum())),
        ("L1.5 messages with photo", int(built.signals.column("photo").sum())),
        ("L1.5 date expressions", len(spans)),
        ("L1.5 names for speakers", len(built.names)),
        ("L2 threads", len(found)),
        ("L2 segments in threads", sum(len(t.segments) for t in found)),
        ("L2 weak threads", sum(t.weak for t in found)),
    ]
    return pd.DataFrame(rows, columns=["index", "value"])


def thread_pairs(built: Sequence[ChatIndex]) -> pd.DataFrame:
    """One row a pair of a question's gold messages from different sessions: is it joined, and by chance?

    Columns are chat, question, ``joined`` (1 where one thread holds both) and ``by_chance`` (the share of all
    such pairs of the chat that a thread joins). Gold is used to judge the index, never to build it. No rows
    where there is no such pair.
    """
    from crs_lib.realtalk import threads

    rows = []
    for one in built:
        of = threads.of_segment(threads.find(one), len(one.segments))[one.owner]
        chance = _joined_by_chance(of, one.session)
        for question, places in readings.gold(one.chat).items():
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
