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
    scored,
)

__all__ = [
    "EvaluateConfig",
    "catalog_of",
    "convention_of",
    "conventions_of",
    "entry",
    "evaluate",
    "folder_of",
    "read",
    "score_all",
    "scored",
]
