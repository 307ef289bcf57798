"""The promises that every metric keeps, and a made-up one of each level on its way into tables and figures."""

import math

import pandas as pd
import pytest

from crs_lib import evaluate, figures, metrics, simulate
from crs_lib.core import tables
from crs_lib.evaluate import arms
from crs_lib.evaluate.scorer import Scorer
from crs_lib.figures import layout
from crs_lib.figures.base import TABLES
from crs_lib.metrics import base, conventions
from crs_lib.metrics.base import FACTS, HIGHER, LOWER, METRICS, NEITHER, SESSION, SHIFT, TURN, metric
from crs_lib.report import statistics
from crs_lib.report import tables as views
from crs_lib.simulate.config import DEFAULT_SYSTEMS, SimulateConfig
from tests.helpers import refused
from tests.helpers.sample import WORLD, scored

OURS = base.scored_names()
EACH = pytest.mark.parametrize("one", base.every(), ids=METRICS.names())
MEANS = [name for name in OURS if base.get(name).ratio is None]  # a ratio of means is a system's alone
MADE_UP = ("films_shown", "shift_answered", "last_films")


@pytest.fixture(scope="module")
def scores():
    """All control policies on a few users, and three on users who leave the scope of their shifts open."""
    systems = [*DEFAULT_SYSTEMS, "silent", "noisy:0.5", "confirm_shift"]
    config = SimulateConfig(systems=systems, n_sessions=3, n_turns=14, voices="A")
    open_scope = {"scope": "open", "voices": "critic", "n_sessions": 8, "shift_types": ("refine", "replace")}
    return [*_scores(config), *_scores(config.changed(**open_scope, systems=("oracle", "sticky", "random")))]


def _scores(config):
    keys, rule, windows = config.keys(), conventions.get("default"), []
    for key in keys:
        found = simulate.arms_of(WORLD, key.system, key.session, config, "shift")
        windows += [t for name in ("straight", "fresh") for t in found.get(name, ())]
    talks = [simulate.session(WORLD, key.system, key.session, config) for key in keys]
    gains = arms.gains_of(windows, Scorer(WORLD.grounder, rule))
    return list(evaluate.score_all(talks, WORLD.grounder, rule, gains))


@EACH
def test_a_metric_is_declared_whole(one):
    assert base.get(one.name) is one and one.low < one.high and one.direction in (HIGHER, LOWER, NEITHER)
    assert one.short and one.source and one.level and one.version >= 1


DECLARED = {
    entry.name: entry.facts["metrics"] for entry in (*figures.FIGURES, *TABLES) if "metrics" in entry.facts
}


@pytest.mark.parametrize("shown", [*DECLARED.values(), *layout.SHOWN.values(), layout.HEADLINE])
def test_what_shows_metrics_names_each_once(shown):
    assert len(set(shown)) == len(shown)
    assert all(base.get(name).compute for name in shown)


def test_columns_are_in_order_names_are_told_apart_and_headlines_are_few():
    turns, shifts = base.columns(TURN), base.columns(SHIFT)
    assert list(turns)[:2] == ["cross_coherence", "context_retention"]
    assert list(shifts)[:2] == ["n_answers", "watched"]
    for level in base.LEVELS:
        places = [one.column for one in base.every() if one.level == level and one.compute]
        places += [entry.facts["place"] for entry in FACTS if entry.facts["level"] == level]
        assert len(set(places)) == len(places), "two columns have one place"
    shorts = [(base.get(name).level, base.get(name).short) for name in OURS]
    assert len(set(shorts)) == len(shorts)
    assert 1 <= len(layout.HEADLINE) <= 5 and set(layout.HEADLINE) <= set(OURS)


@pytest.mark.parametrize("name", MEANS)
def test_values_stay_in_the_declared_range_and_tell_policies_apart(name, scores):
    one = base.get(name)
    rows = [found.session for found in scores]
    if one.level == TURN:
        rows += [row for found in scores for row in found.turns]
    known = pd.Series([row[name] for row in rows], dtype=float).dropna()
    assert len(known), "no policy ever gets a value"
    assert known.between(one.low - 1e-9, one.high + 1e-9).all() and known.map(math.isfinite).all()
    means = pd.DataFrame([found.session for found in scores]).groupby("model")[name].mean().dropna()
    assert means.max() - means.min() > 0.01


def register_three():
    """A metric of every level, each one function."""

    @metric("films_shown", "films", TURN, 0, math.inf, NEITHER, source="made up")
    def films_shown(turn):
        """The number of films that a reply recommends."""
        return float(len(turn.items)) if turn.state.asks else math.nan

    @metric("shift_answered", "answered", SHIFT, 0, 1, HIGHER, source="made up")
    def shift_answered(shift):
        """Whether the reply to a shift meets a constraint that the shift added, 0 or 1."""
        added = shift.replies[0].constraints - shift.before.constraints
        return float(any(facts & added for facts in shift.replies[0].facts)) if added else math.nan

    @metric("last_films", "last", SESSION, 0, math.inf, LOWER, source="made up")
    def last_films(session):
        """The number of films in the last reply of the session."""
        return float(len(session.turns[-1].items))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small run scored with three made-up metrics; gone with the module."""
    with pytest.MonkeyPatch.context() as patch:
        for registry in (METRICS, FACTS):
            patch.setattr(registry, "_entries", dict(registry._all()))
        register_three()
        patch.setitem(layout.SHOWN, "turn_table", [*layout.SHOWN["turn_table"], "films_shown"])
        for entry in (figures.FIGURES.get("distributions"), TABLES.get("table_model_metrics")):
            patch.setitem(entry.facts, "metrics", [*DECLARED[entry.name], "films_shown"])
        bars = [*DECLARED["metric_bars"], "last_films", "shift_answered", "films_shown"]
        patch.setitem(figures.FIGURES.get("metric_bars").facts, "metrics", bars)
        patch.setattr(layout, "HEADLINE", [*layout.HEADLINE, "films_shown"])
        patch.setenv("CRS_RESULTS", str(tmp_path_factory.mktemp("results")))
        patch.setenv("CRS_FIGURES", str(tmp_path_factory.mktemp("figures")))
        scored(run="made-up", systems=("oracle", "tracker", "random", "silent"), n_sessions=2, n_turns=12)
        yield "made-up"


def test_a_made_up_metric_is_a_column_of_its_level_with_a_mean_for_each_system(run):
    turns, shifts, results = (evaluate.read(run, name) for name in ("turns", "shifts", "results"))
    assert list(turns.columns).index("films_shown") > list(turns.columns).index("item_tas")
    shown = turns["films_shown"].dropna()
    assert (shown == turns.loc[shown.index, "n_items"]).all()
    assert turns["films_shown"].isna().any(), "turns that ask for nothing have no value"
    assert set(shifts["shift_answered"].dropna()) <= {0.0, 1.0}
    assert not {"films_shown", "last_films"} & set(shifts)
    assert not {"shift_answered", "last_films"} & set(turns)
    means = turns.groupby(["model", "session_id"], sort=False)["films_shown"].mean().to_numpy()
    assert results["films_shown"].to_numpy() == pytest.approx(means, nan_ok=True)
    by_shift = shifts.groupby(["model", "session_id"])["shift_answered"].mean()
    found = results.set_index(["model", "session_id"]).loc[by_shift.index, "shift_answered"]
    assert found.to_numpy() == pytest.approx(by_shift.to_numpy(), nan_ok=True)
    last = turns[turns["turn"] == 12].set_index(["model", "session_id"])["n_items"]
    keys = results.set_index(["model", "session_id"])
    assert (keys["last_films"] == last.loc[keys.index]).all()
    means = evaluate.read(run, "model_metrics")
    assert set(MADE_UP) <= set(means["metric"]) and len(means) == 4 * len(base.scored_names())
    row = means.set_index(["model", "metric"]).loc[("oracle", "films_shown")]
    assert row["mean"] == pytest.approx(results.loc[results["model"] == "oracle", "films_shown"].mean())
    assert row["direction"] == NEITHER
    record = next(iter(tables.read_jsonl(simulate.run_folder(run) / "results.jsonl")))
    assert set(MADE_UP) <= set(record) and record["detail"]["defined_turns"]["films_shown"] <= 12


def test_a_made_up_metric_is_tabled_drawn_and_put_through_the_gate(run):
    turns, means, results = (evaluate.read(run, name) for name in ("turns", "model_metrics", "results"))
    assert list(views.turn_table(turns))[-1] == "films_shown"
    board = views.scoreboard(means)
    assert list(board)[-1] == "films"
    assert board.set_index("system").loc["silent", "films"].startswith("0.000")
    assert set(MADE_UP) <= set(statistics.stats_frame(results))
    assert set(MADE_UP) <= set(metrics.describe()["metric"])
    titles = [panel.get_title() for panel in figures.make("metric_bars", means).axes]
    assert [title for title in titles if title][-3:] == ["last † ↓", "answered † ↑", "films"]
    assert figures.make("leaderboard", means).axes[-1].get_title() != "films"  # it was put through no gate
    named = figures.make("leaderboard", means, metrics=["normalised_gain", "films_shown"])
    assert named.axes[-1].get_title() == "films"
    assert figures.make("distributions", results).axes[-1].get_title() == "films"
    assert "films" in TABLES.get("table_model_metrics").make(means)
    lacking = results.drop(columns=["films_shown"])
    assert figures.make("distributions", lacking).axes[-1].get_title() != "films"
    assert "films" not in views.scoreboard(means[means["metric"] != "films_shown"])
    assert "films_shown" not in statistics.stats_frame(lacking)


def test_a_name_is_taken_once_and_levels_are_known(run):
    again = metric("films_shown", "films", TURN, 0, 1, HIGHER, source="made up")
    refused("'films_shown' is registered twice", again, len)
    unknown = "'week' is none of turn, shift, session"
    refused(unknown, metric, "weekly", "weekly", "week", 0, 1, HIGHER, source="made up")
    refused("'up' is none of higher is better", metric, "upwards", "up", TURN, 0, 1, "up", source="made up")
