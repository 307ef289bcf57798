"""Composites: TAS from concept overlap, its item-grounded form, and the older CAS.

A composite is never shown without its parts. Sources: docs/metrics.md, sections 2, 4 and 7.
"""

import math
from dataclasses import dataclass

from crs_lib.metrics.base import HIGHER, LOWER, Metric, declare

_LOWEST, _HIGHEST = float("-inf"), float("inf")
_TAS, _ITEM, _CAS = (f"docs/metrics.md, section {n}" for n in (2, 4, 7))
declare(
    Metric("topic_adaptation_score", "TAS", "turn", -1, 2, HIGHER, _TAS, headline=True, gate=False),
    Metric("item_tas", "item TAS", "turn", _LOWEST, 1, HIGHER, _ITEM, headline=True, gate=True),
    Metric("context_adaptation_score", "CAS", "session", 0, 1, HIGHER, _CAS, gate=False),
    Metric("tas_volatility", "volatility", "session", 0, _HIGHEST, LOWER, _TAS, gate=False),
)


@dataclass(frozen=True)
class TasWeights:
    """Weights of TAS = α·CC + β·CR − γ·I; all 1 in the thesis."""

    alpha: float = 1.0
    beta: float = 1.0
    gamma: float = 1.0


@dataclass(frozen=True)
class ItemWeights:
    """Weights of item-grounded TAS = α·S* + β·N·S − γ·L − δ·copying; α + β = 1 keeps its top at 1.

    γ is small enough that a random film is worth more than silence (docs/validity.md, section 1).
    """

    alpha: float = 0.6
    beta: float = 0.4
    gamma: float = 0.25
    delta: float = 0.5


@dataclass(frozen=True)
class CasWeights:
    """Weights of CAS: recovery, speed, little interference, cross coherence, context retention."""

    recovery: float = 0.25
    delay: float = 0.20
    interference: float = 0.20
    coherence: float = 0.20
    retention: float = 0.15


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

    NaN where S* is undefined. Where nothing was recommended N·S is 0; where nothing was dropped yet,
    nothing can leak and L counts 0.
    """
    if math.isnan(corrected):
        return math.nan
    fresh = 0.0 if math.isnan(novelty) else novelty * raw
    leaked = 0.0 if math.isnan(leakage) else leakage
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
    """The older composite: a weighted mean of five parts scaled to [0, 1], 1 is best.

    The delay counts 1 − clamp(delay/slowest), interference 1 − clamp(interference). Undefined parts are
    left out and the weights of the others scaled up; NaN where all are undefined.
    """
    parts = [
        (recovery, weights.recovery),
        (1 - _clamp(delay / slowest), weights.delay),
        (1 - _clamp(interference), weights.interference),
        (coherence, weights.coherence),
        (retention, weights.retention),
    ]
    defined = [(value, weight) for value, weight in parts if not math.isnan(value)]
    total = sum(weight for _, weight in defined)
    return sum(value * weight for value, weight in defined) / total if total else math.nan


def _clamp(value: float) -> float:
    return value if math.isnan(value) else max(0.0, min(1.0, value))
