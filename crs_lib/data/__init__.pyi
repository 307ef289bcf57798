from .base import RECORDED, Dataset
from .reader import Broken, files, read, readable, session_key
from .registry import REGISTRY, describe, get, locate

__all__ = [
    "RECORDED",
    "REGISTRY",
    "Broken",
    "Dataset",
    "describe",
    "files",
    "get",
    "locate",
    "read",
    "readable",
    "session_key",
]
