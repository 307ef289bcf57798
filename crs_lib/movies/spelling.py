"""Words spelt almost alike: all known words whose sequence ratio with a given word reaches a threshold."""

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np

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
