from .fusion import FUSIONS, Fused, Retriever

__all__ = ["FUSIONS", "Fused", "Retriever"]
