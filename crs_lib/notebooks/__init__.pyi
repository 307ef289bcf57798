from .look import begin
from .rules import refresh
from .runner import committed, find, parameters_of, run

__all__ = [
    "begin",
    "committed",
    "find",
    "parameters_of",
    "refresh",
    "run",
]
