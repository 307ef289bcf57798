from .run import EvaluateConfig, catalog_of, evaluate, long, read, score_all, scored

__all__ = [
    "EvaluateConfig",
    "catalog_of",
    "evaluate",
    "long",
    "read",
    "score_all",
    "scored",
]
