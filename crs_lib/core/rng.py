"""Randomness with an address: the same seed and names give the same stream, in any order of use."""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Literal

import numpy as np

from crs_lib.core.errors import InputError

_JSON = json.JSONEncoder(ensure_ascii=False)
_WORD = np.dtype("<u4")
_WORDS = 4  # of 32 bits, out of the digest's eight


def check_seed(seed: object) -> int:
    """The seed as an int; raises InputError unless it is a whole number >= 0."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or int(seed) < 0:
        raise InputError(f"seed {seed!r} is not usable; give a whole number >= 0")
    return int(seed)


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """An independent generator for the address ``(seed, *names)``: the same everywhere, in any order of use.

    The names are joined without ambiguity: ("a", "b") is not ("ab",), numbers are not their texts. Raises
    InputError for a seed that is no whole number >= 0.
    """
    parts = [str(check_seed(seed))]
    for name in names:
        if type(name) is str:
            parts.append(encode_basestring(name))
        else:
            parts.append(str(name) if type(name) is int else _JSON.encode(name))
    address = f"[{', '.join(parts)}]"  # a JSON list
    digest = hashlib.sha256(address.encode()).digest()
    # The words of the number that the digest's first half writes: NumPy takes an array in half the time.
    entropy = np.frombuffer(digest, _WORD, _WORDS)
    sequence = np.random.SeedSequence(entropy)
    return np.random.Generator(np.random.PCG64(sequence))


def address_seed(seed: int, *names: str | int) -> int:
    """A 31-bit seed of the address ``(seed, *names)``, for programs that take a plain number."""
    return int(stream(seed, *names).integers(0, 2**31 - 1))


@contextmanager
def one_thread(api: Literal["blas", "openmp"] | None = "blas") -> Iterator[None]:
    """Inside, the libraries of this kind (None: of both) use one thread: equal numbers on any machine."""
    with _pools(len(sys.modules)).limit(limits=1, user_api=api):
        yield


@lru_cache(maxsize=1)
def _pools(modules: int) -> Any:
    """The thread pools of all loaded libraries, looked up anew only after an import: a look takes 3 ms."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped, unused-ignore]

    return ThreadpoolController()
