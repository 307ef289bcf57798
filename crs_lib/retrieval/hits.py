"""Hit: a found document and its score; a ranking is a list of hits in one total order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError


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


_ROWS = 64


class Top(NamedTuple):
    """Document indices and their scores, best first; equal scores in the order of the index."""

    indices: NDArray[np.intp]
    scores: NDArray[np.float32]


def top_k(scores: NDArray[np.float32], k: int, *, above: float = 0.0) -> Top:
    """The ``k`` highest scores strictly above ``above``, score descending, then index ascending.

    Fewer than ``k`` come back where fewer qualify. The scores are cut into blocks of 64; a score can be
    among the ``k`` best only if its block's maximum is among the ``k`` largest maxima (or equals the
    last of them), so only those blocks are looked at. NaN counts as not above.

    Raises InputError for ``k`` below 1.
    """
    if k < 1:
        raise InputError(f"k is {k}; ask for at least one document")
    blocks = -(-len(scores) // _ROWS)
    if k >= blocks:
        return _sorted(scores, np.flatnonzero(scores > above), k)
    whole = (len(scores) // blocks) * blocks
    grid = scores[:whole].reshape(-1, blocks)
    best = np.fmax.reduce(grid, axis=0)
    if whole < len(scores):
        best[: len(scores) - whole] = np.fmax(best[: len(scores) - whole], scores[whole:])
    best[np.isnan(best)] = -np.inf
    floor = np.partition(best, blocks - k)[blocks - k]
    columns = np.flatnonzero((best >= floor) & (best > above))
    candidates = (columns + np.arange(0, len(scores), blocks)[:, None]).ravel()
    candidates = candidates[candidates < len(scores)]
    values = scores[candidates]
    return _sorted(scores, candidates[(values >= floor) & (values > above)], k)


def _sorted(scores: NDArray[np.float32], candidates: NDArray[np.intp], k: int) -> Top:
    order = np.lexsort((candidates, -scores[candidates]))[:k]
    kept = candidates[order]
    return Top(kept, scores[kept])
