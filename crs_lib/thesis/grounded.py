"""Scores of logged dialogues exactly as the thesis's grounded version computed them (its "TAS" tables).

Each distinct text of a chunk is looked at once; what is computed per turn are sets of codes. The conventions
(both sides empty agree fully, clipping, recovery beyond the next shift) are kept although they are not ours;
docs/metrics.md, section 8, shows what they do to the numbers.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.metrics import composite, constructs, overlap, recovery
from crs_lib.metrics.conventions import Convention
from crs_lib.metrics.records import Scores
from crs_lib.metrics.similarity import SentenceSpace, cosines
from crs_lib.thesis.catalog import ThesisCatalog
from crs_lib.thesis.extractors import Extractor
from crs_lib.thesis.tables import ALIASES, MEANS, METRICS, detail, mean_of, spread_of

__all__ = ["ALIASES", "METRICS", "GroundedScorer"]
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)?")
_KEPT = bytes(c if c in b"abcdefghijklmnopqrstuvwxyz0123456789'" else 32 for c in range(256))
_SIGNALS = {"combined": ("topic_recovery_rate", "avg_recovery_delay"),
            "cosine": ("recovery_rate_cosine", "avg_recovery_delay_cosine")}  # fmt: skip


_Wish = tuple[str, str]


class _Texts(NamedTuple):
    """What is known of the distinct texts of a chunk, by text."""

    concepts: Mapping[str, frozenset[int]]
    words: Mapping[str, Sequence[str]]


class _Look(NamedTuple):
    """A turn, what is wished in it, as concepts, and how alike its two texts are."""

    pair: Pair
    gold: frozenset[int]
    alike: float


@dataclass(eq=False)
class GroundedScorer:
    """Scores dialogues against the thesis's index. ``space`` compares sentences; None leaves that out."""

    catalog: ThesisCatalog
    extractor: Extractor
    space: SentenceSpace | None
    rule: Convention

    @cached_property
    def _idf(self) -> list[float]:
        weights: list[float] = self.extractor.space.idf.tolist()
        return weights

    @cached_property
    def _of_title(self) -> Mapping[str, frozenset[int]]:
        return dict(zip(self.catalog.titles, self.catalog.raw_codes, strict=True))

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]:
        """The scores of each dialogue; the answer does not depend on which are given together."""
        pairs = [dialogue.pairs() for dialogue in dialogues]
        every = [pair for several in pairs for pair in several]
        said = list(dict.fromkeys(turn.text for pair in every for turn in (pair.user, pair.system)))
        wished = [_wishes(pair) for pair in every]
        values = dict.fromkeys(value for wishes in wished for _, value in wishes or ())
        looked_up = list(dict.fromkeys([*said, *values]))
        concepts = dict(zip(looked_up, self.extractor.sets(looked_up), strict=True))
        texts = _Texts(concepts, {text: words_of(text) for text in said})
        golds = self._golds(every, wished, concepts)
        looks = map(_Look, every, golds, self._similarities(said, every))
        return [
            self._score(dialogue, list(islice(looks, len(mine))), texts)
            for dialogue, mine in zip(dialogues, pairs, strict=True)
        ]

    def _golds(
        self,
        pairs: Sequence[Pair],
        wished: Sequence[tuple[_Wish, ...] | None],
        concepts: Mapping[str, frozenset[int]],
    ) -> list[frozenset[int]]:
        """What the log says is wished, as the extractor sees it; without a log the user's own words."""
        field = self.extractor.space.field
        meant = {
            wishes: frozenset(c for name, value in wishes for c in concepts[value] if field[c] == name)
            for wishes in dict.fromkeys(wished)
            if wishes is not None
        }
        return [
            concepts[pair.user.text] if wishes is None else meant[wishes]
            for pair, wishes in zip(pairs, wished, strict=True)
        ]

    def _similarities(self, said: Sequence[str], pairs: Sequence[Pair]) -> list[float]:
        if self.space is None or not pairs:
            return [math.nan] * len(pairs)
        row = {text: number for number, text in enumerate(said)}
        users, systems = [row[p.user.text] for p in pairs], [row[p.system.text] for p in pairs]
        found: list[float] = cosines(self.space.rows(said), users, systems).tolist()
        return found

    def _score(self, dialogue: Dialogue, looks: Sequence[_Look], texts: _Texts) -> Scores:
        turns = [self._turn(dialogue, look, texts) for look in looks]
        shifts = [turn for turn in dialogue.shift_turns() if 1 <= turn <= len(turns)]
        met = {
            "combined": [self._met(t["cross_coherence"], t["context_retention"]) for t in turns],
            "cosine": [t["context_retention"] >= self.rule.recovery_cr for t in turns],
        }
        found = {
            signal: recovery.after_shifts(
                shifts, flags, window=self.rule.window, within_segment=self.rule.within_segment
            )
            for signal, flags in met.items()
        }
        rows = [self._shift(dialogue, found, place) for place in range(len(shifts))]
        session = self._session(dialogue, turns, found)
        session["preference_coverage"] = self._coverage(looks, texts)
        session["detail"]["segments"] = self._segments([look.pair for look in looks], texts, turns, shifts)
        session["detail"]["shift_points"] = shifts
        return Scores(turns, rows, session)

    def _met(self, cc: float, cr: float) -> bool:
        return cc >= self.rule.recovery_cc or cr >= self.rule.recovery_cr

    def _turn(self, dialogue: Dialogue, look: _Look, texts: _Texts) -> dict[str, Any]:
        pair, gold, alike = look
        user, system = texts.concepts[pair.user.text], texts.concepts[pair.system.text]
        cc = overlap.jaccard(user, system, empty=self.rule.empty)
        cr = overlap.idf_cosine(user, system, self._idf, empty=self.rule.empty)
        words = texts.words
        echo = overlap.copied_share(words[pair.system.text], words[pair.user.text], self.rule.copy_orders)
        tas = partial(composite.tas, cc, cr, echo, self.rule.tas)
        score = tas()
        clipped = self.rule.clip and abs(score) > 1
        slots = overlap.agreement(gold, system)
        keys = self.extractor.space.all_keys.__getitem__
        return {
            "model": dialogue.model_name,
            "session_id": dialogue.session_id,
            "turn": pair.turn,
            "stage": str(pair.user.user_meta.get("stage", "")),
            "cross_coherence": cc,
            "context_retention": cr,
            "topic_interference": echo,
            "topic_adaptation_score": tas(clip=True) if clipped else score,
            "clipped": clipped,
            "both_empty": not user and not system,
            "undefined": overlap.BOTH_EMPTY if math.isnan(cc) else "",
            "semantic_similarity": alike,
            "slot_precision": slots.precision,
            "slot_recall": slots.recall,
            "slot_f1": slots.f1,
            "slot_joint": slots.joint,
            "recommendation_satisfaction": self._satisfaction(pair, gold),
            "missing_concepts": sorted(map(keys, user - system)),
            "hallucinated_concepts": sorted(map(keys, system - user)),
        }

    def _coverage(self, looks: Sequence[_Look], texts: _Texts) -> float:
        """Share of all constraints of a session that some reply names, in [0, 1]; NaN without constraints."""
        wished = frozenset().union(*(look.gold for look in looks))
        named = frozenset().union(*(texts.concepts[look.pair.system.text] for look in looks))
        return len(wished & named) / len(wished) if wished else math.nan

    def _satisfaction(self, pair: Pair, gold: frozenset[int]) -> float:
        """The best recommended film's idf-weighted share of the constraints, in [0, 1]; 0 without either.

        Constraints are compared with raw labels, as the thesis did: see ``ThesisCatalog.raw_codes``.
        """
        titles = pair.system.meta.get("rec_titles") or ()
        if not gold or not titles:
            return 0.0
        nothing: frozenset[int] = frozenset()
        met = [gold & self._of_title.get(str(title), nothing) for title in titles]
        return max(map(self._weight, met)) / self._weight(gold)

    def _weight(self, codes: frozenset[int]) -> float:
        """Sum of the idf weights of concepts, rounded once: their order does not matter."""
        return math.fsum(map(self._idf.__getitem__, codes))

    def _shift(
        self, dialogue: Dialogue, found: Mapping[str, Sequence[recovery.Recovery]], place: int
    ) -> dict[str, Any]:
        row: dict[str, Any] = {"model": dialogue.model_name, "session_id": dialogue.session_id}
        row["turn"] = found["combined"][place].turn
        row["watched"] = found["combined"][place].watched
        for signal, recoveries in found.items():
            row[f"delay_{signal}"] = recoveries[place].delay
            row[f"recovered_{signal}"] = recoveries[place].recovered
        return row

    def _session(
        self,
        dialogue: Dialogue,
        turns: Sequence[Mapping[str, Any]],
        found: Mapping[str, Sequence[recovery.Recovery]],
    ) -> dict[str, Any]:
        record: dict[str, Any] = {
            "model": dialogue.model_name,
            "session_id": dialogue.session_id,
            "convention": self.rule.name,
        }
        for column, name in MEANS.items():
            record[name] = mean_of([turn[column] for turn in turns])
        record["topic_interference_leakage"] = math.nan
        for signal, (rate, delay) in _SIGNALS.items():
            known = recovery.rate(found[signal])
            zero = math.isnan(known) and self.rule.undefined != "missing"
            record[rate] = 0.0 if zero else known
            record[delay] = recovery.mean_delay(found[signal])
        record |= {alias: record[name] for alias, name in ALIASES.items()}
        scores = [turn["topic_adaptation_score"] for turn in turns]
        known_scores = [score for score in scores if not math.isnan(score)]
        record["tas_volatility"] = spread_of(known_scores)
        record["judge"] = constructs.unjudged()
        record["detail"] = detail(turns, len(found["combined"]))
        return record

    def _segments(
        self,
        pairs: Sequence[Pair],
        texts: _Texts,
        turns: Sequence[Mapping[str, Any]],
        shifts: Sequence[int],
    ) -> list[dict[str, Any]]:
        """CC of the united concepts, CR of the summed vectors, mean I and their TAS, from shift to shift."""
        edges = [1, *(turn for turn in shifts if turn > 1), len(turns) + 1]
        rows = []
        for first, after in pairwise(edges):
            part = pairs[first - 1 : after - 1]
            users = Counter(chain.from_iterable(texts.concepts[p.user.text] for p in part))
            systems = Counter(chain.from_iterable(texts.concepts[p.system.text] for p in part))
            cc = overlap.jaccard(users.keys(), systems.keys(), empty=self.rule.empty)
            cr = self._summed_cosine(users, systems)
            echo = mean_of([turn["topic_interference"] for turn in turns[first - 1 : after - 1]])
            score = composite.tas(cc, cr, echo, self.rule.tas, clip=self.rule.clip)
            rows.append(
                {"first": first, "last": after - 1, "cc": cc, "cr": cr, "copying": echo, "tas": score}
            )
        return rows

    def _summed_cosine(self, users: Counter[int], systems: Counter[int]) -> float:
        """Cosine of the sums of the turns' idf vectors, in [0, 1]; 0 where one is zero."""
        idf = self._idf
        dot = sum(users[code] * systems[code] * idf[code] ** 2 for code in sorted(users) if code in systems)
        norms = [sum((n * idf[c]) ** 2 for c, n in sorted(side.items())) for side in (users, systems)]
        return dot / math.sqrt(norms[0] * norms[1]) if dot else 0.0


def words_of(text: str) -> list[str]:
    """The thesis's words for copying: runs of a–z and 0–9, lower case, with one apostrophe part at most."""
    cut = text.lower().encode("ascii", "replace").translate(_KEPT).decode()
    return _WORD.findall(cut) if "'" in cut else cut.split()


def _wishes(pair: Pair) -> tuple[_Wish, ...] | None:
    """Field and value of every logged constraint of a turn; None where the log names none."""
    logged = pair.user.user_meta
    if "constraints" not in logged:
        return None
    return tuple(
        [
            (name, str(one))
            for name, value in (logged["constraints"] or {}).items()
            for one in (value if isinstance(value, list | tuple) else [value])
            if one is not None
        ]
    )
