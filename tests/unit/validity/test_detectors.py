"""Detectors on utterances whose shifts are plain, their figures on paper."""

import numpy as np
import pandas as pd
import pytest

from crs_lib.core.dialogue import Dialogue, Turn
from crs_lib.core.errors import InputError
from crs_lib.validity import detectors
from tests.helpers.films import grounder

TEN = grounder()
TEXTS = ["drama films please", "more drama films", "now comedy films", "thanks"]
OFFLINE = [entry.name for entry in detectors.DETECTORS if entry.name != "embedding"]


def made(name):
    return detectors.DETECTORS.create(name, grounder=TEN)


@pytest.mark.parametrize(
    ("name", "scores"),
    [("new_value", [0, 1, 0]), ("jaccard", [0, 1, 1])],  # jaccard takes silence after a wish for a shift
)
def test_a_new_value_is_an_alarm_and_an_old_one_is_not(name, scores):
    assert made(name).scores(TEXTS).tolist() == pytest.approx([np.nan, *scores], nan_ok=True)


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


def table(scores, shift):
    turns = range(2, 2 + len(scores))
    return pd.DataFrame({"detector": "d", "session": "s", "turn": turns, "score": scores, "shift": shift})


def test_the_figures_on_paper():
    rows = table([0.9, 0.1, 0.2, 0.8, 0.9], [True, False, True, False, False])
    row = detectors.quality(rows, {"d": 0.8}).iloc[0]
    # alarms at turns 2, 5 and 6; shifts at 2 (found at once) and 4 (found one turn late)
    names = ["precision", "recall", "f1", "alarm_rate", "shift_rate", "delay", "found"]
    assert row[names].tolist() == pytest.approx([1 / 3, 1 / 2, 0.4, 0.6, 0.4, 0.5, 1.0])
    row = detectors.quality(table([0.0, 0.0, 0.9], [True, False, True]), {"d": 0.5}).iloc[0]
    assert (row["found"], row["delay"]) == (0.5, 0.0)
    row = detectors.quality(table([0.1, 0.2], [False, False]), {"d": 0.5}).iloc[0]
    assert row[["precision", "recall", "auc", "delay", "found"]].isna().all()
