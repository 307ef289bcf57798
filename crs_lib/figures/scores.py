"""Scores of the systems: the leaderboard, bars for each metric, distributions, and outcomes over a sweep."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import base as frames
from crs_lib.figures import layout, style
from crs_lib.figures.base import NoDataError, figure
from crs_lib.metrics import base
from crs_lib.metrics.constructs import CONSTRUCTS
from crs_lib.metrics.gain import ABLE

_WIDE = 4  # panels whose titles have room for one line
_RIDGES = 4  # panels of densities that fit side by side
_FEW = 10  # sessions below which a density says nothing
_MOST = 4  # panels of a sweep
_ENDS = ["mean", "low", "high"]
_TILTED = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"}


def _by_metric(model_metrics: pd.DataFrame, metrics: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The rows of each metric that some system has a mean of, by system."""
    frames.require(model_metrics, ["metric", *_ENDS, "n"])
    parts = {}
    for name in metrics:
        rows = model_metrics[model_metrics["metric"] == base.get(name).name]
        if rows["mean"].notna().any():
            parts[name] = rows.set_index("model")
    if not parts:
        raise NoDataError(f"no mean of any of {', '.join(metrics)} in the table")
    return parts


@figure()
def _leaderboard(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Systems by the first of the headline scores (or the metrics named), the others with ranks beside it.

    Scores that are not valid for ranking are left out unless they are named or all are so; a system that
    gains too little has no rank by its shift cost.

    Caption: Mean scores of {systems} systems with 95 % intervals and ranks, ordered by {primary} (n =
        {sessions} sessions per system, scenarios resampled).
    Note: Means with 95 % intervals; numbers beside a panel: ranks, 1 is best; n = {sessions} sessions per
        system.
    """
    parts = _by_metric(model_metrics, metrics or _valid(frames.convention_of(model_metrics)))
    first = next(iter(parts))
    leading = parts[first]["mean"].sort_values(ascending=layout.lower(first), kind="stable")
    order = [str(name) for name in leading.index]
    looks = style.looks(order)
    inches = 0.95 + 0.26 * len(order)
    drawing, axes = style.figure(inches, 1, len(parts), sharey=True)
    for panel, (metric, rows) in zip(axes[0], parts.items(), strict=True):
        ranks = _ranks(model_metrics, metric, rows["mean"])
        for height, (name, look) in enumerate(looks.items()):
            style.estimate(panel, height, rows.loc[name], look, caps=0.24)
            style.beside(panel, height, ranks[name])
        style.zero(panel, zorder=0)
        panel.margins(x=0.12)
        title = style.titled(metric)
        if len(parts) > _WIDE:
            title = title.replace(" (", "\n(")
        style.across(panel, title, 3)
    style.name_rows(axes, style.labels(order))
    drawing.get_layout_engine().set(wspace=0.07)
    return drawing


def _valid(convention: str) -> Sequence[str]:
    """The outcomes of a convention that may rank systems; all where none may."""
    outcomes = layout.outcomes(convention)
    return [name for name in outcomes if not base.get(name).mark] or outcomes


def _ranks(model_metrics: pd.DataFrame, metric: str, means: pd.Series) -> dict[str, str]:
    """The rank of each system as text; by shift cost "–" for who has nothing to lose."""
    if metric == "shift_cost":
        gain = model_metrics[model_metrics["metric"] == "straight_gain"].set_index("model")["mean"]
        is_able = gain.astype(float) >= ABLE
        means = means.where(is_able.reindex(means.index, fill_value=True))
    ranks = means.rank(ascending=layout.lower(metric), method="min")
    return {name: f"{rank:.0f}".replace("nan", "–") for name, rank in ranks.items()}


@figure(
    title="Mean of each metric",
    metrics=[
        "normalised_gain",
        "satisfaction_corrected",
        "item_recovery_rate",
        *layout.LEAKS,
        "topic_adaptation_score",
    ],
)
def _metric_bars(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """One small bar chart per metric: mean by system with its interval.

    Caption: Mean of each metric by system with its 95 % interval (n = {sessions} sessions per system,
        scenarios resampled).
    Note: Bars: mean over sessions; lines: 95 % interval; –: not defined, not 0; arrows: better; n =
        {sessions} sessions per system.
    """
    shown = list(metrics)
    if not shown:
        frames.require(model_metrics, ["metric"])
        further = [metric.name for metric in base.scored() if metric.is_added]
        further += CONSTRUCTS
        shown = frames.shown_in("metric_bars", model_metrics)
        shown += [name for name in further if name in set(model_metrics["metric"])]
    parts = _by_metric(model_metrics, shown)
    order = frames.systems_of(model_metrics)
    row_height = 0.55 + 0.155 * len(order)
    drawing, axes = style.panels(len(parts), 3, lambda rows: 0.5 + rows * row_height, sharey=True)
    for panel, (metric, rows) in zip(axes.flat, parts.items(), strict=False):
        _bars(panel, rows.loc[order])
        style.across(panel, style.titled(metric), 4)
    style.name_rows(axes, style.labels(order))
    return drawing


def _bars(panel: Any, rows: pd.DataFrame) -> None:
    """A bar for each system with its interval; a dash where the mean is not defined."""
    import seaborn as sns

    looks = style.looks(rows.index)
    colours = [look.colour for look in looks.values()]
    bars = {"width": 0.72, "saturation": 1, "alpha": 0.85, "errorbar": None, "linewidth": 0}
    sns.barplot(
        x=rows["mean"], y=list(looks), hue=list(looks), palette=colours, legend=False, ax=panel, **bars
    )
    for height, (mean, low, high) in enumerate(rows[_ENDS].itertuples(index=False)):
        style.interval(panel, height, low, high, style.INK, linewidth=1.2)
        if np.isnan(mean):
            panel.text(0, height, " –", va="center", color=style.FAINT)
    style.zero(panel)
    panel.set_xlabel("")
    panel.set_ylabel("")


@figure(title="Distribution of session scores", metrics=[*layout.MAIN, "topic_adaptation_score"])
def _distributions(results: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Ridges of the sessions' scores by system, with mean and interval.

    Caption: Distribution of session scores by system, with mean and 95 % interval (n = {sessions} sessions
        per system).
    Note: Shapes: kernel density of the sessions; upright lines: single sessions, where few; dot and line:
        mean with 95 % interval; n = {sessions} sessions per system.
    """
    shown = frames.shown_in("distributions", results, metrics)
    if not metrics and layout.is_thesis(frames.convention_of(results)):
        shown = shown[:_RIDGES]
    frames.require(results, ["session_id", *shown])
    order = frames.systems_of(results)
    bins = 5 if len(shown) < _RIDGES else 3
    inches = 0.8 + 0.36 * len(order)
    drawing, axes = style.figure(inches, 1, len(shown), sharey=True)
    for panel, metric in zip(axes[0], shown, strict=True):
        table = frames.means(results, ["model"], metric).set_index("model")
        for height, (name, look) in enumerate(style.looks(order).items()):
            values = results.loc[results["model"] == name, metric].astype(float).dropna()
            foot = height + 0.32
            _ridge(panel, values.to_numpy(), foot, look.colour)
            row = table.loc[name]
            style.interval(panel, foot, row["low"], row["high"], style.INK, linewidth=1.6)
            panel.plot(row["mean"], foot, "o", color="white", mec=style.INK, mew=1, markersize=3.5)
        style.across(panel, style.titled(metric), bins)
    style.name_rows(axes, style.labels(order))
    return drawing


def _ridge(panel: Any, values: Any, foot: float, colour: str) -> None:
    """A density standing on a line; a line each for few sessions, and where nothing varies."""
    from scipy.stats import gaussian_kde

    if len(values) < _FEW or np.ptp(values) < 1e-9:
        panel.vlines(values, foot - 0.75, foot, color=colour, linewidth=2)
        return
    low, high = values.min(), values.max()
    x = np.linspace(low, high, 160)
    estimate = gaussian_kde(values)
    density = estimate(x)
    top = foot - 0.78 * density / density.max()
    panel.fill_between(x, foot, top, color=colour, alpha=0.35, linewidth=0)
    panel.plot(x, top, color=colour, linewidth=1.1)
    panel.plot([low, high], [foot, foot], color=colour, linewidth=0.8)


def sweep_outcomes(sweep: pd.DataFrame) -> Any:
    """A panel for each parameter and convention: the leading outcome of every system over its values.

    Means over runs, with the mean of their 95 % intervals. NoDataError where no parameter has two values.
    """
    frames.with_rows(sweep, ["parameter", "value", "model", "metric", *_ENDS, "convention"])
    kinds = sweep["convention"].str.partition("(")[0].rename("kind")
    panels_of = []
    for (parameter, kind), rows in sweep.groupby(["parameter", kinds], sort=False):
        if len(rows["value"].unique()) > 1:
            panels_of.append((parameter, kind, rows))
    if not panels_of:
        raise NoDataError("no parameter of the sweep has more than one value")
    shown = panels_of[:_MOST]
    drawing, axes = style.figure(3.1, 1, len(shown))
    looks = style.looks(frames.systems_of(sweep))
    for panel, (parameter, kind, rows) in zip(axes[0], shown, strict=True):
        outcome = frames.primary(rows)
        _over_values(panel, parameter, rows[rows["metric"] == outcome], looks)
        values = [str(value) for value in rows["value"].unique()]
        panel.set_xticks(range(len(values)), style.labels(values, 16), **_TILTED)
        panel.set_xlabel(parameter)
        panel.set_title(f"{style.titled(outcome)}, {kind}")
        panel.grid(axis="y")
        panel.margins(x=0.15)
    axes[0][0].set_ylabel("mean score")
    style.legend(drawing, list(looks))
    style.note(drawing, "Bands and lines across: 95 % interval, averaged over the runs that share a value.")
    return drawing


def _over_values(panel: Any, parameter: str, rows: pd.DataFrame, looks: Mapping[str, style.Look]) -> None:
    """The means of each system over the values of a parameter: a line, or points for seeds."""
    values = [str(value) for value in rows["value"].unique()]
    means = rows.groupby(["model", "value"])[_ENDS].mean()
    places = np.arange(len(values))
    for step, (name, look) in enumerate(looks.items()):
        ends = means.reindex([(name, value) for value in values])
        if parameter == "seed":
            share = (step + 0.5) / len(looks)
            _points(panel, places + 0.5 * (share - 0.5), ends, look)
        else:
            style.band(panel, places, ends, look)


def _points(panel: Any, x: Any, ends: pd.DataFrame, look: style.Look) -> None:
    """Means with upright intervals that no line joins."""
    panel.vlines(x, ends["low"], ends["high"], color=look.colour, linewidth=1)
    style.mark(panel, x, ends["mean"], look)
