"""Scores of logged dialogues exactly as the thesis's older version computed them (its "CAS" tables). Shifts
are what a similarity threshold takes for one, a reply counts as recovery until the end, and a session that
never recovers gets the best delay; docs/metrics.md, section 8, shows what that does.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import scipy

from crs_lib.core.dialogue import SYSTEM, USER, Dialogue
from crs_lib.metrics import composite, constructs
from crs_lib.metrics.conventions import Convention
from crs_lib.metrics.overlap import jaccard
from crs_lib.metrics.records import Scores
from crs_lib.thesis.grounded import mean_of
from crs_lib.thesis.similarity import SentenceSpace, similarities
from crs_lib.thesis.topics import TopicExtractor, admitted

WORDS_FROM = 0.3  # agreement of topics below which the similarity of their words is taken
PATIENCE = 4  # replies that interference is a share of, where none recovers
SLOWEST = 5.0  # replies from which a delay counts as the slowest
METRICS = (
    "topic_recovery_rate",
    "avg_recovery_delay",
    "topic_interference",
    "cross_coherence",
    "context_retention",
    "context_adaptation_score",
)
Topics = tuple[str, ...]
Alike = dict[tuple[str, str], float]
Ask = Callable[[str], Topics]
_admitted = lru_cache(maxsize=100_000)(admitted)


class _Shift(NamedTuple):
    """A detected shift: turn (from 1), whether and after how many replies it was recovered, interference."""

    turn: int
    recovered: bool
    delay: int
    interference: float


class _Segment(NamedTuple):
    """The USER utterances between two shifts: the number of the first (from 0), and the topics of all."""

    first: int
    topics: Topics


@dataclass(eq=False)
class LegacyScorer:
    """Scores dialogues with a sentence space and a topic extractor; answers do not depend on the batch."""

    space: SentenceSpace
    topics: TopicExtractor
    convention: Convention

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]:
        """The scores of each dialogue."""
        every: list[str] = []
        pairs: list[tuple[str, str]] = []
        for dialogue in dialogues:
            every += [turn.text for turn in dialogue.turns]
            pairs += _compared(dialogue)
        texts = list(dict.fromkeys(every))
        alike = similarities(self.space, texts, list(dict.fromkeys(pairs)))
        ask = self._topics_of(texts, dialogues, alike)
        return [self._score(dialogue, ask, alike) for dialogue in dialogues]

    def _topics_of(self, texts: Sequence[str], dialogues: Sequence[Dialogue], alike: Alike) -> Ask:
        """The topics of a text: those of all texts and segments are asked for at once."""
        topics = dict(zip(texts, self.topics.topics(texts), strict=True))
        new: dict[str, None] = {}
        for dialogue in dialogues:
            users = _texts(dialogue, USER)
            for _, part in _parts(users, topics.__getitem__, alike, self.convention):
                if part not in topics:
                    new[part] = None
        parts = list(new)
        topics.update(zip(parts, self.topics.topics(parts), strict=True))
        self._learn(topics.values())
        return topics.__getitem__

    def _learn(self, topics: Iterable[Sequence[str]]) -> None:
        """Make the rows of all distinct topic lists at once; pairs of them are compared when asked for."""
        distinct = dict.fromkeys(map(_admitted, topics))
        lists = list(filter(None, distinct))
        rows = self.space.rows(list(map(" ".join, lists)))
        self._vectors = dict(zip(lists, _entries(rows), strict=True))
        self._memo: dict[tuple[Topics, Topics], float] = {}

    def _match(self, reply: Topics, wanted: Topics) -> float:
        """Agreement of two topic lists, in [0, 1]: Jaccard, below 0.3 the similarity of their words."""
        pair = (reply, wanted)
        if pair not in self._memo:
            agreement = jaccard(set(reply), set(wanted), empty="zero")
            if agreement < WORDS_FROM:
                agreement = _dot(self._vectors[reply], self._vectors[wanted])
            self._memo[pair] = agreement
        return self._memo[pair]

    def _score(self, dialogue: Dialogue, ask: Ask, alike: Alike) -> Scores:
        """The scores of a dialogue; topics are asked for in the order in which the thesis asked."""
        users = _texts(dialogue, USER)
        replies = _texts(dialogue, SYSTEM)
        segments = []
        for first, part in _parts(users, ask, alike, self.convention):
            segments.append(_Segment(first, _admitted(ask(part))))
        shifts = []
        for old, new in pairwise(segments):
            later = map(ask, replies[new.first :])  # asked until one recovers
            shifts.append(self._shift(old, new, map(_admitted, later)))
        answers = map(_admitted, map(ask, replies))
        n_topics = list(map(len, answers))
        cross = [alike[pair.user.text, pair.system.text] for pair in dialogue.pairs()]
        retained = list(map(alike.__getitem__, pairwise(replies)))
        detail = _detail(len(cross), shifts, segments)
        who: dict[str, Any] = {"model": dialogue.model_name, "session_id": dialogue.session_id}
        turns = _turn_rows(who, cross, retained, n_topics, detail["shift_points"])
        session = {**who, "convention": self.convention.name}
        session.update(self._session(shifts, cross, retained))
        session["judge"] = dict.fromkeys(constructs.CONSTRUCTS)
        session["detail"] = detail
        return Scores(turns, [_shift_row(who, shift) for shift in shifts], session)

    def _shift(self, old: _Segment, new: _Segment, replies: Iterable[Topics]) -> _Shift:
        """Scan all replies after the shift until one recovers it; the next shift stops nothing."""
        turn = new.first + 1
        hits = 0
        scanned = 0
        for reply in replies:
            scanned += 1
            hits += self._agrees(reply, old.topics)
            if self._agrees(reply, new.topics):
                return _Shift(turn, True, scanned, hits / scanned)
        waited = max(1, min(scanned, PATIENCE))
        return _Shift(turn, False, 0, hits / waited)

    def _agrees(self, reply: Topics, wanted: Topics) -> bool:
        return bool(reply and wanted) and self._match(reply, wanted) >= self.convention.alignment

    def _session(
        self, shifts: Sequence[_Shift], cross: Sequence[float], retained: Sequence[float]
    ) -> dict[str, float]:
        """The values of :data:`METRICS` in a session."""
        delays = [shift.delay for shift in shifts if shift.recovered]
        n_shifts = max(1, len(shifts))
        rate = len(delays) / n_shifts
        delay = mean_of(delays)
        interference = sum(shift.interference for shift in shifts) / n_shifts
        cc = mean_of(cross)
        cr = mean_of(retained)
        score = composite.cas(rate, delay - 1, interference, cc, cr, self.convention.cas, slowest=SLOWEST)
        values = (rate, delay, interference, cc, cr, score)
        return dict(zip(METRICS, values, strict=True))


def _turn_rows(
    who: Mapping[str, Any],
    cross: Sequence[float],
    retained: Sequence[float],
    n_topics: Sequence[int],
    shift_turns: Sequence[int],
) -> list[dict[str, Any]]:
    """A row a turn; the first reply retains nothing."""
    rows = []
    values = zip(cross, [math.nan, *retained], n_topics, strict=False)
    for turn, (cc, cr, n) in enumerate(values, start=1):
        row = {**who, "turn": turn, "cross_coherence": cc, "context_retention": cr}
        row["detected_shift"] = turn in shift_turns
        row["n_topics"] = n
        rows.append(row)
    return rows


def _shift_row(who: Mapping[str, Any], shift: _Shift) -> dict[str, Any]:
    row = {**who, "turn": shift.turn, "recovered_text": shift.recovered}
    row["delay_text"] = float(shift.delay) if shift.recovered else math.nan
    row["interference"] = shift.interference
    return row


def _detail(n_turns: int, shifts: Sequence[_Shift], segments: Sequence[_Segment]) -> dict[str, Any]:
    """Counts of a session: turns, shifts, recoveries, late ones, segments without topics."""
    late = 0
    for shift, following in pairwise(shifts):
        late += shift.recovered and shift.turn + shift.delay > following.turn
    detail: dict[str, Any] = {"n_turns": n_turns, "n_shifts": len(shifts)}
    detail["n_recovered"] = sum(shift.recovered for shift in shifts)
    detail["n_recovered_late"] = late
    detail["n_segments_without_topics"] = sum(not segment.topics for segment in segments)
    detail["shift_points"] = [shift.turn for shift in shifts]
    return detail


def _dot(first: Mapping[int, float], second: Mapping[int, float]) -> float:
    product = 0.0
    for key, weight in first.items():
        if key in second:
            product += weight * second[key]
    return product


def _entries(rows: Any) -> list[dict[int, float]]:
    """The entries of every row, sparse or dense, that are not zero."""
    sparse = scipy.sparse.csr_array(rows)
    columns = sparse.indices.tolist()
    values = sparse.data.tolist()
    entries = []
    for start, end in pairwise(sparse.indptr.tolist()):
        row = zip(columns[start:end], values[start:end], strict=True)
        entries.append(dict(row))
    return entries


def _texts(dialogue: Dialogue, speaker: str) -> list[str]:
    """The texts of one speaker, in order."""
    return [turn.text for turn in dialogue.turns if turn.speaker == speaker]


def _compared(dialogue: Dialogue) -> list[tuple[str, str]]:
    """The pairs of texts whose similarity a session needs: user to reply, reply to reply, user to user."""
    compared = [(pair.user.text, pair.system.text) for pair in dialogue.pairs()]
    for speaker in (SYSTEM, USER):
        compared += pairwise(_texts(dialogue, speaker))
    return compared


def _parts(users: Sequence[str], ask: Ask, alike: Alike, convention: Convention) -> Iterator[tuple[int, str]]:
    """The segments of a session: the number of the first USER utterance (from 0), and the text of all. A
    segment opens with every utterance unlike the one before it, in its text or in its topics. It is given out
    as soon as the next one begins, before the topics of a later utterance are asked for.
    """
    if not users:
        return
    first = 0
    before = ask(users[0])
    for number, pair in enumerate(pairwise(users), start=1):
        topics = ask(users[number])
        shared = jaccard(set(before), set(topics), empty="zero")
        if alike[pair] < convention.shift_similarity or shared < convention.shift_jaccard:
            yield first, " ".join(users[first:number])
            first = number
        before = topics
    yield first, " ".join(users[first:])
