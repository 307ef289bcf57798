"""Scenarios: what a user will want and when, fixed before any system says a word.

A scenario depends on the catalogue, the seed, the session's number and the settings, never on the
system: every system meets the same users, and sessions are paired by design.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crs_lib import rng
from crs_lib.errors import InputError
from crs_lib.movies.catalog import Catalog
from crs_lib.movies.shifts import SHIFTS, Shift, State, new_value, propose, wish_fields

NO_SHIFT = "none"
ALL_TYPES = tuple(SHIFTS.names())
QUESTIONS = ("question_cast", "question_maker", "question_plot", "question_mood")
_FIRST_SHIFT, _GAP = (4, 6), (3, 5)  # inclusive bounds, in turns
_TURNS_AFTER = 2  # a shift is planned only where so many turns follow it


@dataclass(frozen=True)
class Rates:
    """How often an ordinary turn is something else than a question or a request for more, in [0, 1]."""

    hesitation: float = 0.10
    contradiction: float = 0.05
    question: float = 0.45

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value <= 1:
                raise InputError(f"rate {name} is {value}; give a share between 0 and 1")


@dataclass(frozen=True)
class Step:
    """One user turn of the plan: the act, the state it leaves, and the shift if it is one."""

    turn: int
    act: str
    state: State
    n_answers: int
    shift: Shift | None = None
    event: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Scenario:
    """The plan of one session; ``arm`` is "shift" or "none" (its twin without any shift)."""

    seed: int
    session: int
    arm: str
    true_genre: str
    steps: tuple[Step, ...]
    unmet: tuple[str, ...] = field(default=())

    @property
    def events(self) -> list[Mapping[str, Any]]:
        """The shift events, in order."""
        return [step.event for step in self.steps if step.event is not None]


def plan(
    catalog: Catalog,
    seed: int,
    session: int,
    n_turns: int,
    *,
    arm: str = "shift",
    types: tuple[str, ...] = ALL_TYPES,
    rates: Rates | None = None,
) -> Scenario:
    """The scenario of one session.

    Turn 1 asks for a genre, the next turns refine it to two or three wishes; shifts come at random
    turns, their types balanced over every block of as many sessions as there are types; between them
    the user asks about films, asks for more, hesitates, or contradicts in words only. Every wish set
    has an answer in the catalogue, and the answer set's size is logged. The twin of arm "none" equals
    its session up to the first shift and never shifts.

    Raises InputError if the catalogue has no genre with five films, or for an unknown type.
    """
    for kind in types:
        SHIFTS.get(kind)
    rates = rates or Rates()
    turns = shift_turns(seed, session, n_turns) if arm != NO_SHIFT else []
    kinds = list(type_order(seed, session, types, len(turns)))
    state = _first_state(catalog, rng.stream(seed, "movies", session, "goal"))
    genre = state.wishes["genre"]
    steps = [_step(catalog, 1, "initial", state)]
    unmet: list[str] = []
    refinements = int(rng.stream(seed, "movies", session, "refinements").integers(1, 3))
    after_shift = False
    for turn in range(2, n_turns + 1):
        draw = rng.stream(seed, "movies", session, "turn", turn)
        if turn in turns and kinds:
            shift, kind = _next_shift(
                catalog, state, kinds, types, rng.stream(seed, "movies", session, "shift", turn)
            )
            if shift is not None:
                event = _event(catalog, turn, kind, state, shift)
                state = shift.state
                steps.append(_step(catalog, turn, f"shift_{shift.section}", state, shift, event))
                after_shift = True
                continue
            unmet.append(f"turn {turn}")
        if turn - 1 <= refinements and (finer := _refined(catalog, state, draw)) is not None:
            state = finer
            steps.append(_step(catalog, turn, "refine", state))
            continue
        act = "follow_up" if after_shift else _ordinary(draw, rates)
        after_shift = False
        steps.append(_step(catalog, turn, act, state))
    return Scenario(seed, session, arm, genre, tuple(steps), tuple(unmet))


def shift_turns(seed: int, session: int, n_turns: int) -> list[int]:
    """The turns at which a session shifts: random first turn, random gaps, none near the end."""
    draw = rng.stream(seed, "movies", session, "shift-turns")
    turns, turn = [], int(draw.integers(_FIRST_SHIFT[0], _FIRST_SHIFT[1] + 1))
    while turn + _TURNS_AFTER <= n_turns:
        turns.append(turn)
        turn += int(draw.integers(_GAP[0], _GAP[1] + 1))
    return turns


def type_order(seed: int, session: int, types: tuple[str, ...], n: int) -> list[str]:
    """The types of a session's shifts in order: a Latin square over each block of sessions.

    Over a block of ``len(types)`` sessions every type comes equally often at every place.
    """
    if not types:
        return []
    block, row = divmod(session, len(types))
    order = rng.stream(seed, "movies", "shift-types", block).permutation(len(types))
    return [types[int(order[(row + place) % len(types)])] for place in range(n)]


def _next_shift(
    catalog: Catalog, state: State, kinds: list[str], types: tuple[str, ...], draw: np.random.Generator
) -> tuple[Shift | None, str]:
    """The next type that can happen now; one that cannot keeps its place for later."""
    for place, kind in enumerate(kinds):
        shift = propose(kind, catalog, state, draw)
        if shift is not None:
            del kinds[place]
            return shift, kind
    for kind in ("switch", "replace", "refine"):  # what was planned cannot happen now
        shift = propose(kind, catalog, state, draw) if kind in types else None
        if shift is not None:
            kinds.pop(0)
            return shift, kind
    return None, ""


def _first_state(catalog: Catalog, draw: np.random.Generator) -> State:
    genres = catalog.goal_genres
    if not genres:
        raise InputError(
            f"{catalog!r} has no genre with five films; a scenario needs one. Give a larger catalogue"
        )
    genre = genres[int(draw.integers(len(genres)))]
    items = catalog.query({"genre": genre}).items
    return State({"genre": genre}, "genre", int(items[int(draw.integers(len(items)))]))


def _refined(catalog: Catalog, state: State, draw: np.random.Generator) -> State | None:
    """One more wish that the film in mind meets, preferring values that other films share."""
    for name in wish_fields(draw, state.wishes):
        found = new_value(catalog, [state.anchor], name, None, draw)
        if found is not None:
            return replace(state, wishes={**state.wishes, name: found[0]}, focus=name)
    return None


def _ordinary(draw: np.random.Generator, rates: Rates) -> str:
    """What a turn without plan is; with ``question`` of the rest a question about a film."""
    chance = draw.random()
    if chance < rates.hesitation:
        return "hesitate" if draw.random() < 0.5 else "aside"
    if chance < rates.hesitation + rates.contradiction:
        return "contradiction"
    if draw.random() < rates.question:
        return QUESTIONS[int(draw.integers(len(QUESTIONS)))]
    return "follow_up"


def _step(
    catalog: Catalog,
    turn: int,
    act: str,
    state: State,
    shift: Shift | None = None,
    event: Mapping[str, Any] | None = None,
) -> Step:
    return Step(turn, act, state, len(state.answers(catalog)), shift, event)


def stratum(n_answers: int) -> str:
    """The size class of an answer set: "0", "1-9", "10-49" or "50+"."""
    if n_answers == 0:
        return "0"
    return "1-9" if n_answers < 10 else "10-49" if n_answers < 50 else "50+"


def _event(catalog: Catalog, turn: int, kind: str, old: State, shift: Shift) -> dict[str, Any]:
    """The ground truth of a shift: the thesis's keys first, then ours."""
    new = shift.state
    n = len(new.answers(catalog))
    return {
        "turn": turn,
        "from_focus": old.focus,
        "to_focus": new.focus,
        "bridge_field": shift.bridge[0] if shift.bridge else None,
        "bridge_value": shift.bridge[1] if shift.bridge else None,
        "from_anchor": catalog.items[old.anchor].title,
        "to_anchor": catalog.items[new.anchor].title,
        "type": kind,
        "added": dict(shift.added),
        "dropped": dict(shift.dropped),
        "avoid": dict(new.avoid),
        "wishes": dict(new.wishes),
        "n_answers": n,
        "stratum": stratum(n),
    }
