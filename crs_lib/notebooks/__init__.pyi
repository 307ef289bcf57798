from .look import begin
from .rules import refresh
from .runner import committed, find, output, parameters_of, run, study

__all__ = [
    "begin",
    "committed",
    "find",
    "output",
    "parameters_of",
    "refresh",
    "run",
    "study",
]
