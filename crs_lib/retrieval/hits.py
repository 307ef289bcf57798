"""Hit: a found document and its score; a ranking is a list of hits in one total order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray


class Hit(NamedTuple):
    """A document id and its score; higher is better."""

    id: str
    score: float


Ranking: TypeAlias = Sequence[Hit]


def ranked(scores: Mapping[str, float] | Iterable[tuple[str, float]], k: int | None = None) -> list[Hit]:
    """Hits by score descending, equal scores by id ascending; the first ``k`` of them, or all."""
    pairs = scores.items() if isinstance(scores, Mapping) else scores
    hits = sorted((Hit(name, float(score)) for name, score in pairs), key=lambda hit: (-hit.score, hit.id))
    return hits if k is None else hits[:k]


def named(ids: Sequence[str], indices: NDArray[np.intp], scores: NDArray[np.float32]) -> list[Hit]:
    """Hits of document numbers: the order is kept."""
    return [Hit(ids[i], s) for i, s in zip(indices.tolist(), scores.tolist(), strict=True)]
