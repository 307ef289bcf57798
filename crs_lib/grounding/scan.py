"""Forms found in many texts at once: words and runs of words are 64-bit numbers, looked up in hash tables.

The hash of a run is a polynomial in its elements modulo 2^64: of a word in its folded code points, of a form
in the hashes of its words, each with a multiplier of its own. Two forms with one hash are an error when the
tables are built; a run of a text counts as a form where the hashes are equal. Every step is a numpy pass over
a batch of texts. Source: R. M. Karp and M. O. Rabin, "Efficient randomized pattern-matching algorithms", IBM
Journal of Research and Development 31(2), 1987.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.errors import RunError
from crs_lib.core.text import BREAK, folded_with_places
from crs_lib.grounding.matcher import Matcher

LETTERS, WORDS = 0x9E6F5B1D3C2A8475, 0xD1342543DE82EF95  # odd random numbers
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio (Knuth, vol. 3, 6.4)
_ALL = 2**64

Keys = NDArray[np.uint64]
Places = NDArray[np.int64]


class FormHits(NamedTuple):
    """Forms found, as columns; ranges are half-open and count from the beginning of the text.

    ``start`` and ``end`` are words, ``first`` and ``last`` characters; ``near`` is 1 where a cue stands near.
    """

    text: NDArray[np.int32]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    form: NDArray[np.int32]
    near: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]

    def take(self, rows: NDArray[np.bool_]) -> "FormHits":
        """The hits of these rows."""
        return FormHits(*(column[rows] for column in self))


class HashTable(NamedTuple):
    """An open-addressing hash table, at most a quarter full; a slot that holds -1 is free."""

    slots: Keys
    held: NDArray[np.int32]
    shift: np.uint64

    def find(self, keys: Keys) -> NDArray[np.int32]:
        """The value of every key, -1 for a key that is not in the table."""
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


class FormTables(NamedTuple):
    """A :class:`Matcher` as arrays: the words that matter, the forms, and the cues.

    Word ``a`` may be word number ``offsets[p]`` of a form of ``lengths[p]`` words, for ``p`` from ``ends[a]``
    to ``ends[a + 1]``. A form found there counts only where ``places[form]`` is that number: each occurrence
    is found once. ``cues[a]`` is 1 for a cue that vouches by itself, 0 for a cue that needs another one, -1
    for no cue. Cues count beside ``watched`` forms, at most ``reach`` words away.
    """

    words: HashTable
    ends: NDArray[np.int32]
    offsets: NDArray[np.int32]
    lengths: NDArray[np.int32]
    cues: NDArray[np.int8]
    forms: HashTable
    places: NDArray[np.int32]
    watched: NDArray[np.bool_]
    reach: int


def form_tables(
    matcher: Matcher, watched: Container[int], cues: Mapping[str, bool], reach: int
) -> FormTables:
    """The tables of a matcher; RunError where two forms or two words share a hash (never seen so far)."""
    forms = [form.split(" ") for form in matcher.forms]
    hashes = {word: word_hash(word) for form in [*forms, list(cues)] for word in form}
    known = sorted({*matcher.anchors, *cues})
    pairs_of = [matcher.anchors.get(word, ()) for word in known]
    pairs = np.array([pair for some in pairs_of for pair in some], dtype=np.int32).reshape(-1, 2)
    return FormTables(
        hash_table([hashes[word] for word in known], range(len(known))),
        np.cumsum([0, *map(len, pairs_of)]).astype(np.int32),
        pairs[:, 0].copy(),
        pairs[:, 1].copy(),
        np.array([int(cues.get(word, -1)) for word in known], dtype=np.int8),
        hash_table([run_hash((hashes[word] for word in form), WORDS) for form in forms], range(len(forms))),
        np.array(matcher.offsets, dtype=np.int32),
        np.array([number in watched for number in range(len(forms))], dtype=np.bool_),
        reach,
    )


class _Runs(NamedTuple):
    """Runs of words in a batch: start and end of each, and the half-open range of the words of its text."""

    start: Places
    end: Places
    first: Places
    last: Places

    def take(self, rows: NDArray[np.integer]) -> "_Runs":
        return _Runs(*(column[rows] for column in self))


def scan(texts: Sequence[str], tables: FormTables) -> FormHits:
    """All forms in many texts, overlaps included, by text."""
    codes, characters = folded_with_places(texts)
    edges = np.flatnonzero(np.diff(codes != ord(" "), prepend=False, append=False))
    begins, ends = edges[::2], edges[1::2]
    words = run_hashes(codes, begins, ends, LETTERS)
    breaks = np.flatnonzero(codes[begins] == ord(BREAK))
    first, last = np.append(0, breaks + 1), np.append(breaks, len(words))

    known = tables.words.find(words)
    places = np.flatnonzero(known >= 0)
    word = known[places]
    times = tables.ends[word + 1] - tables.ends[word]
    pair = np.repeat(tables.ends[word] - np.cumsum(times) + times, times) + np.arange(times.sum())
    text = np.repeat(np.searchsorted(breaks, places), times)
    start = np.repeat(places, times) - tables.offsets[pair]
    runs = _Runs(start, start + tables.lengths[pair], first[text], last[text])

    inside = np.flatnonzero((runs.start >= runs.first) & (runs.end <= runs.last))
    runs, text, pair = runs.take(inside), text[inside], pair[inside]
    form = tables.forms.find(run_hashes(words, runs.start, runs.end, WORDS))
    found = np.flatnonzero(form >= 0)
    found = found[tables.places[form[found]] == tables.offsets[pair[found]]]
    runs, text, form = runs.take(found), text[found], form[found]
    near = np.zeros(len(form), dtype=bool)
    watched = np.flatnonzero(tables.watched[form])
    cues = np.full(len(words), -1, dtype=np.int8)
    cues[places] = tables.cues[word]
    near[watched] = _cued(cues, runs.take(watched), tables.reach)
    begin, stop = begins[runs.start], ends[runs.end - 1]
    if characters is not None:
        begin, stop = characters[begin], characters[stop - 1] + 1
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    before = (np.cumsum(sizes + 3) - sizes - 3)[text]  # three characters stand between two texts
    within = (runs.start - runs.first, runs.end - runs.first)
    columns = (text, *within, form, near, begin - before, stop - before)
    return FormHits(*(column.astype(np.int32) for column in columns))


def _cued(cues: NDArray[np.int8], runs: _Runs, reach: int) -> NDArray[np.bool_]:
    """Whether a cue stands near each run, as :func:`crs_lib.grounding.matcher.cued` defines it."""
    steps = np.arange(1, reach + 1)
    beside = np.hstack([runs.start[:, None] - steps, runs.end[:, None] - 1 + steps])
    cue = _cue_at(cues, beside, runs)
    near: NDArray[np.bool_] = (cue == 1).any(axis=1)
    run, side = np.nonzero(cue == 0)  # weak cues count where another cue stands near them
    further = beside[run, side, None] + np.concatenate([-steps, steps])
    near[run[(_cue_at(cues, further, runs.take(run)) == 1).any(axis=1)]] = True
    return near


def _cue_at(cues: NDArray[np.int8], places: Places, runs: _Runs) -> NDArray[np.int8]:
    """The cues at some places beside each run, a row a run; -1 beyond the text and within the run."""
    start, end, first, last = (column[:, None] for column in runs)
    inside = (places >= first) & (places < last) & ((places < start) | (places >= end))
    return np.where(inside, cues.take(places, mode="clip"), np.int8(-1))


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


def hash_table(keys: Sequence[int], values: Iterable[int]) -> HashTable:
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
    return HashTable(slots, held, shift)


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
