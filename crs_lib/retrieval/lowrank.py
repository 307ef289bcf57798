"""Low-rank updates of an encoder: the few numbers that turn a general encoder into a specialist.

Source: Hu et al. (2022), LoRA: low-rank adaptation of large language models.
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

from crs_lib.core import tables
from crs_lib.core.errors import InputError

Floats = NDArray[np.float32]
Factors = Mapping[str, tuple[Floats, Floats]]
_DAMAGE = (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error)


def added(tensors: Mapping[str, Floats], factors: Factors) -> dict[str, Floats]:
    """Weights (inputs, outputs) with an update added; InputError where one is missing or of other shape."""
    out = dict(tensors)
    for name, (one, two) in factors.items():
        if name not in out or out[name].shape != (len(one), two.shape[1]):
            raise InputError(f"the update does not fit the encoder: weight {name!r} has another shape")
        out[name] = (out[name] + one @ two).astype(np.float32)
    return out


class _UpdateFile(NamedTuple):
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
        codes, scales = _stored(self.path, f"{name} codes", f"{name} scales")
        if _digest(codes, scales) != self.record["updates"][name]["digest"]:
            raise _damaged(self.path, f"update {name!r} has another sha256 than its record")
        rank, code, scale = int(self.record["rank"]), 0, 0
        out: dict[str, tuple[Floats, Floats]] = {}
        for weight, inputs, outputs in self.record["weights"]:
            parts = []
            for size in (inputs, outputs):
                rows = codes[code : code + size * rank].reshape(size, rank).astype(np.float32)
                parts.append(rows * scales[scale : scale + rank])
                code, scale = code + size * rank, scale + rank
            out[str(weight)] = parts[0], np.ascontiguousarray(parts[1].T)
        return out


@lru_cache(maxsize=4)
def read(path: Path) -> _UpdateFile | None:
    """The file's record; None where there is no such file. InputError for a damaged one."""
    if not path.is_file():
        return None
    try:
        record = json.loads(str(_stored(path, "record")[0]))
    except ValueError as error:
        raise _damaged(path, error) from error
    if not isinstance(record, dict) or not {"updates", "weights", "rank"} <= record.keys():
        raise _damaged(path, "its record lacks updates, weights or rank")
    return _UpdateFile(path, record)


def _stored(path: Path, *names: str) -> list[NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return [stored[name] for name in names]
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, why: object) -> InputError:
    told = "install the package again, or name an encoder without +tuned"
    return InputError(f"{path.name} cannot be read as low-rank updates ({why}); {told}")


def _digest(codes: NDArray[np.int8], scales: Floats) -> str:
    return hashlib.sha256(codes.tobytes() + scales.tobytes()).hexdigest()


def write(path: Path, updates: Mapping[str, Factors], record: Mapping[str, Any]) -> None:
    """Write updates of the same weights and one rank: of each factor's column 8-bit numbers and a scale.
    ``record["updates"]`` describes each by name; its ``digest``, and ``weights`` and ``rank`` of all, are
    added. Equal updates give equal bytes. A number is off by at most 1/254 of its column's largest.
    """
    first = next(iter(updates.values()))
    weights = [[weight, len(a), b.shape[1]] for weight, (a, b) in first.items()]
    arrays: dict[str, NDArray[Any]] = {}
    described: dict[str, Any] = {}
    for name, factors in updates.items():
        columns = [part for weight, _, _ in weights for part in (factors[weight][0], factors[weight][1].T)]
        largest = [np.maximum(np.abs(column).max(axis=0), 1e-12) for column in columns]
        scales = [most.astype(np.float32) / np.float32(127) for most in largest]
        codes = [np.rint(c / s).astype(np.int8).ravel() for c, s in zip(columns, scales, strict=True)]
        arrays[f"{name} codes"], arrays[f"{name} scales"] = np.concatenate(codes), np.concatenate(scales)
        digest = _digest(arrays[f"{name} codes"], arrays[f"{name} scales"])
        described[name] = {**record["updates"][name], "digest": digest}
    rank = next(iter(first.values()))[0].shape[1]
    whole = {**record, "updates": described, "weights": weights, "rank": rank}
    arrays["record"] = np.array(json.dumps(whole, sort_keys=True))
    with tables.write_aside(path, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
