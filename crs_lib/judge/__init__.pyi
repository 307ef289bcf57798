from .config import JudgeConfig
from .foreign import adopt, read_scores
from .records import (
    SCORES,
    add_scores,
    flag_counts,
    is_judged,
    read_records,
    score_table,
    scores_of,
    shown_scores,
    usage,
)
from .reliability import agreement, canary_report, headline, reliability_of, self_preference, summary
from .run import judge_run, on_record

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
