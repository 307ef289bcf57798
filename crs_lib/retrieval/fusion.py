"""Retrievers by spec, one interface for every collection; several rankings of one query made into one."""

import importlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Registry
from crs_lib.retrieval.runs import Hit, Ranking, ranked, read_run


class Retriever(Protocol):
    """Finds documents by a text."""

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best hits, score descending; fewer where fewer match."""


# Each member: a class whose ``texts`` map ids to texts; what a spec names behind a colon is its ``argument``.
RETRIEVERS: Registry[Retriever] = Registry("retriever", room="crs_lib.retrieval")
FUSIONS: Registry[list[Hit]] = Registry("fusion")


def build(spec: str, texts: Mapping[str, str]) -> Retriever:
    """A retriever (``bm25``, ``dense:minilm`` …) over texts by id. Raises InputError for an unknown spec, or
    an id that is empty or holds blanks (run files could not carry it).
    """
    if bad := [name for name in texts if len(name.split()) != 1]:
        raise InputError(f"document id {bad[0]!r} is empty or holds blanks; run files cannot carry it")
    return RETRIEVERS.create(spec, texts=texts)


@RETRIEVERS.register("pyserini", argument="a folder of runs, or a Lucene index", example="runs", made=True)
class _Pyserini:
    """What Pyserini found: its run files of own queries (``topics.tsv``: id and text), or its Lucene index.

    Hits outside the collection are left out. Several run files (``*.run``, ``*.txt``, ``*.trec``) that hold a
    query are fused by ``stratum``.
    """

    def __init__(self, argument: str, texts: Mapping[str, object]) -> None:
        """Raises InputError for a folder of neither kind, or an index without the package."""
        folder, self._texts, self._name = paths.given(argument), texts, argument
        self._index: Any = None
        if any(folder.glob("segments_*")):
            if not find_spec("pyserini"):
                raise InputError(f"{argument!r} is a Lucene index: pip install pyserini, which needs Java")
            self._index = importlib.import_module("pyserini.search.lucene").LuceneSearcher(str(folder))
            return
        if not (folder / "topics.tsv").is_file():
            raise InputError(f"{argument!r} holds no topics.tsv and run files, and is no Lucene index")
        lines = safety.read_text(folder / "topics.tsv").splitlines()
        self._topics = {" ".join(text.split()): name for name, _, text in (s.partition("\t") for s in lines)}
        self._runs = [read_run(p) for p in sorted(folder.iterdir()) if p.suffix in (".run", ".txt", ".trec")]

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The best hits of the index, or of the runs; InputError for a query that no run was made of."""
        if self._index:
            found = [Hit(hit.docid, float(hit.score)) for hit in self._index.search(query, 10 * k)]
            return [hit for hit in found if hit.id in self._texts][:k]
        if (name := self._topics.get(" ".join(query.split()))) is None:
            told = f"topics.tsv of {self._name!r} lacks the query {query!r}"
            raise InputError(f"{told}; run Pyserini on topics.tsv of a run of 13_cosrec_retrieve")
        parts = [[hit for hit in run.get(name, ()) if hit.id in self._texts] for run in self._runs]
        parts = [part for part in parts if part] or [[]]
        return fuse("stratum", parts, k) if len(parts) > 1 else parts[0][:k]


class Fused:
    """Several retrievers over one collection, fused: each is asked for as many hits as the list will have."""

    def __init__(self, parts: Sequence[Retriever], fusion: str = "stratum") -> None:
        FUSIONS.get(fusion)
        self.parts, self.fusion = list(parts), fusion

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best of the fused rankings."""
        return fuse(self.fusion, [part.search(query, k) for part in self.parts], k)


def fuse(spec: str, rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Fuse rankings in the way that a spec names (``FUSIONS.names()``); the ``k`` best, or all. Every way is
    a total order, whatever the hash seed.
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
