"""Scores of logged dialogues exactly as the thesis's older version computed them (its "CAS" tables).

Shifts are whatever a similarity threshold takes for one, topics come from a topic extractor, a reply counts
as recovery until the end of the conversation, and a session that never recovers gets the best delay. Kept
to recompute the published figures; docs/metrics.md, section 8, shows what these choices do.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from crs_lib.core.dialogue import SYSTEM, USER, Dialogue
from crs_lib.metrics import composite, constructs
from crs_lib.metrics.conventions import Convention
from crs_lib.metrics.records import Scores
from crs_lib.metrics.similarity import SentenceSpace, cosines
from crs_lib.thesis.topics import TopicExtractor, admitted

SHIFT_SIMILARITY, SHIFT_JACCARD = 0.55, 0.35
ALIGNED, WORDS_FROM, PATIENCE = 0.65, 0.3, 4
SLOWEST = 5.0
METRICS = (
    "topic_recovery_rate", "avg_recovery_delay", "topic_interference", "cross_coherence",
    "context_retention", "context_adaptation_score",
)  # fmt: skip
_Topics = tuple[str, ...]


class Segment(NamedTuple):
    """A run of USER utterances between detected shifts: the first one's number, and the topics."""

    first: int
    topics: _Topics


class Shift(NamedTuple):
    """A detected shift: turn (from 1), whether and after how many replies it was recovered, interference."""

    turn: int
    recovered: bool
    delay: int
    interference: float


@dataclass(eq=False)
class LegacyScorer:
    """Scores dialogues with a sentence space and a topic extractor; answers do not depend on the batch."""

    space: SentenceSpace
    topics: TopicExtractor
    rule: Convention
    _memo: dict[tuple[_Topics, _Topics], float] = field(default_factory=dict, repr=False)

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]:
        """The scores of each dialogue."""
        texts = list(dict.fromkeys(turn.text for d in dialogues for turn in d.turns))
        topics = dict(zip(texts, self.topics.topics(texts), strict=True))
        alike = self._similarities(texts, [pair for d in dialogues for pair in compared(d)])
        bounds = [_shifts(texts_of(d, USER), alike, topics) for d in dialogues]
        joined = [_joined(texts_of(d, USER), firsts) for d, firsts in zip(dialogues, bounds, strict=True)]
        new = list(dict.fromkeys(text for parts in joined for text in parts if text not in topics))
        topics |= zip(new, self.topics.topics(new), strict=True)
        filtered = {found: admitted(found) for found in dict.fromkeys(topics.values())}
        kept = {text: filtered[found] for text, found in topics.items()}
        self._learn(filtered.values())
        return [
            self._score(d, [Segment(f, kept[t]) for f, t in zip(firsts, parts, strict=True)], kept, alike)
            for d, firsts, parts in zip(dialogues, bounds, joined, strict=True)
        ]

    def _similarities(
        self, texts: Sequence[str], pairs: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], float]:
        row = {text: number for number, text in enumerate(texts)}
        distinct = list(dict.fromkeys(pairs))
        first, second = [row[a] for a, _ in distinct], [row[b] for _, b in distinct]
        return dict(zip(distinct, cosines(self.space.rows(texts), first, second).tolist(), strict=True))

    def _learn(self, topics: Iterable[_Topics]) -> None:
        """Make the rows of all distinct topic lists at once; pairs of them are compared when asked for."""
        lists = [found for found in dict.fromkeys(topics) if found]
        rows = self.space.rows([" ".join(found) for found in lists])
        self._vectors = dict(zip(lists, _entries(rows), strict=True))
        self._memo.clear()

    def match(self, reply: _Topics, wanted: _Topics) -> float:
        """Agreement of two topic lists, in [0, 1]: Jaccard, below 0.3 the similarity of their words."""
        pair = (reply, wanted)
        if pair not in self._memo:
            a, b = set(reply), set(wanted)
            overlap = len(a & b) / len(a | b)
            if overlap < WORDS_FROM:
                first, second = self._vectors[reply], self._vectors[wanted]
                overlap = sum(weight * second[key] for key, weight in first.items() if key in second)
            self._memo[pair] = overlap
        return self._memo[pair]

    def _score(
        self,
        dialogue: Dialogue,
        segments: Sequence[Segment],
        kept: dict[str, _Topics],
        alike: dict[tuple[str, str], float],
    ) -> Scores:
        replies = [kept[text] for text in texts_of(dialogue, SYSTEM)]
        shifts = [self._shift(old, new, replies[new.first :]) for old, new in pairwise(segments)]
        return self._scores(dialogue, segments, shifts, replies, alike)

    def _scores(
        self,
        dialogue: Dialogue,
        segments: Sequence[Segment],
        shifts: Sequence[Shift],
        replies: Sequence[_Topics],
        alike: dict[tuple[str, str], float],
    ) -> Scores:
        systems = texts_of(dialogue, SYSTEM)
        cross = [alike[pair.user.text, pair.system.text] for pair in dialogue.pairs()]
        retained = [alike[pair] for pair in pairwise(systems)]
        head = {"model": dialogue.model_name, "session_id": dialogue.session_id}
        detected = {shift.turn for shift in shifts}
        turns = [
            {
                **head,
                "turn": turn,
                "cross_coherence": cc,
                "context_retention": math.nan if turn == 1 else retained[turn - 2],
                "detected_shift": turn in detected,
                "n_topics": len(replies[turn - 1]),
            }
            for turn, cc in enumerate(cross, start=1)
        ]
        rows = [
            {
                **head,
                "turn": shift.turn,
                "recovered_text": shift.recovered,
                "delay_text": float(shift.delay) if shift.recovered else math.nan,
                "interference": shift.interference,
            }
            for shift in shifts
        ]
        return Scores(turns, rows, self._session(dialogue, shifts, cross, retained, segments))

    def _shift(self, old: Segment, new: Segment, replies: Iterable[_Topics]) -> Shift:
        """Scan all replies after the shift until one recovers it; the next shift stops nothing."""
        hits, seen = 0, 0
        for reply in replies:
            seen += 1
            if not reply:
                continue
            if old.topics and self.match(reply, old.topics) >= ALIGNED:
                hits += 1
            if new.topics and self.match(reply, new.topics) >= ALIGNED:
                return Shift(new.first + 1, True, seen, hits / seen)
        return Shift(new.first + 1, False, 0, hits / max(1, min(seen, PATIENCE)))

    def _session(
        self,
        dialogue: Dialogue,
        shifts: Sequence[Shift],
        cross: Sequence[float],
        retained: Sequence[float],
        segments: Sequence[Segment],
    ) -> dict[str, Any]:
        delays = [shift.delay for shift in shifts if shift.recovered]
        rate = len(delays) / len(shifts) if shifts else 0.0
        delay = sum(delays) / len(delays) if delays else 0.0
        interference = sum(shift.interference for shift in shifts) / len(shifts) if shifts else 0.0
        cc, cr = _mean(cross), _mean(retained)
        score = composite.cas(rate, delay - 1, interference, cc, cr, self.rule.cas, slowest=SLOWEST)
        return {
            "model": dialogue.model_name,
            "session_id": dialogue.session_id,
            "convention": self.rule.name,
            "topic_recovery_rate": rate,
            "avg_recovery_delay": delay,
            "topic_interference": interference,
            "cross_coherence": cc,
            "context_retention": cr,
            "context_adaptation_score": score,
            "judge": constructs.unjudged(),
            "detail": {
                "n_turns": len(cross),
                "n_shifts": len(shifts),
                "n_recovered": len(delays),
                "n_recovered_late": _late(shifts),
                "n_segments_without_topics": sum(not segment.topics for segment in segments),
                "shift_points": [shift.turn for shift in shifts],
            },
        }


def _entries(rows: Any) -> list[dict[int, float]]:
    """The entries of every row, sparse or dense, that are not zero."""
    if not hasattr(rows, "indptr"):
        return [{place: value for place, value in enumerate(row) if value} for row in rows.tolist()]
    places, values = rows.indices.tolist(), rows.data.tolist()
    return [dict(zip(places[a:b], values[a:b], strict=True)) for a, b in pairwise(rows.indptr.tolist())]


def _late(shifts: Sequence[Shift]) -> int:
    """Recoveries that came only after the next shift had been detected."""
    return sum(shift.recovered and shift.turn + shift.delay > after.turn for shift, after in pairwise(shifts))


def texts_of(dialogue: Dialogue, speaker: str) -> list[str]:
    """The texts of one speaker, in order."""
    return [turn.text for turn in dialogue.turns if turn.speaker == speaker]


def compared(dialogue: Dialogue) -> list[tuple[str, str]]:
    """The pairs of texts whose similarity a session needs: user to reply, reply to reply, user to user."""
    own = [(pair.user.text, pair.system.text) for pair in dialogue.pairs()]
    return [*own, *pairwise(texts_of(dialogue, SYSTEM)), *pairwise(texts_of(dialogue, USER))]


def _shifts(
    users: Sequence[str], alike: dict[tuple[str, str], float], topics: dict[str, _Topics]
) -> list[int]:
    """The USER utterances (from 0) that open a segment: 0, and every one unlike the one before it."""
    firsts = [0] if users else []
    for number, (before, now) in enumerate(pairwise(users), start=1):
        if is_shift(alike[before, now], topics[before], topics[now]):
            firsts.append(number)
    return firsts


def is_shift(similarity: float, before: _Topics, now: _Topics) -> bool:
    """Whether an utterance opens a segment: unlike the one before it, in its text or in its topics."""
    return similarity < SHIFT_SIMILARITY or _jaccard(before, now) < SHIFT_JACCARD


def _jaccard(a: _Topics, b: _Topics) -> float:
    """Overlap of two topic lists, in [0, 1]; 0 where both are empty."""
    if a == b:
        return 1.0 if a else 0.0
    either = set(a) | set(b)
    return len(set(a) & set(b)) / len(either)


def _joined(users: Sequence[str], firsts: Sequence[int]) -> list[str]:
    return [" ".join(users[a:b]) for a, b in pairwise([*firsts, len(users)])]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0
