"""Scores of logged dialogues exactly as the thesis's grounded version computed them (its "TAS" tables). Its
conventions (both sides empty agree fully, clipping, recovery beyond the next shift) are kept although they
are not ours: docs/metrics.md, section 8.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from operator import or_
from typing import Any, NamedTuple

from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.metrics import composite, constructs, overlap
from crs_lib.metrics.conventions import Convention
from crs_lib.metrics.records import Scores
from crs_lib.thesis.catalog import ThesisCatalog
from crs_lib.thesis.similarity import SentenceSpace, cosines
from crs_lib.thesis.tables import ALIASES, MEANS, METRICS, detail, mean_of, spread_of

__all__ = ["ALIASES", "METRICS", "GroundedScorer"]
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)?")
_KEPT = bytes(c if c in b"abcdefghijklmnopqrstuvwxyz0123456789'" else 32 for c in range(256))
_SIGNALS = {"combined": ("topic_recovery_rate", "avg_recovery_delay"),
            "cosine": ("recovery_rate_cosine", "avg_recovery_delay_cosine")}  # fmt: skip
_Row = dict[str, Any]
_Codes = frozenset[int]


class _GroundedTurn(NamedTuple):
    """A turn, the concepts of its texts and of what is wished, copying, and how alike the texts are."""

    pair: Pair
    user: _Codes
    system: _Codes
    gold: _Codes
    echo: float
    alike: float


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
        pairs = [pair for dialogue in dialogues for pair in dialogue.pairs()]
        said = list(dict.fromkeys(turn.text for pair in pairs for turn in (pair.user, pair.system)))
        wished = [_wishes(pair) for pair in pairs]
        looked_up = list(dict.fromkeys([*said, *(value for wishes in wished for _, value in wishes or ())]))
        concepts = dict(zip(looked_up, self.extractor.sets(looked_up), strict=True))
        field, words = self.extractor.space.field, {text: _words_of(text) for text in said}
        meant = {  # without a log the user's own words stand for what is wished
            wishes: frozenset(c for name, value in wishes for c in concepts[value] if field[c] == name)
            for wishes in dict.fromkeys(wished)
            if wishes is not None
        }
        turns = (
            _GroundedTurn(
                pair, concepts[user], concepts[system], concepts[user] if wishes is None else meant[wishes],
                overlap.copied_share(words[system], words[user], self.convention.copy_orders), alike,
            )
            for pair, wishes, alike in zip(pairs, wished, self._similarities(said, pairs), strict=True)
            for user, system in [(pair.user.text, pair.system.text)]
        )  # fmt: skip
        return [self._score(dialogue, list(islice(turns, len(dialogue.pairs())))) for dialogue in dialogues]

    def _similarities(self, said: Sequence[str], pairs: Sequence[Pair]) -> list[float]:
        if self.space is None or not pairs:
            return [math.nan] * len(pairs)
        row = {text: number for number, text in enumerate(said)}
        users, systems = [row[p.user.text] for p in pairs], [row[p.system.text] for p in pairs]
        return list(cosines(self.space.rows(said), users, systems).tolist())

    def _score(self, dialogue: Dialogue, turns: Sequence[_GroundedTurn]) -> Scores:
        convention = self.convention
        head: _Row = {"model": dialogue.model_name, "session_id": dialogue.session_id}
        rows = [head | self._turn(turn) for turn in turns]
        shifts = [turn for turn in dialogue.shift_turns() if 1 <= turn <= len(turns)]
        alike = [row["context_retention"] >= convention.recovery_cr for row in rows]
        named = [row["cross_coherence"] >= convention.recovery_cc for row in rows]
        how: Any = {"window": convention.window, "within_segment": convention.within_segment}
        signals = {"combined": list(map(or_, named, alike)), "cosine": alike}
        found = {name: composite.after_shifts(shifts, met, **how) for name, met in signals.items()}
        by_shift = []
        for both in zip(*found.values(), strict=True):
            shift = head | {"turn": both[0].turn, "watched": both[0].watched}
            for name, one in zip(found, both, strict=True):
                shift |= {f"delay_{name}": one.delay, f"recovered_{name}": one.recovered}
            by_shift.append(shift)
        session = head | {"convention": convention.name} | self._session(turns, rows, found)
        session["detail"] |= {"segments": self._segments(turns, shifts), "shift_points": shifts}
        return Scores(rows, by_shift, session)

    def _turn(self, turn: _GroundedTurn) -> _Row:
        convention, user, system = self.convention, turn.user, turn.system
        slots = overlap.agreement(turn.gold, system)
        cc = overlap.jaccard(user, system, empty=convention.empty)
        cr = overlap.idf_cosine(user, system, self._idf, empty=convention.empty)
        keys = self.extractor.space.keys
        return {
            "turn": turn.pair.turn, "stage": str(turn.pair.user.user_meta.get("stage", "")),
            "cross_coherence": cc, "context_retention": cr, "topic_interference": turn.echo,
            "topic_adaptation_score": composite.tas(cc, cr, turn.echo, convention.tas, clip=convention.clip),
            "clipped": convention.clip and abs(composite.tas(cc, cr, turn.echo, convention.tas)) > 1,
            "both_empty": not user and not system,
            "undefined": overlap.BOTH_EMPTY if math.isnan(cc) else "",
            "semantic_similarity": turn.alike,
            **{f"slot_{name}": value for name, value in slots._asdict().items()},
            "recommendation_satisfaction": self._satisfaction(turn),
            "missing_concepts": keys(user - system), "hallucinated_concepts": keys(system - user),
        }  # fmt: skip

    def _satisfaction(self, turn: _GroundedTurn) -> float:
        """The best recommended film's idf-weighted share of the constraints, in [0, 1]; 0 without either.
        Constraints are compared with raw labels, as the thesis did: see ``ThesisCatalog.raw_codes``.
        """
        titles = turn.pair.system.meta.get("rec_titles") or ()
        if not turn.gold or not titles:
            return 0.0
        met = (turn.gold & self._of_title.get(str(title), frozenset()) for title in titles)
        return max(map(self._weight, met)) / self._weight(turn.gold)

    def _weight(self, codes: _Codes) -> float:
        """Sum of the idf weights of concepts, rounded once: their order does not matter."""
        return math.fsum(map(self._idf.__getitem__, codes))

    def _session(
        self, turns: Sequence[_GroundedTurn], rows: Sequence[_Row], found: dict[str, list[composite.Recovery]]
    ) -> _Row:
        record: _Row = {name: mean_of([row[column] for row in rows]) for column, name in MEANS.items()}
        record["topic_interference_leakage"] = math.nan
        for signal, (rate, delay) in _SIGNALS.items():
            known = composite.rate(found[signal])
            record[rate] = 0.0 if math.isnan(known) and self.convention.undefined != "missing" else known
            record[delay] = composite.mean_delay(found[signal])
        record |= {alias: record[name] for alias, name in ALIASES.items()}
        record["tas_volatility"] = spread_of([row["topic_adaptation_score"] for row in rows])
        told = detail(rows, len(found["combined"]))
        record |= {"judge": dict.fromkeys(constructs.CONSTRUCTS), "detail": told}
        wished = {code for turn in turns for code in turn.gold}
        named = {code for turn in turns for code in turn.system}
        record["preference_coverage"] = len(wished & named) / len(wished) if wished else math.nan
        return record

    def _segments(self, turns: Sequence[_GroundedTurn], shifts: Sequence[int]) -> list[_Row]:
        """CC of the united concepts, CR of the summed vectors, mean I and their TAS, from shift to shift."""
        edges = [1, *(turn for turn in shifts if turn > 1), len(turns) + 1]
        rows, idf = [], self._idf
        for first, after in pairwise(edges):
            part = turns[first - 1 : after - 1]
            users = Counter(code for turn in part for code in turn.user)
            systems = Counter(code for turn in part for code in turn.system)
            cc = overlap.jaccard(users.keys(), systems.keys(), empty=self.convention.empty)
            # the cosine of the sums of the turns' idf vectors; 0 where one is zero
            shared = (code for code in sorted(users) if code in systems)
            dot = sum(users[code] * systems[code] * idf[code] ** 2 for code in shared)
            norms = [sum((n * idf[c]) ** 2 for c, n in sorted(side.items())) for side in (users, systems)]
            cr = dot / math.sqrt(norms[0] * norms[1]) if dot else 0.0
            echo = mean_of([turn.echo for turn in part])
            row = {"first": first, "last": after - 1, "cc": cc, "cr": cr, "copying": echo}
            rows.append(
                row | {"tas": composite.tas(cc, cr, echo, self.convention.tas, clip=self.convention.clip)}
            )
        return rows


def _words_of(text: str) -> list[str]:
    """The thesis's words for copying: runs of a–z and 0–9, lower case, with one apostrophe part at most."""
    cut = text.lower().encode("ascii", "replace").translate(_KEPT).decode()
    return _WORD.findall(cut) if "'" in cut else cut.split()


def _wishes(pair: Pair) -> tuple[tuple[str, str], ...] | None:
    """Field and value of every logged constraint of a turn; None where the log names none."""
    logged = pair.user.user_meta
    if "constraints" not in logged:
        return None
    given = (logged["constraints"] or {}).items()
    several = ((name, value if isinstance(value, list | tuple) else [value]) for name, value in given)
    return tuple((name, str(one)) for name, values in several for one in values if one is not None)
