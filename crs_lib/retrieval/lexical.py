"""BM25 over texts with ids: the folded words of :mod:`crs_lib.core.text`, nothing stemmed or dropped."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from crs_lib.core import outside
from crs_lib.core.errors import RunError
from crs_lib.core.text import words
from crs_lib.retrieval.base import RETRIEVERS
from crs_lib.retrieval.bm25 import BM25
from crs_lib.retrieval.hits import Hit, named
from crs_lib.retrieval.ids import StoredIds


@RETRIEVERS.register("bm25")
class Lexical:
    """BM25 in numpy: exact, small, memory-mapped; up to some millions of documents."""

    def __init__(
        self, texts: Mapping[str, str] | None = None, k1: float = 1.2, b: float = 0.75, max_words: int = 64
    ) -> None:
        """Of a query longer than ``max_words`` distinct words the rarest count: long texts may be queries."""
        self.ids: Sequence[str] = list(texts or ())
        self.max_words = max_words
        self.index = BM25(k1, b).fit(words(body) for body in (texts or {}).values())

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best documents; only those that share a word with the query."""
        return named(self.ids, *self.index.search(self._query(query), k))

    def _query(self, query: str) -> list[str]:
        tokens = words(query)
        distinct = Counter(tokens)
        if len(distinct) <= self.max_words:
            return tokens
        kept = set(self.index.rarest(distinct, self.max_words))
        return [token for token in tokens if token in kept]

    def save(self, folder: Path) -> None:
        """Write index and ids; the folder appears whole or not at all."""
        self.index.save(folder, {"query": json.dumps(self.max_words)}, self.ids)

    @classmethod
    def load(cls, folder: Path) -> "Lexical":
        """Read it back, postings memory-mapped; RunError where there is no such index."""
        made = cls()
        made.index = BM25.load(folder)
        made.ids = StoredIds(folder)
        made.max_words = outside.read_json(folder / "query.json")
        if len(made.ids) != len(made.index):
            raise RunError(f"the index in {folder.name!r} is damaged: its ids do not fit; build it again")
        return made
