"""Composites: TAS from concept overlap, its item-grounded form, and the older CAS.

A composite is never shown without its parts. Sources: docs/metrics.md, sections 2, 4 and 7.
"""

import math
import statistics

from crs_lib.metrics import grounded, overlap, recovery
from crs_lib.metrics.base import HIGHER, LOWER, SESSION, TURN, metric
from crs_lib.metrics.conventions import CasWeights, ItemWeights, TasWeights
from crs_lib.metrics.records import SessionRecord, TurnRecord

_TAS, _ITEM, _CAS = (f"docs/metrics.md, section {n}" for n in (2, 4, 7))


def tas(cc: float, cr: float, copying: float, weights: TasWeights, *, clip: bool = False) -> float:
    """α·CC + β·CR − γ·I, in [−γ, α+β]; with ``clip`` cut to [−1, 1] (the thesis's code).

    NaN where CC or CR is undefined.
    """
    value = weights.alpha * cc + weights.beta * cr - weights.gamma * copying
    return max(-1.0, min(1.0, value)) if clip and not math.isnan(value) else value


def item_tas(
    corrected: float, raw: float, novelty: float, leakage: float, copying: float, weights: ItemWeights
) -> float:
    """α·S* + β·N·S − γ·L − δ·copying, at most α + β.

    NaN where S* is undefined. Without recommended items N·S is 0; before anything was dropped
    L counts 0, since nothing can leak.
    """
    if math.isnan(corrected):
        return math.nan
    fresh = 0.0 if math.isnan(novelty) else novelty * raw
    leaked = 0.0 if math.isnan(leakage) else leakage
    return weights.alpha * corrected + weights.beta * fresh - weights.gamma * leaked - weights.delta * copying


def cas(
    recovery: float, delay: float, interference: float, coherence: float, retention: float,
    weights: CasWeights, *, slowest: float = 5.0,
) -> float:  # fmt: skip
    """The older composite: a weighted mean of five parts scaled to [0, 1], 1 is best.

    The delay counts 1 − clamp(delay/slowest), interference 1 − clamp(interference). Undefined parts are
    left out and the weights of the others scaled up; NaN where all are undefined.
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
    """Item TAS of a turn under the convention's weights; see :func:`item_tas`."""
    return item_tas(
        turn.once(grounded.satisfaction_corrected),
        turn.once(grounded.satisfaction_of_turn),
        turn.once(grounded.novelty_of_turn),
        turn.once(grounded.leakage_of_turn),
        turn.once(overlap.copying_without_values),
        turn.rule.items,
    )


@metric("context_adaptation_score", "CAS", SESSION, 0, 1, HIGHER, source=_CAS, gate=False)
def _cas_of_session(session: SessionRecord) -> float:
    """CAS of a session under the convention's weights; see :func:`cas`."""
    return cas(
        session.once(recovery.topic_recovery_rate),
        session.once(recovery.avg_recovery_delay),
        session.mean(grounded.leakage_of_turn),
        session.mean(overlap.cross_coherence),
        session.mean(overlap.context_retention),
        session.rule.cas,
    )


@metric("tas_volatility", "volatility", SESSION, 0, math.inf, LOWER, source=_TAS, gate=False)
def tas_volatility(session: SessionRecord) -> float:
    """Standard deviation of TAS over the turns that define it, as a population; NaN where none does."""
    known = [value for value in session.values(_tas_of_turn) if not math.isnan(value)]
    return statistics.pstdev(known) if known else math.nan
