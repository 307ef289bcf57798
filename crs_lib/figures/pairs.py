"""Figures of pairs: metric with metric, system with system, a metric with the judges' scores."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core import rng
from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, filled, means, primary, require, shown_in, systems_of
from crs_lib.metrics.constructs import CONSTRUCTS, Construct
from crs_lib.stats import Design, bootstrap_estimates, cluster_bootstrap_correlation

PREFIX = "judge_"  # of the columns of :func:`with_judges`
_MOST_PAIRS = 45  # that fit on a page


def signed(value: float) -> str:
    """Two decimals of a number in [−1, 1] without the leading zero: −.42, .07, 1.00."""
    return ("−" if round(value, 2) < 0 else "") + f"{abs(value):.2f}".removeprefix("0")


def with_judges(results: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Results with a column ``judge_<construct>`` in [1, 5] for every scored construct, and the names."""
    given = results["judge"] if "judge" in results else [None] * len(results)
    judged = pd.DataFrame([one if isinstance(one, Mapping) else {} for one in given], index=results.index)
    judged = judged.astype(float).dropna(axis=1, how="all").add_prefix(PREFIX)
    return results.join(judged), list(judged.columns)


@figure()
def _correlation_heatmap(results: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Rank correlations of the session metrics and of judges' scores, centred within systems."""
    shown = [name for name in shown_in("correlation_heatmap", results, metrics) if name in results]
    require(results, ["session_id", *shown], sessions=3)
    results, judged = with_judges(results)
    names = [*map(style.short, shown), *(f"judge: {name.removeprefix(PREFIX)}" for name in judged)]
    shown += judged
    if len(shown) < 2:
        raise NoDataError("a correlation needs at least 2 metrics")
    values = np.full((len(shown) - 1, len(shown) - 1), np.nan)
    bold = np.zeros(values.shape, dtype=bool)
    for row in _within_correlations(results, shown).itertuples():
        at = shown.index(str(row.y)) - 1, shown.index(str(row.x))
        values[at], bold[at] = row.correlation, row.low > 0 or row.high < 0
    made, panel = style.single(max(2.6, 1.0 + 0.34 * len(shown)))
    texts = [[signed(value) for value in row] for row in values]
    look: dict[str, Any] = {"colours": "RdBu", "lowest": -1.0, "dark": 0.65}  # for colour-blind readers, too
    image = style.cells(panel, values, texts, bold=bold, linespacing=0.95, **look)
    panel.set_xticks(range(len(names) - 1), names[:-1], rotation=40, ha="right", rotation_mode="anchor")
    panel.set_yticks(range(len(names) - 1), names[1:])
    ticks = [-1, -0.5, 0, 0.5, 1]
    made.colorbar(image, ax=panel, label="Spearman correlation", fraction=0.04, pad=0.02, ticks=ticks)
    panel.set(xlabel="metric", ylabel="metric")
    return made


def _within_correlations(results: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Rank correlation in [-1, 1] of each pair within systems, with its interval; a row a pair. Ranks (taken
    once) minus their mean in the system; sessions are drawn with all systems. NaN without variation.
    """
    frame, pairs = results.reset_index(drop=True), list(combinations(metrics, 2))
    clusters, owner = np.unique(frame["session_id"].astype(str), return_inverse=True)
    sums = np.zeros((len(clusters), len(pairs), 3))
    for place, pair in enumerate(pairs):
        both = frame[list(pair)].astype(float).dropna()
        ranks = both.rank() / max(1, len(both))
        x, y = (ranks - ranks.groupby(frame["model"]).transform("mean")).to_numpy().T
        np.add.at(sums[:, place], owner[both.index], np.column_stack([x * x, y * y, x * y]))

    def statistic(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        xx, yy, xy = np.moveaxis(np.tensordot(weights, sums, axes=1), 2, 0)
        scale = np.sqrt(xx * yy)
        return np.asarray(np.divide(xy, scale, out=np.full_like(scale, np.nan), where=scale > 1e-9))

    width = 3 * len(pairs) + len(clusters)
    found = bootstrap_estimates(statistic, len(clusters), method="percentile", width=width)
    table = pd.DataFrame(pairs, columns=["x", "y"])
    return table.assign(correlation=found.estimate, low=found.low, high=found.high)


@figure()
def _paired_effects(paired_effects: pd.DataFrame) -> Any:
    """A forest plot: mean paired difference of each pair with its interval, the smallest effect shaded.
    Pairs are ordered by the difference and read "a − b". Where they do not fit on a page, those of the plan
    are shown, or the neighbours in rank where the plan has too many.
    """
    filled(paired_effects, ["outcome", "a", "b", "diff", "low", "high", "declared", "neighbours", "smallest"])
    table = _on_a_page(paired_effects)
    smallest = float(table["smallest"].iloc[0])
    made, panel = style.single(max(1.9, 0.9 + 0.165 * len(table)))
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
    panel.set(xlabel=f"difference in {style.titled(str(table['outcome'].iloc[0]))}")
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")
    left_out = len(paired_effects) - len(table)
    words = "" if table["declared"].all() else "filled: declared in the plan; "
    words += f"{left_out} other pairs are left out; " if left_out else ""
    words += f"lines: 95 % intervals; n = {int(table['n_sessions'].max())} scenarios."
    style.note(made, f"Shaded: less than the smallest difference that matters ({smallest:g}); {words}")
    return made


def _on_a_page(table: pd.DataFrame) -> pd.DataFrame:
    """All pairs, the declared ones, or the neighbours in rank: the first that fits; by difference."""
    if len(table) > _MOST_PAIRS:
        declared = table["declared"].astype(bool)
        table = table[declared if 0 < declared.sum() <= _MOST_PAIRS else table["neighbours"].astype(bool)]
    return table.sort_values("diff", ascending=False, kind="stable")


_JITTER = 0.12  # of a score point, upwards and downwards: equal scores lie beside one another
JUDGED = "python -m crs_lib run 04_evaluate -p run {run} -p judges ollama:MODEL"


@figure(made_by=JUDGED)
def _judge_scatter(results: pd.DataFrame) -> Any:
    """A panel per construct: sessions by score and judges' mean, with rank correlations."""
    name = primary(results)
    require(results, ["session_id", name], sessions=3)
    frame, judged = with_judges(results)
    if not judged:
        raise NoDataError("no session has a score by a judge")
    made, axes = style.figure(3.5, 1, len(judged), sharey=True)
    for panel, construct in zip(axes[0], judged, strict=True):
        _sessions(panel, frame, name, construct)
        words = f"{construct.removeprefix(PREFIX)} ↑\n{_correlations(frame, name, construct)}"
        panel.set_title(words, fontsize=style.SMALL)
        panel.set_xlabel(style.titled(name))
        panel.locator_params(axis="x", nbins=4)
        panel.grid()
    known = (name.removeprefix(PREFIX) for name in judged)  # one of foreign results has the usual scale
    scales = [CONSTRUCTS.get(name, Construct(name, "")).scale for name in known]
    low, high = (int(end([end(scale) for scale in scales])) for end in (min, max))
    axes[0][0].set(ylabel="judges' mean score", ylim=(low - 0.3, high + 0.3), yticks=range(low, high + 1))
    style.legend(made, systems_of(frame))
    return made


def _sessions(panel: Any, frame: pd.DataFrame, metric: str, construct: str) -> None:
    """The sessions of each system, moved a little in height, and its mean with intervals both ways."""
    across, up = (means(frame, ["model"], column).set_index("model") for column in (metric, construct))
    moved = rng.stream(0, "figures", construct).uniform(-_JITTER, _JITTER, len(frame))
    looks = style.looks(systems_of(frame))
    for name, look in looks.items():
        mine = (frame["model"] == name).to_numpy()
        x, y = frame.loc[mine, metric], frame.loc[mine, construct] + moved[mine]
        panel.plot(x, y, look.marker, color=look.colour, markersize=0.55 * look.size, alpha=0.3)
    for name, look in looks.items():
        x, y = across.loc[name], up.loc[name]
        panel.plot([x["low"], x["high"]], [y["mean"]] * 2, color=look.colour, linewidth=1.3)
        panel.plot([x["mean"]] * 2, [y["low"], y["high"]], color=look.colour, linewidth=1.3)
        mark: dict[str, Any] = {"color": look.colour, "mec": "white", "mew": 0.7}
        panel.plot(x["mean"], y["mean"], look.marker, markersize=1.5 * look.size, **mark)


def _correlations(frame: pd.DataFrame, metric: str, construct: str) -> str:
    """Both rank correlations with their intervals, a line each; "–" where one is not defined."""
    if frame[[metric, construct]].notna().all(axis=1).sum() < 2:
        return "ρ –\nwithin –"
    design = Design(scenario="session_id")
    found = {
        "ρ": cluster_bootstrap_correlation(frame, metric, construct, design, method="percentile"),
        "within": _within_correlations(frame, [metric, construct]),
    }
    lines = []
    for head, table in found.items():
        value, low, high = (float(table[end].iloc[0]) for end in ("correlation", "low", "high"))
        known = f"{signed(value)} [{signed(low)}, {signed(high)}]"
        lines.append(f"{head} {'–' if np.isnan(value) else known}")
    return "\n".join(lines)
