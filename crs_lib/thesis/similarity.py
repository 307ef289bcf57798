"""Similarity of sentences, the thesis's baseline: TF-IDF fitted once on the catalogue, or embeddings."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.evaluate.choose import SPACES
from crs_lib.retrieval import encoders

_MAX_FEATURES = 4096
_TERMS: Any = {"stop_words": "english", "ngram_range": (1, 2)}


class SentenceSpace(Protocol):
    """Turns texts into rows that :func:`cosines` compares. ``name`` identifies the space."""

    name: str

    def rows(self, texts: Sequence[str]) -> Any: ...


@SPACES.register("tfidf", vocabulary=True)
class TfidfSpace:
    """TF-IDF over words and pairs of words, English stop words left out, rows of length 1, fitted once on
    ``documents``. Without a ``vocabulary`` the ``max_features`` most frequent terms are taken, of equals the
    first by alphabet: the same on every machine. Raises InputError where no document has a word.
    """

    def __init__(
        self,
        documents: Iterable[str],
        vocabulary: Sequence[str] | None = None,
        max_features: int = _MAX_FEATURES,
    ) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = list(documents)
        origin = "given"
        try:
            if vocabulary is None:
                origin = "stable"
                vocabulary = _most_frequent(texts, max_features)
            vectorizer = TfidfVectorizer(**_TERMS, vocabulary=list(vocabulary))
            self._vectorizer = vectorizer.fit(texts)
        except ValueError as error:
            problem = "the documents of a TF-IDF space hold no word; is the catalogue empty?"
            raise InputError(problem) from error
        self.vocabulary = tuple(vocabulary)
        self.name = f"tfidf, {len(self.vocabulary)} terms, {origin} vocabulary"

    def rows(self, texts: Sequence[str]) -> Any:
        """A sparse (texts, terms) matrix; rows have length 1, or 0 where a text has no known term."""
        if not len(texts):
            from scipy.sparse import csr_array

            return csr_array((0, len(self.vocabulary)))
        return self._vectorizer.transform(texts)


def _most_frequent(texts: Sequence[str], most: int) -> list[str]:
    """The most frequent terms of texts, sorted; of equally frequent ones the first by alphabet."""
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(**_TERMS)
    counts = counter.fit_transform(texts)
    totals = np.asarray(counts.sum(axis=0)).ravel()
    terms = counter.get_feature_names_out()  # by alphabet
    order = np.argsort(-totals, kind="stable")
    return sorted(terms[order[:most]].tolist())


@SPACES.register("minilm")
def _minilm(documents: Iterable[str], vocabulary: Sequence[str] | None = None) -> "EmbeddingSpace":
    """Embeddings of MiniLM, which is not fitted on the documents."""
    return EmbeddingSpace("minilm")


@SPACES.register("minilm_or_tfidf", vocabulary=True)
def _minilm_or_tfidf(documents: Iterable[str], vocabulary: Sequence[str] | None = None) -> SentenceSpace:
    """``minilm`` where its weights are here, else ``tfidf``, which the column ``embedder`` names."""
    try:
        return EmbeddingSpace("minilm")
    except InputError as error:
        print(f"similarity: TF-IDF, as MiniLM is not here ({error})", file=sys.stderr)
    return TfidfSpace(documents, vocabulary)


class EmbeddingSpace:
    """Sentence embeddings of an encoder of :mod:`crs_lib.retrieval.encoders`, rows of length 1."""

    def __init__(self, encoder: str = "minilm") -> None:
        self._encoder = encoders.ENCODERS.create(encoder)
        self.name = encoder

    def rows(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """(texts, d); a text without tokens may have a row of zeros."""
        return self._encoder.encode(list(texts)).sentences.astype(np.float64)


def cosines(rows: Any, first: Sequence[int], second: Sequence[int]) -> NDArray[np.float64]:
    """Cosine of pairs of rows, in [-1, 1] (TF-IDF: [0, 1]); 0 where a row is zero. No BLAS, no dense copy."""
    if not len(first):
        return np.zeros(0)
    left = rows[np.asarray(first)]
    right = rows[np.asarray(second)]
    multiply = getattr(left, "multiply", left.__mul__)  # of sparse rows, or dense ones
    sums = multiply(right).sum(axis=1)
    return np.asarray(sums, dtype=np.float64).ravel()


def similarities(
    space: SentenceSpace, texts: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], float]:
    """The cosine of each pair of texts, in [-1, 1]; the texts are made rows at once, in their order."""
    numbers = dict(zip(texts, range(len(texts)), strict=True))
    first = [numbers[text] for text, _ in pairs]
    second = [numbers[text] for _, text in pairs]
    values = cosines(space.rows(texts), first, second)
    return dict(zip(pairs, values.tolist(), strict=True))


def read_vocabulary(path: str | Path) -> list[str]:
    """The terms of a vocabulary file, one a line; InputError where it cannot be read or is empty."""
    file = Path(path)
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the vocabulary {file.name} ({error})") from error
    terms = [line for line in lines if line.strip()]
    if not terms or len(set(terms)) != len(terms):
        raise InputError(f"{file.name} must hold distinct terms, one a line; it has {len(terms)} lines")
    return terms
