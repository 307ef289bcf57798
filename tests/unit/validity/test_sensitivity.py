"""Sensitivity and detectors on made-up scores, where each figure can be read off, and on a few real sessions."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from crs_lib import simulate
from crs_lib.core.dialogue import Dialogue, Turn
from crs_lib.simulate.config import SimulateConfig
from crs_lib.stats import facet_variances
from crs_lib.validity import detectors, precision, sensitivity
from crs_lib.validity.precision import PrecisionConfig
from tests.helpers import refused
from tests.helpers.films import grounder
from tests.helpers.sample import WORLD


def turns():
    """Three systems: a meets wishes, b is fresh, c copies."""
    rows = [("a", 0.9, 0.0, 0.9, 0.0, 0.0), ("b", 0.5, 1.0, 0.6, 0.1, 0.0), ("c", 0.4, 0.5, 0.5, 0.0, 1.0)]
    parts = ["satisfaction_corrected", "novelty", "satisfaction", "topic_interference_leakage", "copying"]
    return pd.DataFrame(rows, columns=["model", *parts]).assign(session_id="0")


def test_the_weights_map_on_paper_the_simplex_is_complete_and_tau_agrees_with_scipy():
    table = sensitivity.weights(turns())
    # default: a 0.54, b 0.3 + 0.24 - 0.05 = 0.49, c 0.24 + 0.1 - 0.5 = -0.16
    assert table.loc[0, ["best", "tau", "is_default"]].tolist() == ["a", 1.0, True]
    assert not table["is_default"][1:].any()
    weighted = table.set_index(["alpha", "beta", "gamma", "delta"])
    # S* ¼, freshness ¾: b 0.575, c 0.2875, a 0.225: of the pairs ab, ac, bc only bc is as in the default
    assert weighted.loc[(0.25, 0.75, 0, 0), ["best", "tau"]].tolist() == ["b", pytest.approx(-1 / 3)]
    assert weighted.loc[(1, 0, 0, 0), ["best", "tau"]].tolist() == ["a", 1.0]
    grid = sensitivity._simplex()
    assert all(sum(one._asdict().values()) == pytest.approx(1) and one.alpha > 0 for one in grid)
    assert len(grid) == 35 - 15  # C(7, 3) points, less those without weight on S*: C(6, 2)
    a, b = pd.Series([1.0, 2, 3, 3], list("wxyz")), pd.Series([2.0, 1, 3, 4], list("wxyz"))
    assert sensitivity._tau(a, b) == pytest.approx(stats.kendalltau(a, b).statistic)
    assert pd.isna(sensitivity._tau(a[:1], b))
    table = sensitivity.weights(turns().assign(satisfaction_corrected=float("nan")))
    assert table["tau"].isna().all() and set(table["best"]) == {""}


def scores(**by_system):
    rows = [(name, f"{i:05d}", value) for name, values in by_system.items() for i, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["model", "session_id", "score"])


def test_agreement_is_tau_of_the_means_of_what_is_there():
    """Means 1, 2, 3 against 2, 1, 3: of three pairs two agree, tau = (2 - 1) / 3."""
    a = scores(x=[1.0, 1.0, 1.0], y=[2.0, 2.0, 2.0], z=[3.0, 3.0, 3.0])
    b = scores(z=[3.0, 3.0, 3.0], x=[4.0, 1.0, 1.0], y=[0.5, 1.5, 1.0])
    found = sensitivity._agreement(a, b, "score")
    means = [one.groupby("model")["score"].mean() for one in (a, b)]
    assert found["tau"] == pytest.approx(1 / 3) == pytest.approx(sensitivity._tau(*means))
    assert found["low"] == pytest.approx(-1 / 3)  # the first scenario alone: x above y and z
    assert found["high"] == 1  # the others alone: x below y below z
    assert (found["n_systems"], found["n_sessions"]) == (3, 3)
    a = scores(x=[1.0, 1.0], y=[2.0, 2.0], z=[float("nan")] * 2)
    b = scores(x=[1.0, float("nan")], y=[2.0, 2.0], z=[0.0, 0.0])
    found = sensitivity._agreement(a, b, "score")
    assert (found["tau"], found["n_systems"]) == (1, 2)
    assert pd.isna(sensitivity._agreement(a, scores(z=[1.0]), "score")["tau"])


@pytest.mark.slow
def test_choices_that_touch_only_text_leave_the_item_grounded_ranking_alone():
    config = SimulateConfig(systems=("oracle", "amnesiac", "random", "echo"), n_sessions=3, n_turns=12)
    keys = config.keys()
    small = [simulate.session(WORLD, key.system, key.session, config) for key in keys]
    table = sensitivity._by_convention(small, WORLD.grounder)
    asked = {(choice, setting) for choice, setting, _ in sensitivity._choices()}
    assert set(zip(table["choice"], table["setting"], strict=True)) == asked
    empty = table[(table["choice"] == "empty sets") & (table["metric"] == "item_tas")]
    assert (empty["tau"] == 1).all() and (empty[["low", "high"]] == 1).all(axis=None)
    same = table.set_index(["choice", "setting", "metric"]).sort_index()
    assert same.loc[("empty sets", "skip", "topic_adaptation_score"), "tau"] == 1
    assert set(table["n_systems"]) == {4} and set(table["n_sessions"]) == {3}
    found = sensitivity.stability(table, "metric").set_index("metric")
    assert found.loc["item_tas", "lowest_tau"] >= found.loc["topic_adaptation_score", "lowest_tau"]


def frame(missing=()):
    rows = [
        {"system": p, "catalogue": "sample", "wording": w, "seed": s, "scenario": f"{i:05d}", "value": v + i}
        for v, p in enumerate("ab") for w in "AB" for s in (1, 2) for i in range(4)
    ]  # fmt: skip
    table = pd.DataFrame(rows).astype({"value": float})
    table.loc[list(missing), "value"] = np.nan
    return table


def test_a_scenario_without_a_value_anywhere_goes_and_the_cells_stay_alike():
    kept = precision._balanced(frame(missing=[1]))  # system a, wording A, seed 1, scenario 1
    scenarios = kept.astype({"scenario": int}).groupby("seed")["scenario"].unique().map(list).to_dict()
    assert scenarios == {1: [0, 2, 3], 2: [0, 1, 2]}
    facet_variances(kept, precision.FACETS)  # balanced
    refused("has 1 scenarios with a value for every", precision._balanced, frame(missing=[0, 1, 2]))
    refused("has 0 scenarios", precision._balanced, frame(missing=[0, 1, 2, 3]))


@pytest.mark.parametrize("metric", ["normalised_gain", "history_cost"])
def test_a_small_study_says_where_scores_vary(metric, tmp_path, monkeypatch):
    monkeypatch.setenv("CRS_RESULTS", str(tmp_path))
    size = {"seeds": (1, 2), "n_sessions": 3, "n_turns": 10}
    found = precision.run(PrecisionConfig(systems=("tracker", "sticky"), metric=metric, **size))
    assert found.needed["holds_for"].tolist() == list(precision.SCOPES.values())[:3]
    widths = found.needed["half_width"]
    assert (widths.diff().dropna() >= -1e-12).all()  # whoever generalises further knows less
    assert (found.needed["floor"] <= widths + 1e-12).all() and found.needed["floor"].iloc[0] == 0
    assert (tmp_path / "movies" / "precision" / "precision.csv").exists()


TEN = grounder()
TEXTS = ["drama films please", "more drama films", "now comedy films", "thanks"]
OFFLINE = [entry.name for entry in detectors.DETECTORS if entry.name != "embedding"]


def scored(name, texts=TEXTS):
    return detectors._scores(detectors.DETECTORS.create(name, grounder=TEN), texts)


# jaccard takes silence after a wish for a shift
@pytest.mark.parametrize(("name", "scores"), [("new_value", [0, 1, 0]), ("jaccard", [0, 1, 1])])
def test_a_new_value_is_an_alarm_and_an_old_one_is_not(name, scores):
    assert scored(name) == pytest.approx([np.nan, *scores], nan_ok=True)


@pytest.mark.parametrize("name", OFFLINE)
def test_a_score_depends_on_nothing_said_later(name):
    whole = scored(name)
    assert (len(whole), len(scored(name, []))) == (len(TEXTS), 0) and np.isnan(whole[0])
    np.testing.assert_allclose(scored(name, TEXTS[:3]), whole[:3])
    assert 0 < detectors.usual([name])[name] < 1


def dialogue(shift=3):
    turns = [Turn(s, t) for text in TEXTS for s, t in (("USER", text), ("SYSTEM", "ok"))]
    return Dialogue("1", "alpha", tuple(turns), shift_events=({"turn": shift},))


def test_every_turn_but_the_first_has_a_row_for_every_detector_and_figures_as_on_paper():
    rows = detectors.run(OFFLINE, [dialogue()], TEN)
    assert len(rows) == 3 * len(OFFLINE) and rows.loc[rows["shift"], "turn"].unique().tolist() == [3]
    refused("no dialogue", detectors.run, OFFLINE, [], TEN)
    refused("did you mean 'jaccard'", detectors.run, ["jacard"], [dialogue()], TEN)
    rows = alarms([0.9, 0.1, 0.2, 0.8, 0.9], [True, False, True, False, False])
    row = detectors.quality(rows, {"d": 0.8}).iloc[0]
    # alarms at turns 2, 5 and 6; shifts at 2 (found at once) and 4 (found one turn late)
    names = ["precision", "recall", "f1", "alarm_rate", "shift_rate", "delay", "found"]
    assert row[names].tolist() == pytest.approx([1 / 3, 1 / 2, 0.4, 0.6, 0.4, 0.5, 1.0])
    row = detectors.quality(alarms([0.0, 0.0, 0.9], [True, False, True]), {"d": 0.5}).iloc[0]
    assert (row["found"], row["delay"]) == (0.5, 0.0)
    nothing = detectors.quality(alarms([0.1, 0.2], [False, False]), {"d": 0.5})
    assert nothing[["precision", "recall", "auc", "delay", "found"]].isna().all(axis=None)


def alarms(scores, shift):
    turns = range(2, 2 + len(scores))
    return pd.DataFrame({"detector": "d", "session": "s", "turn": turns, "score": scores, "shift": shift})
