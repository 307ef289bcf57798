"""What a session of the thesis's grounded version is summed up to: its columns, their means, the detail."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from crs_lib.metrics.base import HIGHER, LOWER, SESSION, TURN, Metric, declare
from crs_lib.metrics.records import defined

# The mean of a session by the turn's column.
MEANS = {
    "cross_coherence": "cross_coherence",
    "context_retention": "context_retention",
    "topic_interference": "topic_interference",
    "topic_adaptation_score": "topic_adaptation_score",
    "semantic_similarity": "semantic_similarity_mean",
    "slot_precision": "dst_precision_mean",
    "slot_recall": "dst_recall_mean",
    "slot_f1": "dst_f1_mean",
    "slot_joint": "dst_joint_accuracy_mean",
    "recommendation_satisfaction": "recommendation_satisfaction_mean",
}
_OF_SESSIONS = (
    "topic_recovery_rate",
    "avg_recovery_delay",
    "recovery_rate_cosine",
    "avg_recovery_delay_cosine",
    "preference_coverage",
    "tas_volatility",
    "context_adaptation_score",
)
METRICS = (*MEANS.values(), *_OF_SESSIONS)
# Further names under which the thesis reported a value.
ALIASES = {
    "context_adaptation_score": "topic_adaptation_score",
    "adaptation_score_mean": "topic_adaptation_score",
    "trajectory_adaptation_score_mean": "topic_adaptation_score",
    "concept_overlap_mean": "cross_coherence",
    "constraint_similarity_mean": "context_retention",
    "weighted_constraint_similarity_mean": "context_retention",
    "copying_penalty_mean": "topic_interference",
    "concept_recovery_rate": "topic_recovery_rate",
    "avg_concept_recovery_delay": "avg_recovery_delay",
}
_SENTENCES = "sentence similarity baseline"
_BASELINE = "baseline of the thesis (docs/metrics.md, section 8)"
_SHARES = {
    "dst_precision_mean": "DST P",
    "dst_recall_mean": "DST R",
    "dst_f1_mean": "DST F1",
    "dst_joint_accuracy_mean": "DST joint",
    "recommendation_satisfaction_mean": "rec. satisfaction",
    "recovery_rate_cosine": "recovery (cosine)",
    "preference_coverage": "coverage",
}
for _name, _short in _SHARES.items():
    declare(Metric(_name, _short, SESSION, 0, 1, HIGHER, _BASELINE))
declare(
    Metric("semantic_similarity", "semantic", TURN, -1, 1, HIGHER, _SENTENCES),
    Metric("recommendation_satisfaction", "rec. satisfaction", TURN, 0, 1, HIGHER, _BASELINE),
    Metric("semantic_similarity_mean", "semantic", SESSION, -1, 1, HIGHER, _BASELINE),
    Metric("avg_recovery_delay_cosine", "delay (cosine)", SESSION, 0, math.inf, LOWER, _BASELINE),
)
_TOP = 10


def mean_of(values: Sequence[float]) -> float:
    """Mean of the defined values; 0 for a session without turns, NaN where none of its turns defines it."""
    numbers = defined(values)
    if numbers:
        return math.fsum(numbers) / len(numbers)
    return math.nan if values else 0.0


def spread_of(values: Sequence[float]) -> float:
    """Standard deviation of the defined values as a population; NaN where there is none."""
    numbers = defined(values)
    if not numbers:
        return math.nan
    middle = mean_of(numbers)
    squares = math.fsum((number - middle) ** 2 for number in numbers)
    return math.sqrt(squares / len(numbers))


def detail(turns: Sequence[Mapping[str, Any]], n_shifts: int) -> dict[str, Any]:
    """Counts of a session: turns, shifts, empty and clipped turns, concepts missing and added, ten on top."""
    counts: dict[str, Any] = {"n_turns": len(turns), "n_shifts": n_shifts}
    counts["n_both_empty_turns"] = sum(turn["both_empty"] for turn in turns)
    counts["n_clipped_turns"] = sum(turn["clipped"] for turn in turns)
    top = {}
    for kind in ("missing", "hallucinated"):
        concepts: Counter[str] = Counter()
        for turn in turns:
            concepts.update(turn[f"{kind}_concepts"])
        counts[f"{kind}_concepts"] = concepts.total()
        ranked = sorted(concepts.items(), key=lambda concept: (-concept[1], concept[0]))
        top[f"top_{kind}"] = [list(concept) for concept in ranked[:_TOP]]
    return counts | top
