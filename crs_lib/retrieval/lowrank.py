"""Low-rank updates of an encoder: the few numbers that turn a general encoder into a specialist.

Source: Hu et al. (2022), LoRA: low-rank adaptation of large language models. The files are written by
``benchmarks/tune_minilm.py``: of each factor's column 8-bit numbers and a scale.
"""

import hashlib
import json
import zipfile
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError

Floats = NDArray[np.float32]
Codes = NDArray[np.int8]
Factors = Mapping[str, tuple[Floats, Floats]]
_DAMAGE = (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error)


def added(tensors: Mapping[str, Floats], factors: Factors) -> dict[str, Floats]:
    """Weights (inputs, outputs) with an update added; InputError where one is missing or of other shape."""
    sums = dict(tensors)
    for name, (left, right) in factors.items():
        shape = (len(left), right.shape[1])
        if name not in sums or sums[name].shape != shape:
            raise InputError(f"the update does not fit the encoder: weight {name!r} has another shape")
        weight = sums[name] + left @ right
        sums[name] = weight.astype(np.float32)
    return sums


class UpdateFile(NamedTuple):
    """A file of low-rank updates and its record: how each was made, what taught it, its numbers' sha256."""

    path: Path
    record: Mapping[str, Any]

    @property
    def names(self) -> list[str]:
        """The updates in the file."""
        return list(self.record["updates"])

    def factors(self, name: str) -> Factors:
        """By published weight name the two factors (inputs, rank) and (rank, outputs), float32. Their product
        is what is added to that weight (inputs, outputs). InputError for an unknown name and for numbers that
        are not those of the record.
        """
        if name not in self.names:
            raise InputError(f"{self.path.name} holds no update {name!r}; expected {', '.join(self.names)}")
        codes = _stored(self.path, f"{name} codes")
        scales = _stored(self.path, f"{name} scales")
        if digest(codes, scales) != self.record["updates"][name]["digest"]:
            raise _damaged(self.path, f"update {name!r} has another sha256 than its record")
        rank = int(self.record["rank"])
        factors: dict[str, tuple[Floats, Floats]] = {}
        for weight, inputs, outputs in self.record["weights"]:
            left, codes, scales = _factor(codes, scales, inputs, rank)
            right, codes, scales = _factor(codes, scales, outputs, rank)
            factors[str(weight)] = left, np.ascontiguousarray(right.T)
        return factors


def _factor(codes: Codes, scales: Floats, size: int, rank: int) -> tuple[Floats, Codes, Floats]:
    """The first factor, (size, rank), of what is stored end to end; and what follows it."""
    end = size * rank
    rows = codes[:end].reshape(size, rank).astype(np.float32)
    return rows * scales[:rank], codes[end:], scales[rank:]


@lru_cache(maxsize=4)
def read(path: Path) -> UpdateFile | None:
    """The file's record; None where there is no such file. InputError for a damaged one."""
    if not path.is_file():
        return None
    try:
        record = json.loads(str(_stored(path, "record")))
    except ValueError as error:
        raise _damaged(path, error) from error
    if not isinstance(record, dict) or not {"updates", "weights", "rank"} <= record.keys():
        raise _damaged(path, "its record lacks updates, weights or rank")
    return UpdateFile(path, record)


def _stored(path: Path, name: str) -> NDArray[Any]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            array: NDArray[Any] = stored[name]
            return array
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, why: object) -> InputError:
    mend = "install the package again, or name an encoder without +tuned"
    return InputError(f"{path.name} cannot be read as low-rank updates ({why}); {mend}")


def digest(codes: Codes, scales: Floats) -> str:
    """The sha256 of an update's numbers."""
    content = codes.tobytes() + scales.tobytes()
    return hashlib.sha256(content).hexdigest()
