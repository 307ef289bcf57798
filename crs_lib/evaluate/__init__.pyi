from .arms import memory, memory_sentence
from .models import check_models, planned
from .run import (
    EvaluateConfig,
    catalog_of,
    convention_of,
    conventions_of,
    entry,
    evaluate,
    folder_of,
    read,
    score_all,
    score_logs,
    scored,
)

__all__ = [
    "EvaluateConfig",
    "catalog_of",
    "check_models",
    "convention_of",
    "conventions_of",
    "entry",
    "evaluate",
    "folder_of",
    "memory",
    "memory_sentence",
    "planned",
    "read",
    "score_all",
    "score_logs",
    "scored",
]
