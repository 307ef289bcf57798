"""Several rankings of one query made into one; every way is a total order, whatever the hash seed."""

from collections.abc import Callable, Sequence

import numpy as np

from crs_lib.core.errors import InputError
from crs_lib.core.registry import Registry
from crs_lib.retrieval.hits import Hit, Ranking, ranked

Fusion = Callable[[Sequence[Ranking], int | None], list[Hit]]
FUSIONS: Registry[list[Hit]] = Registry("fusion")


def fuse(spec: str, rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Fuse rankings in the way that a spec names (``FUSIONS.names()``); the ``k`` best, or all."""
    return FUSIONS.create(spec, rankings=rankings, k=k)


def _ranks(rankings: Sequence[Ranking]) -> dict[str, dict[int, int]]:
    """For each document the lists that hold it and its rank there, counted from 1."""
    if not rankings:
        raise InputError("no rankings to fuse; give at least one")
    found: dict[str, dict[int, int]] = {}
    for number, ranking in enumerate(rankings):
        for rank, hit in enumerate(ranking, start=1):
            if number in found.setdefault(hit.id, {}):
                raise InputError(f"document {hit.id!r} stands twice in ranking {number + 1}")
            found[hit.id][number] = rank
    return found


@FUSIONS.register("stratum", source="CoSRec, generation scripts; ties resolved here")
def stratum(rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Best rank first, then the next best rank, and so on; scores are 1, 1/2, 1/3 ….

    A document that a list lacks has there the rank after that of the longest list. Equal strata (one
    list has it first and second, the other second and first) go to the earlier list's choice, so that
    nothing is left to chance.
    """
    found = _ranks(rankings)
    missing = max(len(ranking) for ranking in rankings) + 1
    rows = {
        name: [where.get(number, missing) for number in range(len(rankings))] for name, where in found.items()
    }
    order = sorted(rows, key=lambda name: (sorted(rows[name]), rows[name]))
    return [Hit(name, 1 / place) for place, name in enumerate(order, start=1)][:k]


@FUSIONS.register("rrf", source="Cormack, Clarke and Büttcher (2009), SIGIR")
def reciprocal_rank(rankings: Sequence[Ranking], k: int | None = None, constant: float = 60) -> list[Hit]:
    """Sum of 1 / (60 + rank) over the lists, in (0, lists / 61]."""
    found = _ranks(rankings)
    return ranked({name: sum(1 / (constant + r) for r in where.values()) for name, where in found.items()}, k)


def _summed(rankings: Sequence[Ranking], scale: Callable[[list[float]], list[float]]) -> dict[str, float]:
    total = dict.fromkeys(_ranks(rankings), 0.0)
    for ranking in rankings:
        scaled = scale([hit.score for hit in ranking])
        for hit, value in zip(ranking, scaled, strict=True):
            total[hit.id] += value
    return total


def _unit(scores: list[float]) -> list[float]:
    """Scores moved to [0, 1]; equal scores all become 1: to be found is more than to be missing."""
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - low) / (high - low) if high > low else 1.0 for score in scores]


@FUSIONS.register("combsum", source="Fox and Shaw (1994), TREC-2; min-max scaling as in Lee (1997), SIGIR")
def combsum(rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Sum of min-max scaled scores, in [0, lists]; a list that lacks a document adds 0."""
    return ranked(_summed(rankings, _unit), k)


@FUSIONS.register("combmnz", source="Fox and Shaw (1994), TREC-2")
def combmnz(rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """CombSUM times the number of lists that hold the document, in [0, lists squared]."""
    found = _ranks(rankings)
    return ranked({name: len(found[name]) * s for name, s in _summed(rankings, _unit).items()}, k)


def _deviations(scores: list[float]) -> list[float]:
    """Distance from the list's lowest score in standard deviations; equal scores all become 1."""
    spread = float(np.std(scores)) if scores else 0.0
    low = min(scores, default=0.0)
    return [(score - low) / spread if spread > 0 else 1.0 for score in scores]


@FUSIONS.register("zscore", source="Savoy (2004), TREC: z-scores moved so that the lowest is 0")
def zscore(rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Sum of z-scores, each list moved so that its lowest hit has 0; a missing document adds 0."""
    return ranked(_summed(rankings, _deviations), k)
