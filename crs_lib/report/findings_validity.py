"""Findings about metrics: which order systems as they must, which follow people, and what is not known."""

import pandas as pd

from crs_lib import stats
from crs_lib.metrics import base
from crs_lib.stats import Estimate, Finding, finding, no_finding
from crs_lib.validity.labels import SCRIPTED


def gate(table: pd.DataFrame) -> Finding:
    """How many metrics pass every ordering, and which."""
    passed = table[table["mark"].fillna("") == ""]
    names = [base.get(name).short for name in passed["metric"]]
    told = f"{len(passed)} of {stats.counted(len(table), 'metric')} put the controls in every known order"
    shown = f": {stats.listed(names)}" if 0 < len(names) <= 8 else ""
    return finding(f"{told}{shown}.")


def ordering(tests: pd.DataFrame, metric: str) -> Finding:
    """The orderings that a metric passes; the worst failure with its interval."""
    mine = tests[tests["metric"] == metric]
    if mine.empty:
        return no_finding(f"the gate did not test {base.get(metric).short}")
    failed = mine[mine["verdict"] == "fail"]
    told = f"{base.get(metric).short} passes {len(mine) - len(failed)} of {len(mine)} orderings"
    if failed.empty:
        return finding(f"{told}.")
    row = failed.loc[failed["diff"].idxmin()]
    return finding(f"{told}; it fails {row['ordering']!r} with a difference of {_size(row, 'diff')}.")


def doses(table: pd.DataFrame, metric: str) -> Finding:
    """How far a score falls from the least to the largest dose of noise."""
    mine = table[table["metric"] == metric].sort_values("dose")
    if len(mine) < 2:
        return no_finding("a response needs two doses")
    first, last = mine.iloc[0], mine.iloc[-1]
    falls = bool((mine["mean"].diff().dropna() <= 0).all())
    return finding(
        f"{base.get(metric).short} falls {'with every dose' if falls else 'but not with every dose'}, from "
        f"{_size(first)} at {100 * first['dose']:.0f} % random turns to "
        f"{_size(last)} at {100 * last['dose']:.0f} %."
    )


def fairness(kept: pd.DataFrame) -> Finding:
    """Whether the simulator kept its promises."""
    broken = [str(name) for name in kept[~kept["holds"].astype(bool)]["check"]]
    if broken:
        return finding(f"The simulator breaks {len(broken)} of {len(kept)} checks: {stats.listed(broken)}.")
    return finding(f"The simulator keeps all {len(kept)} checks.")


def adapting(cost: pd.DataFrame, kind: str = "all types") -> Finding:
    """The system that adapting costs most, with its interval, and those that it does not cost."""
    mine = cost[cost["type"] == kind]
    if mine.empty:
        return no_finding("no shift has a twin without it")
    most = mine.loc[mine["mean"].idxmax()]
    free = [str(row["system"]) for _, row in mine.iterrows() if row["low"] <= 0]
    told = f"Beyond what the oracle loses, a shift costs {most['system']} {_size(most)} of chance-corrected "
    told += "satisfaction, the most"
    return finding(told + (f"; no cost is shown for {stats.listed(free)}." if free else "."))


def two_costs(table: pd.DataFrame) -> Finding:
    """Whether satisfaction and the cost of history order systems alike, by Kendall's tau."""
    known = table.dropna(subset=["S* without shifts", "history_cost"])
    if len(known) < 3:
        return no_finding("fewer than three systems have both quantities")
    from scipy.stats import kendalltau

    tau = float(kendalltau(known["S* without shifts"], -known["history_cost"]).statistic)
    top = known.loc[known["S* without shifts"].idxmax()]
    return finding(
        f"Satisfaction without shifts and the cost of history agree on the order of {len(known)} systems by "
        f"τ = {tau:.2f}; {top['system']} leads by the first ({top['S* without shifts']:.2f}) and pays "
        f"{top['history_cost']:.2f} by the second. No interval: the systems were chosen, not sampled."
    )


def detectors(quality: pd.DataFrame) -> Finding:
    """The best detector, and how much more often than users shift the worst raises an alarm."""
    if quality.empty:
        return no_finding("no detector ran")
    best, loud = quality.loc[quality["f1"].idxmax()], quality.loc[quality["alarm_rate"].idxmax()]
    return finding(
        f"Users shift in {100 * best['shift_rate']:.0f} % of turns; {loud['detector']} raises an alarm in "
        f"{100 * loud['alarm_rate']:.0f} %, and the best detector, {best['detector']}, reaches an F1 of "
        f"{best['f1']:.2f}."
    )


def stable(table: pd.DataFrame, metric: str) -> Finding:
    """The lowest rank agreement of a metric under other settings."""
    mine = table[table["metric"] == metric]
    if mine.empty:
        return no_finding(f"{base.get(metric).short} was not scored under other settings")
    row = mine.iloc[0]
    return finding(
        f"Over {int(row['n'])} other settings the order by {base.get(metric).short} keeps at least τ = "
        f"{row['lowest_tau']:.2f} with the declared one."
    )


def people(table: pd.DataFrame) -> Finding:
    """The score that follows people's ratings best; without ratings the reason why none is told."""
    if "note" in table:
        return no_finding(str(table["note"].iloc[0]))
    known = table[(table["level"] == "reply") & table["low"].notna()]
    if known.empty:
        return no_finding("no correlation with ratings of replies has an interval")
    row = known.loc[known["spearman"].abs().idxmax()]
    return finding(
        f"{row['score']} follows the ratings of replies most closely: ρ = {_size(row, 'spearman')}."
    )


def missed(table: pd.DataFrame) -> Finding:
    """How many replies the score judges wrongly; without logs of success the reason why none is told."""
    if "note" in table:
        return no_finding(str(table["note"].iloc[0]))
    return finding(f"The table lists {stats.counted(len(table), 'reply', 'replies')} to read.")


def questions(balance: pd.DataFrame) -> Finding:
    """How evenly the page asks about systems."""
    n, low, high = (int(f(balance["questions"])) for f in (sum, min, max))
    return finding(f"{n} questions ask about {len(balance)} systems, {low} to {high} each.")


def raters(labels: pd.DataFrame) -> Finding:
    """Mean label and who gave it; labels of scripts are no finding about people."""
    names = sorted(set(labels["rater"].astype(str)))
    if all(name.startswith(SCRIPTED) for name in names):
        return no_finding(f"all {len(names)} raters are scripts, so their labels say nothing about people")
    mean = stats.mean_of(labels, "value", scenario="item")
    return finding(f"{len(names)} raters give a mean label of {mean} over {mean.n} questions.")


def agreement(found: pd.DataFrame, labels: pd.DataFrame) -> Finding:
    """Krippendorff's alpha with its interval."""
    if found.empty:
        return no_finding("no question has labels of two raters")
    row = found.iloc[0]
    return finding(
        f"{_who(labels)} agree by Krippendorff's α = {_size(row, 'alpha')} on "
        f"{int(row['n_items'])} questions."
    )


def enough(power: pd.DataFrame, n: int) -> Finding:
    """The smallest correlation that so many questions show."""
    mine = power[power["n"] == n]
    if mine.empty or pd.isna(mine["detectable"].iloc[0]):
        return no_finding(f"no power is known for {n} questions")
    return finding(
        f"With {n} questions a correlation of {mine['detectable'].iloc[0]:.2f} or more is shown in "
        "four samples of five; a smaller one may be missed."
    )


def follows(correlations: pd.DataFrame, labels: pd.DataFrame) -> Finding:
    """The metric that labels follow most closely, and whether another is told apart from it."""
    known = correlations.dropna(subset=["spearman", "low"])
    if known.empty:
        return no_finding("no metric varies over the questions")
    row = known.loc[known["spearman"].abs().idxmax()]
    told = f"The labels of {_who(labels).lower()} follow {base.get(row['metric']).short} most closely: ρ = "
    told += _size(row, "spearman")
    made = all(str(name).startswith(SCRIPTED) for name in labels["rater"])
    return finding(told + ("; the scripts were made of it, so this is no evidence for it." if made else "."))


def limits(sessions: int, ratings: pd.DataFrame) -> stats.Sentences:
    """What the gate does not show."""
    return stats.not_shown(
        f"The gate asks whether a metric orders controls ({stats.counted(sessions, 'scenario')}), not "
        "whether its distances mean the same to people.",
        "No person's rating enters this run." if "note" in ratings else "",
        "The order of the controls is known by how they are built; real systems have no such order.",
    )


def label_limits(labels: pd.DataFrame) -> stats.Sentences:
    """What the labels do not show."""
    made = all(str(name).startswith(SCRIPTED) for name in labels["rater"])
    return stats.not_shown(
        "No person has labelled: scripted raters stand in, and nothing here says what people see."
        if made
        else "",
        f"{stats.counted(labels['item'].nunique(), 'question')} of one run: other systems and users may be "
        "seen otherwise.",
    )


def _who(labels: pd.DataFrame) -> str:
    names = set(labels["rater"].astype(str))
    kind = "scripted raters" if all(name.startswith(SCRIPTED) for name in names) else "raters"
    return f"{len(names)} {kind}"


def _size(row: "pd.Series[float]", value: str = "mean") -> str:
    return str(Estimate(float(row[value]), float(row["low"]), float(row["high"]), 0))
