from .look import begin
from .runner import committed, find, output, parameters_of, refresh, run, study

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
