"""Scores of one dialogue: a row per turn, a row per shift, and the session's means."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from crs_lib.core.dialogue import Dialogue, Pair
from crs_lib.core.text import fold
from crs_lib.grounding.grounder import Grounder
from crs_lib.metrics import composite, copying, grounded, overlap, recovery
from crs_lib.score.conventions import Convention

TURN_METRICS = (
    "cross_coherence", "context_retention", "topic_interference", "topic_adaptation_score",
    "slot_precision", "slot_recall", "slot_f1", "slot_joint", "satisfaction", "satisfaction_corrected",
    "satisfaction_popular", "novelty", "topic_interference_leakage", "copying", "item_tas",
)  # fmt: skip
SESSION_METRICS = (
    "topic_recovery_rate", "avg_recovery_delay", "item_recovery_rate", "item_recovery_most",
    "item_recovery_delay", "context_adaptation_score", "tas_volatility",
)  # fmt: skip
BOTH_EMPTY = "no concept on either side"
SHIFT_COLUMNS = (
    "model", "session_id", "turn", "type", "watched", "delay_text", "recovered_text", "delay_item",
    "recovered_item", "delay_most", "recovered_most",
)  # fmt: skip


class Scores(NamedTuple):
    """What scoring a dialogue gives: turn rows, shift rows, and the session's record."""

    turns: list[dict[str, Any]]
    shifts: list[dict[str, Any]]
    session: dict[str, Any]


class Text(NamedTuple):
    """A turn's text as scoring needs it: folded words and concept codes."""

    words: Sequence[str]
    concepts: frozenset[int]


@dataclass
class Scorer:
    """Scores dialogues against one catalogue under one convention."""

    grounder: Grounder
    convention: Convention

    @cached_property
    def _uniform(self) -> NDArray[np.float64]:
        return _shares(self.grounder, np.ones(len(self.grounder.catalog)))

    @cached_property
    def _popular(self) -> NDArray[np.float64]:
        return _shares(self.grounder, self.grounder.catalog.popularity)

    @cached_property
    def _idf(self) -> list[float]:
        weights: list[float] = self.grounder.idf.tolist()
        return weights

    @cached_property
    def _memo(self) -> dict[tuple[str, str], int | None]:
        return {}

    @cached_property
    def _words(self) -> dict[int, list[str]]:
        return {}

    def codes(self, wishes: Mapping[str, Any]) -> frozenset[int]:
        """The concept codes of wishes (field to value or values); what the catalogue lacks is left out."""
        found = set()
        for name, value in wishes.items():
            if name not in self.grounder.active_fields:
                continue
            for one in [value] if isinstance(value, str | int) else value or []:
                key = (name, str(one))
                if key not in self._memo:
                    self._memo[key] = self.grounder.catalog.code(*key)
                code = self._memo[key]
                if code is not None:
                    found.add(code)
        return frozenset(found)

    def items(self, pair: Pair) -> list[int]:
        """The catalogue items a reply recommends: by id, else by title, else those named in the text."""
        catalog, meta = self.grounder.catalog, pair.system.meta
        if "rec_ids" in meta:
            return [catalog.id_index[i] for i in meta["rec_ids"] if i in catalog.id_index]
        if "rec_titles" in meta:
            found = (catalog.title_index.get(fold(str(title))) for title in meta["rec_titles"] or ())
            return [same[0] for same in found if same]
        return [mention.item for mention in self.grounder.titles(pair.system.text)]

    def score(self, dialogue: Dialogue, texts: Sequence[Text]) -> Scores:
        """Score a dialogue; ``texts`` are those of its turns, in order."""
        state = _State()
        rows = []
        for place, pair in enumerate(dialogue.pairs()):
            rows.append(self._turn(dialogue, pair, texts[2 * place], texts[2 * place + 1], state))
        shifts = dialogue.shift_turns()
        _since_shift(rows, shifts)
        table, recovered = self._shifts(dialogue, shifts, state)
        return Scores(rows, table, self._session(dialogue, rows, recovered, len(shifts)))

    def _turn(
        self, dialogue: Dialogue, pair: Pair, user: Text, system: Text, state: "_State"
    ) -> dict[str, Any]:
        rule = self.convention
        cc = overlap.jaccard(user.concepts, system.concepts, empty=rule.empty)
        cr = overlap.idf_cosine(user.concepts, system.concepts, self._idf, empty=rule.empty)
        echo = copying.copied_share(system.words, user.words, rule.copy_orders)
        undefined = BOTH_EMPTY if math.isnan(cc) else ""
        lost = overlap.difference(user.concepts, system.concepts)
        gold = self.codes(pair.user.user_meta.get("constraints") or {})
        slots = overlap.agreement(gold or user.concepts, system.concepts)
        state.met_text.append(cc >= rule.recovery_cc or cr >= rule.recovery_cr)
        return {
            "model": dialogue.model_name,
            "session_id": dialogue.session_id,
            "turn": pair.turn,
            "stage": pair.user.user_meta.get("stage", ""),
            "cross_coherence": cc,
            "context_retention": cr,
            "topic_interference": echo,
            "topic_adaptation_score": composite.tas(cc, cr, echo, rule.tas, clip=rule.clip),
            "undefined": undefined,
            **{f"slot_{name}": value for name, value in slots._asdict().items()},
            **self._items(pair, user, system, gold, state),
            "missing_concepts": self.grounder.keys(lost.missing),
            "hallucinated_concepts": self.grounder.keys(lost.hallucinated),
        }

    def _items(
        self, pair: Pair, user: Text, system: Text, wishes: frozenset[int], state: "_State"
    ) -> dict[str, Any]:
        """The item-grounded columns of a turn; undefined where the log has no wishes."""
        meta = pair.user.user_meta
        items = self.items(pair)
        facts = [self.grounder.catalog.fact_sets[item] for item in items]
        avoid = self.codes(meta.get("avoid") or {})
        state.dropped |= (state.wishes - wishes) | avoid
        state.dropped -= wishes
        state.wishes = wishes
        raw = grounded.satisfaction(wishes, facts, asked=bool(meta.get("asks", True)))
        corrected = grounded.beyond_chance(raw, grounded.expected_satisfaction(wishes, self._uniform))
        popular = grounded.beyond_chance(raw, grounded.expected_satisfaction(wishes, self._popular))
        novel = grounded.novelty(items, state.seen)
        leaked = grounded.leakage(facts, wishes, state.dropped)
        values = self._value_words(user.concepts | system.concepts)
        copied = copying.copied_share(system.words, user.words, self.convention.copy_orders, values)
        best = grounded.share_met(wishes, [one for one in facts if not one & avoid])
        state.met_all.append(best == 1)
        state.met_most.append(best > 0.5)
        state.seen.update(items)
        return {
            "n_items": len(items),
            "n_wishes": len(wishes),
            "satisfaction": raw,
            "satisfaction_corrected": corrected,
            "satisfaction_popular": popular,
            "novelty": novel,
            "topic_interference_leakage": leaked,
            "copying": copied,
            "item_tas": composite.item_tas(corrected, raw, novel, leaked, copied, self.convention.items),
            "n_hallucinated_titles": len(pair.system.meta.get("hallucinated_titles") or ()),
        }

    def _value_words(self, codes: frozenset[int]) -> frozenset[str]:
        for code in codes - self._words.keys():
            self._words[code] = self.grounder.key(code).split("=", 1)[1].split(" ")
        return frozenset(word for code in codes for word in self._words[code])

    def _shifts(
        self, dialogue: Dialogue, turns: Sequence[int], state: "_State"
    ) -> tuple[list[dict[str, Any]], dict[str, list[recovery.Recovery]]]:
        """A row per shift with its censored recovery times, and the recoveries by kind."""
        rule = self.convention
        kinds = {"text": state.met_text, "item": state.met_all, "most": state.met_most}
        windowed = {
            kind: recovery.after_shifts(turns, met, window=rule.window, within_segment=rule.within_segment)
            for kind, met in kinds.items()
        }
        whole = {kind: recovery.after_shifts(turns, met) for kind, met in kinds.items()}
        types = {int(e["turn"]): str(e.get("type", "")) for e in dialogue.shift_events if "turn" in e}
        rows = []
        for place, turn in enumerate(turns):
            row: dict[str, Any] = {
                "model": dialogue.model_name,
                "session_id": dialogue.session_id,
                "turn": turn,
                "type": types.get(turn, ""),
                "watched": whole["text"][place].watched,
            }
            for kind in kinds:
                row[f"delay_{kind}"] = whole[kind][place].delay
                row[f"recovered_{kind}"] = windowed[kind][place].recovered
            rows.append(row)
        return rows, windowed

    def _session(
        self,
        dialogue: Dialogue,
        rows: Sequence[Mapping[str, Any]],
        recovered: Mapping[str, list[recovery.Recovery]],
        n_shifts: int,
    ) -> dict[str, Any]:
        means = {name: _mean(row[name] for row in rows) for name in TURN_METRICS}
        defined = {name: sum(not math.isnan(row[name]) for row in rows) for name in TURN_METRICS}
        scores = [v for row in rows if not math.isnan(v := row["topic_adaptation_score"])]
        text, item = recovered["text"], recovered["item"]
        rate, delay = recovery.rate(text), recovery.mean_delay(text)
        older = composite.cas(
            rate,
            delay,
            means["topic_interference_leakage"],
            means["cross_coherence"],
            means["context_retention"],
            self.convention.cas,
        )
        return {
            "model": dialogue.model_name,
            "session_id": dialogue.session_id,
            "convention": self.convention.name,
            **means,
            "topic_recovery_rate": rate,
            "avg_recovery_delay": delay,
            "item_recovery_rate": recovery.rate(item),
            "item_recovery_most": recovery.rate(recovered["most"]),
            "item_recovery_delay": recovery.mean_delay(item),
            "context_adaptation_score": older,
            "tas_volatility": statistics.pstdev(scores) if scores else math.nan,
            "judge": dict.fromkeys(("proactiveness", "coherence", "personalization")),
            "detail": {
                "n_turns": len(rows),
                "n_shifts": n_shifts,
                "n_both_empty_turns": sum(row["undefined"] == BOTH_EMPTY for row in rows),
                "n_hallucinated_titles": sum(row["n_hallucinated_titles"] for row in rows),
                "missing_concepts": sum(len(row["missing_concepts"]) for row in rows),
                "hallucinated_concepts": sum(len(row["hallucinated_concepts"]) for row in rows),
                "defined_turns": defined,
            },
        }


class _State:
    """What accumulates over the turns of a dialogue."""

    def __init__(self) -> None:
        self.wishes: frozenset[int] = frozenset()
        self.dropped: set[int] = set()
        self.seen: set[int] = set()
        self.met_text: list[bool] = []
        self.met_all: list[bool] = []
        self.met_most: list[bool] = []


def _shares(grounder: Grounder, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability, by concept, that a weighted draw of a recommendable item has it."""
    catalog = grounder.catalog
    weight = np.where(catalog.recommendable, weight, 0.0)
    total = weight.sum()
    sums = [weight[catalog.items_with(code)].sum() for code in range(len(catalog.vocabulary))]
    shares: NDArray[np.float64] = np.array(sums) / total
    return shares


def _since_shift(rows: Sequence[dict[str, Any]], shifts: Sequence[int]) -> None:
    """Add the turns since the last shift (0 at the shift itself; null before the first)."""
    last: int | None = None
    for row in rows:
        last = row["turn"] if row["turn"] in shifts else last
        row["since_shift"] = None if last is None else row["turn"] - last


def _mean(values: Any) -> float:
    """Mean of the defined values; NaN where there is none."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


_COUNTS = (
    "n_turns", "n_shifts", "n_both_empty_turns", "n_hallucinated_titles", "missing_concepts",
    "hallucinated_concepts",
)  # fmt: skip


def unscored(model: str, session_id: str, convention: str, metrics: Sequence[str], reason: str) -> Scores:
    """The record of a session without a dialogue: every metric null, nothing counted, ``failed`` says why."""
    session = {
        "model": model, "session_id": session_id, "convention": convention,
        **dict.fromkeys(metrics, math.nan),
        "judge": dict.fromkeys(("proactiveness", "coherence", "personalization")),
        "detail": {**dict.fromkeys(_COUNTS, 0), "defined_turns": {}, "failed": reason},
    }  # fmt: skip
    return Scores([], [], session)


class BatchScorer(Protocol):
    """Scores dialogues; the answers do not depend on which are given together."""

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]: ...
