"""Randomness with an address: the same seed and names give the same stream, in any order of use."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from crs_lib.core.errors import InputError

_JSON = json.JSONEncoder(ensure_ascii=False)
_BLOCK = 32  # numbered streams whose states are computed at once: a session's turns, most often


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
    entropy = int.from_bytes(hashlib.sha256(_address(seed, names).encode()).digest()[:16], "little")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


def address_seed(seed: int, *names: str | int) -> int:
    """A 31-bit seed of the address ``(seed, *names)``, for programs that take a plain number."""
    return int(stream(seed, *names).integers(0, 2**31 - 1))


class Streams:
    """The streams of one address by number: ``Streams(7, "words")[3]`` draws as ``stream(7, "words", 3)``.

    The states of 32 consecutive streams are computed at once, in a third of the time that :func:`stream`
    takes for each. Raises InputError as :func:`stream`.
    """

    def __init__(self, seed: int, *names: str | int) -> None:
        self._head = hashlib.sha256(f"{_address(seed, names)[:-1]}, ".encode())
        self._blocks: dict[int, NDArray[np.uint64]] = {}

    def __getitem__(self, number: int) -> np.random.Generator:
        block, place = divmod(number, _BLOCK)
        if block not in self._blocks:
            self._blocks[block] = states([self._entropy(block * _BLOCK + i) for i in range(_BLOCK)])
        state: Any = _State(self._blocks[block][place])  # numpy's types know no seeds but its own
        return np.random.Generator(np.random.PCG64(state))

    def _entropy(self, number: int) -> bytes:
        digest = self._head.copy()
        digest.update(f"{number}]".encode())
        return digest.digest()[:16]


class _State(ISeedSequence):
    """A state that is known already, in the form in which a bit generator asks for it."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint64) -> NDArray[np.uint64]:
        """The four words of PCG64, which asks for no more."""
        return self._words


def _address(seed: int, names: Iterable[str | int]) -> str:
    return _JSON.encode([check_seed(seed), *names])


def _constants(first: int, factor: int, n: int) -> NDArray[np.uint32]:
    """Two rows: the xor constants and the multipliers of ``n`` hashing steps, ``first * factor ** i``."""
    powers = [first * pow(factor, i, 2**32) % 2**32 for i in range(n + 1)]
    return np.array([powers[:-1], powers[1:]], dtype=np.uint32)[:, :, None]


_MIX, _READ = _constants(0x43B0D7E5, 0x931E8875, 16), _constants(0x8B51F9DD, 0x58F38DED, 8)
# Constants of the steps that mix each of the pool's words into the other three; its own place is a filler.
_STIR = [np.insert(_MIX[:, 4 + 3 * word : 7 + 3 * word], word, 0, axis=1) for word in range(4)]
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)


def states(entropies: Sequence[bytes]) -> NDArray[np.uint64]:
    """PCG64's four words of state for each 16 bytes of entropy, as ``numpy.random.SeedSequence`` gives them.

    Source: M. E. O'Neill, "Developing a seed_seq alternative", 2015; numpy keeps its constants for good.
    """
    words = np.frombuffer(b"".join(entropies), dtype="<u4").reshape(-1, 4).T
    pool = _hashed(words.astype(np.uint32), _MIX[:, :4])
    for word, constants in enumerate(_STIR):
        mixed = pool * _LEFT - _hashed(pool[word], constants) * _RIGHT
        mixed ^= mixed >> 16
        mixed[word] = pool[word]
        pool = mixed
    drawn = _hashed(np.concatenate([pool, pool]), _READ).astype(np.uint64)
    return np.ascontiguousarray((drawn[0::2] | drawn[1::2] << np.uint64(32)).T)


def _hashed(words: NDArray[np.uint32], constants: NDArray[np.uint32]) -> NDArray[np.uint32]:
    values: NDArray[np.uint32] = (words ^ constants[0]) * constants[1]
    values ^= values >> 16
    return values
