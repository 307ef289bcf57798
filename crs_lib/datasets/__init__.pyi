from .registry import RECORDED, REGISTRY, Dataset, describe, get, locate

__all__ = [
    "RECORDED",
    "REGISTRY",
    "Dataset",
    "describe",
    "get",
    "locate",
]
