from .base import METRICS, describe, get, in_range, scored_names

__all__ = ["METRICS", "describe", "get", "in_range", "scored_names"]
