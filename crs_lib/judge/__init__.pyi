from .config import JudgeConfig
from .rating import read_scores
from .reliability import agreement, canary_report, headline, self_preference, summary
from .run import (
    SCORES,
    add_scores,
    adopt,
    flag_counts,
    is_judged,
    judge_run,
    on_record,
    read_records,
    reliability_of,
    score_table,
    scores_of,
    shown_scores,
    usage,
)

__all__ = [
    "SCORES",
    "JudgeConfig",
    "add_scores",
    "adopt",
    "agreement",
    "canary_report",
    "flag_counts",
    "headline",
    "is_judged",
    "judge_run",
    "on_record",
    "read_records",
    "read_scores",
    "reliability_of",
    "score_table",
    "scores_of",
    "self_preference",
    "shown_scores",
    "summary",
    "usage",
]
