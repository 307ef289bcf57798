from .conventions import CONVENTIONS, Convention, get
from .scorer import Scorer, Scores

__all__ = [
    "CONVENTIONS",
    "Convention",
    "Scorer",
    "Scores",
    "get",
]
