"""Tables of notebooks: which side a column stands on, what its head says, and that no text is cut off."""

import re

import pandas as pd

from crs_lib.notebooks.look import _to_html, heading

LONG = "Follows the user's logged state and shows the films of the largest part of it that any film meets."


def cells(frame):
    """Side and text of every cell, row by row, the heads first."""
    found = re.findall(r'<t[hd] style="text-align: (\w+);[^>]*>(.*?)</t[hd]>', _to_html(frame))
    width = len(re.findall("<th ", _to_html(frame)))
    return [found[start : start + width] for start in range(0, len(found), width)]


def test_text_stands_left_and_whole_numbers_right_on_their_point():
    frame = pd.DataFrame(
        {"system": ["a<b", LONG], "mean": [-0.0001, -0.25], "n": [12, 3], "p_holm": ["p < .001", ""]}
    )
    rows = cells(frame)
    assert rows[0] == [("left", "system"), ("right", "mean"), ("right", "n"), ("left", "p, Holm")]
    assert rows[1] == [("left", "a&lt;b"), ("right", "0.000"), ("right", "12"), ("left", "p &lt; .001")]
    assert rows[2][1] == ("right", "−0.250") and rows[2][0][1].startswith("Follows the user")
    assert rows[2][0][1].endswith("any film meets."), "a text is never cut off"


def test_missing_values_are_dashes_an_index_is_shown_where_it_says_something():
    rows = cells(pd.DataFrame({"statistic": [1.5, ""], "estimate": [None, 2.0], "holds": [True, False]}))
    assert [side for side, _ in rows[1]] == ["right", "right", "left"]
    assert rows[1][1][1] == "–" and rows[2][0][1] == ""
    named = pd.DataFrame({"turns": [1]}, index=pd.Index(["a"], name="system"))
    assert cells(named)[1] == [("left", "a"), ("right", "1")]
    assert "… and 40 rows more" in _to_html(pd.DataFrame({"x": range(100)}))
    assert heading("session_id") == "session id"
