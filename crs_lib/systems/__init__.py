"""The systems under test: what answers a user."""

import lazy_loader

from crs_lib.systems import policies  # noqa: F401  (registers the control policies)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
