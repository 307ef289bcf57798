"""Scores of one dialogue: a row per turn, a row per shift, and the session's record. The scorer prepares the
records that metrics are computed from; the metrics and the order of their columns come from the registry
(:mod:`crs_lib.metrics.base`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from crs_lib.catalog.grounder import Grounder
from crs_lib.core.dialogue import Dialogue, Pair, asks_for_others
from crs_lib.core.text import fold, words
from crs_lib.metrics import base, constructs, records
from crs_lib.metrics.conventions import Convention
from crs_lib.metrics.overlap import BOTH_EMPTY
from crs_lib.metrics.records import Scores, SessionRecord, ShiftRecord, Text, TurnRecord
from crs_lib.simulate.voices import FIRST

# Gains of the other arms, by the model, session and turn of the shift that they mirror, then by arm.
ArmGains = Mapping[tuple[str, str, int], Mapping[str, list[Any]]]


@dataclass(eq=False)
class Scorer:
    """Scores dialogues against one catalogue under one convention; ``gains`` are those of the other arms.
    ``find`` gives the concepts of every text; None: the grounder does.
    """

    grounder: Grounder
    convention: Convention
    gains: ArmGains = field(default_factory=dict)
    find: Callable[[Sequence[str]], Mapping[str, frozenset[int]]] | None = None

    @cached_property
    def _background(self) -> records.Background:
        return records.Background(self.grounder.catalog, self.grounder, self.convention)

    def codes(self, wishes: Mapping[str, Any]) -> frozenset[int]:
        """The concept codes of constraints (field to value or values) that the catalogue has."""
        return frozenset(code for code in self._values(wishes) if code is not None)

    def _values(self, wishes: Mapping[str, Any]) -> Iterator[int | None]:
        """The code of every value in a scored field; None for one that the catalogue lacks."""
        for name, value in wishes.items():
            if name in self.grounder.active_fields:
                several = [value] if isinstance(value, (str, int)) else value or []
                yield from (self.grounder.catalog.known_code(name, str(one)) for one in several)

    def items(self, pair: Pair) -> list[int]:
        """The catalogue items a reply recommends: by id, else by title, else those its text advises."""
        catalog, meta = self.grounder.catalog, pair.system.meta
        if "rec_ids" in meta:
            return [catalog.id_index[i] for i in meta["rec_ids"] if i in catalog.id_index]
        if "rec_titles" in meta:
            found = (catalog.title_index.get(fold(str(title))) for title in meta["rec_titles"] or ())
            return [same[0] for same in found if same]
        return self.grounder.recommended(pair.system.text)

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]:
        """The scores of each dialogue."""
        texts = [turn.text for dialogue in dialogues for turn in dialogue.turns]
        if self.find is None:
            concepts = self.grounder.ground(texts)
        else:
            known = self.find(texts)
            concepts = [known[text] for text in texts]
        found = zip(map(words, texts), concepts, strict=True)
        return [self.score(dialogue, [Text(*next(found)) for _ in dialogue.turns]) for dialogue in dialogues]

    def score(self, dialogue: Dialogue, texts: Sequence[Text]) -> Scores:
        """Score a dialogue; ``texts`` are those of its turns, in order."""
        session = self.prepare(dialogue, texts)
        voice = dialogue.extra.get("voice", FIRST if "arm" in dialogue.extra else "")
        who = {"model": dialogue.model_name, "session_id": dialogue.session_id, "voice": voice}
        turns, shifts = base.columns(base.TURN), base.columns(base.SHIFT)
        turn_rows, shift_rows = list[dict[str, Any]](), list[dict[str, Any]]()
        for turn in session.turns:
            row = who | {"turn": turn.number, "stage": turn.pair.user.user_meta.get("stage", "")}
            turn_rows.append(row | {name: turn.once(compute) for name, compute in turns.items()})
        for shift in session.shifts:
            row = who | {"turn": shift.turn, "type": shift.type, "explicitness": shift.explicitness}
            row |= {"scope": "open" if shift.open_scope else "stated"}
            row |= {"reading": shift.replies[0].reading if shift.replies else ""}
            shift_rows.append(row | {name: shift.once(compute) for name, compute in shifts.items()})
        return Scores(turn_rows, shift_rows, self._session(who, session, turn_rows, shift_rows))

    def prepare(self, dialogue: Dialogue, texts: Sequence[Text]) -> SessionRecord:
        """The record that a dialogue's metrics are computed from; ``texts`` are of its turns, in order."""
        starts, pairs = dialogue.shift_turns(), dialogue.pairs()
        events = {int(e["turn"]): e for e in dialogue.shift_events if "turn" in e}
        meant = self._meant(pairs, starts, events)
        turns: list[TurnRecord] = []
        last: int | None = None
        for place, pair in enumerate(pairs):
            last = pair.turn if pair.turn in starts else last
            since = None if last is None else pair.turn - last
            pair_texts = (texts[2 * place], texts[2 * place + 1])
            meta = {**pair.user.user_meta, **meant.get(pair.turn, {})}
            turns.append(self._turn(pair, meta, pair_texts, since, turns[-1] if turns else None))
        shifts: list[ShiftRecord] = []
        for turn, following in pairwise([*starts, len(turns) + 1]):
            before = turns[turn - 2] if 2 <= turn <= len(turns) + 1 else None
            replies, rest = turns[turn - 1 : following - 1], turns[turn - 1 :]
            arms = self.gains.get((dialogue.model_name, dialogue.session_id, turn), {})
            told = (turn, events.get(turn, {}), before, replies, rest, self._background, arms)
            shifts.append(ShiftRecord(*told, first=not shifts))
        return SessionRecord(turns, shifts, self._background)

    def _meant(
        self, pairs: Sequence[Pair], starts: Sequence[int], events: Mapping[int, Mapping[str, Any]]
    ) -> dict[int, dict[str, Any]]:
        """The state by which turns after open words are scored, until the user says what was meant: the
        reading that the first films shown meet best (in shares of its constraints), the strictest of equals;
        without films the user's.
        """
        found: dict[int, dict[str, Any]] = {}
        facts = self.grounder.catalog.fact_sets
        for start, event in ((turn, one) for turn, one in events.items() if one.get("readings")):
            clear = {pair.turn for pair in pairs if pair.user.user_meta.get("clarified")}
            end = min((turn for turn in clear.union(starts) if turn > start), default=len(pairs) + 1)
            window = pairs[start - 1 : end - 1]
            films = next(filter(None, map(self.items, window)), [])
            met = {}
            for name, state in event["readings"].items():
                wanted, excluded = self.codes(state["constraints"]), self.codes(state["avoid"])
                levels = [0 if facts[item] & excluded else len(facts[item] & wanted) for item in films]
                met[name] = (sum(levels) / len(wanted), len(wanted), len(excluded)) if wanted else (0.0, 0, 0)
            name = max(met, key=lambda name: met[name]) if films else event["reading"]
            found |= {pair.turn: {**event["readings"][name], "reading": name} for pair in window}
        return found

    def _turn(
        self, pair: Pair, meta: Mapping[str, Any], texts: tuple[Text, Text], since_shift: int | None,
        before: TurnRecord | None,
    ) -> TurnRecord:  # fmt: skip
        constraints = self.codes(meta.get("constraints") or {})
        exclusions = self.codes(meta.get("avoid") or {})
        items = self.items(pair)
        dropped, seen, recent = frozenset[int](), frozenset[int](), frozenset[int]()
        change = None if before is None else before.change
        if before is not None:
            dropped = before.dropped | (before.constraints - constraints)
            seen = before.seen.union(before.items)
            if (constraints, exclusions) == (before.constraints, before.exclusions):
                recent = before.recent.union(before.items)
        if since_shift == 0 or (meta.get("clarified") and constraints != (before and before.constraints)):
            old = before.constraints if before is not None else frozenset[int]()
            change = records.StateChange(constraints - old, old - constraints, constraints & old)
        return TurnRecord(
            number=pair.turn, pair=pair, user=texts[0], system=texts[1], constraints=constraints,
            exclusions=exclusions, dropped=(dropped | exclusions) - constraints,
            asked=bool(meta.get("asks", True)), items=items,
            facts=[self.grounder.catalog.fact_sets[item] for item in items], seen=seen,
            since_shift=since_shift, before=before, background=self._background,
            others=asks_for_others(meta), recent=recent, change=change, stated=self._stated(pair),
            reading=meta.get("reading", ""),
        )  # fmt: skip

    def _stated(self, pair: Pair) -> frozenset[int] | None:
        """The codes of the state that a reply states, unknown values as negative numbers, or None."""
        meta = pair.system.meta
        state = meta["state"] if isinstance(meta.get("state"), Mapping) else meta.get("constraints")
        if not isinstance(state, Mapping) or not (state or "state" in meta):
            return None
        unknown = sum(code is None for code in self._values(state))
        return self.codes(state).union(range(-unknown, 0))

    def _session(
        self, who: Mapping[str, str], session: SessionRecord, turns: Sequence[Mapping[str, Any]],
        shifts: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:  # fmt: skip
        known = {name: records.defined([row[name] for row in turns]) for name in base.scored_names(base.TURN)}
        open_first = [row for row in shifts[:1] if row["scope"] == "open"]
        primary = open_first or [row for row in shifts if row["primary"]]
        of_shifts = {one.name: primary if one.primary else shifts for one in base.scored(base.SHIFT)}
        return {
            **who,
            "convention": self.convention.name,
            **{name: records.mean_defined(values) for name, values in known.items()},
            **{name: records.mean_defined(row[name] for row in rows) for name, rows in of_shifts.items()},
            **{one.name: session.once(one.compute) for one in base.scored(base.SESSION) if one.compute},
            "judge": dict.fromkeys(constructs.CONSTRUCTS),
            "detail": {
                "n_turns": len(turns), "n_shifts": len(shifts),
                "cost_undefined": primary[0]["cost_undefined"] if primary else "no primary window",
                "n_both_empty_turns": sum(row["undefined"] == BOTH_EMPTY for row in turns),
                "n_hallucinated_titles": sum(row["n_hallucinated_titles"] for row in turns),
                **{f"{kind}_concepts": sum(len(row[f"{kind}_concepts"]) for row in turns)
                   for kind in ("missing", "hallucinated")},
                "defined_turns": {name: len(values) for name, values in known.items()},
            },
        }  # fmt: skip
