"""Find many character sequences in many texts, anywhere, also inside words: exact, in numpy passes.

Only for the thesis's way of grounding and for showing what is wrong with it ("ger" in "danger").
"""

from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.core.text import batches, code_points

_WINDOW, _LETTER = 4, np.uint64(16)  # letters a window at most, bits a letter
_BITS = 18
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_END = "\x00"
_Ints = NDArray[np.int64]
_Windows = NDArray[np.uint64]
_Encoder = Callable[[str], _Windows]


class SubstringMatcher:
    """Patterns compiled for lookup; a pattern's number is its place in the input.

    Every pattern is looked up where its rarest window of four letters stands (of one to three for shorter
    patterns), and its other windows are compared there. Letters are numbers in the patterns' own alphabet,
    windows 64-bit numbers, so that numpy treats all places of many texts at once.
    Raises InputError for patterns of more than 65,535 different characters.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        alphabet = sorted(map(ord, set("".join(patterns)) - {_END}))
        if len(alphabet) >= 1 << int(_LETTER):
            raise InputError(f"the patterns have {len(alphabet):,} different characters; 65,535 are possible")
        self._alphabet = np.zeros(0x110000, dtype=np.uint16)
        self._alphabet[alphabet] = np.arange(1, len(alphabet) + 1)
        usable = [(n, p) for n, p in enumerate(patterns) if p and _END not in p]
        self._groups = [
            _Group(mine, width, self._letters)
            for width in range(1, _WINDOW + 1)
            if (mine := [(n, p) for n, p in usable if min(len(p), _WINDOW) == width])
        ]

    def find(self, texts: Sequence[str], *, whole: bool = False) -> list[set[int]]:
        """The numbers of the patterns that occur in each text. Nothing is folded: give both lower-cased.

        ``whole`` keeps only occurrences that begin and end at a word boundary.
        """
        found: list[set[int]] = []
        for first, last in batches(texts):
            joined = _END.join(texts[first:last]) + _END * _WINDOW
            places, numbers = self._hits(joined)
            if whole:
                hits = zip(places.tolist(), numbers.tolist(), strict=True)
                sure = [_at_boundaries(joined, place, self.patterns[number]) for place, number in hits]
                places, numbers = places[sure], numbers[sure]
            ends = np.cumsum([len(text) + 1 for text in texts[first:last]])
            rows = np.searchsorted(ends, places, side="right")
            distinct = np.unique(rows << 32 | numbers)
            edges = np.searchsorted(distinct >> 32, np.arange(last - first + 1)).tolist()
            known = (distinct & 0xFFFFFFFF).tolist()
            found += [set(known[a:b]) for a, b in pairwise(edges)]
        return found

    def _letters(self, text: str) -> _Windows:
        """A number for every character, 0 for one that no pattern has."""
        return self._alphabet[code_points(text)].astype(np.uint64)

    def _hits(self, joined: str) -> tuple[_Ints, _Ints]:
        """Where in a joined text a pattern begins, and its number."""
        letters = self._letters(joined)
        hits = [group.hits(letters) for group in self._groups]
        nothing = np.zeros(0, dtype=np.int64)
        return (
            np.concatenate([nothing, *(places for places, _ in hits)]),
            np.concatenate([nothing, *(numbers for _, numbers in hits)]),
        )


class _Group:
    """Patterns looked up by windows of one width: their anchors, and the windows to compare there."""

    def __init__(self, patterns: Sequence[tuple[int, str]], width: int, letters: _Encoder) -> None:
        self._width = width
        seen = Counter(p[i : i + width] for _, p in patterns for i in range(len(p) - width + 1))
        anchors = []
        for number, p in patterns:
            offset = min(range(len(p) - width + 1), key=lambda i: (seen[p[i : i + width]], i))
            anchors.append((p[offset : offset + width], offset, number, p))
        anchors.sort()
        keys = _packed([anchor for anchor, *_ in anchors], width, letters)
        self._keys, self._first, self._times = np.unique(keys, return_index=True, return_counts=True)
        self._offset = np.array([offset for _, offset, _, _ in anchors])
        self._number = np.array([number for _, _, number, _ in anchors])
        others = [_steps(p, width) for _, _, _, p in anchors]
        self._begin = np.cumsum([0, *map(len, others)])
        self._step = np.array([step for steps in others for step in steps], dtype=np.int64)
        self._other = _packed(
            [p[i : i + width] for (*_, p), steps in zip(anchors, others, strict=True) for i in steps],
            width, letters,
        )  # fmt: skip
        self._sieve = np.zeros(1 << _BITS, dtype=bool)
        self._sieve[_slot(self._keys)] = True

    def hits(self, letters: _Windows) -> tuple[_Ints, _Ints]:
        """Where a pattern of this group begins, and its number."""
        windows = letters
        for i in range(1, self._width):
            windows = windows[:-1] << _LETTER | letters[i:]
        maybe = np.flatnonzero(self._sieve[_slot(windows)])
        rank = np.minimum(np.searchsorted(self._keys, windows[maybe]), len(self._keys) - 1)
        sure = self._keys[rank] == windows[maybe]
        maybe, rank = maybe[sure], rank[sure]
        times = self._times[rank]
        at = np.repeat(self._first[rank] - np.cumsum(times) + times, times) + np.arange(times.sum())
        places = np.repeat(maybe, times) - self._offset[at]
        places, at = places[places >= 0], at[places >= 0]
        number = 0
        while (more := (part := self._begin[at] + number) < self._begin[at + 1]).any():
            place = np.minimum(places[more] + self._step[part[more]], len(windows) - 1)
            more[more] = windows[place] != self._other[part[more]]
            places, at, number = places[~more], at[~more], number + 1
        return places, self._number[at]


def _steps(pattern: str, width: int) -> list[int]:
    """Where the windows begin that cover a pattern; none for a pattern that is one window."""
    last = len(pattern) - width
    return [*range(0, last, width), last] if last else []


def _packed(windows: Sequence[str], width: int, letters: _Encoder) -> _Windows:
    """Windows of one width as numbers."""
    packed = np.zeros(len(windows), dtype=np.uint64)
    for column in letters("".join(windows)).reshape(-1, width).T:
        packed = packed << _LETTER | column
    return packed


def _at_boundaries(joined: str, start: int, pattern: str) -> bool:
    """Whether an occurrence cuts no word in two, neither where it begins nor where it ends."""
    end = start + len(pattern)
    inside = start > 0 and _word(joined[start - 1]) and _word(pattern[0])
    return not inside and not (_word(joined[end]) and _word(pattern[-1]))


def _word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _slot(keys: _Windows) -> _Ints:
    slots: _Ints = ((keys * _SPREAD) >> np.uint64(64 - _BITS)).astype(np.int64)
    return slots


_LETTERS = 64


class NearWords:
    """Known words, sorted; :meth:`of` remembers the answers of the latest 20,000 words."""

    def __init__(self, known: Sequence[str], threshold: float) -> None:
        self.known = tuple(known)
        self.threshold = threshold
        self._counts = np.zeros((len(self.known), _LETTERS), dtype=np.int16)
        for row, word in enumerate(self.known):
            for character in word:
                self._counts[row, ord(character) % _LETTERS] += 1
        self._lengths = np.array([len(word) for word in self.known], dtype=np.int64)
        self._memo: dict[str, tuple[str, ...]] = {}

    def of(self, word: str) -> tuple[str, ...]:
        """The known words near ``word``, in order.

        The ratio is 2M/T of matching characters (Ratcliff and Obershelp); it is computed only where the
        letters alone do not rule it out.
        """
        if word not in self._memo:
            if len(self._memo) >= 20_000:
                self._memo.clear()
            self._memo[word] = self._search(word)
        return self._memo[word]

    def _search(self, word: str) -> tuple[str, ...]:
        counts = np.zeros(_LETTERS, dtype=np.int16)
        for character in word:
            counts[ord(character) % _LETTERS] += 1
        shared = np.minimum(self._counts, counts).sum(axis=1)
        possible = np.flatnonzero(2 * shared >= self.threshold * (self._lengths + len(word)))
        matcher = SequenceMatcher(b=word, autojunk=False)
        found = []
        for row in possible.tolist():
            matcher.set_seq1(self.known[row])
            if matcher.ratio() >= self.threshold:
                found.append(self.known[row])
        return tuple(found)
