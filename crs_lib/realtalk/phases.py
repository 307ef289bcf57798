"""The evidence of a fact and the story in phases, out of ranked messages: a fact keeps messages by distance
of scores, a story by weight.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.text import shorten, words
from crs_lib.realtalk.corpus import ChatMessage
from crs_lib.realtalk.index import ChatIndex
from crs_lib.realtalk.wording import stop_words

STORY = 0.99  # the share of the scores' weight that a narrative holds
LEAST, PHASE = 3, 15  # ids of a phase: at least, and the soft cap
PREVIEWED = 3  # messages of a segment that the old selection saw
_PREVIEWED_SEGMENTS = 5
_MOST_PHASES = 8
_SHARPNESS = 2.0  # of a narrative's weights
_TITLE = 3  # words
_SHOWN = 240  # characters of a summary
_UNSCORED = -math.inf


def facts(ranked: Sequence[int], scores: NDArray[np.floating], reach: float, most: int) -> list[int]:
    """The evidence of a fact: from the best message down to ``reach`` below it, at least one, ranked.
    ``scores`` follow ``ranked``. An empty ranking gives an empty set.
    """
    if not len(ranked):
        return []
    count = int(np.sum(scores >= scores[0] - reach))
    return list(ranked[: max(1, min(count, most))])


def narrative(
    ranked: Sequence[int],
    scores: NDArray[np.floating],
    least: int,
    most: int,
    unit: float,
    share: float = STORY,
) -> list[int]:
    """The evidence of a narrative, ranked: as many messages as the scores call for, from least to most.

    A message weighs e to the power of twice its distance from the best, in steps of ``unit``; the best are
    selected until they hold ``share`` of all that the ranking weighs. One clear message gives a short story,
    many near ones a long one.
    """
    if not len(ranked):
        return []
    distance = np.asarray(scores, dtype=np.float64) - float(scores[0])
    weight = np.exp(_SHARPNESS * distance / unit)
    shares = np.cumsum(weight) / weight.sum()
    enough = 1 + int(np.searchsorted(shares, share - 1e-9))
    return list(ranked[: max(least, min(enough, most, len(ranked)))])


def covering(
    chosen: Sequence[int], ranked: Sequence[int], owner: NDArray[np.intp], segments: int
) -> list[int]:
    """The chosen messages, and the best of each of the ``segments`` best that gives none (Fix B)."""
    best: dict[int, int] = {}  # of each segment, in the order of the ranking
    for position in ranked:
        best.setdefault(int(owner[position]), position)
    covered = {int(owner[position]) for position in chosen}
    lacking = [position for number, position in list(best.items())[:segments] if number not in covered]
    return [*chosen, *lacking]


def preview(ranked: Sequence[int], owner: NDArray[np.intp], starts: Sequence[int], most: int) -> list[int]:
    """The selection that this study replaces: only the first three messages of the five best segments count.

    A segment's rank is that of its best message; whatever stands deeper in a segment cannot be selected,
    however good it is. It stays to show what the change does. At most ``most`` ids, best segment first.
    """
    segments = list(dict.fromkeys(int(owner[position]) for position in ranked))
    ranked_set = set(ranked)
    selected: list[int] = []
    for segment in segments[:_PREVIEWED_SEGMENTS]:
        for position in range(starts[segment], starts[segment] + PREVIEWED):
            if position in ranked_set:
                selected.append(position)
    return selected[:most]


class Phase(NamedTuple):
    """One phase of a narrative: its evidence ids, and texts copied from them word for word. ``summary`` is
    its best message, ``conclusion`` the last one that is no question. ``start`` and ``end`` are the times of
    its first and last message (ISO, null where unknown); every id's time lies between them. ``uncertain`` is
    the share of ids whose score is far from the best.
    """

    title: str
    ids: tuple[str, ...]
    start: str | None
    end: str | None
    summary: str
    uncertain: float
    conclusion: str = ""


@dataclass(frozen=True)
class Limits:
    """How large phases are: below ``bar`` a message counts as uncertain; in a phase of more than ``soft_cap``
    messages the uncertain ones beyond the cap are dropped; a phase has ``least`` messages while all phases
    have no more than ``most``.
    """

    bar: float
    soft_cap: int = PHASE
    least: int = LEAST
    most: int = 30


def phases(
    index: ChatIndex, chosen: Sequence[int], scores: Mapping[int, float], limits: Limits
) -> list[Phase]:
    """The phases of chosen positions, in time order; one where few are chosen, none where none is.

    ``scores`` gives each position's score. Eight phases are the most. A phase of fewer than ``limits.least``
    messages gets the best scored of its segments, then of its sessions; one that is still too small joins the
    nearer neighbour.
    """
    return _Story(index, scores, limits).tell(sorted(chosen))


class _Story:
    """The phases of one narrative; a part is the ascending positions of one phase."""

    def __init__(self, index: ChatIndex, scores: Mapping[int, float], limits: Limits) -> None:
        self._index = index
        self._scores = scores
        self._limits = limits

    def tell(self, order: Sequence[int]) -> list[Phase]:
        parts = [self._capped(part) for part in _cut(self._index, order)]
        parts = _joined(self._filled(parts), self._limits.least)
        counts = [self._count_words(part) for part in parts]
        everywhere = sum(counts, Counter[str]())
        story = []
        for part, count in zip(parts, counts, strict=True):
            story.append(self._phase(part, _title(count, everywhere)))
        return story

    def _score(self, position: int) -> float:
        return self._scores.get(position, _UNSCORED)

    def _best_first(self, positions: Iterable[int]) -> list[int]:
        return sorted(positions, key=lambda position: (-self._score(position), position))

    def _capped(self, part: Sequence[int]) -> list[int]:
        """The messages of a phase that stay, the best of each of its segments before all others."""
        best = self._best_first(part)
        leads: dict[int, int] = {}  # the best message of each segment
        for position in best:
            leads.setdefault(int(self._index.owner[position]), position)
        first = self._best_first(leads.values())
        order = list(dict.fromkeys([*first, *best]))
        staying = set(order[: self._limits.soft_cap])
        for position in part:
            if self._score(position) >= self._limits.bar:
                staying.add(position)
        return sorted(staying)

    def _filled(self, parts: Sequence[list[int]]) -> list[list[int]]:
        """Phases with further scored messages of their own segments, then sessions, up to ``least`` each."""
        used = set(itertools.chain.from_iterable(parts))
        filled = []
        for part in parts:
            missing = min(self._limits.least - len(part), self._limits.most - len(used))
            added = self._neighbours(part, used)[: max(0, missing)]
            used.update(added)
            filled.append(sorted([*part, *added]))
        return filled

    def _neighbours(self, part: Sequence[int], used: set[int]) -> list[int]:
        """Scored messages that no phase has: those of the part's segments, then of its sessions."""
        neighbours: list[int] = []
        for group in (self._index.owner, self._index.session):
            own = set(group[list(part)].tolist())
            free = self._scores.keys() - used - set(neighbours)
            inside = [position for position in free if int(group[position]) in own]
            neighbours += self._best_first(inside)
        return neighbours

    def _count_words(self, part: Sequence[int]) -> Counter[str]:
        """How often each word of content of more than two letters stands in a phase."""
        count: Counter[str] = Counter()
        for position in part:
            for word in words(self._index.chat.messages[position].text):
                if len(word) > 2 and word not in stop_words():
                    count[word] += 1
        return count

    def _phase(self, part: Sequence[int], title: str) -> Phase:
        messages = [self._index.chat.messages[position] for position in part]
        times = [message.time for message in messages if message.time]
        lead = self._index.chat.messages[self._best_first(part)[0]]
        statements = [message for message in messages if not message.text.rstrip().endswith("?")]
        last = statements[-1] if statements else messages[-1]
        uncertain = sum(self._score(position) < self._limits.bar for position in part)
        share = round(uncertain / len(part), 3)
        ids = tuple(self._index.chat.ids(part))
        start = end = None
        if times:
            start, end = min(times).isoformat(), max(times).isoformat()
        return Phase(title, ids, start, end, _line(lead), share, _line(last))


def _line(message: ChatMessage) -> str:
    return shorten(f"{message.speaker}: {message.text or message.caption}", _SHOWN)


def _title(count: Counter[str], everywhere: Counter[str]) -> str:
    """The three words that stand in this phase rather than in the others."""

    def rank(word: str) -> tuple[float, int, str]:
        elsewhere = everywhere[word] - count[word]
        return (-count[word] / (1 + elsewhere), -len(word), word)

    return " · ".join(sorted(count, key=rank)[:_TITLE]) or "untitled"


def _cut(index: ChatIndex, order: Sequence[int]) -> list[list[int]]:
    """Ascending positions cut into phases, each in one piece: as many as the evidence has, at most eight.

    A phase ends where the next message lies in another session: what is told on one occasion belongs
    together. Of more than seven such borders the strongest seven count.
    """
    if not order:
        return []
    borders = []
    for i, (before, after) in enumerate(itertools.pairwise(order), start=1):
        if index.session[before] != index.session[after]:
            borders.append((-_strength(index, before, after), i))
    strongest = sorted(borders)[: _MOST_PHASES - 1]
    edges = [0, *sorted(i for _, i in strongest), len(order)]
    return [list(order[start:end]) for start, end in itertools.pairwise(edges)]


def _strength(index: ChatIndex, before: int, after: int) -> float:
    """How clearly a story breaks between two messages: the silence (log hours) plus the change of topic
    (1 - cosine).
    """
    earlier, later = index.chat.messages[before], index.chat.messages[after]
    vectors = index.vectors.sentences
    strength = 0.0
    if earlier.time and later.time:
        silence = max(0.0, (later.time - earlier.time).total_seconds())
        strength = float(np.log1p(silence / 3600))
    return strength + (1 - float(vectors[before] @ vectors[after]))


def _joined(parts: list[list[int]], least: int) -> list[list[int]]:
    """Phases in order, each too small one joined to the neighbour that is nearer in the chat."""
    parts = list(parts)
    while len(parts) > 1:
        small = [i for i, part in enumerate(parts) if len(part) < least]
        if not small:
            break
        first = small[0]
        before = after = math.inf
        if first > 0:
            before = parts[first][0] - parts[first - 1][-1]
        if first + 1 < len(parts):
            after = parts[first + 1][0] - parts[first][-1]
        if before <= after:
            first -= 1
        parts[first : first + 2] = [parts[first] + parts[first + 1]]
    return parts
