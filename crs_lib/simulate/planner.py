"""The planner: makes the scenario of a session from the catalogue, its random streams, and the users'
behaviour.

Turn 1 asks for a genre, the next turns refine it to two or three constraints (in all voices but A: of any
field in any order, and some are said again); shifts come at random turns, their types in equal numbers over
every block of sessions, by default a change of mind of stated scope first; between them the user asks about
films, asks for more, hesitates, or contradicts in words only. Every state has an answer in the catalogue.
First words and small talk of a voice take the place of turns that change nothing: states, shifts and their
turns are those of every voice but A. Source: docs/metrics.md, section 5.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import GOAL_FIELD
from crs_lib.core import rng
from crs_lib.core.dialogue import ShiftEvent
from crs_lib.core.errors import InputError
from crs_lib.simulate import voices
from crs_lib.simulate.scenarios import (
    CALM,
    CLARIFY,
    CONTRADICTION,
    FOLLOW_UP,
    FRESH_TURNS,
    NO_SHIFT,
    OPENING,
    REFINEMENT,
    SHIFT,
    USUAL,
    Pace,
    PlanStep,
    Rates,
    Scenario,
    Streams,
    TurnMaker,
    shift_turns,
    stratum,
)
from crs_lib.simulate.shifts import (
    SHIFTS,
    PlannedShift,
    StateShape,
    UserState,
    further,
    one_of,
    propose,
    stand_ins,
)
from crs_lib.systems.base import Draw

ALL_TYPES = tuple(SHIFTS.own_names())
KEEP, REPLACE, DROP = "keep", "replace", "drop"  # interpretations of a shift that left its scope open
_CAN_BE_OPEN = ("refine", "replace", "switch")  # sections of shifts that bring a value
_APART = 3  # films by which interpretations differ at least: the length of a list
_STATEMENTS = (3, 4)  # turns before the first shift in which a user of default settings states something
_BROAD = 1 / 3  # of the films: more answers leave no gain to be measured
_INSISTS, _SELDOM = 0.6, 0.1  # how often an unserved user insists instead of going on; at natural pace
# People's revisions (docs/revisions.md): types of 456, "exclude" as contradict.
_PEOPLE = {"refine": 341, "contradict": 68, "replace": 34, "relax": 7, "switch": 6}
_OPEN_SHARE = 0.92  # of their revisions, 416 of 451, that leave the scope open
# Genres as often as the people tuned on name them (docs/validity.md, section 2); any other about 4 times.
_GENRES = {"Comedy": 51, "Horror": 42, "Action": 32, "Science Fiction": 24, "Fantasy": 16, "Romance": 16}
_OTHER_GENRE = 4
# At natural pace, unless others are set; chosen with one half of people (docs/validity.md, section 2).
_PLAIN_RATES = Rates(hesitation=0.03, contradiction=0.0, question=0.35)


class Schedule(NamedTuple):
    """When and in which types the users of a batch shift. ``least``: how many constraints a user adds to the
    first before a shift, at least. ``keeping``: every shift keeps a constraint, and the first one of a
    session is a change of mind (``ShiftType.first``).
    """

    n_turns: int
    types: tuple[str, ...] = ALL_TYPES
    pace: Pace = USUAL
    least: int = 1
    keeping: bool = False

    def refinements(self, streams: Streams) -> int:
        """Constraints that a user adds to the first before a shift: ``least`` to 2; none at natural pace."""
        if self.pace.natural and not self.least:
            return 0
        refinements = int(streams.at("refinements").integers(self.least, 3))
        if self.keeping:
            return min(refinements, self.pace.opening_ends(streams) - 2)
        return refinements

    def turns(self, streams: Streams) -> list[int]:
        """The turns at which a session shifts."""
        return shift_turns(*streams, self.n_turns, self.pace)

    def shift_types(self, streams: Streams) -> list[str]:
        """The types of a session's shifts, in order. In blocks of as many sessions as there are types, turn
        by turn, each shift gets the type that came least often, of those that can happen there
        (``ShiftType.allows``); draws break ties, and a longer session begins like a shorter one.
        """
        block, row = divmod(streams.session, len(self.types))
        return list(_types_of_block(self, streams.seed, block)[row])

    def can_happen(self, kind: str, shape: StateShape, *, first: bool) -> bool:
        """Whether a state of this shape can shift in this way, as a session's first shift or a later one."""
        shift_type = SHIFTS.create(kind)
        if self.keeping:
            return shift_type.can_keep(shape) and (shift_type.first or not first)
        return shift_type.allows(shape)

    def next_type(self, shape: StateShape, counts: Mapping[str, int], draw: Draw, *, first: bool) -> str:
        """A type that can happen (where none can, any): the one planned least often, or at natural pace one
        as often as people's.
        """
        options = [kind for kind in self.types if self.can_happen(kind, shape, first=first)]
        if not options:
            options = list(self.types)
        if self.pace.natural and not _PEOPLE.keys().isdisjoint(options):
            return _as_often(options, _PEOPLE, 0, draw)
        shuffled: list[str] = [options[index] for index in draw.permutation(len(options))]
        return min(shuffled, key=lambda kind: counts[kind])


def _as_often(names: Sequence[str], counts: Mapping[str, int], other: int, draw: Draw) -> str:
    """A name as often as it was counted; one that was not, ``other`` times."""
    weights = np.array([counts.get(name, other) for name in names])
    return names[int(draw.choice(len(names), p=weights / weights.sum()))]


@lru_cache(maxsize=256)
def _types_of_block(schedule: Schedule, seed: int, block: int) -> list[list[str]]:
    """The types of the shifts of every session of a block."""
    n = len(schedule.types)
    sessions = [Streams(seed, session) for session in range(block * n, (block + 1) * n)]
    draw = rng.stream(seed, "movies", "shift-types", block)
    order = draw.permutation(n).tolist()
    due = []
    for row, streams in enumerate(sessions):
        due += [(turn, order[row], row) for turn in schedule.turns(streams)]
    shapes = [StateShape(1 + schedule.refinements(streams)) for streams in sessions]
    types: list[list[str]] = [[] for _ in sessions]
    counts: Counter[str] = Counter()
    for _, _, row in sorted(due):
        kind = schedule.next_type(shapes[row], counts, draw, first=not types[row])
        counts[kind] += 1
        shapes[row] = SHIFTS.create(kind).leaves(shapes[row])
        types[row].append(kind)
    return types


@dataclass(frozen=True)
class Behaviour:
    """How the users of a session behave. ``arm``: the twin of arm "none" equals its session up to the first
    shift and never shifts; the user of arm "calm" never insists. ``explicitness`` says whether a shift's new
    constraint is named or implied by a situation, ``scope`` whether it says what becomes of earlier
    constraints; the constraints are the same.
    """

    n_turns: int
    arm: str = SHIFT
    types: tuple[str, ...] = ALL_TYPES
    rates: Rates = field(default_factory=Rates)
    pace: Pace = USUAL
    voice: str = voices.FIRST
    insist: bool = True
    explicitness: str = voices.EXPLICIT
    scope: str = voices.STATED

    @property
    def free_order(self) -> bool:
        """Whether users begin with any field in any order: those of every voice but the first."""
        return self.voice != voices.FIRST

    @property
    def natural(self) -> bool:
        """Whether users talk and shift as people do."""
        return self.pace.natural and self.free_order

    @property
    def comparable(self) -> bool:
        """Whether a straight user can say as much as these (docs/validity.md, section 1): where types, pace
        and scope are not set otherwise, they hold two constraints or three and keep one at every shift.
        """
        dense = self.free_order and not self.pace.natural
        return dense and self.types == ALL_TYPES and self.scope != voices.OPEN

    @property
    def schedule(self) -> Schedule:
        """When and in which types these users shift."""
        least = 0 if self.free_order and not self.comparable else 1
        return Schedule(self.n_turns, self.types, self.pace, least, self.comparable)

    def scenario(self, streams: Streams) -> Scenario:
        """The scenario of a session, still without steps."""
        natural = self.natural
        rates = self.rates
        if natural and rates == Rates():
            rates = _PLAIN_RATES
        insists = _SELDOM if natural else _INSISTS
        if not self.insist or self.arm == CALM:
            insists = 0.0
        return Scenario(streams, self.arm, "", (), self.voice, insists, rates, natural)


def plan(catalog: Catalog, seed: int, session: int, n_turns: int, **behaviour: Any) -> Scenario:
    """The scenario of one session; ``behaviour`` as in :class:`Behaviour`. Raises InputError if the catalogue
    has no genre with five films, or for an unknown type.
    """
    return Planner(catalog, Streams(seed, session), Behaviour(n_turns, **behaviour)).plan()


def refined(catalog: Catalog, state: UserState, draw: Draw) -> UserState | None:
    """One more constraint that the film in mind meets, preferring values that other films share."""
    new = further(catalog, [state.anchor], state.constraints, None, draw)
    if not new:
        return None
    constraints = {**state.constraints, **new.added}
    return replace(state, constraints=constraints, focus=new.field)


class Planner(TurnMaker):
    """Plans one session, step by step."""

    def __init__(self, catalog: Catalog, streams: Streams, behaviour: Behaviour) -> None:
        for kind in behaviour.types:
            SHIFTS.get(kind)
        super().__init__(catalog, behaviour.scenario(streams))
        self.behaviour = behaviour
        schedule = behaviour.schedule
        self.n_refinements = schedule.refinements(streams)
        self.follows_shift = False
        self.has_shifted = False
        self.types: list[str] = []  # of shifts that are still to come
        self.due: dict[int, str] = {}
        if behaviour.arm != NO_SHIFT and schedule.types:
            self.types = schedule.shift_types(streams)
            self.due = dict(zip(schedule.turns(streams), self.types, strict=True))

    def plan(self) -> Scenario:
        """The scenario."""
        behaviour = self.behaviour
        goal = self._goal()
        steps = [self.step(1, OPENING, goal)]
        if behaviour.free_order and not behaviour.natural:
            steps = self._in_any_order(goal)
        opening = len(steps)
        for turn in range(opening + 1, behaviour.n_turns + 1):
            steps.append(self._next_step(turn, steps[-1].state))
        if behaviour.free_order:
            first_shift = behaviour.pace.opening_ends(self.streams)
            steps = self.with_first_words(self.with_small_talk(steps), opening, first_shift)
        steps = steps[: behaviour.n_turns]
        if behaviour.free_order and behaviour.scope != voices.STATED:
            steps = self._with_open_scopes(steps)
        logged = steps[:1]
        for before, step in pairwise(steps):
            if step.shift:
                step = replace(step, event=self._event(before.state, step, step.shift))
            logged.append(step)
        return replace(self.scenario, true_genre=goal.constraints[GOAL_FIELD], steps=tuple(logged))

    def _goal(self) -> UserState:
        """A genre and a film of it; at natural pace a genre as often as people ask for it."""
        genres = self.catalog.goal_genres
        if not genres:
            lacks = f"{self.catalog!r} has no genre with five films"
            raise InputError(f"{lacks}; a scenario needs one. Give a larger catalogue")
        draw = self.streams.at("goal")
        genre = one_of(genres, draw)
        if self.behaviour.natural:
            genre = _as_often(genres, _GENRES, _OTHER_GENRE, draw)
        films = self.catalog.query({GOAL_FIELD: genre}).items
        film = one_of(films.tolist(), draw)
        return UserState({GOAL_FIELD: genre}, GOAL_FIELD, film)

    def _in_any_order(self, goal: UserState) -> list[PlanStep]:
        """The turns that state constraints of the film in mind in any order, as a beginning could be."""
        draw = self.streams.at("order")
        full = goal
        for _ in range(2):
            full = refined(self.catalog, full, draw) or full
        names = list(full.constraints)
        order = draw.permutation(len(names))[: self.n_refinements + 1]
        wanted = {names[index]: full.constraints[names[index]] for index in order}
        steps = self.stated(full, wanted, {})
        return self._with_repetitions(steps) if self.behaviour.comparable else steps

    def _with_repetitions(self, steps: list[PlanStep]) -> list[PlanStep]:
        """The turns that state constraints, with turns between or behind them that say one again: in all as
        many for two constraints as for three, so that the number of statements tells nothing.
        """
        draw = self.streams.at("again")
        least, most = _STATEMENTS
        most = min(most, self.behaviour.pace.opening_ends(self.streams) - 1)
        n = most
        if least <= most:
            n = int(draw.integers(least, most + 1))
        while len(steps) < n:
            position = int(draw.integers(1, len(steps) + 1))
            before = steps[position - 1]
            steps.insert(position, self.again(position, before.state, draw))
        return [replace(step, turn=turn) for turn, step in enumerate(steps, start=1)]

    def _next_step(self, turn: int, state: UserState) -> PlanStep:
        due = self.due.get(turn, "")
        if due:
            shift = self._next_shift(turn, state)
            if shift is not None:
                self.follows_shift = self.has_shifted = True
                return self._shifted(turn, due, shift)
        draw = self.streams.at("turn", turn)
        if not self.behaviour.free_order and turn <= self.n_refinements + 1:
            finer = refined(self.catalog, state, draw)
            if finer is not None:
                return self.step(turn, REFINEMENT, finer)
        act = FOLLOW_UP
        if not self.follows_shift:
            act = self.free_act(draw)
        self.follows_shift = False
        return replace(self.step(turn, act, state), planned=due)

    def _next_shift(self, turn: int, state: UserState) -> PlannedShift | None:
        """A shift of the next type that can happen now; one that cannot comes later. Where shifts are to
        keep a constraint, any that can happen comes before one that keeps none.
        """
        draw = self.streams.at("shift", turn)
        keeping = self.behaviour.comparable
        shift = self._proposed(state, draw, keeping=keeping)
        if shift is None and keeping:
            shift = self._proposed(state, draw, keeping=False)
        return shift

    def _proposed(self, state: UserState, draw: Draw, *, keeping: bool) -> PlannedShift | None:
        for index, kind in enumerate(self.types):
            shift = self._proposed_of(kind, state, draw, keeping=keeping)
            if shift is not None:
                del self.types[index]
                return shift
        for kind in stand_ins():  # no type that is planned can happen now
            if kind in self.behaviour.types:
                shift = self._proposed_of(kind, state, draw, keeping=keeping)
                if shift is not None:
                    self.types.pop(0)
                    return shift
        return None

    def _proposed_of(self, kind: str, state: UserState, draw: Draw, *, keeping: bool) -> PlannedShift | None:
        due_first = self.behaviour.comparable and not self.has_shifted
        if due_first and not SHIFTS.create(kind).first:
            return None
        shift = propose(kind, self.catalog, state, draw, keeping=keeping)
        if shift is not None and keeping and self._too_broad(shift.state):
            return None
        return shift

    def _too_broad(self, state: UserState) -> bool:
        """Whether so many films meet a state that no reply is much better than chance."""
        return len(state.answers(self.catalog)) > _BROAD * len(self.catalog)

    def _shifted(self, turn: int, due: str, shift: PlannedShift) -> PlanStep:
        situation = None
        explicitness = self.behaviour.explicitness
        if explicitness != voices.EXPLICIT:
            draw = self.streams.at("situation", turn)
            situation = voices.implied(shift, explicitness, self.behaviour.voice, draw)
        step = self.step(turn, f"shift_{shift.section}", shift.state)
        return replace(step, planned=due, shift=shift, situation=situation)

    def _with_open_scopes(self, planned: Sequence[PlanStep]) -> list[PlanStep]:
        """The steps with a share of the shifts that bring a value worded without their scope. In the window
        that follows the user tells nothing of the interpretation in mind, the type's own; the turn after it
        says what holds. A shift can be open where two turns can pass before it is cleared up, and as
        :meth:`_interpretations`. States do not change; voice A and situations have no such words.
        """
        share = 0.5
        if self.behaviour.scope == voices.OPEN:
            share = 1.0
        elif self.behaviour.natural:
            share = _OPEN_SHARE
        steps = list(planned)
        stated = self.behaviour.comparable  # the first change of mind
        for index, step in enumerate(planned):
            if step.shift is None:
                continue
            if stated:
                stated = False
                continue
            end = index + self._open_turns(planned[index:])
            interpretations = {}
            if step.shift.section in _CAN_BE_OPEN and not step.situation and end - index > 1:
                interpretations = self._interpretations(planned[index - 1].state, step, step.shift)
            chance = self.streams.at("scope", step.turn).random()
            if interpretations and chance < share:
                for place_in_window in range(index, end):
                    steps[place_in_window] = _left_open(steps[place_in_window], interpretations)
                if end < len(steps):
                    steps[end] = replace(steps[end], act=CLARIFY)
        return steps

    def _open_turns(self, steps: Sequence[PlanStep]) -> int:
        """How many turns, from that of a shift on, may pass before the user says what was meant."""
        wanted = steps[0].wanted
        unchanged = sum(1 for _ in takewhile(lambda step: step.wanted == wanted, steps))
        if unchanged < len(steps):
            unchanged -= 1  # one turn is left to say it
        return min(FRESH_TURNS, unchanged)

    def _interpretations(
        self, before: UserState, step: PlanStep, shift: PlannedShift
    ) -> dict[str, UserState]:
        """The states that the bare words of a shift allow: all stays but for the value of the same field, if
        any, or nothing stays. None where a reply could not tell them apart: the first has no answers, or the
        second not so many more that a list of them would show. Two values of one field are no state of their
        own.
        """
        name = REPLACE if shift.added.keys() & before.constraints.keys() else KEEP
        constraints = {**before.constraints, **shift.named}
        strict = replace(step.state, constraints=constraints, avoid=before.avoid)
        loose = replace(step.state, constraints=shift.named, avoid={})
        answers = strict.answers(self.catalog)
        more = len(loose.answers(self.catalog)) - len(answers)
        if not len(answers) or more < _APART:
            return {}
        anchor = step.state.anchor
        if anchor not in answers:
            anchor = int(answers[0])
        return {name: replace(strict, anchor=anchor), DROP: replace(loose, anchor=anchor)}

    def _event(self, before: UserState, step: PlanStep, shift: PlannedShift) -> ShiftEvent:
        """What the log says of a shift, the ground truth: the thesis's keys first, then ours."""
        films = self.catalog.items
        after = shift.state
        log: dict[str, Any] = {"turn": step.turn, "from_focus": before.focus, "to_focus": after.focus}
        log["bridge_field"], log["bridge_value"] = shift.bridge or (None, None)
        log["from_anchor"] = films[before.anchor].title
        log["to_anchor"] = films[after.anchor].title
        log["type"] = step.kind
        log["planned_type"] = step.planned
        log["added"] = dict(shift.added)
        log["dropped"] = dict(shift.dropped)
        log["avoid"] = dict(after.avoid)
        log["wishes"] = dict(after.constraints)
        log["n_answers"] = step.n_answers
        log["stratum"] = stratum(step.n_answers)
        if self.behaviour.explicitness != voices.EXPLICIT:
            log["explicitness"] = voices.IMPLICIT if step.situation else voices.EXPLICIT
        if step.situation:
            log["implied"] = {step.situation.field: step.situation.value}
            log["situation"] = step.situation.text
        if self.behaviour.free_order and self.behaviour.scope != voices.STATED:
            log["scope"] = voices.OPEN if step.readings else voices.STATED
        if step.readings:
            log["reading"] = DROP if shift.section == "switch" else next(iter(step.readings))
            log["readings"] = {name: state.to_json() for name, state in step.readings.items()}
        return ShiftEvent.from_json(log)


def _left_open(step: PlanStep, interpretations: Mapping[str, UserState]) -> PlanStep:
    if step.act == CONTRADICTION:
        step = replace(step, act=FOLLOW_UP)
    return replace(step, readings=interpretations)
