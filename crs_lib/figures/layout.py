"""The metrics that each table and figure shows, in order; a new metric is added to the lists to show it.
Leaderboards, figures, statistics, reports and plans ask here: the thesis's scores are led by its own score.
"""

from collections.abc import Collection

from crs_lib.metrics import base, conventions

# The few that a leaderboard shows, gain first; a cost of shifts never stands without the ability.
HEADLINE = ["normalised_gain", "shift_cost", "straight_gain", "found_at_3", "topic_adaptation_score"]

_MAIN = ["normalised_gain", "item_tas", "satisfaction_corrected"]
_OVERLAP = ["cross_coherence", "context_retention", "topic_interference"]
_TEXT = ["topic_adaptation_score", *_OVERLAP, "topic_recovery_rate", "slot_f1"]
_LEAKS = ["topic_interference_leakage", "copying"]

SHOWN: dict[str, list[str]] = {
    "turn_table": [
        "cross_coherence", "topic_adaptation_score", "satisfaction_corrected", "normalised_gain"
    ],
    "metric_bars": [
        "normalised_gain", "satisfaction_corrected", "item_recovery_rate", *_LEAKS, "topic_adaptation_score",
    ],
    "correlation_heatmap": [*_MAIN, "novelty", *_LEAKS, "item_recovery_rate", *_TEXT],
    "distributions": [*_MAIN, "topic_adaptation_score"],
    "table_model_metrics": [
        *_MAIN, "item_recovery_rate", "topic_interference_leakage", "topic_adaptation_score",
    ],
    "score_around_shifts": ["normalised_gain", "topic_adaptation_score"],
}  # fmt: skip


def outcomes(convention: str) -> tuple[str, ...]:
    """The outcomes of a convention, the primary one first; the headline for our own."""
    return conventions.outcomes_of(convention) or tuple(HEADLINE)


def lower(metric: str) -> bool:
    """Whether less of a metric is better."""
    return base.get(metric).direction == base.LOWER


def is_thesis(convention: str) -> bool:
    """Whether a convention is one of the thesis's, with outcomes of its own."""
    return bool(conventions.outcomes_of(convention))


def shown(convention: str, table: str, known: Collection[str]) -> list[str]:
    """The ``known`` metrics that a table or figure shows: the thesis's outcomes, or its own list."""
    wanted = outcomes(convention) if is_thesis(convention) else SHOWN[table]
    return [name for name in wanted if name in known]
