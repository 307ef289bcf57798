"""The sample of logs: the thesis's form and no more, and what its generator makes today."""

import importlib.util
import json

import pandas as pd

from crs_lib import data as logs
from crs_lib import simulate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.core import paths
from crs_lib.systems.base import World

PLACE = paths.samples() / "thesis"


def generator():
    """The script beside the sample, as a module."""
    spec = importlib.util.spec_from_file_location("make_sample", PLACE / "make_sample.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_model_met_the_same_users_in_the_thesiss_form():
    made, found = generator(), list(logs.read(PLACE / "logs"))
    assert {one.model_name for one in found} == set(made.MODELS)
    assert len(found) == len(made.MODELS) * made.SESSIONS
    openings = {}
    for one in found:
        record = one.to_json()
        assert {"session_id", "model_name", "true_genre", "conversation", "shift_events"} == set(record)
        assert len(one.pairs()) == made.TURNS
        for pair in one.pairs():
            assert set(pair.user.user_meta) <= set(made.USER_META)
            assert set(pair.system.meta) <= set(made.SYSTEM)
        openings.setdefault(one.session_id, set()).add(one.turns[0].text)
    assert {len(texts) for texts in openings.values()} == {1}


def test_the_generator_makes_these_sessions():
    made = generator()
    catalog = sources.load()
    config = simulate.SimulateConfig(n_sessions=1, n_turns=made.TURNS, systems=("tracker",), voices="A")
    ours = simulate.session(World(catalog, Grounder(catalog)), "tracker", 0, config)
    stored = next(one for one in logs.read(PLACE / "logs") if one.model_name == "wren:13b")
    assert json.loads(stored.dumps()) == made.log_record(ours.to_json(), "wren:13b")


def test_judge_scores_have_a_row_for_each_session_and_some_that_cannot_be_used():
    made = generator()
    frames = [pd.read_csv(path) for path in sorted((PLACE / "judge").glob("*.csv"))]
    assert [len(frame) for frame in frames] == [made.SESSIONS] * len(made.MODELS)
    values = pd.concat(frames)[list(made.CONSTRUCTS)]
    assert values.isna().sum().sum() > 0 and (values > 5).sum().sum() > 0
