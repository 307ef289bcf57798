from .base import FIGURES, NoDataError, of_systems
from .drawing import caption, draw, make, names, redraw, show, title, why_not

__all__ = [
    "FIGURES",
    "NoDataError",
    "caption",
    "draw",
    "make",
    "names",
    "of_systems",
    "redraw",
    "show",
    "title",
    "why_not",
]
