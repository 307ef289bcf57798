"""Scores of logged dialogues exactly as the thesis's older version computed them (its "CAS" tables). Shifts
are what a similarity threshold takes for one, a reply counts as recovery until the end, and a session that
never recovers gets the best delay; docs/metrics.md, section 8, shows what that does.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from crs_lib.thesis.similarity import SentenceSpace, cosines
from crs_lib.thesis.tables import mean_of
from crs_lib.thesis.topics import TopicExtractor, admitted

WORDS_FROM, PATIENCE = 0.3, 4
SLOWEST = 5.0
METRICS = (
    "topic_recovery_rate", "avg_recovery_delay", "topic_interference", "cross_coherence",
    "context_retention", "context_adaptation_score",
)  # fmt: skip
_Topics = tuple[str, ...]
_Alike = dict[tuple[str, str], float]
_Asked = Callable[[str], _Topics]
_admitted = lru_cache(maxsize=100_000)(admitted)


class _Shift(NamedTuple):
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
    convention: Convention

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]:
        """The scores of each dialogue."""
        texts = list(dict.fromkeys(turn.text for d in dialogues for turn in d.turns))
        row = {text: number for number, text in enumerate(texts)}
        pairs = list(dict.fromkeys(pair for d in dialogues for pair in _compared(d)))
        first, second = [row[a] for a, _ in pairs], [row[b] for _, b in pairs]
        alike = dict(zip(pairs, cosines(self.space.rows(texts), first, second).tolist(), strict=True))
        ask = self._asked(texts, dialogues, alike)
        return [self._score(dialogue, ask, alike) for dialogue in dialogues]

    def _asked(self, texts: Sequence[str], dialogues: Sequence[Dialogue], alike: _Alike) -> _Asked:
        """The topics of a text: those of all texts and segments are asked for at once."""
        known = dict(zip(texts, self.topics.topics(texts), strict=True))
        texts_of = (_texts(d, USER) for d in dialogues)
        parts = (
            part for users in texts_of for part in _parts(users, known.__getitem__, alike, self.convention)
        )
        new = list(dict.fromkeys(part for _, part in parts if part not in known))
        known |= zip(new, self.topics.topics(new), strict=True)
        self._learn(map(_admitted, known.values()))
        return known.__getitem__

    def _learn(self, topics: Iterable[_Topics]) -> None:
        """Make the rows of all distinct topic lists at once; pairs of them are compared when asked for."""
        lists = [found for found in dict.fromkeys(topics) if found]
        rows = self.space.rows([" ".join(found) for found in lists])
        self._vectors = dict(zip(lists, _entries(rows), strict=True))
        self._memo: dict[tuple[_Topics, _Topics], float] = {}

    def _match(self, reply: _Topics, wanted: _Topics) -> float:
        """Agreement of two topic lists, in [0, 1]: Jaccard, below 0.3 the similarity of their words."""
        pair = (reply, wanted)
        if pair not in self._memo:
            overlap = jaccard(set(reply), set(wanted), empty="zero")
            if overlap < WORDS_FROM:
                first, second = self._vectors[reply], self._vectors[wanted]
                overlap = sum(weight * second[key] for key, weight in first.items() if key in second)
            self._memo[pair] = overlap
        return self._memo[pair]

    def _score(self, dialogue: Dialogue, ask: _Asked, alike: _Alike) -> Scores:
        """The scores of a dialogue; topics are asked for in the order in which the thesis asked."""
        systems = _texts(dialogue, SYSTEM)
        parts = _parts(_texts(dialogue, USER), ask, alike, self.convention)
        segments = [(first, _admitted(ask(part))) for first, part in parts]
        shifts = [
            self._shift(first, old, new, (_admitted(ask(text)) for text in systems[first:]))
            for (_, old), (first, new) in pairwise(segments)
        ]
        n_topics = [len(_admitted(ask(text))) for text in systems]
        cross = [alike[pair.user.text, pair.system.text] for pair in dialogue.pairs()]
        retained = [alike[pair] for pair in pairwise(systems)]
        head: dict[str, Any] = {"model": dialogue.model_name, "session_id": dialogue.session_id}
        detected = {shift.turn for shift in shifts}
        turns = [
            head | {"turn": turn, "cross_coherence": cc, "context_retention": cr,
                    "detected_shift": turn in detected, "n_topics": n_topics[turn - 1]}
            for turn, (cc, cr) in enumerate(zip(cross, [math.nan, *retained], strict=False), start=1)
        ]  # fmt: skip
        rows = [
            head | {"turn": shift.turn, "recovered_text": shift.recovered,
                    "delay_text": float(shift.delay) if shift.recovered else math.nan,
                    "interference": shift.interference}
            for shift in shifts
        ]  # fmt: skip
        late = [a.recovered and a.turn + a.delay > b.turn for a, b in pairwise(shifts)]
        session = head | {"convention": self.convention.name} | self._session(shifts, cross, retained)
        session |= {"judge": dict.fromkeys(constructs.CONSTRUCTS), "detail": {
            "n_turns": len(cross), "n_shifts": len(shifts),
            "n_recovered": sum(shift.recovered for shift in shifts), "n_recovered_late": sum(late),
            "n_segments_without_topics": sum(not topics for _, topics in segments),
            "shift_points": [shift.turn for shift in shifts],
        }}  # fmt: skip
        return Scores(turns, rows, session)

    def _shift(self, first: int, old: _Topics, new: _Topics, replies: Iterable[_Topics]) -> _Shift:
        """Scan all replies after the shift until one recovers it; the next shift stops nothing."""
        hits, seen = 0, 0
        for seen, reply in enumerate(replies, start=1):
            hits += bool(reply and old) and self._match(reply, old) >= self.convention.alignment
            if reply and new and self._match(reply, new) >= self.convention.alignment:
                return _Shift(first + 1, True, seen, hits / seen)
        return _Shift(first + 1, False, 0, hits / max(1, min(seen, PATIENCE)))

    def _session(
        self, shifts: Sequence[_Shift], cross: Sequence[float], retained: Sequence[float]
    ) -> dict[str, float]:
        """The values of :data:`METRICS` in a session."""
        rate = sum(shift.recovered for shift in shifts) / max(1, len(shifts))
        delay = mean_of([shift.delay for shift in shifts if shift.recovered])
        interference = sum(shift.interference for shift in shifts) / max(1, len(shifts))
        cc, cr = mean_of(cross), mean_of(retained)
        score = composite.cas(rate, delay - 1, interference, cc, cr, self.convention.cas, slowest=SLOWEST)
        return dict(zip(METRICS, (rate, delay, interference, cc, cr, score), strict=True))


def _entries(rows: Any) -> list[dict[int, float]]:
    """The entries of every row, sparse or dense, that are not zero."""
    sparse = scipy.sparse.csr_array(rows)
    places, values = sparse.indices.tolist(), sparse.data.tolist()
    return [dict(zip(places[a:b], values[a:b], strict=True)) for a, b in pairwise(sparse.indptr.tolist())]


def _texts(dialogue: Dialogue, speaker: str) -> list[str]:
    """The texts of one speaker, in order."""
    return [turn.text for turn in dialogue.turns if turn.speaker == speaker]


def _compared(dialogue: Dialogue) -> list[tuple[str, str]]:
    """The pairs of texts whose similarity a session needs: user to reply, reply to reply, user to user."""
    own = [(pair.user.text, pair.system.text) for pair in dialogue.pairs()]
    return [*own, *pairwise(_texts(dialogue, SYSTEM)), *pairwise(_texts(dialogue, USER))]


def _parts(
    users: Sequence[str], ask: _Asked, alike: _Alike, convention: Convention
) -> Iterator[tuple[int, str]]:
    """The segments of a session: the number of the first USER utterance (from 0), and the text of all. A
    segment opens with every utterance unlike the one before it, in its text or in its topics. It is given out
    as soon as the next one begins, before the topics of a later utterance are asked for.
    """
    if not users:
        return
    first, before = 0, ask(users[0])
    for number, (last, now) in enumerate(pairwise(users), start=1):
        topics = ask(now)
        alike_topics = jaccard(set(before), set(topics), empty="zero")
        if alike[last, now] < convention.shift_similarity or alike_topics < convention.shift_jaccard:
            yield first, " ".join(users[first:number])
            first = number
        before = topics
    yield first, " ".join(users[first:])
