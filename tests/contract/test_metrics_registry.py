"""The promises that every metric keeps, and a made-up one of each level on its way into tables and figures."""

import math

import numpy as np
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
EACH = pytest.mark.parametrize("definition", base.every(), ids=METRICS.names())
MEANS = [name for name in OURS if base.get(name).ratio is None]  # a ratio of means is a system's alone
MADE_UP = ("films_shown", "shift_answered", "last_films")


@pytest.fixture(scope="module")
def scores():
    """All control policies on a few users, and three on users who leave the scope of their shifts open."""
    systems = [*DEFAULT_SYSTEMS, "silent", "noisy:0.5", "confirm_shift"]
    stated = SimulateConfig(systems=systems, n_sessions=3, n_turns=14, voices="A")
    open_scope = stated.changed(
        systems=("oracle", "sticky", "random"),
        scope="open",
        voices="critic",
        n_sessions=8,
        shift_types=("refine", "replace"),
    )
    return [*scores_of(stated), *scores_of(open_scope)]


def scores_of(config):
    """The scores of the sessions of a configuration, with the gains of their straight and fresh users."""
    convention = conventions.get("default")
    keys = config.keys()
    dialogues, windows = [], []
    for key in keys:
        users = simulate.arms_of(WORLD, key.system, key.session, config, "shift")
        windows += users.get("straight", ())
        windows += users.get("fresh", ())
        dialogues.append(simulate.session(WORLD, key.system, key.session, config))
    gains = arms.gains_of(windows, Scorer(WORLD.grounder, convention))
    return evaluate.score_all(dialogues, WORLD.grounder, convention, gains)


@EACH
def test_a_metric_is_declared_whole(definition):
    assert base.get(definition.name) is definition
    assert definition.low < definition.high
    assert definition.direction in (HIGHER, LOWER, NEITHER)
    assert definition.short
    assert definition.source
    assert definition.level
    assert definition.version >= 1


def declared_metrics():
    """The metrics that a figure or table shows by default, by its name."""
    shown = {}
    for entry in (*figures.FIGURES, *TABLES):
        if "metrics" in entry.facts:
            shown[entry.name] = entry.facts["metrics"]
    return shown


DECLARED = declared_metrics()


@pytest.mark.parametrize("names", [*DECLARED.values(), layout.TURN_SCORES, layout.HEADLINE])
def test_what_shows_metrics_names_each_once(names):
    assert len(set(names)) == len(names)
    for name in names:
        assert base.get(name).compute


def test_columns_are_in_order():
    assert list(base.columns(TURN))[:2] == ["cross_coherence", "context_retention"]
    assert list(base.columns(SHIFT))[:2] == ["n_answers", "watched"]


@pytest.mark.parametrize("level", base.LEVELS)
def test_each_column_of_a_level_has_a_place_of_its_own(level):
    columns = [metric.column for metric in base.every() if metric.level == level and metric.compute]
    columns += [entry.facts["place"] for entry in FACTS if entry.facts["level"] == level]
    assert len(set(columns)) == len(columns)


def test_short_names_tell_metrics_of_a_level_apart():
    shorts = [(base.get(name).level, base.get(name).short) for name in OURS]
    assert len(set(shorts)) == len(shorts)


def test_headlines_are_few():
    assert 1 <= len(layout.HEADLINE) <= 5
    assert set(layout.HEADLINE) <= set(OURS)


@pytest.mark.parametrize("name", MEANS)
def test_values_stay_in_the_declared_range_and_tell_policies_apart(name, scores):
    metric = base.get(name)
    sessions = pd.DataFrame([score.session for score in scores])
    values = sessions[name].tolist()
    if metric.level == TURN:
        for score in scores:
            values += [row[name] for row in score.turns]
    defined = pd.Series(values, dtype=float).dropna()
    assert len(defined), "no policy ever gets a value"
    assert defined.between(metric.low - 1e-9, metric.high + 1e-9).all()
    assert np.isfinite(defined).all()
    means = sessions.groupby("model")[name].mean().dropna()
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
        reply = shift.replies[0]
        added = reply.constraints - shift.before.constraints
        if not added:
            return math.nan
        return float(any(facts & added for facts in reply.facts))

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
        for entry in (figures.FIGURES.get("distributions"), TABLES.get("table_model_metrics")):
            patch.setitem(entry.facts, "metrics", [*DECLARED[entry.name], "films_shown"])
        patch.setattr(layout, "HEADLINE", [*layout.HEADLINE, "films_shown"])
        patch.setenv("CRS_RESULTS", str(tmp_path_factory.mktemp("results")))
        patch.setenv("CRS_FIGURES", str(tmp_path_factory.mktemp("figures")))
        scored(run="made-up", systems=("oracle", "tracker", "random", "silent"), n_sessions=2, n_turns=12)
        yield "made-up"


def by_session(table):
    return table.set_index(["model", "session_id"])


def test_a_made_up_metric_is_a_column_of_its_level(run):
    turns = evaluate.read(run, "turns")
    shifts = evaluate.read(run, "shifts")
    columns = list(turns)
    assert columns.index("films_shown") > columns.index("item_tas")
    assert not {"shift_answered", "last_films"} & set(turns)
    assert not {"films_shown", "last_films"} & set(shifts)
    assert set(shifts["shift_answered"].dropna()) <= {0.0, 1.0}
    values = turns["films_shown"].dropna()
    assert (values == turns.loc[values.index, "n_items"]).all()
    assert len(values) < len(turns), "turns that ask for nothing have no value"


def test_a_made_up_metric_has_a_mean_for_each_session(run):
    turns = evaluate.read(run, "turns")
    sessions = by_session(evaluate.read(run, "results"))
    films = turns.groupby(["model", "session_id"])["films_shown"].mean()
    assert sessions.loc[films.index, "films_shown"].to_numpy() == pytest.approx(films.to_numpy(), nan_ok=True)
    shifts = evaluate.read(run, "shifts")
    answered = shifts.groupby(["model", "session_id"])["shift_answered"].mean()
    values = sessions.loc[answered.index, "shift_answered"]
    assert values.to_numpy() == pytest.approx(answered.to_numpy(), nan_ok=True)
    last = by_session(turns[turns["turn"] == 12])["n_items"]
    assert (sessions["last_films"] == last.loc[sessions.index]).all()


def test_a_made_up_metric_has_a_mean_for_each_system(run):
    results = evaluate.read(run, "results")
    means = evaluate.read(run, "model_metrics")
    assert set(MADE_UP) <= set(means["metric"])
    assert len(means) == 4 * len(base.scored_names())
    row = means.set_index(["model", "metric"]).loc[("oracle", "films_shown")]
    assert row["mean"] == pytest.approx(results.loc[results["model"] == "oracle", "films_shown"].mean())
    assert row["direction"] == NEITHER
    record = next(iter(tables.read_jsonl(simulate.run_folder(run) / "results.jsonl")))
    assert set(MADE_UP) <= set(record)
    assert record["detail"]["defined_turns"]["films_shown"] <= 12


def test_a_made_up_metric_is_tabled(run):
    turns = evaluate.read(run, "turns")
    means = evaluate.read(run, "model_metrics")
    results = evaluate.read(run, "results")
    assert list(views.turn_table(turns))[-1] == "films_shown"
    board = views.scoreboard(means)
    assert list(board)[-1] == "films"
    assert board.set_index("system").loc["silent", "films"].startswith("0.000")
    assert set(MADE_UP) <= set(statistics.stats_frame(results))
    assert set(MADE_UP) <= set(metrics.describe()["metric"])
    assert "films" in TABLES.get("table_model_metrics").make(means)
    assert "films" not in views.scoreboard(means[means["metric"] != "films_shown"])
    assert "films_shown" not in statistics.stats_frame(results.drop(columns=["films_shown"]))


def last_title(name, table, **options):
    """The title of the last panel of a figure."""
    return figures.make(name, table, **options).axes[-1].get_title()


def test_a_made_up_metric_is_drawn(run):
    means = evaluate.read(run, "model_metrics")
    results = evaluate.read(run, "results")
    titles = [panel.get_title() for panel in figures.make("metric_bars", means).axes]
    assert [title for title in titles if title][-3:] == ["films", "answered † ↑", "last † ↓"]
    assert last_title("leaderboard", means) != "films"  # it was put through no gate
    assert last_title("leaderboard", means, metrics=["normalised_gain", "films_shown"]) == "films"
    assert last_title("distributions", results) == "films"
    assert last_title("distributions", results.drop(columns=["films_shown"])) != "films"


def test_a_name_is_taken_once_and_levels_are_known(run):
    again = metric("films_shown", "films", TURN, 0, 1, HIGHER, source="made up")
    refused("'films_shown' is registered twice", again, len)
    unknown = "'week' is none of turn, shift, session"
    refused(unknown, metric, "weekly", "weekly", "week", 0, 1, HIGHER, source="made up")
    refused("'up' is none of higher is better", metric, "upwards", "up", TURN, 0, 1, "up", source="made up")
