from .base import METRICS, describe, get, headline, in_range, scored_names, shown_in

__all__ = [
    "METRICS",
    "describe",
    "get",
    "headline",
    "in_range",
    "scored_names",
    "shown_in",
]
