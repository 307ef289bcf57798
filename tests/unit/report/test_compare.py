"""One's own system beside baselines: names, growth, verdicts that know what they cannot say, one page."""

import re

import numpy as np
import pandas as pd
import pytest

import crs_lib
import crs_lib.stats
from crs_lib import runs, simulate
from crs_lib.core import paths
from crs_lib.core.errors import InputError, RunError
from crs_lib.report.compare import Comparison
from crs_lib.simulate import SimulateConfig
from crs_lib.stats.plan import Plan

pytestmark = pytest.mark.slow
FILES = ("dialogues.jsonl", "dialogues_straight.jsonl", "dialogues_fresh.jsonl")


def same_film(messages):
    assert messages[-1]["role"] == "user"
    return ["Metropolis (1927)"]


def made(run, n, systems=("Ours=tracker", "sticky")):
    config = SimulateConfig(run=run, systems=systems, n_sessions=n, n_turns=8)
    return simulate.simulate(config, progress=False)


@pytest.fixture(scope="module")
def found():
    return crs_lib.compare({"Fixed": same_film, "Clings": "sticky"}, n=24, run="compare-unit", progress=False)


def test_a_function_and_a_named_policy_are_compared_with_every_baseline(found):
    pairs = [(one.a, one.b) for one in found.effects.itertuples()]
    assert pairs == [(a, b) for a in ("Fixed", "Clings") for b in ("tracker", "bm25")]
    assert list(found.quantities["system"]) == ["Fixed", "Clings", "tracker", "bm25"]
    assert set(found.by_type["system"]) == {"Fixed", "Clings", "tracker", "bm25"}
    assert found.shifts["primary"].all()


def test_a_system_without_ability_is_not_said_to_adapt(found):
    """One film for everybody loses nothing at a shift: that is no adaptation."""
    told = " ".join(found.verdict)
    assert "its shift cost says nothing" in found.verdict[0]
    assert "Fixed and tracker are not compared: the gain of Fixed is below 0.1." in told
    assert "Fixed adapts" not in told


@pytest.mark.parametrize(("voices", "marked"), [(["A", "A"], True), (["polite", "terse"], False)])
def test_a_run_on_one_voice_is_marked_so(found, voices, marked):
    one = Comparison(found.run, found.ours, found.against, found.plan)
    places = range(len(found.shifts))
    one.__dict__["shifts"] = found.shifts.assign(voice=[voices[place % 2] for place in places])
    assert ("All users speak with one voice" in one.verdict[-1]) == marked


def test_what_clings_is_found_out(found):
    assert any(one.startswith("tracker adapts better than Clings") for one in found.verdict)
    assert "loses" in found.verdict[1]


def test_the_page_stands_alone_and_is_the_same_again(found):
    page = found.page.read_text(encoding="utf-8")
    assert found.page.stat().st_size < 3_000_000
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert "default-src 'none'" in page
    assert re.search(r">(refine|switch|replace|relax|contradict|return) \(\d+\)<", page)
    assert page.index("Verdict") < page.index("Gain and cost") < page.index("What to do next")
    assert len(found.worst()["session"].unique()) == 3
    assert found.write().read_text(encoding="utf-8") == page


def test_the_same_call_continues_and_grows(found):
    before = runs.entry("movies", "compare-unit", "simulate")["counts"]["sessions"]
    again = crs_lib.compare(
        {"Fixed": same_film, "Clings": "sticky"}, n=26, width=0.001, run="compare-unit", progress=False
    )
    assert before == 4 * 24
    assert runs.entry("movies", "compare-unit", "simulate")["counts"]["sessions"] == 4 * 26
    assert again.shifts["session_id"].nunique() >= found.shifts["session_id"].nunique()


@pytest.mark.parametrize("more", [{"n": 5}, {"n": 3, "systems": ("Ours=tracker", "sticky", "random")}])
def test_a_run_that_grows_equals_one_made_at_once(more):
    name = f"grows-{more['n']}"
    made(name, 3)
    grown, whole = made(name, **more), made(f"{name}-whole", **more)
    assert [(grown / one).read_bytes() for one in FILES] == [(whole / one).read_bytes() for one in FILES]
    with pytest.raises(RunError, match="made with other parameters"):
        made(name, 2)


@pytest.mark.parametrize(
    ("systems", "word"),
    [
        (["Ours=trakcer"], "tracker"),
        (["oracle=tracker"], "another name"),
        (["Ours=tracker", "Ours=sticky"], "more than once"),
    ],
)
def test_a_name_is_told_what_is_wrong_with_it(systems, word):
    with pytest.raises(InputError, match=word):
        SimulateConfig(systems=systems)


def test_the_name_is_in_the_files_and_the_spec_in_the_manifest():
    made("named", 2)
    assert {talk.model_name for talk in simulate.iter_dialogues("named")} == {"Ours", "sticky"}
    assert "Ours=tracker" in runs.entry("movies", "named", "simulate")["parameters"]["systems"]


def verdict_of(difference, spread, n, seed=1):
    """The sentence of a contrast on made-up shift costs of two able systems."""
    draw = np.random.default_rng(seed)
    base = draw.normal(0.3, 0.05, n)
    frame = pd.DataFrame({
        "system": np.repeat(["Ours", "tracker"], n), "scenario": [*range(n)] * 2,
        "shift_cost": np.concatenate([base + draw.normal(difference, spread, n), base]),
    })  # fmt: skip
    plan = Plan(
        primary_outcome="shift_cost", contrasts=(("Ours", "tracker"),), smallest_effect=0.05,
        lower_is_better=("shift_cost",), resamples=200,
    )  # fmt: skip
    one = Comparison("made-up", ("Ours",), ("tracker",), plan)
    one.__dict__["tests"] = crs_lib.stats.ladder(frame, plan)
    able = frame.rename(columns={"system": "model"}).assign(straight_gain=0.8)
    one.__dict__["shifts"] = able
    return next(text for text in one.verdict if "Ours" in text and "tracker" in text)


@pytest.mark.parametrize(
    ("difference", "spread", "n", "says"),
    [
        (0.2, 0.1, 40, "tracker adapts better than Ours"),
        (-0.2, 0.1, 40, "Ours adapts better than tracker"),
        (0.0, 0.01, 40, "equally within"),
        (0.02, 0.3, 10, "not settled"),
    ],
)
def test_only_equivalence_is_called_equal(difference, spread, n, says):
    assert says in verdict_of(difference, spread, n)


def test_a_comparison_needs_a_system_and_two_users():
    for wrong in ({"systems": {}}, {"systems": {"Ours": "tracker"}, "n": 1}):
        with pytest.raises(InputError, match="at least 2"):
            crs_lib.compare(**wrong)
    with pytest.raises(InputError, match=r"nosuch cannot be imported .*; looked for in .*Python's path"):
        crs_lib.compare({"Ours": "python:nosuch:Mine"})


def test_a_function_that_raises_names_its_line():
    def broken(messages):
        raise KeyError("films")

    with pytest.raises(RunError, match=r"KeyError.*test_compare\.py, line"):
        crs_lib.compare({"Ours": broken}, n=2, run="compare-broken", progress=False)
    assert not (paths.run_folder("movies", "compare-broken") / "compare.html").exists()
