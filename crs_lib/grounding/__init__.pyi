from .grounder import Grounder, Match, Mention

__all__ = [
    "Grounder",
    "Match",
    "Mention",
]
