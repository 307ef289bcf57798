"""The state of a user as heard from the user's words alone: constraints, exclusions, questions, reactions. A
value named in a field replaces the earlier ones; one that is refused is unwanted, one "not required any more"
is dropped, "forget the rest" drops all; a film named with approval stands for its genres while nothing is
stated; a year counts where that very year is asked for. Reactions are read from cues of acceptance and
rejection outside of titles and films not seen (prompts/movies/heard.wording; docs/validity.md, section 4).
"""

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from crs_lib.catalog.fields import FIELDS, GOAL_FIELD
from crs_lib.catalog.grounder import Grounder, Match
from crs_lib.core import prompts
from crs_lib.core.text import fold

_SAYABLE = frozenset(name for name, row in FIELDS.items() if row.people_say_values)
_CLAUSE, _SENTENCE = re.compile(r"[.!?;:\n]| but |\b[Nn]o,"), re.compile(r"[.!?;\n]")
_BRACKETED = re.compile(r"[(\[](\d+)[)\]]")
_NEAR = 4  # words between a refusal and the value that it refuses
_ATTITUDES = ("wanted", "unwanted", "given up")


@cache
def cue(name: str) -> re.Pattern[str]:
    """The pattern of a section of cues; those of "about" are joined by what the fields are asked with."""
    asked = [word for row in FIELDS.values() for word in row.people_ask if name == "about"]
    return re.compile(rf"\b(?:{'|'.join([*prompts.lines('heard')[name], *asked])})\b")


@cache
def _films() -> tuple[re.Pattern[str], list[list[str]]]:
    """The pattern of words that stand for kinds of film, and the genres of each of its groups."""
    kinds = [line.split(": ") for line in prompts.lines("heard")["kinds"]]
    pattern = "|".join(rf"(?P<k{i}>\b(?:{cues})\b)" for i, (_, cues) in enumerate(kinds))
    return re.compile(pattern), [genres.split(", ") for genres, _ in kinds]


class _Heard(NamedTuple):
    """One user turn: concepts wanted, unwanted, given up (all: ``resets``), films named, what it asks for."""

    wanted: frozenset[int]
    unwanted: frozenset[int]
    given_up: frozenset[int]
    resets: bool
    films: tuple[int, ...]
    asks_about: bool
    requests: bool


class _HeardState(NamedTuple):
    """The state after a user turn: active constraints, unwanted values, what the turn asks for."""

    constraints: frozenset[int]
    avoid: frozenset[int]
    asks_about: bool
    requests: bool = False

    def as_logged(self, grounder: Grounder) -> dict[str, Any]:
        """The constraints and unwanted values by field, as a simulator's log has them."""
        terms, log = grounder.catalog.vocabulary, dict[str, Any]()
        for name, codes in (("constraints", self.constraints), ("avoid", self.avoid)):
            values: dict[str, list[str]] = log.setdefault(name, {})
            for code in sorted(codes):
                values.setdefault(terms.field[code], []).append(terms.value[code])
        return log


def films(grounder: Grounder, text: str) -> tuple[int, ...]:
    """The catalogue items whose titles a text names, each once; a year in brackets is no title."""
    return tuple(dict.fromkeys(mention.item for mention in _titles(grounder, text)))


def _titles(grounder: Grounder, text: str) -> list[Any]:
    """The titles in a text, years in brackets left out."""
    years = {found.span(1) for found in _BRACKETED.finditer(text)}
    return [title for title in grounder.titles(text) if (title.start, title.end) not in years]


def _hear(grounder: Grounder, text: str) -> _Heard:
    """Read one user turn; values inside a title, or inside a longer value, do not count."""
    titles = _titles(grounder, text)
    found = [m for m in grounder.audit(text) if not m.rejected and _sayable(m, text)]
    found = [m for m in found if not any(t.start <= m.start and m.end <= t.end for t in titles)]
    matches = [m for m in found if not any(_inside(m, other) for other in found)]
    matches += _kinds(grounder, text, [(one.start, one.end) for one in (*titles, *matches)])
    # Of a value that is named twice the last attitude counts.
    held = {
        m.code: _attitude(text[: m.start], text[m.end :]) for m in sorted(_in_role(matches, text, grounder))
    }
    of = {name: frozenset(code for code, one in held.items() if one == name) for name in _ATTITUDES}
    resets, about, asks = (bool(cue(name).search(fold(text))) for name in ("resets", "about", "asks"))
    named, about = tuple(dict.fromkeys(title.item for title in titles)), about and bool(titles or "?" in text)
    return _Heard(of["wanted"], of["unwanted"], of["given up"], resets, named, about, asks)


def _sayable(match: Match, text: str) -> bool:
    """Whether the field is one whose values people say; a year only where that very year is meant."""
    if match.field in _SAYABLE:
        return True
    exact = cue("of_the_year").search(fold(text[: match.start]))
    return bool(exact) and not cue("bound").search(fold(text[match.end :]))


def _inside(match: Match, other: Match) -> bool:
    """Whether a match lies in a longer one."""
    shorter = match.end - match.start < other.end - other.start
    return shorter and other.start <= match.start and match.end <= other.end


def _kinds(grounder: Grounder, text: str, taken: Sequence[tuple[int, int]]) -> list[Match]:
    """The genres that words for kinds of film stand for, outside what is taken already."""
    found, (pattern, kinds) = [], _films()
    for match in pattern.finditer(text.lower().replace("-", " ")):
        if any(start < match.end() and match.start() < end for start, end in taken):
            continue
        genres = kinds[int(str(match.lastgroup)[1:])]
        codes = ((genre, grounder.catalog.code(GOAL_FIELD, genre)) for genre in genres)
        known = ((genre, code) for genre, code in codes if code is not None)
        found += [Match(*match.span(), GOAL_FIELD, genre, code, "") for genre, code in [*known][:1]]
    return found


def _in_role(matches: Sequence[Match], text: str, grounder: Grounder) -> list[Match]:
    """Of a person's roles those that the words before the name tell; all where they tell none."""
    near = {m.start: set(_last_clause(text[: m.start]).split()[-3:]) for m in matches}
    cued = [m for m in matches if near[m.start] & set(grounder.catalog.fields[m.field].cues)]
    told = {(m.start, m.end) for m in cued}
    return [*cued, *(m for m in matches if (m.start, m.end) not in told)]


def _last_clause(text: str) -> str:
    """The clause in which a text ends, folded."""
    return fold(_CLAUSE.split(text)[-1])


def _attitude(before: str, after: str) -> str:
    """The attitude to a value: wanted, unwanted, or given up without being refused."""
    clause, behind = _last_clause(before), fold(_SENTENCE.split(after)[0])
    if cue("gives_up_before").search(clause) or cue("gives_up_after").search(behind):
        return "given up"
    return "unwanted" if _negated(cue("resets").sub(" ", clause)) else "wanted"


def _negated(clause: str) -> bool:
    """Whether the clause before a value refuses it: the last cue is a refusal near by, or a dislike."""
    if cue("corrects").search(clause):
        return False
    near = [cue.start() for cue in cue("refuses").finditer(clause) if clause[cue.end() :].count(" ") <= _NEAR]
    disliked = [cue.start() for cue in cue("unliked").finditer(clause)]
    outside = cue("unliked").sub(lambda cue: "#" * len(cue.group()), clause)
    wished = [cue.start() for cue in cue("positive").finditer(outside)]
    return max([*near, *disliked], default=-1) > max(wished, default=-1)


class Listener:
    """Carries the constraints of one conversation over its user turns."""

    def __init__(self, grounder: Grounder) -> None:
        self.grounder = grounder
        self._stated = self._avoid = self._alike = frozenset[int]()

    def listen(self, text: str) -> _HeardState:
        """The state after one more user turn."""
        heard, field_of = _hear(self.grounder, text), self.grounder.field_of
        if heard.resets:
            self._stated = self._avoid = self._alike = frozenset()
        replaced = {field_of(code) for code in heard.wanted}
        kept = {code for code in self._stated if field_of(code) not in replaced}
        self._stated = (heard.wanted | kept) - heard.unwanted - heard.given_up
        self._avoid = (self._avoid | heard.unwanted) - heard.wanted - heard.given_up
        if heard.films and not heard.asks_about:
            facts = self.grounder.catalog.fact_sets
            told = (code for film in heard.films for code in facts[film])
            self._alike = frozenset(code for code in told if field_of(code) == GOAL_FIELD)
        elif heard.wanted:
            self._alike = frozenset()
        return _HeardState(self._stated or self._alike, self._avoid, heard.asks_about, heard.requests)

    def correct(self, state: _HeardState, kept: frozenset[int], dropped: frozenset[int]) -> _HeardState:
        """The state with values that are known to be kept or dropped; what follows builds on it."""
        self._stated, self._avoid = (self._stated | kept) - dropped, self._avoid - kept
        return state._replace(constraints=(state.constraints | kept) - dropped, avoid=self._avoid)


def reaction(text: str, titles: Iterable[tuple[int, ...]] = ()) -> float:
    """Share of acceptance among the cues of what follows a reply, outside titles, in [0, 1]; NaN without."""
    for start, end, *_ in sorted(titles, reverse=True):
        text = f"{text[:start]} {text[end:]}"
    said = cue("unseen").sub(" ", fold(text))
    rejects = len(cue("rejects").findall(said))
    accepts = len(cue("accepts").findall(cue("rejects").sub(" # ", said)))
    return accepts / (accepts + rejects) if accepts or rejects else math.nan
