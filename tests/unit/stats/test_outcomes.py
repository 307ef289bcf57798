"""The thesis's tests of every outcome, beside the paired ones; against scipy and by hand."""

import numpy as np
import pandas as pd
import pytest
import scipy

from crs_lib import stats


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
    assert set(table.index.get_level_values("test")) == {
        "one-way ANOVA",
        "repeated-measures ANOVA",
        "Friedman",
    }
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_all_pairs_are_a_family_within_each_outcome():
    plan = stats.read_plan({"primary_outcome": "x", "contrasts": [["a", "b"]], "smallest_effect": 0.05})
    every = (("a", "b"), ("a", "c"), ("b", "c"))
    plan = plan._replace(
        contrasts=every, secondary_outcomes=("y",), all_pairs=True, resamples=50, permutations=50,
        families=dict.fromkeys(plan.families, "holm"),
    )  # fmt: skip
    pairs = stats.ladder(scores(), plan).pairwise
    assert pairs.groupby("outcome")["family_size"].first().to_dict() == {"x": 3, "y": 3}
    assert set(pairs["adjustment"]) == {"holm"}
