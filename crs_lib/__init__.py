"""A notebook-first laboratory for adaptive conversation: when preferences shift, does the system follow?"""

import importlib

__version__ = "0.3.0"


def __getattr__(name: str) -> object:
    """``crs_lib.compare``, read when it is asked for."""
    if name == "compare":
        return importlib.import_module("crs_lib.report.compare").compare
    raise AttributeError(f"module 'crs_lib' has no attribute {name!r}")
