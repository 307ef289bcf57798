"""What a change of mind comes to: the gain of the replies in its window (A), beside those to users who never
changed their mind (straight, S) or who say everything at once (fresh, F). Per shift F = A + shift cost +
conversation cost. Source: docs/metrics.md, section 5.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.metrics.base import HIGHER, LOWER, PRIMARY, SHIFT, Metric, fact
from crs_lib.metrics.gain import fair_gain, meeting
from crs_lib.metrics.records import NONE, Background, ShiftRecord, TurnRecord, Wanted, mean_defined

_SOURCE = "the cost of a shift (docs/metrics.md, section 5)"
STRAIGHT, FRESH = "straight", "fresh"  # the arms of ShiftRecord.arms
ALL_ARMS, OWN_REPLIES = "all arms", "own replies"  # over which a gain after a change is a mean
BEFORE, AFTER = "before", "after"
_MATCHED = {True: "yes", False: "no", None: ""}
WINDOW = 3  # replies from the shift on
OF_OPEN_SCOPE = ("open_scope_cost", "open_scope_gain")  # metrics of a session's first window of open scope
_NEVER_PRIMARY = ("refine", "return")  # types of shifts that bring nothing new or nothing to give up


class WindowReply(NamedTuple):
    """A reply of a window: its exposure-fair gain (NaN if undefined), whether it shows films; of another arm
    also whether its conversation was heard before the session that it mirrors, and whether a straight user
    plans as many statements before the shift as the other (None: not logged).
    """

    gain: float
    films: bool
    first: bool | None = None
    matched: bool | None = None


def window_replies(
    turns: Sequence[TurnRecord], first: bool | None = None, matched: bool | None = None
) -> list[WindowReply]:
    """The replies of a window; where the user asks for others, films shown earlier in it gain nothing."""
    replies = []
    shown = NONE
    for turn in turns:
        stale = shown if turn.state.asks_for_others else NONE
        gain = fair_gain(turn, stale)
        replies.append(WindowReply(gain, bool(turn.items), first, matched))
        shown = shown.union(turn.items)
    return replies


def arm_of(interpretation: str) -> str:
    """The arm of the straight user who means an interpretation of open words; empty: the shift's own."""
    return f"{STRAIGHT} {interpretation}".strip()


class _Compared(NamedTuple):
    """The replies of a window that have a gain in all arms, side by side; no ``fresh`` without that arm."""

    own: Sequence[WindowReply] = ()
    straight: Sequence[WindowReply] = ()
    fresh: Sequence[WindowReply] = ()


def _own(shift: ShiftRecord) -> list[WindowReply]:
    """The replies of the shift's window."""
    return window_replies(shift.replies[:WINDOW])


def _compared(shift: ShiftRecord) -> _Compared:
    """The window of a shift that states its scope; without further arms, its own replies that have a gain."""
    if shift.open_scope:
        return _Compared()
    arms: dict[str, Sequence[WindowReply]] = {"own": shift.once(_own)}
    for arm in (STRAIGHT, FRESH):
        if arm in shift.arms:
            arms[arm] = shift.arms[arm]
    rows = []
    for row in zip(*arms.values(), strict=False):
        if not any(math.isnan(reply.gain) for reply in row):
            rows.append(row)
    replies = zip(*rows, strict=True)
    return _Compared(**dict(zip(arms, replies, strict=False)))


def _open_compared(shift: ShiftRecord) -> _Compared:
    """The replies to a shift of open scope, each beside that to the straight user of its interpretation: the
    one that the first films fixed, after the user's own words the one meant. That which fixes is left out.
    """
    if not shift.open_scope:
        return _Compared()
    rows = []
    fixed = False
    for position, own in enumerate(shift.once(_own)):
        turn = shift.replies[position]
        interpretation = turn.state.interpretation
        if not fixed and turn.items and interpretation:
            fixed = True
            continue
        meant = arm_of(interpretation or shift.event.interpretation)
        arm = shift.arms.get(meant, ())
        if position < len(arm) and not math.isnan(own.gain + arm[position].gain):
            rows.append((own, arm[position]))
    return _Compared(*zip(*rows, strict=True))


def _mean_gain(replies: Sequence[WindowReply]) -> float:
    return mean_defined(reply.gain for reply in replies)


@fact("primary", SHIFT, column=7)
def primary(shift: ShiftRecord) -> bool:
    """Whether the shift is its session's primary window: the first, stated, no ``refine`` nor ``return``."""
    return shift.first and not shift.open_scope and shift.event.type not in _NEVER_PRIMARY


@fact("gain_over", SHIFT, column=8.5)
def gain_over(shift: ShiftRecord) -> str:
    """Over which replies the gain after the change is a mean: those with a gain in "all arms", or the
    system's "own replies" where no straight users were simulated; the two are never compared. Empty at
    open scope.
    """
    if shift.open_scope:
        return ""
    if STRAIGHT in shift.arms:
        return ALL_ARMS
    return OWN_REPLIES


@fact("other_arms", SHIFT, column=8.6)
def _other_arms(shift: ShiftRecord) -> str:
    """Whether another arm of the shift was heard "before" the session, or all "after"; empty: not logged."""
    order = [replies[0].first for replies in shift.arms.values() if replies]
    if not order or None in order:
        return ""
    if any(order):
        return BEFORE
    return AFTER


@fact("matched", SHIFT, column=8.65)
def _matched(shift: ShiftRecord) -> str:
    """Whether the straight user plans as many statements before the shift: "yes" or "no"; empty: not logged,
    or no straight user.
    """
    arm = arm_of(shift.event.interpretation)
    for reply in shift.arms.get(arm, ()):
        return _MATCHED[reply.matched]
    return ""


@fact("cost_undefined", SHIFT, column=8)
def cost_undefined(shift: ShiftRecord) -> str:
    """Why the costs of the shift, or misfit and delay alone, are undefined; empty where all are defined."""
    if shift.open_scope:
        return "the scope was left open"
    if STRAIGHT not in shift.arms:
        return "no straight users were simulated"
    compared = shift.once(_compared)
    if not compared.own:
        return "no reply has a gain in all arms"
    for replies in (compared.own, compared.straight):
        if not any(reply.films for reply in replies):
            return "misfit, delay: an arm shows no films"
    return ""


def _primary(
    name: str,
    short: str,
    column: float,
    direction: str = LOWER,
    high: float = 2.0,
    version: int = 2,
    gate: bool | None = True,
    ratio: tuple[str, str] | None = None,
) -> Metric:
    """A metric of a shift whose session value is that of the primary window alone; ``high``: a gain lies in
    [-1, 1], a difference of two gains in [-2, 2].
    """
    return Metric(
        name,
        short,
        SHIFT,
        -high,
        high,
        direction,
        _SOURCE,
        version,
        gate,
        primary=True,
        ratio=ratio,
        column=column,
    )


@_primary(PRIMARY, "gain after a change", 8.7, HIGHER, high=1)
def gain_after_change(shift: ShiftRecord) -> float:
    """What users get who changed their mind, in [-1, 1]: mean gain with the shifting user over the replies of
    the window that have a gain in all arms simulated (:func:`gain_over`). NaN at open scope.
    """
    return _mean_gain(shift.once(_compared).own)


@_primary("shift_cost", "shift cost", 9)
def shift_cost(shift: ShiftRecord) -> float:
    """Gain with the straight user − gain with the shifting user: what the change of mind costs. Mean over the
    window's replies (the shift's and two more, fewer before another change) that have a gain in all arms; 0
    for a system that follows at once. NaN without straight users.
    """
    compared = shift.once(_compared)
    return _mean_gain(compared.straight) - _mean_gain(compared.own)


@_primary("share_lost", "share lost", 10, high=math.inf, gate=False, ratio=("shift_cost", "straight_gain"))
def share_lost(shift: ShiftRecord) -> float:
    """1 − mean gain after shifts/mean gain with straight users: a ratio of means over scenarios. So it is a
    system's, and undefined (NaN) for a shift; "unable" where the straight gain is below .1.
    """
    return math.nan


@_primary("conversation_cost", "conversation cost", 11)
def conversation_cost(shift: ShiftRecord) -> float:
    """Gain with the fresh user − gain with the straight user: what it costs to state constraints piecemeal.
    The "lost in conversation" effect (Laban et al. 2025, full against sharded). NaN without both.
    """
    compared = shift.once(_compared)
    return _mean_gain(compared.fresh) - _mean_gain(compared.straight)


@_primary("history_cost", "history cost", 12, version=4, gate=False)
def history_cost(shift: ShiftRecord) -> float:
    """Conversation cost + shift cost: gain with the fresh user − gain with the shifting user."""
    return shift.once(conversation_cost) + shift.once(shift_cost)


def _misfit(straight: Sequence[WindowReply], own: Sequence[WindowReply]) -> float:
    """The mean gain of the replies that show films, of straight users less that of one's own."""
    gains = []
    for replies in (straight, own):
        gains.append(_mean_gain([reply for reply in replies if reply.films]))
    return gains[0] - gains[1]


@_primary("misfit", "misfit", 13)
def misfit(shift: ShiftRecord) -> float:
    """The shift cost over the replies that show films, of each arm its own; NaN where an arm shows none."""
    compared = shift.once(_compared)
    return _misfit(compared.straight, compared.own)


@_primary("misfit_at_0", "misfit at 0", 14)
def misfit_at_0(shift: ShiftRecord) -> float:
    """The misfit of the reply to the shift alone; NaN where it or the straight user's shows no films. Whether
    the first reply already recovers: a list that holds a film for each of several states does not.
    """
    return _misfit(shift.arms.get(STRAIGHT, ())[:1], shift.once(_own)[:1])


@_primary("delay", "delay (gain)", 15, high=4)
def delay(shift: ShiftRecord) -> float:
    """Shift cost − misfit: gain lost to replies without films, such as a question back. No lateness."""
    return shift.once(shift_cost) - shift.once(misfit)


@_primary("straight_gain", "straight gain", 18, HIGHER, high=1)
def straight_gain(shift: ShiftRecord) -> float:
    """Mean gain with the straight user over the window, in [-1, 1]: what the system can do at all."""
    return _mean_gain(shift.once(_compared).straight)


@_primary("fresh_gain", "fresh gain", 19, HIGHER, high=1)
def fresh_gain(shift: ShiftRecord) -> float:
    """Mean gain with the fresh user over the same replies, in [-1, 1]: what it can do without history."""
    return _mean_gain(shift.once(_compared).fresh)


@_primary("open_scope_cost", "open scope cost", 20, gate=None)
def open_scope_cost(shift: ShiftRecord) -> float:
    """Gain with the straight user of an interpretation − gain after the first shift that left its scope open,
    over the window's replies but the one that fixed the interpretation: what it costs to hold on to none. A
    question back costs its turn. NaN where the scope was stated. Source: docs/metrics.md, section 5.
    """
    compared = shift.once(_open_compared)
    return _mean_gain(compared.straight) - _mean_gain(compared.own)


@_primary("open_scope_gain", "open scope gain", 21, HIGHER, high=1, gate=None)
def open_scope_gain(shift: ShiftRecord) -> float:
    """Mean gain of the replies of :func:`open_scope_cost`, by the interpretation that was fixed."""
    return _mean_gain(shift.once(_open_compared).own)


class _Misses(NamedTuple):
    """Shares of films that miss a state: those that fit the state before it, and the others."""

    stale: float
    wrong: float


@lru_cache(65_536)
def _missed_by_chance(background: Background, now: Wanted, old: Wanted) -> _Misses:
    """The shares of the catalogue's films that miss the first state."""
    n_films = int(background.catalog.recommendable.sum())
    fits_now, fits_old = _fitting(background, now), _fitting(background, old)
    stale = len(np.setdiff1d(fits_old, fits_now))
    return _Misses(stale / n_films, (n_films - len(fits_now) - stale) / n_films)


def _fitting(background: Background, wanted: Wanted) -> NDArray[np.integer]:
    """The recommendable films that meet every constraint and break no exclusion."""
    films = meeting(background, wanted)
    fits: NDArray[np.integer] = films.items[films.counted & (films.met == len(wanted.constraints))]
    return fits


def _misses(shift: ShiftRecord) -> _Misses:
    """The shares of misses among the films of the window, each less that of the catalogue."""
    turns = [turn for turn in shift.replies[:WINDOW] if turn.items]
    before = shift.before
    if shift.open_scope or before is None or not turns:
        return _Misses(math.nan, math.nan)
    now, old = turns[0].wanted, before.wanted
    if not (now.constraints and old.constraints):
        return _Misses(math.nan, math.nan)
    n_films, stale, wrong = 0, 0, 0
    for turn in turns:
        for facts in turn.facts:
            n_films += 1
            if now.met_by(facts):
                continue
            if old.met_by(facts):
                stale += 1
            else:
                wrong += 1
    chance = _missed_by_chance(shift.background, now, old)
    return _Misses(stale / n_films - chance.stale, wrong / n_films - chance.wrong)


@_primary("stale", "stale", 16, high=1, version=1)
def stale_share(shift: ShiftRecord) -> float:
    """Share of the films after a shift that miss it and fit the state before, less chance, in [-1, 1]."""
    return shift.once(_misses).stale


@_primary("wrong", "wrong", 17, high=1, version=1, gate=False)
def wrong_share(shift: ShiftRecord) -> float:
    """Share of the films after a shift that fit neither state, less chance, in [-1, 1]."""
    return shift.once(_misses).wrong


def _control(shift: ShiftRecord) -> bool:
    """Whether the shift is a session's first and refines: the control, in which nothing is given up."""
    return shift.first and not shift.open_scope and shift.event.type == "refine"


@Metric("refine_gain", "gain after a refinement", SHIFT, -1, 1, HIGHER, _SOURCE, gate=True, column=22)
def refine_gain(shift: ShiftRecord) -> float:
    """:func:`gain_after_change` of the sessions that refine first, in [-1, 1]; NaN at every other shift."""
    return shift.once(gain_after_change) if _control(shift) else math.nan
