"""The compiled matcher of the extra ``fast``: the same hits as ``matching.Matcher.scan``, with numba.

Words and forms are compared by 64-bit hashes of their folded code points; two forms with one hash are
an error when the matcher is built, and a text's word run is taken for a form on an equal hash.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.errors import RunError
from crs_lib.movies.matching import Matcher
from crs_lib.text import LONG, fold_table

_KERNEL: list[Any] = []
_SEED, _PRIME = 0xCBF29CE484222325, 0x100000001B3


class Hits(NamedTuple):
    """Hits as columns: text, start and end word within the text, form, and whether a cue word is near."""

    text: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    form: NDArray[np.int32]
    near: NDArray[np.int32]


class FastMatcher:
    """A compiled :class:`Matcher`; building it compiles once per process (numba caches on disk)."""

    def __init__(self, matcher: Matcher, cues: Collection[str] = (), reach: int = 0) -> None:
        self._kernel, self._reach = _kernel(), reach
        self._cues = _table([_hash(word) for word in sorted(cues)], list(range(len(cues))))
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
        """All hits in many texts, overlaps included; ``near`` looks ``reach`` words both ways."""
        joined = "".join(texts)
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        table = fold_table(codes)
        if (table[codes] == LONG).any():
            from crs_lib.text import fold

            texts = [fold(text) for text in texts]
            joined = "".join(texts)
            codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
            table = fold_table(codes)
        sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
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


def _hash(word: str) -> int:
    value = _SEED
    for character in word:
        value = ((value ^ ord(character)) * _PRIME) & 0xFFFFFFFFFFFFFFFF
    return value


def _run_hash(words: Sequence[int]) -> int:
    value = _SEED
    for word in words:
        value = ((value ^ word) * _PRIME) & 0xFFFFFFFFFFFFFFFF
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


def _kernel() -> Any:
    """The compiled function, made at the first use."""
    if _KERNEL:
        return _KERNEL[0]
    import numba

    seed, prime = np.uint64(_SEED), np.uint64(_PRIME)

    @numba.njit(inline="always")  # type: ignore[untyped-decorator]
    def lookup(slots: Any, held: Any, key: Any) -> Any:
        mask = np.uint64(len(slots) - 1)
        place = (key ^ (key >> np.uint64(32))) & mask
        while held[place] >= 0:
            if slots[place] == key:
                return held[place]
            place = (place + np.uint64(1)) & mask
        return -1

    @numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
    def scan(
        codes: Any, sizes: Any, table: Any, a_slots: Any, a_held: Any, f_slots: Any, f_held: Any,
        c_slots: Any, c_held: Any, reach: Any, ends: Any, offsets: Any, lengths: Any, out: Any,
    ) -> Any:  # fmt: skip
        n, begin, capacity = 0, 0, out.shape[1]
        words = np.empty(max(1, sizes.max() if len(sizes) else 1), dtype=np.uint64)
        blank = np.uint32(32)
        for text in range(len(sizes)):
            count, inside, value = 0, False, seed
            for i in range(begin, begin + sizes[text]):
                folded = table[codes[i]]
                if folded == blank:
                    if inside:
                        words[count] = value
                        count += 1
                        inside, value = False, seed
                elif folded != 0:
                    value = (value ^ np.uint64(folded)) * prime
                    inside = True
            if inside:
                words[count] = value
                count += 1
            begin += sizes[text]
            for position in range(count):
                anchor = lookup(a_slots, a_held, words[position])
                if anchor < 0:
                    continue
                for pair in range(ends[anchor], ends[anchor + 1]):
                    start = position - offsets[pair]
                    end = start + lengths[pair]
                    if start < 0 or end > count:
                        continue
                    key = seed
                    for w in range(start, end):
                        key = (key ^ words[w]) * prime
                        key ^= key >> np.uint64(29)
                    form = lookup(f_slots, f_held, key)
                    if form >= 0:
                        if n < capacity:
                            out[0, n], out[1, n], out[2, n], out[3, n] = text, start, end, form
                            out[4, n] = 0
                            for w in range(max(0, start - reach), min(count, end + reach)):
                                if (w < start or w >= end) and lookup(c_slots, c_held, words[w]) >= 0:
                                    out[4, n] = 1
                        n += 1
        return n

    _KERNEL.append(scan)
    return scan
