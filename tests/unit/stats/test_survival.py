"""Waiting times against loops, statsmodels and simulations."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sp
from statsmodels.duration.hazard_regression import PHReg

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats.survival import hazard_ratios, net_incidence
from tests.helpers.stats_examples import remission_frame

REMISSION = remission_frame()
TIMES = st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=2, max_size=20)


@settings(max_examples=20, deadline=None)
@given(TIMES)
def test_kaplan_meier_is_the_product_over_event_times(times):
    frame = pd.DataFrame(times, columns=["time", "event"]).assign(system="a")
    curve = stats.kaplan_meier(frame)
    share = 1.0
    for _, row in curve.iloc[1:].iterrows():
        risk = sum(t >= row["time"] for t, _ in times)
        events = sum(t == row["time"] and e for t, e in times)
        share *= 1 - events / risk
        assert (row["at_risk"], row["events"]) == (risk, events)
        assert row["survival"] == pytest.approx(share, abs=1e-12)
    found = curve["survival"].to_numpy()
    assert (np.diff(found) <= 0).all()
    inside = curve.dropna()[["low", "survival", "high"]].to_numpy()
    assert (np.diff(inside) >= -1e-12).all()


def until(frame, horizon):
    """The same times, followed up to a horizon."""
    time = frame["time"].clip(upper=horizon)
    return frame.assign(time=time, event=frame["event"] & (frame["time"] <= horizon))


def test_restricted_mean_is_the_area():
    """6-MP up to week 20: 6*1 + .857*1 + .807*3 + .753*3 + .690*3 + .627*4, added up by hand."""
    found = stats.restricted_mean(until(REMISSION, 20)).set_index("system")
    area = 6 + 0.857143 + 3 * 0.806723 + 3 * 0.752941 + 3 * 0.690196 + 4 * 0.627451
    assert found.loc["6-MP", "restricted_mean"] == pytest.approx(area, abs=1e-5)
    placebo = REMISSION[REMISSION["system"] == "placebo"]["time"]
    assert found.loc["placebo", "restricted_mean"] == pytest.approx(np.minimum(placebo, 20).mean())


def test_restricted_mean_error_without_censoring_is_the_plain_one():
    """Without censoring Greenwood's error is the standard deviation (over n) of min(time, horizon)."""
    frame = pd.DataFrame({"system": "a", "time": [1, 3, 4, 4, 9], "event": True})
    row = stats.restricted_mean(until(frame, 6)).iloc[0]
    mean, half = row["restricted_mean"], 1.959964 * np.std([1, 3, 4, 4, 6]) / 5**0.5
    assert row[["error", "low", "high"]].tolist() == pytest.approx(
        [half / 1.959964, mean - half, min(6, mean + half)]
    )
    frame = pd.DataFrame({"system": list("aabb"), "time": [1, 3, 2, 8], "event": [True, False, True, False]})
    assert stats.restricted_mean(frame)["horizon"].tolist() == [3, 3]  # no guess beyond follow-up


def ratio(frame, design=None):
    return hazard_ratios(frame, design or stats.Design()).iloc[0]


def test_robust_hazard_errors_without_ties_are_those_of_statsmodels():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"system": ["a", "b"] * 60, "scenario": np.repeat(range(40), 3)})
    frame["time"], frame["event"] = rng.exponential(size=120), True
    row = ratio(frame)
    first = (frame["system"] == "a").to_numpy(dtype=float)[:, None]
    model = PHReg(frame["time"].to_numpy(), first, status=frame["event"].to_numpy(dtype=float), ties="efron")
    again = model.fit(groups=frame["scenario"].to_numpy())
    error = (np.log(row["high"]) - np.log(row["low"])) / (2 * sp.norm.ppf(0.975))
    assert error == pytest.approx(float(again.bse[0]), rel=1e-6)
    assert np.log(row["estimate"]) == pytest.approx(float(again.params[0]), rel=1e-9)
    early = ratio(frame.assign(event=frame["time"] > 0.1))
    assert early["low"] < early["estimate"] < early["high"]  # censored before the first event


@pytest.mark.slow
def test_robust_hazard_ratios_keep_their_level_where_most_recover_at_once():
    """Two equal systems, 70 % of the shifts recovered by the first reply: 5 % of 200 tests reject."""
    rng = np.random.default_rng(5)
    scenarios, rejected = np.repeat(np.arange(40), 2), 0
    for _ in range(200):
        time = np.minimum(rng.geometric(0.7, 160) - 1, 3)
        frame = pd.DataFrame({"system": ["a"] * 80 + ["b"] * 80, "scenario": np.tile(scenarios, 2)})
        rejected += ratio(frame.assign(time=time, event=time < 3))["p"] < 0.05
    assert rejected / 200 == pytest.approx(0.05, abs=3.5 * (0.05 * 0.95 / 200) ** 0.5)


def test_no_hazard_ratio_is_made_up_where_all_or_none_recover_first_or_one_late():
    shifts = pd.DataFrame({"system": ["a"] * 50 + ["b"] * 50, "scenario": [*range(50)] * 2, "event": True})
    apart, alike, late = (ratio(shifts.assign(time=[0.0] * n + [1.0] * (100 - n))) for n in (50, 100, 99))
    assert apart[["estimate", "low", "high", "p"]].isna().all()
    assert alike["estimate"] == pytest.approx(1) and alike[["low", "high", "p"]].isna().all()
    assert late["low"] < 1 < late["estimate"] < late["high"]
    turned = ratio(shifts.assign(time=[0.0] * 99 + [1.0]), stats.Design(pairs=[("b", "a")]))
    assert turned["estimate"] == pytest.approx(1 / late["estimate"], rel=1e-6)


def test_missing_times_are_left_out_and_counted_and_no_event_is_undefined():
    frame = pd.DataFrame(
        {"system": list("aaabbb"), "time": [1, 2, np.nan, 3, 4, 5], "event": [True] * 3 + [False] * 3}
    )
    curve = stats.kaplan_meier(frame)
    assert curve["system"].tolist() == ["a", "a", "a", "b"] and curve["n"].tolist() == [2, 2, 2, 3]
    assert curve["n_missing"].tolist() == [1, 1, 1, 0]
    row = ratio(frame.assign(scenario=0))
    assert np.isnan(row["estimate"]) and row[["events_a", "events_b", "n_missing"]].tolist() == [2, 0, 1]


def test_recovery_beyond_chance_is_that_of_the_cases_at_risk_against_lists_by_chance():
    """Four cases: two recover at once, one later, one never. By chance a tenth would, then a fifth."""
    rows = [
        ("a", 0, True, 0.1), ("b", 0, True, 0.1), ("c", 0, False, 0.1), ("d", 0, False, 0.1),
        ("c", 1, True, 0.2), ("d", 1, False, 0.2),
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["scenario", "time", "event", "expected"]).assign(system="s")
    found = net_incidence(frame)
    assert (found["at_risk"].tolist(), found["events"].tolist()) == ([4, 2], [2, 1])
    assert found["incidence"].tolist() == pytest.approx([1 - 0.5 / 0.9, 1 - 0.25 / (0.9 * 0.8)])
    assert net_incidence(frame.assign(expected=1.0))["incidence"].isna().all()
    plain = net_incidence(frame.assign(expected=0.0))  # without chance: 1 − Kaplan-Meier
    assert plain["incidence"].tolist() == pytest.approx([0.5, 0.75])
    with pytest.raises(InputError, match="whole numbers from 0 on"):
        net_incidence(frame.assign(time=0.5))


def test_lists_by_chance_recover_nothing_beyond_chance():
    draw = np.random.default_rng(3)
    chance = draw.uniform(0.05, 0.6, size=(20_000, 4))
    hit = draw.random(chance.shape) < chance
    waits = np.cumsum(hit, axis=1) - hit == 0  # still at risk before the reply
    case, time = np.nonzero(waits)
    frame = pd.DataFrame({"system": "s", "scenario": case, "time": time, "event": hit[waits]})
    found = net_incidence(frame.assign(expected=chance[waits]), stats.Design(resamples=50))
    assert found["incidence"].abs().max() < 0.05  # the error of the last share is .014
    assert (found["low"] < found["incidence"]).all()
    assert (found["incidence"] < found["high"]).all()


NO_PLACEBO = REMISSION.assign(time=REMISSION["time"].where(REMISSION["system"] != "placebo"))


@pytest.mark.parametrize(("make", "frame", "words"), [
    (stats.kaplan_meier, REMISSION.assign(time=-1.0), "negative times"),
    (stats.kaplan_meier, REMISSION.assign(event=2), r"true \(it happened\) or false"),
    (stats.kaplan_meier, REMISSION.rename(columns={"time": "turns"}), "no column 'time'"),
    (stats.restricted_mean, NO_PLACEBO, "no time for 'placebo'"),
    (stats.restricted_mean, REMISSION.assign(time=0, event=False), "followed for no reply"),
])  # fmt: skip
def test_bad_input_says_what_was_given(make, frame, words):
    with pytest.raises(InputError, match=words):
        make(frame)
