"""LaTeX tables (booktabs) beside the figures: model metrics, pairwise tests, recovery."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from crs_lib.figures import layout, style
from crs_lib.figures.base import (
    TABLES,
    NoDataError,
    convention_of,
    filled,
    primary,
    recovered_by,
    require,
    systems_of,
)
from crs_lib.metrics import base
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.stats import (
    Design,
    adjust,
    cluster_bootstrap_differences,
    rank_biserial,
    restricted_mean,
    wilcoxon_pairs,
)

_ESCAPES = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "−": r"$-$", "†": r"$\dagger$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "–": "--",
}  # fmt: skip


def escape(text: str) -> str:
    """The text as LaTeX prints it literally."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def tabular(columns: str, head: Sequence[str], rows: Sequence[Sequence[str]], comment: str) -> str:
    r"""A ``tabular`` with booktabs rules; cells are LaTeX already. ``\input`` it inside a table."""
    lines = [f"% {comment} Needs \\usepackage{{booktabs}}.", f"\\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(head) + r" \\", r"\midrule"]
    lines += [" & ".join(row) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def number(value: float, digits: int = 2) -> str:
    """The number with so many decimals, in math mode where negative; "--" where it is missing."""
    if value != value:
        return "--"
    text = f"{value:.{digits}f}"
    return f"${text}$" if text.startswith("-") and float(text) else text.removeprefix("-")


def within(value: float, low: float, high: float, digits: int = 2) -> str:
    """A mean with its interval, "0.70 [0.68, 0.72]"; without brackets where there is none."""
    if low != low or high != high:
        return number(value, digits)
    return f"{number(value, digits)} [{number(low, digits)}, {number(high, digits)}]"


def p_value(p: float) -> str:
    """Three decimals, "$<$.001" below that, "--" where missing."""
    if p != p:
        return "--"
    return "$<$.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")


@TABLES.register(
    "table_model_metrics",
    place=1,
    study="movies",
    tables=("model_metrics",),
    caption="Mean scores by system with 95 % intervals (n = {sessions} sessions per system, scenarios "
    "resampled); arrows point to where a score is better, a dagger marks what is not valid for ranking.",
)
def table_model_metrics(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> str:
    """Some metrics by system: mean with interval; those that declare this table where none is named."""
    require(model_metrics, ["metric", "mean", "low", "high"])
    table = model_metrics.set_index(["model", "metric"])
    known = set(model_metrics["metric"])
    usual = layout.shown(convention_of(model_metrics), "table_model_metrics", known)
    shown = [base.get(name).name for name in metrics or [*usual, *judged(model_metrics)] if name in known]
    rows = []
    for name in systems_of(model_metrics):
        cells = [table.loc[(name, metric)] for metric in shown]
        rows.append([escape(name), *(within(c["mean"], c["low"], c["high"]) for c in cells)])
    head = ["system", *(escape(style.titled(metric)) for metric in shown)]
    return tabular("l" + "r" * len(shown), head, rows, "Mean [95 % interval] by system.")


def judged(model_metrics: pd.DataFrame) -> list[str]:
    """The constructs of judges that any system has a mean of."""
    known = set(model_metrics.loc[model_metrics["mean"].notna(), "metric"])
    return [name for name in CONSTRUCTS if name in known]


@TABLES.register(
    "table_judges",
    place=4,
    study="movies",
    tables=("judge_means",),
    caption="Mean scores of judges by system with 95 % intervals, and in brackets the sessions with a score "
    "of those judged ({n_sessions} per system); a star marks a system that only its own family judged.",
    made_by="python -m crs_lib run 04_evaluate -p run {run} -p judges ollama:MODEL",
)
def table_judges(judge_means: pd.DataFrame) -> str:
    """Judges' constructs by system: mean with interval, sessions with a score of all."""
    require(judge_means, ["construct", "mean", "low", "high", "n", "n_missing", "own_family"])
    names = list(dict.fromkeys(judge_means["construct"]))
    table = judge_means.set_index(["model", "construct"])
    rows = []
    for system in systems_of(judge_means):
        cells = [table.loc[(system, name)] for name in names]
        star = "$^*$" if any(cell["own_family"] for cell in cells) else ""
        rows.append([f"{escape(system)}{star}", *(_of_judges(cell) for cell in cells)])
    return tabular("l" + "r" * len(names), ["system", *map(escape, names)], rows, "Scores of judges.")


def _of_judges(cell: pd.Series) -> str:
    given, asked = int(cell["n"]), int(cell["n"] + cell["n_missing"])
    return f"{within(cell['mean'], cell['low'], cell['high'])} ({given}/{asked})"


def headline_table(headline: pd.DataFrame) -> str:
    """The best system on each outcome, its mean with 95 % interval and lead, beside the published best.

    ``headline`` is the table of best systems; the published columns are left out where
    nothing is published.
    """
    filled(headline, ["metric", "best", "mean", "low", "high", "second", "lead"])
    published = bool(headline["published_best"].notna().any())
    rows = []
    for row in headline.to_dict("records"):
        cells = [escape(style.titled(row["metric"])), escape(str(row["best"]))]
        cells += [within(row["mean"], row["low"], row["high"], 3), number(row["lead"], 3)]
        if published and pd.notna(row["published_best"]):
            cells += [escape(str(row["published_best"])), number(row["published"], 3)]
        rows.append(cells + ["--"] * (4 + 2 * published - len(cells)))
    head = ["outcome", "best system", "mean", "lead", *(["published best", "published"] if published else [])]
    return tabular("ll" + "r" * 2 + "lr" * published, head, rows, "The best system by outcome.")


@TABLES.register(
    "table_pairwise",
    place=2,
    study="movies",
    tables=("results",),
    caption="Paired comparisons of {primary} over {sessions} scenarios: mean difference with 95 % interval "
    "(scenarios resampled), matched rank-biserial correlation r, Wilcoxon's signed-rank test (Pratt) and "
    "its p after Holm over all pairs.",
)
def table_pairwise(results: pd.DataFrame, *, metric: str = "") -> str:
    """Every pair of systems: difference, effect size, raw and Holm-adjusted p."""
    metric = primary(results, metric)
    require(results, ["session_id", metric], systems=2, sessions=2)
    known = results[results[metric].notna()]
    order = pd.CategoricalDtype(systems_of(known), ordered=True)
    frame = known.assign(model=known["model"].astype(order))
    design = Design(system="model", scenario="session_id", value=metric)
    if len(order.categories) < 2:
        raise NoDataError(f"fewer than 2 systems have {metric}; there is nothing to compare")
    gaps = cluster_bootstrap_differences(frame, design)
    gaps = gaps[gaps["n"] > 1]  # the others share no scenarios and cannot be compared in pairs
    if gaps.empty:
        raise NoDataError(
            f"no two systems have {metric} in the same 2 scenarios; there is nothing to compare"
        )
    design = design.changed(pairs=list(zip(gaps["a"], gaps["b"], strict=True)))
    tests, sizes = adjust(wilcoxon_pairs(frame, design)), rank_biserial(frame, design)
    rows = [
        [
            f"{escape(str(gap['a']))} $-$ {escape(str(gap['b']))}",
            within(gap["diff"], gap["low"], gap["high"]),
            number(size["estimate"]),
            p_value(test["p"]),
            p_value(test["p_adjusted"]),
            str(int(test["n"])),
        ]
        for (_, gap), (_, test), (_, size) in zip(
            gaps.iterrows(), tests.iterrows(), sizes.iterrows(), strict=True
        )
    ]
    head = ["pair", f"{escape(style.short(metric))} difference", "$r$", "$p$", "$p$ (Holm)", "$n$"]
    return tabular("lrrrrr", head, rows, "Paired tests, a row for each pair of systems.")


_WAIT = ("restricted_mean", "low", "high")


@TABLES.register(
    "table_recovery",
    place=3,
    study="movies",
    tables=("shifts",),
    caption="Recovery after {shifts} shifts per system: share recovered within the window of the "
    "convention (Wilson 95 % interval), share never seen to recover before the next shift, and the mean "
    "number of replies until recovery, restricted to the horizon that every system was followed for.",
)
def table_recovery(shifts: pd.DataFrame) -> str:
    """Recovery by system: share in the window, never recovered, restricted mean waiting time."""
    from statsmodels.stats.proportion import proportion_confint

    from crs_lib.figures.movies_time import waiting

    kind = recovered_by(shifts)
    require(shifts, ["session_id", "watched", f"recovered_{kind}", f"delay_{kind}"])
    times = waiting(shifts, kind)
    horizon = _horizon(times)
    waits = restricted_mean(times, horizon=horizon).set_index("system") if horizon else pd.DataFrame()
    rows = []
    for name in systems_of(shifts):
        mine = shifts[shifts["model"] == name]
        hits, n = int(mine[f"recovered_{kind}"].sum()), len(mine)
        low, high = (float(np.clip(end, 0, 1)) for end in proportion_confint(hits, n, method="wilson"))
        wait = waits.loc[name] if name in waits.index else dict.fromkeys(_WAIT, np.nan)
        rows.append(
            [
                escape(name),
                str(n),
                within(hits / n, low, high),
                number(float(mine[f"delay_{kind}"].isna().mean())),
                within(wait["restricted_mean"], wait["low"], wait["high"]),
            ]
        )
    head = ["system", "shifts", "recovered", "never seen", f"mean wait (of {horizon:g} replies)"]
    return tabular("lrrrr", head, rows, "Recovery after shifts, by items.")


def _horizon(times: pd.DataFrame) -> float:
    """The longest time that every system with shifts still waiting was followed for; 0 if there is none."""
    last = times.groupby("system")["time"].transform("max")
    waiting_still = times[(times["time"] == last) & ~times["event"]]
    return float(
        (waiting_still if len(waiting_still) else times)["time"].groupby(times["system"]).max().min()
    )
