"""Findings about the statistics of a run: what the declared tests found, and how far they can be read."""

import pandas as pd

from crs_lib import stats
from crs_lib.metrics import base
from crs_lib.stats import Finding, Ladder, Plan, finding, no_finding


def of_plan(ladder: Ladder, plan: Plan, subject: str) -> Finding:
    """The first sentence of the conclusions on a subject: data, systems, ranking or power."""
    told = stats.conclusions_by_subject(ladder, plan)[subject]
    if not told:
        return no_finding(f"the tests of this run bear no sentence on {subject}")
    told[0] = told[0].replace(plan.primary_outcome, base.get(plan.primary_outcome).short)
    return no_finding(told[0]) if "could not be" in told[0] else finding(told[0])


def contrasts(ladder: Ladder, plan: Plan) -> Finding:
    """Of the declared contrasts: how many differ, are equivalent, are open; and the smallest that differs."""
    pairs = ladder.pairwise
    mine = pairs[(pairs["family"] == "confirmatory") & pairs["p_wilcoxon_adjusted"].notna()]
    if mine.empty:
        return no_finding("no declared contrast could be tested")
    differ = mine[mine["p_wilcoxon_adjusted"] <= plan.alpha]
    made = ladder.equivalence
    same = made[made["equivalent"].astype(bool)] if "equivalent" in made else made.head(0)
    known = {frozenset((a, b)) for a, b in zip(same.get("a", ()), same.get("b", ()), strict=True)}
    open_ = mine[mine["p_wilcoxon_adjusted"] > plan.alpha]
    alike = sum(frozenset((a, b)) in known for a, b in zip(open_["a"], open_["b"], strict=True))
    told = (
        f"Declared contrasts that differ after correction: {len(differ)} of {len(mine)}; equivalent within "
    )
    told += f"±{plan.smallest_effect:g}: {alike}; not settled: {len(open_) - alike}"
    if len(differ):
        row = differ.loc[differ["diff"].abs().idxmin()]
        size = stats.interval_in_words(*(float(row[name]) for name in ("diff", "low", "high")))
        told += f"; the smallest difference is that of {row['a']} and {row['b']}, {size}"
    return finding(f"{told}.")


def classical(pairs: pd.DataFrame, alpha: float = 0.05) -> Finding:
    """Where Tukey's HSD, which ignores the pairing, and the paired Wilcoxon tests come to other verdicts."""
    both = pairs[pairs["p"].notna() & pairs["p_holm"].notna()]
    if both.empty:
        return no_finding("no pair has both Tukey's test and a paired one")
    tukey, paired = both["p"] <= alpha, both["p_holm"] <= alpha
    return finding(
        f"Of {stats.counted(len(both), 'comparison')} of two systems on an outcome, "
        f"Tukey's HSD tells {int(tukey.sum())} apart and the paired Wilcoxon test with Holm's correction "
        f"{int(paired.sum())}; the verdicts disagree on {int((tukey != paired).sum())}."
    )


def types_of_shift(table: pd.DataFrame) -> Finding:
    """Whether differences between systems depend on the type of shift: the interaction of the model."""
    rows = table[table["term"] == "system:shift_type"] if "term" in table else table.head(0)
    if rows.empty or rows["p"].iloc[0] in ("", "p unknown"):
        return no_finding(str(table["note"].iloc[0]) if "note" in table and len(table) else "no model fits")
    row = rows.iloc[0]
    test = f"Wald χ²({int(float(row['df']))}) = {float(row['chi2']):.1f}, {row['p']}"
    alike = not (str(row["p"]).startswith("p <") or float(str(row["p"]).removeprefix("p = ")) <= 0.05)
    said = (
        "No difference between types of shift in how far systems differ is shown"
        if alike
        else ("How far the systems differ depends on the type of shift")
    )
    return finding(
        f"{said} ({test}, {int(float(row['n']))} shifts in {int(float(row['scenarios']))} scenarios)."
    )


def assumptions(table: pd.DataFrame) -> Finding:
    """Which checks fail, of how many."""
    rows = table[table["holds"].astype(str).isin(["True", "False"])] if "holds" in table else table.head(0)
    if rows.empty:
        return no_finding("no assumption could be checked")
    failed = [str(name) for name in rows[rows["holds"].astype(str) == "False"]["check"]]
    if not failed:
        return finding(f"None of {len(rows)} checked assumptions fails.")
    return finding(
        f"Of {len(rows)} checked assumptions {len(failed)} fail ({stats.listed(failed)}): the tests by "
        "ranks and by sign flips carry the conclusions."
    )


def limits(ladder: Ladder, plan: Plan) -> stats.Sentences:
    """What the tests do not show."""
    power = [one for one in stats.conclusions_by_subject(ladder, plan)["power"] if "could not" not in one]
    return stats.not_shown(
        *power,
        "Simulated users come from one generator: an interval over scenarios says how these users differ, "
        "not how people would.",
        f"Only {base.get(plan.primary_outcome).short} is confirmatory; the other outcomes are exploratory.",
    )
