"""The systems under test: what answers a user."""

from crs_lib.systems import policies, worded  # noqa: F401 - importing them registers their systems
