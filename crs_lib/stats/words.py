"""Conclusions in words, made from the numbers, so that no sentence can disagree with its table."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.stats.analysis import Ladder, size_of
from crs_lib.stats.plan import Plan, read_plan

_CORRECTION = {"holm": "Holm", "benjamini_hochberg": "Benjamini-Hochberg"}
_BEYOND = {  # of a difference whose size against the smallest that matters is ...
    "below {:g}": ", less than the smallest difference that matters, {:g}",
    "estimate below {:g}": "; the estimate lies below the smallest difference that matters, {:g}",
    "{:g} or more": ", more than the smallest difference that matters, {:g}",
    "estimate {:g} or more": "; the interval does not exclude differences below {:g}, the smallest that "
    "matters",
}


def p_in_words(p: float) -> str:
    """A p value as printed: ``p < .001``, ``p = .023``; ``p unknown`` for NaN."""
    if np.isnan(p):
        return "p unknown"
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)


def interval_in_words(estimate: float, low: float, high: float) -> str:
    """``0.12 [0.08, 0.16]``, with as many decimals as the width of the interval calls for."""
    width = abs(high - low)
    places = 2 if not width > 1e-9 else int(np.clip(-np.floor(np.log10(width)), 2, 6))
    told, low_end, high_end = (f"{value:z.{places}f}".replace("-", "−") for value in (estimate, low, high))
    return f"{told} (no interval)" if np.isnan(width) else f"{told} [{low_end}, {high_end}]"


def conclusions(results: Ladder, plan: Mapping[str, Any] | Plan) -> list[str]:
    """What the ladder shows, sentence by sentence: data, omnibus, contrasts, ranking, checks, power.

    A contrast is a difference only if its adjusted Wilcoxon p is at most alpha; without that it is
    "equivalent" only if TOST says so, else "not settled". Direction and size come from the mean
    difference; where rank and mean point apart, or the sign-flip test disagrees, the sentence says it.
    Raises InputError for a plan that cannot be read.
    """
    return [sentence for part in conclusions_by_subject(results, plan).values() for sentence in part]


def conclusions_by_subject(results: Ladder, plan: Mapping[str, Any] | Plan) -> dict[str, list[str]]:
    """:func:`conclusions` by subject: data, systems, contrasts, ranking, exploratory, checks, power."""
    plan = read_plan(plan)
    pairs = results.pairwise
    sentences = {
        "data": [_data(results.means, plan)],
        "systems": [_differ(results, plan)],
        "contrasts": _contrasts(results, plan),
        "ranking": _ranking(results.leaderboard),
        "exploratory": _explored(pairs[pairs["family"] == "exploratory"], plan),
        "checks": [_check(row) for row in results.assumptions.to_dict("records")],
        "power": [_power(results.power, plan)],
    }
    return {name: [text.rstrip(".") + "." for text in part] for name, part in sentences.items()}


def _data(means: pd.DataFrame, plan: Plan) -> str:
    lost = int(means["n_missing"].sum())
    return (
        f"{plan.primary_outcome} was declared as the primary outcome: {len(means)} systems, "
        f"{int(means['clusters'].max())} scenarios, {int(means['n'].sum())} values"
        + (f"; {lost} more are missing and left out" if lost else ", none missing")
    )


def _differ(results: Ladder, plan: Plan) -> str:
    tests = results.omnibus.set_index("test")
    row, friedman = tests.loc["repeated-measures ANOVA"], tests.loc["Friedman"]
    if pd.isna(row["p"]):
        return f"Whether any system differs could not be tested: {row['note'] or 'no variation'}"
    shrink, p = (row["epsilon_gg"], row["p_gg"]) if pd.notna(row["p_gg"]) else (1.0, row["p"])
    share = results.effects.set_index("effect").loc["partial_eta_squared"]
    return (
        f"{'The systems differ' if p <= plan.alpha else 'No difference between the systems was shown'} "
        "(repeated-measures ANOVA with Greenhouse-Geisser, "
        f"F({shrink * row['df1']:.1f}, {shrink * row['df2']:.1f}) = {row['statistic']:.2f}, {p_in_words(p)}; "
        f"Friedman {p_in_words(friedman['p'])}; partial eta squared {_interval(share, 'estimate')})"
    )


def _interval(row: Any, value: str) -> str:
    return interval_in_words(row[value], row["low"], row["high"])


def _contrasts(results: Ladder, plan: Plan) -> list[str]:
    """A sentence a declared contrast."""
    declared = results.pairwise[results.pairwise["family"] == "confirmatory"]
    ranked, tost = results.effects[results.effects["effect"] == "rank_biserial"], results.equivalence
    ranks = {(row["a"], row["b"]): row["estimate"] for row in ranked.to_dict("records")}
    alike = {(row["a"], row["b"]): row["p"] for row in tost.to_dict("records") if row.get("equivalent")}
    rows = {(row["a"], row["b"]): row for row in declared.to_dict("records")}
    return [_contrast(row, plan, ranks.get(pair), alike.get(pair)) for pair, row in rows.items()]


def _contrast(row: dict[Any, Any], plan: Plan, rank: float | None, tost: float | None) -> str:
    """``rank`` is the rank-biserial correlation, ``tost`` the p of equivalence where it was shown."""
    a, b, p, diff = row["a"], row["b"], row["p_wilcoxon_adjusted"], row["diff"]
    if np.isnan(p):
        return f"{a} and {b} could not be compared: {row['note']}"
    margin, flipped = plan.smallest_effect, row["p_sign_flip_adjusted"]
    method = _CORRECTION[plan.families["confirmatory"]]
    test = f"Wilcoxon, {method} {p_in_words(p)}, {int(row['n'])} scenarios"
    if p > plan.alpha:
        size = _interval(row, "diff")
        if tost is not None:
            tested = f"(TOST {p_in_words(tost)}; {test})"
            return f"{a} and {b} are equivalent within ±{margin:g}: they differ by {size} {tested}"
        told = f"Whether {a} and {b} differ is not settled: {size} ({test})"
        return f"{told}, neither a difference nor equivalence within ±{margin:g} was shown"
    bounds = (diff, row["low"], row["high"]) if diff >= 0 else (-diff, -row["high"], -row["low"])
    doubts = []
    if flipped > plan.alpha:
        doubts.append(f"the sign-flip test of the mean does not agree ({p_in_words(flipped)})")
    if rank is not None and rank * diff < 0:
        doubts.append("most scenarios point the other way than the mean")
    if tost is not None:
        doubts.append(f"the difference is smaller than the smallest that matters, {margin:g}")
    sizes = {size.format(margin): text.format(margin) for size, text in _BEYOND.items()}
    told = f"{a} scores {'higher' if diff > 0 else 'lower'} than {b} by {interval_in_words(*bounds)} ({test})"
    return told + (f"; but {' and '.join(doubts)}" if doubts else sizes[size_of(row, plan)])


def _ranking(board: pd.DataFrame) -> list[str]:
    if "rank" not in board or board["rank"].isna().all():
        return []
    best, *others = board.to_dict("records")
    tied = [str(one["system"]) for one in others if set(one["tied"]) & set(best["tied"])]
    low, high = int(best["rank_low"]), int(best["rank_high"])
    ranks = f"{low} to {high}" if high > low else f"{low}"
    text = f"{best['system']} leads with a mean of {_interval(best, 'mean')}"
    text += f"; its rank is {ranks} in 95 % of the resampled sets of scenarios"
    return [text + (f"; it is indistinguishable from {' and '.join(tied)}" if tied else "")]


def _explored(rows: pd.DataFrame, plan: Plan) -> list[str]:
    made = rows["p_wilcoxon_adjusted"].dropna()
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
    reached = "no size on"
    if len(ends) == 1:
        reached = f"{known['detectable_effect'].iloc[0]:.2g} on"
    elif ends:
        reached = f"{ends[0]} to {ends[-1]}, by the spread of each contrast"
    needed, much = rows["sessions_needed"], "more scenarios than is practical"
    if needed.notna().any():
        much = f"{_range(needed)} scenarios"
        much += " or more than is practical" if needed.isna().any() else ""
    return (
        f"With {_range(rows['n'])} scenarios, {plan.power:.0%} power is reached for differences "
        f"from {reached}; the smallest that matters, {plan.smallest_effect:g}, takes {much}"
    )


def _range(values: pd.Series) -> str:
    """``7`` or ``7 to 31``, missing values left out."""
    low, high = f"{values.min():.0f}", f"{values.max():.0f}"
    return low if low == high else f"{low} to {high}"
