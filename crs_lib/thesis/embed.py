"""The extractor ``embed``: catalogue values near a text by character n-grams, as the thesis found them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crs_lib.thesis.concepts import ConceptSpace

THRESHOLD, TOP = 0.35, 3
_CHUNK = 256


class Embed:
    """Per field the ``top`` values with cosine ≥ ``threshold`` to the text.

    Both are TF-IDF vectors over the character 3- to 5-grams of blank-padded words, the weights learnt from
    the field's own values (1 + ln((1+n)/(1+df)), rows of length 1). Of equal cosines the value that comes
    first in the catalogue goes first. A blank text has none.

    All fields are compared in one sparse product: rows are texts, columns values, and a text's length
    differs by field because a field's n-grams and weights do.
    """

    name = "embed"

    def __init__(self, space: ConceptSpace, threshold: float = THRESHOLD, top: int = TOP) -> None:
        self.space, self.threshold, self.top = space, threshold, top
        self.embedder = f"char_wb 3-5 TF-IDF, top {top} at {threshold:g}"
        self._grams: dict[str, int] = {}
        self._words: dict[str, NDArray[np.int64]] = {}
        self._field = np.array([space.fields.index(name) for name in space.field], dtype=np.int64)
        self._fit()

    def _fit(self) -> None:
        from scipy.sparse import csr_array

        rows, columns = self._counted([value.lower() for value in self.space.value], learn=True)
        shape = (len(self.space), len(self._grams))
        values = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
        values.sum_duplicates()
        owner = np.repeat(np.arange(shape[0]), np.diff(values.indptr))
        field = self._field[owner]
        n_fields = len(self.space.fields)
        df = np.bincount(values.indices * n_fields + field, minlength=shape[1] * n_fields)
        df = df.reshape(shape[1], n_fields)
        sizes = np.bincount(self._field, minlength=n_fields)
        idf = np.where(df > 0, np.log((1 + sizes) / (1 + df)) + 1, 0.0)
        weight = idf[values.indices, field]
        values.data *= weight
        length = np.sqrt(np.bincount(owner, values.data**2, minlength=shape[0]))
        values.data *= weight / np.maximum(length, 1e-300)[owner]
        self._values = values.T.tocsr()
        self._squares = idf**2

    def sets(self, texts: Sequence[str]) -> list[frozenset[int]]:
        """The codes of every text."""
        found: list[frozenset[int]] = []
        for start in range(0, len(texts), _CHUNK):
            found += self._chunk(texts[start : start + _CHUNK])
        return found

    def _chunk(self, texts: Sequence[str]) -> list[frozenset[int]]:
        from scipy.sparse import csr_array

        rows, columns = self._counted([text.lower() for text in texts], learn=False)
        counts = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(texts), len(self._grams)))
        counts.sum_duplicates()
        lengths = np.sqrt(counts.power(2) @ self._squares)
        products = counts @ self._values
        owner = np.repeat(np.arange(len(texts)), np.diff(products.indptr))
        length = lengths[owner, self._field[products.indices]]
        near = np.flatnonzero(products.data >= self.threshold * length * (1 - 1e-12))
        return self._best(owner[near], products.indices[near], products.data[near] / length[near], len(texts))

    def _best(
        self, owner: NDArray[np.int64], codes: NDArray[np.int32], cosine: NDArray[np.float64], n: int
    ) -> list[frozenset[int]]:
        """The best few values per text and field."""
        sure = cosine >= self.threshold
        owner, codes, cosine = owner[sure], codes[sure], cosine[sure]
        group = owner * len(self.space.fields) + self._field[codes]
        order = np.lexsort((codes, -cosine, group))
        ranked = group[order]
        first = np.searchsorted(ranked, ranked)
        kept = order[np.arange(len(order)) - first < self.top]
        found: list[set[int]] = [set() for _ in range(n)]
        for row, code in zip(owner[kept].tolist(), codes[kept].tolist(), strict=True):
            found[row].add(code)
        return [frozenset(row) for row in found]

    def _counted(self, texts: Sequence[str], *, learn: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Text and n-gram of every occurrence of an n-gram; those never learnt are left out."""
        if not learn and len(self._words) > 50_000:
            self._words.clear()
        parts, lengths = [], np.zeros(len(texts), dtype=np.int64)
        for row, text in enumerate(texts):
            for word in text.split():
                codes = self._words.get(word)
                if codes is None:
                    codes = self._word(word, learn=learn)
                parts.append(codes)
                lengths[row] += len(codes)
        columns = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        if learn:
            self._words.clear()
        return np.repeat(np.arange(len(texts)), lengths), columns

    def _word(self, word: str, *, learn: bool) -> NDArray[np.int64]:
        grams = _grams(word)
        if learn:
            codes = [self._grams.setdefault(gram, len(self._grams)) for gram in grams]
        else:
            codes = [code for gram in grams if (code := self._grams.get(gram)) is not None]
        self._words[word] = np.array(codes, dtype=np.int64)
        return self._words[word]


def _grams(word: str) -> list[str]:
    """The 3- to 5-grams of a word between two blanks; one that is shorter counts once, as a whole."""
    padded, found = f" {word} ", []
    for n in (3, 4, 5):
        found += [padded[i : i + n] for i in range(max(1, len(padded) - n + 1))]
        if len(padded) <= n:
            break
    return found
