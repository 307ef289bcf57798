"""Metrics stay in their declared range for any input, and behave where they must."""

import math
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crs_lib import simulate
from crs_lib.core import paths
from crs_lib.core.rng import stream
from crs_lib.metrics import base, composite, grounded, overlap
from crs_lib.metrics.conventions import CasWeights, ItemWeights, TasWeights
from crs_lib.metrics.records import Wanted
from crs_lib.simulate import planner
from crs_lib.simulate.config import SimulateConfig
from tests.helpers.sample import SAMPLE, WORLD, policy_specs

CODES = st.frozensets(st.integers(0, 9), max_size=6)
WORDS = st.lists(st.sampled_from("abcde"), max_size=12)
SHARE = st.floats(0, 1)
PROPERTY = settings(deadline=None)
MAYBE = SHARE | st.just(math.nan)
SPECS = policy_specs()
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
text = "".join(talk.dumps() for talk in talks) + "".join(tables.dumps(one.session) for one in scores)
print(hashlib.sha256((text + sources.content_hash(catalog)).encode()).hexdigest())
"""


def printed(code, *arguments):
    """What ``code`` prints under the hash seeds 0, 1 and 2, which order sets; fails where that differs."""
    processes = []
    for seed in "012":
        command = [sys.executable, "-c", code, *arguments]
        env = os.environ | {"PYTHONHASHSEED": seed}
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, cwd=paths.ROOT)
        processes.append(process)
    texts = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(texts) == 1, "the hash seed changes what is printed"
    return texts.pop()


def inside(name, value):
    metric = base.get(name)
    return math.isnan(value) or metric.low - 1e-9 <= value <= metric.high + 1e-9


@PROPERTY
@given(WORDS, WORDS, st.frozensets(st.sampled_from("abcde")))
def test_copying_is_a_share_and_an_echo_of_three_words_is_pure(reply, request, ignore):
    share = overlap.copied_share(reply, request)
    assert inside("topic_interference", share)
    assert inside("copying", overlap.copied_share(reply, request, ignore=ignore))
    assert overlap.copied_share(reply, [*request, "z", *reply]) >= share
    if len(reply) >= 3:
        assert overlap.copied_share(reply, reply) == 1


@PROPERTY
@given(CODES, st.lists(CODES, max_size=4), CODES, st.booleans())
def test_item_scores_stay_in_range(wishes, items, dropped, asked):
    wanted = Wanted(wishes, frozenset())
    turn = SimpleNamespace(constraints=wishes, wanted=wanted, facts=items, items=items, dropped=dropped)
    turn.measurable = bool(wishes) and (bool(items) or asked)
    met = grounded.satisfaction_of_turn(turn)
    assert inside("satisfaction", met)
    leaked = grounded.leakage_of_turn(turn)
    assert inside("topic_interference_leakage", leaked)
    best = grounded.best_share(turn)
    assert 0 <= best <= 1
    if wishes and items:
        assert best >= met - 1e-12
    if best == 1 and len(items) == 1:
        assert math.isnan(leaked) or leaked == 0  # a film that meets every wish leaks nothing


@PROPERTY
@given(MAYBE, SHARE)
def test_chance_correction_keeps_order_and_ends(expected, observed):
    corrected = grounded.beyond_chance(observed, expected)
    assert inside("satisfaction_corrected", corrected)
    if math.isnan(corrected):
        return
    assert corrected <= observed + 1e-12
    if abs(observed - expected) >= 1e-12:
        assert (corrected > 0) is (observed > expected)


@PROPERTY
@given(MAYBE, MAYBE, SHARE)
def test_tas_stays_in_range(cc, cr, echo):
    assert inside("topic_adaptation_score", composite.tas(cc, cr, echo, TasWeights()))
    clipped = composite.tas(cc, cr, echo, TasWeights(), clip=True)
    assert math.isnan(clipped) or -1 <= clipped <= 1


@PROPERTY
@given(st.floats(-5, 1) | st.just(math.nan), SHARE, MAYBE, MAYBE, SHARE)
def test_item_tas_is_at_most_one_and_better_parts_never_hurt(corrected, raw, novelty, leaked, copied):
    value = composite.item_tas(corrected, raw, novelty, leaked, copied, ItemWeights())
    assert inside("item_tas", value)
    better = composite.item_tas(min(1, corrected + 0.1), raw, novelty, 0, 0, ItemWeights())
    assert math.isnan(value) or better >= value - 1e-12


@PROPERTY
@given(MAYBE, st.floats(0, 30) | st.just(math.nan), st.floats(0, 3) | st.just(math.nan), MAYBE, MAYBE)
def test_cas_stays_in_range(recovered, delay, interference, coherence, retention):
    score = composite.cas(recovered, delay, interference, coherence, retention, CasWeights())
    assert inside("context_adaptation_score", score)


@st.composite
def shifts_and_replies(draw):
    """Turns of shifts in order, and of each turn whether its reply meets everything."""
    met = draw(st.lists(st.booleans(), min_size=1, max_size=20))
    turns = draw(st.lists(st.integers(1, len(met)), unique=True, max_size=5))
    return sorted(turns), met


@PROPERTY
@given(shifts_and_replies(), st.none() | st.integers(1, 6), st.booleans())
def test_recovery_is_the_first_reply_that_meets_it_within_what_was_watched(both, window, within):
    turns, met = both
    recoveries = composite.after_shifts(turns, met, window=window, within_segment=within)
    ends = [*turns, len(met) + 1][1:]
    for recovery, next_shift in zip(recoveries, ends, strict=True):
        end = len(met) + 1
        if within:
            end = next_shift
        if window is not None:
            end = min(end, recovery.turn + window)
        seen = met[recovery.turn - 1 : end - 1]
        assert recovery.watched == len(seen) >= 1
        assert recovery.recovered is any(seen)
        if recovery.recovered:
            assert recovery.delay == seen.index(True)
        else:
            assert math.isnan(recovery.delay)
    assert inside("topic_recovery_rate", composite.rate(recoveries))
    assert inside("avg_recovery_delay", composite.mean_delay(recoveries))


@pytest.mark.full
@pytest.mark.subprocess
def test_python_s_hash_seed_changes_nothing():
    assert len(printed(SCRIPT, ",".join(SPECS))) == 64


@settings(deadline=None, max_examples=15)
@given(SEEDS, st.integers(0, 10_000), st.integers(1, 25))
def test_a_plan_is_a_function_of_its_address_and_always_satisfiable(seed, session, n_turns):
    plan = planner.plan(SAMPLE, seed, session, n_turns)
    assert planner.plan(SAMPLE, seed, session, n_turns) == plan
    assert [step.turn for step in plan.steps] == list(range(1, n_turns + 1))
    for step in plan.steps:
        assert step.n_answers > 0
        assert step.state.anchor in step.state.answers(SAMPLE)


@pytest.mark.parametrize("spec", SPECS)
def test_sessions_differ_from_one_another(spec):
    config = SimulateConfig(systems=[spec], n_turns=4)
    sessions = [simulate.session(WORLD, spec, number, config) for number in range(12)]
    assert len({str(session.turns) for session in sessions}) == 12


@pytest.mark.subprocess
def test_a_hash_seed_changes_no_draw_no_fusion_and_no_made_conversation():
    code = """
from crs_lib.core.rng import stream
from crs_lib.cosrec import corpus, generate, settings
from crs_lib.retrieval.fusion import FUSIONS, fuse
from crs_lib.retrieval.runs import Hit
writer = generate.Writer(settings.GenerateSettings(conversations=3), str(corpus.locate("sample")))
lists = [[Hit(f"d{(i * s) % 97}", 1.0 / (1 + i // 3)) for i in range(40)] for s in (5, 7, 11)]
print([writer.record(i) for i in range(3)], [fuse(name, lists) for name in FUSIONS.names()])
print(stream(7, "é", 3).random(4).tolist())
"""
    text = printed(code)
    assert "Generated_1" in text
    assert "d5" in text
    assert text.endswith(str(stream(7, "é", 3).random(4).tolist()))
