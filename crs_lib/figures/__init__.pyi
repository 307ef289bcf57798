from .base import FIGURES, NoDataError
from .drawing import caption, draw, make, names, redraw, why_not
from .latex import TABLES

__all__ = [
    "FIGURES",
    "TABLES",
    "NoDataError",
    "caption",
    "draw",
    "make",
    "names",
    "redraw",
    "why_not",
]
