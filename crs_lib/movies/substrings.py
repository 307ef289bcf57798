"""Find many character sequences in many texts, anywhere, also inside words: exact, in one numpy pass.

Only for the thesis's way of grounding and for showing what is wrong with it ("ger" in "danger").
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crs_lib.text import batches

_WINDOW = 4
_BITS = 18
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_END = "\x00"


class SubstringMatcher:
    """Patterns compiled for lookup; a pattern's number is its place in the input.

    Every pattern is looked up where its rarest window of four characters stands (of one to three for
    shorter patterns): windows are 64-bit numbers, so that numpy sieves all places of a text at once, and
    only what is left is compared as text.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self._groups = [
            group for width in range(1, _WINDOW + 1) if (group := _Group(self.patterns, width)).keys.size
        ]

    def find(self, texts: Sequence[str], *, whole: bool = False) -> list[set[int]]:
        """The numbers of the patterns that occur in each text. Nothing is folded: give both lower-cased.

        ``whole`` keeps only occurrences that begin and end at a word boundary.
        """
        found: list[set[int]] = [set() for _ in texts]
        for first, last in batches(texts):
            joined = _END.join(texts[first:last]) + _END * _WINDOW
            codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
            ends = np.cumsum([len(text) + 1 for text in texts[first:last]])
            for places, numbers in self._hits(joined, codes):
                rows = np.searchsorted(ends, places, side="right").tolist()
                for row, place, number in zip(rows, places, numbers, strict=True):
                    if not whole or _at_boundaries(joined, place, self.patterns[number]):
                        found[first + row].add(number)
        return found

    def _hits(self, joined: str, codes: NDArray[np.uint32]) -> list[tuple[list[int], list[int]]]:
        narrow = codes.astype(np.uint64) & np.uint64(0xFFFF)
        window = narrow.copy()
        hits = []
        for width in range(1, _WINDOW + 1):
            if width > 1:
                window = window[:-1] << np.uint64(16) | narrow[width - 1 :]
            for group in self._groups:
                if group.width == width:
                    hits.append(group.hits(joined, window, self.patterns))
        return hits


class _Group:
    """Patterns anchored at windows of one width."""

    def __init__(self, patterns: Sequence[str], width: int) -> None:
        self.width = width
        mine = [
            (n, p) for n, p in enumerate(patterns) if p and min(len(p), _WINDOW) == width and _END not in p
        ]
        seen = Counter(p[i : i + width] for _, p in mine for i in range(len(p) - width + 1))
        table: dict[int, list[tuple[int, int]]] = {}
        for number, pattern in mine:
            offset = min(range(len(pattern) - width + 1), key=lambda i: (seen[pattern[i : i + width]], i))
            table.setdefault(_key(pattern[offset : offset + width]), []).append((offset, number))
        self.keys = np.array(sorted(table), dtype=np.uint64)
        self._of_key = [table[key] for key in sorted(table)]
        self._sieve = np.zeros(1 << _BITS, dtype=bool)
        self._sieve[_slot(self.keys)] = True

    def hits(
        self, joined: str, window: NDArray[np.uint64], patterns: Sequence[str]
    ) -> tuple[list[int], list[int]]:
        """Places and numbers of the patterns of this group in a joined text."""
        maybe = np.flatnonzero(self._sieve[_slot(window)])
        values = window[maybe]
        rank = np.minimum(np.searchsorted(self.keys, values), len(self.keys) - 1)
        sure = self.keys[rank] == values
        places, numbers = [], []
        for place, key in zip(maybe[sure].tolist(), rank[sure].tolist(), strict=True):
            for offset, number in self._of_key[key]:
                if place >= offset and joined.startswith(patterns[number], place - offset):
                    places.append(place - offset)
                    numbers.append(number)
        return places, numbers


def _at_boundaries(joined: str, start: int, pattern: str) -> bool:
    """Whether an occurrence cuts no word in two, neither where it begins nor where it ends."""
    end = start + len(pattern)
    inside = start > 0 and _word(joined[start - 1]) and _word(pattern[0])
    return not inside and not (_word(joined[end]) and _word(pattern[-1]))


def _word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _key(window: str) -> int:
    key = 0
    for character in window:
        key = key << 16 | ord(character) & 0xFFFF
    return key


def _slot(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    slots: NDArray[np.int64] = ((keys * _SPREAD) >> np.uint64(64 - _BITS)).astype(np.int64)
    return slots
