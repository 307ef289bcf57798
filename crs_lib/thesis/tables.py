"""What a session of the thesis's grounded version is summed up to: its columns, their means, the detail."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from crs_lib.metrics.base import HIGHER, LOWER, Metric, declare
from crs_lib.metrics.records import defined

_SAME = ("cross_coherence", "context_retention", "topic_interference", "topic_adaptation_score")
MEANS = {name: name for name in _SAME} | {
    "semantic_similarity": "semantic_similarity_mean", "slot_precision": "dst_precision_mean",
    "slot_recall": "dst_recall_mean", "slot_f1": "dst_f1_mean", "slot_joint": "dst_joint_accuracy_mean",
    "recommendation_satisfaction": "recommendation_satisfaction_mean",
}  # fmt: skip
METRICS = (
    *MEANS.values(), "topic_recovery_rate", "avg_recovery_delay", "recovery_rate_cosine",
    "avg_recovery_delay_cosine", "preference_coverage", "tas_volatility", "context_adaptation_score",
)  # fmt: skip
_SENTENCES = "sentence similarity baseline"
_BASELINE = "baseline of the thesis (docs/metrics.md, section 8)"
_SHARES = {
    "dst_precision_mean": "DST P", "dst_recall_mean": "DST R", "dst_f1_mean": "DST F1",
    "dst_joint_accuracy_mean": "DST joint", "recommendation_satisfaction_mean": "rec. satisfaction",
    "recovery_rate_cosine": "recovery (cosine)",
}  # fmt: skip
declare(
    Metric("semantic_similarity", "semantic", "turn", -1, 1, HIGHER, _SENTENCES),
    Metric("recommendation_satisfaction", "rec. satisfaction", "turn", 0, 1, HIGHER, _BASELINE),
    Metric("semantic_similarity_mean", "semantic", "session", -1, 1, HIGHER, _BASELINE),
    *(Metric(name, short, "session", 0, 1, HIGHER, _BASELINE) for name, short in _SHARES.items()),
    Metric("avg_recovery_delay_cosine", "delay (cosine)", "session", 0, math.inf, LOWER, _BASELINE),
    Metric("preference_coverage", "coverage", "session", 0, 1, HIGHER, _BASELINE),
)
_ALSO_CALLED = {
    "topic_adaptation_score": "context_adaptation_score adaptation_score_mean "
    "trajectory_adaptation_score_mean",
    "cross_coherence": "concept_overlap_mean",
    "context_retention": "constraint_similarity_mean weighted_constraint_similarity_mean",
    "topic_interference": "copying_penalty_mean",
    "topic_recovery_rate": "concept_recovery_rate",
    "avg_recovery_delay": "avg_concept_recovery_delay",
}
ALIASES = {alias: name for name, aliases in _ALSO_CALLED.items() for alias in aliases.split()}


def mean_of(values: Sequence[float]) -> float:
    """Mean of the defined values; 0 for a session without turns, NaN where none of its turns defines it."""
    known = defined(values)
    nothing = math.nan if values else 0.0
    return math.fsum(known) / len(known) if known else nothing


def spread_of(values: Sequence[float]) -> float:
    """Standard deviation of the defined values as a population; NaN where there is none."""
    known, middle = defined(values), mean_of(values)
    squares = math.fsum((value - middle) ** 2 for value in known)
    return math.sqrt(squares / len(known)) if known else math.nan


def detail(turns: Sequence[Mapping[str, Any]], n_shifts: int) -> dict[str, Any]:
    """Counts of a session: turns, shifts, empty and clipped turns, concepts missing and added, ten on top."""
    concepts, top = dict[str, int](), dict[str, list[list[Any]]]()
    for kind in ("missing", "hallucinated"):
        found = Counter(concept for turn in turns for concept in turn[f"{kind}_concepts"])
        ranked = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
        concepts[f"{kind}_concepts"] = found.total()
        top[f"top_{kind}"] = [[concept, count] for concept, count in ranked[:10]]
    return {
        "n_turns": len(turns), "n_shifts": n_shifts,
        "n_both_empty_turns": sum(turn["both_empty"] for turn in turns),
        "n_clipped_turns": sum(turn["clipped"] for turn in turns),
        **concepts, **top,
    }  # fmt: skip
