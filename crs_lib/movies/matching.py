"""Find many word sequences in many texts: whole folded words, all overlapping matches."""

from collections import Counter
from collections.abc import Collection, Container, Sequence
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
        self.anchors = {
            word: shared.setdefault(key := tuple(sorted(pairs)), key) for word, pairs in places.items()
        }
        self._known = frozenset((*self.anchors, BREAK))

    def find(self, words: Sequence[str]) -> list[Hit]:
        """All forms in a list of folded words, overlaps included, by position, then length."""
        return sorted(Hit(*hit[1:4]) for hit in self.scan(words))

    def scan(
        self,
        words: Sequence[str],
        watched: Container[int] = (),
        cues: Collection[str] = (),
        reach: int = 0,
    ) -> list[tuple[int, int, int, int, int]]:
        """Hits in one long list of many texts' words, told apart by the word ``BREAK``.

        Gives ``(text, start, end, form, near)``, positions within the text; ``near`` is 1 for a watched
        form with a cue word at most ``reach`` words away, else 0.
        """
        anchors, form_of, n = self.anchors, self.forms.get, len(words)
        present = np.fromiter(map(self._known.__contains__, words), dtype=bool, count=n)
        found: list[tuple[int, int, int, int, int]] = []
        text = first = 0
        for position in np.flatnonzero(present).tolist():
            word = words[position]
            if word == BREAK:
                text += 1
                first = position + 1
                continue
            for offset, length in anchors[word]:
                start = position - offset
                end = start + length
                if start < first or end > n:
                    continue
                form = form_of(word if length == 1 else " ".join(words[start:end]))
                if form is not None:
                    near = form in watched and _cued(words, start, end, first, cues, reach)
                    found.append((text, start - first, end - first, form, int(near)))
        return found


def _cued(words: Sequence[str], start: int, end: int, first: int, cues: Collection[str], reach: int) -> bool:
    """Whether a cue word stands at most ``reach`` words before or after, within the text."""
    for word in words[max(first, start - reach) : start]:
        if word in cues:
            return True
    for word in words[end : end + reach]:
        if word in cues:
            return True
        if word == BREAK:
            return False
    return False
