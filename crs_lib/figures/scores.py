"""Scores of the systems: the leaderboard, bars per metric, distributions, components, tokens, sweeps."""

from collections.abc import Sequence
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
_RIDGES, _FEW = 4, 10  # panels that fit side by side; sessions below which a density says nothing
_MOST = 4  # panels of a sweep


def _by_metric(model_metrics: pd.DataFrame, metrics: Sequence[str]) -> dict[str, pd.DataFrame]:
    """The rows of each metric that some system has a mean of, by system."""
    frames.require(model_metrics, ["metric", "mean", "low", "high", "n"])
    parts = {base.get(name).name: model_metrics[model_metrics["metric"] == name] for name in metrics}
    found = {name: part.set_index("model") for name, part in parts.items() if part["mean"].notna().any()}
    if not found:
        raise NoDataError(f"no mean of any of {', '.join(metrics)} in the table")
    return found


@figure()
def _leaderboard(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Systems by the first of the headline scores (or the metrics named), the others with ranks beside it.
    Scores that are not valid for ranking are left out unless they are named or all are so; a system that
    gains too little has no rank by its shift cost.
    """
    usual = layout.outcomes(frames.convention_of(model_metrics))
    found = _by_metric(model_metrics, metrics or [n for n in usual if not base.get(n).mark] or usual)
    first, part = next(iter(found.items()))
    order = list(map(str, part["mean"].sort_values(ascending=layout.lower(first), kind="stable").index))
    gain = model_metrics[model_metrics["metric"] == "straight_gain"].set_index("model")["mean"]
    able = gain.astype(float) >= ABLE  # who has nothing to lose has no rank by what was lost
    made, axes = style.figure(0.95 + 0.26 * len(order), 1, len(found), sharey=True)
    for panel, (metric, part) in zip(axes[0], found.items(), strict=True):
        ranked = part["mean"]
        if metric == "shift_cost":
            ranked = ranked.where(able.reindex(part.index, fill_value=True))
        ranks = ranked.rank(ascending=layout.lower(metric), method="min")
        for place, (name, look) in enumerate(style.looks(order).items()):
            style.estimate(panel, place, part.loc[name], look, caps=0.24)
            style.beside(panel, place, "–" if np.isnan(ranks[name]) else f"{ranks[name]:.0f}")
        title = style.titled(metric)
        panel.axvline(0, color=style.FAINT, linewidth=0.6, zorder=0)
        panel.margins(x=0.12)
        style.across(panel, title.replace(" (", "\n(") if len(found) > _WIDE else title, 3)
    style.name_rows(made, axes, style.labels(order))
    made.get_layout_engine().set(wspace=0.07)
    return made


@figure()
def _metric_bars(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """One small bar chart per metric: mean by system with its interval."""
    frames.require(model_metrics, ["metric"])
    judged = [name for name in CONSTRUCTS if name in set(model_metrics["metric"])]
    found = _by_metric(model_metrics, metrics or [*frames.shown_in("metric_bars", model_metrics), *judged])
    order = frames.systems_of(model_metrics)
    row_height = 0.55 + 0.155 * len(order)
    made, axes = style.panels(len(found), 3, lambda rows: 0.5 + rows * row_height, sharey=True)
    for panel, (metric, part) in zip(axes.flat, found.items(), strict=False):
        for place, (name, look) in enumerate(style.looks(order).items()):
            row = part.loc[name]
            if np.isnan(row["mean"]):
                panel.text(0, place, " –", va="center", color=style.FAINT)
                continue
            panel.barh(place, row["mean"], height=0.72, color=look.colour, alpha=0.85)
            style.interval(panel, place, row["low"], row["high"], style.INK, linewidth=1.2)
        panel.axvline(0, color=style.FAINT, linewidth=0.6)
        style.across(panel, style.titled(metric), 4)
    style.name_rows(made, axes, style.labels(order))
    return made


@figure()
def _distributions(results: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Ridges of the sessions' scores by system, with mean and interval."""
    most = _RIDGES if layout.is_thesis(frames.convention_of(results)) else None
    shown = frames.shown_in("distributions", results, metrics)[: len(metrics) or most]
    frames.require(results, ["session_id", *shown])
    order = frames.systems_of(results)
    made, axes = style.figure(0.8 + 0.36 * len(order), 1, len(shown), sharey=True)
    for panel, metric in zip(axes[0], shown, strict=True):
        table = frames.means(results, ["model"], metric).set_index("model")
        for place, (name, look) in enumerate(style.looks(order).items()):
            values = results.loc[results["model"] == name, metric].astype(float).dropna().to_numpy()
            _ridge(panel, values, place + 0.32, look.colour)
            row = table.loc[name]
            style.interval(panel, place + 0.32, row["low"], row["high"], style.INK, linewidth=1.6)
            panel.plot(row["mean"], place + 0.32, "o", color="white", mec=style.INK, mew=1, markersize=3.5)
        style.across(panel, style.titled(metric), 5 if len(shown) < _RIDGES else 3)
    style.name_rows(made, axes, style.labels(order))
    return made


def _ridge(panel: Any, values: Any, foot: float, colour: str) -> None:
    """A density standing on a line; a line each for few sessions, and where nothing varies."""
    from scipy.stats import gaussian_kde

    if len(values) < _FEW or np.ptp(values) < 1e-9:
        panel.vlines(values, foot - 0.75, foot, color=colour, linewidth=2)
        return
    low, high = float(values.min()), float(values.max())
    x = np.linspace(low, high, 160)
    y = gaussian_kde(values)(x)
    top = foot - 0.78 * y / y.max()
    panel.fill_between(x, foot, top, color=colour, alpha=0.35, linewidth=0)
    panel.plot(x, top, color=colour, linewidth=1.1)
    panel.plot([low, high], [foot, foot], color=colour, linewidth=0.8)


_CALLS = {"tokens_in": "tokens read", "tokens_out": "tokens written", "seconds": "seconds"}
_OTHER = style.Look(style.FAINT, "o", "-")  # a model that is no system: a user, a judge


@figure(made_by="python -m crs_lib run 03_simulate -p run NAME -p systems ollama:MODEL, a run with a model")
def _tokens_and_time(llm_calls: pd.DataFrame, model_metrics: pd.DataFrame) -> Any:
    """Means of tokens read, tokens written and seconds per call, a row for each role and model."""
    frames.filled(llm_calls, ["role", "model", "session_id", "sent", *_CALLS])
    frames.require(model_metrics, ["metric"])
    sent = llm_calls[llm_calls["sent"].astype(bool)]
    if sent.empty:
        raise NoDataError("no call was sent and answered: the cache had all replies, or all failed")
    who = ["role", "model"]
    calls, sums = llm_calls.groupby(who).size(), sent.groupby(who)[[*_CALLS]].sum()
    looks = style.looks(frames.systems_of(model_metrics))
    made, axes = style.figure(0.95 + 0.36 * len(sums), 1, len(_CALLS), sharey=True)
    for panel, (column, title) in zip(axes[0], _CALLS.items(), strict=True):
        table = frames.means(sent, who, column).set_index(who)
        for place, key in enumerate(sums.index):
            style.estimate(panel, place, table.loc[key], looks.get(key[1], _OTHER))
            style.beside(panel, place, _total(sums.loc[key, column], column))
        panel.margins(x=0.12)
        panel.set_xlim(left=0)
        style.across(panel, f"{title} per call", 4, fontsize=style.SMALL)
    short = zip(style.labels([model for _, model in sums.index]), sums.index, strict=True)
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
    return f"{value:.0f}" + " s" * (column == "seconds")


def sweep_outcomes(sweep: pd.DataFrame) -> Any:
    """A panel for each parameter and convention: the leading outcome of every system over its values (means
    over runs, with the mean of their 95 % intervals). NoDataError where no parameter has two values.
    """
    frames.filled(sweep, ["parameter", "value", "model", "metric", "mean", "low", "high", "convention"])
    based = sweep.assign(base=sweep["convention"].str.partition("(")[0])
    parts = [
        (*map(str, key), part[part["metric"] == frames.primary(part)])
        for key, part in based.groupby(["parameter", "base"], sort=False)
        if len(set(part["value"])) > 1
    ][:_MOST]
    if not parts:
        raise NoDataError("no parameter of the sweep has more than one value")
    made, axes = style.figure(3.1, 1, len(parts))
    looks = style.looks(frames.systems_of(sweep))
    for panel, (parameter, convention, part) in zip(axes[0], parts, strict=True):
        values = [str(value) for value in dict.fromkeys(part["value"])]
        at = np.arange(len(values))
        for place, (name, look) in enumerate(looks.items()):
            rows = part[part["model"] == name].groupby("value")[["mean", "low", "high"]].mean()
            rows = rows.reindex(values)
            if parameter == "seed":  # seeds have no order that a line could follow
                aside = at + 0.5 * ((place + 0.5) / len(looks) - 0.5)
                panel.vlines(aside, rows["low"], rows["high"], color=look.colour, linewidth=1)
                panel.plot(aside, rows["mean"], look.marker, color=look.colour, markersize=look.size)
            else:
                style.band(panel, at, rows, look)
        ticks = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"}
        panel.set_xticks(range(len(values)), style.labels(values, 16), **ticks)
        panel.set(xlabel=parameter, title=f"{style.titled(frames.primary(part))}, {convention}")
        panel.grid(axis="y")
        panel.margins(x=0.15)
    axes[0][0].set_ylabel("mean score")
    style.legend(made, list(looks))
    style.note(made, "Bands and lines across: 95 % interval, averaged over the runs that share a value.")
    return made
