"""Scores of logged dialogues exactly as the thesis's grounded version computed them (its "TAS" tables). Its
conventions (both sides empty agree fully, clipping, recovery beyond the next shift) are kept although they
are not ours: docs/metrics.md, section 8.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.metrics import composite, constructs, overlap
from crs_lib.metrics.base import HIGHER, LOWER, SESSION, TURN, Metric, declare
from crs_lib.metrics.composite import Recovery
from crs_lib.metrics.conventions import Convention, TasWeights
from crs_lib.metrics.records import Scores, defined
from crs_lib.thesis.catalog import ThesisCatalog
from crs_lib.thesis.similarity import SentenceSpace, similarities

# The mean of a session by the turn's column.
MEANS = {
    "cross_coherence": "cross_coherence",
    "context_retention": "context_retention",
    "topic_interference": "topic_interference",
    "topic_adaptation_score": "topic_adaptation_score",
    "semantic_similarity": "semantic_similarity_mean",
    "slot_precision": "dst_precision_mean",
    "slot_recall": "dst_recall_mean",
    "slot_f1": "dst_f1_mean",
    "slot_joint": "dst_joint_accuracy_mean",
    "recommendation_satisfaction": "recommendation_satisfaction_mean",
}
_OF_SESSIONS = (
    "topic_recovery_rate",
    "avg_recovery_delay",
    "recovery_rate_cosine",
    "avg_recovery_delay_cosine",
    "preference_coverage",
    "tas_volatility",
    "context_adaptation_score",
)
METRICS = (*MEANS.values(), *_OF_SESSIONS)
# Further names under which the thesis reported a value.
ALIASES = {
    "context_adaptation_score": "topic_adaptation_score",
    "adaptation_score_mean": "topic_adaptation_score",
    "trajectory_adaptation_score_mean": "topic_adaptation_score",
    "concept_overlap_mean": "cross_coherence",
    "constraint_similarity_mean": "context_retention",
    "weighted_constraint_similarity_mean": "context_retention",
    "copying_penalty_mean": "topic_interference",
    "concept_recovery_rate": "topic_recovery_rate",
    "avg_concept_recovery_delay": "avg_recovery_delay",
}
_SENTENCES = "sentence similarity baseline"
_BASELINE = "baseline of the thesis (docs/metrics.md, section 8)"
_SHARES = {
    "dst_precision_mean": "DST P",
    "dst_recall_mean": "DST R",
    "dst_f1_mean": "DST F1",
    "dst_joint_accuracy_mean": "DST joint",
    "recommendation_satisfaction_mean": "rec. satisfaction",
    "recovery_rate_cosine": "recovery (cosine)",
    "preference_coverage": "coverage",
}
for _name, _short in _SHARES.items():
    declare(Metric(_name, _short, SESSION, 0, 1, HIGHER, _BASELINE))
declare(
    Metric("semantic_similarity", "semantic", TURN, -1, 1, HIGHER, _SENTENCES),
    Metric("recommendation_satisfaction", "rec. satisfaction", TURN, 0, 1, HIGHER, _BASELINE),
    Metric("semantic_similarity_mean", "semantic", SESSION, -1, 1, HIGHER, _BASELINE),
    Metric("avg_recovery_delay_cosine", "delay (cosine)", SESSION, 0, math.inf, LOWER, _BASELINE),
)
_TOP = 10


_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)?")
_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789'"
_PLAIN = bytes(code if code in _LETTERS else 32 for code in range(256))
_Row = dict[str, Any]
_Codes = frozenset[int]
_Wishes = tuple[tuple[str, str], ...]  # field and value


class _GroundedTurn(NamedTuple):
    """A turn, the concepts of its texts and of what is wished, copying, and how alike the texts are."""

    pair: Pair
    user: _Codes
    system: _Codes
    gold: _Codes
    echo: float
    alike: float


class _Recoveries(NamedTuple):
    """When each shift was recovered: by overlap or similarity of concepts, and by similarity alone."""

    combined: list[Recovery]
    cosine: list[Recovery]


@dataclass(eq=False)
class GroundedScorer:
    """Scores dialogues against the thesis's index. ``space`` compares sentences; None leaves that out."""

    catalog: ThesisCatalog
    extractor: Any
    space: SentenceSpace | None
    convention: Convention

    @cached_property
    def _idf(self) -> list[float]:
        return list(self.extractor.space.idf.tolist())

    @cached_property
    def _of_title(self) -> dict[str, _Codes]:
        return dict(zip(self.catalog.titles, self.catalog.raw_codes, strict=True))

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]:
        """The scores of each dialogue; the answer does not depend on which are given together."""
        pairs: dict[tuple[str, str], None] = {}
        values: dict[str, None] = {}
        for dialogue in dialogues:
            for pair in dialogue.pairs():
                pairs[pair.user.text, pair.system.text] = None
                for _, value in _wishes(pair) or ():
                    values[value] = None
        texts = list(dict.fromkeys(chain.from_iterable(pairs)))
        to_read = list(dict.fromkeys([*texts, *values]))
        concepts = dict(zip(to_read, self.extractor.sets(to_read), strict=True))
        words = dict(zip(texts, map(_words_of, texts), strict=True))
        alike = dict.fromkeys(pairs, math.nan)
        if self.space is not None:
            alike = similarities(self.space, texts, list(pairs))
        scores = []
        for dialogue in dialogues:
            turns = []
            for pair in dialogue.pairs():
                user = pair.user.text
                system = pair.system.text
                echo = overlap.copied_share(words[system], words[user], self.convention.copy_orders)
                gold = self._gold(pair, concepts)
                turn = _GroundedTurn(pair, concepts[user], concepts[system], gold, echo, alike[user, system])
                turns.append(turn)
            scores.append(self._score(dialogue, turns))
        return scores

    def _gold(self, pair: Pair, concepts: dict[str, _Codes]) -> _Codes:
        """The concepts that are wished; without a log the user's own words stand for them."""
        wishes = _wishes(pair)
        if wishes is None:
            return concepts[pair.user.text]
        field = self.extractor.space.field
        gold: set[int] = set()
        for name, value in wishes:
            gold.update(code for code in concepts[value] if field[code] == name)
        return frozenset(gold)

    def _score(self, dialogue: Dialogue, turns: Sequence[_GroundedTurn]) -> Scores:
        who: _Row = {"model": dialogue.model_name, "session_id": dialogue.session_id}
        rows = [who | self._turn(turn) for turn in turns]
        shifts = [turn for turn in dialogue.shift_turns() if 1 <= turn <= len(turns)]
        recoveries = self._recoveries(rows, shifts)
        shift_rows = [who | row for row in _shift_rows(recoveries)]
        session = {**who, "convention": self.convention.name}
        session.update(self._session(turns, rows, recoveries))
        session["detail"]["segments"] = self._segments(turns, shifts)
        session["detail"]["shift_points"] = shifts
        return Scores(rows, shift_rows, session)

    def _recoveries(self, rows: Sequence[_Row], shifts: Sequence[int]) -> _Recoveries:
        convention = self.convention
        alike = []
        either = []
        for row in rows:
            is_alike = row["context_retention"] >= convention.recovery_cr
            alike.append(is_alike)
            either.append(row["cross_coherence"] >= convention.recovery_cc or is_alike)
        how: Any = {"window": convention.window, "within_segment": convention.within_segment}
        combined = composite.after_shifts(shifts, either, **how)
        return _Recoveries(combined, composite.after_shifts(shifts, alike, **how))

    def _turn(self, turn: _GroundedTurn) -> _Row:
        convention = self.convention
        user = turn.user
        system = turn.system
        cc = overlap.jaccard(user, system, empty=convention.empty)
        cr = overlap.idf_cosine(user, system, self._idf, empty=convention.empty)
        unclipped = composite.tas(cc, cr, turn.echo, convention.tas)
        row: _Row = {"turn": turn.pair.turn}
        row["stage"] = str(turn.pair.user.state.stage)
        row["cross_coherence"] = cc
        row["context_retention"] = cr
        row["topic_interference"] = turn.echo
        row["topic_adaptation_score"] = self._tas(cc, cr, turn.echo)
        row["clipped"] = convention.clip and abs(unclipped) > 1
        row["both_empty"] = not user and not system
        row["undefined"] = overlap.BOTH_EMPTY if math.isnan(cc) else ""
        row["semantic_similarity"] = turn.alike
        slots = overlap.agreement(turn.gold, system)
        for name, value in slots._asdict().items():
            row[f"slot_{name}"] = value
        row["recommendation_satisfaction"] = self._satisfaction(turn)
        row["missing_concepts"] = self.extractor.space.keys(user - system)
        row["hallucinated_concepts"] = self.extractor.space.keys(system - user)
        return row

    def _tas(self, cc: float, cr: float, copying: float) -> float:
        return composite.tas(cc, cr, copying, self.convention.tas, clip=self.convention.clip)

    def _satisfaction(self, turn: _GroundedTurn) -> float:
        """The best recommended film's idf-weighted share of the constraints, in [0, 1]; 0 without either.
        Constraints are compared with raw labels, as the thesis did: see ``ThesisCatalog.raw_codes``.
        """
        titles = turn.pair.system.meta.get("rec_titles") or ()
        if not turn.gold or not titles:
            return 0.0
        weights = []
        for title in map(str, titles):
            film = self._of_title.get(title, frozenset())
            weights.append(self._weight(turn.gold & film))
        return max(weights) / self._weight(turn.gold)

    def _weight(self, codes: _Codes) -> float:
        """Sum of the idf weights of concepts, rounded once: their order does not matter."""
        return math.fsum(map(self._idf.__getitem__, codes))

    def _rate(self, recoveries: Sequence[Recovery]) -> float:
        rate = composite.rate(recoveries)
        if math.isnan(rate) and self.convention.undefined != "missing":
            return 0.0
        return rate

    def _session(self, turns: Sequence[_GroundedTurn], rows: Sequence[_Row], recoveries: _Recoveries) -> _Row:
        record: _Row = {}
        for column, name in MEANS.items():
            record[name] = mean_of([row[column] for row in rows])
        record["topic_interference_leakage"] = math.nan
        record["topic_recovery_rate"] = self._rate(recoveries.combined)
        record["avg_recovery_delay"] = composite.mean_delay(recoveries.combined)
        record["recovery_rate_cosine"] = self._rate(recoveries.cosine)
        record["avg_recovery_delay_cosine"] = composite.mean_delay(recoveries.cosine)
        for alias, name in ALIASES.items():
            record[alias] = record[name]
        record["tas_volatility"] = _spread_of([row["topic_adaptation_score"] for row in rows])
        record["judge"] = dict.fromkeys(constructs.CONSTRUCTS)
        record["detail"] = detail(rows, len(recoveries.combined))
        wished: set[int] = set()
        named: set[int] = set()
        for turn in turns:
            wished |= turn.gold
            named |= turn.system
        record["preference_coverage"] = len(wished & named) / len(wished) if wished else math.nan
        return record

    def _segments(self, turns: Sequence[_GroundedTurn], shifts: Sequence[int]) -> list[_Row]:
        """CC of the united concepts, CR of the summed vectors, mean I and their TAS, from shift to shift."""
        starts = [turn for turn in shifts if turn > 1]
        rows = []
        for first, after in pairwise([1, *starts, len(turns) + 1]):
            part = turns[first - 1 : after - 1]
            users: Counter[int] = Counter()
            systems: Counter[int] = Counter()
            for turn in part:
                users.update(turn.user)
                systems.update(turn.system)
            cc = overlap.jaccard(users.keys(), systems.keys(), empty=self.convention.empty)
            cr = self._cosine(users, systems)
            echo = mean_of([turn.echo for turn in part])
            row: _Row = {"first": first, "last": after - 1, "cc": cc, "cr": cr, "copying": echo}
            row["tas"] = self._tas(cc, cr, echo)
            rows.append(row)
        return rows

    def _cosine(self, users: Counter[int], systems: Counter[int]) -> float:
        """The cosine of the sums of the turns' idf vectors; 0 where one is zero."""
        dot = 0.0
        for code in sorted(users.keys() & systems.keys()):
            dot += users[code] * systems[code] * self._idf[code] ** 2
        if not dot:
            return 0.0
        return dot / math.sqrt(self._squares(users) * self._squares(systems))

    def _squares(self, counts: Counter[int]) -> float:
        squares = 0.0
        for code, count in sorted(counts.items()):
            squares += (count * self._idf[code]) ** 2
        return squares


def _shift_rows(recoveries: _Recoveries) -> list[_Row]:
    """A row a shift: how long it was watched, and its recovery by both signals."""
    rows = []
    for combined, cosine in zip(*recoveries, strict=True):
        row: _Row = {"turn": combined.turn, "watched": combined.watched}
        row["delay_combined"] = combined.delay
        row["recovered_combined"] = combined.recovered
        row["delay_cosine"] = cosine.delay
        row["recovered_cosine"] = cosine.recovered
        rows.append(row)
    return rows


def compute_tas(cc: float, cr: float, copying: float, weights: TasWeights | None = None) -> float:
    """TAS of a turn, α·CC + β·CR − γ·I, cut to [−1, 1]; all weights are 1 where none are given."""
    return composite.tas(cc, cr, copying, weights or TasWeights(), clip=True)


def copy_ratio(system_text: str, user_text: str, n_orders: Sequence[int] = (3, 4)) -> float:
    """The copying penalty I of a reply.

    Parameters
    ----------
    system_text, user_text
        The reply, and the utterance that it answers.
    n_orders
        Lengths of the runs of words that are compared; those longer than the reply are left out.

    Returns
    -------
    float
        The largest share, in [0, 1], of the reply's distinct runs of words that the utterance has too; 0 for
        a reply that is shorter than every run.

    Examples
    --------
    >>> copy_ratio("You want a French comedy", "I want a French comedy")
    0.6666666666666666
    """
    return overlap.copied_share(_words_of(system_text), _words_of(user_text), n_orders)


def _words_of(text: str) -> list[str]:
    """The thesis's words for copying: runs of a–z and 0–9, lower case, with one apostrophe part at most."""
    letters = text.lower().encode("ascii", "replace")
    plain = letters.translate(_PLAIN).decode()
    return _WORD.findall(plain) if "'" in plain else plain.split()


def _wishes(pair: Pair) -> _Wishes | None:
    """Field and value of every logged constraint of a turn; None where the log names none."""
    state = pair.user.state
    if not state.logged:
        return None
    wishes = []
    for name, value in state.constraints.items():
        values = value if isinstance(value, list | tuple) else [value]
        for single in values:
            if single is not None:
                wishes.append((name, str(single)))
    return tuple(wishes)


def mean_of(values: Sequence[float]) -> float:
    """Mean of the defined values; 0 for a session without turns, NaN where none of its turns defines it."""
    numbers = defined(values)
    if numbers:
        return math.fsum(numbers) / len(numbers)
    return math.nan if values else 0.0


def _spread_of(values: Sequence[float]) -> float:
    """Standard deviation of the defined values as a population; NaN where there is none."""
    numbers = defined(values)
    if not numbers:
        return math.nan
    middle = mean_of(numbers)
    squares = math.fsum((number - middle) ** 2 for number in numbers)
    return math.sqrt(squares / len(numbers))


def detail(turns: Sequence[Mapping[str, Any]], n_shifts: int) -> dict[str, Any]:
    """Counts of a session: turns, shifts, empty and clipped turns, concepts missing and added, ten on top."""
    counts: dict[str, Any] = {"n_turns": len(turns), "n_shifts": n_shifts}
    counts["n_both_empty_turns"] = sum(turn["both_empty"] for turn in turns)
    counts["n_clipped_turns"] = sum(turn["clipped"] for turn in turns)
    top = {}
    for kind in ("missing", "hallucinated"):
        concepts: Counter[str] = Counter()
        for turn in turns:
            concepts.update(turn[f"{kind}_concepts"])
        counts[f"{kind}_concepts"] = concepts.total()
        ranked = sorted(sorted(concepts.items()), key=itemgetter(1), reverse=True)
        top[f"top_{kind}"] = list(map(list, ranked[:_TOP]))
    return counts | top
