from .runner import begin, committed, find, output, parameters_of, refresh, run, study

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
