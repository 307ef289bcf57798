"""Recovery after shifts, as a right-censored time counted from the reply to the shift itself (0)."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from crs_lib.metrics.base import HIGHER, LOWER, Metric, declare

_SOURCE = "recovery after shifts (docs/metrics.md, section 5)"
declare(
    Metric("topic_recovery_rate", "recovery (text)", "session", 0, 1, HIGHER, _SOURCE, gate=False),
    Metric("avg_recovery_delay", "delay (text)", "session", 0, float("inf"), LOWER, _SOURCE, gate=False),
    Metric("item_recovery_rate", "recovery", "session", 0, 1, HIGHER, _SOURCE, headline=True, gate=False),
    Metric("item_recovery_most", "recovery (most)", "session", 0, 1, HIGHER, _SOURCE, gate=False),
    Metric("item_recovery_delay", "delay", "session", 0, float("inf"), LOWER, _SOURCE, gate=False),
)


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

    ``met[t - 1]`` says whether the reply of turn t counts as recovered. A shift is watched until the
    next shift (``within_segment``), the end of the dialogue, or ``window`` replies; what is not
    recovered by then is censored, never counted as fast. Turns are 1-based.
    """
    out = []
    for place, turn in enumerate(shift_turns):
        following = shift_turns[place + 1] if place + 1 < len(shift_turns) else len(met) + 1
        end = min(following, len(met) + 1) if within_segment else len(met) + 1
        if window is not None:
            end = min(end, turn + window)
        watched = max(0, end - turn)
        delay = next((d for d in range(watched) if met[turn + d - 1]), None)
        out.append(Recovery(turn, math.nan if delay is None else delay, watched, delay is not None))
    return out


def rate(recoveries: Sequence[Recovery]) -> float:
    """Share of the shifts that were recovered, in [0, 1]; NaN where there was no shift."""
    return sum(r.recovered for r in recoveries) / len(recoveries) if recoveries else math.nan


def mean_delay(recoveries: Sequence[Recovery]) -> float:
    """Mean delay over the recovered shifts, in turns ≥ 0; NaN where none recovered.

    Survivor-biased: compare systems by the rate or the Kaplan-Meier curve instead.
    """
    delays = [r.delay for r in recoveries if r.recovered]
    return sum(delays) / len(delays) if delays else math.nan
