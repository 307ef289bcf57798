from .rating import read_scores
from .reliability import headline, summary
from .run import (
    SCORES,
    add_scores,
    adopt,
    flag_counts,
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
    "adopt",
    "flag_counts",
    "headline",
    "judge_run",
    "read_records",
    "read_scores",
    "reliability_of",
    "score_table",
    "scores_of",
    "shown_scores",
    "summary",
    "usage",
]
