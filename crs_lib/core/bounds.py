"""Moved to ``crs_lib.core.safety``."""

from crs_lib.core.safety import LIMITS as BOUNDS
from crs_lib.core.safety import check_limit as check
from crs_lib.core.safety import limit as most
from crs_lib.core.safety import limit_variable as variable

__all__ = ["BOUNDS", "check", "most", "variable"]
