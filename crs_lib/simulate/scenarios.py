"""Scenarios: the constraints and shifts of a user, fixed before any system says a word. A scenario depends on
the catalogue, the seed, the session's number and the settings, never on the system: every system meets the
same users, and sessions are paired by design. Users shift at random turns, and the types of shifts come in
equal numbers within a block of sessions (docs/metrics.md, section 5).
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.fields import GOAL_FIELD, QUESTION_ACTS
from crs_lib.core import rng
from crs_lib.core.errors import InputError
from crs_lib.core.settings import Field, Settings
from crs_lib.simulate import voices
from crs_lib.simulate.shifts import SHIFTS, PlannedShift, StateShape, UserState, further, propose, stand_ins
from crs_lib.simulate.voices import Situation

FIRST_SHIFT, GAP = (4, 6), (3, 5)  # inclusive bounds, in turns
_TURNS_AFTER = 2  # a shift is planned only where so many turns follow it


def _refinements(seed: int, session: int, least: int = 1, natural: bool = False) -> int:
    """Constraints that a user adds to the first before a shift: ``least`` to 2; none at natural pace."""
    return 0 if natural else int(rng.stream(seed, "movies", session, "refinements").integers(least, 3))


DENSE, NATURAL = "dense", "natural"
# People's revisions (docs/revisions.md): 456 in about 2,390 user turns after the first (480 conversations);
# their types, "exclude" as contradict; 416 of 451 leave the scope open.
_RATE, _OPEN_SHARE = 0.19, 0.92
_FOUND = {"refine": 341, "contradict": 68, "replace": 34, "relax": 7, "switch": 6}
# Genres as often as the people tuned on name them (docs/validity.md, section 2); any other about 4 times.
_ASKED = {"Comedy": 51, "Horror": 42, "Action": 32, "Science Fiction": 24, "Fantasy": 16, "Romance": 16}
_INSISTS, _SELDOM = 0.6, 0.1  # how often an unserved user insists instead of going on; at natural pace


class Pace(NamedTuple):
    """When constraints shift: the least and the most turn of the first shift, and of the gap to the next.
    ``natural``: as often as people's do from the least turn on, and in their types.
    """

    first: tuple[int, int] = FIRST_SHIFT
    gap: tuple[int, int] = GAP
    natural: bool = False

    @classmethod
    def of(cls, first: Sequence[int], gap: Sequence[int], pace: str = DENSE) -> "Pace":
        """The pace of two ranges and a name as settings have them."""
        return cls((first[0], first[1]), (gap[0], gap[1]), pace == NATURAL)


USUAL = Pace()


def shift_turns(seed: int, session: int, n_turns: int, pace: Pace = USUAL) -> list[int]:
    """The turns at which a session shifts: random first turn, random gaps, none near the end."""
    draw = rng.stream(seed, "movies", session, "shift-turns")
    if pace.natural:
        return [turn for turn in range(pace.first[0], n_turns - _TURNS_AFTER + 1) if draw.random() < _RATE]
    turns, turn = [], int(draw.integers(pace.first[0], pace.first[1] + 1))
    while turn + _TURNS_AFTER <= n_turns:
        turns.append(turn)
        turn += int(draw.integers(pace.gap[0], pace.gap[1] + 1))
    return turns


def _type_order(
    seed: int, session: int, types: tuple[str, ...], n_turns: int, pace: Pace = USUAL, least: int = 1
) -> list[str]:
    """The types of a session's shifts, in order. In blocks of as many sessions as there are types, turn by
    turn, each shift gets the type that came least often, of those that can happen there
    (``ShiftType.allows``); draws break ties, and a longer session begins like a shorter one.
    """
    if not types:
        return []
    block, row = divmod(session, len(types))
    return list(_block(seed, block, types, n_turns, pace, least)[row])


@lru_cache(maxsize=256)
def _block(
    seed: int, block: int, types: tuple[str, ...], n_turns: int, pace: Pace, least: int
) -> list[list[str]]:
    """The types of the shifts of every session of a block: each the type given least often that can happen
    (where none can, of all), or at natural pace one as often as people's.
    """
    sessions = range(block * len(types), (block + 1) * len(types))
    draw = rng.stream(seed, "movies", "shift-types", block)
    order = draw.permutation(len(types)).tolist()
    plain = pace.natural and not least
    shapes = [StateShape(1 + _refinements(seed, session, least, plain)) for session in sessions]
    turns = [shift_turns(seed, session, n_turns, pace) for session in sessions]
    due = [(turn, order[row], row) for row, mine in enumerate(turns) for turn in mine]
    given: Counter[str] = Counter()
    kinds: list[list[str]] = [[] for _ in sessions]
    for _, _, row in sorted(due):
        options = [kind for kind in types if SHIFTS.create(kind).allows(shapes[row])] or list(types)
        if pace.natural and (counts := np.array([_FOUND.get(kind, 0) for kind in options])).any():
            kind = options[int(draw.choice(len(options), p=counts / counts.sum()))]
        else:
            drawn = (options[place] for place in draw.permutation(len(options)).tolist())
            kind = min(drawn, key=given.__getitem__)
        given[kind] += 1
        shapes[row] = SHIFTS.create(kind).leaves(shapes[row])
        kinds[row].append(kind)
    return kinds


SHIFT, NO_SHIFT, STRAIGHT, FRESH, CALM = "shift", "none", "straight", "fresh", "calm"  # arms
WINDOWS: Final = (STRAIGHT, FRESH)  # arms of short conversations, one for each shift
FRESH_TURNS = 3  # turns of a window from the shift on, or until the state changes
ALL_TYPES = tuple(SHIFTS.names())
QUESTIONS = tuple(QUESTION_ACTS)
OPENING, REFINEMENT = "initial", "refine"  # acts of the first turns; the act of a shift begins with "shift_"
FOLLOW_UP = "follow_up"  # asks for further films
EXCLUDE = "exclude"  # names a value to avoid
CLARIFY = "shift_clarified"  # names all that holds after a shift that left its scope open
KEEP, REPLACE, DROP = "keep", "replace", "drop"  # readings of such a shift
_CAN_BE_OPEN = ("refine", "replace", "switch")  # sections of shifts that bring a value
_APART = 3  # films by which readings differ at least: the length of a list
_ADDS = "shift_refine"
_FREE = frozenset({*QUESTIONS, FOLLOW_UP, "hesitate", "aside", "contradiction", *voices.SMALL_TALK})


Share = Annotated[float, Field(ge=0, le=1)]


class Rates(Settings):
    """How often an ordinary turn is something else than a request for more, in [0, 1]."""

    _where: ClassVar[str] = "rates: "

    hesitation: Annotated[Share, Field(description="the user hesitates")] = 0.10
    contradiction: Annotated[Share, Field(description="the user contradicts the last reply")] = 0.05
    question: Annotated[Share, Field(description="the user asks a question about a film")] = 0.45


# At natural pace, unless others are set; chosen with one half of people (docs/validity.md, section 2).
_PLAIN_RATES = Rates(hesitation=0.03, contradiction=0.0, question=0.35)


@dataclass(frozen=True)
class PlanStep:
    """One user turn of the plan: the act, the state that it leaves, and the shift if it shifts. ``kind`` is
    its type, ``planned`` the type due at this turn; ``answers`` are films that fit, ``n_answers`` in number;
    ``situation`` voices a constraint that is not named, ``excluded`` are values to avoid without a shift.
    ``readings`` are the states that the words allow where a shift left its scope open, until the user says
    which is meant. A straight user's shift has no event.
    """

    turn: int
    act: str
    state: UserState
    n_answers: int
    shift: PlannedShift | None = None
    event: Mapping[str, Any] | None = None
    planned: str = ""
    kind: str = ""
    answers: NDArray[np.int32] | None = field(default=None, repr=False, compare=False)
    situation: Situation | None = None
    excluded: Mapping[str, str] = field(default_factory=dict)
    readings: Mapping[str, UserState] = field(default_factory=dict)

    @property
    def wanted(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """What the user wants at this turn: the constraints and the values to avoid."""
        return self.state.constraints, self.state.avoid


@dataclass(frozen=True)
class Scenario:
    """The plan of one session in an arm; ``rates`` are those of its ordinary turns, ``voice`` the user's
    (:mod:`crs_lib.simulate.voices`), ``insist`` how often the user insists where a reply misses, in [0, 1];
    ``natural`` users talk as plainly and name as little as people do. ``lines`` are the words, by turn and
    section, that no reply changes: sessions with other systems say the same.
    """

    seed: int
    session: int
    arm: str
    true_genre: str
    steps: tuple[PlanStep, ...]
    voice: str = "A"
    insist: float = _INSISTS
    rates: Rates = field(default_factory=Rates)
    natural: bool = False
    lines: dict[tuple[int, str], str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def draws(self, turn: int) -> np.random.Generator:
        """The stream of the user's words in a turn; its first number is the turn's mood."""
        return rng.stream(self.seed, "movies", self.session, "words", turn)

    @cached_property
    def moods(self) -> tuple[float, ...]:
        """A number in [0, 1) for each turn: users insist where it is small."""
        return tuple(self.draws(step.turn).random() for step in self.steps)

    @cached_property
    def habits(self) -> tuple[float, ...]:
        """Numbers in [0, 1), small for a user who types no capitals, leaves out marks, makes slips."""
        return tuple(rng.stream(self.seed, "movies", self.session, "typing").random(3).tolist())

    @property
    def small_letters(self) -> bool:
        """Whether this user types no capitals but those of names."""
        return self.habits[0] < voices.every()[self.voice].small_letters

    def read_as(self, catalog: Catalog, window: "Window", state: UserState) -> "Scenario":
        """The scenario of a user who means another reading of the shift that begins a window."""
        steps, answers = list(self.steps), state.answers(catalog)
        for place in range(window.turn - 1, window.turn - 1 + window.length):
            steps[place] = replace(steps[place], state=state, n_answers=len(answers), answers=answers)
        return replace(self, steps=tuple(steps))

    @property
    def events(self) -> list[Mapping[str, Any]]:
        """The shift events, in order."""
        return [step.event for step in self.steps if step.event is not None]


def plan(
    catalog: Catalog, seed: int, session: int, n_turns: int, *, arm: str = "shift",
    types: tuple[str, ...] = ALL_TYPES, rates: Rates | None = None, pace: Pace = USUAL, voice: str = "A",
    insist: bool = True, explicitness: str = voices.EXPLICIT, scope: str = voices.STATED,
) -> Scenario:  # fmt: skip
    """The scenario of one session. Turn 1 asks for a genre, the next turns refine it to two or three
    constraints (in all voices but A: one to three of any field in any order); shifts come at random turns,
    their types balanced over every block of sessions (:func:`_type_order`); between them the user asks about
    films, asks for more, hesitates, or contradicts in words only. Every state has an answer in the catalogue,
    and the number of answers is logged. First words and small talk of a voice take the place of turns that
    change nothing; states, shifts and their turns are those of every voice but A. ``explicitness`` says
    whether a shift's new constraint is named or implied by a situation, ``scope`` whether it says what
    becomes of earlier constraints (:func:`_left_open`); the constraints are the same. The twin of arm "none"
    equals its session up to the first shift and never shifts; the user of arm "calm" never insists. Raises
    InputError if the catalogue has no genre with five films, or for an unknown type.
    """
    for kind in types:
        SHIFTS.get(kind)
    mixed = voice != voices.FIRST
    natural = pace.natural and mixed
    rates = _PLAIN_RATES if natural and rates in (None, Rates()) else rates or Rates()
    least = 0 if mixed else 1
    turns = shift_turns(seed, session, n_turns, pace) if arm != NO_SHIFT else []
    order = _type_order(seed, session, types, n_turns, pace, least) if turns else []
    kinds, planned = list(order), dict(zip(turns, order, strict=False))
    state = _first_state(catalog, rng.stream(seed, "movies", session, "goal"), natural)
    genre = state.constraints[GOAL_FIELD]
    opening = _refinements(seed, session, least, natural)
    steps = [_step(catalog, 1, OPENING, state)]
    after_shift = False
    draws = partial(rng.stream, seed, "movies", session, "turn")
    if mixed and not natural:
        steps = _in_any_order(catalog, state, opening + 1, seed, session)
        state, opening = steps[-1].state, len(steps) - 1
    for turn in range(len(steps) + 1, n_turns + 1):
        draw = draws(turn)
        due = planned.get(turn, "")
        if due:
            chance = rng.stream(seed, "movies", session, "shift", turn)
            shift, kind = _next_shift(catalog, state, kinds, types, chance)
            if shift is not None:
                event = _event(catalog, turn, kind, due, state, shift)
                state = shift.state
                step = _step(catalog, turn, f"shift_{shift.section}", state, due)
                step = replace(step, shift=shift, event=event, kind=kind)
                if explicitness != voices.EXPLICIT:
                    chance = rng.stream(seed, "movies", session, "situation", turn)
                    step = _said_how(step, voices.implied(shift, explicitness, voice, chance))
                steps.append(step)
                after_shift = True
                continue
        if not mixed and turn - 1 <= opening and (finer := _refined(catalog, state, draw)) is not None:
            state = finer
            steps.append(_step(catalog, turn, REFINEMENT, state))
            continue
        act = FOLLOW_UP if after_shift else _ordinary(catalog, draw, rates)
        after_shift = False
        steps.append(_step(catalog, turn, act, state, due))
    insists = (_SELDOM if natural else _INSISTS) if insist and arm != CALM else 0.0
    found = Scenario(seed, session, arm, genre, (), voice, insists, rates, natural)
    if mixed:
        first = next(iter(shift_turns(seed, session, pace.first[1] + _TURNS_AFTER, pace)), pace.first[1])
        steps = _first_words(catalog, found, _small_talk(found, steps), opening + 1, first)
        if scope != voices.STATED:
            share = 1.0 if scope == voices.OPEN else _OPEN_SHARE if pace.natural else 0.5
            steps = _left_open(catalog, replace(found, steps=tuple(steps[:n_turns])), share)
    return replace(found, steps=tuple(steps[:n_turns]))


def _left_open(catalog: Catalog, plan: Scenario, share: float) -> list[PlanStep]:
    """The steps with a share of the shifts that bring a value worded without their scope. In the window that
    follows the user tells nothing of the reading in mind, the type's own; the turn after it says what holds.
    A shift can be open where two turns can pass before it is cleared up, and as :func:`_readings`. States do
    not change; voice A and situations have no such words.
    """
    steps = list(plan.steps)
    for first, step in enumerate(plan.steps):
        if step.shift is None:
            continue
        same = len(list(next(itertools.groupby(plan.steps[first:], key=lambda one: one.wanted))[1]))
        end = first + min(FRESH_TURNS, same if first + same == len(steps) else same - 1)
        can = step.shift.section in _CAN_BE_OPEN and not step.situation and end - first > 1
        states = _readings(catalog, plan.steps[first - 1].state, step) if can else {}
        chance = rng.stream(plan.seed, "movies", plan.session, "scope", step.turn).random()
        event = {**(step.event or {}), "scope": voices.STATED}
        if states and chance < share:
            told = {name: {"constraints": s.constraints, "avoid": s.avoid} for name, s in states.items()}
            meant = DROP if step.shift.section == "switch" else next(iter(states))
            event |= {"scope": voices.OPEN, "reading": meant, "readings": told}
            for place in range(first, end):
                act = FOLLOW_UP if steps[place].act == "contradiction" else steps[place].act
                steps[place] = replace(steps[place], act=act, readings=states)
            if end < len(steps):
                steps[end] = replace(steps[end], act=CLARIFY)
        steps[first] = replace(steps[first], event=event)
    return steps


def _readings(catalog: Catalog, before: UserState, step: PlanStep) -> dict[str, UserState]:
    """The states that the bare words of a shift allow: all stays but for the value of the same field, if any,
    or nothing stays. None where a reply could not tell them apart: the first has no answers, or the second
    not so many more that a list of them would show. Two values of one field are no state of their own.
    """
    added = dict(step.shift.added) if step.shift else {}
    name = REPLACE if added.keys() & before.constraints.keys() else KEEP
    all_stays = replace(step.state, constraints={**before.constraints, **added}, avoid=before.avoid)
    found = {name: all_stays, DROP: replace(step.state, constraints=added, avoid={})}
    strict, loose = (state.answers(catalog) for state in found.values())
    if not len(strict) or len(loose) - len(strict) < _APART:
        return {}
    anchor = step.state.anchor if step.state.anchor in strict else int(strict[0])
    return {name: replace(state, anchor=anchor) for name, state in found.items()}


def _in_any_order(catalog: Catalog, first: UserState, n: int, seed: int, session: int) -> list[PlanStep]:
    """The turns that state ``n`` constraints of the film in mind in any order, as a beginning could be."""
    draw, full = rng.stream(seed, "movies", session, "order"), first
    for _ in range(2):
        full = _refined(catalog, full, draw) or full
    names = [list(full.constraints)[place] for place in draw.permutation(len(full.constraints))[:n]]
    return _stated(catalog, full, {name: full.constraints[name] for name in names}, {})


def _stated(
    catalog: Catalog, goal: UserState, wanted: Mapping[str, str], avoid: Mapping[str, str]
) -> list[PlanStep]:
    """The turns that state constraints, then values to avoid, one by one, with a goal's film in mind."""
    steps: list[PlanStep] = []
    for place, name in enumerate(wanted):
        held = dict(itertools.islice(wanted.items(), place + 1))
        state = replace(goal, constraints=held, focus=name, avoid={})
        steps.append(_step(catalog, place + 1, REFINEMENT if place else OPENING, state))
    for place, name in enumerate(avoid):
        held = dict(itertools.islice(avoid.items(), place + 1))
        state = replace(goal, constraints=wanted, focus=next(iter(wanted), name), avoid=held)
        steps.append(replace(_step(catalog, len(steps) + 1, EXCLUDE, state), excluded={name: avoid[name]}))
    return steps


def _small_talk(plan: Scenario, steps: Sequence[PlanStep]) -> list[PlanStep]:
    """The steps with a part of the ordinary turns turned into small talk; no state and no shift changes."""
    draws = partial(rng.stream, plan.seed, "movies", plan.session, "small-talk")
    shares, found = voices.every()[plan.voice].small_talk, list(steps[:1])
    for before, step in itertools.pairwise(steps):
        free = step.act in (*QUESTIONS, FOLLOW_UP) and before.shift is None
        act = voices.picked(shares, draws(step.turn).random()) if free else ""
        found.append(replace(step, act=act) if act else step)
    return found


def _first_words(
    catalog: Catalog, plan: Scenario, steps: list[PlanStep], opening: int, first_shift: int
) -> list[PlanStep]:
    """The steps with first turns that state nothing, where the manner has them and turns can be spared. After
    a hello one turn is spent so; who asks for any film may go on openly, up to the turn that leaves just
    enough before the shift. The ``opening`` turns, which state what is wished, come later, and ordinary ones
    give way; from there on the plan is the same. The twin without shifts begins like its session.
    """
    draw = rng.stream(plan.seed, "movies", plan.session, "first-words")
    act = voices.picked(voices.every()[plan.voice].first_words, draw.random())
    spare = min(first_shift - 1, len(steps)) - opening
    if not act or spare < 1:
        return steps
    n = 1 if act == voices.GREETING else spare - int(draw.integers(spare)) // 2
    later = [replace(step, turn=step.turn + n) for step in steps[:opening]]
    return [*_openly(catalog, plan, act, steps[0].state, n), *later, *steps[opening + n :]]


def _openly(catalog: Catalog, plan: Scenario, act: str, goal: UserState, n: int) -> list[PlanStep]:
    """The first ``n`` turns of a user who states and contradicts nothing: first words, ordinary talk."""
    draws = partial(rng.stream, plan.seed, "movies", plan.session, "open")
    acts = [act, *(_ordinary(catalog, draws(turn), plan.rates) for turn in range(2, n + 1))]
    nothing = replace(goal, constraints={}, avoid={})
    acts = [FOLLOW_UP if act == "contradiction" else act for act in acts]
    return _small_talk(plan, [_step(catalog, turn, act, nothing) for turn, act in enumerate(acts, start=1)])


class Window(NamedTuple):
    """Turns of a scenario that other users share: the turn of a shift, and how many turns from it on."""

    turn: int
    length: int


def windows(shifting: Scenario, plan: Scenario) -> list[Window]:
    """The windows of a session in an arm: the turns from each of ``shifting``'s shifts on without change."""
    states, found = [(step.wanted, bool(step.readings)) for step in plan.steps], []
    for turn in (step.turn for step in shifting.steps if step.shift is not None):
        same = next(itertools.groupby(states[turn - 1 :]))[1]
        found.append(Window(turn, min(FRESH_TURNS, len(list(same)))))
    return found


def fresh(catalog: Catalog, plan: Scenario, turn: int) -> Scenario:
    """The scenario of a fresh user who states everything that holds at ``turn``, and goes on as planned."""
    step = _step(catalog, turn, OPENING, plan.steps[turn - 1].state)
    return replace(plan, arm=FRESH, steps=(*plan.steps[: turn - 1], step, *plan.steps[turn:]))


def straight(catalog: Catalog, plan: Scenario, turn: int) -> Scenario:
    """The scenario of a straight user: from a shift on as the plan's user, and never of another mind. What
    the shift kept is stated one value a turn, what it added at its turn in one utterance; other turns are
    ordinary, and who keeps nothing asks openly until then. Source: docs/validity.md, section 1.
    """
    before, state = plan.steps[turn - 2].state, plan.steps[turn - 1].state
    kept = {name: v for name, v in before.constraints.items() if state.constraints.get(name) == v}
    spared = {name: v for name, v in before.avoid.items() if state.avoid.get(name) == v}
    told = {name: v for name, v in state.constraints.items() if name not in kept}
    excluded = {name: v for name, v in state.avoid.items() if name not in spared}
    only_adds = kept == before.constraints and not excluded
    goal = replace(state, past=(), anchor=before.anchor if only_adds else state.anchor)
    steps = _stated(catalog, goal, kept, spared)
    opening = len(steps)
    draws = partial(rng.stream, plan.seed, "movies", plan.session, "straight")
    now = replace(goal, constraints=kept, focus=next(reversed(kept), state.focus), avoid=spared)
    for place in range(opening + 1, turn):
        planned = plan.steps[place - 1]
        act = planned.act if planned.act in _FREE else _ordinary(catalog, draws(place), plan.rates)
        step = _step(catalog, place, act if kept or act != "contradiction" else FOLLOW_UP, now)
        steps += [step] if planned.act in _FREE else _small_talk(plan, [step, step])[1:]
    if not opening:
        steps = _openly(catalog, plan, voices.ANY_FILM, goal, turn - 1)
    elif kept:
        steps = _first_words(catalog, plan, steps, opening, turn)
    act = (_ADDS if kept else REFINEMENT) if told else EXCLUDE if excluded else FOLLOW_UP
    step = replace(_step(catalog, turn, act, state), excluded=excluded)
    if told:
        added = PlannedShift(state, "refine", told, {})
        step = replace(step, shift=added, kind="refine", situation=plan.steps[turn - 1].situation)
    steps.append(step)
    return replace(plan, arm=STRAIGHT, steps=(*steps, *plan.steps[turn:]))


def _next_shift(
    catalog: Catalog, state: UserState, kinds: list[str], types: tuple[str, ...], draw: np.random.Generator
) -> tuple[PlannedShift | None, str]:
    """The next type that can happen now; one that cannot keeps its place for later."""
    for place, kind in enumerate(kinds):
        shift = propose(kind, catalog, state, draw)
        if shift is not None:
            del kinds[place]
            return shift, kind
    for kind in stand_ins():  # no type that is planned can happen now
        shift = propose(kind, catalog, state, draw) if kind in types else None
        if shift is not None:
            kinds.pop(0)
            return shift, kind
    return None, ""


def _first_state(catalog: Catalog, draw: np.random.Generator, natural: bool = False) -> UserState:
    """A genre and a film of it; at natural pace a genre as often as people ask for it."""
    genres = catalog.goal_genres
    if not genres:
        lacks = f"{catalog!r} has no genre with five films"
        raise InputError(f"{lacks}; a scenario needs one. Give a larger catalogue")
    place = int(draw.integers(len(genres)))
    if natural:
        counts = np.array([_ASKED.get(genre, 4) for genre in genres])
        place = int(draw.choice(len(genres), p=counts / counts.sum()))
    genre = genres[place]
    items = catalog.query({GOAL_FIELD: genre}).items
    return UserState({GOAL_FIELD: genre}, GOAL_FIELD, int(items[int(draw.integers(len(items)))]))


def _refined(catalog: Catalog, state: UserState, draw: np.random.Generator) -> UserState | None:
    """One more constraint that the film in mind meets, preferring values that other films share."""
    found = further(catalog, [state.anchor], state.constraints, None, draw)
    return found and replace(state, constraints={**state.constraints, **found[1]}, focus=found[0])


def _ordinary(catalog: Catalog, draw: np.random.Generator, rates: Rates) -> str:
    """The act of a turn without plan: as often as the rates say, else a request for more."""
    chance = draw.random()
    if chance < rates.hesitation:
        return "hesitate" if draw.random() < 0.5 else "aside"
    if chance < rates.hesitation + rates.contradiction:
        return "contradiction"
    if draw.random() < rates.question and (asked := catalog.questions):
        return asked[int(draw.integers(len(asked)))]
    return FOLLOW_UP


def _step(catalog: Catalog, turn: int, act: str, state: UserState, planned: str = "") -> PlanStep:
    answers = state.answers(catalog)
    return PlanStep(turn, act, state, len(answers), planned=planned, answers=answers)


def _said_how(step: PlanStep, situation: Situation | None) -> PlanStep:
    """The step of a shift with its situation, if any; the event says how the shift is voiced."""
    told: dict[str, Any] = {"explicitness": voices.IMPLICIT if situation else voices.EXPLICIT}
    if situation:
        told |= {"implied": {situation.field: situation.value}, "situation": situation.text}
    return replace(step, situation=situation, event={**(step.event or {}), **told})


def stratum(n_answers: int) -> str:
    """The size class of an answer set: "0", "1-9", "10-49" or "50+"."""
    if n_answers == 0:
        return "0"
    return "1-9" if n_answers < 10 else "10-49" if n_answers < 50 else "50+"


def _event(
    catalog: Catalog, turn: int, kind: str, due: str, old: UserState, shift: PlannedShift
) -> dict[str, Any]:
    """The ground truth of a shift: the thesis's keys first, then ours."""
    new = shift.state
    n = len(new.answers(catalog))
    return {
        "turn": turn, "from_focus": old.focus, "to_focus": new.focus,
        "bridge_field": shift.bridge[0] if shift.bridge else None,
        "bridge_value": shift.bridge[1] if shift.bridge else None,
        "from_anchor": catalog.items[old.anchor].title, "to_anchor": catalog.items[new.anchor].title,
        "type": kind, "planned_type": due, "added": dict(shift.added), "dropped": dict(shift.dropped),
        "avoid": dict(new.avoid), "wishes": dict(new.constraints), "n_answers": n, "stratum": stratum(n),
    }  # fmt: skip
