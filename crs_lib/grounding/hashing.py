"""Word runs as 64-bit numbers, and tables to look them up: what finds forms in many texts at once.

A run's hash is a polynomial in its elements modulo 2^64: of a word in its folded code points, of a form in
its words' hashes, each with a multiplier of its own. Two forms with one hash are an error when the tables
are built; a text's word run is taken for a form on an equal hash. Source: R. M. Karp and M. O. Rabin,
"Efficient randomized pattern-matching algorithms", IBM J. Res. Dev. 31(2), 1987.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import RunError
from crs_lib.grounding.matcher import Matcher

LETTERS, WORDS = 0x9E6F5B1D3C2A8475, 0xD1342543DE82EF95  # odd, of no pattern: random draws
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio (Knuth, vol. 3, 6.4)
_ALL = 2**64

Keys = NDArray[np.uint64]
Places = NDArray[np.int64]


class Hits(NamedTuple):
    """Hits as columns: text, start and end word within the text, form; whether a cue word is ``near``."""

    text: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    form: NDArray[np.int32]
    near: NDArray[np.int32]

    def take(self, rows: NDArray[np.bool_]) -> "Hits":
        """The hits of these rows."""
        return Hits(*(column[rows] for column in self))


class Table(NamedTuple):
    """An open-addressing hash table, at most a quarter full; a slot that holds -1 is free."""

    slots: Keys
    held: NDArray[np.int32]
    shift: np.uint64

    def find(self, keys: Keys) -> NDArray[np.int32]:
        """The value of every key, -1 for one that is not in the table."""
        place, mask = _place(keys, self.shift), len(self.slots) - 1
        found = np.full(len(keys), -1, dtype=np.int32)
        left = np.flatnonzero(self.held[place] >= 0)
        while len(left):
            here = place[left]
            same = self.slots[here] == keys[left]
            found[left[same]] = self.held[here[same]]
            left = left[~same]
            place[left] = (place[left] + 1) & mask
            left = left[self.held[place[left]] >= 0]
        return found


class Tables(NamedTuple):
    """A :class:`Matcher` as arrays: words that forms are looked up by, forms, and cue words.

    The word numbered ``a`` stands for forms of ``lengths[p]`` words of which it is number ``offsets[p]``, for
    ``p`` from ``ends[a]`` to ``ends[a + 1]``; a form found so counts where that is its number in ``places``
    (else another of its words tells). ``cues`` hold 1 where they vouch by themselves, else 0;
    they are looked for beside ``watched`` forms, at most ``reach`` words away.
    """

    anchors: Table
    ends: NDArray[np.int32]
    offsets: NDArray[np.int32]
    lengths: NDArray[np.int32]
    forms: Table
    places: NDArray[np.int32]
    cues: Table
    watched: NDArray[np.bool_]
    reach: int


def tables(matcher: Matcher, watched: Container[int], cues: Mapping[str, bool], reach: int) -> Tables:
    """The tables of a matcher; RunError where two of its forms or words share a hash (not seen so far)."""
    forms = [form.split(" ") for form in matcher.forms]
    hashes = {word: word_hash(word) for form in forms for word in form}
    anchors = sorted(matcher.anchors.items())
    pairs = [pair for _, places in anchors for pair in places]
    return Tables(
        table([hashes[word] for word, _ in anchors], range(len(anchors))),
        np.cumsum([0, *(len(places) for _, places in anchors)]).astype(np.int32),
        np.array([offset for offset, _ in pairs], dtype=np.int32),
        np.array([length for _, length in pairs], dtype=np.int32),
        table([run_hash((hashes[word] for word in form), WORDS) for form in forms], range(len(forms))),
        np.array(matcher.offsets, dtype=np.int32),
        table([word_hash(word) for word in cues], map(int, cues.values())),
        np.array([number in watched for number in range(len(forms))], dtype=np.bool_),
        reach,
    )


def word_hash(word: str) -> int:
    """The hash of a folded word."""
    return run_hash(map(ord, word), LETTERS)


def run_hash(values: Iterable[int], base: int) -> int:
    """The sum of ``value * base ** (values after it)``, modulo 2^64."""
    total = 0
    for value in values:
        total = (total * base + value) % _ALL
    return total


def run_hashes(values: NDArray[np.unsignedinteger], starts: Places, ends: Places, base: int) -> Keys:
    """:func:`run_hash` of many half-open runs of one sequence, by differences of one running sum."""
    n = len(values)
    sums = np.zeros(n + 1, dtype=np.uint64)
    np.cumsum(values * _powers(pow(base, -1, _ALL), n), out=sums[1:])
    hashes: Keys = (sums[ends] - sums[starts]) * _powers(base, n)[ends - 1]
    return hashes


def table(keys: Sequence[int], values: Iterable[int]) -> Table:
    """A table of these keys and values; RunError where a key occurs twice."""
    if len(set(keys)) < len(keys):
        raise RunError("two values of the catalogue share a 64-bit hash; please report it with the catalogue")
    bits = max(4, (4 * len(keys)).bit_length())
    shift = np.uint64(64 - bits)
    slots, held = np.zeros(1 << bits, dtype=np.uint64), np.full(1 << bits, -1, dtype=np.int32)
    places = _place(np.array(keys, dtype=np.uint64), shift).tolist()
    for key, value, place in zip(keys, values, places, strict=True):
        while held[place] >= 0:
            place = (place + 1) & (len(slots) - 1)
        slots[place], held[place] = key, value
    return Table(slots, held, shift)


def _place(keys: Keys, shift: np.uint64) -> Places:
    return ((keys * SPREAD) >> shift).astype(np.int64)


def _powers(base: int, n: int) -> Keys:
    """``base ** i`` modulo 2^64 for i below n."""
    return _power_table(base, max(1, n - 1).bit_length())[:n]


@cache
def _power_table(base: int, bits: int) -> Keys:
    factors = np.full(1 << bits, base, dtype=np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)
