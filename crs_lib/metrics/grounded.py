"""Item-grounded adaptation: credit only through the catalogue items that a reply recommends. Source:
docs/metrics.md, section 4. W are the active constraints and R the items recommended.
"""

import bisect
import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog.grounder import Mention
from crs_lib.core.text import words
from crs_lib.metrics.base import HIGHER, LOWER, NEITHER, TURN, fact, metric
from crs_lib.metrics.records import Background, TurnRecord

_SOURCE = "item-grounded adaptation (docs/metrics.md, section 4)"
_LOWEST = -math.inf
_CLAIMS = "chance-corrected normalised cumulative gain (docs/metrics.md, section 4)"


def beyond_chance(observed: float, expected: float) -> float:
    """(S − E)/(1 − E): 1 is perfect, 0 is chance, below 0 worse than chance; NaN where chance is 1."""
    if math.isnan(observed) or math.isnan(expected) or expected >= 1:
        return math.nan
    return (observed - expected) / (1 - expected)


@lru_cache(64)
def _shares(background: Background, popular: bool) -> NDArray[np.float64]:
    """The share of a draw of items that has each value: a uniform draw, or one by connectedness."""
    catalog = background.catalog
    weights = catalog.recommendable.astype(float)
    if popular:
        weights = np.where(catalog.recommendable, catalog.popularity, 0.0)
    sums = []
    for code in range(len(catalog.vocabulary)):
        items = catalog.items_with(code)
        sums.append(weights[items].sum())
    shares: NDArray[np.float64] = np.array(sums) / weights.sum()
    return shares


@lru_cache(65_536)
def _expected(background: Background, codes: frozenset[int], popular: bool = False) -> float:
    """Satisfaction of a draw on average, in [0, 1]; NaN without constraints."""
    if not codes:
        return math.nan
    shares = _shares(background, popular)
    return float(np.mean(shares[sorted(codes)]))


@fact("n_items", TURN, column=7)
def _n_items(turn: TurnRecord) -> int:
    """The number of recommended items."""
    return len(turn.items)


@fact("n_wishes", TURN, column=8)
def _n_constraints(turn: TurnRecord) -> int:
    """The number of active constraints that the catalogue knows."""
    return len(turn.constraints)


@metric("satisfaction", "satisfaction", TURN, 0, 1, HIGHER, _SOURCE, gate=True, column=9)
def satisfaction_of_turn(turn: TurnRecord) -> float:
    """S: mean share of the active constraints that an item meets, in [0, 1].
    NaN without constraints; without items 0 if the user asked for some, else NaN.
    """
    if not turn.measurable:
        return math.nan
    if not turn.facts:
        return 0.0
    met = 0
    for facts in turn.facts:
        met += len(turn.constraints & facts)
    return met / (len(turn.facts) * len(turn.constraints))


@metric("satisfaction_corrected", "net satisfaction", TURN, _LOWEST, 1, HIGHER, _SOURCE, gate=True, column=10)
def satisfaction_corrected(turn: TurnRecord) -> float:
    """S*: S beyond a uniform draw, at most 1; see :func:`beyond_chance`."""
    expected = _expected(turn.background, turn.constraints)
    return beyond_chance(turn.once(satisfaction_of_turn), expected)


@metric("satisfaction_popular", "above popular", TURN, _LOWEST, 1, HIGHER, _SOURCE, gate=True, column=11)
def _satisfaction_popular(turn: TurnRecord) -> float:
    """S beyond a draw by connectedness, at most 1; see :func:`beyond_chance`."""
    expected = _expected(turn.background, turn.constraints, popular=True)
    return beyond_chance(turn.once(satisfaction_of_turn), expected)


@metric("novelty", "non-repetition", TURN, 0, 1, NEITHER, _SOURCE, gate=False, column=12)
def novelty_of_turn(turn: TurnRecord) -> float:
    """N: share of the items that were not recommended before, in [0, 1]; NaN without items."""
    if not turn.items:
        return math.nan
    new = [item for item in turn.items if item not in turn.seen]
    return len(new) / len(turn.items)


@metric("topic_interference_leakage", "leakage", TURN, 0, 1, LOWER, _SOURCE, gate=False, column=13)
def leakage_of_turn(turn: TurnRecord) -> float:
    """L: share of the items that meet a value given up or excluded and no constraint; NaN without either."""
    if not turn.items or not turn.dropped:
        return math.nan
    leaked = 0
    for facts in turn.facts:
        is_dropped = not facts.isdisjoint(turn.dropped)
        if is_dropped and facts.isdisjoint(turn.constraints):
            leaked += 1
    return leaked / len(turn.facts)


def best_share(turn: TurnRecord) -> float:
    """The largest share of the constraints that one item without an excluded value meets, in [0, 1]."""
    if not turn.constraints:
        return 0.0
    most = max(map(turn.wanted.level, turn.facts), default=0)
    return most / len(turn.constraints)


@fact("n_hallucinated_titles", TURN, column=16)
def _n_hallucinated_titles(turn: TurnRecord) -> int:
    """The number of titles outside the catalogue that the log counts in the reply."""
    return len(turn.pair.system.meta.get("hallucinated_titles") or ())


# Claims: what a reply says of the films that it names, and whether it holds.
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


@metric("false_claims", "false claims", TURN, 0, 1, LOWER, _CLAIMS, gate=False, column=28)
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
