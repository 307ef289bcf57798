"""The ability–adaptation plane and the profiles: regions on paper, and what a run without fresh users says."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from crs_lib.core.rng import stream
from crs_lib.figures import shifts as plane
from crs_lib.figures.base import NoDataError


def test_the_region_is_the_points_that_hotellings_test_does_not_refuse():
    values = stream(1, "region").normal(size=(20, 2)) @ [[1, 0.5], [0, 0.3]]
    found = plane.region(values)
    inverse = np.linalg.inv(np.cov(values, rowvar=False))
    away = found.outline - values.mean(axis=0)
    t2 = 20 * np.einsum("ij,jk,ik->i", away, inverse, away)
    assert t2 == pytest.approx(np.full(len(t2), 2 * 19 / 18 * stats.f.ppf(0.95, 2, 18)))


def test_the_region_holds_the_true_mean_in_95_percent_of_samples():
    draw = stream(2, "cover")
    inside = 0
    for _ in range(400):
        values = draw.normal(size=(12, 2))
        found = plane.region(values)
        away = -found.mean
        t2 = 12 * away @ np.linalg.inv(np.cov(values, rowvar=False)) @ away
        edge = (
            12
            * (found.outline[0] - found.mean)
            @ np.linalg.inv(np.cov(values, rowvar=False))
            @ (found.outline[0] - found.mean)
        )
        inside += t2 <= edge
    assert 0.92 < inside / 400 < 0.98


def test_a_quantity_without_spread_gives_a_line():
    values = np.column_stack([np.ones(5), [0.1, 0.2, 0.3, 0.2, 0.1]])
    assert plane.region(values).outline[:, 0] == pytest.approx(np.ones(97))


def shifts(**columns):
    rows = [{"model": "a", "session_id": str(i), "turn": 5, "type": "switch"} for i in range(4)]
    return pd.DataFrame(rows).assign(**columns)


def test_a_run_without_fresh_users_says_what_is_missing():
    with pytest.raises(NoDataError, match="no fresh users; the arms shift, none and fresh are needed"):
        plane.ability_adaptation(shifts(fresh_gain=np.nan, history_cost=np.nan, placebo_cost=np.nan))


def test_a_scenario_counts_once_however_many_shifts_it_has():
    table = pd.concat(
        [shifts(history_cost=[0.1, 0.2, 0.3, 0.4]), shifts(history_cost=[0.3, 0.4, 0.5, np.nan])]
    )
    found = plane.by_scenario(table, "a", ["history_cost"])
    assert found["history_cost"].tolist() == pytest.approx([0.2, 0.3, 0.4, 0.4])


def test_the_profile_has_every_reply_and_all_together():
    turns = pd.DataFrame({
        "model": "a", "session_id": ["0"] * 4 + ["1"] * 4, "turn": [4, 5, 6, 7] * 2,
        "since_shift": pd.array([None, 0, 1, 2] * 2, dtype="Int64"),
        "uptake": [np.nan, 0.0, 1.0, 1.0, np.nan, 0.5, 1.0, np.nan], "release": np.nan, "retention": np.nan,
    })  # fmt: skip
    table = plane.profile(turns, shifts().iloc[:2]).set_index(["part", "type", "reply"])["mean"]
    assert table["uptake", "switch", "0"] == pytest.approx(0.25)
    assert table["uptake", "all types", "all"] == pytest.approx(3.5 / 5)
    with pytest.raises(NoDataError, match="no reply after a shift"):
        plane.profile(turns.assign(uptake=np.nan), shifts())
