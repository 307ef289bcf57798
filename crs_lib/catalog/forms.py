"""Spellings of concepts ("forms"), their rules, and the scan that finds all of them in many texts."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog import rules as evidence
from crs_lib.catalog.index import Codes
from crs_lib.catalog.matcher import Matcher
from crs_lib.core.errors import RunError
from crs_lib.core.text import BREAK, folded_with_places

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
    """Whether a cue stands near each run, as :func:`crs_lib.catalog.matcher.cued` defines it."""
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


@dataclass(frozen=True)
class Grounded:
    """The concept codes of many texts: text ``i`` has ``codes[starts[i]:starts[i + 1]]``, ascending."""

    starts: NDArray[np.int64]
    codes: Codes

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, text: int) -> Codes:
        return self.codes[self.starts[text] : self.starts[text + 1]]

    def take(self, rows: NDArray[np.int64]) -> "Grounded":
        """The texts of these rows, in this order, repetitions included."""
        sizes = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        place = np.repeat(self.starts[rows] - starts[:-1], sizes) + np.arange(starts[-1])
        return Grounded(starts, self.codes[place])

    def sets(self) -> list[frozenset[int]]:
        """The codes of every text as a set."""
        codes, starts = self.codes.tolist(), self.starts.tolist()
        return [frozenset(codes[a:b]) for a, b in pairwise(starts)]


def joined(parts: Sequence[Grounded]) -> Grounded:
    """Batches end to end."""
    sizes = np.concatenate([np.zeros(0, dtype=np.int64), *(np.diff(part.starts) for part in parts)])
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Grounded(starts, np.concatenate([np.zeros(0, dtype=np.int32), *(part.codes for part in parts)]))


class Forms:
    """Folded spellings ("forms"), each with the codes of its concepts and their rules.

    Codes are numbers below ``n_codes``. ``everyday`` words are looked up last (:class:`Matcher`).
    """

    def __init__(
        self,
        spellings: Mapping[str, Sequence[tuple[int, evidence.Rule]]],
        everyday: Container[str],
        n_codes: int,
    ) -> None:
        self._texts = list(spellings)
        self._codes = [tuple(code for code, _ in pairs) for pairs in spellings.values()]
        self._rules = {
            number: [rule for _, rule in pairs]
            for number, pairs in enumerate(spellings.values())
            if any(rule is not evidence.no_rule for _, rule in pairs)
        }
        self._matcher = Matcher(self._texts, everyday)
        self._n_codes = max(1, n_codes)

    def judged(self, near: evidence.Context) -> Iterator[tuple[int, int, int, str]]:
        """Every match in a text: first word, last word + 1, code, and the reason for a rejection or ""."""
        for start, end, form in self._matcher.find(near.tokens):
            codes = self._codes[form]
            rules = self._rules.get(form)
            if rules is None:
                yield from ((start, end, code, "") for code in codes)
                continue
            for code, rule in zip(codes, rules, strict=True):
                yield start, end, code, rule(near, start, end)

    def ground(self, texts: Sequence[str]) -> Grounded:
        """The codes that each text names, the same as :meth:`judged` accepts.

        Forms without a rule count at once, for all texts together. So do genres with a film word beside them,
        which is their only rule. The other forms are judged one by one.
        """
        hits = scan(texts, self._tables)
        film = self._film[hits.form]
        free = ~self._has_rule[hits.form] | (film & (hits.near == 1))
        forms = hits.form[free]
        sizes = self._form_ends[forms + 1] - self._form_ends[forms]
        place = np.repeat(self._form_ends[forms + 1] - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
        keys = np.repeat(hits.text[free].astype(np.int64), sizes) * self._n_codes + self._form_codes[place]
        # Without a film word a genre counts only between marks: texts without any mark need no further look.
        marked = np.zeros(len(texts), dtype=bool)
        doubtful = np.unique(hits.text[film & ~free])
        marked[doubtful] = [evidence.has_marks(texts[row]) for row in doubtful.tolist()]
        ruled = ~free & (~film | marked[hits.text])
        accepted = np.fromiter(self._accepted(texts, hits.take(ruled)), np.int64)
        keys = np.sort(np.concatenate([keys, accepted]))
        rows, codes = np.divmod(keys[np.diff(keys, prepend=-1) > 0], self._n_codes)
        starts = np.searchsorted(rows, np.arange(len(texts) + 1))
        return Grounded(starts.astype(np.int64), codes.astype(np.int32))

    def _accepted(self, texts: Sequence[str], hits: FormHits) -> Iterator[int]:
        """``text * (number of codes) + code`` for every code whose rule accepts the form."""
        near: evidence.Context | None = None
        for row, start, end, form, _, first, last in zip(*(column.tolist() for column in hits), strict=True):
            text = texts[row]
            if form in self._film_forms:  # no film word stands near: those forms were counted before
                if evidence.in_marks(text, self._texts[form]):
                    yield from (row * self._n_codes + code for code in self._codes[form])
                continue
            if near is None or near.text is not text:
                near = evidence.Context(text)
            near.ranges[start, end] = first, last
            for code, rule in zip(self._codes[form], self._rules[form], strict=True):
                if not rule(near, start, end):
                    yield row * self._n_codes + code

    @cached_property
    def _tables(self) -> FormTables:
        return form_tables(self._matcher, self._film_forms, evidence.FILM_CUES, evidence.REACH)

    @cached_property
    def _film(self) -> NDArray[np.bool_]:
        """The forms whose only rule is that a film word stands near."""
        return self._flags(self._film_forms)

    @cached_property
    def _film_forms(self) -> frozenset[int]:
        return frozenset(f for f, rules in self._rules.items() if set(rules) == {evidence.film_word})

    @cached_property
    def _has_rule(self) -> NDArray[np.bool_]:
        return self._flags(self._rules)

    def _flags(self, forms: Iterable[int]) -> NDArray[np.bool_]:
        flags = np.zeros(len(self._codes), dtype=bool)
        flags[list(forms)] = True
        return flags

    @cached_property
    def _form_ends(self) -> NDArray[np.int64]:
        """Where each form's codes begin in ``_form_codes``."""
        return np.concatenate([[0], np.cumsum([len(codes) for codes in self._codes])]).astype(np.int64)

    @cached_property
    def _form_codes(self) -> NDArray[np.int64]:
        return np.array([code for codes in self._codes for code in codes], dtype=np.int64)
