"""The scores of a dialogue, and who makes them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from crs_lib.core.dialogue import Dialogue
from crs_lib.metrics import constructs

_COUNTS = (
    "n_turns", "n_shifts", "n_both_empty_turns", "n_hallucinated_titles", "missing_concepts",
    "hallucinated_concepts",
)  # fmt: skip


class Scores(NamedTuple):
    """The scores of a dialogue: turn rows, shift rows, and the session's record."""

    turns: list[dict[str, Any]]
    shifts: list[dict[str, Any]]
    session: dict[str, Any]


def unscored(model: str, session_id: str, convention: str, metrics: Sequence[str], reason: str) -> Scores:
    """The record of a session without a dialogue: every metric null, nothing counted, ``failed`` says why."""
    session = {
        "model": model, "session_id": session_id, "convention": convention,
        **dict.fromkeys(metrics, math.nan),
        "judge": constructs.unjudged(),
        "detail": {**dict.fromkeys(_COUNTS, 0), "defined_turns": {}, "failed": reason},
    }  # fmt: skip
    return Scores([], [], session)


class BatchScorer(Protocol):
    """Scores dialogues; the answers do not depend on which are given together."""

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]: ...
