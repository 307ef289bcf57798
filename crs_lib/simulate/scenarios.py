"""Scenario: what one simulated user wants, turn by turn, fixed before any system says a word.

A scenario depends on the catalogue, the seed, the session's number and the settings, never on the system:
every system meets the same users, and sessions are paired by design. A straight user wants from the first
turn what the other user shifts to, and says as much, turn by turn; a fresh user begins at the shift and names
everything in force. :mod:`crs_lib.simulate.planner` makes scenarios. Source: docs/metrics.md, section 5;
docs/validity.md, section 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, ClassVar, Final, NamedTuple

from crs_lib.catalog.catalog import Catalog, Codes
from crs_lib.catalog.fields import QUESTION_ACTS
from crs_lib.core import rng
from crs_lib.core.dialogue import ShiftEvent
from crs_lib.core.settings import Field, Settings
from crs_lib.simulate import voices
from crs_lib.simulate.shifts import PlannedShift, UserState, common, one_of
from crs_lib.systems.base import Draw, Wishes

SHIFT, NO_SHIFT, STRAIGHT, FRESH, CALM = "shift", "none", "straight", "fresh", "calm"  # arms
WINDOWS: Final = (STRAIGHT, FRESH)  # arms of short conversations, one for each shift
FRESH_TURNS = 3  # turns of a window from the shift on, or until the state changes

# Acts of turns; that of a shift begins with "shift_".
OPENING = "initial"
REFINEMENT = "refine"
FOLLOW_UP = "follow_up"  # asks for further films
EXCLUDE = "exclude"  # names a value to avoid
CLARIFY = "shift_clarified"  # names all that holds after a shift that left its scope open
CONTRADICTION = "contradiction"  # contradicts the last reply, in words only
QUESTIONS = tuple(QUESTION_ACTS)
_STATEMENTS = frozenset({OPENING, REFINEMENT, EXCLUDE, CLARIFY})

DENSE, NATURAL = "dense", "natural"
FIRST_SHIFT, GAP = (4, 6), (3, 5)  # inclusive bounds, in turns
_TURNS_AFTER = 2  # a shift is planned only where so many turns follow it
# People's revisions (docs/revisions.md): 456 in about 2,390 user turns after the first (480 conversations).
_NATURAL_RATE = 0.19


class Streams(NamedTuple):
    """The random streams of a session, by address; the system is no part of any address."""

    seed: int
    session: int

    def at(self, *address: str | int) -> Draw:
        """The stream of an address, begun anew."""
        return rng.stream(self.seed, "movies", self.session, *address)


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

    def opening_ends(self, streams: Streams) -> int:
        """The turn of a session's first shift, however long the session is."""
        turns = shift_turns(*streams, self.first[1] + _TURNS_AFTER, self)
        return turns[0] if turns else self.first[1]


USUAL = Pace()


@lru_cache(maxsize=1024)
def _shift_turns(seed: int, session: int, n_turns: int, pace: Pace) -> tuple[int, ...]:
    draw = Streams(seed, session).at("shift-turns")
    last = n_turns - _TURNS_AFTER
    if pace.natural:
        turns = range(pace.first[0], last + 1)
        return tuple([turn for turn in turns if draw.random() < _NATURAL_RATE])
    dense = []
    turn = int(draw.integers(pace.first[0], pace.first[1] + 1))
    while turn <= last:
        dense.append(turn)
        turn += int(draw.integers(pace.gap[0], pace.gap[1] + 1))
    return tuple(dense)


def shift_turns(seed: int, session: int, n_turns: int, pace: Pace = USUAL) -> list[int]:
    """The turns at which a session shifts: random first turn, random gaps, none near the end."""
    return list(_shift_turns(seed, session, n_turns, pace))


Share = Annotated[float, Field(ge=0, le=1)]


class Rates(Settings):
    """How often an ordinary turn is something else than a request for more, in [0, 1]."""

    _where: ClassVar[str] = "rates: "

    hesitation: Annotated[Share, Field(description="the user hesitates")] = 0.10
    contradiction: Annotated[Share, Field(description="the user contradicts the last reply")] = 0.05
    question: Annotated[Share, Field(description="the user asks a question about a film")] = 0.45


@dataclass(frozen=True)
class PlanStep:
    """One user turn of the plan: the act, the state that it leaves, and the films that answer it.
    ``planned`` is the type of shift due at this turn, ``shift`` the one that happens, ``event`` what the
    log says of it (a straight user's shift has none). ``situation`` voices a constraint that is not named,
    ``excluded`` are values to avoid without a shift. ``readings`` are the states that the words allow where
    a shift left its scope open, until the user says which is meant.
    """

    turn: int
    act: str
    state: UserState
    answers: Codes = field(repr=False, compare=False)
    planned: str = ""
    shift: PlannedShift | None = None
    event: ShiftEvent | None = None
    situation: voices.Situation | None = None
    excluded: Wishes = field(default_factory=dict)
    readings: Mapping[str, UserState] = field(default_factory=dict)

    @property
    def n_answers(self) -> int:
        """The number of films that meet the state."""
        return len(self.answers)

    @property
    def states(self) -> bool:
        """Whether the turn is planned to state what the user wants; words that change nothing do not."""
        return self.shift is not None or self.act in _STATEMENTS

    @property
    def kind(self) -> str:
        """The type of the shift; empty without one."""
        return self.shift.kind if self.shift else ""

    @property
    def wanted(self) -> tuple[Wishes, Wishes]:
        """What the user wants at this turn: the constraints and the values to avoid."""
        return self.state.constraints, self.state.avoid


@dataclass(frozen=True)
class Scenario:
    """The plan of one session in an arm; ``rates`` are those of its ordinary turns, ``voice`` the user's
    (:mod:`crs_lib.simulate.voices`), ``insist`` how often the user insists where a reply misses, in [0, 1];
    ``natural`` users talk as plainly and name as little as people do. ``lines`` are the words, by turn and
    section, that no reply changes: sessions with other systems say the same.
    """

    streams: Streams
    arm: str
    true_genre: str
    steps: tuple[PlanStep, ...]
    voice: str
    insist: float
    rates: Rates
    natural: bool = False
    lines: dict[tuple[int, str], str] = field(default_factory=dict, init=False, repr=False, compare=False)
    _begun: dict[int, Draw] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def session(self) -> int:
        """The number of the session."""
        return self.streams.session

    @property
    def name(self) -> str:
        """The session's number as files have it."""
        return f"{self.session:05d}"

    def before(self, turn: int) -> PlanStep:
        """The step before a turn; of the first turn the step itself."""
        return self.steps[max(0, turn - 2)]

    @cached_property
    def moods(self) -> tuple[float, ...]:
        """A number in [0, 1) for each turn: users insist where it is small."""
        moods = []
        for step in self.steps:
            draw = self.streams.at("words", step.turn)
            moods.append(draw.random())
            self._begun[step.turn] = draw
        return tuple(moods)

    def draws(self, turn: int) -> Draw:
        """The stream of the user's words in a turn, behind its first number, which is the turn's mood."""
        draw = self._begun.pop(turn, None)
        if draw is None:
            draw = self.streams.at("words", turn)
            draw.random()
        return draw

    @cached_property
    def habits(self) -> tuple[float, ...]:
        """Numbers in [0, 1), small for a user who types no capitals, leaves out marks, makes slips."""
        return tuple(self.streams.at("typing").random(3).tolist())

    @property
    def small_letters(self) -> bool:
        """Whether this user types no capitals but those of names."""
        return self.habits[0] < voices.every()[self.voice].small_letters

    @property
    def shifts(self) -> list[PlanStep]:
        """The steps that shift, in order."""
        return [step for step in self.steps if step.shift is not None]

    @property
    def events(self) -> list[ShiftEvent]:
        """What the log says of the shifts, in order."""
        return [step.event for step in self.steps if step.event is not None]


def stratum(n_answers: int) -> str:
    """The size class of an answer set: "0", "1-9", "10-49" or "50+"."""
    for least, name in ((50, "50+"), (10, "10-49"), (1, "1-9")):
        if n_answers >= least:
            return name
    return "0"


class TurnMaker:
    """Makes the turns of a scenario that state constraints one by one, and those that no plan decides:
    requests for more, questions, hesitation, first words, small talk.
    """

    def __init__(self, catalog: Catalog, scenario: Scenario) -> None:
        self.catalog = catalog
        self.scenario = scenario
        self.streams = scenario.streams
        self.voice = voices.every()[scenario.voice]

    def step(self, turn: int, act: str, state: UserState) -> PlanStep:
        """A turn without a shift."""
        return PlanStep(turn, act, state, state.answers(self.catalog))

    def stated(self, goal: UserState, wanted: Wishes, avoid: Wishes) -> list[PlanStep]:
        """The turns that state constraints, then values to avoid, with a goal's film in mind."""
        steps: list[PlanStep] = []
        state = replace(goal, constraints={}, avoid={})
        for name, value in wanted.items():
            state = replace(state, constraints={**state.constraints, name: value}, focus=name)
            act = REFINEMENT if steps else OPENING
            steps.append(self.step(len(steps) + 1, act, state))
        for name, value in avoid.items():
            focus = next(iter(wanted), name)
            state = replace(state, avoid={**state.avoid, name: value}, focus=focus)
            step = self.step(len(steps) + 1, EXCLUDE, state)
            steps.append(replace(step, excluded={name: value}))
        return steps

    def again(self, turn: int, state: UserState, draw: Draw, name: str = "") -> PlanStep:
        """A turn that says a value of a state once more: that of a field, else one by chance."""
        if not state.constraints:
            name = one_of(list(state.avoid), draw)
            excluded = {name: state.avoid[name]}
            return replace(self.step(turn, EXCLUDE, state), excluded=excluded)
        if name not in state.constraints:
            name = one_of(list(state.constraints), draw)
        return self.step(turn, REFINEMENT, replace(state, focus=name))

    def free_act(self, draw: Draw) -> str:
        """The act of a turn without plan: as often as the rates say, else a request for more."""
        rates = self.scenario.rates
        chance = draw.random()
        if chance < rates.hesitation:
            return "hesitate" if draw.random() < 0.5 else "aside"
        if chance < rates.hesitation + rates.contradiction:
            return CONTRADICTION
        questions = self.catalog.questions
        if draw.random() < rates.question and questions:
            return one_of(questions, draw)
        return FOLLOW_UP

    def or_small_talk(self, step: PlanStep) -> PlanStep:
        """The step, or small talk in place of a question or a request for more, as its share says."""
        if step.act not in (*QUESTIONS, FOLLOW_UP):
            return step
        chance = self.streams.at("small-talk", step.turn).random()
        act = voices.picked(self.voice.small_talk, chance)
        return replace(step, act=act) if act else step

    def with_small_talk(self, steps: Sequence[PlanStep]) -> list[PlanStep]:
        """The steps with small talk, but for the first one and those after a shift; no state changes."""
        talk = list(steps[:1])
        for before, step in pairwise(steps):
            if before.shift is None:
                step = self.or_small_talk(step)
            talk.append(step)
        return talk

    def openly(self, first_act: str, goal: UserState, n: int) -> list[PlanStep]:
        """The first ``n`` turns of a user who states and contradicts nothing: first words, ordinary talk."""
        nothing = replace(goal, constraints={}, avoid={})
        steps = [self.step(1, first_act, nothing)]
        for turn in range(2, n + 1):
            act = self.free_act(self.streams.at("open", turn))
            if act == CONTRADICTION:
                act = FOLLOW_UP
            steps.append(self.step(turn, act, nothing))
        return self.with_small_talk(steps)

    def with_first_words(self, steps: list[PlanStep], opening: int, first_shift: int) -> list[PlanStep]:
        """The steps with first turns that state nothing, where the voice has them and turns can be spared.
        After a hello one turn is spent so; who asks for any film may go on openly, up to the turn that
        leaves just enough before the shift. The ``opening`` turns, which state what is wished, come later,
        and ordinary ones give way; from there on the plan is the same. The twin without shifts begins like
        its session.
        """
        draw = self.streams.at("first-words")
        act = voices.picked(self.voice.first_words, draw.random())
        spare = min(first_shift - 1, len(steps)) - opening
        if not act or spare < 1:
            return steps
        n = 1
        if act != voices.GREETING:
            n = spare - int(draw.integers(spare)) // 2
        later = [replace(step, turn=step.turn + n) for step in steps[:opening]]
        openly = self.openly(act, steps[0].state, n)
        return [*openly, *later, *steps[opening + n :]]


class Window(NamedTuple):
    """Turns of a scenario that other users share: the turn of a shift, and how many turns from it on."""

    turn: int
    length: int

    @property
    def end(self) -> int:
        """The turn behind the window."""
        return self.turn + self.length


def windows(plan: Scenario) -> list[Window]:
    """The windows of a session: the turns from each of its shifts on without change."""
    shared = []
    for shift in plan.shifts:
        first, *following = plan.steps[shift.turn - 1 : shift.turn - 1 + FRESH_TURNS]
        length = 1
        for step in following:
            if step.wanted != first.wanted or bool(step.readings) != bool(first.readings):
                break
            length += 1
        shared.append(Window(shift.turn, length))
    return shared


def read_as(catalog: Catalog, plan: Scenario, window: Window, state: UserState) -> Scenario:
    """The scenario of a user who means another interpretation of the shift that begins a window."""
    steps = list(plan.steps)
    answers = state.answers(catalog)
    for turn in range(window.turn, window.end):
        steps[turn - 1] = replace(steps[turn - 1], state=state, answers=answers)
    return replace(plan, steps=tuple(steps))


def fresh(catalog: Catalog, plan: Scenario, turn: int) -> Scenario:
    """The scenario of a fresh user who states everything that holds at ``turn``, and goes on as planned."""
    steps = list(plan.steps)
    maker = TurnMaker(catalog, plan)
    steps[turn - 1] = maker.step(turn, OPENING, steps[turn - 1].state)
    return replace(plan, arm=FRESH, steps=tuple(steps))


def straight(catalog: Catalog, plan: Scenario, turn: int) -> Scenario:
    """The scenario of a straight user: from a shift on as the plan's user, and never of another mind. Each
    turn up to the shift is of the same kind. Where the plan's user states something, this one states what
    the shift keeps of it, else says again a value that it keeps; at the shift what it added, in one
    utterance. Who keeps nothing asks openly until then.
    """
    maker = _StraightTurns(catalog, plan, plan.before(turn).state, plan.steps[turn - 1])
    steps = [*maker.before(), maker.at_shift(), *plan.steps[turn:]]
    return replace(plan, arm=STRAIGHT, steps=tuple(steps))


def statements(plan: Scenario, turn: int) -> int:
    """The number of turns before a turn that are planned to state what the user wants."""
    return sum(1 for step in plan.steps[: turn - 1] if step.states)


class _StraightTurns(TurnMaker):
    """Makes the turns of a straight user up to a shift; ``old`` is the state that the other user leaves."""

    def __init__(self, catalog: Catalog, plan: Scenario, old: UserState, shifted: PlanStep) -> None:
        super().__init__(catalog, plan)
        self.shifted = shifted
        new = shifted.state
        self.kept = common(old.constraints, new.constraints)
        self.kept_out = common(old.avoid, new.avoid)
        self.added = _lacking(new.constraints, self.kept)
        self.excluded = _lacking(new.avoid, self.kept_out)
        only_adds = self.kept == old.constraints and not self.excluded
        anchor = old.anchor if only_adds else new.anchor
        self.goal = replace(new, past=(), anchor=anchor)

    def before(self) -> list[PlanStep]:
        """The turns before the shift."""
        planned = self.scenario.steps[: self.shifted.turn - 1]
        if not self.kept and not self.kept_out:
            return self.openly(voices.ANY_FILM, self.goal, len(planned))
        state = replace(self.goal, constraints={}, avoid={})
        steps = []
        for step in planned:
            if step.states:
                beside = self._stated(step, state)
            else:
                beside = self._ordinary(step, state)
            state = beside.state
            steps.append(beside)
        return steps

    def _stated(self, planned: PlanStep, state: UserState) -> PlanStep:
        """The turn beside one that states something, in a state that holds what was said so far."""
        turn = planned.turn
        constraints, avoid = planned.wanted
        stays = common(self.kept, constraints)
        stays_out = common(self.kept_out, avoid)
        added = _lacking(stays, state.constraints)
        excluded = _lacking(stays_out, state.avoid)
        nothing_new = not added and not excluded
        if nothing_new and (state.constraints or state.avoid):
            return self.again(turn, state, self._draw(planned), planned.state.focus)
        if nothing_new and self.kept:
            name = next(iter(self.kept))
            added = {name: self.kept[name]}
        elif nothing_new:
            excluded = self.kept_out
        after = _with(state, added, excluded)
        if added and planned.act == OPENING:
            return self.step(turn, OPENING, after)
        if not excluded and len(added) == 1:
            return self.step(turn, REFINEMENT, after)
        return self._adding(turn, after, added, excluded)

    def _draw(self, planned: PlanStep) -> Draw:
        return self.streams.at("straight", self.shifted.turn, planned.turn)

    def _adding(self, turn: int, state: UserState, added: Wishes, excluded: Wishes) -> PlanStep:
        """A turn that adds constraints in one utterance, if any, or values to avoid."""
        step = replace(self.step(turn, EXCLUDE, state), excluded=excluded)
        if not added:
            return step
        act = "shift_refine" if self.kept else REFINEMENT
        shift = PlannedShift(state, "refine", added, {}, kind="refine")
        return replace(step, act=act, shift=shift)

    def _ordinary(self, planned: PlanStep, state: UserState) -> PlanStep:
        """The turn beside one that states nothing."""
        act = planned.act
        if act == CONTRADICTION and not state.constraints:
            act = FOLLOW_UP
        return self.step(planned.turn, act, state)

    def at_shift(self) -> PlanStep:
        """The turn of the shift: what it added in one utterance, what is to be avoided from now on, or where
        it only dropped something a value that it keeps.
        """
        turn, state = self.shifted.turn, self.shifted.state
        if not self.added and not self.excluded:
            return self.again(turn, state, self._draw(self.shifted))
        step = self._adding(turn, state, self.added, self.excluded)
        if not self.added:
            return step
        return replace(step, situation=self.shifted.situation)


def _with(state: UserState, added: Wishes, excluded: Wishes) -> UserState:
    """A state with further constraints and values to avoid; the last constraint is in focus."""
    constraints = {**state.constraints, **added}
    avoid = {**state.avoid, **excluded}
    *_, focus = state.focus, *added
    return replace(state, constraints=constraints, avoid=avoid, focus=focus)


def _lacking(values: Wishes, without: Wishes) -> dict[str, str]:
    return {name: value for name, value in values.items() if name not in without}
