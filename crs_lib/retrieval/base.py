"""One interface for every collection: products or passages, lexical or dense."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

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


RETRIEVERS: Registry[SavedRetriever] = Registry("retriever")


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
