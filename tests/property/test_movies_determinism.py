"""The same seed gives the same bytes: in other processes, with other hash seeds, in any order."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crs_lib import simulate
from crs_lib.simulate import scenarios
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems import base as systems
from tests.helpers import hash_seeds
from tests.helpers.sample import SAMPLE, WORLD

SPECS = [
    f"{entry.name}:{entry.facts['example']}" if entry.facts.get("argument") else entry.name
    for entry in systems.SYSTEMS
    if not entry.facts.get("llm") and not entry.facts.get("program")
]
SEEDS = st.integers(0, 2**40)

SCRIPT = """
import hashlib, sys
from crs_lib import evaluate, simulate
from crs_lib.catalog import sources
from crs_lib.metrics import conventions
from crs_lib.catalog.grounder import Grounder
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World
from crs_lib.core import tables
catalog = sources.load()
world = World(catalog, Grounder(catalog))
config = SimulateConfig(systems=sys.argv[1].split(","), n_sessions=1, n_turns=12, seed=11)
talks = [simulate.session(world, key.system, key.session, config) for key in config.keys()]
scores = evaluate.score_all(talks, world.grounder, conventions.get("default"))
told = "".join(talk.dumps() for talk in talks) + "".join(tables.dumps(one.session) for one in scores)
print(hashlib.sha256((told + sources.content_hash(catalog)).encode()).hexdigest())
"""


@pytest.mark.full
@pytest.mark.subprocess
def test_python_s_hash_seed_changes_nothing():
    assert len(hash_seeds.printed(SCRIPT, ",".join(SPECS))) == 64


@settings(deadline=None, max_examples=15)
@given(SEEDS, st.integers(0, 10_000), st.integers(1, 25))
def test_a_plan_is_a_function_of_its_address_and_always_satisfiable(seed, session, n_turns):
    plan = scenarios.plan(SAMPLE, seed, session, n_turns)
    assert scenarios.plan(SAMPLE, seed, session, n_turns) == plan
    assert [step.turn for step in plan.steps] == list(range(1, n_turns + 1))
    assert all(step.n_answers > 0 and step.state.anchor in step.state.answers(SAMPLE) for step in plan.steps)


@settings(deadline=None, max_examples=15)
@given(SEEDS, st.sampled_from(SPECS))
def test_a_session_is_a_function_of_its_address(seed, spec):
    config = SimulateConfig(systems=[spec], seed=seed, n_turns=8)
    first = simulate.session(WORLD, spec, 5, config).dumps()
    simulate.session(WORLD, "random", 4, config)
    assert simulate.session(WORLD, spec, 5, config).dumps() == first


@pytest.mark.parametrize("spec", SPECS)
def test_sessions_differ_from_one_another(spec):
    config = SimulateConfig(systems=[spec], n_turns=4)
    told = {
        hashlib.sha256(str(simulate.session(WORLD, spec, n, config).turns).encode()).digest()
        for n in range(12)
    }
    assert len(told) == 12
