"""The inner loop of :mod:`crs_lib.movies.fast`: plain functions that numba compiles at the first use.

They stand at module level and close over nothing, so that numba finds them again in its cache on disk.
"""

from functools import cache
from typing import Any

import numpy as np

SEED, PRIME = 0xCBF29CE484222325, 0x100000001B3  # of FNV-1a
_SEED, _PRIME, _BLANK = np.uint64(SEED), np.uint64(PRIME), np.uint32(32)


@cache
def compiled() -> Any:
    """:func:`scan`, compiled; some seconds the first time on a machine, then read from numba's cache."""
    import numba

    numba.extending.register_jitable(lookup)
    return numba.njit(cache=True, nogil=True)(scan)


def lookup(slots: Any, held: Any, key: Any) -> Any:
    """The value of a key in an open-addressing table, or -1."""
    mask = np.uint64(len(slots) - 1)
    place = (key ^ (key >> np.uint64(32))) & mask
    while held[place] >= 0:
        if slots[place] == key:
            return held[place]
        place = (place + np.uint64(1)) & mask
    return -1


def scan(
    codes: Any, sizes: Any, table: Any, a_slots: Any, a_held: Any, f_slots: Any, f_held: Any,
    c_slots: Any, c_held: Any, reach: Any, ends: Any, offsets: Any, lengths: Any, out: Any,
) -> Any:  # fmt: skip
    """Write the hits of all texts to ``out`` as far as they fit; returns how many there are."""
    n, begin, capacity = 0, 0, out.shape[1]
    words = np.empty(max(1, sizes.max() if len(sizes) else 1), dtype=np.uint64)
    for text in range(len(sizes)):
        count, inside, value = 0, False, _SEED
        for i in range(begin, begin + sizes[text]):
            folded = table[codes[i]]
            if folded == _BLANK:
                if inside:
                    words[count] = value
                    count += 1
                    inside, value = False, _SEED
            elif folded != 0:
                value = (value ^ np.uint64(folded)) * _PRIME
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
                key = _SEED
                for w in range(start, end):
                    key = (key ^ words[w]) * _PRIME
                    key ^= key >> np.uint64(29)
                form = lookup(f_slots, f_held, key)
                if form >= 0:
                    if n < capacity:
                        out[0, n], out[1, n], out[2, n], out[3, n] = text, start, end, form
                        out[4, n] = 0
                        for w in range(max(0, start - reach), min(count, end + reach)):
                            cue = -1 if start <= w < end else lookup(c_slots, c_held, words[w])
                            if cue > 0:
                                out[4, n] = 1
                            elif cue == 0:  # vouches only beside one that does so by itself
                                for v in range(max(0, w - reach), min(count, w + 1 + reach)):
                                    if (v < start or v >= end) and lookup(c_slots, c_held, words[v]) > 0:
                                        out[4, n] = 1
                    n += 1
    return n
