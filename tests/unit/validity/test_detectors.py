"""Detectors on utterances whose shifts are plain, their figures on paper, and a second opinion for AUC."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from crs_lib import stats
from crs_lib.core.dialogue import Dialogue, Turn
from crs_lib.core.errors import InputError
from crs_lib.validity import detectors
from tests.helpers.films import grounder

TEN = grounder()
TEXTS = ["drama films please", "more drama films", "now comedy films", "thanks"]
OFFLINE = [entry.name for entry in detectors.DETECTORS if entry.name != "embedding"]


def made(name):
    return detectors.DETECTORS.create(name, grounder=TEN)


def test_a_new_value_is_an_alarm_and_an_old_one_is_not():
    assert made("new_value").scores(TEXTS).tolist() == pytest.approx([np.nan, 0, 1, 0], nan_ok=True)


def test_jaccard_takes_silence_after_a_wish_for_a_shift():
    assert made("jaccard").scores(TEXTS).tolist() == pytest.approx([np.nan, 0, 1, 1], nan_ok=True)


@pytest.mark.parametrize("name", OFFLINE)
def test_a_score_depends_on_nothing_said_later(name):
    detector = made(name)
    whole = detector.scores(TEXTS)
    assert len(whole) == len(TEXTS)
    assert np.isnan(whole[0])
    np.testing.assert_allclose(detector.scores(TEXTS[:3]), whole[:3])
    assert 0 < detectors.usual([name])[name] < 1
    assert len(detector.scores([])) == 0


def dialogue(shift=3):
    turns = [Turn(s, t) for text in TEXTS for s, t in (("USER", text), ("SYSTEM", "ok"))]
    return Dialogue("1", "alpha", tuple(turns), shift_events=({"turn": shift},))


def test_every_turn_but_the_first_has_a_row_for_every_detector():
    rows = detectors.run(OFFLINE, [dialogue()], TEN)
    assert len(rows) == 3 * len(OFFLINE)
    assert rows.loc[rows["shift"], "turn"].unique().tolist() == [3]
    with pytest.raises(InputError, match="no dialogue"):
        detectors.run(OFFLINE, [], TEN)
    with pytest.raises(InputError, match="did you mean 'jaccard'"):
        detectors.run(["jacard"], [dialogue()], TEN)


def table(scores, shift, session="s"):
    return pd.DataFrame(
        {
            "detector": "d",
            "session": session,
            "turn": range(2, 2 + len(scores)),
            "score": scores,
            "shift": shift,
        }
    )


def test_the_figures_on_paper():
    rows = table([0.9, 0.1, 0.2, 0.8, 0.9], [True, False, True, False, False])
    row = detectors.quality(rows, {"d": 0.8}).iloc[0]
    # alarms at turns 2, 5 and 6; shifts at 2 (found at once) and 4 (found one turn late)
    assert row["precision"] == pytest.approx(1 / 3)
    assert row["recall"] == pytest.approx(1 / 2)
    assert row["f1"] == pytest.approx(0.4)
    assert (row["alarm_rate"], row["shift_rate"]) == pytest.approx((0.6, 0.4))
    assert (row["delay"], row["found"]) == pytest.approx((0.5, 1.0))


def test_an_alarm_after_the_next_shift_belongs_to_that_one():
    row = detectors.quality(table([0.0, 0.0, 0.9], [True, False, True]), {"d": 0.5}).iloc[0]
    assert (row["found"], row["delay"]) == (0.5, 0.0)


def test_without_an_alarm_precision_is_missing_and_without_a_shift_auc_is():
    row = detectors.quality(table([0.1, 0.2], [False, False]), {"d": 0.5}).iloc[0]
    assert row[["precision", "recall", "auc", "delay", "found"]].isna().all()


@pytest.mark.parametrize("seed", range(3))
def test_auc_agrees_with_scikit_learn(seed):
    draw = np.random.default_rng(seed)
    scores, shift = draw.integers(0, 5, 60).astype(float), draw.random(60) < 0.3
    assert stats.auc(scores, shift) == pytest.approx(roc_auc_score(shift, scores))


def test_a_higher_threshold_never_raises_more_alarms():
    rows = detectors.run(OFFLINE, [dialogue()], TEN)
    swept = detectors.sweep(rows, [0.1, 0.5, 0.9])
    rates = swept.pivot_table(index="threshold", columns="detector", values="alarm_rate")
    assert (rates.diff().dropna() <= 0).all().all()
