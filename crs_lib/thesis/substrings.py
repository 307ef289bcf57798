"""Values looked for in lower-cased text: anywhere, also inside words, or spelt almost alike.

Only for the thesis's way of grounding, and for showing its errors ("ger" in "danger").
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import ahocorasick
import numpy as np


class SubstringMatcher:
    """Patterns compiled into one automaton; a pattern's number is its place in the input.

    Source: Aho and Corasick (1975), CACM 18 (the package pyahocorasick).
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        numbers: dict[str, list[int]] = {}
        for number, pattern in enumerate(patterns):
            numbers.setdefault(pattern, []).append(number)
        numbers.pop("", None)
        self._automaton = ahocorasick.Automaton()
        for pattern, mine in numbers.items():
            self._automaton.add_word(pattern, (len(pattern), tuple(mine)))
        self._automaton.make_automaton()

    def find(self, texts: Sequence[str], *, whole: bool = False) -> list[set[int]]:
        """The numbers of the patterns that occur in each text. Nothing is folded: give both lower-cased.

        ``whole`` keeps only occurrences that begin and end at a word boundary.
        """
        return [
            {
                number
                for start, end, numbers in self._occurrences(text)
                if not whole or _at_boundaries(text, start, end)
                for number in numbers
            }
            for text in texts
        ]

    def _occurrences(self, text: str) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """First character, end and pattern numbers of every occurrence, overlapping ones too."""
        if len(self._automaton):
            for last, (length, numbers) in self._automaton.iter(text):
                yield last + 1 - length, last + 1, numbers


def _at_boundaries(text: str, start: int, end: int) -> bool:
    """Whether an occurrence cuts no word in two, neither where it begins nor where it ends."""
    inside = start > 0 and _word(text[start - 1]) and _word(text[start])
    return not inside and not (end < len(text) and _word(text[end]) and _word(text[end - 1]))


def _word(character: str) -> bool:
    return character.isalnum() or character == "_"


_LETTERS = 64
_LONGEST = 100  # letters of a word that may be near to another; comparing takes the square of them


class NearWords:
    """Known words, sorted; :meth:`of` remembers the answers of the latest 20,000 words."""

    def __init__(self, known: Sequence[str], threshold: float) -> None:
        self.known = tuple(known)
        self.threshold = threshold
        self._endless = frozenset(word for word in self.known if len(word) > _LONGEST)
        self._counts = np.zeros((len(self.known), _LETTERS), dtype=np.int32)
        for row, word in enumerate(self.known):
            for character in word:
                self._counts[row, ord(character) % _LETTERS] += 1
        self._lengths = np.array([len(word) for word in self.known], dtype=np.int64)
        self._memo: dict[str, tuple[str, ...]] = {}

    def of(self, word: str) -> tuple[str, ...]:
        """The known words near ``word``, in order.

        The ratio is 2M/T of matching characters (Ratcliff and Obershelp). The letters alone
        exclude most words before the ratio is computed. A word of more than 100 letters is near to
        itself alone.
        """
        if word not in self._memo:
            if len(self._memo) >= 20_000:
                self._memo.clear()
            self._memo[word] = self._search(word)
        return self._memo[word]

    def _search(self, word: str) -> tuple[str, ...]:
        if len(word) > _LONGEST:
            return (word,) if word in self._endless else ()
        counts = np.zeros(_LETTERS, dtype=np.int32)
        for character in word:
            counts[ord(character) % _LETTERS] += 1
        shared = np.minimum(self._counts, counts).sum(axis=1)
        possible = np.flatnonzero(
            (2 * shared >= self.threshold * (self._lengths + len(word))) & (self._lengths <= _LONGEST)
        )
        matcher = SequenceMatcher(b=word, autojunk=False)
        found = []
        for row in possible.tolist():
            matcher.set_seq1(self.known[row])
            if matcher.ratio() >= self.threshold:
                found.append(self.known[row])
        return tuple(found)
