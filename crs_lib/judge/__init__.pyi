from .reliability import headline
from .run import (
    SCORES,
    add_scores,
    judge_run,
    read_records,
    reliability_of,
    score_table,
    scores_of,
    shown_scores,
    usage,
)

__all__ = [
    "SCORES",
    "add_scores",
    "headline",
    "judge_run",
    "read_records",
    "reliability_of",
    "score_table",
    "scores_of",
    "shown_scores",
    "usage",
]
