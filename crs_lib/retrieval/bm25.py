"""BM25 on numpy postings: every weight is computed once, a query is one ``bincount``; over tokens or texts.

Words in more than a sixteenth of the documents are kept as whole columns once they are asked for:
adding a column costs a tenth of scattering its postings, and few words are that common.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError, RunError
from crs_lib.core.text import words
from crs_lib.retrieval.fusion import RETRIEVERS
from crs_lib.retrieval.runs import Hit, Top, named, top_k
from crs_lib.retrieval.store import Ids, mapped

_SLICE = 4_000_000  # postings whose weights are computed at once
_COMMON = 16  # a term in more than 1/16 of the documents is added as a whole column
_COLUMN_BYTES = 256 * 2**20  # what such columns may take together; beyond it they are made anew
_MOST_WORDS = 64  # of a query
_PARTS = ("starts", "documents", "weights", "terms")  # of a stored index


class BM25:
    """Lexical scores of token lists; documents are numbered in the order they were given. A term's weight in
    a document is ``idf * tf / (tf + k1 * (1 - b + b * length / mean length))``, with ``idf = ln(1 + (N - df +
    0.5) / (df + 0.5))``, never negative (as Lucene has it). A word that the query repeats counts as often as
    it stands there. Source: Robertson and Zaragoza (2009), The Probabilistic Relevance Framework, section 3;
    Kamphuis et al. (2020), Which BM25 Do You Mean?, ECIR (the variants).
    """

    def __init__(self, k1: float = 1.2, b: float = 0.75) -> None:
        """``k1`` >= 0 bounds what repetition adds; ``b`` in [0, 1] is the correction for length."""
        if not k1 >= 0 or not 0 <= b <= 1:
            raise InputError(f"k1={k1}, b={b}: expected k1 >= 0 and 0 <= b <= 1")
        self.k1, self.b = float(k1), float(b)
        self.vocabulary: dict[str, int] = {}
        self.starts = np.zeros(1, dtype=np.int64)
        self.documents = np.zeros(0, dtype=np.int32)
        self.weights = np.zeros(0, dtype=np.float32)
        self.size = 0
        self._columns: dict[int, NDArray[np.float32]] = {}

    def fit(self, token_lists: Iterable[Sequence[str]]) -> "BM25":
        """Index the documents, replacing what was indexed before; returns itself. Any iterable will do: of a
        token only its number is kept. A document without tokens is never found.
        """
        from scipy import sparse

        vocabulary, said, ends = dict[str, int](), array("i"), array("q", [0])
        for tokens in token_lists:
            said.extend([vocabulary.setdefault(token, len(vocabulary)) for token in tokens])
            ends.append(len(said))
        self.vocabulary, self._columns, self.size = vocabulary, {}, len(ends) - 1
        bounds = np.array(ends, np.int32 if len(said) < 2**31 else np.int64)
        once = np.ones(len(said), np.int32), np.frombuffer(said, np.int32), bounds
        found = sparse.csr_array(once, shape=(self.size, len(vocabulary))).tocsc()
        found.sum_duplicates()  # how often each document says each term, term by term, documents ascending
        self.starts, self.documents = found.indptr.astype(np.int64), found.indices
        self.weights = np.empty(len(found.data), dtype=np.float32)
        length, frequency = np.diff(ends), np.diff(self.starts)
        mean = float(length.mean()) if length.any() else 1.0
        idf = np.log1p((self.size - frequency + 0.5) / (frequency + 0.5))
        term = np.repeat(np.arange(len(idf), dtype=np.int32), frequency)
        for start in range(0, len(term), _SLICE):  # float64 columns of all postings would not fit
            part = slice(start, start + _SLICE)
            times = found.data[part].astype(float)
            saturation = times + self.k1 * (1 - self.b + self.b * length[self.documents[part]] / mean)
            self.weights[part] = idf[term[part]] * times / saturation
        return self

    def scores(self, tokens: Iterable[str]) -> NDArray[np.float32]:
        """Score of every document for these query tokens, float32; 0 where no token occurs. The order of the
        tokens does not matter, to the last bit.
        """
        wanted = Counter(self.vocabulary[token] for token in tokens if token in self.vocabulary)
        rare = [term for term in sorted(wanted) if self._postings(term) * _COMMON <= self.size]
        scores = self._sum_of_postings(rare, wanted)
        for term in sorted(wanted.keys() - rare):
            if (column := self._columns.get(term)) is None:
                column = self._sum_of_postings([term], {term: 1})
                if (len(self._columns) + 1) * column.nbytes <= _COLUMN_BYTES:
                    self._columns[term] = column
            scores += column if wanted[term] == 1 else wanted[term] * column
        return scores

    def _postings(self, term: int) -> int:
        return int(self.starts[term + 1] - self.starts[term])

    def _sum_of_postings(self, terms: Sequence[int], times: Mapping[int, int]) -> NDArray[np.float32]:
        if not terms:
            return np.zeros(self.size, dtype=np.float32)
        spans = {term: slice(int(self.starts[term]), int(self.starts[term + 1])) for term in terms}
        parts = [(self.weights[span], times[term]) for term, span in spans.items()]
        weights = [part if n == 1 else n * part for part, n in parts]
        documents = np.concatenate([self.documents[span] for span in spans.values()])
        return np.bincount(documents, np.concatenate(weights), self.size).astype(np.float32)

    def search(self, tokens: Iterable[str], k: int = 10) -> Top:
        """The ``k`` best documents (indices, scores), score descending, then index ascending. Only documents
        with a score above 0 are returned, so there may be fewer than ``k``.
        """
        return top_k(self.scores(tokens), k)

    def rarest(self, tokens: Iterable[str], n: int) -> list[str]:
        """The ``n`` known tokens that the fewest documents hold; equals in alphabetical order."""
        known = [token for token in tokens if token in self.vocabulary]
        return sorted(known, key=lambda token: (self._postings(self.vocabulary[token]), token))[:n]

    def save(self, folder: Path, name: str) -> None:
        """Write the index of words as arrays of a name, into a folder of :func:`store.new_folder`."""
        terms = np.frombuffer("\n".join(self.vocabulary).encode(), np.uint8)
        arrays: list[NDArray[Any]] = [self.starts, self.documents, self.weights, terms]
        for part, array_of in zip(_PARTS, arrays, strict=True):
            np.save(folder / f"{name}.{part}.npy", array_of)

    @classmethod
    def load(cls, folder: Path, name: str, size: int) -> "BM25":
        """Open a saved index of so many documents; its postings stay on disk and are paged in as needed.
        Raises RunError where a file of it is missing or does not fit.
        """
        index = cls()
        index.size = size
        index.starts, index.documents, index.weights, terms = (mapped(folder, f"{name}.{p}") for p in _PARTS)
        index.vocabulary = {term: i for i, term in enumerate(bytes(terms).decode().splitlines())}
        whole = len(index.starts) == len(index.vocabulary) + 1
        if not whole or not int(index.starts[-1]) == len(index.documents) == len(index.weights):
            raise RunError(f"the index in {folder.name!r} is damaged: its files do not fit; build it again")
        return index


@RETRIEVERS.register("bm25")
class Lexical:
    """BM25 over texts with ids, of folded words (:mod:`crs_lib.core.text`), nothing stemmed or dropped.

    Exact, small, memory-mapped; up to some millions of documents. Of a query of more than 64 distinct words
    the rarest count: long texts may be queries.
    """

    def __init__(self, texts: Mapping[str, str] | None = None, k1: float = 1.2, b: float = 0.75) -> None:
        self.ids: Ids = list(texts or ())
        self.index = BM25(k1, b).fit(map(words, texts.values())) if texts else BM25(k1, b)

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best documents; only those that share a word with the query."""
        tokens = words(query)
        if len(distinct := set(tokens)) > _MOST_WORDS:
            kept = set(self.index.rarest(distinct, _MOST_WORDS))
            tokens = [token for token in tokens if token in kept]
        return named(self.ids, *self.index.search(tokens, k))
