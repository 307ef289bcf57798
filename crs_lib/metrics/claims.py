"""Claims: what a reply says of the films that it names, and whether it holds. Source: docs/metrics.md,
section 4.
"""

import bisect
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crs_lib.catalog.grounder import Mention
from crs_lib.core.text import words
from crs_lib.metrics.base import LOWER, TURN, metric
from crs_lib.metrics.records import TurnRecord

_SOURCE = "chance-corrected normalised cumulative gain (docs/metrics.md, section 4)"
_END = re.compile(r"[.!?](?=\s+[\"'“‘(]?[A-Z0-9]|\s*$)")
# A sentence with one of these before a value denies or restricts, and claims nothing.
_NO_CLAIM = frozenset(
    "no not nothing none neither without closest nearest nearly almost partly only except".split()
)
Range = tuple[int, int]  # of characters, half-open


class _Claim(NamedTuple):
    """A value that a reply says of films: the codes that its words can stand for, and the films."""

    codes: frozenset[int]
    items: tuple[int, ...]


def _inside(start: int, end: int, ranges: Iterable[Range]) -> bool:
    """Whether a stretch of text lies within one of the ranges."""
    return any(first <= start and end <= last for first, last in ranges)


class _Sentences:
    """The sentences of a text; a mark within one of the ``whole`` ranges ends none."""

    def __init__(self, text: str, whole: Sequence[Range]) -> None:
        self.ends = []
        for match in _END.finditer(text):
            # The last character of a range may end a sentence: "… in Se7en!"
            if not _inside(match.start(), match.start() + 2, whole):
                self.ends.append(match.start())

    def number(self, position: int) -> int:
        """The number of the sentence at a position, from 0."""
        return bisect.bisect_left(self.ends, position)

    def start(self, number: int) -> int:
        """The position at which a sentence begins."""
        return self.ends[number - 1] + 1 if number else 0


def _claims(turn: TurnRecord) -> list[_Claim]:
    """The values that the reply's words tie to films, in text order: after a title in the same sentence to
    that film, else to the films named later in the sentence or in the next one.
    """
    text = turn.pair.system.text
    grounder = turn.background.concepts
    titles = grounder.titles(text)
    title_ranges = [(mention.start, mention.end) for mention in titles]
    codes_of: dict[Range, set[int]] = {}
    for match in grounder.audit(text):
        if not match.rejected and not _inside(match.start, match.end, title_ranges):
            codes_of.setdefault((match.start, match.end), set()).add(match.code)
    sentences = _Sentences(text, [*title_ranges, *codes_of])
    claims = []
    for (start, end), codes in codes_of.items():
        number = sentences.number(start)
        if not _NO_CLAIM.isdisjoint(words(text[sentences.start(number) : start])):
            continue
        films = _films_of(start, end, titles, sentences)
        if films:
            claims.append(_Claim(frozenset(codes), films))
    return claims


def _films_of(start: int, end: int, titles: Sequence[Mention], sentences: _Sentences) -> tuple[int, ...]:
    """The films that a value at a place is said of; none where no title stands near enough."""
    number = sentences.number(start)
    before = [title for title in titles if title.end <= start]
    if before and sentences.number(before[-1].start) == number:
        return (before[-1].item,)
    films = []
    nearest = number + 1
    for title in titles:
        if title.start < end:
            continue
        sentence = sentences.number(title.start)
        if sentence <= nearest:
            films.append(title.item)
            nearest = sentence
    return tuple(films)


@metric("false_claims", "false claims", TURN, 0, 1, LOWER, _SOURCE, gate=False, column=28)
def false_claims(turn: TurnRecord) -> float:
    """Whether the reply's text ties a constraint to a film that does not meet it, 0 or 1 (:func:`_claims`).
    NaN without constraints, and without films.
    """
    if not turn.constraints or not turn.items:
        return math.nan
    if not turn.constraints & turn.system.concepts:
        return 0.0
    facts = turn.background.catalog.fact_sets
    titles = turn.background.concepts.titles(turn.pair.system.text)
    if all(turn.constraints <= facts[title.item] for title in titles):
        return 0.0  # whatever is claimed of these films holds
    for claim in _claims(turn):
        if claim.codes & turn.constraints and not all(claim.codes & facts[item] for item in claim.items):
            return 1.0
    return 0.0
