"""Gain: the share of what the catalogue could offer that a reply offers, and what happens to it at a shift.
The gain of a film is the share of the active constraints that it meets; 0 where it breaks an exclusion, or
was shown for this state already while the user asks for others. Source: docs/metrics.md, section 4.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from crs_lib.core.text import words
from crs_lib.metrics.base import FACTS, HIGHER, LOWER, SHIFT, TURN, Metric, metric
from crs_lib.metrics.records import Background, ShiftRecord, TurnRecord, mean_defined

_SOURCE = "chance-corrected normalised cumulative gain (docs/metrics.md, section 4)"
_HISTORY = "the cost of history (docs/metrics.md, section 5)"
_COST = "the cost of a shift (docs/metrics.md, section 5)"
_AT_A_SHIFT = "what happens at a shift (docs/metrics.md, section 5)"
# The arms of ShiftRecord.arms: windows, and lists of gains for the second edition's quantities.
STRAIGHT, FRESH = "straight", "fresh"
FRESH_V2, PLACEBO, PLACEBO_FRESH = "fresh (second edition)", "placebo", "placebo fresh"
_FEW = 3  # films that a user looks at

Key = tuple[frozenset[int], frozenset[int]]
_Part = tuple[tuple[int, ...], tuple[float, ...]]
_LEAST = 0.1  # a part is measured where a list of the largest gain meets so much more of it than chance does


class _Levels(NamedTuple):
    """``counts[j]`` recommendable films meet ``j`` constraints; those that break an exclusion none."""

    counts: tuple[int, ...]

    @property
    def perfect(self) -> int:
        """The number of films that meet every constraint and break no exclusion."""
        return self.counts[-1]

    def moved(self, came: Iterable[int], went: Iterable[int]) -> "_Levels":
        """The levels with further films at ``came``, and with films of the levels ``went`` at level 0."""
        counts = list(self.counts)
        for level in came:
            counts[level] += 1
        for level in went:
            counts[level] -= 1
            counts[0] += 1
        return _Levels(tuple(counts))

    def best(self, k: int) -> int:
        """The sum of the ``k`` highest levels."""
        return int(_attained(self.counts, [level * count for level, count in enumerate(self.counts)], k))


def _attained(counts: Sequence[int], met: Sequence[float], k: int) -> float:
    """The sum over ``k`` films of the highest levels; those of a level (``counts``) have ``met`` together."""
    total, left = 0.0, k
    for count, together in zip(reversed(counts), reversed(met), strict=True):
        if taken := min(left, count):
            total += taken * together / count
            left -= taken
    return total


def _meeting(background: Background, key: Key) -> tuple[Any, Any, Any]:
    """The films that meet any of the constraints, how many of them, and whether a film counts at all."""
    (wanted, excluded), catalog = key, background.catalog
    items, met = np.unique(np.concatenate([catalog.items_with(c) for c in wanted]), return_counts=True)
    counted = catalog.recommendable[items]
    for code in excluded:
        counted &= ~np.isin(items, catalog.items_with(code))
    return items, met, counted


@lru_cache(65_536)
def _levels(background: Background, key: Key) -> _Levels:
    """The levels of the catalogue for constraints and exclusions."""
    _, met, counted = _meeting(background, key)
    counts = np.bincount(met[counted], minlength=len(key[0]) + 1)
    counts[0] = int(background.catalog.recommendable.sum()) - int(counts[1:].sum())
    return _Levels(tuple(counts.tolist()))


def _level(facts: Set[int], wanted: Set[int], excluded: Set[int]) -> int:
    """The number of constraints that a film meets; 0 where it breaks an exclusion."""
    return 0 if excluded & facts else len(wanted & facts)


def _normalised(gained: int, k: int, levels: _Levels) -> float:
    """(gained − chance)/(best − chance) for ``k`` films, at most 1; 0 is chance. ``gained`` sums the levels
    of the films shown. NaN where there are fewer than ``k`` films, or no list beats chance.
    """
    n = sum(levels.counts)
    total = sum(level * count for level, count in enumerate(levels.counts))
    scale = levels.best(k) * n - k * total  # all terms times n: whole numbers, so that the best is exactly 1
    return min(1.0, (gained * n - k * total) / scale) if k <= n and scale > 0 else math.nan


def _gain_of(
    turn: TurnRecord, stale: Collection[int] = (), spared: Collection[int] = (), most: int | None = None
) -> float:
    """Normalised gain of a reply's films, of the first ``most``, at most 1. ``stale`` films gain nothing, nor
    does a film named a second time in one reply; ``spared`` films gain as ever and belong neither to the best
    list nor to chance. Without films: the value of one film without gain where the user asked for some, else
    NaN. NaN without constraints, too, and as :func:`_normalised`.
    """
    if not turn.constraints or not (turn.items or turn.asked):
        return math.nan
    catalog, key, items = turn.background.catalog, (turn.constraints, turn.exclusions), turn.items[:most]
    shown = set(items)
    level = {item: _level(catalog.fact_sets[item], *key) for item in shown.union(stale, spared)}
    hidden = (level[item] for item in shown if not catalog.recommendable[item])
    went = (level[item] for item in {*stale, *spared} if catalog.recommendable[item])
    levels = _levels(turn.background, key).moved(hidden, went)
    return _normalised(sum(level[item] for item in shown.difference(stale)), max(1, len(items)), levels)


@metric("normalised_gain", "gain", TURN, -math.inf, 1, HIGHER, source=_SOURCE, gate=True)
def _normalised_gain(turn: TurnRecord) -> float:
    """Recommendation quality under changing constraints: 1 nothing better could be shown, 0 chance.
    See :func:`_gain_of`; films shown since the state last changed gain nothing if the user asks for others.
    """
    return _gain_of(turn, turn.recent if turn.others else ())


@metric("first_gain", "first film", TURN, -math.inf, 1, HIGHER, source=_SOURCE, gate=False)
def _first_gain(turn: TurnRecord) -> float:
    """Normalised gain of a reply's first film alone: above that of all of them where the rest is padding."""
    return _gain_of(turn, turn.recent if turn.others else (), most=1)


def _perfect(turn: TurnRecord, item: int) -> bool:
    """Whether a film meets every constraint and breaks no exclusion."""
    facts = turn.background.catalog.fact_sets[item]
    return turn.constraints <= facts and not turn.exclusions & facts


@metric("precise", "precise", TURN, 0, 1, HIGHER, source=_SOURCE, gate=False)
def _precise(turn: TurnRecord) -> float:
    """Share of the films shown that meet every constraint and break no exclusion, in [0, 1].
    NaN without constraints, and without films.
    """
    if not turn.constraints or not turn.items:
        return math.nan
    return sum(_perfect(turn, item) for item in turn.items) / len(turn.items)


@FACTS.register("new_and_fits", level=TURN)
def _new_and_fits(turn: TurnRecord) -> bool:
    """Whether a film is shown that meets everything and was not shown before in the session."""
    return bool(turn.constraints) and any(_perfect(turn, i) for i in turn.items if i not in turn.seen)


@metric("found_at_3", "found@3", TURN, 0, 1, HIGHER, source=_SOURCE, gate=True)
def _found_at_3(turn: TurnRecord) -> float:
    """Films shown that meet everything, of at most three that there are, in [0, 1].
    Films that are stale because the user asks for others do not count, on either side. NaN without
    constraints, where no film is left that meets everything, and where neither films are shown nor asked for.
    """
    if not turn.constraints or not (turn.items or turn.asked):
        return math.nan
    stale = turn.recent if turn.others else frozenset[int]()
    there = _levels(turn.background, (turn.constraints, turn.exclusions)).perfect
    there -= sum(_perfect(turn, item) for item in stale)
    hits = sum(_perfect(turn, item) for item in set(turn.items) - stale)
    return min(hits, _FEW) / min(there, _FEW) if there else math.nan


@metric("violations", "violations", TURN, 0, 1, LOWER, source=_SOURCE, gate=False)
def _violations(turn: TurnRecord) -> float:
    """Share of the films shown that break a stated exclusion, in [0, 1]; NaN without either."""
    if not turn.exclusions or not turn.items:
        return math.nan
    return sum(bool(facts & turn.exclusions) for facts in turn.facts) / len(turn.facts)


_END = re.compile(r"[.!?](?=\s+[\"'“‘(]?[A-Z0-9]|\s*$)")
_NO_CLAIM = frozenset(
    "no not nothing none neither without closest nearest nearly almost partly only except".split()
)


class _Claim(NamedTuple):
    """A value that a reply says of films: the codes that its words can stand for, and the films."""

    codes: frozenset[int]
    items: tuple[int, ...]


def _claims(turn: TurnRecord) -> Iterator[_Claim]:
    """The values that the reply's words tie to films, in text order: after a title in the same sentence to
    that film, else to the films named later in the sentence or in the next one. A sentence that denies or
    restricts ("nothing", "the nearest") before the value claims nothing.
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


@metric("false_claims", "false claims", TURN, 0, 1, LOWER, source=_SOURCE, gate=False)
def _false_claims(turn: TurnRecord) -> float:
    """Whether the reply's text ties a constraint to a film that does not meet it, 0 or 1 (:func:`_claims`).
    NaN without constraints, and without films.
    """
    if not turn.constraints or not turn.items:
        return math.nan
    if not turn.constraints & turn.system.concepts:
        return 0.0
    facts, concepts = turn.background.catalog.fact_sets, turn.background.concepts
    if all(turn.constraints <= facts[mention.item] for mention in concepts.titles(turn.pair.system.text)):
        return 0.0  # whatever is claimed of these films holds
    mine = (claim for claim in _claims(turn) if claim.codes & turn.constraints)
    return float(any(not claim.codes & facts[item] for claim in mine for item in claim.items))


def _after_change(turn: TurnRecord) -> bool:
    """Whether the reply is one of the first after a shift (the convention's window)."""
    return turn.change is not None and (turn.since_shift or 0) < turn.rule.window


@lru_cache(65_536)
def _parts(background: Background, state: Key, part: frozenset[int]) -> _Part:
    """The films of each level of gain for a state, and how many constraints of a part they meet together."""
    catalog, levels = background.catalog, _levels(background, state).counts
    items, met, kept = _meeting(background, state)
    mine = sum(np.isin(items, catalog.items_with(code)).astype(float) for code in part)
    total = float(np.sum(mine * catalog.recommendable[items]))
    sums = np.bincount(met[kept], weights=(mine * np.ones(len(items)))[kept], minlength=len(levels))
    sums[0] = total - sums[1:].sum()
    return levels, tuple(sums.tolist())


def _part_met(turn: TurnRecord, part: frozenset[int]) -> float:
    """(x − chance)/(attained − chance), at most 1: how far a reply's films meet a part of the constraints. x
    is the mean share that they meet, ``attained`` that of as long a list of the largest gain (over ties):
    giving up the rest for the part is no better. NaN where the part is empty, ``attained`` is less than .1
    above chance, or films are neither shown nor asked for.
    """
    if not part or not (turn.items or turn.asked):
        return math.nan
    facts, k = turn.background.catalog.fact_sets, max(1, len(turn.items))
    counts, met = map(list[Any], _parts(turn.background, (turn.constraints, turn.exclusions), part))
    for item in turn.recent if turn.others else ():
        there = _level(facts[item], turn.constraints, turn.exclusions)
        mine = len(facts[item] & part)
        counts[there], met[there] = counts[there] - 1, met[there] - mine
        counts[0], met[0] = counts[0] + 1, met[0] + mine
    scale = k * len(part)
    chance = sum(met) / sum(counts) / len(part)
    attained = _attained(counts, met, k) / scale
    shown = sum(len(facts[item] & part) for item in set(turn.items)) / scale
    return min(1.0, (shown - chance) / (attained - chance)) if attained - chance >= _LEAST else math.nan


@metric("uptake", "uptake", TURN, -math.inf, 1, HIGHER, source=_AT_A_SHIFT, version=2, gate=True)
def _uptake(turn: TurnRecord) -> float:
    """How far the constraints that the last shift added are met; see :func:`_part_met`.
    NaN outside of the replies after a shift that the convention's window holds.
    """
    return _part_met(turn, turn.change.added) if turn.change and _after_change(turn) else math.nan


@metric("retention", "retention", TURN, -math.inf, 1, HIGHER, source=_AT_A_SHIFT, version=2, gate=True)
def _retention(turn: TurnRecord) -> float:
    """How far the constraints that the last shift kept are met; see :func:`_part_met`, :func:`_uptake`."""
    return _part_met(turn, turn.change.kept) if turn.change and _after_change(turn) else math.nan


class _Old(NamedTuple):
    """The part of a state that decides whether a film belongs to the state before it."""

    added: frozenset[int]
    dropped: frozenset[int]
    wanted: frozenset[int]
    excluded: frozenset[int]

    def holds(self, facts: Set[int]) -> bool:
        """Whether a film breaks an exclusion, or meets more of what went than came, and not all now."""
        if facts & self.excluded:
            return True
        return len(facts & self.dropped) > len(facts & self.added) and not self.wanted <= facts


@lru_cache(65_536)
def _old_share(background: Background, old: _Old) -> float:
    """The share of the recommendable films that belong to an earlier state, in [0, 1]."""
    catalog = background.catalog
    suspects = np.unique(np.concatenate([catalog.items_with(c) for c in old.dropped | old.excluded]))
    suspects = suspects[catalog.recommendable[suspects]]
    held = sum(old.holds(catalog.fact_sets[item]) for item in suspects.tolist())
    return held / int(catalog.recommendable.sum())


@metric("release", "release", TURN, 0, 1, HIGHER, source=_AT_A_SHIFT, gate=True)
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
    chance = _old_share(turn.background, old)
    shown = sum(old.holds(facts) for facts in turn.facts) / len(turn.facts)
    return min(1.0, (1 - shown) / (1 - chance)) if chance < 1 else math.nan


@FACTS.register("hit_by_chance", level=TURN)
def _hit_by_chance(turn: TurnRecord) -> float:
    """The probability that a list drawn from the catalogue, as long as the reply's, holds a perfect film.
    A reply without films counts as one film long; NaN without constraints.
    """
    if not turn.constraints:
        return math.nan
    levels = _levels(turn.background, (turn.constraints, turn.exclusions))
    n, k = sum(levels.counts), max(1, len(turn.items))
    misses = math.prod((n - levels.perfect - i) / (n - i) for i in range(min(k, n)))
    return 1 - max(0.0, misses)


def _excess(fresh: Sequence[float], own: Sequence[float]) -> float:
    """Mean of ``fresh`` − ``own`` over the replies that have both; NaN where none has."""
    return mean_defined(a - b for a, b in zip(fresh, own, strict=False))


@metric("history_cost_v2", "history cost v2", SHIFT, -math.inf, math.inf, LOWER, source=_HISTORY, gate=False)
def _history_cost_v2(shift: ShiftRecord) -> float:
    """Gain of the replies to a fresh user with the same constraints − gain of the replies after the shift.
    The second edition's quantity: the mean over the replies of the convention's window that have both, over
    all shifts. It also holds what being in a conversation costs. NaN where the fresh arm was not simulated.
    """
    own = [turn.once(_normalised_gain) for turn in shift.replies[: shift.rule.window]]
    return _excess(shift.arms.get(FRESH_V2, ()), own)


@metric("placebo_cost", "placebo cost", SHIFT, -math.inf, math.inf, LOWER, source=_HISTORY, gate=False)
def _placebo_cost(shift: ShiftRecord) -> float:
    """:func:`_history_cost_v2` at the same turn of the twin that never shifts: the state does not change.
    See :func:`window_gains` for films shown before. NaN where these arms were not simulated.
    """
    return _excess(shift.arms.get(PLACEBO_FRESH, ()), shift.arms.get(PLACEBO, ()))


def window_gains(turns: Sequence[TurnRecord]) -> list[float]:
    """Normalised gain of the replies of a window, each at most 1, as if the conversation began there: films
    shown before it are neither held against a reply nor expected of it, those shown earlier in it gain
    nothing if the user asks for others.
    """
    first, pairs = turns[:1], _in_window(turns)
    return [_gain_of(turn, stale, first[0].recent if turn.others else ()) for turn, stale in pairs]


def _in_window(turns: Sequence[TurnRecord]) -> Iterator[tuple[TurnRecord, frozenset[int]]]:
    """Each turn of a window, with the films shown earlier in it where the user asks for others."""
    shown = frozenset[int]()
    for turn in turns:
        yield turn, shown if turn.others else frozenset()
        shown = shown.union(turn.items)


ABLE = 0.1  # mean gain with straight users below which a system has nothing to lose
WINDOW = 3  # replies from the shift on


class _WindowReply(NamedTuple):
    """A reply of a window: its exposure-fair gain (NaN if undefined), and whether it shows films."""

    gain: float
    films: bool


def _fair_gain(turn: TurnRecord, stale: Collection[int]) -> float:
    """Normalised gain in [-1, 1] that neither repeating films nor sparing them changes; 0 is chance. The best
    list and chance are those of the films that no earlier turn showed, and of this reply's; ``stale`` films
    gain nothing. NaN as :func:`_normalised_gain`, and where chance is more than half of the best.
    """
    if not turn.constraints or not (turn.items or turn.asked):
        return math.nan
    catalog, shown = turn.background.catalog, dict.fromkeys(turn.items)
    facts, key = catalog.fact_sets, (turn.constraints, turn.exclusions)
    counts = list(_levels(turn.background, key).counts)
    for item in turn.seen.difference(shown):
        counts[_level(facts[item], *key)] -= bool(catalog.recommendable[item])
    gained = 0
    for item in shown:
        reached = _level(facts[item], *key)
        gained += 0 if item in stale else reached
        counts[reached] += not catalog.recommendable[item]
        if item in stale:
            counts[reached], counts[0] = counts[reached] - 1, counts[0] + 1
    k, there = max(1, len(turn.items)), _Levels(tuple(counts))
    chance = k * sum(place * count for place, count in enumerate(counts)) / max(1, sum(counts))
    if chance > there.best(k) / 2:
        return math.nan
    return _normalised(gained, k, there)


def window_replies(turns: Sequence[TurnRecord]) -> list[_WindowReply]:
    """The replies of a window; where the user asks for others, films shown earlier in it gain nothing."""
    return [_WindowReply(_fair_gain(turn, stale), bool(turn.items)) for turn, stale in _in_window(turns)]


class _Compared(NamedTuple):
    """The replies of a window that have a gain in all arms, side by side; no ``fresh`` without that arm."""

    own: Sequence[_WindowReply] = ()
    straight: Sequence[_WindowReply] = ()
    fresh: Sequence[_WindowReply] = ()


def _compared(shift: ShiftRecord) -> _Compared:
    if shift.open_scope:
        return _Compared()
    own = window_replies(shift.replies[:WINDOW])
    arms = [own, *(shift.arms[name] for name in (STRAIGHT, FRESH) if name in shift.arms)]
    if STRAIGHT not in shift.arms:
        return _Compared()
    rows = [row for row in zip(*arms, strict=False) if not any(math.isnan(one.gain) for one in row)]
    return _Compared(*zip(*rows, strict=True))


def _open_compared(shift: ShiftRecord) -> _Compared:
    """The replies to a shift of open scope, each beside that to the straight user of its reading: the one
    that the first films fixed, after the user's own words the one meant. The reply that fixes is left out.
    """
    if not shift.open_scope:
        return _Compared()
    replies, rows = shift.replies[:WINDOW], []
    fixes = next((turn for turn in replies if turn.items and turn.reading), None)
    for place, (turn, own) in enumerate(zip(replies, window_replies(replies), strict=True)):
        meant = f"{STRAIGHT} {turn.reading or shift.event['reading']}"
        for other in shift.arms.get(meant, ())[place : place + 1]:
            if turn is not fixes and not math.isnan(own.gain + other.gain):
                rows.append((own, other))
    return _Compared(*zip(*rows, strict=True))


def _mean_gain(replies: Sequence[_WindowReply]) -> float:
    return mean_defined(one.gain for one in replies)


def _primary(name: str, short: str, direction: str = LOWER, high: float = math.inf, **more: Any) -> Metric:
    """A metric of a shift whose session value is that of the primary window alone."""
    return metric(name, short, SHIFT, -high, high, direction, _COST, primary=True, **more)


@FACTS.register("primary", level=SHIFT)
def primary(shift: ShiftRecord) -> bool:
    """Whether the shift is its session's primary window: the first, stated, no ``refine`` nor ``return``."""
    return shift.first and not shift.open_scope and shift.type not in ("refine", "return")


@FACTS.register("cost_undefined", level=SHIFT)
def _cost_undefined(shift: ShiftRecord) -> str:
    """Why the costs of the shift, or misfit and delay alone, are undefined; empty where all are defined."""
    if shift.open_scope:
        return "the scope was left open"
    if STRAIGHT not in shift.arms:
        return "no straight users were simulated"
    found = shift.once(_compared)
    if not found.own:
        return "no reply has a gain in all arms"
    shows = any(one.films for one in found.own) and any(one.films for one in found.straight)
    return "" if shows else "misfit, delay: an arm shows no films"


@_primary("shift_cost", "shift cost", gate=True)
def _shift_cost(shift: ShiftRecord) -> float:
    """Gain with the straight user − gain with the shifting user: what the change of mind costs. Mean over the
    window's replies (the shift's and two more, fewer before another change) that have a gain in all arms; 0
    for a system that follows at once. NaN without straight users.
    """
    found = shift.once(_compared)
    return _mean_gain(found.straight) - _mean_gain(found.own)


@_primary("conversation_cost", "conversation cost", gate=True)
def _conversation_cost(shift: ShiftRecord) -> float:
    """Gain with the fresh user − gain with the straight user: what it costs to state constraints piecemeal.
    The "lost in conversation" effect (Laban et al. 2025, full against sharded). NaN without both.
    """
    found = shift.once(_compared)
    return _mean_gain(found.fresh) - _mean_gain(found.straight)


@_primary("history_cost", "history cost", version=3, gate=False)
def _history_cost(shift: ShiftRecord) -> float:
    """Conversation cost + shift cost: gain with the fresh user − gain with the shifting user."""
    return _conversation_cost(shift) + _shift_cost(shift)


def _misfit(straight: Sequence[_WindowReply], own: Sequence[_WindowReply]) -> float:
    shown = [[one for one in replies if one.films] for replies in (straight, own)]
    return _mean_gain(shown[0]) - _mean_gain(shown[1])


@_primary("misfit", "misfit", gate=True)
def misfit(shift: ShiftRecord) -> float:
    """The shift cost over the replies that show films, of each arm its own; NaN where an arm shows none."""
    found = shift.once(_compared)
    return _misfit(found.straight, found.own)


@_primary("misfit_at_0", "misfit at 0", gate=True)
def _misfit_at_0(shift: ShiftRecord) -> float:
    """The misfit of the reply to the shift alone; NaN where it or the straight user's shows no films. Whether
    the first reply already recovers: a list that holds a film for each of several states does not.
    """
    return _misfit(shift.arms.get(STRAIGHT, ())[:1], window_replies(shift.replies[:1]))


@_primary("delay", "delay (gain)", gate=True)
def delay(shift: ShiftRecord) -> float:
    """Shift cost − misfit: gain lost to replies without films, such as a question back. No lateness."""
    return _shift_cost(shift) - misfit(shift)


@_primary("straight_gain", "straight gain", HIGHER, gate=True)
def _straight_gain(shift: ShiftRecord) -> float:
    """Ability in conversation: mean gain with the straight user over the window, at most 1."""
    return _mean_gain(shift.once(_compared).straight)


@_primary("fresh_gain", "fresh gain", HIGHER, gate=True)
def _fresh_gain(shift: ShiftRecord) -> float:
    """Ability without history: mean gain with the fresh user over the same replies, at most 1."""
    return _mean_gain(shift.once(_compared).fresh)


@_primary("share_lost", "share lost", gate=True, ratio=("shift_cost", "straight_gain"))
def _share_lost(shift: ShiftRecord) -> float:
    """1 − mean gain after shifts/mean gain with straight users: a ratio of means over scenarios. So it is a
    system's, and undefined (NaN) for a shift; "unable" where the straight gain is below .1.
    """
    return math.nan


@_primary("open_scope_cost", "open scope cost")
def _open_scope_cost(shift: ShiftRecord) -> float:
    """Gain with the straight user of a reading − gain after a first shift that left its scope open, over the
    window's replies but the one that fixed the reading: what it costs to hold on to no reading. A question
    back costs its turn. NaN where the scope was stated. Source: docs/metrics.md, section 5.
    """
    found = shift.once(_open_compared)
    return _mean_gain(found.straight) - _mean_gain(found.own)


@_primary("open_scope_gain", "open scope gain", HIGHER)
def _open_scope_gain(shift: ShiftRecord) -> float:
    """Mean gain of the replies of :func:`_open_scope_cost`, by the reading that the first films fixed."""
    return _mean_gain(shift.once(_open_compared).own)


@lru_cache(65_536)
def _missed(background: Background, *states: Key) -> tuple[float, float]:
    """The shares of the catalogue that miss the first state: what fits the second one, and the others."""
    fits, n_films = [], int(background.catalog.recommendable.sum())
    for state in states:
        items, met, counted = _meeting(background, state)
        fits.append(items[counted & (met == len(state[0]))])
    stale = len(np.setdiff1d(fits[1], fits[0]))
    return stale / n_films, (n_films - len(fits[0]) - stale) / n_films


def _misses(shift: ShiftRecord) -> tuple[float, float]:
    """The shares of :func:`_missed` among the films of the window, each less that of the catalogue."""
    turns, before = [turn for turn in shift.replies[:WINDOW] if turn.items], shift.before
    if shift.open_scope or not (before and before.constraints and turns and turns[0].constraints):
        return math.nan, math.nan
    now, old = ((one.constraints, one.exclusions) for one in (turns[0], before))
    facts = [one for turn in turns for one in turn.facts]
    miss = [one for one in facts if not (now[0] <= one and not now[1] & one)]
    fit = sum(old[0] <= one and not old[1] & one for one in miss)
    chance = _missed(shift.background, now, old)
    return fit / len(facts) - chance[0], (len(miss) - fit) / len(facts) - chance[1]


@_primary("stale", "stale", high=1, gate=True)
def _stale(shift: ShiftRecord) -> float:
    """Share of the films after a shift that miss it and fit the state before, less chance, in [-1, 1]."""
    return shift.once(_misses)[0]


@_primary("wrong", "wrong", high=1, gate=False)
def _wrong(shift: ShiftRecord) -> float:
    """Share of the films after a shift that fit neither state, less chance, in [-1, 1]."""
    return shift.once(_misses)[1]
