"""Writes low-rank updates of an encoder in the form that crs_lib/retrieval/lowrank.py reads."""

import json

import numpy as np

from crs_lib.core import tables
from crs_lib.retrieval.lowrank import digest


def write(path, updates, record):
    """Write updates of the same weights and one rank: of each factor's column 8-bit numbers and a scale.

    ``record["updates"]`` describes each by name; its ``digest``, and ``weights`` and ``rank`` of all, are
    added. Equal updates give equal bytes. A number is off by at most 1/254 of its column's largest.
    """
    first = next(iter(updates.values()))
    weights = [[weight, len(one), two.shape[1]] for weight, (one, two) in first.items()]
    arrays = {}
    described = {}
    for name, factors in updates.items():
        codes, scales = _coded(factors[weight] for weight, _, _ in weights)
        arrays[f"{name} codes"] = codes
        arrays[f"{name} scales"] = scales
        described[name] = {**record["updates"][name], "digest": digest(codes, scales)}
    rank = next(iter(first.values()))[0].shape[1]
    whole = {**record, "updates": described, "weights": weights, "rank": rank}
    arrays["record"] = np.array(json.dumps(whole, sort_keys=True))
    with tables.write_aside(path, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _coded(pairs):
    """The 8-bit numbers and the scales of factors, end to end."""
    codes = []
    scales = []
    for one, two in pairs:
        for column in (one, two.T):
            largest = np.maximum(np.abs(column).max(axis=0), 1e-12)
            scale = largest.astype(np.float32) / np.float32(127)
            codes.append(np.rint(column / scale).astype(np.int8).ravel())
            scales.append(scale)
    return np.concatenate(codes), np.concatenate(scales)
