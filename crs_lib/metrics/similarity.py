"""Similarity of sentences: TF-IDF in a space fitted once on the catalogue, or sentence embeddings.

The baseline that the thesis compares its score with. The ``name`` of a space stands in every
table's provenance.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError

MAX_FEATURES = 4096
_WORD = re.compile(r"\b\w\w+\b")
_BREAK = "\x00"
_STOP, _UNKNOWN, _TEXT = -1, -2, -3
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_"  # words of one letter are none
_BYTES = bytes(c if c > 127 or chr(c).isalnum() or c in b"_\x00" else 32 for c in range(256)).lower()


class SentenceSpace(Protocol):
    """Turns texts into rows that :func:`cosines` compares. ``name`` identifies the space."""

    name: str

    def rows(self, texts: Sequence[str]) -> Any: ...


class TfidfSpace:
    """TF-IDF over words and pairs of words, English stop words left out, rows of length 1.

    Fitted once on ``documents``. ``vocabulary`` fixes the features. Without it the ``max_features`` most
    frequent terms are taken, of equals the first by alphabet: the same on every machine, where an unstable
    sort would let the processor choose. Raises InputError where no document has a word.
    """

    def __init__(
        self,
        documents: Iterable[str],
        vocabulary: Sequence[str] | None = None,
        max_features: int = MAX_FEATURES,
    ) -> None:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        self._stop = ENGLISH_STOP_WORDS
        documents = list(documents)
        known = None if vocabulary is None else set(vocabulary)
        total: Counter[str] = Counter()
        films: Counter[str] = Counter()
        for document in documents:
            terms = self._terms(document)
            kept = terms if known is None else [term for term in terms if term in known]
            total.update(kept)
            films.update(set(kept))
        if vocabulary is None:
            ranked = sorted(total, key=lambda term: (-total[term], term))[:max_features]
            vocabulary = sorted(ranked)
        if not vocabulary:
            raise InputError("the documents of a TF-IDF space hold no word; is the catalogue empty?")
        self.vocabulary = tuple(vocabulary)
        self.name = f"tfidf, {len(self.vocabulary)} terms, {'given' if known else 'stable'} vocabulary"
        counts = np.array([films[term] for term in self.vocabulary], dtype=np.float64)
        self.idf = np.log((1 + len(documents)) / (1 + counts)) + 1
        self._index()

    def _terms(self, text: str) -> list[str]:
        words = [word for word in _WORD.findall(text.lower()) if word not in self._stop]
        return words + [f"{a} {b}" for a, b in pairwise(words)]

    def _index(self) -> None:
        """Numbers for all words that occur in the vocabulary, and the columns of words and pairs."""
        parts = sorted({word for term in self.vocabulary for word in term.split(" ")})
        number = {word: place for place, word in enumerate(parts)}
        self._column = np.full(len(parts), -1, dtype=np.int64)
        pairs = {}
        for column, term in enumerate(self.vocabulary):
            first, _, second = term.partition(" ")
            if second:
                pairs[number[first] * len(parts) + number[second]] = column
            else:
                self._column[number[first]] = column
        number |= dict.fromkeys([*self._stop, *_LETTERS], _STOP) | {_BREAK: _TEXT}
        self._number = {_encoded(word): place for word, place in number.items()}
        self._pairs = np.array(sorted(pairs), dtype=np.int64)
        self._pair_column = np.array([pairs[pair] for pair in sorted(pairs)], dtype=np.int64)

    def rows(self, texts: Sequence[str]) -> Any:
        """A sparse (texts, terms) matrix; rows have length 1, or 0 where a text has no known term."""
        from scipy.sparse import csr_array

        found = _words(texts)
        numbers = map(self._number.get, found, repeat(_UNKNOWN))
        ids = np.fromiter(numbers, dtype=np.int64, count=len(found))
        ids = ids[ids != _STOP]
        row = np.cumsum(ids == _TEXT)
        known = ids >= 0
        column = np.where(known, self._column[ids], -1)
        single = column >= 0
        pair_row, pair_column = self._pairs_in(ids, row, known)
        where = np.concatenate([row[single], pair_row]), np.concatenate([column[single], pair_column])
        shape = (len(texts), len(self.vocabulary))
        matrix = csr_array((np.ones(len(where[0])), where), shape=shape)
        matrix.sum_duplicates()
        matrix.data *= self.idf[matrix.indices]
        owner = np.repeat(np.arange(len(texts)), np.diff(matrix.indptr))
        length = np.sqrt(np.bincount(owner, matrix.data**2, minlength=len(texts)))
        matrix.data /= length[owner]
        return matrix

    def _pairs_in(
        self, ids: NDArray[np.int64], row: NDArray[np.int64], known: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column of every pair of neighbouring words that the vocabulary has."""
        if not len(self._pairs) or len(ids) < 2:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        both = np.flatnonzero(known[:-1] & known[1:])
        keys = ids[both] * len(self._column) + ids[both + 1]
        rank = np.minimum(np.searchsorted(self._pairs, keys), len(self._pairs) - 1)
        hit = self._pairs[rank] == keys
        return row[both[hit]], self._pair_column[rank[hit]]


def _words(texts: Sequence[str]) -> list[bytes]:
    """The lower-cased words of all texts in UTF-8, single ASCII letters among them; a break between texts."""
    plain = [
        text if text.isascii() else " ".join(_WORD.findall(text.lower()))
        for text in (text.replace(_BREAK, " ") for text in texts)
    ]
    return _encoded(f" {_BREAK} ".join(plain)).translate(_BYTES).split()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class EmbeddingSpace:
    """Sentence embeddings of an encoder of :mod:`crs_lib.retrieval.encoders`, rows of length 1."""

    def __init__(self, encoder: str = "minilm") -> None:
        from crs_lib.retrieval import encoders

        self._encoder = encoders.ENCODERS.create(encoder)
        self.name = encoder

    def rows(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """(texts, d); a text without tokens may have a row of zeros."""
        return self._encoder.encode(list(texts)).sentences.astype(np.float64)


def cosines(rows: Any, first: Sequence[int], second: Sequence[int]) -> NDArray[np.float64]:
    """Cosine of pairs of rows, in [-1, 1] (TF-IDF: [0, 1]); 0 where a row is zero. No BLAS, no dense copy."""
    if not len(first):
        return np.zeros(0)
    a, b = rows[np.asarray(first)], rows[np.asarray(second)]
    product = a.multiply(b) if hasattr(a, "multiply") else a * b
    sums: NDArray[np.float64] = np.asarray(product.sum(axis=1)).ravel()
    return sums


def read_vocabulary(path: str | Path) -> list[str]:
    """The terms of a vocabulary file, one a line; InputError where it cannot be read or is empty."""
    try:
        terms = [t for t in Path(path).read_text(encoding="utf-8").split("\n") if t.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the vocabulary {Path(path).name} ({error})") from error
    if not terms or len(set(terms)) != len(terms):
        raise InputError(f"{Path(path).name} must hold distinct terms, one a line; it has {len(terms)} lines")
    return terms
