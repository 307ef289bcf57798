"""The compiled matcher of the extra ``fast``: the same hits as ``matching.Matcher.scan``, with numba.

Words and forms are compared by 64-bit hashes of their folded code points; two forms with one hash are
an error when the matcher is built, and a text's word run is taken for a form on an equal hash.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.errors import RunError
from crs_lib.movies.kernel import PRIME, SEED, compiled
from crs_lib.movies.matching import Matcher
from crs_lib.text import BREAK, LONG, fold, fold_table


class Hits(NamedTuple):
    """Hits as columns: text, start and end word within the text, form; whether a cue word is ``near``."""

    text: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    form: NDArray[np.int32]
    near: NDArray[np.int32]


class FastMatcher:
    """A compiled :class:`Matcher`; made from numba's cache, after some seconds the first time."""

    def __init__(self, matcher: Matcher, cues: Mapping[str, bool] | None = None, reach: int = 0) -> None:
        self._kernel, self._reach = compiled(), reach
        words = sorted(cues or {})
        self._cues = _table([_hash(word) for word in words], [int((cues or {})[word]) for word in words])
        forms = [form.split(" ") for form in matcher.forms]
        hashes = {word: _hash(word) for form in forms for word in form}
        keys = [_run_hash([hashes[word] for word in form]) for form in forms]
        anchors = sorted(matcher.anchors.items())
        anchor_keys = [hashes[word] for word, _ in anchors]
        if len(set(keys)) < len(keys) or len(set(anchor_keys)) < len(anchor_keys):
            raise RunError(
                "two catalogue values share a hash; please report it, and leave out the extra 'fast'"
            )
        self._forms = _table(keys, list(range(len(keys))))
        pairs = [pair for _, places in anchors for pair in places]
        ends = np.cumsum([0, *(len(places) for _, places in anchors)])
        self._anchors = _table(anchor_keys, list(range(len(anchors))))
        self._ends = ends.astype(np.int32)
        self._offsets = np.array([offset for offset, _ in pairs], dtype=np.int32)
        self._lengths = np.array([length for _, length in pairs], dtype=np.int32)

    def scan(self, texts: Sequence[str]) -> Hits:
        """All hits in many texts, overlaps included; cues count ``reach`` words both ways."""
        codes = _code_points(texts)
        table = fold_table(codes)
        sizes = _lengths(texts)
        long = np.flatnonzero(table[codes] == LONG)
        if len(long):  # few texts have characters that fold to several: ß, ligatures, fractions
            texts = list(texts)
            for row in np.unique(np.searchsorted(np.cumsum(sizes), long, side="right")).tolist():
                texts[row] = fold(texts[row])
            codes, sizes = _code_points(texts), _lengths(texts)
            table = fold_table(codes)
        capacity = max(1024, 2 * len(texts))
        while True:
            out = np.empty((5, capacity), dtype=np.int32)
            n = self._kernel(
                codes, sizes, table, *self._anchors, *self._forms, *self._cues, self._reach,
                self._ends, self._offsets, self._lengths, out,
            )  # fmt: skip
            if n <= capacity:
                return Hits(*(column[:n] for column in out))
            capacity = int(n)


def _lengths(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))


def _code_points(texts: Sequence[str]) -> NDArray[np.uint32]:
    joined = "".join(texts).replace(BREAK, " ")  # no word character, though the table keeps it
    return np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def _hash(word: str) -> int:
    value = SEED
    for character in word:
        value = ((value ^ ord(character)) * PRIME) & 0xFFFFFFFFFFFFFFFF
    return value


def _run_hash(words: Sequence[int]) -> int:
    value = SEED
    for word in words:
        value = ((value ^ word) * PRIME) & 0xFFFFFFFFFFFFFFFF
        value ^= value >> 29
    return value


def _table(keys: Sequence[int], values: Sequence[int]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """An open-addressing hash table, at most half full; a slot of value -1 is free."""
    size = 16
    while size < 2 * len(keys) + 1:
        size *= 2
    slots, held = np.zeros(size, dtype=np.uint64), np.full(size, -1, dtype=np.int32)
    for key, value in zip(keys, values, strict=True):
        place = (key ^ (key >> 32)) & (size - 1)
        while held[place] >= 0:
            place = (place + 1) & (size - 1)
        slots[place], held[place] = key, value
    return slots, held


def available() -> bool:
    """Whether the extra ``fast`` is installed."""
    import importlib.util

    return importlib.util.find_spec("numba") is not None
