"""The evidence of a fact, the story in phases, and the answer in words, out of ranked messages.

A fact keeps messages by distance of scores, a story by weight. The answer is a day, a place, a number or the
clauses of the evidence, none where nothing is found: no language model writes it, so its scores are a floor.
"""

import datetime as dt
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import prompts
from crs_lib.core.text import shorten, words
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.plan import QueryPlan
from crs_lib.realtalk.wording import WORDS, content_words

STORY = 0.96  # the share of the scores' weight that a narrative holds
LEAST, PHASE = 3, 15  # ids of a phase: at least, and the soft cap
PREVIEWED, _NODES, _MOST = 3, 5, 8
_SHARPNESS = 2.0  # of a narrative's weights


def facts(ranked: Sequence[int], scores: NDArray[np.floating], reach: float, most: int) -> list[int]:
    """The evidence of a fact: from the best message down to ``reach`` below it, at least one, ranked.
    ``scores`` follow ``ranked``. An empty ranking gives an empty set.
    """
    if not len(ranked):
        return []
    count = int(np.sum(scores >= scores[0] - reach))
    return list(ranked[: max(1, min(count, most))])


def narrative(
    ranked: Sequence[int], scores: NDArray[np.floating], least: int, most: int, unit: float,
    share: float = STORY,
) -> list[int]:  # fmt: skip
    """The evidence of a narrative, ranked: as many messages as the scores call for, from least to most. A
    message weighs e to the power of twice its distance from the best, in steps of ``unit``; the best are
    taken until they hold ``share`` of all that the ranking weighs. One clear message gives a short story,
    many near ones a long one.
    """
    if not len(ranked):
        return []
    weight = np.exp(_SHARPNESS * (np.asarray(scores, dtype=np.float64) - float(scores[0])) / unit)
    enough = 1 + int(np.searchsorted(np.cumsum(weight) / weight.sum(), share - 1e-9))
    return list(ranked[: max(least, min(enough, most, len(ranked)))])


def preview(ranked: Sequence[int], owner: NDArray[np.intp], starts: Sequence[int], most: int) -> list[int]:
    """The selection this study replaces: only the first three messages of the five best nodes are seen. A
    node's rank is that of its best message; whatever stands deeper in a node cannot be chosen, however good
    it is. Kept to show what the change does. At most ``most`` ids, best node first.
    """
    nodes = list(dict.fromkeys(int(owner[place]) for place in ranked))[:_NODES]
    seen = [starts[node] + i for node in nodes for i in range(PREVIEWED)]
    known = set(ranked)
    return [place for place in seen if place in known][:most]


class Phase(NamedTuple):
    """One phase of a narrative: its evidence ids, and texts taken from them word for word. ``summary`` is its
    best message, ``conclusion`` the last one that is no question. ``start`` and ``end`` are the times of its
    first and last message (ISO, null where unknown); every id's time lies between them. ``uncertain`` is the
    share of ids whose score is far from the best.
    """

    title: str
    ids: tuple[str, ...]
    start: str | None
    end: str | None
    summary: str
    uncertain: float
    conclusion: str = ""


def phases(
    index: ChatIndex, chosen: Sequence[int], scores: Mapping[int, float], bar: float, soft_cap: int = PHASE,
    least: int = LEAST, most: int = 30,
) -> list[Phase]:  # fmt: skip
    """The phases of chosen positions, in time order; one where few are chosen, none where none is. ``scores``
    gives each position's score; below ``bar`` a message counts as uncertain. Eight phases are the most
    (:func:`_cut`). In a phase of more than ``soft_cap`` messages the uncertain ones beyond the cap are
    dropped; the best of a segment is the last of it to go. A phase of fewer than ``least`` takes the best
    scored of its segments, then of its sessions, while all have no more than ``most``; one that is still too
    small joins the nearer neighbour.
    """
    order = sorted(chosen)
    parts = [_capped(index, part, scores, bar, soft_cap) for part in _cut(index, order)]
    parts = _joined(_filled(index, parts, scores, least, most), least)
    said = [[word for place in part for word in words(index.chat.messages[place].text)] for part in parts]
    stop = prompts.lists(WORDS)["stop"].split()
    counted = [Counter(word for word in told if word not in stop and len(word) > 2) for told in said]
    everywhere = sum(counted, Counter[str]())
    return [_phase(index, p, c, everywhere, scores, bar) for p, c in zip(parts, counted, strict=True)]


def _cut(index: ChatIndex, order: Sequence[int]) -> list[list[int]]:
    """Ascending positions cut into phases, each in one piece: as many as the evidence has, at most eight. A
    phase ends where the next message lies in another session: what is told on one occasion belongs together.
    Of more than seven such borders the strongest seven are taken: the longest silence (log hours) plus the
    greatest change of topic (1 - cosine).
    """
    n = len(order)
    if n < 2:
        return [list(order)] if n else []
    messages, vectors, strength = index.chat.messages, index.vectors.sentences, np.zeros(n - 1)
    for i, (a, b) in enumerate(itertools.pairwise(order)):
        before, after = messages[a].time, messages[b].time
        if before and after:
            strength[i] += float(np.log1p(max(0.0, (after - before).total_seconds()) / 3600))
        strength[i] += 1 - float(vectors[a] @ vectors[b])
    borders = [i for i in range(n - 1) if index.session[order[i]] != index.session[order[i + 1]]]
    best = sorted(borders, key=lambda i: (-strength[i], i))[: _MOST - 1]
    edges = [0, *sorted(i + 1 for i in best), n]
    return [list(order[a:b]) for a, b in itertools.pairwise(edges)]


def _best(places: Iterable[int], scores: Mapping[int, float]) -> list[int]:
    return sorted(places, key=lambda place: (-scores.get(place, -np.inf), place))


def _capped(
    index: ChatIndex, part: Sequence[int], scores: Mapping[int, float], bar: float, soft_cap: int
) -> list[int]:
    """The messages of a phase that stay, the best of each of its segments before all others."""
    best = _best(part, scores)
    leads = {int(index.owner[place]): place for place in reversed(best)}
    order = [*_best(leads.values(), scores), *(place for place in best if place not in leads.values())]
    kept = {p for i, p in enumerate(order) if i < soft_cap or scores.get(p, -np.inf) >= bar}
    return [place for place in part if place in kept]


def _filled(
    index: ChatIndex, parts: Sequence[list[int]], scores: Mapping[int, float], least: int, most: int
) -> list[list[int]]:
    """Phases with further scored messages of their own segments, then sessions, up to ``least`` each."""
    used = {place for part in parts for place in part}
    out = []
    for part in parts:
        near = list[int]()
        for kinds in (index.owner, index.session):
            own = {int(kinds[place]) for place in part}
            near += _best(
                (p for p in scores if int(kinds[p]) in own and p not in used and p not in near), scores
            )
        taken = near[: max(0, min(least - len(part), most - len(used)))]
        used |= {*taken}
        out.append(sorted([*part, *taken]))
    return out


def _joined(parts: list[list[int]], least: int) -> list[list[int]]:
    """Phases in order, each too small one joined to the neighbour that is nearer in the chat."""
    while len(parts) > 1 and (small := next((i for i, p in enumerate(parts) if len(p) < least), -1)) >= 0:
        before = parts[small][0] - parts[small - 1][-1] if small else math.inf
        after = parts[small + 1][0] - parts[small][-1] if small + 1 < len(parts) else math.inf
        first = small - 1 if before <= after else small
        parts = [*parts[:first], parts[first] + parts[first + 1], *parts[first + 2 :]]
    return parts


def _phase(
    index: ChatIndex, part: Sequence[int], count: Counter[str], everywhere: Counter[str],
    scores: Mapping[int, float], bar: float,
) -> Phase:  # fmt: skip
    messages = [index.chat.messages[place] for place in part]
    ranked = sorted(count, key=lambda w: (-count[w] / (1 + everywhere[w] - count[w]), -len(w), w))
    times = [m.time for m in messages if m.time]
    lead = max(part, key=lambda place: (scores.get(place, -np.inf), -place))
    told = index.chat.messages[lead]
    last = next((m for m in reversed(messages) if not m.text.rstrip().endswith("?")), messages[-1])
    return Phase(
        title=" · ".join(ranked[:3]) or "untitled", ids=tuple(m.id for m in messages),
        start=min(times).isoformat() if times else None, end=max(times).isoformat() if times else None,
        summary=shorten(f"{told.speaker}: {told.text or told.caption}", 240),
        uncertain=round(sum(scores.get(p, -np.inf) < bar for p in part) / len(part), 3),
        conclusion=shorten(f"{last.speaker}: {last.text or last.caption}", 240),
    )  # fmt: skip


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────

_READ = 4  # messages of a list that are read
_LONGEST = 12  # words of an answer's clause
FAR = {"minilm": 0.35, "gte-small": 0.78, "hashing": 0.2}  # token match below which nothing was found
_CLAUSE = re.compile(r"(?<=[.!?;…])\s+|\n+|,\s+(?=(?:and|but|so|because|then)\b)|\s+-\s+")
_PLACE = re.compile(
    r"\b(?:in|at|to|from|near|visit(?:ed|ing)?|around)\s+(?:the\s+)?"
    r"((?:[A-Z][\w'’]+)(?:\s+(?:of\s+)?[A-Z][\w'’]+)*)"
)


class ChatAnswer(NamedTuple):
    """The answer to a question: its text (None where nothing was found), the ids it rests on, its form.
    ``days`` are the first and last day meant (ISO), where the answer is one of time. ``form`` is "extractive"
    or "written"; ``why`` says in words what an abstention rests on.
    """

    text: str | None
    ids: tuple[str, ...] = ()
    days: tuple[str, str] | None = None
    form: str = "extractive"
    why: str = ""


def extract(
    index: ChatIndex, plan: QueryPlan, selected: Sequence[int], channels: Mapping[str, NDArray[np.float32]]
) -> ChatAnswer:
    """The answer that the selected messages bear, best first; an abstention where they bear none. Nothing is
    found where no message is selected, or where none of them shares a content word with the question and
    their best token match lies below what chance gives with this encoder.
    """
    shared = [len(set(plan.terms) & set(index.tokens[place])) for place in selected]
    near = max((float(channels["tokens"][place]) for place in selected), default=0.0)
    if not selected or (not any(shared) and near < FAR.get(index.main, 0.35)):
        return ChatAnswer(None, why="no message shares a word with the question or comes near it")
    if plan.kind == "when" and (found := _when(index, plan, selected)):
        return found
    best = selected[:_READ] if plan.many else selected[:1]
    if plan.kind == "yes-no":
        said = _clauses(index, plan, selected[0])
        answer = "no" if said and re.search(prompts.lists(WORDS)["no"], said[0], re.IGNORECASE) else "yes"
        return ChatAnswer(answer, tuple(index.chat.ids(selected[:1])))
    texts = [_part(index, plan, place) for place in best]
    kept = list(dict.fromkeys(text for text in texts if text))
    return ChatAnswer(", ".join(kept) or None, tuple(index.chat.ids(best)))


def _when(index: ChatIndex, plan: QueryPlan, selected: Sequence[int]) -> ChatAnswer | None:
    """The day that the best message speaks of, else the day on which it was written."""
    for place in selected[:2]:
        message = index.chat.messages[place]
        if message.time is None:
            continue
        if spans := [s for s in index.signals.days[place] if (s.end - s.start).days <= 31]:
            text, terms = message.text.lower().replace("’", "'"), set(plan.terms)
            named = [m.start() for m in re.finditer(r"\w+", message.text) if terms & set(content_words(m[0]))]
            apart = [min((abs(at - text.find(s.words)) for at in named), default=0) for s in spans]
            span = spans[int(np.argmin(apart))]  # the nearest to a word of the question
            start, end = span.start, span.end
        elif place == selected[0]:
            start = end = message.time.date()
        else:
            continue
        days = (start.isoformat(), end.isoformat())
        return ChatAnswer(_spoken(start, end), tuple(index.chat.ids([place])), days)
    return None


def _spoken(start: dt.date, end: dt.date) -> str:
    """A day, a month, a year or a stretch of days as people write it: "19 January 2024"."""
    if start == end:
        return f"{start.day} {start:%B %Y}"
    if (start.day, (end + dt.timedelta(days=1)).day) == (1, 1):
        return f"{start.year}" if (end - start).days > 300 else f"{start:%B %Y}"
    return f"between {start.day} {start:%B} and {end.day} {end:%B %Y}"


def _part(index: ChatIndex, plan: QueryPlan, place: int) -> str:
    """What one message adds: a place, a number, or its clause nearest to the question without its words."""
    message = index.chat.messages[place]
    if not (said := _clauses(index, plan, place)):
        return message.caption
    text = said[0]
    if plan.kind == "where" and (found := _PLACE.search(text) or _PLACE.search(message.text)):
        return found[1]
    if plan.kind in ("count", "how long"):
        number = re.compile(prompts.lists(WORDS)["number"], re.IGNORECASE)
        if found := number.search(text) or number.search(message.text):
            return found[0].strip()
    return _without_question(text, plan)


def _clauses(index: ChatIndex, plan: QueryPlan, place: int) -> list[str]:
    """The clauses of a message that tell something, nearest to the question first."""
    parts = [part.strip() for part in _CLAUSE.split(index.chat.messages[place].text) if part.strip()]
    told = [part for part in parts if not part.endswith("?")] or parts
    terms = set(plan.terms)
    score = {p: len(terms & set(content_words(p))) + 0.01 * min(len(p.split()), _LONGEST) for p in told}
    return sorted(told, key=lambda part: -score[part])


def _without_question(text: str, plan: QueryPlan) -> str:
    """A clause from behind the last word that it shares with the question, at most twelve words."""
    words, terms = text.split(), set(plan.terms)
    hits = [i for i, word in enumerate(words) if set(content_words(word)) & terms]
    rest = words[hits[-1] + 1 :] if hits else words
    rest = rest if any(map(content_words, rest)) else words
    return " ".join(rest[:_LONGEST]).strip(" ,.;:!—-")
