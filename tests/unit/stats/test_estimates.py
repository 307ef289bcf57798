"""The cluster bootstrap against scipy, formulas written out, and coverage."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from pytest import approx
from scipy import stats as sp

from crs_lib import stats
from crs_lib.core import paths
from crs_lib.stats import Design, Estimate, bootstrap, share_of
from crs_lib.stats.bounded import Means
from crs_lib.stats.design import COST, GAIN, SHARE
from crs_lib.stats.estimate import ENOUGH
from tests.helpers import refused, table
from tests.helpers.stats_examples import matrix_frame, random_matrix

DRAWS = Design(resamples=200)


def test_bca_equals_scipy_up_to_monte_carlo_error():
    """A skewed sample of 40; both with 20000 draws. The BCa shift is larger than the tolerance."""
    x = np.random.default_rng(2).lognormal(0, 1, 40)
    frame = pd.DataFrame({"system": "a", "scenario": range(40), "value": x})
    row = stats.cluster_bootstrap(frame, Design(resamples=20_000, seed=1)).iloc[0]
    theirs = sp.bootstrap((x,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(3))
    assert row["mean"] == approx(x.mean(), rel=1e-12)
    assert row["low"] == approx(theirs.confidence_interval.low, abs=0.02)
    assert row["high"] == approx(theirs.confidence_interval.high, abs=0.06)
    assert row["error"] == approx(theirs.standard_error, rel=0.03)
    draws = np.random.default_rng(4).integers(0, 40, (9999, 40))
    percentile = np.quantile(x[draws].mean(axis=1), 0.975)
    assert row["high"] - percentile > 0.1


def test_weights_are_multinomial_and_independent_of_the_chunks():
    whole = np.vstack(list(bootstrap.bootstrap_weights(7, 3000, 5)))
    parts = list(bootstrap.bootstrap_weights(7, 3000, 5, width=bootstrap.CELLS // 100))
    assert len(parts) == 30
    np.testing.assert_array_equal(whole, np.vstack(parts))
    assert set(whole.sum(axis=1)) == {7}
    assert whole.var() == approx(6 / 7, rel=0.05)  # a cell of a multinomial(7, 1/7): 7 * 1/7 * 6/7
    assert np.corrcoef(whole.T)[0, 1] == approx(-1 / 6, abs=0.06)


@pytest.fixture
def holed():
    """Twelve scenarios of three systems; the second lacks one."""
    x = random_matrix(4, 12, 3)
    x[3, 1] = np.nan
    return x


def test_means_are_over_what_is_there_and_count_it(holed):
    means = stats.cluster_bootstrap(matrix_frame(holed), DRAWS).set_index("system")
    assert means["mean"].to_numpy() == approx(np.nanmean(holed, axis=0))
    assert means.loc["s1", ["n", "n_missing", "clusters"]].tolist() == [11, 1, 11]


def test_differences_are_over_what_both_have_and_count_it(holed):
    gaps = stats.cluster_bootstrap_differences(matrix_frame(holed), DRAWS).set_index(["a", "b"])
    first, second, third = holed.T
    assert gaps.loc[("s0", "s2"), "diff"] == approx(np.mean(first - third))
    assert gaps.loc[("s0", "s1"), "diff"] == approx(np.nanmean(first - second))
    assert gaps.loc[("s0", "s1"), ["n", "n_missing"]].tolist() == [11, 1]


def test_means_depend_on_the_seed_and_not_on_other_systems():
    frame = matrix_frame(random_matrix(4, 12, 3))
    whole = stats.cluster_bootstrap(frame, DRAWS)
    alone = stats.cluster_bootstrap(frame[frame["system"] == "s1"], DRAWS)
    same = whole[whole["system"] == "s1"].reset_index(drop=True)
    pd.testing.assert_frame_equal(same, alone, rtol=1e-9)
    other = stats.cluster_bootstrap(frame, DRAWS.changed(seed=3))
    assert not whole["low"].equals(other["low"])


@pytest.fixture(scope="module")
def correlated():
    """A column, one near to it, one as near with other numbers, one far."""
    rng = np.random.default_rng(5)
    y = rng.normal(size=80)
    near = y + rng.normal(size=80)
    columns = {"y": y, "near": near, "same": 2 * near + 1, "far": y + 3 * rng.normal(size=80)}
    return pd.DataFrame({"scenario": range(80), **columns})


def test_the_difference_of_two_correlations_is_paired(correlated):
    correlation = partial(stats.cluster_bootstrap_correlation, correlated, y="y", design=DRAWS)
    near = correlation("near")["correlation"][0]
    far = correlation("far")["correlation"][0]
    gap = correlation("near", minus="far").iloc[0]
    assert gap["correlation"] == approx(near - far)
    assert gap["low"] < gap["correlation"] < gap["high"]
    none = correlation("near", minus="same").iloc[0]
    assert none["correlation"] == approx(0, abs=1e-12)
    assert math.isnan(none["low"]), "the same in every draw has no interval"


@pytest.mark.slow
@pytest.mark.parametrize("kind, function", [("pearson", sp.pearsonr), ("spearman", sp.spearmanr)])
def test_correlation_equals_scipy(kind, function):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 6, 60).astype(float)
    frame = pd.DataFrame({"scenario": range(60), "x": x, "y": x + rng.normal(size=60) * 2})
    frame.loc[5, "x"] = np.nan
    row = stats.cluster_bootstrap_correlation(frame, "x", "y", Design(resamples=3000), kind=kind).iloc[0]
    both = frame.dropna()
    assert row["correlation"] == approx(function(both["x"], both["y"])[0], rel=1e-10)
    draws = []
    for number in range(1000):
        draw = both.sample(frac=1, replace=True, random_state=number)
        draws.append(function(draw["x"], draw["y"])[0])
    low, high = np.quantile(draws, [0.025, 0.975])
    assert row["low"] == approx(low, abs=0.04)
    assert row["high"] == approx(high, abs=0.04)
    assert row[["n", "n_missing"]].tolist() == [59, 1]


def test_what_does_not_vary_or_is_not_there_has_no_interval():
    single = stats.cluster_bootstrap(matrix_frame([[0.2, 0.4]]), DRAWS).iloc[0]
    assert single["mean"] == 0.2
    assert np.isnan(single["low"])
    flat = stats.cluster_bootstrap(matrix_frame(np.full((6, 2), 0.3)), DRAWS)
    assert flat[["low", "high"]].isna().all(axis=None)
    absent = stats.cluster_bootstrap(matrix_frame([[1.0, np.nan], [2.0, np.nan]]), DRAWS).iloc[1]
    assert np.isnan(absent["mean"])
    assert absent["n_missing"] == 2
    constant = pd.DataFrame({"scenario": [1, 2, 3], "x": 1.0, "y": [1.0, 2.0, 3.0]})
    correlation = stats.cluster_bootstrap_correlation(constant, "x", "y", DRAWS)
    assert np.isnan(correlation["correlation"][0])


def test_no_rows_and_no_share_are_refused():
    empty = pd.DataFrame(columns=["system", "scenario", "value"])
    refused("no rows", stats.cluster_bootstrap, empty)
    refused("confidence=95", Design, confidence=95)


def test_a_mean_of_any_scale_has_the_interval_of_t():
    values = np.random.default_rng(1).normal(0.3, 0.3, 30)
    mean = stats.mean_interval([*values, np.nan], limits=stats.Range())
    low, high = sp.t.interval(0.95, 29, values.mean(), values.std(ddof=1) / np.sqrt(30))
    assert mean[:4] == approx((values.mean(), low, high, 30))


def test_a_bounded_mean_has_the_interval_of_the_sample_with_a_user_made_up_on_that_side():
    values = np.random.default_rng(1).normal(0.3, 0.2, 30)
    mean = stats.mean_interval(values)
    for end, sign in ((mean.low, -1), (mean.high, 1)):
        wide = [*values, values.mean() + sign * 0.5]
        assert end == approx(sp.t.interval(0.95, 30, np.mean(wide), sp.sem(wide))[sign > 0])


@pytest.mark.parametrize("values", [[1.0] * 30 + [0.9], [0.0] * 9 + [1.0], [0.0, 1.0] * 4])
def test_no_interval_leaves_the_range(values):
    share = stats.mean_interval(values, limits=SHARE)
    assert share.low >= 0
    assert share.high <= 1


@pytest.mark.parametrize(
    "values, printed",
    [
        ([0.5, 0.7], "0.60 (2 users)"),
        ([0.5], "0.50 (1 user)"),
        ([0.25] * 37, "0.25 (the same for all 37)"),
        ([], "unknown"),
    ],
)
def test_what_has_no_interval_says_why(values, printed):
    assert str(stats.mean_interval(values)) == printed


def test_a_ratio_lies_within_its_interval():
    top, bottom = np.array([0.0, 0.3, 0.2, 0.5] * 6), np.array([0.1, 1.0, 0.4, 1.0] * 6)
    share = stats.ratio_interval(top, bottom)
    assert share.value == approx(top.mean() / bottom.mean())
    assert share.low < share.value < share.high
    assert math.isnan(stats.ratio_interval([np.nan], [1.0]).value)


def test_rare_large_losses_are_covered():
    """3 % of the users lose everything: the t interval of 100 misses the mean in a fifth of the samples."""
    lost = np.random.default_rng(2).random((2000, 100)) < 0.03
    low, high = Means.of(lost, COST).ends()
    assert np.mean((low <= 0.03) & (high >= 0.03)) >= 0.93
    plain_low, plain_high = Means.of(lost, stats.Range()).ends()
    assert np.mean((plain_low <= 0.03) & (plain_high >= 0.03)) < 0.85


@pytest.mark.parametrize("seed, margin", [(0, 0.1), (1, 0.3), (2, 0.5), (3, 0.9)])
def test_the_tests_say_what_the_interval_says(seed, margin):
    frame = matrix_frame(np.clip(random_matrix(seed, 40, 2) / 4, -1, 1))
    row = stats.mean_tests(frame, Design(limits=GAIN), margin=margin).iloc[0]
    assert (row["p"] <= 0.05) == (row["low"] > 0 or row["high"] < 0)
    plain = stats.mean_tests(frame, Design(confidence=0.9), margin=margin).iloc[0]
    assert (plain["p_equivalent"] <= 0.05) == (-margin < plain["low"] and plain["high"] < margin)


def paired(gap, noise):
    """Two systems in ten scenarios of very different height; ``a`` is ahead by ``gap``, give or take."""
    height = np.arange(10) / 10
    ahead = gap + noise * (-1.0) ** np.arange(10)
    return matrix_frame(np.column_stack([height + ahead, height]), names=["a", "b"])


@pytest.mark.parametrize("gap, noise, word, printed", table(__file__, "paired_verdicts"))
def test_a_verdict_changes_with_the_data_and_respects_the_pairing(gap, noise, word, printed):
    """Scenarios differ by 0.9, the pairs by 0.02: only a paired interval can be this narrow."""
    difference = stats.difference_of(paired(gap, noise), "a", "b", "value")
    assert stats.verdict(difference, margin=0.05) == word
    assert str(difference) == printed


def test_a_mean_counts_scenarios_and_the_resolution_is_that_of_the_least_certain_neighbours():
    frame = paired(0.0, 0.5)
    mean = stats.mean_of(frame, "value")
    assert mean.value == approx(0.45)
    assert mean.n == 10
    finest = stats.resolution_of(frame, "value")
    assert finest.half == stats.difference_of(frame, "a", "b", "value").half
    assert finest.n == 10
    alone = frame[frame["system"] == "a"]
    assert not stats.resolution_of(alone, "value").has_interval


def test_shares_and_numbers_are_printed_in_one_form():
    frame = pd.DataFrame({"scenario": range(8), "hit": [True] * 8})
    assert f"{share_of(frame, 'hit'):%}" == "100 % (the same for all 8)"
    assert f"{share_of(frame.iloc[:2], 'hit'):%}" == "100 % (2 users)"
    assert f"{share_of(frame.iloc[:1], 'hit'):%}" == "100 % (1 user)"
    assert math.isnan(share_of(frame.assign(hit=None), "hit").value)
    assert str(Estimate(-0.004, -0.2, 0.2, 5)) == "0.00 [−0.20, 0.20]"
    assert f"{Estimate(0.412, 0.35, 0.47, 5):%}" == "41 % [35, 47]"
    assert f"{Estimate(0.5, math.nan, math.nan, 1):%}" == "50 % (no interval)"


def test_the_record_of_error_rates_holds_what_is_demanded_of_the_tests():
    record = pd.read_csv(paths.ROOT / "docs" / "records" / "error_rates.csv").set_index("check")
    assert record.loc["symmetric null", "rate"].max() <= 0.05
    with_verdict = record[record["n"] >= ENOUGH]
    assert with_verdict.loc["skewed null", "rate"].max() <= 0.1
    assert record.loc["equivalence at its edge", "rate"].max() <= 0.07
    assert record.loc["interval outside its range", "rate"].max() == 0


@pytest.mark.parametrize("effect", [0.05, 0.1])
def test_the_power_that_pilots_claim_is_real(effect):
    record = pd.read_csv(paths.ROOT / "docs" / "records" / "error_rates.csv")
    power = record[record["check"] == f"power to find {effect}"]
    assert power["case"].nunique() == 8
    assert set(power["n"]) == {50, 100, 200}
    assert (power["rate"] - power["beside"]).abs().max() <= 0.1
    assert power.loc[power["beside"].between(0.2, 0.8), "case"].nunique() >= 4
