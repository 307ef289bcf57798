"""The systems under test: what answers a user."""

import lazy_loader

# importing them registers their systems
from crs_lib.systems import learned, policies, program, search, worded  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
