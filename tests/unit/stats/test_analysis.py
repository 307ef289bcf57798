import re

import numpy as np
import pandas as pd
import pytest

from crs_lib import stats
from crs_lib.stats.groups import tukey_hsd
from crs_lib.stats.paired import rm_anova

pytestmark = pytest.mark.slow
NAMES = ["tracker", "amnesiac", "popular", "random", "silent"]
PLAN = {
    "primary_outcome": "tas",
    "secondary_outcomes": ["leakage"],
    "contrasts": [["tracker", "amnesiac"], ["popular", "random"], ["amnesiac", "tracker_twin"]],
    "smallest_effect": 0.05,
    "factors": ["shift_type"],
    "lower_is_better": ["leakage"],
    "resamples": 400,
    "permutations": 999,
}


def sessions(scenarios=30, seed=4):
    """Two shift types in every scenario; amnesiac's twin is a hair's breadth worse; silent leaks nothing."""
    rng = np.random.default_rng(seed)
    means = {
        "tracker": 0.55,
        "amnesiac": 0.40,
        "popular": 0.30,
        "random": 0.297,
        "tracker_twin": 0.37,
        "silent": 0.1,
    }
    shared = rng.normal(0, 0.1, scenarios)
    rows = []
    for name, mean in means.items():
        for shift in ("replace", "switch"):
            noise = rng.normal(0, 0.05 if name in ("popular", "random") else 0.09, scenarios)
            tas = mean - 0.03 * (shift == "switch") + shared + noise
            leak = rng.random(scenarios) if name != "silent" else np.full(scenarios, np.nan)
            block = {
                "system": name,
                "scenario": range(scenarios),
                "shift_type": shift,
                "tas": tas,
                "leakage": leak,
            }
            rows.append(pd.DataFrame(block))
    return pd.concat(rows, ignore_index=True)


FRAME = sessions()
FEW = FRAME[FRAME["system"].isin(["tracker", "amnesiac", "popular"])]
SMALL = {**PLAN, "contrasts": [["tracker", "amnesiac"], ["tracker", "popular"]], "secondary_outcomes": []}
SMALL |= {"lower_is_better": [], "resamples": 50}


@pytest.fixture(scope="module")
def results():
    return stats.ladder(FRAME, PLAN)


def test_every_pair_and_outcome_has_a_row_in_its_family(results):
    pairs = results.pairwise
    assert len(pairs) == 2 * 15
    confirmatory = pairs[pairs["family"] == "confirmatory"]
    assert list(zip(confirmatory["a"], confirmatory["b"], strict=True)) == [
        tuple(p) for p in PLAN["contrasts"]
    ]
    assert set(confirmatory["outcome"]) == {"tas"}
    assert set(confirmatory["adjustment"]) == {"holm"}
    assert set(pairs[pairs["family"] == "exploratory"]["adjustment"]) == {"benjamini_hochberg"}


def test_numbers_are_those_of_the_single_functions(results):
    averaged = FRAME.groupby(["system", "scenario"], as_index=False)["tas"].mean()
    at = {"value": "tas"}
    row = results.pairwise.iloc[0]
    pair = [("tracker", "amnesiac")]
    assert row["p_wilcoxon"] == stats.wilcoxon_pairs(averaged, stats.Design(pairs=pair, **at))["p"][0]
    gap = stats.cluster_bootstrap_differences(averaged, stats.Design(pairs=pair, resamples=400, **at)).iloc[0]
    assert (row["diff"], row["low"], row["high"]) == pytest.approx((gap["diff"], gap["low"], gap["high"]))
    first = results.pairwise[results.pairwise["family"] == "confirmatory"]
    assert first["p_wilcoxon_adjusted"].to_numpy() == pytest.approx(stats.holm(first["p_wilcoxon"]))
    assert first["p_sign_flip_adjusted"].to_numpy() == pytest.approx(stats.holm(first["p_sign_flip"]))
    omnibus = results.omnibus[results.omnibus["outcome"] == "tas"].set_index("test")
    assert omnibus.loc["repeated-measures ANOVA", "p_gg"] == rm_anova(averaged, stats.Design(**at))["p_gg"][0]
    assert (
        omnibus.loc["Friedman", "statistic"] == stats.friedman(averaged, stats.Design(**at))["statistic"][0]
    )
    tukey = results.classical[
        (results.classical["test"] == "Tukey HSD") & (results.classical["outcome"] == "tas")
    ]
    assert tukey["p"].tolist() == tukey_hsd(averaged, stats.Design(**at))["p"].tolist()
    mixed = stats.mixed_model(FRAME, stats.Design(value="tas"), factors=("shift_type",)).coefficients
    mine = results.mixed[results.mixed["outcome"] == "tas"]
    assert mine["estimate"].to_numpy() == pytest.approx(mixed["estimate"].to_numpy())


def test_what_could_not_be_made_is_missing_with_a_reason(results):
    pairs = results.pairwise
    silent = pairs[(pairs["outcome"] == "leakage") & ((pairs["a"] == "silent") | (pairs["b"] == "silent"))]
    assert len(silent) == 5
    assert silent["p_wilcoxon"].isna().all()
    assert silent["note"].eq("fewer than 2 scenarios in common").all()
    assert pairs[pairs["p_wilcoxon"].notna()]["note"].eq("").all()
    means = results.means[(results.means["outcome"] == "leakage")].set_index("system")
    assert np.isnan(means.loc["silent", "mean"])
    assert means.loc["silent", ["n", "n_missing", "clusters"]].tolist() == [0, 60, 0]
    assert "silent" not in results.leaderboard[results.leaderboard["outcome"] == "leakage"]["system"].tolist()


def test_missing_sessions_are_counted_not_zeroed():
    holed = FEW.copy()
    holed.loc[(holed["system"] == "tracker") & (holed["scenario"] < 2), "tas"] = np.nan
    holed.loc[holed.index[5], "tas"] = np.nan
    found = stats.ladder(holed, SMALL)
    row = found.means.set_index("system").loc["tracker"]
    assert (row["n"], row["n_missing"], row["clusters"]) == (55, 5, 28)
    assert found.pairwise.iloc[0][["n", "n_missing"]].tolist() == [28, 2]
    assert "5 more are missing" in stats.conclusions(found, SMALL)[0]


def test_the_direction_of_better_is_the_outcomes(results):
    boards = dict(list(results.leaderboard.groupby("outcome")))
    assert boards["tas"]["mean"].is_monotonic_decreasing
    assert boards["leakage"]["mean"].is_monotonic_increasing


def test_same_seed_same_ladder_whatever_the_row_order(few):
    again = stats.ladder(FEW.sample(frac=1, random_state=3), SMALL)
    for ours, theirs in zip(few, again, strict=True):
        pd.testing.assert_frame_equal(ours, theirs, rtol=1e-4, atol=1e-9)


def test_conclusions_say_what_the_numbers_say(results):
    told = stats.conclusions(results, PLAN)
    row = results.pairwise.iloc[0]
    interval = stats.interval_in_words(row["diff"], row["low"], row["high"])
    clear = f"tracker scores higher than amnesiac by {interval} (Wilcoxon, Holm p < .001, 30 scenarios), more than"
    assert f"{clear} the smallest difference that matters, {PLAN['smallest_effect']:g}." in told
    assert any(s.startswith("popular and random are equivalent within ±0.05") and "TOST p" in s for s in told)
    assert any(
        re.match(r"The systems differ \(repeated-measures ANOVA.*Friedman p < .001; partial", s) for s in told
    )
    assert any(s.startswith("tracker leads with a mean of 0.5") and "; its rank is 1" in s for s in told)
    assert any("exploratory comparisons" in s and "Benjamini-Hochberg" in s for s in told)
    assert any(s.startswith("With 30 scenarios, 80% power") for s in told)
    assert all(s.endswith(".") and "nan" not in s.lower() for s in told)


def test_differences_below_the_smallest_that_matters_are_called_so(results):
    primary = results.pairwise[results.pairwise["outcome"] == PLAN["primary_outcome"]]
    inside = (primary["low"] > -0.05) & (primary["high"] < 0.05)
    small = primary["diff"].abs() < 0.05
    apart = (primary["low"] >= 0.05) | (primary["high"] <= -0.05)
    assert inside.any()
    assert apart.any()
    assert (primary["size"] == "below 0.05").equals(inside & small)
    assert (primary["size"] == "estimate below 0.05").equals(small & ~inside)
    assert (primary["size"] == "0.05 or more").equals(apart & ~small)
    assert set(results.pairwise.drop(primary.index)["size"]) == {""}  # declared for the primary outcome only


def test_power_is_each_contrasts_own(results):
    found = results.power.set_index(["a", "b"])
    assert list(found.index) == [tuple(pair) for pair in PLAN["contrasts"]]
    needed = found.sort_values("sd_difference")["sessions_needed"]
    assert needed.is_monotonic_increasing
    assert found["sd_difference"].nunique() == len(found)


@pytest.fixture(scope="module")
def few():
    return stats.ladder(FEW, SMALL)


def contrast_sentence(base, pairwise_change, equivalent, rank):
    """The sentence of the first contrast after its numbers were replaced."""
    pairs, tost, effects = base.pairwise.copy(), base.equivalence.copy(), base.effects.copy()
    for column, value in pairwise_change.items():
        pairs[column] = pairs[column].astype(object)
        pairs.loc[0, column] = value
    tost.loc[(tost["a"] == "tracker") & (tost["b"] == "amnesiac"), "equivalent"] = equivalent
    mine = (effects["effect"] == "rank_biserial") & (effects["a"] == "tracker") & (effects["b"] == "amnesiac")
    effects.loc[mine, "estimate"] = rank
    changed = base._replace(pairwise=pairs, equivalence=tost, effects=effects)
    return stats.conclusions(changed, SMALL)[2]


CLEAR = {
    "p_wilcoxon_adjusted": 0.0004,
    "p_sign_flip_adjusted": 0.0004,
    "diff": 0.12,
    "low": 0.08,
    "high": 0.16,
    "n": 50,
}


@pytest.mark.parametrize(
    ("change", "equivalent", "rank", "sentence"),
    [
        (
            {},
            False,
            0.5,
            r"^tracker scores higher than amnesiac by 0\.12 \[0\.08, 0\.16\] \(Wilcoxon, Holm p < \.001, 50 scenarios\), "
            r"more than the smallest difference that matters, 0\.05\.$",
        ),
        (
            {"low": 0.02},
            False,
            0.5,
            r"the interval does not exclude differences below 0\.05, the smallest that matters\.$",
        ),
        (
            {"diff": 0.02, "low": 0.01, "high": 0.03},
            False,
            0.5,
            r", less than the smallest difference that matters, 0\.05\.$",
        ),
        (
            {"diff": -0.12, "low": -0.16, "high": -0.08},
            False,
            -0.5,
            r"^tracker scores lower than amnesiac by 0\.12 \[0\.08, 0\.16\]",
        ),
        ({}, False, -0.2, r"; but most scenarios point the other way than the mean\.$"),
        (
            {"p_sign_flip_adjusted": 0.2},
            False,
            0.5,
            r"; but the sign-flip test of the mean does not agree \(p = \.200\)\.$",
        ),
        ({}, True, 0.5, r"; but the difference is smaller than the smallest that matters, 0\.05\.$"),
        (
            {"diff": 0.045, "low": 0.01, "high": 0.08},
            False,
            0.5,
            r"; the estimate lies below the smallest difference that matters, 0\.05\.$",
        ),
        (
            {"p_wilcoxon_adjusted": 0.31, "diff": 0.01, "low": -0.02, "high": 0.04},
            False,
            0.1,
            r"^Whether tracker and amnesiac differ is not settled: 0\.01 \[−0\.02, 0\.04\] .*neither",
        ),
        (
            {"p_wilcoxon_adjusted": 0.31, "diff": 0.01},
            True,
            0.1,
            r"^tracker and amnesiac are equivalent within ±0\.05",
        ),
        (
            {"p_wilcoxon_adjusted": np.nan, "note": "fewer than 2 scenarios in common"},
            False,
            0,
            r"could not be compared: fewer than 2 scenarios in common\.$",
        ),
    ],
)
def test_each_kind_of_contrast_has_its_sentence(few, change, equivalent, rank, sentence):
    assert re.search(sentence, contrast_sentence(few, CLEAR | change, equivalent, rank))


def test_numbers_in_words():
    assert stats.p_in_words(0.0004) == "p < .001"
    assert stats.p_in_words(0.0234) == "p = .023"
    assert stats.p_in_words(1.0) == "p = 1.000"
    assert stats.p_in_words(float("nan")) == "p unknown"
    assert stats.interval_in_words(0.123, 0.081, 0.158) == "0.12 [0.08, 0.16]"
    assert stats.interval_in_words(0.00412, 0.00311, 0.00502) == "0.004 [0.003, 0.005]"
    assert stats.interval_in_words(-0.001, -0.2, 0.2) == "0.00 [−0.20, 0.20]"
    assert stats.interval_in_words(0.5, float("nan"), float("nan")) == "0.50 (no interval)"


def test_systems_without_any_difference_still_get_a_ladder():
    told = stats.conclusions(stats.ladder(FEW.assign(tas=0.5), SMALL), SMALL)
    assert told[1].startswith("Whether any system differs could not be tested")
    assert sum("are equivalent" in s for s in told) == 2
    assert any("there is no mixed model to read" in s for s in told)
    assert "Power could not be estimated" in told[-1]


def test_a_single_scenario_is_reported_not_raised():
    found = stats.ladder(FEW[FEW["scenario"] == 0], SMALL)
    assert found.omnibus["p"].isna().all()
    assert found.omnibus["note"].ne("").all()
    assert all("nan" not in s.lower() for s in stats.conclusions(found, SMALL))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"contrasts": [["tracker", "oracle"]]}, r"contrasts name \['oracle'\]"),
        ({"contrasts": []}, "declares no contrasts"),
        ({"contrasts": ["tracker"]}, "expected two different systems"),
        ({"primary_outcome": "tas_score"}, "no column 'tas_score'"),
        ({"smalest_effect": 0.1}, "did you mean 'smallest_effect'"),
        ({"smallest_effect": 0}, "smallest_effect=0"),
        ({"alpha": 5}, "alpha=5"),
        ({"families": {"confirmatory": "bonferroni"}}, "'confirmatory' with 'bonferroni'"),
        ({"secondary_outcomes": "leakage"}, "expected a list"),
        ({"secondary_outcomes": ["tas"], "lower_is_better": []}, "each may be named once"),
        ({"lower_is_better": ["delay"]}, r"lower_is_better names \['delay'\]"),
    ],
)
def test_a_bad_plan_says_what_to_mend(change, words):
    with pytest.raises(ValueError, match=words):
        stats.ladder(FRAME, PLAN | change)


def test_a_plan_that_lacks_a_key_names_it():
    with pytest.raises(ValueError, match="lacks contrasts, smallest_effect"):
        stats.read_plan({"primary_outcome": "tas"})
    assert stats.read_plan(stats.read_plan(PLAN)) == stats.read_plan(PLAN)
    assert stats.read_plan(PLAN).families == {"confirmatory": "holm", "exploratory": "benjamini_hochberg"}


def test_an_outcome_without_any_value_is_nothing_to_test():
    frame = pd.DataFrame({"system": ["a", "b"] * 3, "scenario": [0, 0, 1, 1, 2, 2], "score": np.nan})
    plan = {"primary_outcome": "score", "contrasts": [["a", "b"]], "smallest_effect": 0.1}
    with pytest.raises(ValueError, match="no session has a value of 'score'"):
        stats.ladder(frame, plan)


def test_one_system_is_nothing_to_compare():
    alone = sessions()
    with pytest.raises(ValueError, match=r"has 1 system .* compares at least 2"):
        stats.ladder(alone[alone["system"] == "tracker"], PLAN)
