from .scorer import Scorer, Scores

__all__ = [
    "Scorer",
    "Scores",
]
