"""Radars, one small one per system: the components of the scores, and what judges say."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, NoDataError, require, systems_of
from crs_lib.figures.movies_scores import sessions_in_words, table_of
from crs_lib.metrics import base

COMPONENTS = (
    "satisfaction", "item_recovery_rate", "topic_interference_leakage", "copying", "cross_coherence",
    "context_retention", "slot_f1",
)  # fmt: skip
SCALE = (1, 5)  # of the judges: the rubric's lowest and highest level
_BROKEN = {"proactiveness": "proactive-\nness", "personalization": "personal-\nization"}
_ENDS = ("mean", "low", "high")


@FIGURES.register(
    "component_radar",
    study="movies",
    tables=("model_metrics",),
    caption="Components of the adaptation scores on their declared ranges, turned so that outward is better "
    "(“1 − L” is leakage turned round). Means with 95 % intervals along the spokes (n = {sessions} sessions "
    "per system); a spoke without a mark is not defined for that system.",
)
def component_radar(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = COMPONENTS) -> Any:
    """One small radar per system: components scaled to [0, 1], outward is better."""
    found = {
        name: part
        for name, part in table_of(model_metrics, metrics).items()
        if np.isfinite([base.get(name).low, base.get(name).high]).all()
    }
    if len(found) < 3:
        raise NoDataError("a radar needs at least 3 metrics with a finite range and a mean")
    ends = {
        name: np.array([_outward(metric, part.loc[name]) for metric, part in found.items()])
        for name in systems_of(model_metrics)
    }
    made = _radars(ends, [_spoke(metric) for metric in found])
    style.note(
        made,
        "Outward is better: centre and rim are the worst and the best value of a component's range; thick, "
        f"along the spokes: 95 % interval; no mark: not defined; {sessions_in_words(model_metrics)}.",
    )
    return made


@FIGURES.register(
    "judge_radar",
    study="movies",
    tables=("judge_means",),
    caption="What judges say of {systems} systems, on the rubric's scale from 1 (centre) to 5 (rim). Means "
    "over judges and samples with 95 % intervals along the spokes ({n_sessions} sessions per system, "
    "resampled); judges of a system's own family of models are left out, and a spoke without a mark has no "
    "other judge.",
    made_by="python -m crs_lib run 04_evaluate -p run {run} -p judges ollama:MODEL",
)
def judge_radar(judge_means: pd.DataFrame) -> Any:
    """One small radar per system: the judges' constructs from 1 to 5, outward is better."""
    require(judge_means, ["construct", *_ENDS, "n_sessions"])
    if judge_means["mean"].isna().all():
        raise NoDataError("no system has a readable score by a judge of another family")
    spokes = [str(name) for name in dict.fromkeys(judge_means["construct"])]
    low, high = SCALE
    ends = {
        name: (part.set_index("construct").reindex(spokes)[[*_ENDS]].to_numpy(dtype=float) - low)
        / (high - low)
        for name, part in judge_means.groupby("model", sort=False)
    }
    made = _radars(
        {name: ends[name] for name in systems_of(judge_means)}, [_BROKEN.get(one, one) for one in spokes]
    )
    words = (
        f"Centre {low}, rim {high}, rings between are whole scores; thick, along the spokes: 95 % interval"
    )
    n = f"n = {int(judge_means['n_sessions'].max())} sessions per system"
    style.note(made, f"{words}; no judge of the system's own family; {n}.")
    return made


def _outward(metric: str, row: pd.Series) -> tuple[float, float, float]:
    """Mean and interval as shares of the metric's range, turned so that 1 is best."""
    facts = base.get(metric)
    mean, low, high = ((row[key] - facts.low) / (facts.high - facts.low) for key in _ENDS)
    return (1 - mean, 1 - high, 1 - low) if facts.direction == base.LOWER else (mean, low, high)


def _spoke(metric: str) -> str:
    return f"1 − {style.short(metric)}" if base.get(metric).direction == base.LOWER else style.short(metric)


def _radars(ends: dict[str, NDArray[np.float64]], spokes: Sequence[str]) -> Any:
    """A figure of small radars; ``ends`` are mean, low and high of each spoke in [0, 1], by system."""
    order = list(ends)
    columns = min(3, len(order))
    rows = -(-len(order) // columns)
    polar = {"projection": "polar"}
    made, axes = style.figure(0.4 + 1.72 * rows, rows, columns, subplot_kw=polar)
    names = dict(zip(order, style.labels(order, 18), strict=True))
    angles = np.linspace(0, 2 * np.pi, len(spokes), endpoint=False)
    for panel, (name, look) in zip(axes.flat, style.looks(order).items(), strict=False):
        _radar(panel, angles, ends[name], look, spokes)
        panel.set_title(names[name], pad=6, fontweight="bold", loc="left")
    for panel in axes.flat[len(order) :]:
        panel.set_visible(False)
    return made


def _radar(panel: Any, angles: Any, ends: Any, look: style.Look, labels: Sequence[str]) -> None:
    panel.set_theta_zero_location("N")
    panel.set_theta_direction(-1)
    mean = ends[:, 0]
    closed = np.append(angles, angles[0]), np.append(mean, mean[0])
    panel.plot(*closed, color=look.colour, linewidth=1.1)
    if not np.isnan(mean).any():
        panel.fill(*closed, color=look.colour, alpha=0.15, linewidth=0)
    for angle, (middle, low, high) in zip(angles, ends, strict=True):
        panel.plot([angle, angle], [low, high], color=look.colour, linewidth=3, alpha=0.6)
        panel.plot(angle, middle, look.marker, color=look.colour, markersize=0.8 * look.size)
    panel.set_ylim(0, 1.02)
    panel.set_yticks([0.25, 0.5, 0.75], ["", "", ""])
    panel.set_xticks(angles, labels)
    panel.tick_params(axis="x", pad=-3)
    for text, angle in zip(panel.get_xticklabels(), angles, strict=True):
        side = round(float(np.sin(angle)), 6)
        text.set_horizontalalignment("center" if abs(side) < 0.2 else "left" if side > 0 else "right")
    panel.spines["polar"].set_color(style.GRID)
