from .logs import LOST, Broken, files, log_quirk_counts, log_quirks, read, readable, session_key
from .registry import describe, every, get, locate

__all__ = [
    "LOST",
    "Broken",
    "describe",
    "every",
    "files",
    "get",
    "locate",
    "log_quirk_counts",
    "log_quirks",
    "read",
    "readable",
    "session_key",
]
