"""Retrievers by spec, one interface for every collection; several rankings of one query made into one."""

import importlib
import logging
from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, match
from crs_lib.core.settings import Registry
from crs_lib.core.tables import as_it_was
from crs_lib.retrieval.runs import Hit, Ranking, ranked, read_folder


class Retriever(Protocol):
    """Finds documents by a text."""

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best hits, score descending; fewer where fewer match."""


# Each member: a class whose ``texts`` map ids to texts; what a spec names behind a colon is its ``argument``.
RETRIEVERS: Registry[Retriever] = Registry("retriever", room="crs_lib.retrieval")
FUSIONS: Registry[list[Hit]] = Registry("fusion")
_QUERIES = ("queries.tsv", "topics.tsv")  # the second of two columns, as notebook 13 wrote it before 0.4
_LOG = logging.getLogger("crs_lib.retrieval")


def build(spec: str, texts: Mapping[str, str], k1: float = 1.2, b: float = 0.75) -> Retriever:
    """A retriever (``bm25``, ``dense:minilm`` …) over texts by id; ``k1`` and ``b`` are for those by BM25.
    Raises InputError for an unknown spec, or an id that is empty or holds blanks (run files could not carry
    it).
    """
    for name in texts:
        if len(name.split()) != 1:
            raise InputError(f"document id {name!r} is empty or holds blanks; run files cannot carry it")
    if RETRIEVERS.get(spec).facts.get("weighted"):
        return RETRIEVERS.create(spec, texts=texts, k1=k1, b=b)
    return RETRIEVERS.create(spec, texts=texts)


@RETRIEVERS.register(
    "pyserini", argument="a folder of runs, or a Lucene index", example="runs", made=True, weighted=True
)
def _pyserini(argument: str, texts: Collection[str], k1: float = 0.9, b: float = 0.4) -> Retriever:
    """What Pyserini found: its run files of own queries (``queries.tsv``: id, text), or its Lucene index.

    Hits outside the collection are left out; where there are no texts at all, none is. Several run files
    (``*.run``, ``*.txt``, ``*.trec``) that hold a query are fused by ``stratum``. Raises InputError for a
    folder of neither kind, or an index without the package.
    """
    folder = paths.given(argument)
    if any(folder.glob("segments_*")):
        if not find_spec("pyserini"):
            needs = "pip install pyserini==0.22.1, and Java 17"
            raise InputError(f"{argument!r} is a Lucene index, which needs Pyserini: {needs}")
        lucene = importlib.import_module("pyserini.search.lucene")
        searcher = lucene.LuceneSearcher(str(folder))
        searcher.set_bm25(k1, b)
        return _LuceneIndex(searcher, texts)
    for name in _QUERIES:
        if (folder / name).is_file():
            return _StoredRuns(argument, folder / name, texts)
    raise InputError(f"{argument!r} holds no queries.tsv and run files, and is no Lucene index")


class _LuceneIndex:
    """Pyserini's searcher, as a retriever over the texts of a collection."""

    def __init__(self, searcher: Any, texts: Collection[str]) -> None:
        self._searcher = searcher
        self._texts = texts

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The best hits of the index."""
        hits = []
        for hit in self._searcher.search(query, 10 * k):
            if not self._texts or hit.docid in self._texts:
                score = float(hit.score)
                hits.append(Hit(hit.docid, score))
        return hits[:k]


class _StoredRuns:
    """Run files of queries that a file of tab-separated ids and texts names."""

    def __init__(self, name: str, queries: Path, texts: Collection[str]) -> None:
        self._name = name
        self._file = queries.name
        self._texts = texts
        self._topics = {}
        for line in safety.read_text(queries).splitlines():
            topic, _, text = line.partition("\t")
            self._topics[" ".join(as_it_was(text).split())] = topic
        files = read_folder(queries.parent)
        self._runs = files.runs
        unread = [other for other in files.unread if other not in _QUERIES]
        if unread:
            folder = queries.parent.name
            _LOG.warning("%s: %s are no run files and were not read", folder, ", ".join(unread))
        self._check_topics()
        self._check_documents()

    def _check_topics(self) -> None:
        """Warn of a run of other topics than the queries have, InputError where it shares none."""
        for name, run in self._runs.items():
            match(f"topics of {name} in {self._file}", run, set(self._topics.values()))

    def _check_documents(self) -> None:
        """InputError where no run has a document of the collection; a file may be of another collection."""
        documents: dict[str, None] = {}
        for run in self._runs.values():
            for hits in run.values():
                documents |= dict.fromkeys(hit.id for hit in hits)
        if self._texts and documents.keys().isdisjoint(self._texts):
            match(f"documents of {self._name!r}", documents, self._texts, "write ids as the collection does")

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The best hits of the runs; InputError for a query that no run was made of."""
        topic = self._topics.get(" ".join(query.split()))
        if topic is None:
            lacks = f"{self._file} of {self._name!r} lacks the query {query!r}"
            raise InputError(f"{lacks}; run Pyserini on queries.tsv of a run of 13_cosrec_retrieve")
        parts = []
        for run in self._runs.values():
            hits = [hit for hit in run.get(topic, ()) if not self._texts or hit.id in self._texts]
            if hits:
                parts.append(hits)
        if len(parts) > 1:
            return fuse("stratum", parts, k)
        return parts[0][:k] if parts else []


class Fused:
    """Several retrievers over one collection, fused: each is asked for as many hits as the list will have."""

    def __init__(self, parts: Sequence[Retriever], fusion: str = "stratum") -> None:
        FUSIONS.get(fusion)
        self.parts = list(parts)
        self.fusion = fusion

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best of the fused rankings."""
        rankings = [part.search(query, k) for part in self.parts]
        return fuse(self.fusion, rankings, k)


def fuse(spec: str, rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Fuse rankings in the way that a spec names (``FUSIONS.names()``); the ``k`` best, or all. Every way is
    a total order, whatever the hash seed.
    """
    return FUSIONS.create(spec, rankings=rankings, k=k)


def _ranks(rankings: Sequence[Ranking]) -> dict[str, dict[int, int]]:
    """For each document the lists that hold it and its rank there, counted from 1."""
    if not rankings:
        raise InputError("no rankings to fuse; give at least one")
    ranks: dict[str, dict[int, int]] = {}
    for number, ranking in enumerate(rankings):
        for rank, hit in enumerate(ranking, start=1):
            of_document = ranks.setdefault(hit.id, {})
            if number in of_document:
                raise InputError(f"document {hit.id!r} stands twice in ranking {number + 1}")
            of_document[number] = rank
    return ranks


@FUSIONS.register("stratum", source="CoSRec, generation scripts; ties resolved here")
def _stratum(rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Best rank first, then the next best rank, and so on; scores are 1, 1/2, 1/3 ….

    A document that a list lacks has there the rank after that of the longest list. Equal strata (one
    list has it first and second, the other second and first) go to the earlier list's choice, so that
    nothing is left to chance.
    """
    ranks = _ranks(rankings)
    missing = max(map(len, rankings)) + 1
    rows = {}
    for document, of_document in ranks.items():
        rows[document] = [of_document.get(number, missing) for number in range(len(rankings))]
    order = sorted(rows, key=lambda document: (sorted(rows[document]), rows[document]))
    hits = []
    for position, document in enumerate(order, start=1):
        hits.append(Hit(document, 1 / position))
    return hits[:k]


@FUSIONS.register("rrf", source="Cormack, Clarke and Büttcher (2009), SIGIR")
def _reciprocal_rank(rankings: Sequence[Ranking], k: int | None = None) -> list[Hit]:
    """Sum of 1 / (60 + rank) over the lists, in (0, lists / 61]."""
    scores = {}
    for document, ranks in _ranks(rankings).items():
        scores[document] = sum(1 / (60 + rank) for rank in ranks.values())
    return ranked(scores, k)
