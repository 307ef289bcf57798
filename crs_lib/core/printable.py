"""Moved to ``crs_lib.core.errors``."""

from crs_lib.core.errors import one_line as one_line
from crs_lib.core.errors import printable as printable
