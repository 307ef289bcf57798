"""Gain: the share of what the catalogue could offer that a reply offers, and what happens to it at a shift.
The gain of a film is the share of the active constraints that it meets; 0 where it breaks an exclusion, or
was shown for this state already while the user asks for others. Source: docs/metrics.md, section 4.
"""

import math
from collections.abc import Sequence, Set
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.metrics.base import HIGHER, LOWER, TURN, fact, metric
from crs_lib.metrics.records import Background, TurnRecord, Wanted

_SOURCE = "chance-corrected normalised cumulative gain (docs/metrics.md, section 4)"
_AT_A_SHIFT = "what happens at a shift (docs/metrics.md, section 5)"
_LOWEST = -math.inf
ABLE = 0.1  # mean gain with straight users below which a system has nothing to lose
_FEW = 3  # films that a user looks at
_LEAST = 0.1  # a part is measured where a list of the largest gain meets so much more of it than chance does


class Meeting(NamedTuple):
    """The films that meet any of the constraints, how many of them, and whether a film counts at all."""

    items: NDArray[np.integer]
    met: NDArray[np.integer]
    counted: NDArray[np.bool_]


def meeting(background: Background, wanted: Wanted) -> Meeting:
    """The films that meet any of the constraints of a state."""
    catalog = background.catalog
    postings = [catalog.items_with(code) for code in wanted.constraints]
    items, met = np.unique(np.concatenate(postings), return_counts=True)
    counted = catalog.recommendable[items]
    for code in wanted.exclusions:
        counted &= ~np.isin(items, catalog.items_with(code))
    return Meeting(items, met, counted)


@lru_cache(65_536)
def levels(background: Background, wanted: Wanted) -> tuple[int, ...]:
    """The number of recommendable films by the number of constraints that they meet, from none to all; a film
    that breaks an exclusion meets none.
    """
    films = meeting(background, wanted)
    counts = np.bincount(films.met[films.counted], minlength=len(wanted.constraints) + 1)
    counts[0] = int(background.catalog.recommendable.sum()) - int(counts[1:].sum())
    return tuple(counts.tolist())


def _hidden(background: Background) -> frozenset[int]:
    """The films that are never recommended."""
    return frozenset(np.flatnonzero(~background.catalog.recommendable).tolist())


def _total(counts: Sequence[int]) -> int:
    """The constraints that all films of the levels meet together."""
    return sum(level * count for level, count in enumerate(counts))


def _best(counts: Sequence[int], k: int) -> int:
    """The sum of the ``k`` highest levels."""
    total = 0
    left = k
    for level in range(len(counts) - 1, 0, -1):
        number = min(left, counts[level])
        total += level * number
        left -= number
    return total


def normalised(gained: int, k: int, counts: Sequence[int]) -> float:
    """(gained − chance)/(best − chance) for ``k`` films, at most 1; 0 is chance. ``gained`` sums the levels
    of the films shown. NaN where there are fewer than ``k`` films, or no list beats chance.
    """
    n = sum(counts)
    if k > n:
        return math.nan
    chance = k * _total(counts)  # all terms times n: whole numbers, so that the best is exactly 1
    scale = _best(counts, k) * n - chance
    if scale <= 0:
        return math.nan
    return min(1.0, (gained * n - chance) / scale)


def _gain_of(turn: TurnRecord, most: int | None = None) -> float:
    """Normalised gain of a reply's films, of the first ``most``, at most 1. Stale films gain nothing, nor
    does a film named a second time in one reply. Without films: the value of one film without gain where the
    user asked for some, else NaN. NaN without constraints, too, and as :func:`normalised`.
    """
    if not turn.measurable:
        return math.nan
    background, wanted, stale = turn.background, turn.wanted, turn.stale
    facts = background.catalog.fact_sets
    hidden = background.once(_hidden)
    items = turn.items[:most]
    counts = list(levels(background, wanted))
    gained = 0
    for item in set(items):
        level = wanted.level(facts[item])
        if item in hidden:
            counts[level] += 1
        if item not in stale:
            gained += level
    for item in stale - hidden:
        counts[wanted.level(facts[item])] -= 1
        counts[0] += 1
    return normalised(gained, max(1, len(items)), counts)


def fair_gain(turn: TurnRecord, stale: Set[int]) -> float:
    """Normalised gain in [-1, 1] that neither repeating films nor sparing them changes; 0 is chance. The best
    list and chance are those of the films that no earlier turn showed, and of this reply's; ``stale`` films
    gain nothing. NaN as :func:`normalised_gain`, and where chance is more than half of the best.
    """
    if not turn.measurable:
        return math.nan
    background, wanted = turn.background, turn.wanted
    facts = background.catalog.fact_sets
    hidden = background.once(_hidden)
    shown = set(turn.items)
    counts = list(levels(background, wanted))
    for item in turn.seen - shown - hidden:
        counts[wanted.level(facts[item])] -= 1
    gained = 0
    for item in shown:
        level = wanted.level(facts[item])
        if item in hidden:
            counts[level] += 1
        if item not in stale:
            gained += level
            continue
        counts[level] -= 1
        counts[0] += 1
    k = max(1, len(turn.items))
    chance = k * _total(counts) / max(1, sum(counts))
    if chance > _best(counts, k) / 2:
        return math.nan
    return normalised(gained, k, counts)


@metric("normalised_gain", "gain", TURN, _LOWEST, 1, HIGHER, _SOURCE, gate=True, column=22)
def normalised_gain(turn: TurnRecord) -> float:
    """Recommendation quality under changing constraints: 1 nothing better could be shown, 0 chance.
    See :func:`_gain_of`; films shown since the state last changed gain nothing if the user asks for others.
    """
    return _gain_of(turn)


@metric("first_gain", "first film", TURN, _LOWEST, 1, HIGHER, _SOURCE, gate=False, column=23)
def first_gain(turn: TurnRecord) -> float:
    """Normalised gain of a reply's first film alone: above that of all where the others are padding."""
    return _gain_of(turn, most=1)


@fact("new_and_fits", TURN, column=24)
def _new_and_fits(turn: TurnRecord) -> bool:
    """Whether a film is shown that meets everything and was not shown before in the session."""
    if not turn.constraints:
        return False
    for item, facts in zip(turn.items, turn.facts, strict=True):
        if item not in turn.seen and turn.wanted.met_by(facts):
            return True
    return False


@metric("precise", "precise", TURN, 0, 1, HIGHER, _SOURCE, gate=False, column=25)
def precise(turn: TurnRecord) -> float:
    """Share of the films shown that meet every constraint and break no exclusion, in [0, 1].
    NaN without constraints, and without films.
    """
    if not turn.constraints or not turn.items:
        return math.nan
    return sum(map(turn.wanted.met_by, turn.facts)) / len(turn.items)


@metric("found_at_3", "found@3", TURN, 0, 1, HIGHER, _SOURCE, gate=True, column=26)
def found_at_3(turn: TurnRecord) -> float:
    """Films shown that meet everything, of at most three that there are, in [0, 1].
    Films that are stale because the user asks for others do not count, on either side. NaN without
    constraints, where no film is left that meets everything, and where neither films are shown nor asked for.
    """
    if not turn.measurable:
        return math.nan
    facts = turn.background.catalog.fact_sets
    stale = turn.stale
    left = levels(turn.background, turn.wanted)[-1]
    for item in stale:
        left -= turn.wanted.met_by(facts[item])
    if not left:
        return math.nan
    hits = 0
    for item in set(turn.items) - stale:
        hits += turn.wanted.met_by(facts[item])
    return min(hits, _FEW) / min(left, _FEW)


@metric("violations", "violations", TURN, 0, 1, LOWER, _SOURCE, gate=False, column=27)
def violations(turn: TurnRecord) -> float:
    """Share of the films shown that break a stated exclusion, in [0, 1]; NaN without either."""
    if not turn.exclusions or not turn.items:
        return math.nan
    broken = 0
    for facts in turn.facts:
        broken += not turn.exclusions.isdisjoint(facts)
    return broken / len(turn.facts)


def _after_change(turn: TurnRecord) -> bool:
    """Whether the reply is one of the first after a shift (the convention's window)."""
    return turn.change is not None and (turn.since_shift or 0) < turn.convention.window


class _Part(NamedTuple):
    """By level of gain: the number of films, and the constraints of a part that they meet together."""

    counts: tuple[int, ...]
    met: tuple[float, ...]


@lru_cache(65_536)
def _part(background: Background, wanted: Wanted, part: frozenset[int]) -> _Part:
    """What films of each level of gain for a state meet of a part of its constraints."""
    catalog = background.catalog
    counts = levels(background, wanted)
    films = meeting(background, wanted)
    of_part = np.zeros(len(films.items))
    for code in part:
        of_part += np.isin(films.items, catalog.items_with(code))
    total = float(np.sum(of_part * catalog.recommendable[films.items]))
    weights = of_part[films.counted]
    met = np.bincount(films.met[films.counted], weights=weights, minlength=len(counts))
    met[0] = total - met[1:].sum()
    return _Part(counts, tuple(met.tolist()))


def _attained(counts: Sequence[int], met: Sequence[float], k: int) -> float:
    """What ``k`` films of the highest levels meet on average; those of a level have ``met`` together."""
    total = 0.0
    left = k
    for count, together in zip(reversed(counts), reversed(met), strict=True):
        number = min(left, count)
        if number:
            total += number * together / count
            left -= number
    return total


def _part_met(turn: TurnRecord, part: frozenset[int]) -> float:
    """(x − chance)/(attained − chance), at most 1: how far a reply's films meet a part of the constraints. x
    is the mean share that they meet, ``attained`` that of as long a list of the largest gain (over ties):
    giving up the others for the part is no better. NaN where the part is empty, ``attained`` is less than .1
    above chance, or films are neither shown nor asked for.
    """
    if not part or not (turn.items or turn.state.asks):
        return math.nan
    facts = turn.background.catalog.fact_sets
    whole = _part(turn.background, turn.wanted, part)
    counts = list(whole.counts)
    met = list(whole.met)
    for item in turn.stale:
        level = turn.wanted.level(facts[item])
        share = len(facts[item] & part)
        counts[level] -= 1
        counts[0] += 1
        met[level] -= share
        met[0] += share
    k = max(1, len(turn.items))
    scale = k * len(part)
    chance = sum(met) / sum(counts) / len(part)
    attained = _attained(counts, met, k) / scale
    if not attained - chance >= _LEAST:
        return math.nan
    shown = 0
    for item in set(turn.items):
        shown += len(facts[item] & part)
    return min(1.0, (shown / scale - chance) / (attained - chance))


@metric("uptake", "uptake", TURN, _LOWEST, 1, HIGHER, _AT_A_SHIFT, version=2, gate=True, column=29)
def uptake(turn: TurnRecord) -> float:
    """How far the constraints that the last shift added are met; see :func:`_part_met`.
    NaN outside of the replies after a shift that the convention's window holds.
    """
    if turn.change is None or not _after_change(turn):
        return math.nan
    return _part_met(turn, turn.change.added)


@metric("retention", "retention", TURN, _LOWEST, 1, HIGHER, _AT_A_SHIFT, version=2, gate=True, column=31)
def retention(turn: TurnRecord) -> float:
    """How far the constraints that the last shift kept are met; see :func:`_part_met`, :func:`uptake`."""
    if turn.change is None or not _after_change(turn):
        return math.nan
    return _part_met(turn, turn.change.retained)


class _Old(NamedTuple):
    """The part of a state that decides whether a film belongs to the state before it."""

    added: frozenset[int]
    dropped: frozenset[int]
    wanted: Wanted

    def holds(self, facts: frozenset[int]) -> bool:
        """Whether a film breaks an exclusion, or meets more of what went than came, and not all now."""
        if facts & self.wanted.exclusions:
            return True
        if self.wanted.constraints <= facts:
            return False
        return len(facts & self.dropped) > len(facts & self.added)


@lru_cache(65_536)
def _old_share(background: Background, old: _Old) -> float:
    """The share of the recommendable films that belong to an earlier state, in [0, 1]."""
    catalog = background.catalog
    postings = [catalog.items_with(code) for code in old.dropped | old.wanted.exclusions]
    suspects = np.unique(np.concatenate(postings))
    suspects = suspects[catalog.recommendable[suspects]]
    belong = 0
    for item in suspects.tolist():
        belong += old.holds(catalog.fact_sets[item])
    return belong / int(catalog.recommendable.sum())


@metric("release", "release", TURN, 0, 1, HIGHER, _AT_A_SHIFT, gate=True, column=30)
def release(turn: TurnRecord) -> float:
    """(1 − s)/(1 − c), at most 1: s of the films shown, c of all films belong to the state before.
    1 where no more of them do than by chance, 0 where all do (:meth:`_Old.holds`). NaN outside of the replies
    after a shift that the convention's window holds, where nothing was dropped or excluded, without films.
    """
    if turn.change is None or not _after_change(turn) or not turn.items:
        return math.nan
    old = _Old(turn.change.added, turn.change.dropped, turn.wanted)
    if not (old.dropped or turn.exclusions):
        return math.nan
    chance = _old_share(turn.background, old)
    if chance >= 1:
        return math.nan
    shown = sum(map(old.holds, turn.facts)) / len(turn.facts)
    return min(1.0, (1 - shown) / (1 - chance))


@fact("hit_by_chance", TURN, column=32)
def _hit_by_chance(turn: TurnRecord) -> float:
    """The probability that a list drawn from the catalogue, as long as the reply's, holds a perfect film.
    A reply without films counts as one film long; NaN without constraints.
    """
    if not turn.constraints:
        return math.nan
    return _chance_of_a_hit(levels(turn.background, turn.wanted), max(1, len(turn.items)))


@lru_cache(65_536)
def _chance_of_a_hit(counts: tuple[int, ...], k: int) -> float:
    """The probability that ``k`` films drawn from those of the levels hold one of the highest."""
    n, perfect = sum(counts), counts[-1]
    misses = 1.0
    for drawn_before in range(min(k, n)):
        misses *= (n - perfect - drawn_before) / (n - drawn_before)
    return 1 - max(0.0, misses)
