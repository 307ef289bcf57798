"""Retrievers by spec, one interface for every collection; several rankings of one query made into one."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.retrieval.runs import Hit, Ranking, ranked


class Retriever(Protocol):
    """Finds documents by a text."""

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best hits, score descending; fewer where fewer match."""


# Each member: a class whose ``texts`` map ids to texts; ``save`` writes a folder that its ``load`` reads.
RETRIEVERS: Registry[Retriever] = Registry("retriever", room="crs_lib.retrieval")
FUSIONS: Registry[list[Hit]] = Registry("fusion")


def build(spec: str, texts: Mapping[str, str]) -> Retriever:
    """A retriever (``bm25``, ``dense:minilm`` …) over texts by id.

    Raises InputError for an unknown spec, or an id that is empty or holds blanks (run files could not
    carry it).
    """
    if bad := [name for name in texts if len(name.split()) != 1]:
        raise InputError(f"document id {bad[0]!r} is empty or holds blanks; run files cannot carry it")
    return RETRIEVERS.create(spec, texts=texts)


class Remembering:
    """A retriever that keeps its last 4,096 answers: the systems of a run ask the same queries."""

    def __init__(self, inner: Retriever) -> None:
        self._search = lru_cache(maxsize=4096)(inner.search)

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The answer of the retriever inside."""
        return list(self._search(query, k))


class Fused:
    """Several retrievers over one collection, fused: each is asked for as many hits as the list will have."""

    def __init__(self, parts: Sequence[Retriever], fusion: str = "stratum") -> None:
        FUSIONS.get(fusion)
        self.parts, self.fusion = list(parts), fusion

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best of the fused rankings."""
        return fuse(self.fusion, [part.search(query, k) for part in self.parts], k)


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
    lists = range(len(rankings))
    rows = {name: [where.get(number, missing) for number in lists] for name, where in found.items()}
    order = sorted(rows, key=lambda name: (sorted(rows[name]), rows[name]))
    return [Hit(name, 1 / place) for place, name in enumerate(order, start=1)][:k]


@FUSIONS.register("rrf", source="Cormack, Clarke and Büttcher (2009), SIGIR")
def _reciprocal_rank(rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Sum of 1 / (60 + rank) over the lists, in (0, lists / 61]."""
    found = _ranks(rankings)
    return ranked({name: sum(1 / (60 + r) for r in where.values()) for name, where in found.items()}, k)
