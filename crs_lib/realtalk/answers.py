"""Answers taken from the evidence: a day, a place, a number or its clauses; none where nothing is found.

No language model writes them, so their scores are a floor. A written answer has the same record.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crs_lib.realtalk import dates
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.plan import QueryPlan
from crs_lib.realtalk.wording import content_words

_READ = 4  # messages of a list that are read
_LONGEST = 12  # words of an answer's clause
_FAR = {"minilm": 0.35, "gte-small": 0.78, "hashing": 0.2}  # token match below which nothing was found
_CLAUSE = re.compile(r"(?<=[.!?;…])\s+|\n+|,\s+(?=(?:and|but|so|because|then)\b)|\s+-\s+")
_PLACE = re.compile(
    r"\b(?:in|at|to|from|near|visit(?:ed|ing)?|around)\s+(?:the\s+)?"
    r"((?:[A-Z][\w'’]+)(?:\s+(?:of\s+)?[A-Z][\w'’]+)*)"
)
_NUMBER_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty "
    "hundred once twice"
).split()
_NUMBER = re.compile(
    r"(?:[$€£]\s?)?\b(?:\d[\d.,]*|" + "|".join(_NUMBER_WORDS) + r")\b"
    r"(?:\s*(?:%|k\b|km\b|kg\b|hours?|minutes?|days?|weeks?|months?|years?|times?|dollars?|euros?|people))?",
    re.IGNORECASE,
)
_NO = re.compile(
    r"\b(?:no|not|never|don'?t|doesn'?t|didn'?t|can'?t|won'?t|haven'?t|isn'?t|nope)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class ChatAnswer:
    """The answer to a question: its text (None where nothing was found), the ids it rests on, its form.

    ``days`` are the first and last day meant (ISO), where the answer is one of time. ``form`` is
    "extractive" or "written"; ``why`` says in words what an abstention rests on.
    """

    text: str | None
    ids: tuple[str, ...] = ()
    days: tuple[str, str] | None = None
    form: str = "extractive"
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """The answer as one JSON object."""
        return asdict(self)


def extract(
    index: ChatIndex, plan: QueryPlan, selected: Sequence[int], channels: Mapping[str, NDArray[np.float32]]
) -> ChatAnswer:
    """The answer that the selected messages bear, best first; an abstention where they bear none.

    Nothing is found where no message is selected, or where none of them shares a content word with the
    question and their best token match lies below what chance gives with this encoder.
    """
    shared = [len(set(plan.terms) & set(index.tokens[place])) for place in selected]
    near = max((float(channels["tokens"][place]) for place in selected), default=0.0)
    if not selected or (not any(shared) and near < _FAR.get(index.main, 0.35)):
        return ChatAnswer(None, why="no message shares a word with the question or comes near it")
    if plan.kind == "when":
        found = _when(index, plan, selected)
        if found:
            return found
    best = selected[:_READ] if plan.many else selected[:1]
    if plan.kind == "yes-no":
        return _yes_no(index, plan, selected[0])
    texts = [_part(index, plan, place) for place in best]
    kept = list(dict.fromkeys(text for text in texts if text))
    return ChatAnswer(", ".join(kept) or None, tuple(index.chat.ids(best)))


def _when(index: ChatIndex, plan: QueryPlan, selected: Sequence[int]) -> ChatAnswer | None:
    """The day that the best message speaks of, else the day on which it was written."""
    for place in selected[:2]:
        message = index.chat.messages[place]
        if message.time is None:
            continue
        spans = [s for s in index.signals.days[place] if (s.end - s.start).days <= 31]
        if spans:
            span = min(spans, key=lambda s: _distance(message.text, s.words, plan))
            start, end = span.start, span.end
        elif place == selected[0]:
            start = end = message.time.date()
        else:
            continue
        return ChatAnswer(
            spoken(start, end), tuple(index.chat.ids([place])), (start.isoformat(), end.isoformat())
        )
    return None


def _distance(text: str, said: str, plan: QueryPlan) -> int:
    """Characters between a date's words and the nearest word that the question shares with the message."""
    at = text.lower().replace("’", "'").find(said)
    places = [m.start() for m in re.finditer(r"\w+", text) if set(content_words(m[0])) & set(plan.terms)]
    return min((abs(place - at) for place in places), default=len(text))


def spoken(start: dt.date, end: dt.date) -> str:
    """A day, a month, a year or a stretch of days as people write it: "19 January 2024"."""
    if start == end:
        return f"{start.day} {start:%B %Y}"
    if (start.day, (end + dt.timedelta(days=1)).day) == (1, 1):
        return f"{start.year}" if (end - start).days > 300 else f"{start:%B %Y}"
    return f"between {start.day} {start:%B} and {end.day} {end:%B %Y}"


def _yes_no(index: ChatIndex, plan: QueryPlan, place: int) -> ChatAnswer:
    said = _clauses(index, plan, place)
    no = bool(said and _NO.search(said[0]))
    return ChatAnswer("no" if no else "yes", tuple(index.chat.ids([place])))


def _part(index: ChatIndex, plan: QueryPlan, place: int) -> str:
    """What one message adds: a place, a number, or its clause nearest to the question without its words."""
    message = index.chat.messages[place]
    said = _clauses(index, plan, place)
    if not said:
        return message.caption
    text = said[0]
    if plan.kind == "where":
        found = _PLACE.search(text) or _PLACE.search(message.text)
        if found:
            return found[1]
    if plan.kind in ("count", "how long"):
        number = _NUMBER.search(text) or _NUMBER.search(message.text)
        if number:
            return number[0].strip()
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
    words = text.split()
    terms = set(plan.terms)
    hits = [i for i, word in enumerate(words) if set(content_words(word)) & terms]
    rest = words[hits[-1] + 1 :] if hits else words
    if len([w for w in rest if content_words(w)]) < 1:
        rest = words
    return " ".join(rest[:_LONGEST]).strip(" ,.;:!—-")


def days_of(text: str, today: dt.date) -> tuple[dt.date, dt.date] | None:
    """The first stretch of days that an answer names, or None."""
    found = dates.find(text, today)
    return (found[0].start, found[0].end) if found else None
