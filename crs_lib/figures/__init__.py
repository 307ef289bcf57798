"""Figures by name, drawn from tidy frames."""

from crs_lib.figures.base import FIGURES, NoDataError
from crs_lib.figures.draw import caption, draw, make, names, redraw, why_not
from crs_lib.figures.latex import TABLES

__all__ = ["FIGURES", "TABLES", "NoDataError", "caption", "draw", "make", "names", "redraw", "why_not"]
