"""Finding forms in many texts in numpy passes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.text import BREAK, folded_codes
from crs_lib.grounding.hashing import LETTERS, WORDS, Hits, Keys, Places, Tables, run_hashes


class _Runs(NamedTuple):
    """Word runs: where each starts and ends, and the half-open range of the words of its text."""

    start: Places
    end: Places
    first: Places
    last: Places

    def take(self, rows: NDArray[np.integer]) -> "_Runs":
        return _Runs(*(column[rows] for column in self))


def scan(texts: Sequence[str], tables: Tables) -> Hits:
    """All hits in many texts, overlaps included, by text."""
    codes = folded_codes(texts)
    edges = np.flatnonzero(np.diff(codes != ord(" "), prepend=False, append=False))
    begins, ends = edges[::2], edges[1::2]
    words = run_hashes(codes, begins, ends, LETTERS)
    breaks = np.flatnonzero(codes[begins] == ord(BREAK))
    first, last = np.append(0, breaks + 1), np.append(breaks, len(words))

    anchors = tables.anchors.find(words)
    places = np.flatnonzero(anchors >= 0)
    anchor = anchors[places]
    times = tables.ends[anchor + 1] - tables.ends[anchor]
    pair = np.repeat(tables.ends[anchor] - np.cumsum(times) + times, times) + np.arange(times.sum())
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
    near[watched] = _cued(words, runs.take(watched), tables)
    columns = (text, runs.start - runs.first, runs.end - runs.first, form, near)
    return Hits(*(column.astype(np.int32) for column in columns))


def _cued(words: Keys, runs: _Runs, tables: Tables) -> NDArray[np.bool_]:
    """Whether a cue stands near each run, as :func:`crs_lib.grounding.matcher.cued` says."""
    near = np.zeros(len(runs.start), dtype=bool)
    for step in range(1, tables.reach + 1):
        for place in (runs.start - step, runs.end + step - 1):
            cue = _cues(words, place, runs, tables)
            near |= cue > 0
            weak = np.flatnonzero(cue == 0)
            beside = place[weak]
            for further in (*range(-tables.reach, 0), *range(1, tables.reach + 1)):
                near[weak] |= _cues(words, beside + further, runs.take(weak), tables) > 0
    return near


def _cues(words: Keys, place: Places, runs: _Runs, tables: Tables) -> NDArray[np.int32]:
    """The cue at a place of each run's text outside the run; -1 where none stands."""
    cue = np.full(len(place), -1, dtype=np.int32)
    inside = (place >= runs.first) & (place < runs.last) & ~((place >= runs.start) & (place < runs.end))
    cue[inside] = tables.cues.find(words[place[inside]])
    return cue
