"""Find many word sequences in many texts: whole folded words, all overlapping matches."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple


class FormMatch(NamedTuple):
    """A form found in a word list: half-open range of word positions, and the form's number."""

    start: int
    end: int
    form: int


class Matcher:
    """Finds forms (folded word sequences) in word lists; a form's number is its place in the input.

    A form is looked up under its rarest word, so that each word of a text costs one dictionary lookup,
    whatever the number of forms. A form is looked up under an everyday word (``everyday``) only where it has
    no other.
    """

    def __init__(self, forms: Sequence[str], everyday: Container[str] = ()) -> None:
        self.forms = {form: number for number, form in enumerate(forms)}
        frequency = Counter(word for form in self.forms for word in form.split(" "))
        places: dict[str, set[tuple[int, int]]] = {}
        self.offsets: list[int] = []
        for form in self.forms:
            parts = form.split(" ")
            offset = min(range(len(parts)), key=lambda i: (parts[i] in everyday, frequency[parts[i]], i))
            places.setdefault(parts[offset], set()).add((offset, len(parts)))
            self.offsets.append(offset)
        shared: dict[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] = {}
        self.anchors = {
            word: shared.setdefault(key := tuple(sorted(pairs)), key) for word, pairs in places.items()
        }

    def find(self, words: Sequence[str]) -> list[FormMatch]:
        """All forms in a list of folded words, overlaps included, by position, then length."""
        found = []
        for position, word in enumerate(words):
            for offset, length in self.anchors.get(word, ()):
                start = position - offset
                end = start + length
                if start < 0 or end > len(words):
                    continue
                form = self.forms.get(word if length == 1 else " ".join(words[start:end]))
                if form is not None and self.offsets[form] == offset:  # else it is found at another word
                    found.append(FormMatch(start, end, form))
        return sorted(found)


def cued(words: Sequence[str], start: int, end: int, cues: Mapping[str, bool], reach: int) -> bool:
    """Whether a cue stands at most ``reach`` words before or after a run of words.

    ``cues`` maps a word to whether it vouches by itself; one that does not needs such a word at most
    ``reach`` words from it, outside the run.
    """
    near = [place for place in _around(words, start, end, reach) if words[place] in cues]
    if any(cues[words[place]] for place in near):
        return True
    return any(
        cues.get(words[other])
        for place in near
        for other in _around(words, place, place + 1, reach)
        if not start <= other < end
    )


def _around(words: Sequence[str], start: int, end: int, reach: int) -> Iterator[int]:
    """The places at most ``reach`` words before and after a run of words."""
    yield from range(max(0, start - reach), start)
    yield from range(end, min(len(words), end + reach))
