"""A trial of a system: three turns of a scenario's user, one of them a shift, and what the system answers."""

import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.conversation import scenario
from crs_lib.simulate.scenarios import Scenario
from crs_lib.simulate.users import User
from crs_lib.systems import base as systems
from crs_lib.systems.base import SystemReply, World

TURNS = 12  # of the scenario: the first shift comes at turn 4 to 6
SEARCHED = 50  # scenarios: half of them add one constraint to the first


class TrialTurn(NamedTuple):
    """A turn of a trial: utterance, active constraints, reply, and the seconds until the reply was there."""

    utterance: str
    wishes: Mapping[str, str]
    reply: SystemReply
    seconds: float


def trial(world: World, config: SimulateConfig, number: int = 0) -> Iterator[TrialTurn]:
    """The opening of a scenario, a second constraint and the first shift, held with the batch's first system.

    Takes the first scenario from ``number`` on that is told in these three turns.
    """
    plan, shift = next(found for found in _told_in_three(world, config, number) if found[1])
    user = User(world.catalog, plan)
    system = systems.create(config.systems[0], world, config.seed, plan.session)
    for turn, place in enumerate((1, 2, shift), start=1):
        said = user.speak(place)
        began = time.perf_counter()
        reply = system.reply(turn, said.text, said.meta if system.sees_state else {})
        yield TrialTurn(said.text, said.meta["constraints"], reply, time.perf_counter() - began)
        user.hear(reply.items)


def _told_in_three(world: World, config: SimulateConfig, number: int) -> Iterator[tuple[Scenario, int]]:
    """Scenarios with the turn of their first shift, 0 where constraints join between turn 2 and it.

    The last one has a turn even if so: it is turn 3, a shift or not.
    """
    for session in range(number, number + SEARCHED):
        plan = scenario(world, session, config)
        shift = next((step.turn for step in plan.steps if step.shift is not None), 0)
        heard = plan.steps[1].state.constraints
        fits = shift > 2 and plan.steps[shift - 2].state.constraints == heard
        yield plan, shift if fits else 0
    yield plan, 3
