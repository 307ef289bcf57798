"""Rankings and trends against printed examples, scipy and loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as sp

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats.ranking import _tied_sets, leaderboard
from tests.helpers.stats_examples import matrix_frame, random_matrix


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=2, max_size=8))
def test_kendalls_w_is_the_tie_corrected_formula(values):
    """W = 12 S / (m^2 (k^3 - k) - m sum(t^3 - t)), Siegel and Castellan (1988), section 9.6."""
    ranks = sp.rankdata(values, axis=1)
    m, k = ranks.shape
    ties = sum((n**3 - n) for row in values for n in np.unique(row, return_counts=True)[1])
    bottom = m**2 * (k**3 - k) - m * ties
    row = stats.friedman(matrix_frame(values)).iloc[0]
    expected = 12 * ((ranks.sum(axis=0) - m * (k + 1) / 2) ** 2).sum() / bottom if bottom else np.nan
    assert row["kendall_w"] == pytest.approx(expected, nan_ok=True)
    assert not bottom or 0 <= row["kendall_w"] <= 1 + 1e-12


def test_leaderboard_orders_and_tells_apart():
    rng, names = np.random.default_rng(3), ["low", "mid1", "mid2", "top"]
    x = rng.normal(size=(60, 1)) + 0.3 * rng.normal(size=(60, 4)) + [0.0, 1.0, 1.0, 2.0]
    apart = {frozenset(pair) for pair in itertools.combinations(names, 2)} - {frozenset({"mid1", "mid2"})}
    board = leaderboard(matrix_frame(x, names), stats.Design(resamples=500), apart=apart)
    assert (board["system"][0], board["system"][3], board["rank"].tolist()) == ("top", "low", [1, 2, 3, 4])
    tied = board.set_index("system")["tied"]
    assert tied["mid1"] == tied["mid2"] and len(set(tied)) == 3
    assert (board["rank_low"] < board["rank_high"]).tolist() == [False, True, True, False]
    assert board["p_best"].sum() == pytest.approx(1) and board["p_best"][0] == 1
    turned = leaderboard(
        matrix_frame(-x, names), stats.Design(resamples=500), apart=apart, higher_is_better=False
    )
    assert turned[["system", "rank_high"]].equals(board[["system", "rank_high"]])
    equal = leaderboard(matrix_frame(np.ones((6, 3))), stats.Design(resamples=50), apart=set())
    assert (equal["rank"].tolist(), equal["tied"].tolist()) == ([2, 2, 2], ["a", "a", "a"])
    assert equal["p_best"].tolist() == pytest.approx([1 / 3] * 3)


def test_rank_intervals_equal_a_plain_bootstrap():
    x = random_matrix(5, 25, 4, effect=0.1)
    board = leaderboard(matrix_frame(x), stats.Design(resamples=4000), apart=set()).set_index("system")
    rng = np.random.default_rng(0)
    drawn = np.array([sp.rankdata(-x[rng.integers(0, 25, 25)].mean(axis=0)) for _ in range(4000)])
    for j in range(4):
        assert board.loc[f"s{j}", "p_best"] == pytest.approx((drawn[:, j] == 1).mean(), abs=0.04)
        low, high = np.quantile(drawn[:, j], [0.025, 0.975], method="inverted_cdf")
        assert abs(board.loc[f"s{j}", "rank_low"] - low) <= 1
        assert abs(board.loc[f"s{j}", "rank_high"] - high) <= 1


def alike_pairs(k):
    pairs = k * (k - 1) // 2
    return st.tuples(st.just(k), st.lists(st.booleans(), min_size=pairs, max_size=pairs))


@settings(max_examples=20)
@given(st.integers(2, 7).flatmap(alike_pairs))
def test_letters_are_shared_exactly_by_the_pairs_not_told_apart(case):
    k, alike = case
    letters = _tied_sets(k, alike, list(range(k)))
    for (i, j), same in zip(itertools.combinations(range(k), 2), alike, strict=True):
        assert bool(set(letters[i]) & set(letters[j])) == same
    assert all(letters)


def test_bad_orders_say_what_was_expected():
    frame = matrix_frame(random_matrix(1, 5, 4))
    for order in (["s0", "s0", "s1"], ["s0", "s1", "oracle"], ["s0"]):
        with pytest.raises(InputError, match=r"order \[|systems"):
            stats.page_trend(frame, order)
    assert stats.page_trend(frame, ["s2", "s0", "s3"])["n"][0] == 5
    with pytest.raises(InputError, match="no column 'score'"):
        stats.page_trend(frame, ["s0", "s1", "s2"], stats.Design(value="score"))
