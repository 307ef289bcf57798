"""LaTeX tables (booktabs) beside the figures: model metrics, pairwise tests, recovery."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from crs_lib.core.errors import InputError
from crs_lib.figures import layout, style
from crs_lib.figures.base import (
    TABLES,
    NoDataError,
    convention_of,
    figure,
    filled,
    primary,
    recovered_by,
    require,
    systems_of,
)
from crs_lib.figures.recovery import waiting
from crs_lib.figures.shifts import recovered_by_type
from crs_lib.metrics import base
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.stats import Design, adjust, cluster_bootstrap_differences, restricted_mean, wilcoxon_pairs
from crs_lib.stats.effects import rank_biserial

_ESCAPES = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "−": r"$-$", "†": r"$\dagger$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "–": "--",
}  # fmt: skip


def escape(text: str) -> str:
    """The text as LaTeX prints it literally."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def tabular(cells: Mapping[str, Iterable[str]], comment: str, columns: str = "") -> str:
    r"""A ``tabular`` with booktabs rules: cells by the heads of their columns, LaTeX already.

    The first column is flush left, the others flush right, unless ``columns`` says otherwise. ``\input`` it
    inside a table.
    """
    columns = columns or "l" + "r" * (len(cells) - 1)
    lines = [f"% {comment} Needs \\usepackage{{booktabs}}.", f"\\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(cells) + r" \\", r"\midrule"]
    lines += [" & ".join(row) + r" \\" for row in zip(*cells.values(), strict=True)]
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


@figure(
    "movies",
    "Mean scores by system with 95 % intervals (n = {sessions} sessions per system, scenarios "
    "resampled); arrows point to where a score is better, a dagger marks what is not valid for ranking.",
    registry=TABLES,
    place=1,
)
def table_model_metrics(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> str:
    """Some metrics by system: mean with interval; those that declare this table where none is named."""
    require(model_metrics, ["metric", "mean", "low", "high"])
    table = model_metrics.set_index(["model", "metric"])
    known = set(model_metrics["metric"])
    usual = layout.shown(convention_of(model_metrics), "table_model_metrics", known)
    shown = [base.get(name).name for name in metrics or [*usual, *judged(model_metrics)] if name in known]
    order = systems_of(model_metrics)
    cells = {"system": [escape(name) for name in order]}
    for metric in shown:
        cells[escape(style.titled(metric))] = [_mean(table.loc[(name, metric)]) for name in order]
    return tabular(cells, "Mean [95 % interval] by system.")


def _mean(row: pd.Series) -> str:
    return within(row["mean"], row["low"], row["high"])


def judged(model_metrics: pd.DataFrame) -> list[str]:
    """The constructs of judges that any system has a mean of."""
    known = set(model_metrics.loc[model_metrics["mean"].notna(), "metric"])
    return [name for name in CONSTRUCTS if name in known]


@figure(
    "movies",
    "Mean scores of judges by system with 95 % intervals, and in brackets the sessions with a score "
    "of those judged ({n_sessions} per system); a star marks a system that only its own family judged.",
    registry=TABLES,
    place=4,
    made_by="python -m crs_lib run 04_evaluate -p run {run} -p judges ollama:MODEL",
)
def table_judges(judge_means: pd.DataFrame) -> str:
    """Judges' constructs by system: mean with interval, sessions with a score of all."""
    require(judge_means, ["construct", "mean", "low", "high", "n", "n_missing", "own_family"])
    order, rows = systems_of(judge_means), judge_means.set_index(["construct", "model"])
    own = set(judge_means.loc[judge_means["own_family"].astype(bool), "model"])
    cells = {"system": [escape(name) + "$^*$" * (name in own) for name in order]}
    for name in dict.fromkeys(judge_means["construct"]):
        cells[escape(name)] = [_of_judges(rows.loc[(name, system)]) for system in order]
    return tabular(cells, "Scores of judges.")


def _of_judges(row: pd.Series) -> str:
    return f"{_mean(row)} ({int(row['n'])}/{int(row['n'] + row['n_missing'])})"


def headline_table(headline: pd.DataFrame) -> str:
    """The best system on each outcome, its mean with 95 % interval and lead, beside the published best.

    ``headline`` is the table of best systems; the published columns are left out where
    nothing is published.
    """
    filled(headline, ["metric", "best", "mean", "low", "high", "second", "lead"])
    rows = headline.to_dict("records")
    cells = {
        "outcome": [escape(style.titled(row["metric"])) for row in rows],
        "best system": [escape(str(row["best"])) for row in rows],
        "mean": [within(row["mean"], row["low"], row["high"], 3) for row in rows],
        "lead": [number(row["lead"], 3) for row in rows],
    }
    if headline["published_best"].isna().all():
        return tabular(cells, "The best system by outcome.", "llrr")
    known = ["--" if pd.isna(row["published_best"]) else escape(str(row["published_best"])) for row in rows]
    cells |= {"published best": known, "published": [number(row["published"], 3) for row in rows]}
    return tabular(cells, "The best system by outcome.", "llrrlr")


@figure(
    "movies",
    "Paired comparisons of {primary} over {sessions} scenarios: mean difference with 95 % interval "
    "(scenarios resampled), matched rank-biserial correlation r, Wilcoxon's signed-rank test (Pratt) and "
    "its p after Holm over all pairs.",
    registry=TABLES,
    place=2,
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
    pairs = list(zip(gaps["a"], gaps["b"], strict=True))
    design = design.changed(pairs=pairs)
    tests, sizes = adjust(wilcoxon_pairs(frame, design)), rank_biserial(frame, design)
    cells = {
        "pair": [f"{escape(str(a))} $-$ {escape(str(b))}" for a, b in pairs],
        f"{escape(style.short(metric))} difference": [
            within(*row) for row in gaps[["diff", "low", "high"]].itertuples(index=False)
        ],
        "$r$": [number(estimate) for estimate in sizes["estimate"]],
        "$p$": [p_value(p) for p in tests["p"]],
        "$p$ (Holm)": [p_value(p) for p in tests["p_adjusted"]],
        "$n$": [str(int(n)) for n in tests["n"]],
    }
    return tabular(cells, "Paired tests, a row for each pair of systems.")


@figure(
    "movies",
    "Recovery after {shifts} shifts per system: share recovered within the window of the "
    "convention (Wilson 95 % interval), share never seen to recover before the next shift, and the mean "
    "number of replies until recovery, restricted to the horizon that every system was followed for.",
    registry=TABLES,
    place=3,
)
def table_recovery(shifts: pd.DataFrame) -> str:
    """Recovery by system: share in the window, never recovered, restricted mean waiting time."""
    kind, order = recovered_by(shifts), systems_of(shifts)
    require(shifts, ["session_id", "watched", f"recovered_{kind}", f"delay_{kind}"])
    times = waiting(shifts, kind)
    ends = ["restricted_mean", "low", "high"]
    waits, horizon = pd.DataFrame(columns=["system", *ends], dtype=float), 0.0
    with contextlib.suppress(InputError):  # nobody waited, or nobody was followed
        waits = restricted_mean(times)
        horizon = float(waits["horizon"].iloc[0])
    shares = recovered_by_type(shifts.assign(type="all"), kind).set_index("model").loc[order]
    never = shifts[f"delay_{kind}"].isna().groupby(shifts["model"].astype(str)).mean()
    cells = {
        "system": [escape(name) for name in order],
        "shifts": [str(n) for n in shares["n"]],
        "recovered": [within(*row) for row in shares[["share", "low", "high"]].itertuples(index=False)],
        "never seen": [number(never[name]) for name in order],
        f"mean wait (of {horizon:g} replies)": [
            within(*row) for row in waits.set_index("system")[ends].reindex(order).itertuples(index=False)
        ],
    }
    return tabular(cells, "Recovery after shifts, by items.")
