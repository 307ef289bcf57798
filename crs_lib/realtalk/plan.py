"""What a question asks for: its kind, its people, its days, and the texts to search with."""

import datetime as dt
import re
from collections.abc import Mapping
from typing import NamedTuple

from crs_lib.core import prompts
from crs_lib.core.text import fold
from crs_lib.realtalk import dates, wording
from crs_lib.realtalk.dates import WORDS
from crs_lib.realtalk.wording import content_words

KINDS = ("when", "where", "who", "why", "how", "how long", "count", "yes-no", "list", "what")
_COUNT = re.compile(r"\bhow (?:many|much|often|old)\b")
_HOW_LONG = re.compile(r"\b(?:how long|since when)\b")
_DATED = re.compile(r"\b(?:what|which) (?:date|day|month|year|time)\b")
_PLURAL_HEADS = re.compile(
    r"^(?:what|which)\s+(?:(?:kind|kinds|type|types|sort|sorts)\s+of\s+)?(?:[\w'-]+\s+){0,2}?(?!does\b|was\b|has\b|his\b)([a-z]{3,}s)\b"
    r"|^(?:what|which)\s+(?:food|music|advice)\b"
)
_QUESTION_WORD = re.compile(
    r"^(?:(?:in|on|at|for|to|from|with|since|by|of)\s+)?"
    r"(?:what|when|where|who|whom|whose|which|why|how(?:\s+(?:many|much|often|long|old))?)\b(?:'s)?",
    re.IGNORECASE,
)
_BETWEEN_PARTS = re.compile(r"\b(?:and|or|before|after|besides|when|while)\b|[,;/]")


class QueryPlan(NamedTuple):
    """How a question is searched. ``speakers`` are the people it names; ``windows`` its stated days.
    ``first_person`` is the question as its teller would have said it ("I start skiing"), ``second_person`` as
    the other one would have asked it; ``terms`` are content stems without names.
    """

    kind: str
    speakers: tuple[str, ...]
    windows: tuple[tuple[str, str], ...]
    photo: bool
    terms: tuple[str, ...]
    first_person: str
    second_person: str
    parts: tuple[str, ...]

    @property
    def many(self) -> bool:
        """Whether several separate messages are likely to be wanted."""
        return self.kind in ("list", "count") or len(self.speakers) > 1 or len(self.parts) > 1


def make(question: str, names: Mapping[str, str], today: dt.date | None) -> QueryPlan:
    """The plan of a question. ``names`` maps folded names to speakers, ``today`` dates without a year. A
    question of no recognised form is of kind ``what``; one that names nobody has no speakers.
    """
    people = wording.named(question, names)
    windows = []
    undated = question
    for span in dates.find_dates(question, today or dt.date(2000, 1, 1)):
        if span.exact:
            windows.append((span.start.isoformat(), span.end.isoformat()))
            undated = re.sub(re.escape(span.words), " ", undated, flags=re.IGNORECASE)
    first = _without_form(_in_person(undated, people, "I", "my"))
    second = _in_person(undated, people, "you", "your")
    second = re.sub(r"\s+", " ", second)
    photo = re.search(prompts.lists(WORDS)["photo"], question.lower())
    nameless = re.sub(r"['’`]s\b", " ", undated)
    folded = {fold(word) for word in people}
    terms = content_words(nameless, drop=folded)
    return QueryPlan(
        kind=_kind_of(question),
        speakers=tuple(dict.fromkeys(people.values())),
        windows=tuple(windows),
        photo=photo is not None,
        terms=tuple(terms),
        first_person=first,
        second_person=f"{second}?",
        parts=_parts(first),
    )


def _kind_of(question: str) -> str:
    """One of ``KINDS``, by the question's first words."""
    text = question.lower().strip()
    words = re.findall(r"[a-z']+", text)
    if not words:
        return "what"
    if _COUNT.search(text):
        return "count"
    if _HOW_LONG.search(text):
        return "how long"
    if re.search(r"\bwhen\b", " ".join(words[:3])) or _DATED.search(text):
        return "when"
    if "where" in words[:2]:
        return "where"
    if "who" in words[:2] or "whom" in words[:2]:
        return "who"
    for kind in ("why", "how"):
        if kind in words[:2]:
            return kind
    if re.fullmatch(prompts.lists(WORDS)["auxiliary"], words[0]):
        return "yes-no"
    return "list" if _PLURAL_HEADS.match(text) else "what"


def _in_person(question: str, people: Mapping[str, str], subject: str, owner: str) -> str:
    """The question in another person: "When did Kate start skiing?" becomes "When did I start skiing".

    Names become ``subject`` or, with a possessive, ``owner``; several people become "we" ("you" in the second
    person).
    """
    text = re.sub(r"[’`]", "'", question).strip().rstrip("?!. ")
    pronouns = prompts.lists(WORDS)["person"]
    several = len(set(people.values())) > 1
    if several and subject == "I":
        subject = "we"
        owner = "our"
    for word in sorted(people, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(word)}'s?(?!\w)", owner, text)
        text = re.sub(rf"\b{re.escape(word)}\b", subject, text)
    both = rf"\b(?:both,?\s+)?({subject}|{owner})\s*(?:,|and|or)\s+({subject}|{owner})\b,?"
    text = re.sub(both, r"\2", text)
    if people:
        swap = pronouns[owner]
        text = re.sub(r"\b\w+\b", lambda match: swap.get(match[0].lower(), match[0]), text)
    return text


def _without_form(text: str) -> str:
    """The text without its leading question word and without the auxiliary that inverts it."""
    auxiliary = prompts.lists(WORDS)["auxiliary"]
    inverted = rf"(?:^|(?<=\s)){auxiliary}(?=\s+(?:i|we|my|our|the|both|you)\b)"
    statement = _QUESTION_WORD.sub("", text, count=1).strip()
    statement = re.sub(inverted, "", statement, count=1, flags=re.IGNORECASE).strip()
    statement = re.sub(rf"^{auxiliary}\s+", "", statement, flags=re.IGNORECASE)
    return re.sub(r"\s+", " ", statement).strip(" ,") or text


def _parts(first_person: str) -> tuple[str, ...]:
    """Sub-queries of a compound question ("X and Y", "X or Y", "before Z"); one where it is simple."""
    parts = []
    for part in _BETWEEN_PARTS.split(first_person):
        part = part.strip(" ,")
        if content_words(part):
            parts.append(part)
    return tuple(parts) if len(parts) > 1 else (first_person,)
