"""Scoring a run: its files, complete and the same every time; means and intervals by scenario."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from crs_lib import evaluate, simulate
from crs_lib.core import tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.evaluate.run import EvaluateConfig
from crs_lib.metrics import base, conventions
from crs_lib.report import tables as views
from crs_lib.thesis import legacy as thesis_legacy
from tests.helpers.sample import simulated

RESULT_KEYS = {
    "topic_adaptation_score", "cross_coherence", "context_retention", "topic_interference", "topic_interference_leakage",
    "topic_recovery_rate", "avg_recovery_delay", "context_adaptation_score", "judge", "detail",
}  # fmt: skip
SYSTEMS = ["oracle", "random", "silent"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small finished and scored run; returns its folder."""
    patch = pytest.MonkeyPatch()
    patch.setenv("CRS_RESULTS", str(tmp_path_factory.mktemp("results")))
    simulated(run="r", systems=SYSTEMS, n_sessions=4, n_turns=12, seed=3)
    yield evaluate.evaluate(EvaluateConfig(run="r"))
    patch.undo()


def test_results_are_complete_by_construction(run):
    results, turns, shifts = (evaluate.read("r", name) for name in ("results", "turns", "shifts"))
    asked = {(system, f"{n:05d}") for system in SYSTEMS for n in range(4)}
    assert set(zip(results["model"], results["session_id"], strict=True)) == asked
    assert len(results) == len(asked)
    assert set(zip(turns["model"], turns["session_id"], turns["turn"], strict=True)) == {
        (*pair, turn) for pair in asked for turn in range(1, 13)
    }
    logged = sum(len(talk.shift_turns()) for talk in simulate.dialogues("r"))
    assert len(shifts) == logged > 0
    assert set(results.columns) >= RESULT_KEYS
    assert set(base.scored_names()) <= set(results.columns)


def test_missing_is_null_with_a_reason_never_zero(run):
    record = [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()][-1]
    assert record["model"] == "silent"
    assert record["novelty"] is None
    assert record["item_recovery_delay"] is None
    assert record["item_recovery_rate"] == 0
    turns = evaluate.read("r", "turns").query("model == 'silent'")
    empty = turns["cross_coherence"].isna()
    assert (turns.loc[empty, "undefined"] == "no concept on either side").all()
    assert (turns.loc[~empty, "undefined"] == "").all()
    assert record["detail"]["defined_turns"]["cross_coherence"] + record["detail"]["n_both_empty_turns"] == 12


def test_means_are_those_of_sessions_and_of_turns(run):
    table = evaluate.read("r", "model_metrics").set_index(["model", "metric"])
    results = evaluate.read("r", "results")
    assert len(table) == len(SYSTEMS) * len(base.scored_names())
    for (model, metric), row in table.iterrows():
        values = results.loc[results["model"] == model, metric].astype(float)
        known = values.dropna()
        if base.get(metric).ratio:
            continue
        assert (row["n"], row["n_missing"]) == (len(known), len(values) - len(known)), (model, metric)
        if len(known):
            assert row["mean"] == pytest.approx(known.mean(), abs=1e-9)
            if row["mark"] == "too few differing scenarios":
                assert base.get(metric).primary
            elif len(known) > 1:
                assert row["low"] - 1e-9 <= row["mean"] <= row["high"] + 1e-9
            else:
                assert math.isnan(row["low"])  # one scenario tells nothing of others
        else:
            assert math.isnan(row["mean"])
    turns, results = (
        evaluate.read("r", "turns"),
        evaluate.read("r", "results").set_index(["model", "session_id"]),
    )
    for name in ("topic_adaptation_score", "satisfaction_corrected", "topic_interference_leakage"):
        means = turns.groupby(["model", "session_id"])[name].mean()
        expected = results[name].astype(float).reindex(means.index)
        np.testing.assert_allclose(means.to_numpy(float), expected.to_numpy(), atol=1e-12)


def test_reading_checks_names_order_and_freshness(run):
    with pytest.raises(InputError, match="no table 'turn'; did you mean 'turns'"):
        evaluate.read("r", "turn")
    with pytest.raises(RunError, match=r"no finished 0. *_?\w+ in run 'nope'"):
        evaluate.read("nope", "turns")
    manifest = json.loads((run / "manifest.json").read_text())
    entry = manifest["stages"]["evaluate"]["inputs"]
    kept, entry["dialogues"] = entry["dialogues"], "0" * 64
    tables.write_json(run / "manifest.json", manifest)
    with pytest.raises(RunError, match=r"scores of run 'r' are older than its dialogues; score .*-p run r"):
        evaluate.read("r", "turns")
    entry["dialogues"] = kept
    tables.write_json(run / "manifest.json", manifest)
    assert len(evaluate.read("r", "results")) == 12


@pytest.mark.parametrize(("options", "message"), [
    ({"convention": "thesis_groundet"}, "unknown convention 'thesis_groundet'; did you mean 'thesis_grounded'"),
    ({"run": "a/b"}, "cannot be a folder"),
    ({"tas_weights": {"gama": 0.5}}, "tas_weights: unknown weight 'gama'; did you mean 'gamma'"),
    ({"tas_weights": {"gamma": -1.0}}, "gamma is -1.0"),
    ({"convention": "thesis_legacy", "window": 2}, "window is 2; 'thesis_legacy' does not use"),
    ({"convention": "thesis_grounded(gamma=x)"}, "'gamma' is 'x'; expected a finite number"),
    ({"convention": "thesis_grounded(windw=3)"}, "unknown setting .*'windw'.*did you mean 'window'"),
    ({"convention": "thesis_grounded(gamma)"}, "'gamma' is no setting; expected e.g. gamma=0.5"),
    ({"topics": "ldaa", "convention": "thesis_legacy"}, "topics is 'ldaa'; give one of lda, .*; did you mean 'lda'"),
])  # fmt: skip
def test_settings_that_are_misspelt_or_of_no_use_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        EvaluateConfig(**options)


def test_tables_leave_out_what_the_older_convention_does_not_give():
    turns = pd.DataFrame({"model": ["a"], "session_id": ["0"], "turn": [1], "cross_coherence": [0.5]})
    assert list(views.turn_table(turns)) == list(turns)
    assert EvaluateConfig(run="r", convention="thesis_legacy").metrics == thesis_legacy.METRICS


@pytest.mark.slow
def test_dialogues_are_scored_alike_whatever_their_company(run):
    from crs_lib.catalog.grounder import Grounder

    talks, real = simulate.dialogues("r"), Grounder(evaluate.catalog_of("r"))
    rule = conventions.get("default")
    together = [scores.session for scores in evaluate.score_all(talks, real, rule)]
    alone = [next(evaluate.score_all([talk], real, rule)).session for talk in reversed(talks)]
    assert [tables.dumps(one) for one in together] == [tables.dumps(one) for one in reversed(alone)]


@pytest.mark.slow
def test_the_scores_of_several_conventions_lie_side_by_side(run):
    """Notebook 04's cells on a run scored as the thesis did; the default's files keep their bytes."""
    before = {
        name: (run / name).read_bytes() for name in ("results.jsonl", "turns.parquet", "model_metrics.csv")
    }
    config = EvaluateConfig(run="r", convention="thesis_grounded")
    assert evaluate.evaluate(config) == run / "scores" / "thesis_grounded"
    turns, results, means = evaluate.scored("r", "thesis_grounded")
    assert set(means["metric"]) == set(config.metrics) < {*results.columns}
    assert views.turn_table(turns).columns[-1] == "topic_adaptation_score"
    assert list(views.undefined_table(turns, ["cross_coherence", "satisfaction"])) == ["system", "CC"]
    assert len(views.scoreboard(means)) == len(SYSTEMS)
    assert views.scoreboard(means).columns[1] == "TAS †"
    assert {name: (run / name).read_bytes() for name in before} == before
    assert set(evaluate.read("r", "model_metrics")["metric"]) == set(EvaluateConfig(run="r").metrics)
    with pytest.raises(RunError, match=r"under .*thesis_grounded, not under 'thesis_legacy'.*04_evaluate"):
        evaluate.read("r", "results", "thesis_legacy")
    weighted = EvaluateConfig(run="r", convention="thesis_grounded", tas_weights={"gamma": 0.5}, window=2)
    evaluate.evaluate(weighted)
    assert weighted.rule.name == "thesis_grounded(gamma=0.5, window=2)"
    assert evaluate.conventions_of("r")[0] == "default"
    assert set(evaluate.conventions_of("r")) == {"default", weighted.rule.name, "thesis_grounded"}
    changed = evaluate.read("r", "results", weighted.rule.name)
    assert set(changed["convention"]) == {weighted.rule.name}
    assert (changed["topic_adaptation_score"] >= results["topic_adaptation_score"] - 1e-12).all()
    stages = json.loads((run / "manifest.json").read_text())["stages"]
    assert stages[f"evaluate {weighted.rule.name}"]["parameters"]["tas"]["gamma"] == 0.5


def test_a_convention_with_other_settings_stands_in_for_the_named_one(run):
    """The notebooks after 04 take the convention that was asked for, whatever its settings."""
    evaluate.evaluate(EvaluateConfig(run="r", convention="thesis_legacy", topics="heuristic"))
    assert evaluate.convention_of("r", "thesis_legacy") == "thesis_legacy(topics=heuristic)"
    assert evaluate.convention_of("r") == "default"
    legacy = evaluate.read("r", "model_metrics", "thesis_legacy")
    assert views.scoreboard(legacy).columns[1] == "CAS †"
