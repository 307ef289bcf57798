"""The answer in words, out of ranked evidence: a day, a place, a number or the clauses of the evidence.

None where nothing is there. No language model writes it, so its scores are a floor.
"""

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import prompts
from crs_lib.realtalk.dates import WORDS, Span
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.plan import QueryPlan
from crs_lib.realtalk.wording import content_words

_READ = 4  # messages of a list that are read
_LONGEST = 12  # words of an answer's clause
_MOST_DAYS = 31  # of a stretch of days that answers "when"
FAR: Mapping[str, float] = {
    "minilm": 0.35,
    "gte-small": 0.78,
    "hashing": 0.2,
}  # token match that chance gives
_CLAUSE = re.compile(r"(?<=[.!?;…])\s+|\n+|,\s+(?=(?:and|but|so|because|then)\b)|\s+-\s+")
_PLACE = re.compile(
    r"\b(?:in|at|to|from|near|visit(?:ed|ing)?|around)\s+(?:the\s+)?"
    r"((?:[A-Z][\w'’]+)(?:\s+(?:of\s+)?[A-Z][\w'’]+)*)"
)


class ChatAnswer(NamedTuple):
    """The answer to a question: its text (None where nothing answers it), the ids it rests on, its form.
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
    """The answer that the selected messages bear, best first; an abstention where they bear none.

    Nothing answers where no message is selected, or where none of them shares a content word with the
    question and their best token match lies below what chance gives with this encoder.
    """
    if not _near(index, plan, selected, channels["tokens"]):
        return ChatAnswer(None, why="no message shares a word with the question or comes near it")
    if plan.kind == "when":
        answer = _when(index, plan, selected)
        if answer is not None:
            return answer
    if plan.kind == "yes-no":
        clauses = _clauses(index, plan, selected[0])
        denies = clauses and re.search(prompts.lists(WORDS)["no"], clauses[0], re.IGNORECASE)
        return ChatAnswer("no" if denies else "yes", tuple(index.chat.ids(selected[:1])))
    best = selected[:_READ] if plan.many else selected[:1]
    texts = dict.fromkeys(_part(index, plan, position) for position in best)
    text = ", ".join(filter(None, texts))
    return ChatAnswer(text or None, tuple(index.chat.ids(best)))


def _near(index: ChatIndex, plan: QueryPlan, selected: Sequence[int], tokens: NDArray[np.float32]) -> bool:
    """Whether a selected message shares a word with the question or is nearer to it than by chance."""
    if not selected:
        return False
    terms = set(plan.terms)
    for position in selected:
        if terms.intersection(index.tokens[position]):
            return True
    best = max(float(tokens[position]) for position in selected)
    return best >= FAR.get(index.main, FAR["minilm"])


def _when(index: ChatIndex, plan: QueryPlan, selected: Sequence[int]) -> ChatAnswer | None:
    """The day that one of the two best messages speaks of, else the day on which the best was written."""
    for position in selected[:2]:
        message = index.chat.messages[position]
        if message.time is None:
            continue
        spans = []
        for span in index.signals.days[position]:
            if (span.end - span.start).days <= _MOST_DAYS:
                spans.append(span)
        if spans:
            span = _nearest_span(message.text, spans, set(plan.terms))
            start, end = span.start, span.end
        elif position == selected[0]:
            start = end = message.time.date()
        else:
            continue
        days = (start.isoformat(), end.isoformat())
        return ChatAnswer(_written(start, end), tuple(index.chat.ids([position])), days)
    return None


def _nearest_span(text: str, spans: Sequence[Span], terms: set[str]) -> Span:
    """Of several days in a text the one nearest to a word of the question."""
    plain = text.lower().replace("’", "'")
    term_starts = []
    for match in re.finditer(r"\w+", text):
        if terms.intersection(content_words(match[0])):
            term_starts.append(match.start())

    def distance(span: Span) -> int:
        start = plain.find(span.words)
        return min((abs(term_start - start) for term_start in term_starts), default=0)

    return min(spans, key=distance)


def _written(start: dt.date, end: dt.date) -> str:
    """A day, a month, a year or a stretch of days as people write it: "19 January 2024"."""
    if start == end:
        return f"{start.day} {start:%B %Y}"
    whole_months = start.day == 1 and (end + dt.timedelta(days=1)).day == 1
    if whole_months and (end - start).days > 300:
        return f"{start.year}"
    if whole_months:
        return f"{start:%B %Y}"
    return f"between {start.day} {start:%B} and {end.day} {end:%B %Y}"


def _part(index: ChatIndex, plan: QueryPlan, position: int) -> str:
    """What one message adds: a place, a number, or its clause nearest to the question without its words."""
    message = index.chat.messages[position]
    clauses = _clauses(index, plan, position)
    if not clauses:
        return message.caption
    clause = clauses[0]
    if plan.kind == "where":
        match = _PLACE.search(clause) or _PLACE.search(message.text)
        if match:
            return match[1]
    if plan.kind in ("count", "how long"):
        number = re.compile(prompts.lists(WORDS)["number"], re.IGNORECASE)
        match = number.search(clause) or number.search(message.text)
        if match:
            return match[0].strip()
    return _without_question(clause, plan)


def _clauses(index: ChatIndex, plan: QueryPlan, position: int) -> list[str]:
    """The clauses of a message that tell something, nearest to the question first."""
    clauses = [clause.strip() for clause in _CLAUSE.split(index.chat.messages[position].text)]
    clauses = [clause for clause in clauses if clause]
    statements = [clause for clause in clauses if not clause.endswith("?")]
    terms = set(plan.terms)

    def nearness(clause: str) -> float:
        length = min(len(clause.split()), _LONGEST)
        return len(terms.intersection(content_words(clause))) + 0.01 * length

    return sorted(statements or clauses, key=nearness, reverse=True)


def _without_question(clause: str, plan: QueryPlan) -> str:
    """A clause from behind the last word that it shares with the question, at most twelve words."""
    terms = set(plan.terms)
    words = clause.split()
    behind: list[str] = []  # words behind the last one that the question has
    for word in words:
        if terms.intersection(content_words(word)):
            behind = []
        else:
            behind.append(word)
    if not content_words(" ".join(behind)):
        behind = words
    return " ".join(behind[:_LONGEST]).strip(" ,.;:!—-")
