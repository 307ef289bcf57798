"""What every declared metric must keep, and that every column we print is declared."""

import math

import pandas as pd
import pytest

from crs_lib import evaluate, simulate
from crs_lib.catalog import sources
from crs_lib.grounding.grounder import Grounder
from crs_lib.metrics import base
from crs_lib.metrics.base import HIGHER, LOWER, METRICS, NEITHER
from crs_lib.score import conventions
from crs_lib.score.scorer import SESSION_METRICS, TURN_METRICS
from crs_lib.simulate.config import SimulateConfig
from crs_lib.systems.base import World

OURS = (*TURN_METRICS, *SESSION_METRICS)
EACH = pytest.mark.parametrize("metric", METRICS.values(), ids=list(METRICS))


@pytest.fixture(scope="module")
def scores():
    """All control policies on a few users."""
    catalog = sources.load()
    world = World(catalog, Grounder(catalog))
    config = SimulateConfig(
        systems=[*simulate.DEFAULT_SYSTEMS, "silent", "noisy:0.5"], n_sessions=3, n_turns=14
    )
    keys = config.keys()
    talks = [simulate.session(world, key.system, key.session, config) for key in keys]
    return list(evaluate.score_all(talks, world.grounder, conventions.get("default")))


@EACH
def test_a_metric_is_declared_whole(metric):
    assert METRICS[metric.name] is metric
    assert metric.low < metric.high
    assert metric.direction in (HIGHER, LOWER, NEITHER)
    assert metric.short
    assert metric.source
    assert metric.level
    assert metric.version >= 1


def test_names_in_figures_are_told_apart():
    shorts = [(METRICS[name].level, METRICS[name].short) for name in OURS]
    assert len(set(shorts)) == len(shorts)


@pytest.mark.parametrize("name", OURS)
def test_every_metric_we_print_is_declared_at_its_level(name):
    assert base.get(name).level == ("turn" if name in TURN_METRICS else "session")


@pytest.mark.parametrize("name", OURS)
def test_values_stay_in_the_declared_range(name, scores):
    metric = base.get(name)
    rows = [one.session for one in scores] + (
        [row for one in scores for row in one.turns] if name in TURN_METRICS else []
    )
    values = pd.Series([row[name] for row in rows], dtype=float)
    known = values.dropna()
    assert len(known), "no policy ever gets a value"
    assert known.between(metric.low - 1e-9, metric.high + 1e-9).all()
    assert known.map(math.isfinite).all()


@pytest.mark.parametrize("name", OURS)
def test_a_metric_tells_policies_apart(name, scores):
    frame = pd.DataFrame([one.session for one in scores])
    means = frame.groupby("model")[name].mean().dropna()
    assert means.max() - means.min() > 0.01


def test_headlines_are_few():
    assert 1 <= sum(METRICS[name].headline for name in OURS) <= 5
