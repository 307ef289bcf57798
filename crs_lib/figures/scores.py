"""Scores of the systems: the leaderboard, bars per metric, distributions, components, tokens, sweeps."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import layout, style
from crs_lib.figures.base import (
    NoDataError,
    chosen,
    convention_of,
    figure,
    filled,
    means,
    primary,
    require,
    systems_of,
)
from crs_lib.metrics import base
from crs_lib.metrics.constructs import CONSTRUCTS


def table_of(model_metrics: pd.DataFrame, metrics: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The rows of each metric that some system has a mean of, by system."""
    require(model_metrics, ["metric", "mean", "low", "high", "n"])
    parts = {base.get(name).name: model_metrics[model_metrics["metric"] == name] for name in metrics}
    found = {name: part.set_index("model") for name, part in parts.items() if part["mean"].notna().any()}
    if not found:
        raise NoDataError(f"no mean of any of {', '.join(metrics)} in the table")
    return found


def _n(model_metrics: pd.DataFrame) -> str:
    """How many sessions a system has at most, for a note."""
    most = int((model_metrics["n"] + model_metrics["n_missing"]).max())
    return f"n = {most} sessions per system"


_WIDE = 4  # panels whose titles have room for one line


@figure(
    "movies",
    "Mean scores of {systems} systems with 95 % intervals and ranks, ordered by {primary} "
    "(n = {sessions} sessions per system, scenarios resampled).",
    place=6,
)
def leaderboard(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Systems by the first of the headline scores (or the metrics named), the others with ranks beside it.

    Scores that are not valid for ranking are left out unless they are named or all are so.
    """
    usual = layout.outcomes(convention_of(model_metrics))
    valid = [name for name in usual if not base.get(name).mark]
    found = table_of(model_metrics, metrics or valid or usual)
    lower = {name: base.get(name).direction == base.LOWER for name in found}
    first, part = next(iter(found.items()))
    order = [str(name) for name in part["mean"].sort_values(ascending=lower[first], kind="stable").index]
    looks = style.looks(order)
    made, axes = style.figure(0.95 + 0.26 * len(order), 1, len(found), sharey=True)
    for panel, (metric, part) in zip(axes[0], found.items(), strict=True):
        ranks = part["mean"].rank(ascending=lower[metric], method="min")
        for place, name in enumerate(order):
            row = part.loc[name]
            style.estimate(panel, place, row, looks[name], caps=0.24)
            style.beside(panel, place, "–" if np.isnan(row["mean"]) else f"{ranks[name]:.0f}")
        title = style.titled(metric)
        panel.set_title(title.replace(" (", "\n(") if len(found) > _WIDE else title)
        panel.axvline(0, color=style.FAINT, linewidth=0.6, zorder=0)
        panel.grid(axis="x")
        panel.margins(x=0.12)
        panel.locator_params(axis="x", nbins=3)
    style.name_rows(made, axes, style.labels(order))
    made.get_layout_engine().set(wspace=0.07)
    words = "Means with 95 % intervals; numbers beside a panel: ranks, 1 is best"
    style.note(made, f"{words}; {_n(model_metrics)}.")
    return made


@figure(
    "movies",
    "Mean of each metric by system with its 95 % interval (n = {sessions} sessions per system, "
    "scenarios resampled).",
    title="Mean of each metric",
    place=7,
)
def metric_bars(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """One small bar chart per metric: mean by system with its interval."""
    require(model_metrics, ["metric"])
    usual = layout.shown(convention_of(model_metrics), "metric_bars", base.METRICS.names())
    judged = [name for name in CONSTRUCTS if name in set(model_metrics["metric"])]
    found = table_of(model_metrics, metrics or [*usual, *judged])
    order = systems_of(model_metrics)
    looks, row_height = style.looks(order), 0.55 + 0.155 * len(order)
    made, axes = style.panels(len(found), 3, lambda rows: 0.5 + rows * row_height, sharey=True)
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
    style.name_rows(made, axes, style.labels(order))
    words = "Bars: mean over sessions; lines: 95 % interval; –: not defined, not 0; arrows: better"
    style.note(made, f"{words}; {_n(model_metrics)}.")
    return made


_RIDGES = 4  # panels that fit side by side


@figure(
    "movies",
    "Distribution of session scores by system, with mean and 95 % interval (n = {sessions} sessions "
    "per system).",
    title="Distribution of session scores",
    place=8,
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
    style.name_rows(made, axes, style.labels(order))
    n = results["session_id"].nunique()
    style.note(
        made,
        "Shapes: kernel density between the lowest and the highest session, a bar where all score the same; "
        f"dot and line: mean with 95 % interval; n = {n} sessions per system.",
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


@figure(
    "movies",
    "Components of the adaptation scores by system as shares of their declared ranges, turned so "
    "that 1 is best: means with 95 % intervals (n = {sessions} sessions per system, scenarios resampled).",
    title="Components of the scores",
    place=9,
)
def component_dots(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Components scaled to [0, 1], 1 is best: a row each, the systems' means as dots with intervals."""
    usual = layout.shown(convention_of(model_metrics), "component_dots", base.METRICS.names())
    known = table_of(model_metrics, metrics or usual)
    found = {
        name: known[name] for name in known if np.isfinite([base.get(name).low, base.get(name).high]).all()
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
    turned = {name: "1 − " if base.get(name).direction == base.LOWER else "" for name in found}
    panel.set_yticks(range(len(found)), [turned[name] + base.get(name).label for name in found])
    panel.set(xlabel="share of the range, 1 is best", ylabel="component", ylim=(len(found) - 0.5, -0.5))
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")
    style.legend(made, order, lines=False)
    words = "“1 − …”: turned, so that 1 is best; lines: 95 % intervals; no mark: not defined"
    style.note(made, f"{words}; {_n(model_metrics)}.")
    return made


def as_share(metric: str, row: pd.Series) -> tuple[float, float, float]:
    """Mean and interval as shares of the metric's range, turned so that 1 is best."""
    facts = base.get(metric)
    mean, low, high = ((row[key] - facts.low) / (facts.high - facts.low) for key in ("mean", "low", "high"))
    return (1 - mean, 1 - high, 1 - low) if facts.direction == base.LOWER else (mean, low, high)


_CALLS = {"tokens_in": "tokens read", "tokens_out": "tokens written", "seconds": "seconds"}
_OTHER = style.Look(style.FAINT, "o", "-")  # a model that is no system: a user, a judge


@figure(
    "movies",
    "Tokens and time per call of a language model, by model and role: means over answered calls with "
    "95 % intervals (n = {sessions} sessions per system, resampled).",
    place=22,
    made_by="python -m crs_lib run 03_simulate -p run NAME -p systems ollama:MODEL, a run with a model",
)
def tokens_and_time(llm_calls: pd.DataFrame, model_metrics: pd.DataFrame) -> Any:
    """Means of tokens read, tokens written and seconds per call, a row for each role and model."""
    filled(llm_calls, ["role", "model", "session_id", "sent", *_CALLS])
    require(model_metrics, ["metric"])
    sent = llm_calls[llm_calls["sent"].astype(bool)]
    if sent.empty:
        raise NoDataError("no call was sent and answered: the cache had all replies, or all failed")
    calls = llm_calls.groupby(["role", "model"], sort=True).size()
    rows = [key for key in calls.index if key in set(zip(sent["role"], sent["model"], strict=True))]
    looks = style.looks(systems_of(model_metrics))
    made, axes = style.figure(0.95 + 0.36 * len(rows), 1, len(_CALLS), sharey=True)
    for panel, (column, title) in zip(axes[0], _CALLS.items(), strict=True):
        table = means(sent, ["role", "model"], column).set_index(["role", "model"])
        sums = sent.groupby(["role", "model"])[column].sum()
        for place, key in enumerate(rows):
            style.estimate(panel, place, table.loc[key], looks.get(key[1], _OTHER))
            style.beside(panel, place, _total(sums[key], column))
        panel.set_title(f"{title} per call", fontsize=style.SMALL)
        panel.margins(x=0.12)
        panel.set_xlim(left=0)
        panel.locator_params(axis="x", nbins=4)
        panel.grid(axis="x")
    short = zip(style.labels([model for _, model in rows]), rows, strict=True)
    names = [f"{name}\n{role}, {calls[role, model]:,} calls" for name, (role, model) in short]
    style.name_rows(made, axes, names, "model")
    n = sent["session_id"].nunique()
    style.note(made, f"Means per answered call with 95 % intervals; beside a panel: sums; n = {n} sessions.")
    return made


def _total(value: float, column: str) -> str:
    """A sum as a few characters: tokens in thousands or millions, seconds as minutes or hours."""
    units = ((3600, " h"), (60, " min")) if column == "seconds" else ((1e9, " G"), (1e6, " M"), (1e3, " k"))
    for size, unit in units:
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}" + (" s" if column == "seconds" else "")


_MOST = 4  # panels of a sweep


def sweep_outcomes(sweep: pd.DataFrame) -> Any:
    """A panel for each parameter and convention: the leading outcome of every system over its values.

    Means over the runs that share a value, with the mean of their 95 % intervals. NoDataError where no
    parameter has more than one value.
    """
    filled(sweep, ["parameter", "value", "model", "metric", "mean", "low", "high", "convention"])
    based = sweep.assign(base=sweep["convention"].str.partition("(")[0])
    parts = [
        (*map(str, key), part[part["metric"] == primary(part)])
        for key, part in based.groupby(["parameter", "base"], sort=False)
        if len(set(part["value"])) > 1
    ][:_MOST]
    if not parts:
        raise NoDataError("no parameter of the sweep has more than one value")
    made, axes = style.figure(3.1, 1, len(parts))
    looks = style.looks(systems_of(sweep))
    for panel, (parameter, convention, part) in zip(axes[0], parts, strict=True):
        values = [str(value) for value in dict.fromkeys(part["value"])]
        places = np.arange(len(values))
        for name, look in looks.items():
            rows = part[part["model"] == name].groupby("value")[["mean", "low", "high"]].mean()
            style.band(panel, places, rows.reindex(values), look)
        panel.set_xticks(places, style.labels(values, 16), rotation=20, ha="right", rotation_mode="anchor")
        panel.set(xlabel=parameter, title=f"{style.titled(primary(part))}, {convention}")
        panel.grid(axis="y")
        panel.margins(x=0.15)
    axes[0][0].set_ylabel("mean score")
    style.legend(made, list(looks))
    style.note(made, "Bands: 95 % interval, averaged over the runs that share a value.")
    return made
