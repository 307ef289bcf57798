"""Conclusions in words, made from the numbers, so that no sentence can disagree with its table."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from crs_lib.core.text import listing
from crs_lib.stats.analysis import Battery as Ladder
from crs_lib.stats.estimate import Estimate, p_in_words
from crs_lib.stats.plan import Plan, read_plan
from crs_lib.stats.power import least_scenarios, smallest_p

_CORRECTION = {"holm": "Holm", "benjamini_hochberg": "Benjamini-Hochberg"}


def interval_in_words(estimate: float, low: float, high: float) -> str:
    """As :class:`Estimate` prints it."""
    return str(Estimate(estimate, low, high))


def conclusions(results: Ladder, plan: Mapping[str, Any] | Plan) -> list[str]:
    """What the ladder shows, sentence by sentence; contrasts and ranks follow the pairs' ``verdict``."""
    return [sentence for part in conclusions_by_subject(results, plan).values() for sentence in part]


def conclusions_by_subject(results: Ladder, plan: Mapping[str, Any] | Plan) -> dict[str, list[str]]:
    """:func:`conclusions` by subject: data, systems, contrasts, ranking, exploratory, checks, power."""
    plan = read_plan(plan)
    pairs = results.pairwise
    sentences = {
        "data": [_data(results.means, plan)],
        "systems": [_differ(results, plan)],
        "contrasts": [_contrast(row, plan) for row in results.declared.to_dict("records")],
        "ranking": _ranking(results, plan),
        "exploratory": _explored(pairs[pairs["family"] == "exploratory"], plan),
        "checks": [_check(row) for row in results.assumptions.to_dict("records")],
        "power": [*_undecided(results.declared, plan), _power(results.power, plan)],
    }
    return {name: [text.rstrip(".") + "." for text in part] for name, part in sentences.items()}


def _data(means: pd.DataFrame, plan: Plan) -> str:
    lost = int(means["n_missing"].sum())
    told = f"{len(means)} systems, {int(means['clusters'].max())} scenarios, {int(means['n'].sum())} values"
    told += f"; {lost} more are missing and left out" if lost else ", none missing"
    return f"{plan.primary_outcome} was declared as the primary outcome: {told}"


def _differ(results: Ladder, plan: Plan) -> str:
    """Whether any system differs: by a test of all at once, or by a contrast, which settles it as well."""
    tests = results.omnibus.set_index("test")
    if "p_brunner_munzel" in results.pairwise:
        row = tests.loc["Welch ANOVA"]
        if pd.isna(row["p"]):
            return f"Whether any system differs could not be tested: {row['note'] or 'no variation'}"
        told = "The systems differ" if row["p"] <= plan.alpha else "No test of all systems is conclusive"
        test = f"Welch's ANOVA, F({row['df1']:.0f}, {row['df2']:.1f}) = {row['statistic']:.2f}"
        return f"{told} ({test}, {p_in_words(row['p'])}); they met different users: independent samples"
    row, friedman = tests.loc["repeated-measures ANOVA"], tests.loc["Friedman"]
    pairs = results.pairwise[results.pairwise["outcome"] == plan.primary_outcome]
    apart = pairs["verdict"].isin(["higher", "lower"]).any()
    some = "Some systems differ, as the pairs show"
    if pd.isna(row["p"]):
        told = f"{some}; all at once they" if apart else "Whether any system differs"
        return f"{told} could not be tested: {row['note'] or 'no variation'}"
    shrink, p = (row["epsilon_gg"], row["p_gg"]) if pd.notna(row["p_gg"]) else (1.0, row["p"])
    share = results.effects.set_index("effect").loc["partial_eta_squared"]
    told = "The systems differ" if p <= plan.alpha else "The test of all systems at once is not conclusive"
    told = some if apart and p > plan.alpha else told
    df1, df2 = shrink * row["df1"], shrink * row["df2"]
    test = f"F({df1:.1f}, {df2:.1f}) = {row['statistic']:.2f}, {p_in_words(p)}"
    more = f"Friedman {p_in_words(friedman['p'])}; partial eta squared {_interval(share, 'estimate')}"
    return f"{told} (repeated-measures ANOVA with Greenhouse-Geisser, {test}; {more})"


def _interval(row: Any, value: str) -> str:
    return interval_in_words(row[value], row["low"], row["high"])


def _contrast(row: Mapping[Any, Any], plan: Plan) -> str:
    """The sentence of a declared contrast, by its verdict."""
    a, b, margin, alike = row["a"], row["b"], plan.smallest_effect, row["p_equivalent_adjusted"]
    if row["verdict"] == "not compared":
        return f"{a} and {b} are not compared: {row['note']}"
    method = _CORRECTION[plan.families["confirmatory"]]
    p = row.get("p_brunner_munzel_adjusted", row["p_wilcoxon_adjusted"])
    test = f"Wilcoxon, {method} {p_in_words(p)}, {int(row['n'])} scenarios"
    if "p_brunner_munzel_adjusted" in row:
        test = f"Brunner–Munzel, {method} {p_in_words(p)}, {int(row['n'])} users each"
    size = _interval(row, "diff")
    if row["verdict"] == "equivalent":
        tested = f"(TOST, {method} {p_in_words(alike)}; {test})"
        return f"{a} and {b} are equivalent within ±{margin:g}: they differ by {size} {tested}"
    if row["verdict"] == "not settled":
        why = f"; {row['note']}" if row["note"] else ""
        why += "; the ranks differ, the mean is not shown to" * (p <= plan.alpha)
        told = f"Whether {a} and {b} differ is not settled: {size} ({test}{why})"
        return f"{told}, neither a difference nor equivalence within ±{margin:g} was shown"
    higher = row["verdict"] == "higher"
    size = size if higher else interval_in_words(-row["diff"], -row["high"], -row["low"])
    told = f"{a} scores {row['verdict']} than {b} by {size} ({test})"
    matters = f"the smallest difference that matters, {margin:g}"
    if alike <= plan.alpha:
        return f"{told}, less than {matters}"
    beyond = row["low"] >= margin or row["high"] <= -margin
    return f"{told}, more than {matters}" if beyond else f"{told}; it may be less than {matters}"


def _ranking(results: Ladder, plan: Plan) -> list[str]:
    """Who has the best mean, and whom the tests of pairs do not place behind."""
    board = results.leaderboard
    if "rank" not in board or board["rank"].isna().all():
        return []
    best, *others = board.to_dict("records")
    first, low, high = best["system"], int(best["rank_low"]), math.ceil(best["rank_high"])
    text = f"{first} has the best mean, {_interval(best, 'mean')}, of the {len(board)} systems that are "
    text += f"ranked; its rank is {low}{f' to {high}' if high > low else ''} in 95 % of the resampled sets "
    text += "of scenarios"
    found = {str(one["system"]): _against(first, one["system"], results.pairwise, plan) for one in others}
    for verdict, words in _AGAINST_THE_FIRST.items():
        if names := [name for name, its in found.items() if its == verdict]:
            text += words.format(names=listing(names), margin=plan.smallest_effect)
    left = [str(name) for name in results.means["system"] if name not in set(board["system"])]
    return [f"{text}; {listing(left)} {'is' if len(left) == 1 else 'are'} not ranked" if left else text]


def _against(first: Any, other: Any, pairs: pd.DataFrame, plan: Plan) -> str:
    """The verdict of the pair, "better" where the test of the scenarios that both have favours the other."""
    mine = pairs[pairs["outcome"] == plan.primary_outcome]
    row = next(row for row in mine.itertuples() if {row.a, row.b} == {first, other})
    if row.verdict not in ("higher", "lower"):
        return str(row.verdict)
    higher = (row.verdict == "higher") == (row.a == first)
    return "worse" if higher != (plan.primary_outcome in plan.lower_is_better) else "better"


_AGAINST_THE_FIRST = {  # systems that the tests of pairs do not place behind the one with the best mean
    "better": "; better where both have values: {names}",
    "not settled": "; not shown to differ from it: {names}",
    "equivalent": "; equivalent to it within ±{margin:g}: {names}",
    "not compared": "; not compared with it: {names}",
}


def _undecided(declared: pd.DataFrame, plan: Plan) -> list[str]:
    """What so few scenarios cannot decide, whatever they show: nothing where they can."""
    known = declared.dropna(subset=["p_wilcoxon"])
    if known.empty:
        return []
    n, tests = int(known["n"].max()), int(known["family_size"].max())
    least = smallest_p(n, tests)
    if least <= plan.alpha:
        return []
    told = f"{n} scenarios cannot show a difference in any of {tests} contrasts: no p falls below {least:.3f}"
    return [f"{told} after correction; {least_scenarios(tests, plan.alpha)} scenarios could"]


def _explored(rows: pd.DataFrame, plan: Plan) -> list[str]:
    made = rows.get("p_brunner_munzel_adjusted", rows["p_wilcoxon_adjusted"]).dropna()
    if made.empty:
        return []
    method, found = _CORRECTION[plan.families["exploratory"]], int((made <= plan.alpha).sum())
    return [f"Of {len(made)} exploratory comparisons, {found} differ after {method} at {plan.alpha:g}"]


def _check(row: Mapping[Any, Any]) -> str:
    if not isinstance(row.get("follows"), str):
        return f"The assumptions could not be checked: {row['note']}"
    p = "" if pd.isna(row.get("p")) else f" ({row['test']}, {p_in_words(row['p'])})"
    return f"Check of {row['check']}{p}: {row['follows']}"


def _power(rows: pd.DataFrame, plan: Plan) -> str:
    if "detectable_effect" not in rows:
        return f"Power could not be estimated: {rows.iloc[0]['note']}"
    known = rows.dropna(subset=["detectable_effect"]).sort_values("detectable_effect", kind="stable")
    ends = [f"{row.detectable_effect:.2g} ({row.a} against {row.b})" for row in known.itertuples()]
    needed, much = known["sessions_needed"], "more scenarios than is practical"
    if needed.notna().any():
        much = f"{_range(needed)} scenarios{', or more than is practical' * int(needed.isna().any())}"
    size = " to ".join(dict.fromkeys([ends[0], ends[-1]])) if ends else "no size"
    told = f"With {_range(rows['n'])} scenarios, {plan.power:.0%} power is reached for a difference of {size}"
    smallest = f"the smallest that matters, {plan.smallest_effect:g}, takes {much}"
    return f"{told}, by the spread of each contrast; {smallest}"


def _range(values: pd.Series) -> str:
    """``7`` or ``7 to 31``, missing values left out."""
    low, high = f"{values.min():.0f}", f"{values.max():.0f}"
    return low if low == high else f"{low} to {high}"
