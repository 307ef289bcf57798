"""Scores of one dialogue: a row per turn, a row per shift, and the session's record. The scorer prepares the
records that metrics are computed from; the metrics and the order of their columns come from the registry
(:mod:`crs_lib.metrics.base`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

from crs_lib.catalog.grounder import Grounder
from crs_lib.catalog.titles import film_titled
from crs_lib.core.dialogue import OPEN, Dialogue, Pair, ShiftEvent, State
from crs_lib.core.text import words
from crs_lib.metrics import base, constructs, costs
from crs_lib.metrics.conventions import Convention
from crs_lib.metrics.costs import WindowReply
from crs_lib.metrics.overlap import BOTH_EMPTY
from crs_lib.metrics.records import (
    NONE,
    Background,
    Scores,
    SessionRecord,
    ShiftRecord,
    StateChange,
    Text,
    TurnRecord,
    Wanted,
    defined,
    mean_defined,
)
from crs_lib.simulate.voices import FIRST

# Replies of the other arms, by the model, session and turn of the shift that they mirror, then by arm.
ArmGains = Mapping[tuple[str, str, int], Mapping[str, list[WindowReply]]]
Row = dict[str, Any]


@dataclass(eq=False)
class Scorer:
    """Scores dialogues against one catalogue under one convention; ``gains`` are those of the other arms.
    ``find`` gives the concepts of every text; None: the grounder does.
    """

    grounder: Grounder
    convention: Convention
    gains: ArmGains = field(default_factory=dict)
    find: Callable[[Sequence[str]], Mapping[str, frozenset[int]]] | None = None

    def __post_init__(self) -> None:
        """Look up the columns once."""
        self._background = Background(self.grounder.catalog, self.grounder, self.convention)
        self._turn_columns = base.columns(base.TURN)
        self._shift_columns = base.columns(base.SHIFT)

    @cached_property
    def _means(self) -> dict[str, list[base.Metric]]:
        return {level: base.scored(level) for level in base.LEVELS}

    def items(self, pair: Pair) -> list[int]:
        """The catalogue items a reply recommends: by id, else by title, else those its text advises."""
        meta = pair.system.meta
        if "rec_ids" in meta:
            index = self.grounder.catalog.id_index
            return [index[item_id] for item_id in meta["rec_ids"] if item_id in index]
        if "rec_titles" in meta:
            return self._items_of_titles(meta["rec_titles"] or ())
        return self.grounder.recommended(pair.system.text)

    def _items_of_titles(self, titles: Iterable[Any]) -> list[int]:
        items = []
        for title in titles:
            film = film_titled(self.grounder.catalog, str(title))
            if film is not None:
                items.append(film)
        return items

    def score_many(self, dialogues: Sequence[Dialogue]) -> list[Scores]:
        """The scores of each dialogue."""
        texts: list[str] = []
        for dialogue in dialogues:
            texts += [turn.text for turn in dialogue.turns]
        if self.find is None:
            concepts = self.grounder.ground(texts)
        else:
            by_text = self.find(texts)
            concepts = [by_text[text] for text in texts]
        read = map(Text, map(words, texts), concepts)
        scores = []
        for dialogue in dialogues:
            own = list(islice(read, len(dialogue.turns)))
            scores.append(self.score(dialogue, own))
        return scores

    def score(self, dialogue: Dialogue, texts: Sequence[Text]) -> Scores:
        """Score a dialogue; ``texts`` are those of its turns, in order."""
        session = self.prepare(dialogue, texts)
        usual_voice = FIRST if "arm" in dialogue.extra else ""
        who = {"model": dialogue.model_name, "session_id": dialogue.session_id}
        who["voice"] = dialogue.extra.get("voice", usual_voice)
        turns = [self._turn_row(who, turn) for turn in session.turns]
        shifts = [self._shift_row(who, shift) for shift in session.shifts]
        return Scores(turns, shifts, self._session_row(who, session, turns, shifts))

    def _turn_row(self, who: Mapping[str, str], turn: TurnRecord) -> Row:
        row: Row = {**who, "turn": turn.number}
        row["stage"] = turn.pair.user.state.stage
        row.update(turn.row(self._turn_columns))
        return row

    def _shift_row(self, who: Mapping[str, str], shift: ShiftRecord) -> Row:
        event = shift.event
        row: Row = {**who, "turn": shift.turn}
        row["type"] = event.type
        row["explicitness"] = event.explicitness
        row["scope"] = OPEN if shift.open_scope else "stated"
        row["reading"] = ""
        if shift.replies:
            row["reading"] = shift.replies[0].state.interpretation
        row.update(shift.row(self._shift_columns))
        return row

    def prepare(self, dialogue: Dialogue, texts: Sequence[Text]) -> SessionRecord:
        """The record that a dialogue's metrics are computed from; ``texts`` are of its turns, in order."""
        changes = dialogue.changes()
        turns = self._turn_records(dialogue.pairs(), texts, changes)
        last = len(turns) + 1
        shifts: list[ShiftRecord] = []
        for start, end in pairwise([*changes, last]):
            before = None
            if 2 <= start <= last:
                before = turns[start - 2]
            key = (dialogue.model_name, dialogue.session_id, start)
            following = turns[start - 1 :]
            shift = ShiftRecord(
                turn=start,
                event=changes[start],
                before=before,
                replies=following[: end - start],
                following=following,
                background=self._background,
                arms=self.gains.get(key, {}),
                first=not shifts,
            )
            shifts.append(shift)
        return SessionRecord(turns, shifts, self._background)

    def _turn_records(
        self, pairs: Sequence[Pair], texts: Sequence[Text], changes: Mapping[int, ShiftEvent]
    ) -> list[TurnRecord]:
        intended = self._intended_states(pairs, changes)
        turns: list[TurnRecord] = []
        before = None
        since_shift = None
        for position, pair in enumerate(pairs):
            if pair.turn in changes:
                since_shift = 0
            elif since_shift is not None:
                since_shift += 1
            state = intended.get(pair.turn, pair.user.state)
            own = texts[2 * position : 2 * position + 2]
            before = self._turn_record(pair, state, own, since_shift, before)
            turns.append(before)
        return turns

    def _turn_record(
        self,
        pair: Pair,
        state: State,
        texts: Sequence[Text],
        since_shift: int | None,
        before: TurnRecord | None,
    ) -> TurnRecord:
        wanted = self._wanted(state)
        old = NONE
        change = None
        if before is not None:
            old = before.constraints
            change = before.change
        has_changed = before is None or wanted.constraints != old
        if since_shift == 0 or (state.clarified and has_changed):
            change = StateChange.between(old, wanted.constraints)
        return TurnRecord(
            number=pair.turn,
            pair=pair,
            user=texts[0],
            system=texts[1],
            state=state,
            wanted=wanted,
            items=self.items(pair),
            since_shift=since_shift,
            before=before,
            background=self._background,
            change=change,
        )

    def _wanted(self, state: State) -> Wanted:
        codes = self._background.codes
        return Wanted(codes(state.constraints), codes(state.avoid))

    def _intended_states(self, pairs: Sequence[Pair], changes: Mapping[int, ShiftEvent]) -> dict[int, State]:
        """The states by which turns after open words are scored, until the user says what was meant: the
        interpretation that the first films shown meet best; without films the user's.
        """
        states: dict[int, State] = {}
        for start, event in changes.items():
            if not event.interpretations:
                continue
            window = _until_clarified(pairs, start, changes)
            name = event.interpretation
            films = self._first_films(window)
            if films:
                name = self._best_met(event, films)
            meaning = event.interpretations[name]
            for pair in window:
                states[pair.turn] = replace(
                    pair.user.state, constraints=meaning.constraints, avoid=meaning.avoid, interpretation=name
                )
        return states

    def _first_films(self, window: Sequence[Pair]) -> list[int]:
        for pair in window:
            films = self.items(pair)
            if films:
                return films
        return []

    def _best_met(self, event: ShiftEvent, films: Sequence[int]) -> str:
        """The interpretation that films meet best, in shares of its constraints; the strictest of equals."""
        states = event.interpretations
        return max(states, key=lambda name: self._fit(states[name], films))

    def _fit(self, state: State, films: Sequence[int]) -> tuple[float, int, int]:
        """How well films meet a state, and how strict the state is."""
        wanted = self._wanted(state)
        n_wanted = len(wanted.constraints)
        if not n_wanted:
            return (0.0, 0, 0)
        facts = self.grounder.catalog.fact_sets
        met = sum(wanted.level(facts[film]) for film in films)
        return (met / n_wanted, n_wanted, len(wanted.exclusions))

    def _session_row(
        self, who: Mapping[str, str], session: SessionRecord, turns: Sequence[Row], shifts: Sequence[Row]
    ) -> Row:
        """The record of a session: means of its turns and windows, and its own metrics."""
        row: Row = {**who, "convention": self.convention.name}
        defined_turns = {}
        for metric in self._means[base.TURN]:
            values = defined([turn[metric.name] for turn in turns])
            row[metric.name] = mean_defined(values)
            defined_turns[metric.name] = len(values)
        primary = [shift for shift in shifts if shift["primary"]]
        open_scope = [shift for shift in shifts if shift["scope"] == OPEN]
        for metric in self._means[base.SHIFT]:
            windows = shifts
            if metric.name in costs.OF_OPEN_SCOPE:
                windows = open_scope[:1]
            elif metric.primary:
                windows = primary
            values = [window[metric.name] for window in windows]
            row[metric.name] = mean_defined(values)
        for metric in self._means[base.SESSION]:
            if metric.compute:
                row[metric.name] = session.once(metric.compute)
        row["judge"] = dict.fromkeys(constructs.CONSTRUCTS)
        detail: Row = {"n_turns": len(turns)}
        detail["n_shifts"] = len(shifts)
        detail["cost_undefined"] = _undefined_because(shifts)
        detail["n_both_empty_turns"] = sum(turn["undefined"] == BOTH_EMPTY for turn in turns)
        detail["n_hallucinated_titles"] = sum(turn["n_hallucinated_titles"] for turn in turns)
        for name in ("missing_concepts", "hallucinated_concepts"):
            detail[name] = sum(len(turn[name]) for turn in turns)
        detail["defined_turns"] = defined_turns
        row["detail"] = detail
        return row


def _undefined_because(shifts: Sequence[Row]) -> str:
    """Why the costs of a session are undefined; empty where they are defined."""
    for shift in shifts:
        if shift["primary"]:
            return str(shift["cost_undefined"])
    if shifts and shifts[0]["scope"] == OPEN:
        return str(shifts[0]["cost_undefined"])
    return "no primary window"


def _until_clarified(pairs: Sequence[Pair], start: int, changes: Mapping[int, ShiftEvent]) -> list[Pair]:
    """The turns from a shift until the next one, or until the user says what was meant."""
    window = []
    for pair in pairs[start - 1 :]:
        is_later = pair.turn > start
        if is_later and (pair.turn in changes or pair.user.state.clarified):
            break
        window.append(pair)
    return window
