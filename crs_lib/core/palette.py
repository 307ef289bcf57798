"""Moved to ``crs_lib.core.dialogue``."""

from crs_lib.core.dialogue import TINTS as TINTS
from crs_lib.core.dialogue import tint_css as css
from crs_lib.core.dialogue import tint_place as place

__all__ = ["TINTS", "css", "place"]
