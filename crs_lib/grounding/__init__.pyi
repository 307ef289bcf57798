from .grounder import Grounder, Match
from .titles import Mention

__all__ = [
    "Grounder",
    "Match",
    "Mention",
]
