"""Retrievers by spec, one interface for every collection; several rankings of one query made into one."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np

from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.retrieval.runs import Hit, Ranking, ranked


class Retriever(Protocol):
    """Finds documents by a text."""

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best hits, score descending; fewer where fewer match."""


class SavedRetriever(Retriever, Protocol):
    """A retriever that can be written to a folder and read back."""

    def save(self, folder: Path) -> None:
        """Write it; the folder appears whole or not at all."""


# Each member: a class whose ``texts`` map ids to texts, and whose class method ``load`` reads a saved folder.
RETRIEVERS: Registry[SavedRetriever] = Registry("retriever", room="crs_lib.retrieval")
FUSIONS: Registry[list[Hit]] = Registry("fusion")


def build(spec: str, texts: Mapping[str, str]) -> SavedRetriever:
    """A retriever (``bm25``, ``dense:minilm`` …) over texts by id.

    Raises InputError for an unknown spec, or an id that is empty or holds blanks (run files could not
    carry it).
    """
    bad = next((name for name in texts if len(name.split()) != 1), None)
    if bad is not None:
        raise InputError(f"document id {bad!r} is empty or holds blanks; run files cannot carry it")
    return RETRIEVERS.create(spec, texts=texts)


class Remembering:
    """A retriever that keeps its last 4,096 answers: the systems of a run ask the same queries."""

    def __init__(self, inner: Retriever) -> None:
        self._search = lru_cache(maxsize=4096)(inner.search)

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The answer of the retriever inside."""
        return list(self._search(query, k))


class Fused:
    """Several retrievers over one collection, fused: each is asked for ``depth`` hits."""

    def __init__(self, parts: Sequence[Retriever], fusion: str = "stratum", depth: int | None = None) -> None:
        """``depth`` None asks each part for as many hits as the fused list will have."""
        FUSIONS.get(fusion)
        self.parts, self.fusion, self.depth = list(parts), fusion, depth

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best of the fused rankings."""
        depth = max(k, self.depth or k)
        return fuse(self.fusion, [part.search(query, depth) for part in self.parts], k)


def fuse(spec: str, rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Fuse rankings in the way that a spec names (``FUSIONS.names()``); the ``k`` best, or all.

    Every way is a total order, whatever the hash seed.
    """
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
def _stratum(rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
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
def _reciprocal_rank(rankings: Sequence[Ranking], k: int | None = None, constant: float = 60) -> list[Hit]:
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
def _combsum(rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Sum of min-max scaled scores, in [0, lists]; a list that lacks a document adds 0."""
    return ranked(_summed(rankings, _unit), k)


@FUSIONS.register("combmnz", source="Fox and Shaw (1994), TREC-2")
def _combmnz(rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """CombSUM times the number of lists that hold the document, in [0, lists squared]."""
    found = _ranks(rankings)
    return ranked({name: len(found[name]) * s for name, s in _summed(rankings, _unit).items()}, k)


def _deviations(scores: list[float]) -> list[float]:
    """Distance from the list's lowest score in standard deviations; equal scores all become 1."""
    spread = float(np.std(scores)) if scores else 0.0
    low = min(scores, default=0.0)
    return [(score - low) / spread if spread > 0 else 1.0 for score in scores]


@FUSIONS.register("zscore", source="Savoy (2004), TREC: z-scores moved so that the lowest is 0")
def _zscore(rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Sum of z-scores, each list moved so that its lowest hit has 0; a missing document adds 0."""
    return ranked(_summed(rankings, _deviations), k)
