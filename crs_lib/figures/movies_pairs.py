"""Figures of pairs: metric with metric (correlations), system with system (effect sizes)."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, NoDataError, convention_of, primary, require, systems_of
from crs_lib.metrics import base, headlines
from crs_lib.stats import bootstrap_estimates, friedman, mean_ranks, rank_biserial, wilcoxon_pairs
from crs_lib.stats.multiple import holm

PREFIX = "judge_"  # of the columns of :func:`with_judges`
_DIVERGING = "RdBu"  # told apart by colour-blind readers; the printed numbers carry the grey version


def matrix(
    made: Any, panel: Any, values: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], bar: str
) -> None:
    """A matrix in [-1, 1] as coloured cells with names on both sides and a labelled bar."""
    import matplotlib

    cells, colours = np.ma.masked_invalid(values), matplotlib.colormaps[_DIVERGING]
    image = panel.imshow(cells, cmap=colours, vmin=-1, vmax=1, aspect="auto", alpha=0.85)
    panel.set_xticks(range(len(columns)), columns, rotation=40, ha="right", rotation_mode="anchor")
    panel.set_yticks(range(len(rows)), rows)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    made.colorbar(image, ax=panel, label=bar, fraction=0.04, pad=0.02, ticks=[-1, -0.5, 0, 0.5, 1])


def write_cell(panel: Any, row: int, column: int, text: str, value: float, *, bold: bool = False) -> None:
    """Text in a cell of a matrix, in the ink that reads on the cell's colour."""
    look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": style.SMALL, "linespacing": 0.95}
    look |= {"color": "white" if abs(value) > 0.65 else style.INK, "weight": "bold" if bold else "normal"}
    panel.text(column, row, text, **look)


def signed(value: float) -> str:
    """Two decimals without the leading zero: −.42, .07, 1."""
    text = f"{abs(value):.2f}"
    text = "1" if text == "1.00" else text.removeprefix("0")
    return ("−" if round(value, 2) < 0 else "") + text


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


@FIGURES.register(
    "correlation_heatmap",
    place=4,
    study="movies",
    tables=("results",),
    caption="Spearman correlation of session metrics, and of judges' scores where the run has them, within "
    "systems: each system's mean rank is taken off first, so that differences between systems do not show "
    "as correlation ({systems} systems, {sessions} sessions each). Bold: the 95 % interval (sessions "
    "resampled with all their systems) leaves out 0; empty: a metric that does not vary.",
)
def correlation_heatmap(results: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Rank correlations of the session metrics and of judges' scores, centred within systems."""
    usual = headlines.shown(convention_of(results), "correlation_heatmap", [*base.METRICS])
    declared = [base.get(name).name for name in metrics or usual]
    shown = [name for name in declared if name in results]
    require(results, ["session_id", *shown], sessions=3)
    results, judged = with_judges(results)
    shown += judged
    if len(shown) < 2:
        raise NoDataError("a correlation needs at least 2 metrics")
    values = np.full((len(shown) - 1, len(shown) - 1), np.nan)
    made, axes = style.figure(max(2.6, 1.0 + 0.34 * len(shown)))
    panel = axes[0][0]
    for row in within_correlations(results, shown).itertuples():
        i, j = shown.index(str(row.y)) - 1, shown.index(str(row.x))
        values[i, j] = row.correlation
        if not np.isnan(row.correlation):
            bold = row.low > 0 or row.high < 0
            write_cell(panel, i, j, signed(row.correlation), row.correlation, bold=bold)
    names = [in_words(name) for name in shown]
    matrix(made, panel, values, names[1:], names[:-1], "Spearman correlation")
    panel.set(xlabel="metric", ylabel="metric")
    n = results["session_id"].nunique()
    words = "Within-system rank correlation; bold: 95 % interval leaves out 0"
    style.note(made, f"{words}; n = {n} sessions per system, {len(systems_of(results))} systems.")
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
    found = bootstrap_estimates(statistic, len(clusters), method="percentile", seed=seed, width=width)
    return pd.DataFrame(rows).assign(correlation=found.estimate, low=found.low, high=found.high)


def complete(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The systems that have the metric, over the scenarios that all of them have; NoDataError if none."""
    known = results[results[metric].notna()]
    counts = known.groupby("session_id")["model"].nunique()
    frame = known[known["session_id"].isin(counts.index[counts == known["model"].nunique()])]
    if frame["model"].nunique() < 2 or frame["session_id"].nunique() < 2:
        raise NoDataError(f"fewer than 2 systems share 2 scenarios with {metric}: nothing can be compared")
    return frame


@FIGURES.register(
    "effect_matrix",
    place=5,
    study="movies",
    tables=("results",),
    caption="Paired effect sizes of {primary}: matched rank-biserial correlation of the row's system against "
    "the column's over {sessions} scenarios; 1 means that the row wins every scenario. Above the diagonal "
    "the estimate (bold: the 95 % interval leaves out 0), below it the ends of the interval.",
)
def effect_matrix(results: pd.DataFrame, *, metric: str = "") -> Any:
    """Matched rank-biserial correlation of every pair of systems, with its interval."""
    name = primary(results, metric)
    require(results, ["session_id", name], systems=2, sessions=2)
    frame = complete(results, name)
    order = systems_of(frame)
    values = np.full((len(order), len(order)), np.nan)
    made, axes = style.figure(max(2.6, 1.2 + 0.42 * len(order)))
    panel = axes[0][0]
    for row in rank_biserial(frame, system="model", scenario="session_id", value=name).itertuples():
        i, j = order.index(str(row.a)), order.index(str(row.b))
        value, low, high = (row.estimate, row.low, row.high)
        if i > j:
            i, j, value, low, high = j, i, -value, -high, -low
        values[i, j], values[j, i] = value, -value
        write_cell(panel, i, j, signed(value), value, bold=low > 0 or high < 0)
        write_cell(panel, j, i, f"{signed(-low)}\n{signed(-high)}", value)
    names = style.labels(order, 16)
    matrix(made, panel, values, names, names, "row beats column")
    panel.set(xlabel="system", ylabel="system")
    words = f"{style.short(name)}, rank-biserial, n = {frame['session_id'].nunique()} scenarios"
    style.note(made, f"{words}; bold: 95 % interval (ends below the diagonal) leaves out 0.")
    return made


_STEP = 0.45  # height of a bar, in lines of text


@FIGURES.register(
    "critical_difference",
    place=13,
    study="movies",
    tables=("results",),
    caption="Critical-difference diagram of {primary}: mean rank of each system over {sessions} scenarios, 1 "
    "is best. Systems joined by a bar are not told apart by paired Wilcoxon tests (Holm, 5 %).",
)
def critical_difference(results: pd.DataFrame, *, metric: str = "") -> Any:
    """Mean ranks on a line; bars join systems that paired tests do not tell apart."""
    facts = base.get(primary(results, metric))
    require(results, ["session_id", facts.name], systems=2, sessions=2)
    frame = complete(results, facts.name)
    at: dict[str, Any] = {"system": "model", "scenario": "session_id", "value": facts.name}
    table = mean_ranks(frame, **at, higher_is_better=facts.direction != base.LOWER)
    ranks = table["mean_rank"].to_numpy(dtype=float)
    bars = cliques(alike(frame, [str(name) for name in table["system"]], at))
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
    w = float(friedman(frame, **at)["kendall_w"].iloc[0])
    words = f"{facts.short}, n = {frame['session_id'].nunique()} scenarios; bars join systems not told apart"
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


def alike(frame: pd.DataFrame, order: Sequence[str], at: Mapping[str, Any]) -> NDArray[np.bool_]:
    """Which systems paired Wilcoxon tests do not tell apart at 5 % (Holm over all pairs), in this order."""
    found = wilcoxon_pairs(frame, **at)
    adjusted = holm(found["p"].to_numpy(dtype=float))
    same = np.eye(len(order), dtype=bool)
    for row, p in zip(found.itertuples(), adjusted, strict=True):
        i, j = order.index(str(row.a)), order.index(str(row.b))
        same[i, j] = same[j, i] = p >= 0.05
    return same


def cliques(same: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The largest runs (first, last) of systems in rank order of which no two are told apart."""
    n = len(same)
    ends = [max(j for j in range(i, n) if same[i : j + 1, i : j + 1].all()) for i in range(n)]
    return [(i, end) for i, end in enumerate(ends) if end > i and not any(ends[j] >= end for j in range(i))]
