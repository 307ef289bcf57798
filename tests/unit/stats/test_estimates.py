"""The cluster bootstrap against scipy, formulas written out, and coverage."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats as sp

from crs_lib import stats
from crs_lib.core import paths
from crs_lib.stats import Estimate, bootstrap, share_of
from crs_lib.stats.bounded import Means
from crs_lib.stats.design import COST, GAIN, SHARE
from crs_lib.stats.estimate import ENOUGH
from tests.helpers import refused
from tests.helpers.stats_examples import matrix_frame, random_matrix


def test_bca_equals_scipy_up_to_monte_carlo_error():
    """A skewed sample of 40; both with 20000 draws. The BCa shift is larger than the tolerance."""
    x = np.random.default_rng(2).lognormal(0, 1, 40)
    frame = pd.DataFrame({"system": "a", "scenario": range(40), "value": x})
    row = stats.cluster_bootstrap(frame, stats.Design(resamples=20_000, seed=1)).iloc[0]
    again = sp.bootstrap((x,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(3))
    assert row["mean"] == pytest.approx(x.mean(), rel=1e-12)
    assert row["low"] == pytest.approx(again.confidence_interval.low, abs=0.02)
    assert row["high"] == pytest.approx(again.confidence_interval.high, abs=0.06)
    assert row["error"] == pytest.approx(again.standard_error, rel=0.03)
    plain = np.quantile(x[np.random.default_rng(4).integers(0, 40, (9999, 40))].mean(1), 0.975)
    assert row["high"] - plain > 0.1


def test_weights_are_multinomial_and_independent_of_the_chunks():
    whole = np.vstack(list(bootstrap.bootstrap_weights(7, 3000, 5)))
    parts = list(bootstrap.bootstrap_weights(7, 3000, 5, width=bootstrap.CELLS // 100))
    assert len(parts) == 30
    np.testing.assert_array_equal(whole, np.vstack(parts))
    assert (whole.sum(axis=1) == 7).all() and whole.mean() == 1.0
    assert whole.var() == pytest.approx(6 / 7, rel=0.05)  # a cell of a multinomial(7, 1/7): 7 * 1/7 * 6/7
    assert np.corrcoef(whole.T)[0, 1] == pytest.approx(-1 / 6, abs=0.06)


def test_means_and_differences_agree_count_and_do_not_depend_on_other_systems():
    x = random_matrix(4, 12, 3)
    x[3, 1] = np.nan
    frame = matrix_frame(x)
    means = stats.cluster_bootstrap(frame, stats.Design(resamples=200)).set_index("system")
    gaps = stats.cluster_bootstrap_differences(frame, stats.Design(resamples=200)).set_index(["a", "b"])
    assert means["mean"].to_numpy() == pytest.approx(np.nanmean(x, axis=0))
    assert means.loc["s1", ["n", "n_missing", "clusters"]].tolist() == [11, 1, 11]
    assert gaps.loc[("s0", "s2"), "diff"] == pytest.approx((x[:, 0] - x[:, 2]).mean())
    kept = ~np.isnan(x[:, 1])
    assert gaps.loc[("s0", "s1"), "diff"] == pytest.approx((x[kept, 0] - x[kept, 1]).mean())
    assert gaps.loc[("s0", "s1"), ["n", "n_missing"]].tolist() == [11, 1]
    frame = matrix_frame(random_matrix(4, 12, 3))
    whole = stats.cluster_bootstrap(frame, stats.Design(resamples=300, seed=2))
    alone = stats.cluster_bootstrap(frame[frame["system"] == "s1"], stats.Design(resamples=300, seed=2))
    pd.testing.assert_frame_equal(whole[whole["system"] == "s1"].reset_index(drop=True), alone, rtol=1e-9)
    assert not whole["low"].equals(stats.cluster_bootstrap(frame, stats.Design(resamples=300, seed=3))["low"])


def test_the_difference_of_two_correlations_is_paired():
    rng = np.random.default_rng(5)
    y = rng.normal(size=80)
    near = y + rng.normal(size=80)
    frame = pd.DataFrame({"scenario": range(80), "y": y, "near": near, "same": 2 * near + 1})
    frame["far"] = y + 3 * rng.normal(size=80)
    found = partial(stats.cluster_bootstrap_correlation, frame, y="y", design=stats.Design(resamples=400))
    compared = ("near", ""), ("far", ""), ("near", "far"), ("near", "same")
    one, other, gap, none = (found(x=x, minus=minus).iloc[0] for x, minus in compared)
    assert gap["correlation"] == pytest.approx(one["correlation"] - other["correlation"])
    assert gap["low"] < gap["correlation"] < gap["high"]
    assert abs(none["correlation"]) < 1e-12
    assert math.isnan(none["low"]), "the same in every draw has no interval"


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
@pytest.mark.slow
def test_correlation_equals_scipy(kind):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 6, 60).astype(float)
    frame = pd.DataFrame({"scenario": range(60), "x": x, "y": x + rng.normal(size=60) * 2})
    frame.loc[5, "x"] = np.nan
    design = stats.Design(resamples=3000)
    row = stats.cluster_bootstrap_correlation(frame, "x", "y", design, kind=kind).iloc[0]
    both = frame.dropna()
    function = {"pearson": sp.pearsonr, "spearman": sp.spearmanr}[kind]
    assert row["correlation"] == pytest.approx(function(both["x"], both["y"])[0], rel=1e-10)
    again = sp.bootstrap(
        (both["x"], both["y"]), lambda a, b: function(a, b)[0], paired=True, vectorized=False,
        n_resamples=1000, rng=np.random.default_rng(1),
    )  # fmt: skip
    assert (row["low"], row["high"]) == pytest.approx(tuple(again.confidence_interval), abs=0.04)
    assert (row["n"], row["n_missing"]) == (59, 1)


def test_degenerate_cases():
    design = stats.Design(resamples=50)
    row = stats.cluster_bootstrap(matrix_frame([[0.2, 0.4]]), design).iloc[0]
    assert row["mean"] == 0.2 and np.isnan(row["low"])
    flat = stats.cluster_bootstrap(matrix_frame(np.full((6, 2), 0.3)), design)
    assert flat[["low", "high"]].isna().all(axis=None), "a constant has no interval"
    absent = stats.cluster_bootstrap(matrix_frame([[1.0, np.nan], [2.0, np.nan]]), design)
    assert np.isnan(absent["mean"][1]) and absent["n_missing"][1] == 2
    refused("no rows", stats.cluster_bootstrap, absent.iloc[:0].assign(scenario=0, value=0))
    refused("confidence=95", stats.Design, confidence=95)
    constant = pd.DataFrame({"scenario": [1, 2, 3], "x": [1.0, 1.0, 1.0], "y": [1.0, 2.0, 3.0]})
    assert np.isnan(stats.cluster_bootstrap_correlation(constant, "x", "y", design)["correlation"][0])


def test_a_mean_of_any_scale_has_the_interval_of_t():
    values = np.random.default_rng(1).normal(0.3, 0.3, 30)
    mean = stats.mean_interval([*values, np.nan], limits=stats.Range())
    low, high = sp.t.interval(0.95, 29, values.mean(), values.std(ddof=1) / np.sqrt(30))
    assert mean[:4] == pytest.approx((values.mean(), low, high, 30))


def test_a_bounded_mean_has_the_interval_of_the_sample_with_a_user_made_up_on_that_side():
    values = np.random.default_rng(1).normal(0.3, 0.2, 30)
    mean = stats.mean_interval(values)
    for end, sign in ((mean.low, -1), (mean.high, 1)):
        wide = [*values, values.mean() + sign * 0.5]
        assert end == pytest.approx(sp.t.interval(0.95, 30, np.mean(wide), sp.sem(wide))[sign > 0])


@pytest.mark.parametrize("values", [[1.0] * 30 + [0.9], [0.0] * 9 + [1.0], [0.0, 1.0] * 4])
def test_no_interval_leaves_the_range(values):
    share = stats.mean_interval(values, limits=SHARE)
    assert share.low >= 0
    assert share.high <= 1


@pytest.mark.parametrize(
    ("values", "printed"),
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
    assert share.value == pytest.approx(top.mean() / bottom.mean())
    assert share.low < share.value < share.high
    assert math.isnan(stats.ratio_interval([np.nan], [1.0]).value)


def test_rare_large_losses_are_covered():
    """3 % of the users lose everything: the t interval of 100 misses the mean in a fifth of the samples."""
    lost = np.random.default_rng(2).random((2000, 100)) < 0.03
    low, high = Means.of(lost, COST).ends()
    assert np.mean((low <= 0.03) & (high >= 0.03)) >= 0.93
    plain_low, plain_high = Means.of(lost, stats.Range()).ends()
    assert np.mean((plain_low <= 0.03) & (plain_high >= 0.03)) < 0.85


@pytest.mark.parametrize(("seed", "margin"), [(0, 0.1), (1, 0.3), (2, 0.5), (3, 0.9)])
def test_the_tests_say_what_the_interval_says(seed, margin):
    frame = matrix_frame(np.clip(random_matrix(seed, 40, 2) / 4, -1, 1))
    row = stats.mean_tests(frame, stats.Design(limits=GAIN), margin=margin).iloc[0]
    assert (row["p"] <= 0.05) == (row["low"] > 0 or row["high"] < 0)
    plain = stats.mean_tests(frame, stats.Design(confidence=0.9), margin=margin).iloc[0]
    assert (plain["p_equivalent"] <= 0.05) == (-margin < plain["low"] and plain["high"] < margin)


def paired(gap, noise):
    """Two systems in ten scenarios of very different height; ``a`` is ahead by ``gap``, give or take."""
    rows = [(name, n, n / 10 + (name == "a") * (gap + noise * (-1) ** n)) for n in range(10) for name in "ab"]
    return pd.DataFrame(rows, columns=["system", "scenario", "value"])


@pytest.mark.parametrize(
    ("gap", "noise", "shown", "printed"),
    [
        (0.3, 0.01, "higher", "0.30 [0.29, 0.31]"),
        (-0.3, 0.01, "lower", "−0.30 [−0.31, −0.29]"),
        (0.0, 0.01, "equivalent", "0.00 [−0.01, 0.01]"),
        (0.0, 0.5, "not settled", "0.00 [−0.30, 0.30]"),
    ],
)
def test_a_verdict_changes_with_the_data_and_respects_the_pairing(gap, noise, shown, printed):
    """Scenarios differ by 0.9, the pairs by 0.02: only a paired interval can be this narrow."""
    difference = stats.difference_of(paired(gap, noise), "a", "b", "value")
    assert stats.verdict(difference, margin=0.05) == shown
    assert str(difference) == printed


def test_a_mean_counts_scenarios_and_the_resolution_is_that_of_the_least_certain_neighbours():
    frame = paired(0.0, 0.5)
    mean = stats.mean_of(frame, "value")
    assert mean.value == pytest.approx(0.45)
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
