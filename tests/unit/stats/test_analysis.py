"""The test battery, the tables of the thesis and the sentence of adaptation, against the single functions and scipy."""

import numpy as np
import pandas as pd
import pytest
import scipy
from pytest import approx

from crs_lib import stats
from crs_lib.stats import Design, Estimate
from crs_lib.stats.paired import rm_anova
from crs_lib.stats.plan import read_plan
from tests.helpers import refused, table

pytestmark = pytest.mark.slow
PLAN = {
    "primary_outcome": "tas",
    "secondary_outcomes": ["leakage"],
    "lower_is_better": ["leakage"],
    "contrasts": [["tracker", "amnesiac"], ["popular", "random"], ["amnesiac", "tracker_twin"]],
    "smallest_effect": 0.05,
    "resamples": 400,
    "fewest": 20,
    "costs": ["tas"],
}
SMALL = {
    "primary_outcome": "tas",
    "contrasts": [["tracker", "amnesiac"], ["tracker", "popular"]],
    "smallest_effect": 0.05,
    "resamples": 50,
    "fewest": 20,
    "costs": ["tas"],
}


def sessions():
    """Two shift types in 30 scenarios; amnesiac's twin is a hair's breadth worse; silent leaks nothing."""
    rng = np.random.default_rng(4)
    shared = rng.normal(0, 0.1, 30)
    parts = []
    for name, mean, noise in table(__file__, "systems"):
        for shift, loss in (("replace", 0.0), ("switch", 0.03)):
            part = pd.DataFrame({"system": name, "scenario": range(30), "shift_type": shift})
            part["tas"] = mean - loss + shared + rng.normal(0, noise, 30)
            part["leakage"] = rng.random(30)
            parts.append(part)
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(leakage=frame["leakage"].where(frame["system"] != "silent"))


FRAME = sessions()
FEW = FRAME[FRAME["system"].isin(["tracker", "amnesiac", "popular"])]
ABLE = FEW.assign(ability=(FEW["system"] != "popular") * 0.5)
APART = FEW.assign(scenario=FEW["system"] + FEW["scenario"].astype(str))  # every system met its own users


@pytest.fixture(scope="module")
def results():
    return stats.battery(FRAME, PLAN)


@pytest.fixture(scope="module")
def few():
    return stats.battery(FEW, SMALL)


def test_rows_have_families(results):
    assert len(results.pairwise) == 2 * 15
    assert results.declared[["a", "b"]].to_numpy().tolist() == PLAN["contrasts"]
    assert set(results.declared["outcome"]) == {"tas"}
    assert set(results.declared["adjustment"]) == {"holm"}
    exploratory = results.pairwise[results.pairwise["family"] == "exploratory"]
    assert set(exploratory["adjustment"]) == {"benjamini_hochberg"}


def test_letters_follow_verdicts(results):
    letters = results.leaderboard.set_index("system")["tied"].map(set)
    pairs = results.pairwise[results.pairwise["outcome"] == "tas"]
    assert {"equivalent", "higher"} <= set(pairs["verdict"])
    for pair in pairs.itertuples():
        tied = bool(letters[pair.a] & letters[pair.b])
        assert tied == (pair.verdict not in ("higher", "lower"))


def test_every_contrast_has_a_power_of_its_own(results):
    assert results.power[["a", "b"]].to_numpy().tolist() == PLAN["contrasts"]
    by_spread = results.power.sort_values("sd_difference")
    assert by_spread["sd_difference"].is_unique
    assert by_spread["sessions_needed"].is_monotonic_increasing


def test_numbers_are_those_of_the_single_functions(results):
    means = FRAME.groupby(["system", "scenario"], as_index=False)["tas"].mean()
    design = Design(value="tas", pairs=[("tracker", "amnesiac")])
    columns = ["diff", "low", "high", "p"]
    gap = stats.mean_tests(means, design).iloc[0]
    assert results.pairwise.iloc[0][columns].tolist() == approx(gap[columns].tolist())
    adjusted = stats.holm(results.declared["p"])
    assert results.declared["p_adjusted"].to_numpy() == approx(adjusted)
    omnibus = results.omnibus.set_index("test")
    assert omnibus.loc["repeated-measures ANOVA", "p_gg"] == rm_anova(means, design)["p_gg"][0]
    assert omnibus.loc["Friedman", "statistic"] == stats.friedman(means, design)["statistic"][0]


def test_what_could_not_be_made_is_missing_with_a_reason(results):
    leakage = results.pairwise[results.pairwise["outcome"] == "leakage"]
    silent = leakage[(leakage["a"] == "silent") | (leakage["b"] == "silent")]
    assert silent["note"].tolist() == ["fewer than 2 scenarios in common"] * 5
    assert silent["p"].isna().all()
    tested = results.pairwise[results.pairwise["p"].notna()]
    assert tested["note"].eq("").all()


def test_a_system_without_values_has_a_mean_that_is_missing_and_no_rank(results):
    turned = stats.battery(FRAME, PLAN | {"primary_outcome": "leakage", "secondary_outcomes": ["tas"]})
    silent = turned.means.set_index("system").loc["silent"]
    assert np.isnan(silent["mean"])
    assert silent[["n", "n_missing", "clusters"]].tolist() == [0, 60, 0]
    assert "silent" not in set(turned.leaderboard["system"])
    assert turned.leaderboard["mean"].is_monotonic_increasing, "lower is better"
    assert results.leaderboard["mean"].is_monotonic_decreasing


def test_missing_sessions_are_counted_not_zeroed():
    missing = (FEW["system"] == "tracker") & (FEW["scenario"] < 2)
    missing |= FEW.index == FEW.index[5]
    holed = stats.battery(FEW.assign(tas=FEW["tas"].mask(missing)), SMALL)
    tracker = holed.means.set_index("system").loc["tracker"]
    assert tracker[["n", "n_missing", "clusters"]].tolist() == [55, 5, 28]
    assert holed.pairwise.iloc[0][["n", "n_missing"]].tolist() == [28, 2]


def test_who_is_not_able_is_compared_with_none_and_not_ranked():
    able = stats.battery(ABLE, SMALL | {"ability": "ability"})
    assert set(able.leaderboard["system"]) == {"tracker", "amnesiac"}
    unable = able.pairwise[(able.pairwise["a"] == "popular") | (able.pairwise["b"] == "popular")]
    assert set(unable["verdict"]) == {"not compared"}
    assert set(unable["note"]) == {"the gain of popular is below 0.1"}


def test_a_contrast_that_cannot_be_compared_takes_no_significance_from_others():
    declared = stats.battery(ABLE, SMALL | {"ability": "ability"}).declared
    assert declared["family_size"].tolist() == [1, 1]
    assert declared["p_adjusted"].isna().tolist() == [False, True]


def test_same_seed_same_battery_whatever_the_row_order(few):
    again = stats.battery(FEW.sample(frac=1, random_state=3), SMALL)
    assert few.unable == again.unable
    for ours, shuffled in zip(few[:-1], again[:-1], strict=True):
        pd.testing.assert_frame_equal(ours, shuffled, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("side, alike, low, high, word", table(__file__, "verdicts"))
def test_a_difference_needs_test_and_interval_and_equality_a_test_of_its_own(side, alike, low, high, word):
    gap = Estimate(0.0, low, high)
    assert stats.verdict(gap, 0.05, side=side, equivalent=alike) == word


def test_a_run_without_any_difference_has_verdicts():
    bounded = SMALL | {"ranges": {"tas": [-1, 1]}}
    copies = [FEW.assign(scenario=FEW["scenario"] + 30 * copy, tas=0.5) for copy in range(4)]
    alike = stats.battery(pd.concat(copies), bounded).declared
    assert alike["verdict"].tolist() == ["equivalent", "equivalent"]
    short = stats.battery(FEW.assign(tas=0.5), bounded).declared
    assert set(short["verdict"]) == {"not settled"}, "30 alike may hide a user who loses everything"


def test_a_run_of_few_scenarios_says_why_it_has_no_verdict():
    too_few = stats.battery(FEW, SMALL | {"fewest": 100}).declared
    assert set(too_few["verdict"]) == {"too few users for a verdict"}
    single = stats.battery(FEW[FEW["scenario"] == 0], SMALL)
    assert single.omnibus["p"].isna().all()
    assert single.omnibus["note"].ne("").all()
    assert set(single.declared["verdict"]) == {"not compared"}


@pytest.mark.parametrize("p, words", table(__file__, "p_in_words"))
def test_p_in_words(p, words):
    assert stats.p_in_words(p) == words


@pytest.mark.parametrize("value, low, high, printed", table(__file__, "intervals"))
def test_intervals_in_words(value, low, high, printed):
    assert str(Estimate(value, low, high)) == printed


@pytest.mark.parametrize("change, words", table(__file__, "bad_plans"))
def test_a_bad_plan_says_what_to_mend(change, words):
    refused(words, stats.battery, FRAME, PLAN | change)


def test_a_bad_frame_says_what_to_mend():
    refused("no session has a value of 'tas'", stats.battery, FRAME.assign(tas=np.nan), PLAN)
    tracker = FRAME[FRAME["system"] == "tracker"]
    refused("has 1 system .* compares at least 2", stats.battery, tracker, PLAN)


def test_a_plan_is_read_with_its_defaults():
    refused("contrasts is missing", read_plan, {"primary_outcome": "tas"})
    plan = read_plan(PLAN)
    assert read_plan(plan) == plan
    assert plan.families == {"confirmatory": "holm", "exploratory": "benjamini_hochberg"}


@pytest.fixture(scope="module")
def scores():
    """40 sessions of three systems that share what is hard about a scenario; ``flat`` never varies."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"system": np.repeat([*"abc"], 40), "scenario": np.tile(range(40), 3), "flat": 1.0})
    hard = np.tile(rng.normal(size=40), 3)
    frame["x"] = hard + np.repeat([0.0, 0.3, 0.6], 40) + rng.normal(0, 0.3, 120)
    return frame.assign(y=rng.normal(size=120))


@pytest.fixture(scope="module")
def wide(scores):
    return scores.pivot_table(index="scenario", columns="system", values="x")


def test_the_anova_table_holds_scipys_numbers(scores, wide):
    anova = stats.anova_table(scores, ["x", "y", "flat"]).set_index(["outcome", "test"])
    assert anova.loc["x"].index.tolist() == ["one-way ANOVA", "repeated-measures ANOVA", "Friedman"]
    one_way = scipy.stats.f_oneway(*wide.to_numpy().T)
    assert anova.loc[("x", "one-way ANOVA"), ["statistic", "p"]].tolist() == approx([*one_way])
    friedman = scipy.stats.friedmanchisquare(*wide.to_numpy().T)
    assert anova.loc[("x", "Friedman"), ["statistic", "p"]].tolist() == approx([*friedman])


def test_the_anova_table_says_what_the_thesis_ignores(scores, wide):
    notes = stats.anova_table(scores, ["x", "y", "flat"]).set_index(["outcome", "test"])["note"]
    assert len(notes) == 9
    assert "no value varies" in notes["flat", "one-way ANOVA"]
    ratios = []
    for a, b in ("ab", "ac", "bc"):
        spread = wide[a].var() + wide[b].var()
        ratios.append(np.sqrt(spread / (wide[a] - wide[b]).var()))
    assert f"{np.mean(ratios):.2f} times as wide" in notes["x", "one-way ANOVA"]
    assert "within scenarios" in notes["y", "one-way ANOVA"]


def test_the_tukey_table_holds_scipys_numbers(scores, wide):
    tukey = stats.tukey_table(scores, ["x", "y"])
    assert len(tukey) == 3 * 2
    pairs = tukey[tukey["outcome"] == "x"].set_index(["a", "b"])
    assert pairs.loc[("a", "c"), "diff"] == approx(wide["a"].mean() - wide["c"].mean())
    p = scipy.stats.tukey_hsd(*wide.to_numpy().T).pvalue
    assert pairs.loc[("a", "c"), "p"] == approx(p[0, 2], rel=1e-6)
    wilcoxon = scipy.stats.wilcoxon(wide["a"] - wide["b"])
    assert pairs.loc[("a", "b"), "p_wilcoxon"] == approx(wilcoxon.pvalue, rel=1e-9)
    assert pairs["p_holm"].between(pairs["p_wilcoxon"], 3 * pairs["p_wilcoxon"]).all()
    assert (pairs["paired_high"] - pairs["paired_low"] < pairs["high"] - pairs["low"]).all()


def test_a_system_without_values_keeps_its_rows_and_is_named(scores):
    frame = scores.assign(x=scores["x"].where(scores["system"] != "b"))
    anova = stats.anova_table(frame, ["x"])
    assert anova["note"].str.contains("left out, with fewer than 2 values: b").all()
    pairs = stats.tukey_table(frame, ["x"]).set_index(["a", "b"])
    assert len(pairs) == 3
    assert pairs.loc[("a", "c"), "p"] >= 0
    assert pairs.loc[("a", "b"), "note"] == "fewer than 2 values of b"
    assert np.isnan(pairs.loc[("a", "b"), "p"])
    nobody = stats.tukey_table(frame.assign(x=np.nan), ["x"])
    assert nobody["note"].ne("").tolist() == [True] * 3


def test_all_pairs_are_a_family_within_each_outcome(scores):
    plan = {"primary_outcome": "x", "secondary_outcomes": ["y"], "smallest_effect": 0.05, "resamples": 50}
    plan |= {"contrasts": [["a", "b"], ["a", "c"], ["b", "c"]], "all_pairs": True}
    pairs = stats.battery(scores, plan | {"families": {"exploratory": "holm"}}).pairwise
    assert pairs["family_size"].tolist() == [3] * 6
    assert set(pairs["adjustment"]) == {"holm"}


@pytest.fixture(scope="module")
def apart():
    return stats.battery(APART, SMALL)


@pytest.fixture(scope="module")
def apart_means():
    return APART.groupby(["system", "scenario"])["tas"].mean()


def test_independent_samples_have_tests_of_their_own(apart, apart_means):
    row = apart.pairwise.iloc[0]
    welch = scipy.stats.ttest_ind(apart_means[row["a"]], apart_means[row["b"]], equal_var=False)
    interval = welch.confidence_interval()
    assert row["low"] == approx(interval.low)
    assert row["high"] == approx(interval.high)
    assert row["p"] == approx(welch.pvalue)
    assert row["verdict"] == "higher"
    assert apart.leaderboard["rank"].tolist() == [1, 2, 3]
    assert set(apart.effects["effect"]) == {"omega_squared"}
    assert set(apart.pairwise["note"]) == {"systems met different users"}


def test_independent_samples_have_an_order():
    order = stats.order_of(APART, "tas")
    assert order["system"].tolist() == ["tracker", "amnesiac", "popular"]
    assert order["verdict"].tolist() == ["not compared", "lower", "lower"]
    assert (order["diff_high"].iloc[1:] < 0).all()


def test_the_thesis_tables_of_independent_samples_claim_no_pairs(apart_means):
    anova = stats.anova_table(APART, ["tas"])
    assert anova["test"].tolist() == ["one-way ANOVA", "Welch ANOVA"]
    assert "different users" in anova["note"][0]
    assert "same users" not in anova["note"][0]
    tukey = stats.tukey_table(APART, ["tas"])
    samples = [apart_means[name] for name in ("amnesiac", "popular", "tracker")]
    games_howell = scipy.stats.tukey_hsd(*samples, equal_var=False)
    assert tukey["p_games_howell"][0] == approx(games_howell.pvalue[0, 1], rel=1e-6)
    assert not {"paired_diff", "p_wilcoxon"} & set(tukey)
    assert (tukey["p_holm"] <= 1).all()


def served(system, gain, cost, misfit, n=150):
    """Sessions of a system by its means in gain after a change, shift cost and misfit."""
    rng = np.random.default_rng(ord(system))
    frame = pd.DataFrame({"system": system, "scenario": range(n)})
    frame["gain_after_change"] = gain + 0.02 * rng.normal(size=n)
    frame["shift_cost"] = cost + 0.02 * rng.normal(size=n)
    frame["misfit"] = misfit + 0.02 * rng.normal(size=n)
    return frame.assign(straight_gain=frame["gain_after_change"] + frame["shift_cost"])


@pytest.mark.parametrize("first, second, sentence", table(__file__, "sentences"))
def test_one_function_gives_the_sentence(first, second, sentence):
    frame = pd.concat([served("a", *first), served("b", *second)])
    pair = stats.adaptation_of(frame, "a", "b")
    assert sentence in pair.sentence
    assert stats.adaptation_of(frame, "b", "a").word == pair.word


ADAPTS = pd.concat([served("a", 0.8, 0.0, 0.0), served("b", 0.4, 0.4, 0.4)], ignore_index=True)


def test_a_lower_straight_gain_forbids_adapts_better():
    """a gains .6 after a change and .6 without; b .5 and .9: it serves better, after losing what b had to lose."""
    frame = pd.concat([served("a", 0.6, 0.0, 0.0), served("b", 0.5, 0.4, 0.4)])
    assert stats.adaptation_of(frame, "a", "b").word == "serves better"


def test_there_is_no_word_below_a_hundred_users():
    pair = stats.adaptation_of(ADAPTS[ADAPTS["scenario"] < 99], "a", "b")
    assert pair.sentence == "a and b: too few users for a verdict: 99 (it takes 100)."
    nobody = stats.adaptation_of(ADAPTS.assign(gain_after_change=np.nan), "a", "b")
    assert nobody.word == "not compared"


def test_parts_add_up_also_in_print():
    pair = stats.adaptation_of(ADAPTS, "a", "b")
    gain = pair.gain.estimate.value
    assert pair.ability.estimate.value + pair.adaptation.value == approx(gain, abs=1e-12)
    ability, adaptation = [float(part.replace("−", "-")) for part in pair.printed_parts]
    assert ability + adaptation == approx(round(gain, 2))


def test_the_battery_judges_the_declared_contrasts_by_the_corrected_p():
    plan = {"primary_outcome": "gain_after_change", "contrasts": [["a", "b"]], "smallest_effect": 0.05}
    row = stats.battery(ADAPTS, plan | {"resamples": 50}).adaptation.iloc[0]
    assert row[["a", "b", "word"]].tolist() == ["a", "b", "adapts better"]
    assert row["sentence"] == stats.adaptation_of(ADAPTS, "a", "b").sentence
