"""Sessions with their arms: scored at once without a file, or as a run with a twin that never shifts.

Source: docs/validity.md.
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
    shifting: list[Dialogue] = []
    others: list[Dialogue] = []
    for number in range(n):
        plan = simulate.scenario(world, number, config)
        for spec in config.systems:
            by_arm = simulate.arms_of(world, spec, number, config, scenarios.SHIFT, plan)
            shifting += by_arm.pop(scenarios.SHIFT)
            for dialogues in by_arm.values():
                others += dialogues
    convention = conventions.get("default")
    gains = arms.gains_of(others, Scorer(world.grounder, convention))
    scores = Scorer(world.grounder, convention, gains).score_many(shifting)
    return list(zip(shifting, scores, strict=True))


def twin(config: SimulateConfig) -> SimulateConfig:
    """The settings of a batch's no-shift twin, run ``<run>-none``; InputError for a batch without shifts."""
    if config.arm == scenarios.NO_SHIFT:
        raise InputError(f"run {config.run!r} has no shifts itself; give the batch whose arm is 'shift'")
    return config.changed(run=f"{config.run}-none", arms=(scenarios.NO_SHIFT,))


def make(config: SimulateConfig, convention: str = "default", *, progress: bool = False) -> None:
    """Simulate a batch with its arms and its twin, and score batch and twin; what is finished is kept.

    Parameters
    ----------
    config : SimulateConfig
        The batch; its twin, the same users who never shift, is run ``<run>-none``.
    convention : str
        The convention that scores both.
    progress : bool
        Whether bars are shown.
    """
    simulate.simulate(config.changed(arms=(*config.arms, scenarios.NO_SHIFT)), progress=progress)
    for batch in (config, twin(config)):
        evaluate.evaluate(evaluate.EvaluateConfig(run=batch.run, convention=convention))
