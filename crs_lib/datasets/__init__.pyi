from .base import RECORDED, Dataset
from .registry import REGISTRY, describe, get, locate

__all__ = [
    "RECORDED",
    "REGISTRY",
    "Dataset",
    "describe",
    "get",
    "locate",
]
