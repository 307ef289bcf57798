"""A finding follows its data: other numbers, another sentence; no data, a reason."""

import math

import pandas as pd
import pytest

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats import Estimate

SCENARIOS = 10


def paired(gap, noise=0.0):
    """Two systems in ten scenarios of very different height; ``a`` is ahead by ``gap``, give or take."""
    rows = []
    for number in range(SCENARIOS):
        height = number / SCENARIOS
        off = noise * (-1) ** number
        rows += [("a", number, height + gap + off), ("b", number, height)]
    return pd.DataFrame(rows, columns=["system", "scenario", "value"])


def told(gap, noise=0.0, smallest=0.05):
    found = stats.difference_of(paired(gap, noise), "a", "b", "value")
    return stats.compared("a", "b", found, "gain", smallest=smallest)


def test_the_sentence_changes_with_the_data():
    assert told(0.3, 0.01).startswith("The gain of a is higher than that of b by 0.30 [0.29, 0.31]")
    assert told(-0.3, 0.01).startswith("The gain of a is lower than that of b by 0.30 [0.29, 0.31]")
    assert told(0.0, 0.01).startswith("a and b are equivalent in gain within ±0.05: they differ by 0.00 [")
    assert told(0.0, 0.5).startswith("Whether a and b differ in gain is not settled: 0.00 [")
    assert told(0.02, 0.01).endswith("less than the smallest difference that matters (0.05).")


def test_intervals_respect_the_pairing():
    """Scenarios differ by 0.9, the pairs by 0.02: only a paired interval can be this narrow."""
    found = stats.difference_of(paired(0.3, 0.01), "a", "b", "value")
    assert found.high - found.low < 0.03
    assert found.n == SCENARIOS


def test_without_an_interval_there_is_no_finding():
    one = paired(0.3).query("scenario == 0")
    sentence = stats.compared("a", "b", stats.difference_of(one, "a", "b", "value"), "gain")
    assert sentence == "No finding: a and b share 1 scenario, too few for an interval of gain."
    assert not sentence.borne


def test_shares_where_all_agree_keep_an_interval():
    frame = pd.DataFrame({"scenario": range(8), "hit": [True] * 8})
    assert stats.share_of(frame, "hit").percent == "100 % [68, 100]"  # 8 / (8 + 1.96²)
    assert stats.share_of(frame.assign(hit=False), "hit").percent == "0 % [0, 32]"
    assert math.isnan(stats.share_of(frame.assign(hit=None), "hit").value)


def test_numbers_are_printed_in_one_form():
    assert str(Estimate(-0.004, -0.2, 0.2, 5)) == "0.00 [−0.20, 0.20]"
    assert Estimate(0.412, 0.35, 0.47, 5).percent == "41 % [35, 47]"
    assert Estimate(0.5, math.nan, math.nan, 1).percent == "50 % (no interval)"
    assert stats.listed(["a"]) == "a" and stats.listed(["a", "b", "c"]) == "a, b and c"


def test_how_a_notebook_ends():
    first, none = stats.finding("a leads."), stats.no_finding("one session")
    assert repr(stats.learnt(first, none)) == "a leads."
    assert "no finding" in stats.learnt(none)[0]
    assert stats.not_shown("x.", "") == ("x.",)
    assert first._repr_markdown_() == "**Finding.** a leads." and none._repr_markdown_().startswith("*No")
    with pytest.raises(InputError, match="at most 3"):
        stats.learnt(*[first] * 4)
    with pytest.raises(InputError, match="full stop"):
        stats.finding("a leads")


def test_what_is_not_resolved():
    estimates = [Estimate(0.1, 0.0, 0.2, 12), Estimate(0.1, 0.05, 0.15, 10)]
    assert stats.resolution(estimates, "gain") == (
        "With 10 scenarios, differences in gain below 0.10 are not resolved."
    )
    assert stats.resolution([Estimate(1.0, math.nan, math.nan, 1)], "gain") == ""
