"""Find many word sequences in many texts: whole folded words, all overlapping matches."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
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
        cues: Mapping[str, bool] | None = None,
        reach: int = 0,
    ) -> list[tuple[int, int, int, int, int]]:
        """Hits in one long list of many texts' words, told apart by the word ``BREAK``.

        Gives ``(text, start, end, form, near)``, positions within the text; ``near`` is 1 for a watched
        form with a cue at most ``reach`` words away (:func:`cued`), else 0.
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
                    near = form in watched and cued(words, start, end, cues or {}, reach, first)
                    found.append((text, start - first, end - first, form, int(near)))
        return found


def cued(
    words: Sequence[str], start: int, end: int, cues: Mapping[str, bool], reach: int, first: int = 0
) -> bool:
    """Whether a cue stands at most ``reach`` words before or after a run of words, within its text.

    ``cues`` maps a word to whether it vouches by itself; one that does not needs such a word at most
    ``reach`` words from it, outside the run. The text begins at ``first`` and ends before ``BREAK``.
    """
    weak = []
    for place in range(max(first, start - reach), start):
        strong = cues.get(words[place])
        if strong:
            return True
        if strong is False:
            weak.append(place)
    for place in range(end, min(len(words), end + reach)):
        word = words[place]
        if word == BREAK:
            break
        strong = cues.get(word)
        if strong:
            return True
        if strong is False:
            weak.append(place)
    return any(
        cues.get(words[other])
        for place in weak
        for other in _around(words, place, reach, first)
        if not start <= other < end
    )


def _around(words: Sequence[str], place: int, reach: int, first: int) -> Iterator[int]:
    """The places at most ``reach`` words before and after one, within its text."""
    yield from range(max(first, place - reach), place)
    for other in range(place + 1, min(len(words), place + 1 + reach)):
        if words[other] == BREAK:
            return
        yield other
