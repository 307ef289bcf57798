"""Similarity of sentences, the thesis's baseline: TF-IDF fitted once on the catalogue, or embeddings."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError

_MAX_FEATURES = 4096


class SentenceSpace(Protocol):
    """Turns texts into rows that :func:`cosines` compares. ``name`` identifies the space."""

    name: str

    def rows(self, texts: Sequence[str]) -> Any: ...


class TfidfSpace:
    """TF-IDF over words and pairs of words, English stop words left out, rows of length 1, fitted once on
    ``documents``. Without a ``vocabulary`` the ``max_features`` most frequent terms are taken, of equals the
    first by alphabet: the same on every machine. Raises InputError where no document has a word.
    """

    def __init__(
        self, documents: Iterable[str], vocabulary: Sequence[str] | None = None,
        max_features: int = _MAX_FEATURES,
    ) -> None:  # fmt: skip
        from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

        documents, given = list(documents), vocabulary is not None
        words: dict[str, Any] = {"stop_words": "english", "ngram_range": (1, 2)}
        try:
            if vocabulary is None:
                counter = CountVectorizer(**words)
                total = np.asarray(counter.fit_transform(documents).sum(axis=0)).ravel()
                terms = zip(-total, counter.get_feature_names_out().tolist(), strict=True)
                vocabulary = sorted(term for _, term in sorted(terms)[:max_features])
            self._vectorizer = TfidfVectorizer(**words, vocabulary=list(vocabulary)).fit(documents)
        except ValueError as error:
            told = "the documents of a TF-IDF space hold no word; is the catalogue empty?"
            raise InputError(told) from error
        self.vocabulary = tuple(vocabulary)
        self.name = f"tfidf, {len(self.vocabulary)} terms, {'given' if given else 'stable'} vocabulary"

    def rows(self, texts: Sequence[str]) -> Any:
        """A sparse (texts, terms) matrix; rows have length 1, or 0 where a text has no known term."""
        if not len(texts):
            from scipy.sparse import csr_array

            return csr_array((0, len(self.vocabulary)))
        return self._vectorizer.transform(texts)


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
