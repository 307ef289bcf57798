from .base import FIGURES, TABLES, NoDataError, draw, make, redraw, show

__all__ = ["FIGURES", "TABLES", "NoDataError", "draw", "make", "redraw", "show"]
