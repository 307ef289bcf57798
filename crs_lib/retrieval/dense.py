"""Dense vectors of texts: encoders by name, each giving sentence and token vectors, cached by content."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.registry import Registry
from crs_lib.core.text import words
from crs_lib.core.threads import one_thread
from crs_lib.retrieval import lowrank, minilm, onnx, vector_cache

Floats = NDArray[np.float32]


class Encoded(NamedTuple):
    """Vectors of a list of texts, every row of length 1 (or 0 for a text without tokens).

    ``sentences`` is (texts, d) float32; ``tokens`` is (all tokens, d), float16 as it is stored, those of
    text i at ``starts[i]:starts[i + 1]``.
    """

    sentences: Floats
    tokens: NDArray[np.floating]
    starts: NDArray[np.int64]

    def of(self, text: int) -> Floats:
        """Token vectors of one text, (tokens, d) float32."""
        rows: Floats = self.tokens[self.starts[text] : self.starts[text + 1]].astype(np.float32)
        return rows


class Encoder(Protocol):
    """Turns texts into vectors; the same text gives the same vectors in every batch."""

    name: str

    def encode(self, texts: Sequence[str]) -> Encoded: ...


ENCODERS: Registry[Encoder] = Registry("encoder")


@ENCODERS.register("minilm", dimension=384, needs="embed")
class MiniLM:
    """all-MiniLM-L6-v2 (22 million weights): mean-pooled sentences, last-layer tokens.

    Run by onnxruntime where that and the ONNX file are found (``data get minilm-onnx``), else in numpy,
    two to three times slower; the two agree to about 1e-5. Texts are cut at 256 word pieces; token vectors
    leave the two marker tokens out. The number of cores changes the time, not the vectors.
    Source: Wang et al. (2020), MiniLM; Reimers and Gurevych (2019), Sentence-BERT.
    """

    name = "minilm"

    def __init__(self) -> None:
        fast = onnx.available("minilm-onnx")
        self._model: onnx.OnnxModel | minilm.Model = onnx.OnnxModel("minilm-onnx") if fast else minilm.Model()

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Vectors of the texts; an empty text has a sentence vector of its markers and no token."""
        return pooled(texts, self._model)


class UpdatedMiniLM:
    """all-MiniLM-L6-v2 with a low-rank update added to its weights, in numpy; otherwise as :class:`MiniLM`.

    Source: Hu et al. (2022), LoRA: low-rank adaptation of large language models.
    """

    def __init__(self, name: str, update: lowrank.Factors) -> None:
        """``name`` is unique to the update: vectors are cached under it."""
        self.name = name
        self._model = minilm.Model(update)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Vectors of the texts; an empty text has a sentence vector of its markers and no token."""
        return pooled(texts, self._model)


@ENCODERS.register("gte-small", dimension=384, needs="onnx")
class GteSmall:
    """gte-small (33 million weights, 12 layers) by onnxruntime: mean-pooled sentences, last-layer tokens.

    Its files come with ``python -m crs_lib data get gte-small``. Cosines of any two texts lie between 0.7 and
    1; only their order means anything. Source: Li et al. (2023), Towards general text embeddings with
    multi-stage contrastive learning.
    """

    name = "gte-small"

    def __init__(self) -> None:
        self._model = onnx.OnnxModel("gte-small")

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Vectors of the texts; an empty text has a sentence vector of its markers and no token."""
        return pooled(texts, self._model)


@ENCODERS.register("hashing", dimension=512, needs="")
class Hashing:
    """Character 3- to 5-grams of words, hashed into 512 signed cells: no model, no training.

    A word of at most three letters counts a tenth of one of four, one of eight or more five times that.
    Finds inflected and misspelt forms of the same word, nothing beyond spelling. It stands in for
    MiniLM where that is not installed; every result says which encoder made it.
    Source: Weinberger et al. (2009), Feature hashing for large scale multitask learning.
    """

    name = "hashing"
    dimension = 512

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Vectors of the texts; a text without words has zero vectors."""
        found = [_hashed_text(text) for text in texts]
        sentences = [sentence for _, sentence in found]
        made = np.stack(sentences) if found else np.zeros((0, self.dimension), np.float32)
        return _joined(made, [rows.astype(np.float16) for rows, _ in found])

    def sentences(self, texts: Sequence[str]) -> Floats:
        """The sentence vectors of :meth:`encode` alone: no token vector is kept."""
        out = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for i, text in enumerate(texts):
            out[i] = _hashed_text(text)[1]
        return out


def _hashed_text(text: str) -> tuple[Floats, Floats]:
    """Token rows and sentence vector of a text for :class:`Hashing`."""
    found = words(text)
    rows = np.stack([_hashed(w) for w in found] or [np.zeros(Hashing.dimension, np.float32)])
    weights = np.array([max(0.1, min(len(w), 8) - 3) for w in found] or [0.0], dtype=np.float32)
    sentence: Floats = unit((rows * weights[:, None]).sum(axis=0, keepdims=True))[0]
    return rows[: len(found)], sentence


def sentence_vectors(model: Encoder, texts: Sequence[str]) -> Floats:
    """The sentence vectors of texts, without token vectors where it can; equal to ``encode``'s."""
    alone: Callable[[Sequence[str]], Floats] | None = getattr(model, "sentences", None)
    return alone(texts) if alone else model.encode(texts).sentences


@lru_cache(maxsize=20_000)
def _hashed(word: str) -> Floats:
    """The vector of one word for :class:`Hashing`, of length 1; words that come often are kept."""
    row = np.zeros(Hashing.dimension, dtype=np.float32)
    framed = f"<{word}>".encode()
    for order in (3, 4, 5):
        for start in range(max(1, len(framed) - order + 1)):
            code = zlib.crc32(framed[start : start + order])
            row[code % Hashing.dimension] += 1.0 if code >> 31 else -1.0
    out: Floats = unit(row[None])[0]
    return out


class Hidden(Protocol):
    """A model that gives the last layer's states, batch by batch, markers first and last."""

    def hidden(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Floats]]: ...


def pooled(texts: Sequence[str], model: Hidden) -> Encoded:
    """Mean-pooled sentence vectors and the token vectors of texts, each of length 1."""
    sentences = np.zeros((len(texts), minilm.WIDTH), dtype=np.float32)
    tokens: list[NDArray[np.float16]] = [np.zeros((0, minilm.WIDTH), dtype=np.float16)] * len(texts)
    for part, states in model.hidden(texts):
        sentences[part] = unit(states.mean(axis=1))
        for i, rows in zip(part, unit(states[:, 1:-1]), strict=True):
            tokens[i] = rows.astype(np.float16)
    return _joined(sentences, tokens)


def unit(rows: Floats) -> Floats:
    """Rows scaled to length 1; zero rows stay zero."""
    length = np.sqrt((rows * rows).sum(axis=-1, keepdims=True))
    out: Floats = (rows / np.maximum(length, np.float32(1e-12))).astype(np.float32)
    return out


def widened(encoded: Encoded) -> Encoded:
    """The same vectors with float32 tokens: twice the memory, no conversion at every query."""
    return encoded._replace(tokens=encoded.tokens.astype(np.float32))


def best_matches(query: Floats, documents: Encoded) -> Floats:
    """The best match of each query token in each text, (texts, query tokens) in [-1, 1]; 0 without tokens."""
    lengths = np.diff(documents.starts)
    best = np.zeros((len(lengths), len(query)), dtype=np.float32)
    if not len(query) or not lengths.any():
        return best
    filled = lengths > 0
    with one_thread():
        match = documents.tokens.astype(np.float32, copy=False) @ query.T
    best[filled] = np.maximum.reduceat(match, documents.starts[:-1][filled], axis=0)
    return best


def max_sim(query: Floats, documents: Encoded, weights: Floats | None = None) -> Floats:
    """Late-interaction score of every text, in [-1, 1]: mean over query tokens of the best token match.

    ``query`` is (tokens, d); ``weights`` one number a query token (default equal). Texts without tokens,
    and all texts for a query without tokens, score 0. Source: Khattab and Zaharia (2020), ColBERT.
    """
    best = best_matches(query, documents)
    share = np.full(len(query), 1.0) if weights is None else np.asarray(weights, dtype=np.float64)
    share = (share / max(float(share.sum()), 1e-12)).astype(np.float32)
    out: Floats = (best * share).sum(axis=1)
    return out


def _joined(sentences: Floats, tokens: Sequence[NDArray[np.float16]]) -> Encoded:
    starts = np.concatenate([[0], np.cumsum([len(rows) for rows in tokens])]).astype(np.int64)
    joined = np.concatenate(tokens) if len(tokens) else np.zeros((0, sentences.shape[1]), np.float16)
    return Encoded(sentences, joined, starts)


def cached(
    name: str, texts: Sequence[str], make: Callable[[], Encoder], folder: Path | None = None
) -> Encoded:
    """Vectors of the texts, sentences and tokens rounded to float16: from the cache, or made and stored.

    The cache is one file an encoder, keyed by text (:mod:`crs_lib.retrieval.vector_cache`); the encoder is
    only made where a text is missing. MiniLM has one file for onnxruntime and one for numpy: their vectors
    differ once they are rounded, and a result must not hang on which of them filled the cache.
    """

    def encode(missing: list[str]) -> list[NDArray[np.float16]]:
        made = make().encode(missing)
        return [
            np.concatenate([made.sentences[i : i + 1], made.of(i)]).astype(np.float16)
            for i in range(len(missing))
        ]

    kept = "minilm-onnx" if name == "minilm" and onnx.available("minilm-onnx") else name
    rows = vector_cache.lookup(vector_cache.file_of(kept, folder), texts, encode, np.float16)
    sentences = np.stack([part[0] for part in rows]) if rows else np.zeros((0, 1), np.float16)
    return _joined(sentences.astype(np.float32), [part[1:] for part in rows])
