"""One interface for every collection, products or passages, lexical or dense; a retriever by its spec."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from crs_lib.core.errors import InputError
from crs_lib.core.registry import Registry
from crs_lib.retrieval.fusion import FUSIONS, fuse
from crs_lib.retrieval.hits import Hit


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


def build(spec: str, texts: Mapping[str, str]) -> SavedRetriever:
    """A retriever (``bm25``, ``dense:minilm``, ``tantivy`` …) over texts by id.

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
