"""A notebook-first laboratory for adaptive conversation: when preferences shift, does the system follow?"""

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """``crs_lib.compare``, read when it is asked for."""
    if name == "compare":
        from crs_lib.report.compare import compare

        return compare
    raise AttributeError(f"module 'crs_lib' has no attribute {name!r}")
