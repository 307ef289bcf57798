from .base import FIGURES, NoDataError, draw, make, redraw, show

__all__ = ["FIGURES", "NoDataError", "draw", "make", "redraw", "show"]
