"""The numbers behind the figures, on tables small enough to add up by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from crs_lib.core import rng
from crs_lib.core.errors import InputError
from crs_lib.figures import base, pairs, recovery
from crs_lib.figures import scores as score_figures
from crs_lib.figures import shifts as shift_figures
from crs_lib.stats import Design

NA = None


def turns(since, model="a", session="s", **columns):
    frame = pd.DataFrame({"model": model, "session_id": session, "turn": range(1, len(since) + 1)})
    return frame.assign(since_shift=pd.array(since, dtype="Int64"), **columns)


def test_turns_are_aligned_at_the_shift_and_never_across_another_one():
    """Shifts at turns 4 and 7: turn 5 is +1 of the first and −2 of the second, turn 4 never −3 of turn 7."""
    frame = turns([NA, NA, NA, 0, 1, 2, 0, 1, 2, 3])
    found = recovery.around_shifts(frame, before=3, after=2)
    pairs = sorted(zip(found["turn"], found["offset"], strict=True))
    assert pairs == [
        (1, -3), (2, -2), (3, -1), (4, 0), (5, -2), (5, 1), (6, -1), (6, 2), (7, 0), (8, 1), (9, 2),
    ]  # fmt: skip


def test_sessions_and_systems_do_not_run_into_one_another():
    parts = [turns([NA, NA, NA]), turns([NA, 0, 1], session="t"), turns([0, 1, 2], model="b")]
    found = recovery.around_shifts(pd.concat(parts, ignore_index=True), before=3, after=1)
    keys = zip(found["model"], found["session_id"], found["turn"], found["offset"], strict=True)
    assert sorted(keys) == [
        ("a", "t", 1, -1),
        ("a", "t", 2, 0),
        ("a", "t", 3, 1),
        ("b", "s", 1, 0),
        ("b", "s", 2, 1),
    ]


def test_the_share_of_shifts_counts_sessions_that_have_not_shifted_yet():
    """Turn 2: one of the two sessions shifts there, the other has not shifted at all: one half."""
    frame = pd.concat([turns([NA, 0, 1]), turns([NA, NA, 0], session="t")])
    assert recovery.shift_share(frame).to_dict() == {1: 0.0, 2: 0.5, 3: 0.5}


def test_waiting_is_censored_at_the_last_reply_that_was_seen():
    """Watched for 4 replies (0 to 3) without recovery: still waiting after reply 3; unwatched: left out."""
    shifts = pd.DataFrame(
        {"model": ["a"] * 4, "watched": [4, 3, 2, 0], "delay_item": [np.nan, 0.0, 1.0, np.nan]}
    )
    found = recovery.waiting(shifts)
    assert found["time"].tolist() == [3.0, 0.0, 1.0]
    assert found["event"].tolist() == [False, True, True]


def test_a_curve_ends_with_the_last_reply_that_ten_shifts_wait_for():
    """Twelve at risk before reply 2, nine before reply 3; of four shifts all count."""
    assert recovery.followed(pd.Series([0.0] * 5 + [2.0] * 3 + [3.0] * 9)) == 2
    assert recovery.followed(pd.Series([0.0, 1.0, 4.0, 4.0])) == 0


def test_pairs_that_do_not_fit_on_a_page_are_those_of_the_plan_or_neighbours():
    many = pd.DataFrame({"diff": range(60), "declared": False, "neighbours": [n < 20 for n in range(60)]})
    assert len(pairs._on_a_page(many)) == 20
    many.loc[3:5, "declared"] = True
    assert pairs._on_a_page(many)["diff"].tolist() == [5, 4, 3]
    assert pairs._on_a_page(many.iloc[:45])["diff"].tolist() == [*range(44, -1, -1)]


def test_means_by_cell_leave_out_what_is_missing():
    frame = pd.DataFrame(
        {
            "model": ["a", "a", "a", "b", "b", "b"],
            "session_id": ["1", "2", "3"] * 2,
            "score": [0.0, 1.0, np.nan, np.nan, np.nan, np.nan],
        }
    )
    found = base.means(frame, ["model"], "score").set_index("model")
    assert found.loc["a", "mean"] == 0.5
    assert (found.loc["a", "n"], found.loc["a", "n_missing"]) == (2, 1)
    assert np.isnan(found.loc["b", "mean"])
    assert found.loc["b", "n"] == 0


def test_the_interval_of_a_mean_resamples_sessions_not_turns():
    """Ten equal turns of a session say no more than one: the interval is that of the session means."""
    draw = rng.stream(1, "test").random(12)
    one = pd.DataFrame({"model": "a", "session_id": range(12), "score": draw})
    ten = pd.concat([one] * 10)
    first, second = (base.means(frame, ["model"], "score") for frame in (one, ten))
    assert first[["mean", "low", "high"]].to_numpy() == pytest.approx(
        second[["mean", "low", "high"]].to_numpy()
    )
    assert first["low"].iloc[0] < draw.mean() < first["high"].iloc[0]


def test_counts_for_captions():
    frame = pd.concat([turns([NA, 0, 1]), turns([0, 1, 2], model="b")])
    assert base.counts([frame]) == {"systems": 2, "sessions": 1, "turns": 3, "shifts": 1}
    scores = pd.DataFrame({"model": ["a", "b"], "metric": "item_tas", "n": [5, 4], "n_missing": [0, 1]})
    assert base.counts([scores]) == {"systems": 2, "sessions": 5, "turns": 0, "shifts": 0}
    assert base.counts([]) == {"systems": 0, "sessions": 0, "turns": 0, "shifts": 0}


def test_concepts_are_counted_once_a_turn_and_ranked_with_ties_by_name():
    """Four turns: x in three of them, y and w in one, twice in one turn counting once."""
    lists = [["x", "y", "y"], np.array(["x"]), ["x", "w"], None]
    frame = turns([NA] * 4, missing_concepts=lists).assign(session_id=["1", "1", "2", "2"])
    found = shift_figures.concept_shares(frame, "missing_concepts", 3)
    assert found["concept"].tolist() == ["x", "w", "y"]
    assert found["share"].tolist() == [0.75, 0.25, 0.25]
    assert found["n"].tolist() == [3, 1, 1]
    assert (found["low"] <= found["share"]).all() and (found["share"] <= found["high"]).all()


def test_recovery_by_type_has_wilsons_interval():
    """8 of 10: centre (0.8 + z²/20)/(1 + z²/10), half-width from the same formula, z = 1.96."""
    frame = pd.DataFrame({"model": "a", "session_id": range(12), "type": ["switch"] * 10 + ["relax"] * 2})
    frame["recovered_item"] = [True] * 8 + [False] * 2 + [True, False]
    row = shift_figures.recovered_by_type(frame).set_index("type").loc["switch"]
    z = scipy_stats.norm.ppf(0.975)
    centre, half = (
        (0.8 + z**2 / 20) / (1 + z**2 / 10),
        z * (0.8 * 0.2 / 10 + z**2 / 400) ** 0.5 / (1 + z**2 / 10),
    )
    assert (row["share"], row["n"]) == (0.8, 10)
    assert (row["low"], row["high"]) == (pytest.approx(centre - half), pytest.approx(centre + half))
    assert shift_figures.recovered_by_type(frame)["type"].tolist() == ["switch", "relax"]


def sessions(n=30, systems=("a",)):
    draw = rng.stream(2, "test")
    parts = []
    for place, name in enumerate(systems):
        x = draw.random(n)
        y = x + draw.random(n) - 3 * place
        parts.append(pd.DataFrame({"model": name, "session_id": range(n), "x": x + place, "y": y, "c": 1.0}))
    return pd.concat(parts, ignore_index=True)


def test_with_one_system_the_correlation_is_spearmans():
    frame = sessions()
    found = pairs.within_correlations(frame, ["x", "y"]).iloc[0]
    assert found["correlation"] == pytest.approx(scipy_stats.spearmanr(frame["x"], frame["y"]).statistic)
    assert found["low"] < found["correlation"] < found["high"]


def test_differences_between_systems_do_not_show_as_correlation():
    """Within systems x and y rise together; over all sessions they fall, as the systems' means do."""
    frame = sessions(systems=("a", "b", "c"))
    assert scipy_stats.spearmanr(frame["x"], frame["y"]).statistic < 0
    assert pairs.within_correlations(frame, ["x", "y"])["correlation"].iloc[0] > 0.4


def test_a_constant_has_no_correlation_and_missing_rows_are_counted():
    frame = sessions()
    frame.loc[:4, "y"] = np.nan
    found = pairs.within_correlations(frame, ["x", "y", "c"]).set_index(["x", "y"])
    assert (found.loc[("x", "y"), "n"], found.loc[("x", "y"), "n_missing"]) == (25, 5)
    assert np.isnan(found.loc[("x", "c"), "correlation"])


def test_bars_join_the_largest_runs_of_systems_that_are_not_told_apart():
    """0, 1 and 2 are alike, and 2 and 3; 0 and 3 are told apart: two runs, the one within the first is left out."""
    same = np.ones((4, 4), dtype=bool)
    same[0, 3] = same[3, 0] = same[1, 3] = same[3, 1] = False
    assert pairs.cliques(same) == [(0, 2), (2, 3)]
    assert pairs.cliques(np.eye(3, dtype=bool)) == []


def test_paired_tests_tell_systems_apart_whose_differences_are_small_and_steady():
    draw = np.random.default_rng(0)
    base = draw.normal(size=40)
    values = {
        "a": base + 0.1 + 0.02 * draw.normal(size=40),
        "b": base,
        "c": base + 0.02 * draw.normal(size=40),
    }
    frame = pd.DataFrame(values).rename_axis("scenario").reset_index().melt("scenario", var_name="system")
    same = pairs.alike(frame, ["a", "b", "c"], Design())
    assert same.tolist() == [[True, False, False], [False, True, True], [False, True, True]]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.424, ".42"), (-0.068, "−.07"), (1.0, "1.00"), (-1.0, "−1.00"), (-0.001, ".00"), (0.999, "1.00")],
)
def test_correlations_print_without_a_leading_zero(value, text):
    assert pairs.signed(value) == text


def test_only_complete_scenarios_are_compared():
    frame = pd.DataFrame(
        {"model": ["a", "b"] * 3, "session_id": [1, 1, 2, 2, 3, 3], "item_tas": [1, 2, 3, np.nan, 5, 6]}
    )
    assert sorted(pairs.complete(frame, "item_tas")["session_id"].unique()) == [1, 3]
    with pytest.raises(base.NoDataError, match="nothing can be compared"):
        pairs.complete(frame[frame["session_id"] < 3], "item_tas")


def test_components_are_turned_so_that_outward_is_better():
    """Leakage 0.2 of [0, 1], interval 0.1 to 0.4, lower is better: 0.8, from 0.6 to 0.9."""
    row = pd.Series({"mean": 0.2, "low": 0.1, "high": 0.4})
    assert score_figures.as_share("topic_interference_leakage", row) == pytest.approx((0.8, 0.6, 0.9))
    assert score_figures.as_share("satisfaction", row) == pytest.approx((0.2, 0.1, 0.4))
    assert score_figures.as_share("topic_adaptation_score", row) == pytest.approx((1.2 / 3, 1.1 / 3, 1.4 / 3))


def test_a_table_without_the_columns_is_named():
    with pytest.raises(InputError, match=r"no column \['turn'\]; it has \['model'\]"):
        base.require(pd.DataFrame({"model": ["a"]}), ["turn"])


def test_a_table_may_say_its_own_counts():
    frame = pd.DataFrame({"metric": ["x", "y"], "n_topics": [3, 8], "n_missing": [1, 2]})
    assert base.counts([frame]) == {"systems": 0, "sessions": 0, "turns": 0, "shifts": 0, "n_topics": 8}


def test_judges_scores_become_columns_and_nobody_judged_is_no_column():
    frame = pd.DataFrame({"model": ["a", "b"], "judge": [{"coherence": 4, "tact": None}, None]}, index=[5, 7])
    joined, names = pairs.with_judges(frame)
    assert names == ["judge_coherence"]
    assert joined["judge_coherence"].tolist()[0] == 4
    assert np.isnan(joined["judge_coherence"].tolist()[1])
    nobody = [{"coherence": None}, {"coherence": None}]
    assert pairs.with_judges(frame.assign(judge=nobody))[1] == []
    assert pairs.with_judges(frame[["model"]])[1] == []


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        (640, "tokens_in", "640"), (1_540, "tokens_in", "1.5 k"), (2_500_000, "tokens_out", "2.5 M"),
        (42, "seconds", "42 s"), (90, "seconds", "1.5 min"), (9_000, "seconds", "2.5 h"),
    ],
)  # fmt: skip
def test_sums_are_a_few_characters(value, column, text):
    assert score_figures._total(value, column) == text
