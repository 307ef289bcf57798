"""Low-rank updates of an encoder: the few numbers that turn a general encoder into a specialist."""

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


class UpdateFile(NamedTuple):
    """A file of updates and its record: how each was made, what taught it, the sha256 of its numbers."""

    path: Path
    record: Mapping[str, Any]

    @property
    def names(self) -> list[str]:
        """The updates in the file."""
        return list(self.record["updates"])

    def factors(self, name: str) -> Factors:
        """By published weight name the two factors (inputs, rank) and (rank, outputs), float32.

        Their product is what is added to that weight (inputs, outputs). InputError for an unknown name and
        for numbers that are not those of the record.
        """
        if name not in self.names:
            raise InputError(f"{self.path.name} holds no update {name!r}; expected {', '.join(self.names)}")
        out: dict[str, tuple[Floats, Floats]] = {}
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                codes, scales = stored[f"{name} codes"], stored[f"{name} scales"]
        except _DAMAGE as error:
            raise _damaged(self.path, error) from error
        if _digest(codes, scales) != self.record["updates"][name]["digest"]:
            raise _damaged(self.path, f"update {name!r} has another sha256 than its record")
        rank, code, scale = int(self.record["rank"]), 0, 0
        for weight, inputs, outputs in self.record["weights"]:
            found = []
            for shape in ((inputs, rank), (outputs, rank)):
                size = shape[0] * rank
                rows = codes[code : code + size].reshape(shape).astype(np.float32)
                found.append(rows * scales[scale : scale + rank])
                code, scale = code + size, scale + rank
            out[str(weight)] = (found[0], np.ascontiguousarray(found[1].T))
        return out


@lru_cache(maxsize=4)
def read(path: Path) -> UpdateFile | None:
    """The file's record; None where there is no such file. InputError for a damaged one."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            record = json.loads(str(stored["record"]))
    except _DAMAGE as error:
        raise _damaged(path, error) from error
    if not isinstance(record, dict) or not {"updates", "weights", "rank"} <= record.keys():
        raise _damaged(path, "its record lacks updates, weights or rank")
    return UpdateFile(path, record)


_DAMAGE = (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error)


def _damaged(path: Path, why: object) -> InputError:
    return InputError(
        f"{path.name} cannot be read as low-rank updates ({why}); install the package again, or name an "
        "encoder without +tuned"
    )


def _digest(codes: NDArray[np.int8], scales: Floats) -> str:
    return hashlib.sha256(codes.tobytes() + scales.tobytes()).hexdigest()


def write(path: Path, updates: Mapping[str, Factors], record: Mapping[str, Any]) -> None:
    """Write updates of the same weights and one rank: of each factor's column 8-bit numbers and a scale.

    ``record["updates"]`` describes each by name; its ``digest``, and ``weights`` and ``rank`` of all, are
    added. Equal updates give equal bytes. A number is off by at most 1/254 of its column's largest.
    """
    first = next(iter(updates.values()))
    weights = [[weight, len(a), b.shape[1]] for weight, (a, b) in first.items()]
    rank = next(iter(first.values()))[0].shape[1]
    arrays: dict[str, NDArray[Any]] = {}
    told: dict[str, Any] = {}
    for name, factors in updates.items():
        coded = [
            _coded(part) for weight, _, _ in weights for part in (factors[weight][0], factors[weight][1].T)
        ]
        arrays[f"{name} codes"] = np.concatenate([codes.ravel() for codes, _ in coded])
        arrays[f"{name} scales"] = np.concatenate([scales for _, scales in coded])
        digest = _digest(arrays[f"{name} codes"], arrays[f"{name} scales"])
        told[name] = {**record["updates"][name], "digest": digest}
    whole = {**record, "updates": told, "weights": weights, "rank": rank}
    arrays["record"] = np.array(json.dumps(whole, sort_keys=True))
    with tables.write_aside(path, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _coded(rows: Floats) -> tuple[NDArray[np.int8], Floats]:
    scales = np.maximum(np.abs(rows).max(axis=0), 1e-12).astype(np.float32) / np.float32(127)
    return np.rint(rows / scales).astype(np.int8), scales


def added(tensors: Mapping[str, Floats], factors: Factors) -> dict[str, Floats]:
    """Weights (inputs, outputs) with an update added; InputError where one is missing or of other shape."""
    out = dict(tensors)
    for name, (one, two) in factors.items():
        if name not in out or out[name].shape != (len(one), two.shape[1]):
            raise InputError(f"the update does not fit the encoder: weight {name!r} has another shape")
        out[name] = (out[name] + one @ two).astype(np.float32)
    return out
