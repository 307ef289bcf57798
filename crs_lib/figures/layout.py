"""The outcomes that lead tables and figures; leaderboards, statistics, reports and plans ask here."""

from collections.abc import Collection, Sequence

from crs_lib.metrics import base, conventions

# The few that a leaderboard shows; the first orders systems. A cost never stands without both gains.
HEADLINE = [base.PRIMARY, "straight_gain", "shift_cost", "normalised_gain", "topic_adaptation_score"]
MAIN = ("normalised_gain", "item_tas", "satisfaction_corrected")
LEAKS = ("topic_interference_leakage", "copying")
_OVERLAP = ("cross_coherence", "context_retention", "topic_interference")
_TEXT = ("topic_adaptation_score", *_OVERLAP, "topic_recovery_rate", "slot_f1")
CORRELATED = (*MAIN, "novelty", *LEAKS, "item_recovery_rate", *_TEXT)
TURN_SCORES = ("cross_coherence", "topic_adaptation_score", "satisfaction_corrected", "normalised_gain")


def outcomes(convention: str) -> tuple[str, ...]:
    """The outcomes of a convention, the primary one first; the headline for our own."""
    return conventions.outcomes_of(convention) or tuple(HEADLINE)


def lower(metric: str) -> bool:
    """Whether less of a metric is better."""
    return base.get(metric).direction == base.LOWER


def is_thesis(convention: str) -> bool:
    """Whether a convention is one of the thesis's, with outcomes of its own."""
    return bool(conventions.outcomes_of(convention))


def shown(convention: str, declared: Sequence[str], present: Collection[str]) -> list[str]:
    """The metrics of a figure that are present: the convention's own outcomes, or those that it declares."""
    wanted = conventions.outcomes_of(convention) or declared
    return [name for name in wanted if name in present]
