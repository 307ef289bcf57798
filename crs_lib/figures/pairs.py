"""Figures of pairs: metric with metric (correlations), system with system (effect sizes)."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.figures import layout, style
from crs_lib.figures.base import NoDataError, convention_of, figure, filled, primary, require, systems_of
from crs_lib.metrics import base
from crs_lib.stats import Design, bootstrap_estimates, friedman, holm, wilcoxon_pairs
from crs_lib.stats.ranking import mean_ranks

PREFIX = "judge_"  # of the columns of :func:`with_judges`


def signed(value: float) -> str:
    """Two decimals of a number in [−1, 1] without the leading zero: −.42, .07, 1.00."""
    return ("−" if round(value, 2) < 0 else "") + f"{abs(value):.2f}".removeprefix("0")


def with_judges(results: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The results with a column ``judge_<construct>`` in [1, 5] for each scored construct, and these names.

    The names are empty where nobody judged; a session without a readable score has NaN.
    """
    given = results["judge"] if "judge" in results else [None] * len(results)
    judged = pd.DataFrame([one if isinstance(one, Mapping) else {} for one in given], index=results.index)
    judged = judged.astype(float).dropna(axis=1, how="all").add_prefix(PREFIX)
    return results.join(judged), list(judged.columns)


def in_words(metric: str) -> str:
    """A metric's short name, or "judge: coherence" for a judged construct."""
    return f"judge: {metric.removeprefix(PREFIX)}" if metric.startswith(PREFIX) else style.short(metric)


@figure(
    "movies",
    "Spearman correlations of session scores within systems, bold where the 95 % interval "
    "excludes zero "
    "({systems} systems, n = {sessions} sessions per system, resampled).",
    title="Correlation of metrics",
    place=4,
)
def correlation_heatmap(results: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Rank correlations of the session metrics and of judges' scores, centred within systems."""
    usual = layout.shown(convention_of(results), "correlation_heatmap", base.METRICS.names())
    declared = [base.get(name).name for name in metrics or usual]
    shown = [name for name in declared if name in results]
    require(results, ["session_id", *shown], sessions=3)
    results, judged = with_judges(results)
    shown += judged
    if len(shown) < 2:
        raise NoDataError("a correlation needs at least 2 metrics")
    names = [in_words(name) for name in shown]
    values = np.full((len(shown) - 1, len(shown) - 1), np.nan)
    bold = np.zeros(values.shape, dtype=bool)
    for row in within_correlations(results, shown).itertuples():
        at = shown.index(str(row.y)) - 1, shown.index(str(row.x))
        values[at], bold[at] = row.correlation, row.low > 0 or row.high < 0
    made, axes = style.figure(max(2.6, 1.0 + 0.34 * len(shown)))
    panel = axes[0][0]
    look: dict[str, Any] = {
        "colours": "RdBu",
        "lowest": -1.0,
        "dark": 0.65,
        "linespacing": 0.95,
    }  # for colour-blind readers, too
    image = style.cells(
        panel, values, [[signed(value) for value in row] for row in values], bold=bold, **look
    )
    panel.set_xticks(range(len(names) - 1), names[:-1], rotation=40, ha="right", rotation_mode="anchor")
    panel.set_yticks(range(len(names) - 1), names[1:])
    ticks = [-1, -0.5, 0, 0.5, 1]
    made.colorbar(image, ax=panel, label="Spearman correlation", fraction=0.04, pad=0.02, ticks=ticks)
    panel.set(xlabel="metric", ylabel="metric")
    n = results["session_id"].nunique()
    words = "Centred within systems; bold: 95 % interval excludes 0"
    style.note(made, f"{words}; {len(systems_of(results))} systems, n = {n} sessions per system.")
    return made


def within_correlations(results: pd.DataFrame, metrics: Sequence[str], *, seed: int = 0) -> pd.DataFrame:
    """Rank correlation in [-1, 1] of each pair within systems, with its interval; a row a pair.

    Ranks over all sessions minus their mean in the system; rows that lack either value are left out.
    Sessions are drawn with all their systems; the ranks are taken once, not anew in every draw. NaN
    where either does not vary within systems.
    """
    frame = results[["model", "session_id"]].reset_index(drop=True)
    clusters, owner = np.unique(frame["session_id"].astype(str), return_inverse=True)
    rows, sums = [], []
    for x, y in combinations(metrics, 2):
        both = results[[x, y]].astype(float).reset_index(drop=True).dropna()
        ranks = both.rank()
        centred = (ranks - ranks.groupby(frame["model"]).transform("mean")).to_numpy() / max(1, len(both))
        moments = np.stack([centred[:, 0] ** 2, centred[:, 1] ** 2, centred.prod(axis=1)], axis=1)
        part = np.zeros((len(clusters), 3))
        np.add.at(part, owner[both.index], moments)
        sums.append(part)
        rows.append({"x": x, "y": y, "n": len(both), "n_missing": len(frame) - len(both)})
    whole = np.stack(sums, axis=1)

    def statistic(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        xx, yy, xy = np.moveaxis(np.tensordot(weights, whole, axes=1), 2, 0)
        scale = np.sqrt(xx * yy)
        return np.asarray(np.divide(xy, scale, out=np.full_like(scale, np.nan), where=scale > 1e-9))

    width = 3 * len(rows) + len(clusters)
    found = bootstrap_estimates(statistic, len(clusters), Design(seed=seed), method="percentile", width=width)
    return pd.DataFrame(rows).assign(correlation=found.estimate, low=found.low, high=found.high)


def complete(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The systems that have the metric, over the scenarios that all of them have; NoDataError if none."""
    known = results[results[metric].notna()]
    counts = known.groupby("session_id")["model"].nunique()
    frame = known[known["session_id"].isin(counts.index[counts == known["model"].nunique()])]
    if frame["model"].nunique() < 2 or frame["session_id"].nunique() < 2:
        raise NoDataError(f"fewer than 2 systems share 2 scenarios with {metric}: nothing can be compared")
    return frame


_MOST_PAIRS = 45  # that fit on a page


@figure(
    "movies",
    "Paired differences in {primary} with 95 % intervals and the smallest difference that matters "
    "(n = {n_sessions} scenarios met by {n_systems} systems, resampled).",
    title="Paired differences between systems",
    place=5,
)
def paired_effects(paired_effects: pd.DataFrame) -> Any:
    """A forest plot: mean paired difference of each pair with its interval, the smallest effect shaded.

    Pairs are ordered by the difference and read "a − b". Where they do not fit on a page, those of the plan
    are shown, or the neighbours in rank where the plan has too many.
    """
    filled(paired_effects, ["outcome", "a", "b", "diff", "low", "high", "declared", "neighbours", "smallest"])
    table = _on_a_page(paired_effects)
    facts = base.get(str(table["outcome"].iloc[0]))
    smallest, all_declared = float(table["smallest"].iloc[0]), bool(table["declared"].all())
    made, axes = style.figure(max(1.9, 0.9 + 0.165 * len(table)))
    panel = axes[0][0]
    panel.axvspan(-smallest, smallest, color=style.GRID, alpha=0.8, linewidth=0)
    panel.axvline(0, color=style.FAINT, linewidth=0.8)
    for place, row in enumerate(table.itertuples()):
        filling = style.INK if row.declared else "white"
        style.interval(panel, place, row.low, row.high, style.INK, caps=0.2)
        panel.plot(row.diff, place, "s", color=style.INK, markerfacecolor=filling, markersize=4, mew=1)
        style.beside(panel, place, f"{row.diff:z.2f} [{row.low:z.2f}, {row.high:z.2f}]".replace("-", "−"))
    first, second = (style.labels([str(name) for name in table[side]], 18) for side in "ab")
    panel.set_yticks(range(len(table)), [f"{a} − {b}" for a, b in zip(first, second, strict=True)])
    panel.set(ylim=(len(table) - 0.4, -0.6), ylabel="pair of systems")
    panel.set(xlabel=f"difference in {style.titled(facts.name)}")
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")
    left_out = len(paired_effects) - len(table)
    words = "" if all_declared else "filled: declared in the plan; "
    words += f"{left_out} other pairs are left out; " if left_out else ""
    style.note(
        made,
        f"Shaded: less than the smallest difference that matters ({smallest:g}); {words}lines: 95 % "
        f"intervals; n = {int(table['n_sessions'].max())} scenarios.",
    )
    return made


def _on_a_page(table: pd.DataFrame) -> pd.DataFrame:
    """All pairs, the declared ones, or the neighbours in rank: the first that fits; by difference."""
    declared = table[table["declared"].astype(bool)]
    if len(table) > _MOST_PAIRS:
        few = 0 < len(declared) <= _MOST_PAIRS
        table = declared if few else table[table["neighbours"].astype(bool)]
    return table.sort_values("diff", ascending=False, kind="stable")


_STEP = 0.45  # height of a bar, in lines of text


@figure(
    "movies",
    "Mean ranks in {primary} over n = {sessions} scenarios, 1 is best; bars join systems that paired "
    "Wilcoxon tests find indistinguishable (Holm, 5 %).",
    title="Critical differences in mean rank",
    place=13,
)
def critical_difference(results: pd.DataFrame, *, metric: str = "") -> Any:
    """Mean ranks on a line; bars join systems that paired tests find indistinguishable."""
    facts = base.get(primary(results, metric))
    require(results, ["session_id", facts.name], systems=2, sessions=2)
    frame = complete(results, facts.name)
    design = Design(system="model", scenario="session_id", value=facts.name)
    table = mean_ranks(frame, design, higher_is_better=facts.direction != base.LOWER)
    ranks = table["mean_rank"].to_numpy(dtype=float)
    bars = cliques(alike(frame, [str(name) for name in table["system"]], design))
    half, top = -(-len(ranks) // 2), 1.0 + _STEP * len(bars)
    made, axes = style.figure(1.1 + 0.2 * half + 0.1 * len(bars))
    panel = axes[0][0]
    panel.plot([1, len(ranks)], [0, 0], color=style.FAINT, linewidth=0.8, zorder=0)
    for place, (first, last) in enumerate(bars):
        height = 0.55 + _STEP * place
        panel.plot([ranks[first] - 0.04, ranks[last] + 0.04], [height] * 2, color=style.INK, linewidth=3)
    _names(panel, list(table["system"]), ranks, top)
    edge = 0.03 * len(ranks)
    panel.set(xlim=(1 - edge, len(ranks) + edge), ylim=(top + half - 0.5, -0.8))
    panel.set(xlabel="mean rank (1 is best)", xticks=range(1, len(ranks) + 1), yticks=[])
    panel.xaxis.set_label_position("top")
    panel.xaxis.tick_top()
    panel.spines[:].set_visible(False)
    w = float(friedman(frame, design)["kendall_w"].iloc[0])
    words = f"{facts.short}, n = {frame['session_id'].nunique()} scenarios; bars: indistinguishable systems"
    style.note(made, f"{words} (Wilcoxon, Holm, 5 %); Kendall's W = {w:.2f}.")
    return made


def _names(panel: Any, systems: Sequence[str], ranks: NDArray[np.float64], top: float) -> None:
    """Each system's name and rank at the nearer side, led to its place on the line."""
    half = -(-len(ranks) // 2)
    edge = 0.03 * len(ranks)
    names, looks = style.labels(systems), style.looks(systems)
    for place, (look, rank) in enumerate(zip(looks.values(), ranks, strict=True)):
        left = place < half
        height = top + (place if left else len(ranks) - 1 - place)
        end = 1 - edge if left else len(ranks) + edge
        panel.plot([rank, rank, end], [0, height, height], color=look.colour, linewidth=1)
        panel.plot(rank, 0, look.marker, color=look.colour, markersize=look.size, zorder=5)
        text = f"{names[place]}  {rank:.2f}" if left else f"{rank:.2f}  {names[place]}"
        side: dict[str, Any] = {"ha": "right" if left else "left", "va": "center", "fontsize": style.SMALL}
        panel.annotate(text, (end, height), (-4 if left else 4, 0), textcoords="offset points", **side)


def alike(frame: pd.DataFrame, order: Sequence[str], design: Design) -> NDArray[np.bool_]:
    """Which systems paired Wilcoxon tests do not tell apart at 5 % (Holm over all pairs), in this order."""
    found = wilcoxon_pairs(frame, design)
    adjusted = holm(found["p"].to_numpy(dtype=float))
    same = np.eye(len(order), dtype=bool)
    for row, p in zip(found.itertuples(), adjusted, strict=True):
        i, j = order.index(str(row.a)), order.index(str(row.b))
        same[i, j] = same[j, i] = p >= 0.05
    return same


def cliques(same: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The largest runs (first, last) of systems in rank order of which no two are distinguishable."""
    n = len(same)
    ends = [max(j for j in range(i, n) if same[i : j + 1, i : j + 1].all()) for i in range(n)]
    return [(i, end) for i, end in enumerate(ends) if end > i and not any(ends[j] >= end for j in range(i))]
