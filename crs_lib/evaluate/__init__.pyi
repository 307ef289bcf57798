from .arms import memory, memory_sentence
from .models import check_models, planned
from .run import (
    ANSWERED,
    EvaluateConfig,
    catalog_of,
    convention_of,
    conventions_of,
    entry,
    evaluate,
    folder_of,
    memory_sentences,
    read,
    score_all,
    score_logs,
    scored,
)

__all__ = [
    "ANSWERED",
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
    "memory_sentences",
    "planned",
    "read",
    "score_all",
    "score_logs",
    "scored",
]
