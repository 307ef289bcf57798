"""Recovery after shifts, and composites: TAS from concept overlap, its item-grounded form, the older CAS.
Recovery is a right-censored time counted from the reply to the shift itself (0). Sources: docs/metrics.md,
sections 2, 4, 5 and 7.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from crs_lib.metrics import grounded, overlap
from crs_lib.metrics.base import FACTS, HIGHER, LOWER, SESSION, SHIFT, TURN, metric
from crs_lib.metrics.conventions import CasWeights, ItemWeights, TasWeights
from crs_lib.metrics.records import SessionRecord, ShiftRecord, TurnRecord, mean_defined

_RECOVERY: dict[str, Any] = {"source": "recovery after shifts (docs/metrics.md, section 5)", "gate": False}
_TAS, _ITEM, _CAS = (f"docs/metrics.md, section {n}" for n in (2, 4, 7))


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
    out = []
    for place, turn in enumerate(shift_turns):
        following = shift_turns[place + 1 : place + 2] if within_segment else []
        end = min(len(met) + 1, *following, turn + window if window is not None else math.inf)
        watched = max(0, int(end) - turn)
        delay = next((d for d in range(watched) if met[turn + d - 1]), None)
        out.append(Recovery(turn, math.nan if delay is None else delay, watched, delay is not None))
    return out


def rate(recoveries: Sequence[Recovery]) -> float:
    """Share of the shifts that were recovered, in [0, 1]; NaN where there was no shift."""
    return mean_defined(float(r.recovered) for r in recoveries)


def mean_delay(recoveries: Sequence[Recovery]) -> float:
    """Mean delay over the recovered shifts, in turns ≥ 0; NaN where none recovered. Survivor-biased."""
    return mean_defined(r.delay for r in recoveries)


@FACTS.register("since_shift", level=TURN)
def since_shift(turn: TurnRecord) -> int | None:
    """Turns since the last shift, 0 at the shift; None before the first."""
    return turn.since_shift


def _met_in_text(turn: TurnRecord) -> bool:
    """Whether the reply overlaps with the utterance as the convention's thresholds ask."""
    cc, cr = turn.once(overlap.cross_coherence), turn.once(overlap.context_retention)
    return cc >= turn.rule.recovery_cc or cr >= turn.rule.recovery_cr


def _met_by_item(turn: TurnRecord) -> bool:
    """Whether one recommended item meets every constraint and has no excluded value."""
    return turn.once(grounded.best_share) == 1


CRITERIA = {"text": _met_in_text, "item": _met_by_item}


def _in_window(shift: ShiftRecord, criterion: str) -> Recovery:
    """The shift's recovery within the convention's window."""
    turns = shift.replies if shift.rule.within_segment else shift.rest
    return after_shifts([1], [turn.once(CRITERIA[criterion]) for turn in turns], window=shift.rule.window)[0]


@FACTS.register("n_answers", level=SHIFT)
def n_answers(shift: ShiftRecord) -> float:
    """The number of films that meet everything after the shift, as logged; NaN where the log has none."""
    found = shift.event.get("n_answers")
    return float(found) if isinstance(found, int) else math.nan


@FACTS.register("watched", level=SHIFT)
def watched(shift: ShiftRecord) -> int:
    """The number of replies until the next shift or the end."""
    return len(shift.replies)


def _recovery_columns(criterion: str, met: str) -> None:
    """Register when a shift is recovered by a criterion, and whether it is within the convention's window."""

    def delay(shift: ShiftRecord) -> float:
        return after_shifts([1], [turn.once(CRITERIA[criterion]) for turn in shift.replies])[0].delay

    def recovered(shift: ShiftRecord) -> bool:
        return _in_window(shift, criterion).recovered

    delay.__doc__ = f"Replies until {met}, before the next shift; NaN for never."
    recovered.__doc__ = f"Whether {met} within the convention's window."
    FACTS.register(f"delay_{criterion}", level=SHIFT)(delay)
    FACTS.register(f"recovered_{criterion}", level=SHIFT)(recovered)


_recovery_columns("text", "reply and utterance overlap as the convention's thresholds ask")
_recovery_columns("item", "an item meets every constraint and has no excluded value")


def _recoveries(session: SessionRecord, criterion: str) -> list[Recovery]:
    """The recoveries of a session's shifts within the window, by one criterion ("text", "item")."""
    return [_in_window(shift, criterion) for shift in session.shifts]


@metric("topic_recovery_rate", "recovery (text)", SESSION, 0, 1, HIGHER, **_RECOVERY)
def _topic_recovery_rate(session: SessionRecord) -> float:
    """Share of the shifts recovered in text within the window, in [0, 1]; NaN without shifts."""
    return rate(_recoveries(session, "text"))


@metric("avg_recovery_delay", "delay (text)", SESSION, 0, math.inf, LOWER, **_RECOVERY)
def _avg_recovery_delay(session: SessionRecord) -> float:
    """Mean delay in turns of the shifts recovered in text; see :func:`mean_delay`."""
    return mean_delay(_recoveries(session, "text"))


@metric("item_recovery_rate", "recovery", SESSION, 0, 1, HIGHER, **_RECOVERY)
def _item_recovery_rate(session: SessionRecord) -> float:
    """Share of the shifts recovered by an item within the window, in [0, 1]; NaN without shifts."""
    return rate(_recoveries(session, "item"))


def tas(cc: float, cr: float, copying: float, weights: TasWeights, *, clip: bool = False) -> float:
    """α·CC + β·CR − γ·I, in [−γ, α+β], or with ``clip`` in [−1, 1] (the thesis's); NaN without CC or CR."""
    value = weights.alpha * cc + weights.beta * cr - weights.gamma * copying
    return max(-1.0, min(1.0, value)) if clip and not math.isnan(value) else value


def _item_tas(
    corrected: float, raw: float, novelty: float, leakage: float, copying: float, weights: ItemWeights
) -> float:
    """α·S* + β·N·S − γ·L − δ·copying, at most α + β; NaN without S*; undefined N·S and L count 0."""
    if math.isnan(corrected):
        return math.nan
    fresh = 0.0 if math.isnan(novelty) else novelty * raw
    leaked = 0.0 if math.isnan(leakage) else leakage
    return weights.alpha * corrected + weights.beta * fresh - weights.gamma * leaked - weights.delta * copying


def cas(
    recovery: float, delay: float, interference: float, coherence: float, retention: float,
    weights: CasWeights, *, slowest: float = 5.0,
) -> float:  # fmt: skip
    """The older composite: a weighted mean of five parts in [0, 1], 1 is best; the delay counts 1 −
    clamp(delay/slowest), interference 1 − clamp(interference). Undefined parts are left out; NaN without any.
    """
    parts = (recovery, 1 - _clamp(delay / slowest), 1 - _clamp(interference), coherence, retention)
    defined = [(value, weight) for value, weight in zip(parts, weights, strict=True) if not math.isnan(value)]
    total = sum(weight for _, weight in defined)
    return sum(value * weight for value, weight in defined) / total if total else math.nan


def _clamp(value: float) -> float:
    return value if math.isnan(value) else max(0.0, min(1.0, value))


@metric("topic_adaptation_score", "TAS", TURN, -1, 2, HIGHER, source=_TAS, gate=False)
def _tas_of_turn(turn: TurnRecord) -> float:
    """TAS of a turn under the convention's weights; see :func:`tas`."""
    cc, cr = turn.once(overlap.cross_coherence), turn.once(overlap.context_retention)
    return tas(cc, cr, turn.once(overlap.interference), turn.rule.tas, clip=turn.rule.clip)


@metric("item_tas", "item TAS", TURN, -math.inf, 1, HIGHER, source=_ITEM, gate=False)
def _item_tas_of_turn(turn: TurnRecord) -> float:
    """Item TAS of a turn under the convention's weights; see :func:`_item_tas`."""
    return _item_tas(
        turn.once(grounded.satisfaction_corrected), turn.once(grounded.satisfaction_of_turn),
        turn.once(grounded.novelty_of_turn), turn.once(grounded.leakage_of_turn),
        turn.once(overlap.copying_without_values), turn.rule.items,
    )  # fmt: skip


@metric("context_adaptation_score", "CAS", SESSION, 0, 1, HIGHER, source=_CAS, gate=False)
def _cas_of_session(session: SessionRecord) -> float:
    """CAS of a session under the convention's weights; see :func:`cas`."""
    return cas(
        session.once(_topic_recovery_rate), session.once(_avg_recovery_delay),
        session.mean(grounded.leakage_of_turn), session.mean(overlap.cross_coherence),
        session.mean(overlap.context_retention), session.rule.cas,
    )  # fmt: skip


@metric("tas_volatility", "volatility", SESSION, 0, math.inf, LOWER, source=_TAS, gate=False)
def _tas_volatility(session: SessionRecord) -> float:
    """Standard deviation of TAS over the turns that define it, as a population; NaN where none does."""
    known = [value for value in session.values(_tas_of_turn) if not math.isnan(value)]
    return statistics.pstdev(known) if known else math.nan
