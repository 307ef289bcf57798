"""The constraints that people state in logs without a simulator: grounded in user turns and carried on.

Source: docs/validity.md, section 4. A value named in a field replaces the earlier ones of that field; a
value after a negative word is unwanted; a film named with approval stands for its genres while no constraint
is stated. Years are left out: people mostly name bounds ("after 2010"), not a year.
"""

import re
from typing import NamedTuple

from crs_lib.catalog.fields import FIELDS, GOAL_FIELD
from crs_lib.core.text import fold, words
from crs_lib.grounding.grounder import Grounder, Match

_FIELDS = frozenset(name for name, row in FIELDS.items() if row.people_say_values)
_NEGATIVE = re.compile(
    r"\b(not|no|don t|dont|doesn t|didn t|hate|dislike|except|without|other than|instead of|anything but"
    r"|tired of|isn t|never|rather than|less|avoid|enough of)\b"
)
_POSITIVE = re.compile(
    r"\b(i want|i d like|i like|i love|looking for|give me|but|rather|prefer|how about|recommend)\b"
)
_ABOUT_A_FILM = (
    "who", "plot", "about", "ratings?", "reviews?", "synopsis", "summary", "summari[sz]e", "tell me more",
    "describe", "what is it", "when", "where", "why", "how long", "information", "info", "details?",
    "opinion",
)  # fmt: skip
_ABOUT_A_FIELD = tuple(word for row in FIELDS.values() for word in row.people_ask)
_ABOUT = re.compile(rf"\b({'|'.join((*_ABOUT_A_FILM, *_ABOUT_A_FIELD))})\b")
_CLAUSE = re.compile(r"[.!?;\n]| but ")


class Heard(NamedTuple):
    """One user turn: concepts wanted and unwanted, films named, and whether it asks about a film."""

    wanted: frozenset[int]
    unwanted: frozenset[int]
    films: tuple[int, ...]
    asks_about: bool


class HeardState(NamedTuple):
    """The state after a user turn: constraints in force, unwanted values, whether a film is asked about."""

    constraints: frozenset[int]
    avoid: frozenset[int]
    asks_about: bool


def films(grounder: Grounder, text: str) -> tuple[int, ...]:
    """The catalogue items whose titles a text names, each once; a year in brackets is no title."""
    found = (m for m in grounder.titles(text) if not _bracketed_year(text, m.start, m.end))
    return tuple(dict.fromkeys(mention.item for mention in found))


def _bracketed_year(text: str, start: int, end: int) -> bool:
    inside = text[max(0, start - 1) : start] in ("(", "[") and text[end : end + 1] in (")", "]")
    return inside and text[start:end].isdigit()


def hear(grounder: Grounder, text: str) -> Heard:
    """Read one user turn; values inside a title, or inside a longer value, do not count."""
    titles = [m for m in grounder.titles(text) if not _bracketed_year(text, m.start, m.end)]
    matches = [m for m in grounder.audit(text) if not m.rejected and m.field in _FIELDS]
    matches = [m for m in matches if not any(t.start <= m.start and m.end <= t.end for t in titles)]
    matches = [m for m in matches if not any(_inside(m, other) for other in matches)]
    unwanted = frozenset(m.code for m in matches if _negated(text[: m.start]))
    wanted = frozenset(m.code for m in matches) - unwanted
    asked = bool(_ABOUT.search(fold(text))) and bool(titles or "?" in text)
    return Heard(wanted, unwanted, tuple(dict.fromkeys(t.item for t in titles)), asked)


def _inside(match: Match, other: Match) -> bool:
    shorter = match.end - match.start < other.end - other.start
    return shorter and other.start <= match.start and match.end <= other.end


def _negated(before: str) -> bool:
    """Whether the last cue in the clause before a value is a negative one."""
    clause = fold(_CLAUSE.split(before)[-1])
    return _last(_NEGATIVE, clause) > _last(_POSITIVE, clause)


def _last(cue: re.Pattern[str], clause: str) -> int:
    return max((found.start() for found in cue.finditer(clause)), default=-1)


class Listener:
    """Carries the constraints of one conversation over its user turns."""

    def __init__(self, grounder: Grounder) -> None:
        self.grounder = grounder
        self._stated: dict[str, frozenset[int]] = {}
        self._avoid: frozenset[int] = frozenset()
        self._alike: frozenset[int] = frozenset()

    def listen(self, text: str) -> HeardState:
        """The state after one more user turn."""
        heard = hear(self.grounder, text)
        for name in {self.grounder.field_of(code) for code in heard.wanted}:
            self._stated[name] = frozenset(c for c in heard.wanted if self.grounder.field_of(c) == name)
        self._avoid = (self._avoid | heard.unwanted) - heard.wanted
        self._stated = {
            name: kept for name, codes in self._stated.items() if (kept := codes - heard.unwanted)
        }
        if heard.films and not heard.asks_about:
            self._alike = self._genres(heard.films)
        elif heard.wanted:
            self._alike = frozenset()
        stated = frozenset().union(*self._stated.values()) if self._stated else frozenset()
        return HeardState(stated or self._alike, self._avoid, heard.asks_about)

    def _genres(self, items: tuple[int, ...]) -> frozenset[int]:
        facts = self.grounder.catalog.fact_sets
        return frozenset(c for item in items for c in facts[item] if self.grounder.field_of(c) == GOAL_FIELD)


_REQUESTS = re.compile(
    r"\b(recommend|recommendations?|suggest|suggestions?|looking for|find|give me|show me|want|another|more"
    r"|other)\b"
)
_REJECTS = re.compile(
    r"\b(seen|watched|saw|already|don t like|not interested|didn t like|hate|another|other|different|else"
    r"|boring|wrong)\b"
)
_ACCEPTS = re.compile(r"\b(thanks?|thank you|great|ok|okay|yes|sure|good|perfect|bye)\b")
_HEDGES = re.compile(r"\b(haven t|not sure|don t|can t|never|no)\b")
_LISTED = re.compile(r"(?:^|\s)\d{1,2}[.:)]?\s")


def cues(user: str, reply: str) -> dict[str, float]:
    """Cues of one turn, each a flag or a count: what the person does, and how the reply is worded."""
    said, answered = fold(user), fold(reply)
    mine, theirs = words(reply), set(words(user))
    return {
        "requests": float(bool(_REQUESTS.search(said))),
        "rejects": float(bool(_REJECTS.search(said))),
        "accepts": float(bool(_ACCEPTS.search(said))),
        "user_asks": float("?" in user),
        "shared_words": len(set(mine) & theirs) / max(1, len(set(mine))),
        "hedges": float(bool(_HEDGES.search(answered))),
        "first_person": float(answered.startswith("i ")),
        "whole_sentence": float(reply.strip()[-1:] in tuple(".!?")),
        "repeated_words": float(len(mine) - len(set(mine))),
        "listed": float(len(_LISTED.findall(reply))),
    }
