"""Find many word sequences in many texts: whole folded words, all overlapping matches."""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from crs_lib.text import BREAK


class Hit(NamedTuple):
    """A form found in a word list: half-open range of word positions, and the form's number."""

    start: int
    end: int
    form: int


class Matcher:
    """Forms (folded word sequences) compiled for lookup; a form's number is its place in the input.

    Every form is looked up where its rarest word stands: a word costs one dictionary lookup, whatever
    the number of forms. ``everyday`` words stand in for it only where nothing rarer is left.
    Works the same for eight thousand and for a million forms.
    """

    def __init__(self, forms: Sequence[str], everyday: Container[str] = ()) -> None:
        self.forms = {form: number for number, form in enumerate(forms)}
        frequency = Counter(word for form in self.forms for word in form.split(" "))
        places: dict[str, set[tuple[int, int]]] = {}
        for form in self.forms:
            parts = form.split(" ")
            offset = min(range(len(parts)), key=lambda i: (parts[i] in everyday, frequency[parts[i]], i))
            places.setdefault(parts[offset], set()).add((offset, len(parts)))
        shared: dict[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] = {}
        self._anchors: dict[str, tuple[tuple[int, int], ...]] = {BREAK: ()}
        self._anchors |= {
            word: shared.setdefault(key := tuple(sorted(pairs)), key) for word, pairs in places.items()
        }

    def find(self, words: Sequence[str]) -> list[Hit]:
        """All forms in a list of folded words, overlaps included, by position, then length."""
        return sorted(Hit(start, end, form) for _, _, start, end, form in self.scan(words))

    def scan(self, words: Sequence[str]) -> Iterator[tuple[int, int, int, int, int]]:
        """Hits in one long list of many texts' words, told apart by the word ``BREAK``.

        Yields ``(text, first word of that text, start, end, form)``; positions are those of the list.
        """
        anchors, forms, n = self._anchors, self.forms, len(words)
        present = np.fromiter(map(anchors.__contains__, words), dtype=bool, count=n)
        text = first = 0
        for position in np.flatnonzero(present).tolist():
            word = words[position]
            if word == BREAK:
                text, first = text + 1, position + 1
                continue
            for offset, length in anchors[word]:
                if length == 1:
                    yield text, first, position, position + 1, forms[word]
                    continue
                start = position - offset
                end = start + length
                if start < 0 or end > n:
                    continue
                form = forms.get(" ".join(words[start:end]))
                if form is not None:
                    yield text, first, start, end, form
