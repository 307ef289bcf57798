"""Tables of tests as the notebook on statistics shows them."""

import numpy as np
import pandas as pd

from crs_lib import stats
from crs_lib.report import statistics
from tests.unit.report.test_consistent import made


def test_who_serves_nobody_is_not_ranked_however_little_it_loses():
    frame = made(0.3, 0.2)
    idle = frame[frame["model"] == "oracle"].assign(model="echo", straight_gain=0.0)
    scores = pd.concat([frame, idle]).rename(columns={"model": "system", "session_id": "scenario"})
    config = statistics.plan_for("movies", ["oracle", "tracker", "echo"], "default", scores)
    ladder = stats.ladder(scores, config)
    board = statistics.board(ladder, scores, config).set_index("system")
    assert board.index.tolist() == ["oracle", "tracker", "echo"]
    assert board.loc["echo", ["tied", "rank_low"]].tolist() == ["not ranked", ""]
    assert board["straight_gain"].tolist() == [0.8, 0.8, 0.0]
    told = statistics.held(ladder, config)
    assert told.startswith(
        "Of 1 declared contrast 1 differs; the largest difference is oracle less tracker, −0.30 ["
    )


def test_costs_stand_by_type_of_the_first_shift_with_the_control_and_later_shifts_beside():
    frame = made(0.3, 0.2).assign(misfit=0.1, delay=0.0)
    control = frame.assign(session_id="r" + frame["session_id"], type="refine", primary=False, shift_cost=0.0)
    later = frame.assign(turn=9, type="relax", primary=False, shift_cost=0.5)
    table = statistics.costs_by_type(pd.concat([frame, control, later])).set_index("system")
    assert list(table) == ["switch (60)", "refine (60)", "misfit (60)", "later shifts (60)"]
    assert table.loc["tracker", "switch (60)"].startswith("0.30 [0.2")
    assert table.loc["tracker", "refine (60)"] == "0.00 [−0.02, 0.02]"
    assert "note" in statistics.costs_by_type(frame.drop(columns="shift_cost"))


def test_a_metric_by_voice_has_rows_for_what_voices_are_for_and_none_where_one_voice_talks():
    draw = np.random.default_rng(1)
    names = ["terse", "critic", "quoting", "chatty"]
    rows = [
        {
            "model": system,
            "session_id": f"{n:05d}",
            "voice": names[n % 4],
            "shift_cost": cost + draw.normal(0, 0.1),
        }
        for n in range(80)
        for system, cost in (("tracker", 0.3 if n % 4 == 1 else 0.1), ("oracle", 0.0))
    ]
    table = statistics.by_voice(pd.DataFrame(rows)).set_index("voice")
    assert list(table.index[:2]) == ["confirmation", "development"]
    assert list(table["scenarios"]) == [40, 40, 20, 20, 20, 20]
    assert table.loc["critic", "tracker"].startswith(("0.2", "0.3"))
    assert table.loc["chatty", "tracker"].startswith(("0.0", "0.1"))
    assert statistics.by_voice(pd.DataFrame(rows).assign(voice="A")) is None
    assert statistics.by_voice(pd.DataFrame(rows).drop(columns="voice")) is None


def test_scores_without_straight_users_say_that_no_adaptation_is_tested():
    """Logs of the thesis and of others: the outcome is another, and the table of the plan says what is missing."""
    scores = made(0.3, 0.2).rename(columns={"model": "system", "session_id": "scenario"})
    both = [statistics.plan_for("movies", ["oracle", "tracker"], "default", frame) for frame in (
        scores, scores.drop(columns=["shift_cost", "straight_gain"]),
    )]  # fmt: skip
    told = [statistics.plan_table(plan).set_index("declared")["how"] for plan in both]
    assert [plan.primary_outcome for plan in both] == ["shift_cost", "normalised_gain"]
    assert "adaptation" not in told[0] and told[1]["adaptation"].startswith("not tested")
    assert both[1].ability == ""
