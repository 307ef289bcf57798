from .run import (
    EvaluateConfig,
    catalog_of,
    convention_of,
    conventions_of,
    entry,
    evaluate,
    folder_of,
    long,
    pieces,
    read,
    score_all,
    scored,
)
from .scorer import Scorer

__all__ = [
    "EvaluateConfig",
    "Scorer",
    "catalog_of",
    "convention_of",
    "conventions_of",
    "entry",
    "evaluate",
    "folder_of",
    "long",
    "pieces",
    "read",
    "score_all",
    "scored",
]
