from .base import Fused, Retriever
from .fusion import FUSIONS

__all__ = [
    "FUSIONS",
    "Fused",
    "Retriever",
]
