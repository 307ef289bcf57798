"""The ladder of tests, its sentences, and the thesis's tables, against the single functions and scipy."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy

from crs_lib import stats
from crs_lib.core.errors import InputError
from crs_lib.stats.analysis import size_of
from crs_lib.stats.mixed import mixed_model
from crs_lib.stats.paired import rm_anova
from crs_lib.stats.plan import read_plan
from crs_lib.stats.words import interval_in_words, p_in_words

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
    omnibus = results.omnibus.set_index("test")
    assert omnibus.loc["repeated-measures ANOVA", "p_gg"] == rm_anova(averaged, stats.Design(**at))["p_gg"][0]
    assert (
        omnibus.loc["Friedman", "statistic"] == stats.friedman(averaged, stats.Design(**at))["statistic"][0]
    )
    mixed = mixed_model(FRAME, stats.Design(value="tas"), factors=("shift_type",)).terms
    terms = results.omnibus.dropna(subset="term")
    assert terms["statistic"].tolist() == pytest.approx(mixed["chi2"].tolist())


def test_what_could_not_be_made_is_missing_with_a_reason(results):
    pairs = results.pairwise
    silent = pairs[(pairs["outcome"] == "leakage") & ((pairs["a"] == "silent") | (pairs["b"] == "silent"))]
    assert len(silent) == 5
    assert silent["p_wilcoxon"].isna().all()
    assert silent["note"].eq("fewer than 2 scenarios in common").all()
    assert pairs[pairs["p_wilcoxon"].notna()]["note"].eq("").all()
    swapped = {"primary_outcome": "leakage", "secondary_outcomes": ["tas"], "resamples": 50}
    found = stats.ladder(FRAME, PLAN | swapped)
    row = found.means.set_index("system").loc["silent"]
    assert np.isnan(row["mean"])
    assert row[["n", "n_missing", "clusters"]].tolist() == [0, 60, 0]
    assert "silent" not in found.leaderboard["system"].tolist()
    assert found.leaderboard["mean"].is_monotonic_increasing  # lower is better
    assert results.leaderboard["mean"].is_monotonic_decreasing


def test_missing_sessions_are_counted_not_zeroed():
    holed = FEW.copy()
    holed.loc[(holed["system"] == "tracker") & (holed["scenario"] < 2), "tas"] = np.nan
    holed.loc[holed.index[5], "tas"] = np.nan
    found = stats.ladder(holed, SMALL)
    row = found.means.set_index("system").loc["tracker"]
    assert (row["n"], row["n_missing"], row["clusters"]) == (55, 5, 28)
    assert found.pairwise.iloc[0][["n", "n_missing"]].tolist() == [28, 2]
    assert "5 more are missing" in stats.conclusions(found, SMALL)[0]


def test_same_seed_same_ladder_whatever_the_row_order(few):
    again = stats.ladder(FEW.sample(frac=1, random_state=3), SMALL)
    for ours, theirs in zip(few, again, strict=True):
        pd.testing.assert_frame_equal(ours, theirs, rtol=1e-4, atol=1e-9)


def test_conclusions_say_what_the_numbers_say(results):
    told = stats.conclusions(results, PLAN)
    row = results.pairwise.iloc[0]
    interval = interval_in_words(row["diff"], row["low"], row["high"])
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
    plan = read_plan(PLAN)
    cases = [(0.02, -0.01, 0.04, "below 0.05"), (0.02, -0.01, 0.06, "estimate below 0.05")]
    cases += [
        (-0.2, -0.3, -0.06, "0.05 or more"),
        (0.2, 0.01, 0.4, "estimate 0.05 or more"),
        (np.nan,) * 3 + ("",),
    ]
    for diff, low, high, size in cases:
        row = {"outcome": "tas", "diff": diff, "low": low, "high": high}
        assert size_of(row, plan) == size
        assert size_of(row | {"outcome": "leakage"}, plan) == ""  # declared for the primary outcome only
    assert set(results.pairwise["size"]) > {"", "below 0.05", "0.05 or more"}


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
    pairs, tost, effects = (part.astype(object) for part in (base.pairwise, base.equivalence, base.effects))
    for column, value in pairwise_change.items():
        pairs.loc[0, column] = value
    first = (tost["a"] == "tracker") & (tost["b"] == "amnesiac")
    tost.loc[first, "equivalent"] = equivalent
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
}
UNCLEAR = {"p_wilcoxon_adjusted": 0.31, "diff": 0.01, "low": -0.02, "high": 0.04}
ALONE = {"p_wilcoxon_adjusted": np.nan, "note": "fewer than 2 scenarios in common"}


@pytest.mark.parametrize(
    ("change", "equivalent", "rank", "sentence"),
    [
        ({}, False, 0.5, r"^tracker scores higher than amnesiac by 0\.12 \[0\.08, 0\.16\] \(Wilcoxon, Holm p < \.001, 50 "
         r"scenarios\), more than the smallest difference that matters, 0\.05\.$"),
        ({"low": 0.02}, False, 0.5, r"does not exclude differences below 0\.05, the smallest that matters\.$"),
        ({"diff": 0.02, "low": 0.01, "high": 0.03}, False, 0.5, r", less than the smallest difference that matters, 0\.05\.$"),
        ({"diff": -0.12, "low": -0.16, "high": -0.08}, False, -0.5, r"^tracker scores lower than amnesiac by 0\.12 \[0\.08, 0\.16\]"),
        ({}, False, -0.2, r"; but most scenarios point the other way than the mean\.$"),
        ({"p_sign_flip_adjusted": 0.2}, False, 0.5, r"; but the sign-flip test of the mean does not agree \(p = \.200\)\.$"),
        ({}, True, 0.5, r"; but the difference is smaller than the smallest that matters, 0\.05\.$"),
        ({"diff": 0.045, "low": 0.01}, False, 0.5, r"; the estimate lies below the smallest difference that matters, 0\.05\.$"),
        (UNCLEAR, False, 0.1, r"^Whether tracker and amnesiac differ is not settled: 0\.01 \[−0\.02, 0\.04\] .*neither"),
        (UNCLEAR, True, 0.1, r"^tracker and amnesiac are equivalent within ±0\.05: they differ by 0\.01 .* \(TOST p"),
        (ALONE, False, 0, r"could not be compared: fewer than 2 scenarios in common\.$"),
    ],
)  # fmt: skip
def test_each_kind_of_contrast_has_its_sentence(few, change, equivalent, rank, sentence):
    assert re.search(sentence, contrast_sentence(few, CLEAR | {"n": 50} | change, equivalent, rank))


def test_numbers_in_words():
    assert p_in_words(0.0004) == "p < .001"
    assert p_in_words(0.0234) == "p = .023"
    assert p_in_words(1.0) == "p = 1.000"
    assert p_in_words(float("nan")) == "p unknown"
    assert interval_in_words(0.123, 0.081, 0.158) == "0.12 [0.08, 0.16]"
    assert interval_in_words(0.00412, 0.00311, 0.00502) == "0.004 [0.003, 0.005]"
    assert interval_in_words(-0.001, -0.2, 0.2) == "0.00 [−0.20, 0.20]"
    assert interval_in_words(0.5, float("nan"), float("nan")) == "0.50 (no interval)"


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
        ({"contrasts": []}, "contrasts is empty; name"),
        ({"contrasts": ["tracker"]}, "expected two different systems"),
        ({"primary_outcome": "tas_score"}, "no column 'tas_score'"),
        ({"smalest_effect": 0.1}, "did you mean 'smallest_effect'"),
        ({"smallest_effect": 0}, "smallest_effect is 0; give a number > 0"),
        ({"alpha": 5}, "alpha is 5; give"),
        ({"families": {"confirmatory": "bonferroni"}}, "'confirmatory' with 'bonferroni'"),
        ({"secondary_outcomes": "leakage"}, "secondary_outcomes is 'leakage'; give a list"),
        ({"secondary_outcomes": ["tas"], "lower_is_better": []}, "each may be named once"),
        ({"lower_is_better": ["delay"]}, r"lower_is_better names \['delay'\]"),
    ],
)
def test_a_bad_plan_says_what_to_mend(change, words):
    with pytest.raises(InputError, match=words):
        stats.ladder(FRAME, PLAN | change)


def test_a_plan_that_lacks_a_key_names_it():
    with pytest.raises(InputError, match="contrasts is missing"):
        read_plan({"primary_outcome": "tas"})
    assert read_plan(read_plan(PLAN)) == read_plan(PLAN)
    assert read_plan(PLAN).families == {"confirmatory": "holm", "exploratory": "benjamini_hochberg"}


def test_an_outcome_without_any_value_is_nothing_to_test():
    frame = pd.DataFrame({"system": ["a", "b"] * 3, "scenario": [0, 0, 1, 1, 2, 2], "score": np.nan})
    plan = {"primary_outcome": "score", "contrasts": [["a", "b"]], "smallest_effect": 0.1}
    with pytest.raises(InputError, match="no session has a value of 'score'"):
        stats.ladder(frame, plan)


def test_one_system_is_nothing_to_compare():
    alone = sessions()
    with pytest.raises(InputError, match=r"has 1 system .* compares at least 2"):
        stats.ladder(alone[alone["system"] == "tracker"], PLAN)


def scores(n=40, systems=("a", "b", "c"), seed=0):
    """Sessions of three systems that share what is hard about a scenario; ``flat`` never varies."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(0, 1, n)
    rows = [
        {"system": name, "scenario": i, "x": hard[i] + 0.3 * k + rng.normal(0, 0.3), "y": rng.normal(), "flat": 1.0}
        for k, name in enumerate(systems)
        for i in range(n)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_every_outcome_has_the_three_tests_and_they_are_scipys():
    frame = scores()
    table = stats.anova_table(frame, ["x", "y", "flat"]).set_index(["outcome", "test"])
    groups = [part["x"].to_numpy() for _, part in frame.groupby("system")]
    f = scipy.stats.f_oneway(*groups)
    assert table.loc[("x", "one-way ANOVA"), "statistic"] == pytest.approx(f.statistic, rel=1e-9)
    assert table.loc[("x", "one-way ANOVA"), "p"] == pytest.approx(f.pvalue, rel=1e-9)
    chi = scipy.stats.friedmanchisquare(*groups)
    assert table.loc[("x", "Friedman"), "statistic"] == pytest.approx(chi.statistic, rel=1e-9)
    assert table.loc["x"].index.tolist() == ["one-way ANOVA", "repeated-measures ANOVA", "Friedman"]
    assert "no value varies" in table.loc[("flat", "one-way ANOVA"), "note"]
    assert len(table) == 9


def test_the_note_says_what_ignoring_the_pairs_changes():
    frame = scores()
    note = stats.anova_table(frame, ["x"]).set_index("test").loc["one-way ANOVA", "note"]
    wide = frame.pivot_table(index="scenario", columns="system", values="x")
    ratios = [
        np.sqrt((wide[a].var() + wide[b].var()) / (wide[a] - wide[b]).var())
        for a, b in (("a", "b"), ("a", "c"), ("b", "c"))
    ]
    assert f"{np.mean(ratios):.2f} times as wide" in note
    free = stats.anova_table(scores()[["system", "scenario", "y"]], ["y"])["note"].iloc[0]
    assert "correlation within scenarios" in free


def test_every_pair_and_outcome_is_a_row_with_both_tests():
    frame = scores()
    table = stats.tukey_table(frame, ["x", "y"])
    assert len(table) == 3 * 2
    groups = [part["x"].to_numpy() for _, part in frame.groupby("system")]
    theirs = scipy.stats.tukey_hsd(*groups)
    mine = table[table["outcome"] == "x"].set_index(["a", "b"])
    assert mine.loc[("a", "c"), "diff"] == pytest.approx(groups[0].mean() - groups[2].mean())
    assert mine.loc[("a", "c"), "p"] == pytest.approx(theirs.pvalue[0, 2], rel=1e-6)
    raw = scipy.stats.wilcoxon(groups[0] - groups[1]).pvalue
    assert mine.loc[("a", "b"), "p_wilcoxon"] == pytest.approx(raw, rel=1e-9)
    assert (mine["p_holm"] >= mine["p_wilcoxon"]).all() and (mine["p_holm"] <= 3 * mine["p_wilcoxon"]).all()
    assert (mine["paired_high"] - mine["paired_low"] < mine["high"] - mine["low"]).all()


def test_a_system_without_values_keeps_its_rows_and_is_named():
    frame = scores()
    frame.loc[frame["system"] == "b", "x"] = np.nan
    anova = stats.anova_table(frame, ["x"])
    assert anova["note"].str.contains("left out, with fewer than 2 values: b").all()
    table = stats.tukey_table(frame, ["x"]).set_index(["a", "b"])
    assert len(table) == 3 and table.loc[("a", "c"), "p"] >= 0
    assert table.loc[("a", "b"), "note"] == "fewer than 2 values of b"
    assert np.isnan(table.loc[("a", "b"), "p"])
    nobody = stats.tukey_table(frame.assign(x=np.nan), ["x"])
    assert len(nobody) == 3 and nobody["note"].str.len().gt(0).all()


def test_all_pairs_are_a_family_within_each_outcome():
    plan = read_plan({"primary_outcome": "x", "contrasts": [["a", "b"]], "smallest_effect": 0.05})
    every = (("a", "b"), ("a", "c"), ("b", "c"))
    plan = plan.changed(
        contrasts=every, secondary_outcomes=("y",), all_pairs=True, resamples=50, permutations=50,
        families=dict.fromkeys(plan.families, "holm"),
    )  # fmt: skip
    pairs = stats.ladder(scores(), plan).pairwise
    assert pairs.groupby("outcome")["family_size"].first().to_dict() == {"x": 3, "y": 3}
    assert set(pairs["adjustment"]) == {"holm"}
