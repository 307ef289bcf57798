"""The systems under test: what answers a user."""

import lazy_loader

# importing them registers their systems, in the order of the tables
# isort: off
from crs_lib.systems import policies, search, worded, modes, agent, programs, gamed  # noqa: F401
# isort: on

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
