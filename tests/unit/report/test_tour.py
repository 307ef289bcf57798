"""The first notebook's helpers equal a real run, and the policy that it teaches to write works as printed."""

import re

import nbformat
import pandas as pd
import pytest

from crs_lib import evaluate, simulate
from crs_lib.core import paths
from crs_lib.figures import layout
from crs_lib.metrics import conventions
from crs_lib.report import tables
from crs_lib.systems import Programs, policies, tracker
from crs_lib.systems import base as systems


def conversations(world, config):
    """Every session of the settings, as the notebook holds them."""
    return [simulate.session(world, s, n, config) for s in config.systems for n in range(config.n_sessions)]


@pytest.mark.slow
def test_the_tour_holds_and_scores_what_a_run_of_its_settings_does(world):
    config = simulate.SimulateConfig(run="tour-unit", systems=("random", "tracker"), n_sessions=3, n_turns=10)
    simulate.simulate(config, progress=False)
    evaluate.evaluate(evaluate.EvaluateConfig(run="tour-unit"))
    made = conversations(world, config)
    assert made == simulate.dialogues("tour-unit")
    scores = tables.mean_scores(tables.session_scores(made, world, conventions.get("default")))
    table = evaluate.read("tour-unit", "results")
    names = layout.HEADLINE
    wanted = table.astype(dict.fromkeys(names, float)).groupby("model")[names].mean()
    assert scores["sessions"].tolist() == [3, 3]
    assert scores["system"].tolist() == wanted.sort_values("normalised_gain", ascending=False).index.tolist()
    shown = scores.set_index("system").drop(columns="sessions").sort_index()
    assert set(names) - set(shown) == {"shift_cost", "straight_gain"}, (
        "a tour has no straight users, so no column for their gain"
    )
    pd.testing.assert_frame_equal(shown, wanted[list(shown)], check_names=False)


def test_the_printed_policy_works_and_does_what_its_docstring_says(world, monkeypatch):
    notebook = nbformat.read(paths.notebooks() / "00_start.ipynb", as_version=4)
    code = [
        found
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for found in re.findall(r"```python\n(.*?)```", cell.source, re.DOTALL)
    ]
    assert len(code) == 1
    monkeypatch.setattr(systems.SYSTEMS, "_entries", dict(systems.SYSTEMS._entries))
    exec(code[0], {"SYSTEMS": systems.SYSTEMS, "Recommender": policies.Recommender, "tracker": tracker})
    config = simulate.SimulateConfig(systems=("genre_only", "tracker"), n_sessions=2, n_turns=8)
    made, full = (simulate.session(world, name, 1, config) for name in config.systems)
    held = [pair.system.meta["constraints"] for pair in made.pairs()]
    assert all(set(constraints) <= {"genre"} for constraints in held)
    assert any(held)
    assert any(set(pair.system.meta["constraints"]) - {"genre"} for pair in full.pairs())


def test_a_system_of_ones_own_is_tried_and_placed_among_the_others(world):
    own = "python:my_system:MySystem"
    mine = systems.World(world.catalog, world.grounder, programs=Programs(None, catalog=world.catalog))
    config = simulate.SimulateConfig(systems=(own, "random", "oracle"), n_sessions=2, n_turns=8, voices="A")
    table = tables.trial(mine, config)
    assert table["turn"].tolist() == [1, 2, 3]
    assert table["met"].iloc[0] == "1 of 1", "the class reads a genre"
    assert table["constraints"].iloc[1] != table["constraints"].iloc[2]
    results = tables.session_scores(conversations(mine, config), mine, conventions.get("default"))
    assert tables.mean_scores(results)["system"].iloc[0] == "oracle"
    assert set(results["model"]) == {own, "random", "oracle"}
