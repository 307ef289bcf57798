"""The sample catalogue, its grounder and its world, made once for all tests of a process; and small runs."""

from crs_lib import evaluate, simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World

SAMPLE = sources.load()
GROUNDER = Grounder(SAMPLE)
WORLD = World(SAMPLE, GROUNDER)


def simulated(**settings):
    """The folder of a run of these settings."""
    return simulate.simulate(SimulateConfig(**settings), progress=False)


def scored(run, **settings):
    """The name of a run of these settings, simulated and scored."""
    simulated(run=run, **settings)
    evaluate.evaluate(evaluate.EvaluateConfig(run=run))
    return run
