from .logs import (
    Broken,
    Quirk,
    files,
    log_quirk_counts,
    log_quirks,
    quirk_counts,
    quirks_table,
    read,
    readable,
    session_key,
)
from .registry import RECORDED, REGISTRY, Dataset, describe, get, locate

__all__ = [
    "RECORDED",
    "REGISTRY",
    "Broken",
    "Dataset",
    "Quirk",
    "describe",
    "files",
    "get",
    "locate",
    "log_quirk_counts",
    "log_quirks",
    "quirk_counts",
    "quirks_table",
    "read",
    "readable",
    "session_key",
]
