"""The outcomes that a convention is judged by: the primary one first, then its parts.

Leaderboards, figures, statistics, reports and plans ask here, so that a table of the thesis's scores is led
by the thesis's score and ours by ours.
"""

from collections.abc import Collection

from crs_lib.metrics import base, conventions

_RECOVERY = ("topic_recovery_rate", "avg_recovery_delay")
_PARTS = ("cross_coherence", "context_retention", "topic_interference", *_RECOVERY)

# By named convention; without a row the registry of metrics says which (``headline`` of each metric).
OUTCOMES = {
    "thesis_grounded": ("topic_adaptation_score", *_PARTS),
    "thesis_legacy": ("context_adaptation_score", *_PARTS),
}


def outcomes(convention: str) -> tuple[str, ...]:
    """The outcomes of a convention, the primary one first; those of the registry for our own."""
    return OUTCOMES.get(conventions.base_of(convention)) or tuple(base.headline())


def is_thesis(convention: str) -> bool:
    """Whether a convention is one of the thesis's, with outcomes of its own."""
    return conventions.base_of(convention) in OUTCOMES


def shown(convention: str, place: str, known: Collection[str]) -> list[str]:
    """The metrics that a table or figure shows under a convention, in order, of those that are ``known``.

    Under a convention of the thesis its outcomes; else those that declare the place (``shown_in``).
    """
    wanted = outcomes(convention) if is_thesis(convention) else base.shown_in(place)
    return [name for name in wanted if name in known]
