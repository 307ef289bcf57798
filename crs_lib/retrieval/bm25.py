"""BM25 on numpy postings: every weight is computed once, a query is one ``bincount``; over tokens or texts.

Words in more than a sixteenth of the documents are kept as whole columns once they are asked for:
adding a column costs a tenth of scattering its postings, and few words are that common.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

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


Floats = NDArray[np.float32]


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
        self.k1 = float(k1)
        self.b = float(b)
        self.vocabulary: dict[str, int] = {}
        self.starts = np.zeros(1, dtype=np.int64)
        self.documents = np.zeros(0, dtype=np.int32)
        self.weights = np.zeros(0, dtype=np.float32)
        self.size = 0
        self._columns: dict[int, Floats] = {}

    def fit(self, token_lists: Iterable[Sequence[str]]) -> "BM25":
        """Index the documents, replacing what was indexed before; returns itself. Any iterable will do: of a
        token only its number is kept. A document without tokens is never found.
        """
        from scipy import sparse

        self._columns = {}
        vocabulary: dict[str, int] = {}
        terms = array("i")
        ends = array("q", [0])
        for tokens in token_lists:
            terms.extend([vocabulary.setdefault(token, len(vocabulary)) for token in tokens])
            ends.append(len(terms))
        self.vocabulary = vocabulary
        self.size = len(ends) - 1
        short = len(terms) < 2**31
        bounds = np.array(ends, np.int32 if short else np.int64)
        once = np.ones(len(terms), np.int32)
        columns = np.frombuffer(terms, np.int32)
        shape = (self.size, len(vocabulary))
        times = sparse.csr_array((once, columns, bounds), shape).tocsc()
        times.sum_duplicates()  # how often each document has each term, term by term, documents ascending
        self.starts = times.indptr.astype(np.int64)
        self.documents = times.indices
        self.weights = self._weigh(times.data, np.diff(ends))
        return self

    def _weigh(self, times: NDArray[np.int32], lengths: NDArray[np.int64]) -> Floats:
        """The weight of every posting, of how often the document has the term; slice by slice, as columns of
        64-bit numbers for all postings would not fit.
        """
        frequency = np.diff(self.starts)
        mean = float(lengths.mean()) if lengths.any() else 1.0
        odds = (self.size - frequency + 0.5) / (frequency + 0.5)
        idf = np.log1p(odds)
        terms = np.arange(len(idf), dtype=np.int32)
        term = np.repeat(terms, frequency)
        weights = np.empty(len(times), dtype=np.float32)
        for start in range(0, len(term), _SLICE):
            part = slice(start, start + _SLICE)
            tf = times[part].astype(float)
            length = lengths[self.documents[part]]
            normal = 1 - self.b + self.b * length / mean
            saturation = tf + self.k1 * normal
            weights[part] = idf[term[part]] * tf / saturation
        return weights

    def scores(self, tokens: Iterable[str]) -> Floats:
        """Score of every document for these query tokens, float32; 0 where no token occurs. The order of the
        tokens does not matter, to the last bit.
        """
        times = Counter(self.vocabulary[token] for token in tokens if token in self.vocabulary)
        common = [term for term in sorted(times) if self._is_common(term)]
        scores = self._sum_of_postings(sorted(times.keys() - common), times)
        for term in common:
            column = self._column(term)
            scores += column if times[term] == 1 else times[term] * column
        return scores

    def _column(self, term: int) -> Floats:
        """The weights of a common term in all documents."""
        column = self._columns.get(term)
        if column is None:
            column = self._sum_of_postings([term], {term: 1})
            if (len(self._columns) + 1) * column.nbytes <= _COLUMN_BYTES:
                self._columns[term] = column
        return column

    def _postings(self, term: int) -> int:
        return int(self.starts[term + 1] - self.starts[term])

    def _is_common(self, term: int) -> bool:
        return self._postings(term) * _COMMON > self.size

    def _sum_of_postings(self, terms: Sequence[int], times: Mapping[int, int]) -> Floats:
        """The sum of the weights of some terms in every document, each as often as the query has it."""
        if not terms:
            return np.zeros(self.size, dtype=np.float32)
        documents = []
        weights = []
        for term in terms:
            postings = slice(self.starts[term], self.starts[term + 1])
            documents.append(self.documents[postings])
            part = self.weights[postings]
            weights.append(part if times[term] == 1 else times[term] * part)
        where = np.concatenate(documents)
        sums = np.bincount(where, np.concatenate(weights), self.size)
        return sums.astype(np.float32)

    def search(self, tokens: Iterable[str], k: int = 10) -> Top:
        """The ``k`` best documents (indices, scores), score descending, then index ascending. Only documents
        with a score above 0 are returned, so there may be fewer than ``k``.
        """
        return top_k(self.scores(tokens), k)

    def rarest(self, tokens: Iterable[str], n: int) -> list[str]:
        """The ``n`` indexed tokens that the fewest documents hold; equals in alphabetical order."""
        indexed = [token for token in tokens if token in self.vocabulary]
        indexed.sort()
        indexed.sort(key=lambda token: self._postings(self.vocabulary[token]))
        return indexed[:n]

    def save(self, folder: Path, name: str) -> None:
        """Write the index of words as arrays of a name, into a folder of :func:`store.new_folder`."""
        text = "\n".join(self.vocabulary)
        terms = np.frombuffer(text.encode(), np.uint8)
        np.save(folder / f"{name}.starts.npy", self.starts)
        np.save(folder / f"{name}.documents.npy", self.documents)
        np.save(folder / f"{name}.weights.npy", self.weights)
        np.save(folder / f"{name}.terms.npy", terms)

    @classmethod
    def load(cls, folder: Path, name: str, size: int) -> "BM25":
        """Open a saved index of so many documents; its postings stay on disk and are paged in as needed.
        Raises RunError where a file of it is missing or does not fit.
        """
        index = cls()
        index.size = size
        index.starts = mapped(folder, f"{name}.starts")
        index.documents = mapped(folder, f"{name}.documents")
        index.weights = mapped(folder, f"{name}.weights")
        text = bytes(mapped(folder, f"{name}.terms")).decode()
        index.vocabulary = {term: code for code, term in enumerate(text.splitlines())}
        whole = len(index.starts) == len(index.vocabulary) + 1
        postings = int(index.starts[-1])
        if not whole or not postings == len(index.documents) == len(index.weights):
            raise RunError(f"the index in {folder.name!r} is damaged: its files do not fit; build it again")
        return index


@RETRIEVERS.register("bm25", weighted=True)
class Lexical:
    """BM25 over texts with ids, of folded words (:mod:`crs_lib.core.text`), nothing stemmed or dropped.

    Exact, small, memory-mapped; up to some millions of documents. Of a query of more than 64 distinct words
    the rarest count: long texts may be queries.
    """

    def __init__(self, texts: Mapping[str, str] | None = None, k1: float = 1.2, b: float = 0.75) -> None:
        self.ids: Ids = list(texts or ())
        self.index = BM25(k1, b)
        if texts:
            self.index.fit(map(words, texts.values()))

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` best documents; only those that share a word with the query."""
        tokens = words(query)
        distinct = set(tokens)
        if len(distinct) > _MOST_WORDS:
            rarest = set(self.index.rarest(distinct, _MOST_WORDS))
            tokens = [token for token in tokens if token in rarest]
        return named(self.ids, *self.index.search(tokens, k))
