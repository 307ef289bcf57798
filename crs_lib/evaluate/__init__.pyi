from .run import (
    EvaluateConfig,
    catalog_of,
    check_models,
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
    "read",
    "score_all",
    "score_logs",
    "scored",
]
