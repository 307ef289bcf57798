"""A trial: three turns of a simulated user with one system, to see what the system understands."""

import time
from collections.abc import Iterator
from typing import NamedTuple

from crs_lib.core import prompts
from crs_lib.simulate.config import SimulateConfig
from crs_lib.simulate.run import scenario
from crs_lib.simulate.scenarios import OPENING, Scenario
from crs_lib.simulate.users import User
from crs_lib.systems import base as systems
from crs_lib.systems.base import SystemReply, Wishes, World

TRIAL_TURNS = 12  # of the scenario: the first shift comes at turn 4 to 6
_SEARCHED = 50  # scenarios: half of them add one constraint to the first


class TrialTurn(NamedTuple):
    """A turn of a trial: utterance, active constraints, reply, and the seconds until the reply was there."""

    utterance: str
    wishes: Wishes
    reply: SystemReply
    seconds: float


def trial(world: World, config: SimulateConfig, number: int = 0) -> Iterator[TrialTurn]:
    """The opening, a second constraint and the first shift, of the first scenario whose shift conflicts."""
    plan, shift = _conflicting(world, config, number)
    user = User(world.catalog, plan)
    system = systems.create(config.systems[0], world, config.seed, plan.session)
    for turn, planned in enumerate((1, 2, shift), start=1):
        with prompts.worded(world.catalog.words):
            utterance = user.speak(planned)
            began = time.perf_counter()
            reply = system.reply(turn, utterance.text, utterance.meta if system.sees_state else {})
        seconds = time.perf_counter() - began
        yield TrialTurn(utterance.text, utterance.meta["constraints"], reply, seconds)
        user.hear(reply.items)


def _conflicting(world: World, config: SimulateConfig, number: int) -> tuple[Scenario, int]:
    """The first scenario that states two constraints and then shifts against them, and the turn of the shift;
    without any, the last one and turn 3.
    """
    for session in range(number, number + _SEARCHED):
        plan = scenario(world, session, config)
        if _conflicts(plan):
            return plan, plan.events[0].turn
    return plan, 3


def _conflicts(plan: Scenario) -> bool:
    """Whether turn 2 adds a constraint, and the first shift, of all later changes, drops one for another."""
    if not plan.events or plan.events[0].turn < 3 or plan.steps[0].act != OPENING:
        return False
    event = plan.events[0]
    first, second = (step.state.constraints for step in plan.steps[:2])
    before = plan.before(event.turn).state.constraints
    # a refinement drops nothing, a relaxation brings nothing
    changes = event.log["dropped"] and (event.log["added"] or event.log["avoid"])
    return bool(first != second == before and changes)
