"""The test battery and the tables of the thesis, against the single functions and scipy."""

import numpy as np
import pandas as pd
import pytest
import scipy

from crs_lib import stats
from crs_lib.stats import Design
from crs_lib.stats.paired import rm_anova
from crs_lib.stats.plan import read_plan
from tests.helpers import refused

pytestmark = pytest.mark.slow
PLAN = {
    "primary_outcome": "tas", "secondary_outcomes": ["leakage"], "lower_is_better": ["leakage"],
    "contrasts": [["tracker", "amnesiac"], ["popular", "random"], ["amnesiac", "tracker_twin"]],
    "smallest_effect": 0.05, "resamples": 400, "fewest": 20, "costs": ["tas"],
}  # fmt: skip
NAMES = ("tracker", "amnesiac", "popular", "random", "tracker_twin", "silent")


def sessions(scenarios=30, seed=4):
    """Two shift types in every scenario; amnesiac's twin is a hair's breadth worse; silent leaks nothing."""
    rng = np.random.default_rng(seed)
    shared, rows = rng.normal(0, 0.1, scenarios), []
    for name, mean in zip(NAMES, (0.55, 0.4, 0.3, 0.297, 0.37, 0.1), strict=True):
        for shift in ("replace", "switch"):
            noise = rng.normal(0, 0.05 if name in ("popular", "random") else 0.09, scenarios)
            tas = mean - 0.03 * (shift == "switch") + shared + noise
            leak = rng.random(scenarios) if name != "silent" else np.full(scenarios, np.nan)
            keys = {"system": name, "scenario": range(scenarios), "shift_type": shift}
            rows.append(pd.DataFrame(keys | {"tas": tas, "leakage": leak}))
    return pd.concat(rows, ignore_index=True)


FRAME = sessions()
FEW = FRAME[FRAME["system"].isin(["tracker", "amnesiac", "popular"])]
SMALL = {**PLAN, "contrasts": [["tracker", "amnesiac"], ["tracker", "popular"]], "secondary_outcomes": []}
SMALL |= {"lower_is_better": [], "resamples": 50}


@pytest.fixture(scope="module")
def results():
    return stats.ladder(FRAME, PLAN)


@pytest.fixture(scope="module")
def few():
    return stats.ladder(FEW, SMALL)


def test_rows_have_families_letters_and_a_power_of_their_own(results):
    pairs = results.pairwise
    first = pairs[pairs["family"] == "confirmatory"]
    assert len(pairs) == 2 * 15
    assert first[["a", "b"]].to_numpy().tolist() == PLAN["contrasts"]
    assert (set(first["outcome"]), set(first["adjustment"])) == ({"tas"}, {"holm"})
    assert set(pairs[pairs["family"] == "exploratory"]["adjustment"]) == {"benjamini_hochberg"}
    letters, pairs = results.leaderboard.set_index("system")["tied"], pairs[pairs["outcome"] == "tas"]
    assert {"higher", "lower"} & set(pairs["verdict"]) and "equivalent" in set(pairs["verdict"])
    for row in pairs.itertuples():
        assert bool(set(letters[row.a]) & set(letters[row.b])) == (row.verdict not in ("higher", "lower"))
    power = results.power.sort_values("sd_difference")
    assert results.power[["a", "b"]].to_numpy().tolist() == PLAN["contrasts"]
    assert power["sessions_needed"].is_monotonic_increasing and power["sd_difference"].is_unique


def test_numbers_are_those_of_the_single_functions(results):
    averaged = FRAME.groupby(["system", "scenario"], as_index=False)["tas"].mean()
    design = Design(value="tas", pairs=[("tracker", "amnesiac")], resamples=400)
    row = results.pairwise.iloc[0]
    names, gap = ["diff", "low", "high", "p"], stats.mean_tests(averaged, design).iloc[0]
    assert row[names].tolist() == pytest.approx(gap[names].tolist())
    first = results.pairwise[results.pairwise["family"] == "confirmatory"]
    assert first["p_adjusted"].to_numpy() == pytest.approx(stats.holm(first["p"]))
    omnibus = results.omnibus.set_index("test")
    assert omnibus.loc["repeated-measures ANOVA", "p_gg"] == rm_anova(averaged, design)["p_gg"][0]
    assert omnibus.loc["Friedman", "statistic"] == stats.friedman(averaged, design)["statistic"][0]


def test_what_could_not_be_made_is_missing_with_a_reason(results):
    pairs = results.pairwise
    silent = pairs[(pairs["outcome"] == "leakage") & ((pairs["a"] == "silent") | (pairs["b"] == "silent"))]
    assert silent["note"].tolist() == ["fewer than 2 scenarios in common"] * 5
    assert silent["p"].isna().all()
    assert pairs[pairs["p"].notna()]["note"].eq("").all()
    turned = {"primary_outcome": "leakage", "secondary_outcomes": ["tas"], "resamples": 50}
    found = stats.ladder(FRAME, PLAN | turned)
    row = found.means.set_index("system").loc["silent"]
    assert np.isnan(row["mean"]) and row[["n", "n_missing", "clusters"]].tolist() == [0, 60, 0]
    assert "silent" not in found.leaderboard["system"].tolist()
    assert found.leaderboard["mean"].is_monotonic_increasing  # lower is better
    assert results.leaderboard["mean"].is_monotonic_decreasing


def test_missing_sessions_are_counted_not_zeroed_and_who_is_not_able_is_not_ranked():
    holed = FEW.copy()
    holed.loc[(holed["system"] == "tracker") & (holed["scenario"] < 2), "tas"] = np.nan
    holed.loc[holed.index[5], "tas"] = np.nan
    found = stats.ladder(holed, SMALL)
    counts = found.means.set_index("system").loc["tracker", ["n", "n_missing", "clusters"]]
    assert counts.tolist() == [55, 5, 28]
    assert found.pairwise.iloc[0][["n", "n_missing"]].tolist() == [28, 2]
    able = FEW.assign(ability=(FEW["system"] != "popular") * 0.5)
    found = stats.ladder(able, SMALL | {"ability": "ability"})
    assert set(found.leaderboard["system"]) == {"tracker", "amnesiac"}
    pairs = found.pairwise[found.pairwise["outcome"] == "tas"]
    unable = pairs[(pairs["a"] == "popular") | (pairs["b"] == "popular")]
    assert set(unable["verdict"]) == {"not compared"}
    assert set(unable["note"]) == {"the gain of popular is below 0.1"}


def test_same_seed_same_ladder_whatever_the_row_order(few):
    again = stats.ladder(FEW.sample(frac=1, random_state=3), SMALL)
    assert few.unable == again.unable
    for ours, theirs in zip(few[:-1], again[:-1], strict=True):
        pd.testing.assert_frame_equal(ours, theirs, rtol=1e-4, atol=1e-9)


CASES = {  # adjusted p of a difference and of equivalence, interval, side of the mean
    "higher": (0.01, 0.9, 0.1, 0.3, 1), "lower": (0.01, 0.9, -0.3, -0.1, -1),
    "equivalent": (0.3, 0.01, -0.02, 0.02, 1), "not settled": (0.3, 0.3, -0.1, 0.2, 1), "not compared": (np.nan,) * 5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [(numbers, name) for name, numbers in CASES.items()]
    + [((0.01, 0.9, 0.1, 0.3, -1), "not settled"), ((0.01, 0.9, -0.1, 0.3, 1), "not settled"),
       ((0.01, 0.9, np.nan, np.nan, 1), "higher"), ((0.01, 0.01, 0.01, 0.04, 1), "higher")],
)  # fmt: skip
def test_a_difference_needs_test_and_interval_and_equality_a_test_of_its_own(numbers, verdict):
    p, alike, low, high, sign = numbers
    side = 0.0 if p > 0.05 else sign
    gap = stats.Estimate(0.0, low, high)
    assert stats.verdict(gap, 0.05, side=side, equivalent=alike <= 0.05) == verdict


def test_a_run_without_any_difference_has_verdicts_and_a_run_of_one_scenario_says_why_it_has_none():
    bounded = SMALL | {"ranges": {"tas": [-1, 1]}}
    alike = pd.concat([FEW.assign(scenario=FEW["scenario"] + 30 * copy, tas=0.5) for copy in range(4)])
    assert stats.battery(alike, bounded).declared["verdict"].tolist() == ["equivalent", "equivalent"]
    short = stats.battery(FEW.assign(tas=0.5), bounded).declared
    assert set(short["verdict"]) == {"not settled"}, "30 alike may hide a user who loses everything"
    few = stats.battery(FEW, bounded | {"fewest": 100}).declared
    assert set(few["verdict"]) == {"too few users for a verdict"}
    single = stats.battery(FEW[FEW["scenario"] == 0], SMALL)
    assert single.omnibus["p"].isna().all()
    assert single.omnibus["note"].ne("").all()
    assert set(single.declared["verdict"]) == {"not compared"}


def test_numbers_in_words():
    ps = {0.0004: "p < .001", 0.0234: "p = .023", 1.0: "p = 1.000", np.nan: "p unknown"}
    assert [stats.p_in_words(p) for p in ps] == list(ps.values())
    intervals = {
        (0.123, 0.081, 0.158): "0.12 [0.08, 0.16]",
        (0.00412, 0.00311, 0.00502): "0.004 [0.003, 0.005]",
        (-0.001, -0.2, 0.2): "0.00 [−0.20, 0.20]",
        (0.5, np.nan, np.nan): "0.50 (no interval)",
        (np.nan, np.nan, np.nan): "unknown",
    }
    assert [str(stats.Estimate(*numbers)) for numbers in intervals] == list(intervals.values())


@pytest.mark.parametrize(("frame", "change", "words"), [
    (FRAME, {"contrasts": [["tracker", "oracle"]]}, r"contrasts name \['oracle'\]"),
    (FRAME, {"contrasts": []}, "contrasts is empty; name"),
    (FRAME, {"contrasts": ["tracker"]}, "expected two different systems"),
    (FRAME, {"primary_outcome": "tas_score"}, "no column 'tas_score'"),
    (FRAME, {"smalest_effect": 0.1}, "did you mean 'smallest_effect'"),
    (FRAME, {"smallest_effect": 0}, "smallest_effect is 0; input should be greater than 0"),
    (FRAME, {"alpha": 5}, "alpha is 5; input should be less than 1"),
    (FRAME, {"families": {"confirmatory": "bonferroni"}}, "'confirmatory' with 'bonferroni'"),
    (FRAME, {"secondary_outcomes": "leakage"}, "secondary_outcomes is 'leakage'; give a list"),
    (FRAME, {"secondary_outcomes": ["tas"], "lower_is_better": []}, "each may be named once"),
    (FRAME, {"lower_is_better": ["delay"]}, r"lower_is_better names \['delay'\]"),
    (FRAME.assign(tas=np.nan), {}, "no session has a value of 'tas'"),
    (FRAME[FRAME["system"] == "tracker"], {}, "has 1 system .* compares at least 2"),
])  # fmt: skip
def test_a_bad_plan_or_frame_says_what_to_mend(frame, change, words):
    refused(words, stats.ladder, frame, PLAN | change)


def test_a_plan_is_read_with_its_defaults():
    refused("contrasts is missing", read_plan, {"primary_outcome": "tas"})
    plan = read_plan(PLAN)
    assert read_plan(plan) == plan
    assert plan.families == {"confirmatory": "holm", "exploratory": "benjamini_hochberg"}


@pytest.fixture(scope="module")
def scores():
    """Sessions of three systems that share what is hard about a scenario; ``flat`` never varies."""
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 1, 40)
    rows = [
        {"system": name, "scenario": i, "x": hard[i] + 0.3 * k + rng.normal(0, 0.3), "y": rng.normal(), "flat": 1.0}
        for k, name in enumerate("abc") for i in range(40)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_the_tables_of_the_thesis_hold_scipys_numbers(scores):
    table = stats.anova_table(scores, ["x", "y", "flat"]).set_index(["outcome", "test"])
    groups = [part["x"].to_numpy() for _, part in scores.groupby("system")]
    assert table.loc["x"].index.tolist() == ["one-way ANOVA", "repeated-measures ANOVA", "Friedman"]
    theirs = {"one-way ANOVA": scipy.stats.f_oneway, "Friedman": scipy.stats.friedmanchisquare}
    for name, test in theirs.items():
        numbers = table.loc[("x", name), ["statistic", "p"]].tolist()
        assert numbers == pytest.approx([*test(*groups)], rel=1e-9)
    assert "no value varies" in table.loc[("flat", "one-way ANOVA"), "note"] and len(table) == 9
    wide = scores.pivot_table(index="scenario", columns="system", values="x")
    pairs = [(wide[a], wide[b]) for a, b in ("ab", "ac", "bc")]
    ratio = np.mean([np.sqrt((a.var() + b.var()) / (a - b).var()) for a, b in pairs])
    assert f"{ratio:.2f} times as wide" in table.loc[("x", "one-way ANOVA"), "note"]
    assert "correlation within scenarios" in table.loc[("y", "one-way ANOVA"), "note"]
    table = stats.tukey_table(scores, ["x", "y"])
    mine = table[table["outcome"] == "x"].set_index(["a", "b"])
    assert len(table) == 3 * 2
    assert mine.loc[("a", "c"), "diff"] == pytest.approx(groups[0].mean() - groups[2].mean())
    assert mine.loc[("a", "c"), "p"] == pytest.approx(scipy.stats.tukey_hsd(*groups).pvalue[0, 2], rel=1e-6)
    raw = scipy.stats.wilcoxon(groups[0] - groups[1]).pvalue
    assert mine.loc[("a", "b"), "p_wilcoxon"] == pytest.approx(raw, rel=1e-9)
    assert (mine["p_holm"] >= mine["p_wilcoxon"]).all() and (mine["p_holm"] <= 3 * mine["p_wilcoxon"]).all()
    assert (mine["paired_high"] - mine["paired_low"] < mine["high"] - mine["low"]).all()


def test_a_system_without_values_keeps_its_rows_and_is_named(scores):
    frame = scores.assign(x=scores["x"].where(scores["system"] != "b"))
    anova = stats.anova_table(frame, ["x"])
    assert anova["note"].str.contains("left out, with fewer than 2 values: b").all()
    table = stats.tukey_table(frame, ["x"]).set_index(["a", "b"])
    assert len(table) == 3 and table.loc[("a", "c"), "p"] >= 0
    empty = table.loc[("a", "b")]
    assert empty["note"] == "fewer than 2 values of b" and np.isnan(empty["p"])
    nobody = stats.tukey_table(frame.assign(x=np.nan), ["x"])
    assert len(nobody) == 3 and nobody["note"].str.len().gt(0).all()


def test_all_pairs_are_a_family_within_each_outcome(scores):
    plan = {"primary_outcome": "x", "secondary_outcomes": ["y"], "smallest_effect": 0.05, "all_pairs": True}
    plan |= {"contrasts": [["a", "b"], ["a", "c"], ["b", "c"]], "resamples": 50}
    pairs = stats.ladder(scores, plan | {"families": {"exploratory": "holm"}}).pairwise
    assert pairs.groupby("outcome")["family_size"].first().to_dict() == {"x": 3, "y": 3}
    assert set(pairs["adjustment"]) == {"holm"}


APART = FEW.assign(scenario=FEW["system"] + FEW["scenario"].astype(str))  # every system met its own users


def test_independent_samples_have_tests_and_tables_of_their_own_and_no_sentence_claims_pairs():
    found = stats.ladder(APART, SMALL)
    row = found.pairwise.iloc[0]
    means = APART.groupby(["system", "scenario"])["tas"].mean()
    a, b = means[row["a"]].to_numpy(), means[row["b"]].to_numpy()
    welch = scipy.stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert (row["low"], row["high"]) == pytest.approx(tuple(welch), rel=1e-9)
    assert row["p"] == pytest.approx(scipy.stats.ttest_ind(a, b, equal_var=False).pvalue, rel=1e-9)
    assert row["verdict"] == "higher"
    assert found.leaderboard["rank"].tolist() == [1, 2, 3]
    assert set(found.effects["effect"]) == {"omega_squared"}
    assert set(found.pairwise["note"]) == {"systems met different users"}
    order = stats.order_of(APART, "tas")
    assert order["system"].tolist() == ["tracker", "amnesiac", "popular"]
    assert order["verdict"].tolist() == ["not compared", "lower", "lower"]
    assert (order["diff_high"].iloc[1:] < 0).all()
    anova = stats.anova_table(APART, ["tas"])
    assert anova["test"].tolist() == ["one-way ANOVA", "Welch ANOVA"]
    assert "different users" in anova["note"][0] and "same users" not in anova["note"][0]
    table = stats.tukey_table(APART, ["tas"])
    samples = (means[name] for name in ("amnesiac", "popular", "tracker"))
    theirs = scipy.stats.tukey_hsd(*samples, equal_var=False)
    assert table["p_games_howell"][0] == pytest.approx(theirs.pvalue[0, 1], rel=1e-6)
    assert not {"paired_diff", "p_wilcoxon"} & set(table) and (table["p_holm"] <= 1).all()


def adapting(gains, costs, misfits, n=150, noise=0.05):
    """Two systems by their means in gain after a change, shift cost and misfit."""
    rng = np.random.default_rng(0)
    parts = []
    for name, gain, cost, misfit in zip("ab", gains, costs, misfits, strict=True):
        after = gain + noise * rng.normal(size=n)
        columns = {"gain_after_change": after, "shift_cost": cost + noise * rng.normal(size=n)}
        columns |= {"system": name, "scenario": range(n), "misfit": misfit + noise * rng.normal(size=n)}
        part = pd.DataFrame(columns)
        parts.append(part.assign(straight_gain=part["gain_after_change"] + part["shift_cost"]))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize(
    ("gains", "costs", "misfits", "sentence"),
    [
        ((0.8, 0.4), (0.0, 0.4), (0.0, 0.4), "a adapts better than b: after a change its users get 0.8"),
        (
            (0.23, 0.85),
            (-0.1, 0.0),
            (-0.1, 0.0),
            "a loses less, having less to lose: after a change its users get 0.2",
        ),
        (
            (0.8, 0.4),
            (0.0, 0.0),
            (0.0, 0.0),
            "a serves its users better than b, and is not shown to adapt better",
        ),
        (
            (0.8, 0.8),
            (0.1, 0.1),
            (0.1, 0.1),
            "adapt equally within ±0.05: after a change their users get 0.8",
        ),
        ((0.05, 0.05), (0.0, 0.0), (0.0, 0.0), "is not settled: after a change their users get 0.0"),
        ((0.8, 0.4), (0.0, 0.4), (0.0, 0.0), "delay: b replies without films (a question, an empty reply)."),
    ],
)
def test_one_function_gives_the_sentence(gains, costs, misfits, sentence):
    pair = stats.adaptation_of(adapting(gains, costs, misfits), "a", "b")
    assert sentence in pair.sentence
    turned = stats.adaptation_of(adapting(gains, costs, misfits), "b", "a")
    assert turned.word == pair.word


def test_lower_straight_gain_forbids_adapts_better():
    """a gains .6 after a change and .6 without; b .5 and .9: it serves better, after losing what b had to lose."""
    pair = stats.adaptation_of(adapting((0.6, 0.5), (0.0, 0.4), (0.0, 0.4)), "a", "b")
    assert pair.word == "serves better"


def test_no_word_below_a_hundred_users_and_parts_add_up_in_print():
    frame = adapting((0.8, 0.4), (0.0, 0.4), (0.0, 0.4), n=99)
    few = stats.adaptation_of(frame, "a", "b")
    assert few.sentence == "a and b: too few users for a verdict: 99 (it takes 100)."
    pair = stats.adaptation_of(adapting((0.8, 0.4), (0.0, 0.4), (0.0, 0.4)), "a", "b")
    ability, adaptation = (float(part.replace("−", "-")) for part in pair.printed_parts)
    assert ability + adaptation == pytest.approx(round(pair.gain.estimate.value, 2))
    exact = pair.ability.estimate.value + pair.adaptation.value
    assert exact == pytest.approx(pair.gain.estimate.value, abs=1e-12)
    nobody = stats.adaptation_of(frame.assign(gain_after_change=np.nan), "a", "b")
    assert nobody.word == "not compared"


def test_the_battery_judges_the_declared_contrasts_by_the_corrected_p():
    frame = adapting((0.8, 0.4), (0.0, 0.4), (0.0, 0.4))
    plan = {"primary_outcome": "gain_after_change", "contrasts": [["a", "b"]], "smallest_effect": 0.05}
    row = stats.battery(frame, plan | {"resamples": 50}).adaptation.iloc[0]
    assert (row["a"], row["b"], row["word"]) == ("a", "b", "adapts better")
    assert row["sentence"] == stats.adaptation_of(frame, "a", "b").sentence


def test_a_contrast_that_cannot_be_compared_takes_no_significance_from_others():
    able = FEW.assign(ability=(FEW["system"] != "popular") * 0.5)
    declared = stats.battery(able, SMALL | {"ability": "ability"}).declared
    assert declared["family_size"].tolist() == [1, 1]
    assert declared["p_adjusted"].isna().tolist() == [False, True]
