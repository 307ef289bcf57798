from .logs import Broken, files, log_quirk_counts, log_quirks, read, readable, session_key
from .registry import REGISTRY, describe, get, locate

__all__ = [
    "REGISTRY",
    "Broken",
    "describe",
    "files",
    "get",
    "locate",
    "log_quirk_counts",
    "log_quirks",
    "read",
    "readable",
    "session_key",
]
