"""Conclusions in words, made from the numbers, so that no sentence can disagree with its table."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.stats.analysis import Ladder
from crs_lib.stats.plan import Plan, read_plan

_CORRECTION = {"holm": "Holm", "benjamini_hochberg": "Benjamini-Hochberg"}


def p_in_words(p: float) -> str:
    """A p value as printed: ``p < .001``, ``p = .023``; ``p unknown`` for NaN."""
    if np.isnan(p):
        return "p unknown"
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)


def interval_in_words(estimate: float, low: float, high: float) -> str:
    """``0.12 [0.08, 0.16]``, with as many decimals as the width of the interval calls for."""
    width = abs(high - low)
    places = 2 if not width > 1e-9 else int(np.clip(-np.floor(np.log10(width)), 2, 6))
    if np.isnan(width):
        return f"{_signless(estimate, places)} (no interval)"
    parts = (_signless(value, places) for value in (estimate, low, high))
    return "{} [{}, {}]".format(*parts)


def _signless(value: float, places: int) -> str:
    """Rounded, with a true minus sign and no negative zero."""
    text = f"{value:.{places}f}"
    return text.replace("-", "" if float(text) == 0 else "−")


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
    declared = _records(pairs[pairs["family"] == "confirmatory"])
    checks = results.assumptions[results.assumptions["outcome"] == plan.primary_outcome]
    return {
        "data": [_data(results, plan)],
        "systems": [_differ(results, plan)],
        "contrasts": [_contrast(row, results, plan) for row in declared],
        "ranking": _ranking(results, plan),
        "exploratory": _explored(pairs[pairs["family"] == "exploratory"], plan),
        "checks": [_check(row) for row in _records(checks)],
        "power": [_power(results, plan)],
    }


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]


def _sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


def _data(results: Ladder, plan: Plan) -> str:
    means = results.means[results.means["outcome"] == plan.primary_outcome]
    lost, kept = int(means["n_missing"].sum()), int(means["n"].sum())
    most = int(means["clusters"].max())
    text = f"{plan.primary_outcome} was declared as the primary outcome: {len(means)} systems, "
    text += f"{most} scenarios, {kept} values"
    return _sentence(text + (f"; {lost} more are missing and left out" if lost else ", none missing"))


def _differ(results: Ladder, plan: Plan) -> str:
    tests = results.omnibus[results.omnibus["outcome"] == plan.primary_outcome]
    row = tests[tests["test"] == "repeated-measures ANOVA"].iloc[0]
    if pd.isna(row["p"]):
        return _sentence(f"Whether any system differs could not be tested: {row['note'] or 'no variation'}")
    shrink = 1.0 if pd.isna(row["epsilon_gg"]) else float(row["epsilon_gg"])
    p = float(row["p"] if pd.isna(row["p_gg"]) else row["p_gg"])
    friedman = tests[tests["test"] == "Friedman"].iloc[0]
    say = "The systems differ" if p <= plan.alpha else "No difference between the systems was shown"
    text = f"{say} (repeated-measures ANOVA with Greenhouse-Geisser, "
    text += f"F({shrink * row['df1']:.1f}, {shrink * row['df2']:.1f}) = {row['statistic']:.2f}, "
    text += f"{p_in_words(p)}; Friedman {p_in_words(float(friedman['p']))}"
    effects = results.effects[results.effects["outcome"] == plan.primary_outcome]
    share = effects[effects["effect"] == "partial_eta_squared"].iloc[0]
    size = interval_in_words(share["estimate"], share["low"], share["high"])
    return _sentence(f"{text}; partial eta squared {size})")


def _contrast(row: dict[str, Any], results: Ladder, plan: Plan) -> str:
    a, b, p = row["a"], row["b"], float(row["p_wilcoxon_adjusted"])
    if np.isnan(p):
        return _sentence(f"{a} and {b} could not be compared: {row['note']}")
    method = _CORRECTION[plan.families["confirmatory"]]
    test = f"(Wilcoxon, {method} {p_in_words(p)}, {int(row['n'])} scenarios)"
    diff, low, high = float(row["diff"]), float(row["low"]), float(row["high"])
    if p <= plan.alpha:
        if diff < 0:
            diff, low, high = -diff, -high, -low
        way = "higher" if float(row["diff"]) > 0 else "lower"
        text = f"{a} scores {way} than {b} by {interval_in_words(diff, low, high)} {test}"
        return _sentence(text + _doubts(row, results, plan))
    size = interval_in_words(diff, low, high)
    margin, tost = plan.smallest_effect, _tost(a, b, results)
    if tost is not None and tost["equivalent"]:
        text = f"{a} and {b} are equivalent within ±{margin:g}: they differ by {size} "
        return _sentence(text + f"(TOST {p_in_words(float(tost['p']))}; {test[1:-1]})")
    text = f"Whether {a} and {b} differ is not settled: {size} {test}, "
    return _sentence(text + f"neither a difference nor equivalence within ±{margin:g} was shown")


def _tost(a: Any, b: Any, results: Ladder) -> dict[str, Any] | None:
    made = results.equivalence
    if "a" not in made:
        return None
    found = _records(made[(made["a"] == a) & (made["b"] == b)])
    return found[0] if found else None


def _doubts(row: dict[str, Any], results: Ladder, plan: Plan) -> str:
    """What speaks against reading the difference plainly."""
    doubts = []
    flipped = float(row["p_sign_flip_adjusted"])
    if flipped > plan.alpha:
        doubts.append(f"the sign-flip test of the mean does not agree ({p_in_words(flipped)})")
    e = results.effects
    mine = (e["outcome"] == row["outcome"]) & (e["a"] == row["a"]) & (e["b"] == row["b"])
    rank = e[mine & (e["effect"] == "rank_biserial")]["estimate"]
    if len(rank) and float(rank.iloc[0]) * float(row["diff"]) < 0:
        doubts.append("most scenarios point the other way than the mean")
    tost = _tost(row["a"], row["b"], results)
    if tost is not None and tost["equivalent"]:
        doubts.append(f"the difference is smaller than the smallest that matters, {plan.smallest_effect:g}")
    return f"; but {' and '.join(doubts)}" if doubts else _beyond(row, plan)


def _beyond(row: dict[str, Any], plan: Plan) -> str:
    """How the interval of a difference lies to the smallest difference that matters."""
    if np.isnan(float(row["low"])):
        return ""
    least, most = sorted((abs(float(row["low"])), abs(float(row["high"]))))
    least = 0.0 if float(row["low"]) * float(row["high"]) < 0 else least
    if least > plan.smallest_effect:
        return f", more than the smallest difference that matters, {plan.smallest_effect:g}"
    if most > plan.smallest_effect:
        if abs(float(row["diff"])) < plan.smallest_effect:
            return f"; the estimate lies below the smallest difference that matters, {plan.smallest_effect:g}"
        return (
            f"; the interval does not exclude differences below {plan.smallest_effect:g}, the smallest that "
            "matters"
        )
    return f", less than the smallest difference that matters, {plan.smallest_effect:g}"


def _ranking(results: Ladder, plan: Plan) -> list[str]:
    board = results.leaderboard[results.leaderboard["outcome"] == plan.primary_outcome]
    if "rank" not in board or board["rank"].isna().all():
        return []
    best = board.iloc[0]
    tied = [row["system"] for row in _records(board.iloc[1:]) if set(row["tied"]) & set(best["tied"])]
    text = f"{best['system']} leads with a mean of "
    text += interval_in_words(best["mean"], best["low"], best["high"])
    low, high = int(best["rank_low"]), int(best["rank_high"])
    ranks = f"{low} to {high}" if high > low else f"{low}"
    text += f"; its rank is {ranks} in 95 % of the resampled sets of scenarios"
    if tied:
        text += f"; it is indistinguishable from {' and '.join(map(str, tied))}"
    return [_sentence(text)]


def _explored(rows: pd.DataFrame, plan: Plan) -> list[str]:
    made = rows[rows["p_wilcoxon_adjusted"].notna()]
    if made.empty:
        return []
    found = int((made["p_wilcoxon_adjusted"] <= plan.alpha).sum())
    method = _CORRECTION[plan.families["exploratory"]]
    return [f"Of {len(made)} exploratory comparisons, {found} differ after {method} at {plan.alpha:g}."]


def _check(row: dict[str, Any]) -> str:
    follows = row.get("follows")
    if not isinstance(follows, str):
        return _sentence(f"The assumptions could not be checked: {row['note']}")
    p = "" if pd.isna(row.get("p")) else f" ({row['test']}, {p_in_words(float(row['p']))})"
    return _sentence(f"Check of {row['check']}{p}: {follows}")


def _power(results: Ladder, plan: Plan) -> str:
    rows = results.power
    if "detectable_effect" not in rows:
        return _sentence(f"Power could not be estimated: {rows.iloc[0]['note']}")
    n = _range(rows["n"], "{:.0f}")
    text = f"With {n} scenarios, {plan.power:.0%} power is reached for differences from "
    known = rows.dropna(subset=["detectable_effect"]).sort_values("detectable_effect", kind="stable")
    if known.empty:
        text += "no size on"
    elif len(known) == 1:
        text += f"{known.iloc[0]['detectable_effect']:.2g} on"
    else:
        best, worst = known.iloc[0], known.iloc[-1]
        text += f"{best['detectable_effect']:.2g} ({best['a']} against {best['b']}) to "
        text += f"{worst['detectable_effect']:.2g} ({worst['a']} against {worst['b']}), "
        text += "by the spread of each contrast"
    needed = rows["sessions_needed"]
    much = (
        f"{_range(needed, '{:.0f}')} scenarios"
        if needed.notna().any()
        else "more scenarios than is practical"
    )
    if needed.notna().any() and needed.isna().any():
        much += " or more than is practical"
    return _sentence(f"{text}; the smallest that matters, {plan.smallest_effect:g}, takes {much}")


def _range(values: pd.Series, form: str) -> str:
    """``7`` or ``7 to 31``, missing values left out."""
    low, high = form.format(values.min()), form.format(values.max())
    return low if low == high else f"{low} to {high}"
