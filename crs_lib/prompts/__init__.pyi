from .templates import digest, names, render, source, wanted

__all__ = [
    "digest",
    "names",
    "render",
    "source",
    "wanted",
]
