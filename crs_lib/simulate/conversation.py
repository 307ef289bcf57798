"""One conversation: a scenario, its user and a system, turn by turn."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import prompts, rng
from crs_lib.core.dialogue import SYSTEM, USER, Dialogue, Turn
from crs_lib.core.errors import InputError
from crs_lib.llm.client import Retry
from crs_lib.runs.jobs import Start
from crs_lib.runs.ledger import Key
from crs_lib.simulate import scenarios, users, voices
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.scenarios import FRESH, OPENING, SHIFT, STRAIGHT, Scenario
from crs_lib.simulate.user_llm import ModelWording
from crs_lib.simulate.users import User
from crs_lib.systems import base as systems
from crs_lib.systems.base import SystemReply, World, is_program

if TYPE_CHECKING:
    from crs_lib.systems.programs import Programs


def scenario(world: World, number: int, config: SimulateConfig, arm: str = "") -> Scenario:
    """The scenario of a session's number under the settings of a batch, in their first arm or a named one."""
    return scenarios.plan(
        world.catalog, config.seed, number, config.n_turns, arm=arm or config.arms[0],
        types=tuple(config.shift_types), rates=config.rates,
        pace=scenarios.Pace.of(config.shift_first, config.shift_gap, config.pace),
        voice=voices.drawn(config.voices, config.seed, number), insist=config.insist,
        explicitness=config.explicitness, scope=config.scope,
    )  # fmt: skip


class _Talk(NamedTuple):
    """A conversation to be held: its id in files, its plan, its turns, and the window that it mirrors."""

    name: str
    plan: Scenario
    turns: range
    window: Mapping[str, Any] = {}


def session(
    world: World, spec: str, number: int, config: SimulateConfig, plan: Scenario | None = None
) -> Dialogue:
    """One dialogue between a system, ``SPEC`` or ``NAME=SPEC``, and the scenario's user (``plan``, if planned
    already); the user's stream leaves the system out, so every system meets the same constraints and shifts.
    Raises RunError for an utterance that does not voice a planned constraint or shift.
    """
    plan = plan or scenario(world, number, config)
    return _held(world, spec, config, plan, _Talk(f"{number:05d}", plan, range(1, config.n_turns + 1)))


def arms_of(
    world: World, spec: str, number: int, config: SimulateConfig, arm: str = "",
    plans: Sequence[Scenario] = (),
) -> dict[str, list[Dialogue]]:  # fmt: skip
    """The dialogues between a system and all users of a scenario, by arm; ``arm`` is that of whole sessions.
    Beside the session there are, at each shift, a straight user, who wants at once what the other shifts to
    (:func:`crs_lib.simulate.scenarios.straight`), and a fresh user, whose first words name everything in
    force; where a shift leaves its scope open, a straight user for each reading. The conversations are held
    in random order, each with a system made anew; a program has a process or object for each of as many lanes
    as there are arms, drawn by scenario, so that none serves two arms of one scenario. Systems are told the
    session's turn numbers, so that their chance draws are the session's. ``plans`` are those of the arm and
    of the shifting session.
    """
    arm = arm or config.arm
    plan, shifting = plans or (scenario(world, number, config, one) for one in (arm, SHIFT))
    found = {arm: [_Talk(f"{number:05d}", plan, range(1, config.n_turns + 1))]}
    shared = scenarios.windows(shifting, plan)
    for kind in config.windows(arm):
        found[kind] = [talk for one in shared for talk in _window(world.catalog, plan, kind, one)]
    lanes = rng.stream(config.seed, "movies", number, "lanes").permutation(len(found)).tolist()
    talks = [(talk, lane) for lane, several in zip(lanes, found.values(), strict=True) for talk in several]
    order = rng.stream(config.seed, "movies", number, "order of arms", arm).permutation(len(talks))
    drawn = (talks[place] for place in order.tolist())
    held = {talk.name: _held(replace(world, lane=lane), spec, config, plan, talk) for talk, lane in drawn}
    return {kind: [held[talk.name] for talk in several] for kind, several in found.items()}


def _window(catalog: Catalog, plan: Scenario, kind: str, window: scenarios.Window) -> Iterator[_Talk]:
    """The conversation of a straight or a fresh user; of a straight one for each reading of open words."""
    arm = plan.arm if kind == FRESH else STRAIGHT
    name, end = f"{plan.session:05d}.{arm}.{window.turn:02d}", window.turn + window.length
    made, begin = (scenarios.fresh, window.turn) if kind == FRESH else (scenarios.straight, 1)
    of = {"arm": plan.arm, "session_id": f"{plan.session:05d}", "turn": window.turn}
    readings = plan.steps[window.turn - 1].readings
    if not readings:
        yield _Talk(name, made(catalog, plan, window.turn), range(begin, end), of)
    for reading, state in readings.items() if kind == STRAIGHT else ():
        meant = made(catalog, plan.read_as(catalog, window, state), window.turn)
        yield _Talk(f"{name}.{reading}", meant, range(begin, end), of | {"reading": reading})


def _held(world: World, spec: str, config: SimulateConfig, session: Scenario, talk: _Talk) -> Dialogue:
    """A conversation as a dialogue; a system with a fixed list is given the films of ``session``."""
    plan, window = talk.plan, {"of": dict(talk.window)} if talk.window else {}
    voice = {"voice": plan.voice} if plan.voice != voices.FIRST else {}
    name, spec = systems.named(spec)
    user = User(world.catalog, plan, _realiser(world, spec, plan.session, config))
    world = replace(world, conversation=conversation_id(config.seed, talk.name, plan.arm))
    films = _shelf(world, session, config) if systems.SYSTEMS.get(spec).facts.get("shelf") else ()
    system = systems.create(spec, world, config.seed, plan.session, films)
    found: list[Turn] = []
    for place, turn in enumerate(talk.turns, start=1):
        with prompts.worded(world.catalog.words):
            said = user.speak(turn)
            users.check_voiced(world.grounder, plan.steps[turn - 1], said.act, said.text)
            reply = system.reply(turn, said.text, said.meta if system.sees_state else {})
        user.hear(reply.items, reply.text)
        found.append(Turn(USER, said.text, {"user_meta": {**said.meta, "turn": place}}))
        found.append(Turn(SYSTEM, reply.text, reply_meta(world.catalog, reply)))
    return Dialogue(
        session_id=talk.name, model_name=name, turns=tuple(found), true_genre=plan.true_genre,
        shift_events=() if window else tuple(plan.events),
        extra={"seed": config.seed, "arm": plan.arm, **voice, **window},
    )  # fmt: skip


def conversation_id(seed: int, name: str, arm: str) -> str:
    """The id of a conversation as systems know it: digits, which tell neither the scenario nor the arm."""
    return str(rng.stream(seed, "movies", "conversation", name, arm).integers(10**17, 10**18))


def _shelf(world: World, plan: Scenario, config: SimulateConfig) -> tuple[int, ...]:
    """The films of a session for systems with a fixed list: a draw with answers to each state of the user."""
    rule, catalog = world.llm, world.catalog
    draw = rng.stream(config.seed, "movies", plan.session, "answers")
    every = (state for step in plan.steps for state in (step.state, *step.readings.values()))
    states = {json.dumps([dict(s.constraints), dict(s.avoid)]): s for s in every}
    held = [draw.permutation(state.answers(catalog))[: rule.most].tolist() for state in states.values()]
    turns = [one[place] for place in range(rule.most) for one in held if place < len(one)]
    return systems.drawn(catalog, rule.listed, config.seed, plan.session, turns)


def _realiser(world: World, spec: str, number: int, config: SimulateConfig) -> ModelWording | None:
    """The model that words the user's utterances; None where the templates do."""
    if not config.user_llm:
        return None
    if world.llms is None:
        raise InputError(f"user_llm {config.user_llm!r} needs language models; give the World a Pool as llms")
    place, voice = (config.seed, number, spec), voices.drawn(config.voices, config.seed, number)
    return ModelWording(world.llms, config.user_llm, world.llm, world.grounder, place, voice)


def reply_meta(catalog: Catalog, reply: systems.SystemReply) -> dict[str, Any]:
    """A reply as the log of its turn keeps it."""
    films = [catalog.items[item] for item in reply.items]
    return {
        "constraints": dict(reply.constraints), "rec_titles": [film.title for film in films],
        "rec_ids": [film.item_id for film in films], "hallucinated_titles": list(reply.hallucinated),
        **reply.extra,
    }  # fmt: skip


class Maker:
    """Makes the sessions of a batch in one process; ``start`` says where models' calls are kept."""

    def __init__(self, catalog: Catalog | str, config: SimulateConfig, arm: str, start: Start) -> None:
        loaded = sources.load(catalog) if isinstance(catalog, str) else catalog
        rule = config.llm_settings
        self.llms = start.pool(rule, Retry(seeds=start.starts * Retry().seeds)) if config.roles() else None
        self.programs: Programs | None = None
        if config.programs():
            from crs_lib.systems import programs

            self.programs = programs.Programs(start.place, rule, loaded, config.catalog_name)
        self._shared = [one for one in (self.llms, self.programs) if one is not None]
        self.world = World(loaded, Grounder(loaded), self.llms, rule, self.programs)
        self.config, self.arm = config, arm
        self._given = {systems.named(given)[0]: given for given in config.systems}
        self._plan = lru_cache(maxsize=64)(lambda number, arm: scenario(self.world, number, config, arm))

    def __call__(self, key: Key) -> str:
        """The session as one line of JSON, and behind it those of its windows, arm by arm."""
        plans = [self._plan(key.session, arm) for arm in (self.arm, SHIFT)]
        found = arms_of(self.world, self._given[key.system], key.session, self.config, self.arm, plans)
        return "\n".join(talk.dumps() for talks in found.values() for talk in talks)

    @property
    def models(self) -> "Maker | None":
        """The maker itself where its sessions wait for models or programs."""
        return self if self._shared else None

    def width(self, specs: Sequence[str]) -> int:
        """How many sessions at once keep these models and programs busy; at least 1."""
        from crs_lib.systems.programs import width

        rule, workers = self.config.llm_settings, self.config.workers
        widths = [width(spec, rule, workers) for spec in specs if is_program(spec)]
        return max(widths, default=1) if widths or self.llms is None else self.llms.width(specs)

    def release(self, spec: str) -> None:
        """End a program that is no longer needed, or free a model's memory on its servers."""
        if self.programs is not None and is_program(spec):
            self.programs.close(spec)
        elif self.llms is not None:
            self.llms.release(spec)

    def close(self) -> None:
        """Close connections and files and end programs; using the maker afterwards opens them again."""
        for shared in self._shared:
            shared.close()

    def halt(self) -> None:
        """Let sessions that wait for a model or a program end at their next call."""
        for shared in self._shared:
            shared.halt()


TRIAL_TURNS = 12  # of the scenario: the first shift comes at turn 4 to 6
_SEARCHED = 50  # scenarios: half of them add one constraint to the first


class _TrialTurn(NamedTuple):
    """A turn of a trial: utterance, active constraints, reply, and the seconds until the reply was there."""

    utterance: str
    wishes: Mapping[str, str]
    reply: SystemReply
    seconds: float


def trial(world: World, config: SimulateConfig, number: int = 0) -> Iterator[_TrialTurn]:
    """The opening, a second constraint and the first shift, of the first scenario whose shift conflicts."""
    plan, shift = next(found for found in _told_in_three(world, config, number) if found[1])
    user = User(world.catalog, plan)
    system = systems.create(config.systems[0], world, config.seed, plan.session)
    for turn, place in enumerate((1, 2, shift), start=1):
        with prompts.worded(world.catalog.words):
            said = user.speak(place)
            began = time.perf_counter()
            reply = system.reply(turn, said.text, said.meta if system.sees_state else {})
        yield _TrialTurn(said.text, said.meta["constraints"], reply, time.perf_counter() - began)
        user.hear(reply.items)


def _told_in_three(world: World, config: SimulateConfig, number: int) -> Iterator[tuple[Scenario, int]]:
    """Scenarios with the turn of their first shift, 0 where constraints join before; the last's is 3."""
    for session in range(number, number + _SEARCHED):
        plan = scenario(world, session, config)
        shift = next((step.turn for step in plan.steps if step.shift is not None), 0)
        first, heard, before = (plan.steps[place].state.constraints for place in (0, 1, shift - 2))
        fits = shift > 2 and plan.steps[0].act == OPENING and first != heard == before
        event = plan.steps[shift - 1].event or {}
        # a refinement drops nothing, a relaxation brings nothing
        conflict = event.get("dropped") and (event["added"] or event["avoid"])
        yield plan, shift if fits and conflict else 0
    yield plan, 3
