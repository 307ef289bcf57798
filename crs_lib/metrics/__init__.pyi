from .base import describe, get, in_range, scored_names

__all__ = ["describe", "get", "in_range", "scored_names"]
