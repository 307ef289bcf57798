"""Finding forms in many texts in one compiled pass: the extra ``fast``, with numba.

The functions stand at module level and close over nothing, so that numba finds them again in its cache on
disk: some seconds the first time on a machine.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from crs_lib.core.text import BREAK, LONG, UNKNOWN, code_points, fold, fold_table
from crs_lib.grounding import hashing
from crs_lib.grounding.hashing import SPREAD, Hits, Tables

_LETTERS, _WORDS = np.uint64(hashing.LETTERS), np.uint64(hashing.WORDS)
_NONE, _BLANK = np.uint64(0), np.uint32(32)
_FOREIGN = -1


def scan(texts: Sequence[str], tables: Tables) -> Hits:
    """All hits in many texts, overlaps included, by text."""
    hits = _scan(texts, tables)
    if hits is None:
        hits = _scan([text if text.isascii() else _known(text) for text in texts], tables)
    assert hits is not None, "a folded text has characters without a folded form"
    return hits


def _known(text: str) -> str:
    """The text with all its characters in the fold table; folded where one folds to several (ß, ½, ﬁ)."""
    codes = code_points(text)
    if not (fold_table(codes)[codes] == LONG).any():
        return text
    folded = fold(text)
    fold_table(code_points(folded))
    return folded


def _scan(texts: Sequence[str], tables: Tables) -> Hits | None:
    """All hits; None where a character is not in the fold table, or folds to several."""
    joined = "".join(texts).replace(BREAK, " ")  # no word character, though the table keeps it
    letters = np.frombuffer(joined.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    fold_of, capacity = fold_table(np.arange(128, dtype=np.uint32)), 1024 + len(letters) // 16
    flat = (
        *tables.anchors, tables.ends, tables.offsets, tables.lengths,
        *tables.forms, tables.places, *tables.cues, tables.watched, tables.reach,
    )  # fmt: skip
    while True:
        out = np.empty((5, capacity), dtype=np.int32)
        n = int(_compiled()(letters, sizes, fold_of, *flat, out))
        if n == _FOREIGN:
            return None
        if n <= capacity:
            return Hits(*(column[:n] for column in out))
        capacity = n


@cache
def _compiled() -> Any:
    import numba

    for function in (_find, _cued):
        numba.extending.register_jitable(function)
    return numba.njit(cache=True, nogil=True)(_pass)


def _find(slots: Any, held: Any, shift: Any, key: Any) -> Any:
    """The value of a key in a :class:`hashing.Table`, or -1."""
    place = (key * SPREAD) >> shift
    while held[place] >= 0:
        if slots[place] == key:
            return held[place]
        place = (place + np.uint64(1)) & np.uint64(len(slots) - 1)
    return -1


def _pass(
    letters: Any, sizes: Any, fold_of: Any, a_slots: Any, a_held: Any, a_shift: Any,
    ends: Any, offsets: Any, lengths: Any, f_slots: Any, f_held: Any, f_shift: Any,
    places: Any, c_slots: Any, c_held: Any, c_shift: Any, watched: Any, reach: Any, out: Any,
) -> Any:  # fmt: skip
    """Write the hits of all texts to ``out`` as far as they fit; returns how many there are, or -1."""
    n, i, capacity = 0, 0, out.shape[1]
    words = np.empty(max(1, sizes.max() if len(sizes) else 1), dtype=np.uint64)
    for text in range(len(sizes)):
        count, inside, value = 0, False, _NONE
        for _ in range(sizes[text]):
            code = np.uint32(letters[i])
            i += 1
            if code >= 0x80:  # the further bytes of UTF-8
                more = 1 if code < 0xE0 else 2 if code < 0xF0 else 3
                code &= np.uint32(0x3F >> more)
                for _ in range(more):
                    code = code << np.uint32(6) | np.uint32(letters[i] & 0x3F)
                    i += 1
            folded = fold_of[code]
            if folded == _BLANK:
                if inside:
                    words[count] = value
                    count += 1
                    inside, value = False, _NONE
            elif folded >= UNKNOWN:  # LONG too
                return _FOREIGN
            elif folded != 0:
                value = value * _LETTERS + np.uint64(folded)
                inside = True
        if inside:
            words[count] = value
            count += 1
        for position in range(count):
            anchor = _find(a_slots, a_held, a_shift, words[position])
            if anchor < 0:
                continue
            for pair in range(ends[anchor], ends[anchor + 1]):
                start = position - offsets[pair]
                end = start + lengths[pair]
                if start < 0 or end > count:
                    continue
                key = _NONE
                for w in range(start, end):
                    key = key * _WORDS + words[w]
                form = _find(f_slots, f_held, f_shift, key)
                if form < 0 or places[form] != offsets[pair]:
                    continue
                if n < capacity:
                    near = watched[form] and _cued(words, start, end, count, c_slots, c_held, c_shift, reach)
                    out[0, n], out[1, n], out[2, n], out[3, n], out[4, n] = text, start, end, form, near
                n += 1
    return n


def _cued(words: Any, start: Any, end: Any, count: Any, slots: Any, held: Any, shift: Any, reach: Any) -> Any:
    """Whether a cue stands near a word run, as :func:`crs_lib.grounding.matcher.cued` says."""
    for w in range(max(0, start - reach), min(count, end + reach)):
        cue = -1 if start <= w < end else _find(slots, held, shift, words[w])
        if cue > 0:
            return True
        if cue == 0:
            for v in range(max(0, w - reach), min(count, w + 1 + reach)):
                if (v < start or v >= end) and _find(slots, held, shift, words[v]) > 0:
                    return True
    return False


def available() -> bool:
    """Whether the extra ``fast`` is installed."""
    import importlib.util

    return importlib.util.find_spec("numba") is not None
