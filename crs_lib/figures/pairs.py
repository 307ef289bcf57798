"""Figures of pairs: metric with metric, system with system."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.figures import layout, style
from crs_lib.figures.base import NoDataError, figure, require, shown_in, with_rows
from crs_lib.metrics import base
from crs_lib.stats import bootstrap_estimates

PREFIX = "judge_"  # of the columns of :func:`with_judges`
_TILTED = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}


def signed(value: float) -> str:
    """Two decimals of a number in [−1, 1] without the leading zero: −.42, .07, 1.00."""
    sign = "−" if round(value, 2) < 0 else ""
    return sign + f"{abs(value):.2f}".removeprefix("0")


def with_judges(results: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Results with a column ``judge_<construct>`` in [1, 5] for every scored construct, and the names."""
    rows: list[Mapping[str, float]] = [{}] * len(results)
    if "judge" in results:
        rows = [scores if isinstance(scores, Mapping) else {} for scores in results["judge"]]
    judged = pd.DataFrame(rows, index=results.index).astype(float)
    judged = judged.dropna(axis=1, how="all").add_prefix(PREFIX)
    return results.join(judged), list(judged.columns)


@figure(title="Correlation of metrics", metrics=layout.CORRELATED)
def _correlation_heatmap(results: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Rank correlations of the session metrics and of judges' scores, centred within systems.

    Caption: Spearman correlations of session scores within systems, bold where the 95 % interval excludes
        zero ({systems} systems, n = {sessions} sessions per system, resampled).
    Note: Centred within systems; bold: 95 % interval excludes 0; {systems} systems, n = {sessions} sessions
        per system.
    """
    shown = [name for name in shown_in("correlation_heatmap", results, metrics) if name in results]
    require(results, ["session_id", *shown], sessions=3)
    results, judged = with_judges(results)
    columns = [*shown, *judged]
    if len(columns) < 2:
        raise NoDataError("a correlation needs at least 2 metrics")
    names = [base.get(name).short for name in shown]
    names += [f"judge: {name.removeprefix(PREFIX)}" for name in judged]
    pairs = within_correlations(results, columns)
    wide = pairs.pivot_table(index="y", columns="x", values="correlation", dropna=False)
    wide = wide.reindex(index=columns[1:], columns=columns[:-1])
    drawing, panel = style.single(max(2.6, 1.0 + 0.34 * len(columns)))
    look = {
        "cmap": "RdBu",
        "vmin": -1,
        "annot_kws": {"linespacing": 0.95},
    }  # RdBu: for colour-blind readers, too
    colours = style.cells(panel, wide.to_numpy(float), wide.map(signed), dark=0.65, **look)
    _bold(panel, pairs, columns)
    panel.set_xticklabels(names[:-1], **_TILTED)
    panel.set_yticklabels(names[1:], rotation=0)
    panel.set_xlabel("metric")
    panel.set_ylabel("metric")
    ticks = [-1, -0.5, 0, 0.5, 1]
    style.scale(drawing, colours, panel, "Spearman correlation", fraction=0.04, ticks=ticks)
    return drawing


def _bold(panel: Any, pairs: pd.DataFrame, columns: Sequence[str]) -> None:
    """Print in bold the cells whose interval excludes 0."""
    sure = pairs[(pairs["low"] > 0) | (pairs["high"] < 0)]
    cells = set()
    for x, y in zip(sure["x"], sure["y"], strict=True):
        cells.add((columns.index(x), columns.index(y) - 1))
    for text in panel.texts:
        x, y = text.get_position()
        if (int(x), int(y)) in cells:
            text.set_weight("bold")


def within_correlations(results: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Rank correlation in [-1, 1] of each pair within systems, with its interval; a row a pair.

    Ranks (taken once) minus their mean in the system; sessions are drawn with all systems. NaN without
    variation.
    """
    frame = results.reset_index(drop=True)
    pairs = list(combinations(metrics, 2))
    sessions, session = np.unique(frame["session_id"].astype(str), return_inverse=True)
    sums = np.zeros((len(sessions), len(pairs), 3))  # of x², y² and xy
    for number, pair in enumerate(pairs):
        both = frame[list(pair)].astype(float).dropna()
        ranks = both.rank() / max(1, len(both))
        centred = ranks - ranks.groupby(frame["model"]).transform("mean")
        x, y = centred.to_numpy().T
        products = np.column_stack([x * x, y * y, x * y])
        np.add.at(sums[:, number], session[both.index], products)

    def statistic(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        xx, yy, xy = np.moveaxis(np.tensordot(weights, sums, axes=1), 2, 0)
        scale = np.sqrt(xx * yy)
        undefined = np.full_like(scale, np.nan)
        return np.asarray(np.divide(xy, scale, out=undefined, where=scale > 1e-9))

    width = 3 * len(pairs) + len(sessions)
    estimates = bootstrap_estimates(statistic, len(sessions), method="percentile", width=width)
    table = pd.DataFrame(pairs, columns=["x", "y"])
    return table.assign(correlation=estimates.estimate, low=estimates.low, high=estimates.high)


@figure(title="Paired differences between systems")
def _paired_effects(paired_effects: pd.DataFrame) -> Any:
    """A forest plot: the mean paired difference of every declared contrast, higher system minus lower.

    Caption: Paired differences in {primary} of the declared contrasts, the higher system minus the lower:
        means with 95 % intervals over n = {n_sessions} scenarios, and the smallest difference that matters.
    """
    columns = ["outcome", "a", "b", "diff", "low", "high", "smallest", "n_sessions"]
    table = with_rows(paired_effects, columns).sort_values("diff", ascending=False, kind="stable")
    first = table.iloc[0]
    smallest = float(first["smallest"])
    drawing, panel = style.single(max(1.9, 0.9 + 0.2 * len(table)))
    panel.axvspan(-smallest, smallest, color=style.GRID, alpha=0.8, linewidth=0)
    style.zero(panel, linewidth=0.8)
    for height, row in enumerate(table.itertuples()):
        style.interval(panel, height, row.low, row.high, style.INK, caps=0.2)
        panel.plot(row.diff, height, "s", color=style.INK, markersize=4)
        text = f"{row.diff:z.2f} [{row.low:z.2f}, {row.high:z.2f}]"
        style.beside(panel, height, text.replace("-", "−"))
    style.name_rows(panel, _contrast_names(table))
    panel.set_ylabel("contrast")
    panel.set_xlabel(f"difference in {style.titled(str(first['outcome']))}")
    panel.grid(axis="x")
    shaded = f"Shaded: less than the smallest difference that matters ({smallest:g})"
    n = int(table["n_sessions"].max())
    style.note(drawing, f"{shaded}; lines: 95 % intervals; n = {n} scenarios.")
    return drawing


def _contrast_names(table: pd.DataFrame) -> list[str]:
    """The contrasts as an axis names them: the first system, minus, the second."""
    first = style.labels([str(name) for name in table["a"]], 18)
    second = style.labels([str(name) for name in table["b"]], 18)
    return [f"{a} − {b}" for a, b in zip(first, second, strict=True)]
