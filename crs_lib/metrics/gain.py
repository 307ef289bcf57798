"""Gain: the share of what the catalogue could offer that a reply offers, and what happens to it at a shift.

The gain of a film is the share of the active constraints that it meets. It is 0 where the film breaks an
exclusion, and where the user has just asked for others and was shown the film since the state last changed.
Source: docs/metrics.md, section 4.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from crs_lib.core.text import words
from crs_lib.metrics.base import FACTS, HIGHER, LOWER, SHIFT, TURN, metric
from crs_lib.metrics.records import Background, ShiftRecord, TurnRecord, mean_defined

_SOURCE = "chance-corrected normalised cumulative gain (docs/metrics.md, section 4)"
_HISTORY = "the cost of history (docs/metrics.md, section 5)"
_AT_A_SHIFT = "what happens at a shift (docs/metrics.md, section 5)"
FRESH, PLACEBO, PLACEBO_FRESH = "fresh", "placebo", "placebo fresh"  # the arms of ShiftRecord.arms
_FEW = 3  # films that a user looks at

Key = tuple[frozenset[int], frozenset[int]]


class Levels(NamedTuple):
    """The recommendable films by the number of constraints that they meet, those that break nothing.

    ``counts[j]`` films meet ``j`` constraints; films that break an exclusion are at level 0.
    """

    counts: tuple[int, ...]

    @property
    def perfect(self) -> int:
        """The number of films that meet every constraint and break no exclusion."""
        return self.counts[-1]

    def moved(self, came: Iterable[int], went: Iterable[int]) -> "Levels":
        """The levels with further films at ``came``, and with films of the levels ``went`` at level 0."""
        counts = list(self.counts)
        for level in came:
            counts[level] += 1
        for level in went:
            counts[level] -= 1
            counts[0] += 1
        return Levels(tuple(counts))

    def best(self, k: int) -> int:
        """The sum of the ``k`` highest levels."""
        total, left = 0, k
        for level in range(len(self.counts) - 1, 0, -1):
            taken = min(left, self.counts[level])
            total += level * taken
            left -= taken
        return total


def _levels(background: Background) -> Callable[[Key], Levels]:
    """The levels of the catalogue for constraints and exclusions."""
    catalog = background.catalog
    n_films = int(catalog.recommendable.sum())

    @lru_cache(65_536)
    def count(key: Key) -> Levels:
        wanted, excluded = key
        postings = [catalog.items_with(code) for code in wanted]
        items, met = np.unique(np.concatenate(postings), return_counts=True)
        counted = catalog.recommendable[items]
        for code in excluded:
            counted &= ~np.isin(items, catalog.items_with(code))
        counts = np.bincount(met[counted], minlength=len(wanted) + 1)
        counts[0] = n_films - int(counts[1:].sum())
        return Levels(tuple(counts.tolist()))

    return count


def level(facts: Set[int], wanted: Set[int], excluded: Set[int]) -> int:
    """The number of constraints that a film meets; 0 where it breaks an exclusion."""
    return 0 if excluded & facts else len(wanted & facts)


def normalised(gained: int, k: int, levels: Levels) -> float:
    """(gained − chance)/(best − chance) for ``k`` films, at most 1; 0 is chance, whatever ``k`` is.

    ``gained`` is the sum of the levels of the films shown. NaN where there are fewer than ``k`` films, or
    where no list beats chance.
    """
    n = sum(levels.counts)
    total = sum(level * count for level, count in enumerate(levels.counts))
    scale = levels.best(k) * n - k * total  # all terms times n: whole numbers, so that the best is exactly 1
    return (gained * n - k * total) / scale if k <= n and scale > 0 else math.nan


def _gain_of(
    turn: TurnRecord,
    wanted: frozenset[int],
    excluded: frozenset[int],
    stale: Collection[int] = (),
    spared: Collection[int] = (),
) -> float:
    """Normalised gain of a reply's films for some constraints and exclusions, at most 1.

    ``stale`` films gain nothing, nor does a film named a second time in one reply; ``spared`` films gain as
    ever and belong neither to the best list nor to chance. Without films: the value of one film without gain
    where the user asked for some, else NaN. NaN without constraints, too, and as :func:`normalised`.
    """
    if not wanted or not (turn.items or turn.asked):
        return math.nan
    catalog = turn.background.catalog
    levels = turn.background.once(_levels)((wanted, excluded))
    facts = catalog.fact_sets
    hidden = [item for item in dict.fromkeys(turn.items) if not catalog.recommendable[item]]
    away = {item for item in (*stale, *spared) if catalog.recommendable[item]}
    went = [level(facts[item], wanted, excluded) for item in away]
    if hidden or went:
        levels = levels.moved((level(facts[item], wanted, excluded) for item in hidden), went)
    shown = (item for item in dict.fromkeys(turn.items) if item not in stale)
    gained = sum(level(facts[item], wanted, excluded) for item in shown)
    value = normalised(gained, max(1, len(turn.items)), levels)
    return 1.0 if value > 1 else value


@metric("normalised_gain", "gain", TURN, -math.inf, 1, HIGHER, source=_SOURCE, gate=True)
def normalised_gain(turn: TurnRecord) -> float:
    """Recommendation quality under changing constraints: 1 nothing better could be shown, 0 chance.

    See :func:`_gain_of`; films shown since the state last changed gain nothing if the user asks for others.
    """
    return _gain_of(turn, turn.constraints, turn.exclusions, turn.recent if turn.others else ())


def _perfect(turn: TurnRecord, item: int) -> bool:
    """Whether a film meets every constraint and breaks no exclusion."""
    facts = turn.background.catalog.fact_sets[item]
    return turn.constraints <= facts and not turn.exclusions & facts


@metric("precise", "precise", TURN, 0, 1, HIGHER, source=_SOURCE)
def precise(turn: TurnRecord) -> float:
    """Share of the films shown that meet every constraint and break no exclusion, in [0, 1].

    NaN without constraints, and without films.
    """
    if not turn.constraints or not turn.items:
        return math.nan
    return sum(_perfect(turn, item) for item in turn.items) / len(turn.items)


@FACTS.register("new_and_fits", level=TURN)
def new_and_fits(turn: TurnRecord) -> bool:
    """Whether a film is shown that meets everything and was not shown before in the session."""
    return bool(turn.constraints) and any(_perfect(turn, i) for i in turn.items if i not in turn.seen)


@metric("found_at_3", "found@3", TURN, 0, 1, HIGHER, source=_SOURCE, gate=True)
def found_at_3(turn: TurnRecord) -> float:
    """Films shown that meet everything, of at most three that there are, in [0, 1].

    Films that are stale because the user asks for others do not count, on either side. NaN without
    constraints, where no film is left that meets everything, and where neither films are shown nor asked for.
    """
    if not turn.constraints or not (turn.items or turn.asked):
        return math.nan
    stale = turn.recent if turn.others else frozenset[int]()
    there = turn.background.once(_levels)((turn.constraints, turn.exclusions)).perfect
    there -= sum(_perfect(turn, item) for item in stale)
    hits = sum(_perfect(turn, item) for item in set(turn.items) - stale)
    return min(hits, _FEW) / min(there, _FEW) if there else math.nan


@metric("violations", "violations", TURN, 0, 1, LOWER, source=_SOURCE)
def violations(turn: TurnRecord) -> float:
    """Share of the films shown that break a stated exclusion, in [0, 1]; NaN without either."""
    if not turn.exclusions or not turn.items:
        return math.nan
    return sum(bool(facts & turn.exclusions) for facts in turn.facts) / len(turn.facts)


# ── claims ─────────────────────────────────────────────────────────────────────────────────────
_END = re.compile(r"[.!?](?=\s+[\"'“‘(]?[A-Z0-9]|\s*$)")
_NO_CLAIM = frozenset(
    "no not nothing none neither without closest nearest nearly almost partly only except".split()
)


class _Claim(NamedTuple):
    """A value that a reply says of films: the codes that its words can stand for, and the films."""

    codes: frozenset[int]
    items: tuple[int, ...]


def claims(turn: TurnRecord) -> Iterator[_Claim]:
    """The values that the reply's words tie to films, in text order.

    A value after a title, in the same sentence, is said of that film; any other of the films named later in
    the sentence, or else in the next. A sentence that denies or restricts ("nothing", "the nearest") before
    the value claims nothing.
    """
    text, concepts = turn.pair.system.text, turn.background.concepts
    titles = concepts.titles(text)
    inside = [(mention.start, mention.end) for mention in titles]
    spans: dict[tuple[int, int], set[int]] = {}
    for match in concepts.audit(text):
        if not match.rejected and not any(a <= match.start and match.end <= b for a, b in inside):
            spans.setdefault((match.start, match.end), set()).add(match.code)
    held = [*inside, *spans]
    ends = [one.start() for one in _END.finditer(text) if not any(a <= one.start() < b - 1 for a, b in held)]

    def sentence(place: int) -> int:
        return sum(end < place for end in ends)

    for (start, end), codes in spans.items():
        mine = sentence(start)
        first = ends[mine - 1] + 1 if mine else 0
        if _NO_CLAIM.intersection(words(text[first:start])):
            continue
        before = [m.item for m in titles if m.end <= start and sentence(m.start) == mine]
        after = [(sentence(m.start), m.item) for m in titles if m.start >= end]
        if before:
            yield _Claim(frozenset(codes), (before[-1],))
        elif after and after[0][0] <= mine + 1:
            yield _Claim(frozenset(codes), tuple(item for place, item in after if place == after[0][0]))


@metric("false_claims", "false claims", TURN, 0, 1, LOWER, source=_SOURCE)
def false_claims(turn: TurnRecord) -> float:
    """Whether the reply's text ties a constraint to a film that does not meet it, 0 or 1; see :func:`claims`.

    NaN without constraints, and without films.
    """
    if not turn.constraints or not turn.items:
        return math.nan
    said = turn.constraints & turn.system.concepts
    if not said:
        return 0.0
    facts, concepts = turn.background.catalog.fact_sets, turn.background.concepts
    if all(turn.constraints <= facts[mention.item] for mention in concepts.titles(turn.pair.system.text)):
        return 0.0  # whatever is claimed of these films holds
    mine = (claim for claim in claims(turn) if claim.codes & turn.constraints)
    return float(any(not claim.codes & facts[item] for claim in mine for item in claim.items))


# ── what happens at a shift ────────────────────────────────────────────────────────────────────
def _after_change(turn: TurnRecord) -> bool:
    """Whether the reply is one of the first after a shift (the convention's window)."""
    return turn.change is not None and (turn.since_shift or 0) < turn.rule.window


class _GainLevels(NamedTuple):
    """The films of each level of gain, and how many constraints of a part of all they meet together."""

    counts: tuple[int, ...]
    met: tuple[float, ...]

    def attained(self, k: int) -> float:
        """The number of the part's constraints that ``k`` films of the largest gain meet on average."""
        total, left = 0.0, k
        for count, met in zip(reversed(self.counts), reversed(self.met), strict=True):
            if taken := min(left, count):
                total += taken * met / count
                left -= taken
        return total


def _parts(background: Background) -> Callable[[tuple[Key, frozenset[int]]], _GainLevels]:
    """The parts of the catalogue for constraints, exclusions, and a part of the constraints."""
    catalog = background.catalog

    @lru_cache(65_536)
    def count(key: tuple[Key, frozenset[int]]) -> _GainLevels:
        (wanted, excluded), part = key
        levels = background.once(_levels)((wanted, excluded)).counts
        items, met = np.unique(np.concatenate([catalog.items_with(c) for c in wanted]), return_counts=True)
        mine = sum(np.isin(items, catalog.items_with(code)).astype(float) for code in part)
        kept = catalog.recommendable[items]
        total = float(np.sum(mine * kept))
        for code in excluded:
            kept &= ~np.isin(items, catalog.items_with(code))
        sums = np.bincount(met[kept], weights=(mine * np.ones(len(items)))[kept], minlength=len(levels))
        sums[0] = total - sums[1:].sum()
        return _GainLevels(levels, tuple(sums.tolist()))

    return count


_LEAST = 0.1  # a part is measured where a list of the largest gain meets so much more of it than chance does


def _part_met(turn: TurnRecord, part: frozenset[int]) -> float:
    """(x − chance)/(attained − chance): how far the films of a reply meet a part of the active constraints.

    x is the mean share of the part that they meet; ``attained`` is that of a list of the largest gain and the
    same length, averaged over ties: 1 is as much of the part as the whole of the constraints allows, 0 is
    chance. NaN where the part is empty, where ``attained`` is less than .1 above chance, and where neither
    films are shown nor asked for.
    """
    if not part or not (turn.items or turn.asked):
        return math.nan
    facts, k = turn.background.catalog.fact_sets, max(1, len(turn.items))
    whole = turn.background.once(_parts)(((turn.constraints, turn.exclusions), part))
    counts, met = list(whole.counts), list(whole.met)
    for item in turn.recent if turn.others else ():
        there = level(facts[item], turn.constraints, turn.exclusions)
        mine = len(facts[item] & part)
        counts[there], met[there] = counts[there] - 1, met[there] - mine
        counts[0], met[0] = counts[0] + 1, met[0] + mine
    scale = k * len(part)
    chance = sum(met) / sum(counts) / len(part)
    attained = _GainLevels(tuple(counts), tuple(met)).attained(k) / scale
    shown = sum(len(facts[item] & part) for item in set(turn.items)) / scale
    return (shown - chance) / (attained - chance) if attained - chance >= _LEAST else math.nan


@metric("uptake", "uptake", TURN, -math.inf, math.inf, HIGHER, source=_AT_A_SHIFT)
def uptake(turn: TurnRecord) -> float:
    """How far the constraints that the last shift added are met; see :func:`_part_met`.

    NaN outside of the replies after a shift that the convention's window holds.
    """
    return _part_met(turn, turn.change.added) if turn.change and _after_change(turn) else math.nan


@metric("retention", "retention", TURN, -math.inf, math.inf, HIGHER, source=_AT_A_SHIFT)
def retention(turn: TurnRecord) -> float:
    """How far the constraints that the last shift kept are met; see :func:`_part_met`, :func:`uptake`."""
    return _part_met(turn, turn.change.kept) if turn.change and _after_change(turn) else math.nan


class _Old(NamedTuple):
    """The part of a state that decides whether a film belongs to the state before it."""

    added: frozenset[int]
    dropped: frozenset[int]
    wanted: frozenset[int]
    excluded: frozenset[int]

    def holds(self, facts: Set[int]) -> bool:
        """Whether a film breaks an exclusion, or meets more of what was dropped than of what was added.

        A film that meets everything in force and breaks nothing belongs to the present.
        """
        if facts & self.excluded:
            return True
        return len(facts & self.dropped) > len(facts & self.added) and not self.wanted <= facts


def _old_share(background: Background) -> Callable[[_Old], float]:
    """The share of the recommendable films that belong to an earlier state, in [0, 1]."""
    catalog = background.catalog
    n_films = int(catalog.recommendable.sum())

    @lru_cache(65_536)
    def share(old: _Old) -> float:
        suspects = np.unique(np.concatenate([catalog.items_with(c) for c in old.dropped | old.excluded]))
        suspects = suspects[catalog.recommendable[suspects]]
        return sum(old.holds(catalog.fact_sets[item]) for item in suspects.tolist()) / n_films

    return share


@metric("release", "release", TURN, 0, 1, HIGHER, source=_AT_A_SHIFT)
def release(turn: TurnRecord) -> float:
    """(1 − s)/(1 − c), at most 1: s of the films shown, c of all films belong to the state before.

    1 where no more of them do than by chance, 0 where all do (:meth:`_Old.holds`). NaN outside of the replies
    after a shift that the convention's window holds, where nothing was dropped or excluded, without films.
    """
    if turn.change is None or not _after_change(turn) or not turn.items:
        return math.nan
    old = _Old(turn.change.added, turn.change.dropped, turn.constraints, turn.exclusions)
    if not (old.dropped or old.excluded):
        return math.nan
    chance = turn.background.once(_old_share)(old)
    shown = sum(old.holds(facts) for facts in turn.facts) / len(turn.facts)
    return min(1.0, (1 - shown) / (1 - chance)) if chance < 1 else math.nan


def _met_by_chance(n_perfect: int, n_films: int, k: int) -> float:
    """The probability that one of ``k`` different films drawn by chance is among the perfect ones."""
    misses = math.prod((n_films - n_perfect - i) / (n_films - i) for i in range(min(k, n_films)))
    return 1 - max(0.0, misses)


@FACTS.register("hit_by_chance", level=TURN)
def hit_by_chance(turn: TurnRecord) -> float:
    """The probability that a list drawn from the catalogue, as long as the reply's, holds a perfect film.

    A reply without films counts as one film long; NaN without constraints.
    """
    return _by_chance(turn, max(1, len(turn.items))) if turn.constraints else math.nan


def _by_chance(turn: TurnRecord, k: int) -> float:
    """The probability that ``k`` films drawn from the catalogue hold one that meets everything."""
    levels = turn.background.once(_levels)((turn.constraints, turn.exclusions))
    return _met_by_chance(levels.perfect, sum(levels.counts), k)


_USUAL, _LIKELY = 3, 0.5  # films of a usual list; above this chance of a hit, recovery says nothing


@metric("recovery_at_0", "recovery at 0", SHIFT, -1, 1, HIGHER, source=_AT_A_SHIFT, version=2, gate=True)
def recovery_at_0(shift: ShiftRecord) -> float:
    """Whether the reply to the shift shows a film that meets everything, corrected for chance, in [-1, 1].

    (x − p)/(1 − p) with x 0 or 1, and p the probability that as many films drawn from the catalogue hold
    such a film; a reply without films counts as three that miss. NaN where no film meets everything, and
    where a list of three films, or of as many as the reply shows, holds one by chance more often than not:
    a hit there says nothing about adaptation, and a miss would weigh −p/(1 − p), without any bound.
    """
    if not shift.replies or not shift.replies[0].constraints:
        return math.nan
    turn = shift.replies[0]
    p = _by_chance(turn, len(turn.items) or _USUAL)
    if p <= 0 or max(p, _by_chance(turn, _USUAL)) > _LIKELY:
        return math.nan
    return (float(any(_perfect(turn, item) for item in turn.items)) - p) / (1 - p)


# ── the cost of history ────────────────────────────────────────────────────────────────────────
def excess(fresh: Sequence[float], own: Sequence[float]) -> float:
    """Mean of ``fresh`` − ``own`` over the replies that have both; NaN where none has."""
    return mean_defined(a - b for a, b in zip(fresh, own, strict=False))


@metric("history_cost", "history cost", SHIFT, -math.inf, math.inf, LOWER, source=_HISTORY)
def history_cost(shift: ShiftRecord) -> float:
    """Gain of the replies to a fresh user with the same constraints − gain of the replies after the shift.

    0 for a system that history does not change; a positive value is a cost. Mean over the replies of the
    convention's window that have both; NaN where the fresh arm was not simulated.
    """
    own = [turn.once(normalised_gain) for turn in shift.replies[: shift.rule.window]]
    return excess(shift.arms.get(FRESH, ()), own)


@metric("placebo_cost", "placebo cost", SHIFT, -math.inf, math.inf, LOWER, source=_HISTORY)
def placebo_cost(shift: ShiftRecord) -> float:
    """:func:`history_cost` at the same turn of the twin that never shifts, where the state does not change.

    See :func:`window_gains` for films shown before. NaN where these arms were not simulated.
    """
    return excess(shift.arms.get(PLACEBO_FRESH, ()), shift.arms.get(PLACEBO, ()))


@metric("fresh_gain", "ability", SHIFT, -math.inf, 1, HIGHER, source=_HISTORY)
def fresh_gain(shift: ShiftRecord) -> float:
    """Ability without history: mean normalised gain of the replies to the shift's fresh user, at most 1."""
    return mean_defined(shift.arms.get(FRESH, ()))


def window_gains(turns: Sequence[TurnRecord]) -> list[float]:
    """Normalised gain of the replies of a window, each at most 1, as if the conversation began there.

    Where the user asks for others, films shown earlier in the window gain nothing. Films shown before the
    window, since the state last changed, are neither held against a reply nor expected of it, so that a
    longer history is no fault in itself.
    """
    found, shown = [], frozenset[int]()
    for turn in turns:
        earlier = (shown, turns[0].recent) if turn.others else ((), ())
        found.append(_gain_of(turn, turn.constraints, turn.exclusions, *earlier))
        shown = shown.union(turn.items)
    return found
