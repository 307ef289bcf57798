"""Scores of the systems: the leaderboard, bars per metric, distributions over sessions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import layout, style
from crs_lib.figures.base import (
    FIGURES,
    NoDataError,
    chosen,
    convention_of,
    means,
    require,
    systems_of,
)
from crs_lib.metrics import base
from crs_lib.metrics.constructs import CONSTRUCTS


def table_of(model_metrics: pd.DataFrame, metrics: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The rows of each metric that some system has a mean of, by system."""
    require(model_metrics, ["metric", "mean", "low", "high", "n"])
    for name in metrics:
        base.get(name)
    found = {
        name: part.set_index("model")
        for name in metrics
        if not (part := model_metrics[model_metrics["metric"] == name])["mean"].isna().all()
    }
    if not found:
        raise NoDataError(f"no mean of any of {', '.join(metrics)} in the table")
    return found


def sessions_in_words(model_metrics: pd.DataFrame) -> str:
    """How many sessions a system has at most, for a note: "n = 50 sessions per system"."""
    most = int((model_metrics["n"] + model_metrics["n_missing"]).max())
    return f"n = {most} sessions per system"


_WIDE = 4  # panels whose titles have room for one line


@FIGURES.register(
    "leaderboard",
    place=6,
    study="movies",
    tables=("model_metrics",),
    caption="Mean scores of {systems} systems with 95 % intervals and ranks, ordered by {primary} "
    "(n = {sessions} sessions per system, scenarios resampled).",
)
def leaderboard(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Systems by the first of the headline scores (or the metrics named), the others with ranks beside it.

    Scores that are not valid for ranking are left out unless they are named or all are so.
    """
    usual = layout.outcomes(convention_of(model_metrics))
    valid = [name for name in usual if not base.get(name).mark]
    found = table_of(model_metrics, metrics or valid or usual)
    first, part = next(iter(found.items()))
    ranked = part["mean"].sort_values(ascending=base.get(first).direction == base.LOWER, kind="stable")
    order = [str(name) for name in ranked.index]
    looks = style.looks(order)
    made, axes = style.figure(0.95 + 0.26 * len(order), 1, len(found), sharey=True)
    for panel, (metric, part) in zip(axes[0], found.items(), strict=True):
        ranks = part["mean"].rank(ascending=base.get(metric).direction == base.LOWER, method="min")
        for place, name in enumerate(order):
            row, look = part.loc[name], looks[name]
            style.interval(panel, place, row["low"], row["high"], look.colour, caps=0.24)
            panel.plot(row["mean"], place, look.marker, color=look.colour, markersize=look.size)
            text = "–" if np.isnan(row["mean"]) else f"{ranks[name]:.0f}"
            at = {"transform": panel.get_yaxis_transform(), "fontsize": style.SMALL}
            panel.text(1.02, place, text, va="center", **at)
        title = style.titled(metric)
        panel.set_title(title.replace(" (", "\n(") if len(found) > _WIDE else title)
        panel.axvline(0, color=style.FAINT, linewidth=0.6, zorder=0)
        panel.grid(axis="x")
        panel.margins(x=0.12)
        panel.locator_params(axis="x", nbins=3)
    _name_rows(axes, order)
    made.get_layout_engine().set(wspace=0.07)
    made.supylabel("system")
    words = "Means with 95 % intervals; numbers beside a panel: ranks, 1 is best"
    style.note(made, f"{words}; {sessions_in_words(model_metrics)}.")
    return made


def _name_rows(axes: Any, order: Sequence[str]) -> None:
    """The systems' names beside the rows of panels that share their heights, first on top."""
    axes.flat[0].set_yticks(range(len(order)), style.labels(order))
    axes.flat[0].set_ylim(len(order) - 0.4, -0.6)
    for panel in axes.flat:
        panel.tick_params(axis="y", length=0)


@FIGURES.register(
    "metric_bars",
    title="Mean of each metric",
    place=7,
    study="movies",
    tables=("model_metrics",),
    caption="Mean of each metric by system with its 95 % interval (n = {sessions} sessions per system, "
    "scenarios resampled).",
)
def metric_bars(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """One small bar chart per metric: mean by system with its interval."""
    require(model_metrics, ["metric"])
    convention = convention_of(model_metrics)
    usual = layout.shown(convention, "metric_bars", base.METRICS.names())
    judged = [name for name in CONSTRUCTS if name in set(model_metrics["metric"])]
    found = table_of(model_metrics, metrics or [*usual, *judged])
    order = systems_of(model_metrics)
    looks = style.looks(order)
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    made, axes = style.figure(0.5 + rows * (0.55 + 0.155 * len(order)), rows, columns, sharey=True)
    for panel, (metric, part) in zip(axes.flat, found.items(), strict=False):
        for place, name in enumerate(order):
            row = part.loc[name]
            if np.isnan(row["mean"]):
                panel.text(0, place, " –", va="center", color=style.FAINT)
                continue
            panel.barh(place, row["mean"], height=0.72, color=looks[name].colour, alpha=0.85)
            style.interval(panel, place, row["low"], row["high"], style.INK, linewidth=1.2)
        panel.set_title(style.titled(metric))
        panel.axvline(0, color=style.FAINT, linewidth=0.6)
        panel.grid(axis="x")
        panel.locator_params(axis="x", nbins=4)
    for panel in axes.flat[len(found) :]:
        panel.set_visible(False)
    _name_rows(axes, order)
    made.supylabel("system")
    words = "Bars: mean over sessions; lines: 95 % interval; –: not defined, not 0; arrows: better"
    style.note(made, f"{words}; {sessions_in_words(model_metrics)}.")
    return made


_RIDGES = 4  # panels that fit side by side


@FIGURES.register(
    "distributions",
    title="Distribution of session scores",
    place=8,
    study="movies",
    tables=("results",),
    caption="Distribution of session scores by system, with mean and 95 % interval (n = {sessions} sessions "
    "per system).",
)
def distributions(results: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Ridges of the sessions' scores by system, with mean and interval."""
    usual = layout.shown(convention_of(results), "distributions", base.METRICS.names())
    most = _RIDGES if layout.is_thesis(convention_of(results)) else None
    shown = chosen(metrics, usual[:most], results.columns)
    require(results, ["session_id", *shown])
    order = systems_of(results)
    looks = style.looks(order)
    made, axes = style.figure(0.8 + 0.36 * len(order), 1, len(shown), sharey=True)
    for panel, metric in zip(axes[0], shown, strict=True):
        table = means(results, ["model"], metric).set_index("model")
        for place, name in enumerate(order):
            values = results.loc[results["model"] == name, metric].astype(float).dropna().to_numpy()
            _ridge(panel, values, place + 0.32, looks[name].colour)
            row = table.loc[name]
            style.interval(panel, place + 0.32, row["low"], row["high"], style.INK, linewidth=1.6)
            panel.plot(row["mean"], place + 0.32, "o", color="white", mec=style.INK, mew=1, markersize=3.5)
        panel.set_title(style.titled(metric))
        panel.grid(axis="x")
        panel.locator_params(axis="x", nbins=5 if len(shown) < _RIDGES else 3)
    _name_rows(axes, order)
    made.supylabel("system")
    style.note(
        made,
        "Shapes: kernel density between the lowest and the highest session, a bar where all score the same; "
        "dot and line: mean with 95 % interval; "
        f"n = {results['session_id'].nunique()} sessions per system.",
    )
    return made


def _ridge(panel: Any, values: Any, foot: float, colour: str) -> None:
    """A density standing on a line; a bar where nothing varies, nothing where there is no value."""
    from scipy.stats import gaussian_kde

    if not len(values):
        return
    low, high = float(values.min()), float(values.max())
    if len(values) < 3 or high - low < 1e-9:
        panel.plot([low, low], [foot, foot - 0.75], color=colour, linewidth=3, solid_capstyle="butt")
        return
    x = np.linspace(low, high, 160)
    y = gaussian_kde(values)(x)
    top = foot - 0.78 * y / y.max()
    panel.fill_between(x, foot, top, color=colour, alpha=0.35, linewidth=0)
    panel.plot(x, top, color=colour, linewidth=1.1)
    panel.plot([low, high], [foot, foot], color=colour, linewidth=0.8)


@FIGURES.register(
    "component_dots",
    title="Components of the scores",
    place=9,
    study="movies",
    tables=("model_metrics",),
    caption="Components of the adaptation scores by system as shares of their declared ranges, turned so "
    "that 1 is best: means with 95 % intervals (n = {sessions} sessions per system, scenarios resampled).",
)
def component_dots(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Components scaled to [0, 1], 1 is best: a row each, the systems' means as dots with intervals."""
    usual = layout.shown(convention_of(model_metrics), "component_dots", base.METRICS.names())
    found = {
        name: part
        for name, part in table_of(model_metrics, metrics or usual).items()
        if np.isfinite([base.get(name).low, base.get(name).high]).all()
    }
    if not found:
        raise NoDataError("no metric with a finite range has a mean")
    order = systems_of(model_metrics)
    made, axes = style.figure(1.0 + len(found) * (0.12 + 0.07 * len(order)))
    panel = axes[0][0]
    for place, (metric, part) in enumerate(found.items()):
        style.dots(panel, place, order, {name: as_share(metric, part.loc[name]) for name in order})
        if place:
            panel.axhline(place - 0.5, color=style.GRID, linewidth=0.6)
    panel.set_yticks(range(len(found)), [_turned(metric) for metric in found])
    panel.set(xlabel="share of the range, 1 is best", ylabel="component", ylim=(len(found) - 0.5, -0.5))
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")
    style.legend(made, order, lines=False)
    words = "“1 − …”: turned, so that 1 is best; lines: 95 % intervals; no mark: not defined"
    style.note(made, f"{words}; {sessions_in_words(model_metrics)}.")
    return made


def as_share(metric: str, row: pd.Series) -> tuple[float, float, float]:
    """Mean and interval as shares of the metric's range, turned so that 1 is best."""
    facts = base.get(metric)
    mean, low, high = ((row[key] - facts.low) / (facts.high - facts.low) for key in ("mean", "low", "high"))
    return (1 - mean, 1 - high, 1 - low) if facts.direction == base.LOWER else (mean, low, high)


def _turned(metric: str) -> str:
    label = base.get(metric).label
    return f"1 − {label}" if base.get(metric).direction == base.LOWER else label
