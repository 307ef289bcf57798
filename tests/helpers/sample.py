"""The sample catalogue, its grounder and its world, made once for all tests of a process; and small runs."""

from crs_lib import evaluate, simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.llm import LLM
from crs_lib.llm.client import Pool
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import SYSTEMS, World
from crs_lib.systems.settings import ModelSettings

SAMPLE = sources.load()
GROUNDER = Grounder(SAMPLE)
WORLD = World(SAMPLE, GROUNDER)


def with_model(answers, **settings):
    """The world with one scripted model, whose requests are ``asked(world)``."""
    pool = Pool(None, models={"scripted": LLM("scripted", answers=answers)})
    return World(SAMPLE, GROUNDER, pool, ModelSettings(**settings))


def asked(world):
    return world.llms("scripted").backend.asked


def simulated(**settings):
    return simulate.simulate(SimulateConfig(**settings), progress=False)


def scored(run, **settings):
    """The name of a run of these settings, simulated and scored."""
    simulated(run=run, **settings)
    evaluate.evaluate(evaluate.EvaluateConfig(run=run))
    return run


def policy_specs():
    """A spec of each system that needs no model and no program."""
    specs = []
    for entry in SYSTEMS:
        if entry.facts.get("llm") or entry.facts.get("program"):
            continue
        spec = entry.name
        if entry.facts.get("argument"):
            spec += f":{entry.facts['example']}"
        specs.append(spec)
    return specs
