"""Sentence encoders as ONNX files: found beside the external data, run by onnxruntime on the CPU."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crs_lib.core import paths
from crs_lib.core.errors import InputError

Floats = NDArray[np.float32]
FILES = ("model.onnx", "tokenizer.json")
LONGEST = 256
_BATCH_TOKENS = 1024


def folder(name: str) -> Path | None:
    """Where the files of an encoder lie: ``models/<name>`` of the mirror, else of the downloads; or None."""
    roots = [root for root in (paths.mirror(), paths.external()) if root]
    places = [root / "models" / name for root in roots]
    return next((place for place in places if all((place / file).is_file() for file in FILES)), None)


def installed() -> bool:
    """Whether onnxruntime and the word pieces' package are there."""
    from importlib.util import find_spec

    return all(find_spec(name) for name in ("onnxruntime", "tokenizers"))


def available(name: str) -> bool:
    """Whether this encoder can run here: its two files and both packages."""
    return installed() and folder(name) is not None


class OnnxModel:
    """A BERT-like encoder: texts in, hidden states of the last layer out, 384 numbers a word piece.

    Batches hold texts of one length (no padding) and each product runs on one thread, so a text has the
    same vectors whatever else is encoded with it; several batches run side by side.
    """

    def __init__(self, name: str) -> None:
        """Load the encoder's files; InputError with the command where packages or files are missing."""
        if not installed():
            raise InputError(f'encoder {name!r} needs onnxruntime: pip install "crs-lib[onnx]"')
        place = folder(name)
        if place is None:
            raise InputError(f"the files of encoder {name!r} are not here; python -m crs_lib data get {name}")
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # the arena keeps the largest batch's memory for good
        self._session = onnxruntime.InferenceSession(
            str(place / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._asked = [given.name for given in self._session.get_inputs()]
        self._tokenizer: Any = Tokenizer.from_file(str(place / "tokenizer.json"))
        self._tokenizer.enable_truncation(max_length=LONGEST)
        self._tokenizer.no_padding()

    def hidden(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Floats]]:
        """Batch by batch: which texts, and their hidden states (texts, pieces, 384), markers included."""
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        parts = buckets([len(row) for row in ids], _BATCH_TOKENS)

        def work(part: list[int]) -> Floats:
            rows = np.array([ids[i] for i in part], dtype=np.int64)
            every = {
                "input_ids": rows, "attention_mask": np.ones_like(rows), "token_type_ids": np.zeros_like(rows)
            }  # fmt: skip
            out: Floats = self._session.run(None, {name: every[name] for name in self._asked})[0]
            return out

        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            for start in range(0, len(parts), 64):  # bounded: results do not pile up behind a slow reader
                batch = parts[start : start + 64]
                yield from zip(batch, pool.map(work, batch), strict=True)


def buckets(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Places of equal length together, each bucket of at most ``most`` pieces in all, at least one place."""
    by_length: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        by_length.setdefault(length, []).append(place)
    parts: list[list[int]] = []
    for length, members in sorted(by_length.items()):
        size = max(1, most // max(length, 1))
        parts += [members[start : start + size] for start in range(0, len(members), size)]
    return parts
