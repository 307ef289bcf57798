"""Randomness with an address: the same seed and names give the same stream, in any order of use."""

import hashlib
import json

import numpy as np

from crs_lib.core.errors import InputError

_JSON = json.JSONEncoder(ensure_ascii=False)


def check_seed(seed: object) -> int:
    """The seed as an int; raises InputError unless it is a whole number >= 0."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or int(seed) < 0:
        raise InputError(f"seed {seed!r} is not usable; give a whole number >= 0")
    return int(seed)


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """An independent generator for the address ``(seed, *names)``.

    ``stream(7, "movies", 3, "user")`` is the same generator on every machine, in every process and
    whatever other streams were used before it. The names are joined without ambiguity ("a", "b") is
    not ("ab",); numbers and their texts are different names.

    Raises InputError for a seed that is no whole number >= 0.
    """
    address = _JSON.encode([check_seed(seed), *names]).encode()
    entropy = int.from_bytes(hashlib.sha256(address).digest()[:16], "little")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


def address_seed(seed: int, *names: str | int) -> int:
    """A 31-bit seed of the address ``(seed, *names)``, for programs that take a plain number."""
    return int(stream(seed, *names).integers(0, 2**31 - 1))
