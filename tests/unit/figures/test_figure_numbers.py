"""The numbers behind the figures, on tables small enough to add up by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from crs_lib.core import rng
from crs_lib.core.errors import InputError
from crs_lib.figures import base, pairs, recovery, scores, shifts, stability
from crs_lib.figures.base import NoDataError

NA = None


def turns(since, model="a", session="s", **columns):
    frame = pd.DataFrame({"model": model, "session_id": session, "turn": range(1, len(since) + 1)})
    return frame.assign(since_shift=pd.array(since, dtype="Int64"), **columns)


def test_turns_are_aligned_at_the_shift_and_never_across_another_one():
    """Shifts at turns 4 and 7: turn 5 is +1 of the first and −2 of the second, turn 4 never −3 of turn 7."""
    found = recovery._around_shifts(turns([NA, NA, NA, 0, 1, 2, 0, 1, 2, 3]), before=3, after=2)
    assert sorted(zip(found["turn"], found["offset"], strict=True)) == [
        (1, -3), (2, -2), (3, -1), (4, 0), (5, -2), (5, 1), (6, -1), (6, 2), (7, 0), (8, 1), (9, 2),
    ]  # fmt: skip
    parts = [turns([NA, NA, NA]), turns([NA, 0, 1], session="t"), turns([0, 1, 2], model="b")]
    found = recovery._around_shifts(pd.concat(parts, ignore_index=True), before=3, after=1)
    keys = zip(found["model"], found["session_id"], found["turn"], found["offset"], strict=True)
    assert sorted(keys) == [
        ("a", "t", 1, -1), ("a", "t", 2, 0), ("a", "t", 3, 1), ("b", "s", 1, 0), ("b", "s", 2, 1),
    ]  # fmt: skip


def test_waiting_is_censored_and_a_curve_ends_where_ten_shifts_wait():
    """Watched for 4 replies (0 to 3) without recovery: still waiting after reply 3; unwatched: left out."""
    found = recovery.waiting(
        pd.DataFrame({"model": ["a"] * 4, "watched": [4, 3, 2, 0], "delay_item": [np.nan, 0, 1, np.nan]})
    )
    assert found["time"].tolist() == [3.0, 0.0, 1.0]
    assert found["event"].tolist() == [False, True, True]
    # Twelve at risk before reply 2, nine before reply 3; of four shifts all count.
    assert recovery._followed(pd.Series([0.0] * 5 + [2.0] * 3 + [3.0] * 9)) == 2
    assert recovery._followed(pd.Series([0.0, 1.0, 4.0, 4.0])) == 0


def test_pairs_on_a_page():
    many = pd.DataFrame({"diff": range(60), "declared": False, "neighbours": [n < 20 for n in range(60)]})
    assert len(pairs._on_a_page(many)) == 20
    many.loc[3:5, "declared"] = True
    assert pairs._on_a_page(many)["diff"].tolist() == [5, 4, 3]
    assert pairs._on_a_page(many.iloc[:45])["diff"].tolist() == [*range(44, -1, -1)]


def test_means_leave_out_what_is_missing_and_resample_sessions_not_turns():
    values = {
        "model": ["a"] * 3 + ["b"] * 3, "session_id": ["1", "2", "3"] * 2, "score": [0, 1] + [np.nan] * 4,
    }  # fmt: skip
    found = base.means(pd.DataFrame(values), ["model"], "score").set_index("model")
    assert found.loc["a", ["mean", "n", "n_missing"]].tolist() == [0.5, 2, 1]
    assert np.isnan(found.loc["b", "mean"]) and found.loc["b", "n"] == 0
    # Ten equal turns of a session say no more than one: the interval is that of the session means.
    one = pd.DataFrame({"model": "a", "session_id": range(12), "score": rng.stream(1, "test").random(12)})
    first, second = (base.means(frame, ["model"], "score") for frame in (one, pd.concat([one] * 10)))
    ends = ["mean", "low", "high"]
    assert first[ends].to_numpy() == pytest.approx(second[ends].to_numpy())
    assert first["low"].iloc[0] < one["score"].mean() < first["high"].iloc[0]


@pytest.mark.parametrize(("frames", "counted"), [
    ([turns([NA, 0, 1]), turns([0, 1, 2], model="b")], (2, 1, 3, 1)),
    ([pd.DataFrame({"model": ["a", "b"], "metric": "x", "n": [5, 4], "n_missing": [0, 1]})], (2, 5, 0, 0)),
    ([], (0, 0, 0, 0)),
])  # fmt: skip
def test_counts_for_captions(frames, counted):
    found = base.counts([pd.concat(frames)] if frames else [])
    assert found == dict(zip(("systems", "sessions", "turns", "shifts"), counted, strict=True))


def test_recovery_by_type_has_wilsons_interval():
    """8 of 10: centre (0.8 + z²/20)/(1 + z²/10), half-width from the same formula, z = 1.96."""
    frame = pd.DataFrame({"model": "a", "session_id": range(12), "type": ["switch"] * 10 + ["relax"] * 2})
    frame["recovered_item"] = [True] * 8 + [False] * 2 + [True, False]
    found = shifts.recovered_by_type(frame)
    row, z = found.set_index("type").loc["switch"], scipy_stats.norm.ppf(0.975)
    centre, half = 0.8 + z**2 / 20, z * (0.8 * 0.2 / 10 + z**2 / 400) ** 0.5
    assert (row["share"], row["n"]) == (0.8, 10)
    assert row["low"] == pytest.approx((centre - half) / (1 + z**2 / 10))
    assert row["high"] == pytest.approx((centre + half) / (1 + z**2 / 10))
    assert found["type"].tolist() == ["switch", "relax"]


def sessions(n=30, systems=("a",)):
    draw, parts = rng.stream(2, "test"), []
    for place, name in enumerate(systems):
        x = draw.random(n)
        y = x + draw.random(n) - 3 * place
        parts.append(pd.DataFrame({"model": name, "session_id": range(n), "x": x + place, "y": y, "c": 1.0}))
    return pd.concat(parts, ignore_index=True)


def test_correlations_are_those_within_systems():
    frame = sessions()
    frame.loc[:4, "y"] = np.nan
    found = pairs._within_correlations(frame, ["x", "y", "c"]).set_index(["x", "y"])
    both = found.loc["x", "y"]
    assert both["correlation"] == pytest.approx(
        scipy_stats.spearmanr(*frame[["x", "y"]].dropna().T.values)[0]
    )
    assert both["low"] < both["correlation"] < both["high"]
    assert np.isnan(found.loc[("x", "c"), "correlation"])
    # Within systems x and y rise together; over all sessions they fall, as the systems' means do.
    frame = sessions(systems=("a", "b", "c"))
    assert scipy_stats.spearmanr(frame["x"], frame["y"]).statistic < 0
    assert pairs._within_correlations(frame, ["x", "y"])["correlation"].iloc[0] > 0.4


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.424, ".42"), (-0.068, "−.07"), (1.0, "1.00"), (-1.0, "−1.00"), (-0.001, ".00"), (0.999, "1.00")],
)
def test_correlations_print_without_a_leading_zero(value, text):
    assert pairs.signed(value) == text


def test_missing_columns_are_named():
    with pytest.raises(InputError, match=r"no column \['turn'\]; it has \['model'\]"):
        base.require(pd.DataFrame({"model": ["a"]}), ["turn"])
    frame = pd.DataFrame({"metric": ["x", "y"], "n_topics": [3, 8], "n_missing": [1, 2]})
    assert base.counts([frame]) == {"systems": 0, "sessions": 0, "turns": 0, "shifts": 0, "n_topics": 8}


def test_judges_scores_become_columns_and_nobody_judged_is_no_column():
    frame = pd.DataFrame({"model": ["a", "b"], "judge": [{"coherence": 4, "tact": None}, None]}, index=[5, 7])
    joined, names = pairs.with_judges(frame)
    assert names == ["judge_coherence"]
    assert joined["judge_coherence"].tolist()[0] == 4
    assert np.isnan(joined["judge_coherence"].tolist()[1])
    nobody = frame.assign(judge=[{"coherence": None}] * 2)
    assert pairs.with_judges(nobody)[1] == pairs.with_judges(frame[["model"]])[1] == []


@pytest.mark.parametrize(("value", "column", "text"), [
    (640, "tokens_in", "640"), (1_540, "tokens_in", "1.5 k"), (2_500_000, "tokens_out", "2.5 M"),
    (42, "seconds", "42 s"), (90, "seconds", "1.5 min"), (9_000, "seconds", "2.5 h"),
])  # fmt: skip
def test_sums_are_a_few_characters(value, column, text):
    assert scores._total(value, column) == text


def away(values, points):
    """Hotelling's T² of some points against the mean of the values."""
    gaps = np.atleast_2d(points) - values.mean(axis=0)
    return len(values) * np.einsum("ij,jk,ik->i", gaps, np.linalg.inv(np.cov(values, rowvar=False)), gaps)


def test_the_region_is_hotellings_and_holds_the_true_mean():
    values = rng.stream(1, "region").normal(size=(20, 2)) @ [[1, 0.5], [0, 0.3]]
    edge = 2 * 19 / 18 * scipy_stats.f.ppf(0.95, 2, 18)
    assert away(values, shifts._region(values)) == pytest.approx(np.full(97, edge))
    draw = rng.stream(2, "cover")
    samples = [draw.normal(size=(12, 2)) for _ in range(400)]
    inside = [away(values, [0, 0])[0] <= away(values, shifts._region(values)[0])[0] for values in samples]
    assert 0.92 < np.mean(inside) < 0.98
    values = np.column_stack([np.ones(5), [0.1, 0.2, 0.3, 0.2, 0.1]])
    assert shifts._region(values)[:, 0] == pytest.approx(np.ones(97))


def four_shifts(**columns):
    rows = [{"model": "a", "session_id": str(i), "turn": 5, "type": "switch"} for i in range(4)]
    return pd.DataFrame(rows).assign(**columns)


def test_the_plane_shows_ratios_of_means_of_those_who_have_something_to_lose():
    made = {"straight_gain": [1.0, 0.5, 0.6, 0.7], "shift_cost": [0.5, 0.0, 0.3, 0.2]}
    able = four_shifts(primary=True, conversation_cost=[0.1, 0.0, 0.2, 0.3], **made)
    idle = able.assign(model="b", straight_gain=able["straight_gain"] / 10)
    later = able.assign(primary=False, shift_cost=9.0, turn=9)
    plane, beside = shifts._ability_adaptation(pd.concat([able, later, idle])).axes
    middles = [line.get_xydata()[0] for line in plane.lines if len(line.get_xdata()) == 1]
    assert np.array(middles) == pytest.approx(np.array([[0.7, 0.25 / 0.7]]))
    assert sum(len(line.get_xdata()) == 1 for line in beside.lines) == 2
    lacking = dict.fromkeys(("straight_gain", "shift_cost", "conversation_cost"), np.nan)
    with pytest.raises(NoDataError, match="no straight users; the arms shift and straight are needed"):
        shifts._ability_adaptation(four_shifts(primary=True, **lacking))
    costs = [0.1, 0.2, 0.3, 0.4], [0.3, 0.4, 0.5, np.nan]
    found = shifts._by_scenario(pd.concat(four_shifts(shift_cost=c) for c in costs), "a", ["shift_cost"])
    assert found["shift_cost"].tolist() == pytest.approx([0.2, 0.3, 0.4, 0.4])


def test_the_profile_is_over_all_replies_to_a_shift():
    after = [np.nan, 0.0, 1.0, 1.0, np.nan, 0.5, 1.0, np.nan]
    frame = pd.concat([turns([NA, 0, 1, 2], session=name) for name in "01"], ignore_index=True)
    frame = frame.assign(turn=frame["turn"] + 3, uptake=after, release=np.nan, retention=np.nan)
    table = shifts._profile(frame, four_shifts().iloc[:2]).set_index(["part", "type"])["mean"]
    assert table.to_dict() == {("uptake", "switch"): 0.7, ("uptake", "all types"): 0.7}
    with pytest.raises(NoDataError, match="no reply after a shift"):
        shifts._profile(frame.assign(uptake=np.nan), four_shifts())


def at_risk(answers, system, happened):
    """Twenty shifts at the first reply, so many of them recovered, each by chance with a tenth."""
    rows = {"model": system, "session_id": [str(n) for n in range(20)], "reply": 0, "expected": 0.1}
    return pd.DataFrame(rows | {"event": [n < happened for n in range(20)], "answers": answers})


def test_recovery_beyond_chance_is_the_estimate_at_the_last_reply_and_an_arrow_below_the_scale():
    """11 of 20 recovered where chance gives a tenth: 1 − .45/.9 = .5; none where chance gives .9: 1 − 1/.1 = −9."""
    certain = at_risk("50 and more", "b", 0).assign(expected=0.9)
    frame = pd.concat([at_risk("1 to 9", "a", 11), certain]).assign(users="Users insist")
    few, many = recovery._recovery_by_answers(frame).axes
    assert any(list(line.get_xdata()) == [pytest.approx(0.5)] for line in few.lines)
    assert [line.get_marker() for line in many.lines if list(line.get_xdata()) == [-1]] == ["<"]


def test_systems_with_the_same_scores_stand_beside_one_another():
    aside = recovery._aside(8)
    assert len(set(aside.round(6))) == 8 and aside.sum() == pytest.approx(0) and abs(aside).max() < 0.5


def test_an_agreement_is_printed_with_its_interval_unless_it_does_not_vary():
    assert stability._tau(0.853, 0.771, 1.0) == ".85 [.77, 1]"
    assert stability._tau(1.0, 1.0, 1.0) == stability._tau(1.0, np.nan, np.nan) == "1"


def test_seeds_are_not_joined_by_lines():
    ends = {"model": "a", "metric": "normalised_gain", "mean": 0.5, "low": 0.4, "high": 0.6}
    rows = [
        {"parameter": name, "value": value, "convention": "default"} | ends
        for name in ("seed", "n_turns") for value in ("1", "2")
    ]  # fmt: skip
    seeds, lengths = scores.sweep_outcomes(pd.DataFrame(rows)).axes
    assert seeds.lines[0].get_linestyle() == "None" and lengths.lines[0].get_linestyle() == "-"
