"""Recovery after shifts, and composites: TAS from concept overlap, its item-grounded form, the older CAS.
Recovery is a right-censored time counted from the reply to the shift itself (0). Sources: docs/metrics.md,
sections 2, 4, 5 and 7.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from crs_lib.metrics import grounded, overlap
from crs_lib.metrics.base import HIGHER, LOWER, SESSION, SHIFT, TURN, fact, metric
from crs_lib.metrics.conventions import CasWeights, ItemWeights, TasWeights
from crs_lib.metrics.records import SessionRecord, ShiftRecord, TurnRecord, defined, mean_defined

_TAS = "docs/metrics.md, section 2"
_ITEM = "docs/metrics.md, section 4"
_RECOVERY = "recovery after shifts (docs/metrics.md, section 5)"
_CAS = "docs/metrics.md, section 7"
_MOST = math.inf
Criterion = Callable[[TurnRecord], bool]


class Recovery(NamedTuple):
    """One shift: turns until recovery (NaN if never seen), turns watched, and whether it was seen."""

    turn: int
    delay: float
    watched: int
    recovered: bool


def after_shifts(
    shift_turns: Sequence[int], met: Sequence[bool], *, window: int | None = None, within_segment: bool = True
) -> list[Recovery]:
    """When each shift was recovered: the smallest d ≥ 0 such that the reply at turn ``shift + d`` met it.
    ``met[t - 1]`` says whether the reply of turn t (from 1) counts. A shift is watched until the next one
    (``within_segment``), the end, or ``window`` replies; what is not recovered by then is censored.
    """
    last = len(met) + 1
    recoveries = []
    for turn, following in zip_longest(shift_turns, shift_turns[1:], fillvalue=last):
        end = last
        if within_segment:
            end = min(end, following)
        if window is not None:
            end = min(end, turn + window)
        replies = list(met[turn - 1 : end - 1])
        recovered = True in replies
        delay = math.nan
        if recovered:
            delay = replies.index(True)
        watched = max(0, end - turn)
        recoveries.append(Recovery(turn, delay, watched, recovered))
    return recoveries


def rate(recoveries: Sequence[Recovery]) -> float:
    """Share of the shifts that were recovered, in [0, 1]; NaN where there was no shift."""
    return mean_defined(float(recovery.recovered) for recovery in recoveries)


def mean_delay(recoveries: Sequence[Recovery]) -> float:
    """Mean delay over the recovered shifts, in turns ≥ 0; NaN where none recovered. Survivor-biased."""
    return mean_defined(recovery.delay for recovery in recoveries)


@fact("since_shift", TURN, column=21)
def _since_shift(turn: TurnRecord) -> int | None:
    """Turns since the last shift, 0 at the shift; None before the first."""
    return turn.since_shift


def _met_in_text(turn: TurnRecord) -> bool:
    """Whether the reply overlaps with the utterance as the convention's thresholds ask."""
    convention = turn.convention
    if turn.once(overlap.cross_coherence) >= convention.recovery_cc:
        return True
    return turn.once(overlap.context_retention) >= convention.recovery_cr


def _met_by_item(turn: TurnRecord) -> bool:
    """Whether one recommended item meets every constraint and has no excluded value."""
    return turn.once(grounded.best_share) == 1


def _first_met(turns: Sequence[TurnRecord], criterion: Criterion) -> Recovery:
    """The recovery of a shift at the first of these turns."""
    met = [turn.once(criterion) for turn in turns]
    (recovery,) = after_shifts([1], met)
    return recovery


def _in_window(shift: ShiftRecord, criterion: Criterion) -> Recovery:
    """The shift's recovery within the convention's window."""
    convention = shift.convention
    turns = shift.following
    if convention.within_segment:
        turns = shift.replies
    return _first_met(turns[: convention.window], criterion)


def _delay(shift: ShiftRecord, criterion: Criterion) -> float:
    """Replies until the criterion is met, before the next shift; NaN for never."""
    return _first_met(shift.replies, criterion).delay


@fact("n_answers", SHIFT, column=1)
def _n_answers(shift: ShiftRecord) -> float:
    """The number of films that meet everything after the shift, as logged; NaN where the log has none."""
    answers = shift.event.log.get("n_answers")
    return float(answers) if isinstance(answers, int) else math.nan


@fact("watched", SHIFT, column=2)
def _watched(shift: ShiftRecord) -> int:
    """The number of replies until the next shift or the end."""
    return len(shift.replies)


@fact("delay_text", SHIFT, column=3)
def _delay_text(shift: ShiftRecord) -> float:
    """Replies until reply and utterance overlap as the thresholds ask, in the segment; NaN for never."""
    return _delay(shift, _met_in_text)


@fact("recovered_text", SHIFT, column=4)
def _recovered_text(shift: ShiftRecord) -> bool:
    """Whether reply and utterance overlap as the thresholds ask within the convention's window."""
    return _in_window(shift, _met_in_text).recovered


@fact("delay_item", SHIFT, column=5)
def _delay_item(shift: ShiftRecord) -> float:
    """Replies until an item meets every constraint and no exclusion, in the segment; NaN for never."""
    return _delay(shift, _met_by_item)


@fact("recovered_item", SHIFT, column=6)
def _recovered_item(shift: ShiftRecord) -> bool:
    """Whether an item meets every constraint and no exclusion within the convention's window."""
    return _in_window(shift, _met_by_item).recovered


@metric("topic_recovery_rate", "recovery (text)", SESSION, 0, 1, HIGHER, _RECOVERY, gate=False, column=1)
def _topic_recovery_rate(session: SessionRecord) -> float:
    """Share of the shifts recovered in text within the window, in [0, 1]; NaN without shifts."""
    return rate([_in_window(shift, _met_in_text) for shift in session.shifts])


@metric("avg_recovery_delay", "delay (text)", SESSION, 0, _MOST, LOWER, _RECOVERY, gate=False, column=2)
def _avg_recovery_delay(session: SessionRecord) -> float:
    """Mean delay in turns of the shifts recovered in text; see :func:`mean_delay`."""
    return mean_delay([_in_window(shift, _met_in_text) for shift in session.shifts])


@metric("item_recovery_rate", "recovery", SESSION, 0, 1, HIGHER, _RECOVERY, gate=False, column=3)
def _item_recovery_rate(session: SessionRecord) -> float:
    """Share of the shifts recovered by an item within the window, in [0, 1]; NaN without shifts."""
    return rate([_in_window(shift, _met_by_item) for shift in session.shifts])


def tas(cc: float, cr: float, copying: float, weights: TasWeights, *, clip: bool = False) -> float:
    """α·CC + β·CR − γ·I, in [−γ, α+β], or with ``clip`` in [−1, 1] (the thesis's); NaN without CC or CR."""
    value = weights.alpha * cc + weights.beta * cr - weights.gamma * copying
    if clip and not math.isnan(value):
        return max(-1.0, min(1.0, value))
    return value


def item_tas(
    corrected: float, raw: float, novelty: float, leakage: float, copying: float, weights: ItemWeights
) -> float:
    """α·S* + β·N·S − γ·L − δ·copying, at most α + β; NaN without S*; undefined N·S and L count 0."""
    if math.isnan(corrected):
        return math.nan
    fresh = 0.0
    if not math.isnan(novelty):
        fresh = novelty * raw
    leaked = 0.0
    if not math.isnan(leakage):
        leaked = leakage
    return weights.alpha * corrected + weights.beta * fresh - weights.gamma * leaked - weights.delta * copying


def cas(
    recovery: float,
    delay: float,
    interference: float,
    coherence: float,
    retention: float,
    weights: CasWeights,
    *,
    slowest: float = 5.0,
) -> float:
    """The older composite: a weighted mean of five parts in [0, 1], 1 is best; the delay counts 1 −
    clamp(delay/slowest), interference 1 − clamp(interference). Undefined parts are left out; NaN without any.
    """
    speed = 1 - _clamp(delay / slowest)
    purity = 1 - _clamp(interference)
    parts = (recovery, speed, purity, coherence, retention)
    value = 0.0
    total = 0.0
    for part, weight in zip(parts, weights, strict=True):
        if not math.isnan(part):
            value += part * weight
            total += weight
    return value / total if total else math.nan


def _clamp(value: float) -> float:
    if math.isnan(value):
        return value
    return max(0.0, min(1.0, value))


@metric("topic_adaptation_score", "TAS", TURN, -1, 2, HIGHER, _TAS, gate=False, column=4)
def _tas_of_turn(turn: TurnRecord) -> float:
    """TAS of a turn under the convention's weights; see :func:`tas`."""
    cc = turn.once(overlap.cross_coherence)
    cr = turn.once(overlap.context_retention)
    copying = turn.once(overlap.interference)
    return tas(cc, cr, copying, turn.convention.tas, clip=turn.convention.clip)


@metric("item_tas", "item TAS", TURN, -math.inf, 1, HIGHER, _ITEM, gate=False, column=15)
def _item_tas_of_turn(turn: TurnRecord) -> float:
    """Item TAS of a turn under the convention's weights; see :func:`item_tas`."""
    corrected = turn.once(grounded.satisfaction_corrected)
    raw = turn.once(grounded.satisfaction_of_turn)
    novelty = turn.once(grounded.novelty_of_turn)
    leakage = turn.once(grounded.leakage_of_turn)
    copying = turn.once(overlap.copying_without_values)
    return item_tas(corrected, raw, novelty, leakage, copying, turn.convention.items)


@metric("context_adaptation_score", "CAS", SESSION, 0, 1, HIGHER, _CAS, gate=False, column=4)
def _cas_of_session(session: SessionRecord) -> float:
    """CAS of a session under the convention's weights; see :func:`cas`."""
    recovery = session.once(_topic_recovery_rate)
    delay = session.once(_avg_recovery_delay)
    leakage = session.mean(grounded.leakage_of_turn)
    coherence = session.mean(overlap.cross_coherence)
    retention = session.mean(overlap.context_retention)
    return cas(recovery, delay, leakage, coherence, retention, session.convention.cas)


@metric("tas_volatility", "volatility", SESSION, 0, math.inf, LOWER, _TAS, gate=False, column=5)
def _tas_volatility(session: SessionRecord) -> float:
    """Standard deviation of TAS over the turns that define it, as a population; NaN where none does."""
    values = defined(session.values(_tas_of_turn))
    if not values:
        return math.nan
    return statistics.pstdev(values)
