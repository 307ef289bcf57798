"""Moved to ``crs_lib.core.rng``."""

from crs_lib.core.rng import one_thread as one_thread
