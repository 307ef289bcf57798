"""Sessions with their arms, for the studies of this room: scored at once, or as runs with a twin. The twin
has the same users, who never shift. Source: docs/validity.md, section 1.
"""

from crs_lib import evaluate, simulate
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.evaluate import arms
from crs_lib.evaluate.scorer import Scorer
from crs_lib.metrics import conventions
from crs_lib.metrics.records import Scores
from crs_lib.simulate import scenarios
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World


def scored(world: World, config: SimulateConfig, n: int) -> list[tuple[Dialogue, Scores]]:
    """The first ``n`` sessions of every system of a batch with their scores, all arms simulated; no file."""
    talks, windows = list[Dialogue](), list[Dialogue]()
    for number in range(n):
        plan = simulate.scenario(world, number, config)
        for spec in config.systems:
            made = simulate.arms_of(world, spec, number, config, scenarios.SHIFT, plan)
            talks += made.pop(scenarios.SHIFT)
            windows += [talk for several in made.values() for talk in several]
    rule = conventions.get("default")
    gains = arms.gains_of(windows, Scorer(world.grounder, rule))
    return list(zip(talks, Scorer(world.grounder, rule, gains).score_many(talks), strict=True))


def _twin(config: SimulateConfig) -> SimulateConfig:
    """The settings of a batch's no-shift twin, run ``<run>-none``; InputError for a batch without shifts."""
    if config.arm == scenarios.NO_SHIFT:
        raise InputError(f"run {config.run!r} has no shifts itself; give the batch whose arm is 'shift'")
    return config.changed(run=f"{config.run}-none", arms=(scenarios.NO_SHIFT,))


def make(config: SimulateConfig, convention: str = "default", *, progress: bool = False) -> None:
    """Simulate the session's arms and its twin, and score session and twin; what is finished is kept."""
    simulate.simulate(config.changed(arms=(*config.arms, scenarios.NO_SHIFT)), progress=progress)
    for arm in (config, _twin(config)):
        evaluate.evaluate(evaluate.EvaluateConfig(run=arm.run, convention=convention))
