from .canaries import canary_report
from .records import add, is_judged, read_records, score_table, scores_of, shown_scores, usage
from .run import SCORES, JudgeConfig, judge_run, on_record
from .scores import agreement, headline, self_preference

__all__ = [
    "SCORES",
    "JudgeConfig",
    "add",
    "agreement",
    "canary_report",
    "headline",
    "is_judged",
    "judge_run",
    "on_record",
    "read_records",
    "score_table",
    "scores_of",
    "self_preference",
    "shown_scores",
    "usage",
]
