from .base import METRICS, describe, get, in_range

__all__ = [
    "METRICS",
    "describe",
    "get",
    "in_range",
]
