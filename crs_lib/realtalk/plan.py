"""What a question asks for: its kind, its people, its days, and the texts to search with."""

import datetime as dt
import re
from collections.abc import Mapping
from typing import NamedTuple

from crs_lib.core import prompts
from crs_lib.core.text import fold
from crs_lib.realtalk import wording
from crs_lib.realtalk.wording import WORDS, content_words

KINDS = ("when", "where", "who", "why", "how", "how long", "count", "yes-no", "list", "what")
_PLURAL_HEADS = re.compile(
    r"^(?:what|which)\s+(?:(?:kind|kinds|type|types|sort|sorts)\s+of\s+)?(?:[\w'-]+\s+){0,2}?(?!does\b|was\b|has\b|his\b)([a-z]{3,}s)\b"
    r"|^(?:what|which)\s+(?:food|music|advice)\b"
)


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


def make(question: str, known: Mapping[str, str], today: dt.date | None) -> QueryPlan:
    """The plan of a question. ``known`` maps folded names to speakers, ``today`` dates without a year. A
    question of no recognised form is of kind ``what``; one that names nobody has no speakers.
    """
    found = wording.named(question, known)
    speakers = tuple(dict.fromkeys(found.values()))
    spans = [s for s in wording.find_dates(question, today or dt.date(2000, 1, 1)) if s.exact]
    windows = tuple((s.start.isoformat(), s.end.isoformat()) for s in spans)
    bare = question
    for words in dict.fromkeys(span.words for span in spans):
        bare = re.sub(re.escape(words), " ", bare, flags=re.IGNORECASE)
    first = _rewrite(bare, found, "I", "my")
    terms = content_words(re.sub(r"['’`]s\b", " ", bare), drop={fold(word) for word in found})
    second = _rewrite(bare, found, "you", "your", keep_question=True)
    photo, parts = bool(re.search(prompts.lists(WORDS)["photo"], question.lower())), tuple(_parts(first))
    return QueryPlan(_kind_of(question), speakers, windows, photo, tuple(terms), first, second, parts)


def _kind_of(question: str) -> str:
    """One of ``KINDS``, by the question's first words."""
    low = question.lower().strip()
    if not (words := re.findall(r"[a-z']+", low)):
        return "what"
    if re.search(r"\bhow (?:many|much|often|old)\b", low):
        return "count"
    if re.search(r"\b(?:how long|since when)\b", low):
        return "how long"
    if re.search(r"\bwhen\b", " ".join(words[:3])) or re.search(
        r"\b(?:what|which) (?:date|day|month|year|time)\b", low
    ):
        return "when"
    for kind in ("where", "who", "why", "how"):
        if kind in words[:2] or (kind == "who" and "whom" in words[:2]):
            return kind
    if re.fullmatch(prompts.lists(WORDS)["auxiliary"], words[0]):
        return "yes-no"
    return "list" if _PLURAL_HEADS.match(low) else "what"


def _rewrite(
    question: str, found: Mapping[str, str], subject: str, owner: str, *, keep_question: bool = False
) -> str:
    """The question in another person: "When did Kate start skiing?" becomes "I start skiing". Names become
    ``subject`` or, with a possessive, ``owner``; the question word and the auxiliary are dropped unless
    ``keep_question``. Several people become "we" ("you" in the second person).
    """
    text = re.sub(r"[’`]", "'", question).strip().rstrip("?!. ")
    several = len(set(found.values())) > 1
    if several and subject == "I":
        subject, owner = "we", "our"
    for word in sorted(found, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(word)}'s?(?!\w)", owner, text)
        text = re.sub(rf"\b{re.escape(word)}\b", subject, text)
    text = re.sub(
        rf"\b(?:both,?\s+)?({subject}|{owner})\s*(?:,|and|or)\s+({subject}|{owner})\b,?", r"\2", text
    )
    if found:
        swap = prompts.lists(WORDS)["person"]["your" if subject == "you" else "our" if several else "my"]
        text = re.sub(r"\b\w+\b", lambda match: swap.get(match[0].lower(), match[0]), text)
    if keep_question:
        return re.sub(r"\s+", " ", text) + "?"
    return _without_form(text)


def _without_form(text: str) -> str:
    """The text without its leading question word and without the auxiliary that inverts it."""
    low = re.sub(
        r"^(?:(?:in|on|at|for|to|from|with|since|by|of)\s+)?"
        r"(?:what|when|where|who|whom|whose|which|why|how(?:\s+(?:many|much|often|long|old))?)\b(?:'s)?",
        "", text, count=1, flags=re.IGNORECASE,
    ).strip()  # fmt: skip
    verb = prompts.lists(WORDS)["auxiliary"]
    pattern = rf"(?:^|(?<=\s)){verb}(?=\s+(?:i|we|my|our|the|both|you)\b)"
    low = re.sub(pattern, "", low, count=1, flags=re.IGNORECASE)
    low = re.sub(rf"^{verb}\s+", "", low.strip(), flags=re.IGNORECASE)
    return re.sub(r"\s+", " ", low).strip(" ,") or text


def _parts(first_person: str) -> list[str]:
    """Sub-queries of a compound question ("X and Y", "X or Y", "before Z"); one where it is simple."""
    found = [
        p.strip(" ,") for p in re.split(r"\b(?:and|or|before|after|besides|when|while)\b|[,;/]", first_person)
    ]
    kept = [part for part in found if len(content_words(part)) >= 1]
    return kept if len(kept) > 1 else [first_person]
