"""Figures of the judges' scores: beside a metric, session by session, and as radars of their constructs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.core import rng
from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, means, primary, require, systems_of
from crs_lib.figures.pairs import PREFIX, signed, with_judges, within_correlations
from crs_lib.metrics.constructs import CONSTRUCTS, Construct
from crs_lib.stats import Design, cluster_bootstrap_correlation

_STAR = "*"
_JITTER = 0.12  # of a score point, upwards and downwards: equal scores lie beside one another
JUDGED = "python -m crs_lib run 04_evaluate -p run {run} -p judges ollama:MODEL"


@figure(made_by=JUDGED)
def judge_scatter(results: pd.DataFrame) -> Any:
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
    scales = [_construct(name.removeprefix(PREFIX)).scale for name in judged]
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
        "within": within_correlations(frame, [metric, construct]),
    }
    lines = []
    for head, table in found.items():
        value, low, high = (float(table[end].iloc[0]) for end in ("correlation", "low", "high"))
        known = f"{signed(value)} [{signed(low)}, {signed(high)}]"
        lines.append(f"{head} {'–' if np.isnan(value) else known}")
    return "\n".join(lines)


def _construct(name: str) -> Construct:
    """The declaration of a construct; of one that foreign results bring along, the usual scale."""
    return CONSTRUCTS.get(name, Construct(name, ""))


_ENDS = ["mean", "low", "high"]


@figure(made_by=JUDGED)
def judge_radar(judge_means: pd.DataFrame) -> Any:
    """One small radar per system: the judges' constructs on their scale, outward is better."""
    require(judge_means, ["construct", *_ENDS, "n_sessions"])
    if judge_means["mean"].isna().all():
        raise NoDataError("no system has a score of a judge that can be read")
    spokes = {str(name): _construct(str(name)) for name in dict.fromkeys(judge_means["construct"])}
    lowest = np.array([[row.lowest] for row in spokes.values()])
    levels = np.array([[row.highest - row.lowest] for row in spokes.values()])
    own = set(judge_means.loc[judge_means["own_family"], "model"]) if "own_family" in judge_means else set()
    order = systems_of(judge_means)
    polar = {"projection": "polar"}
    made, axes = style.panels(len(order), 3, lambda rows: 0.4 + 1.72 * rows, subplot_kw=polar)
    rows = judge_means.set_index(["model", "construct"])[_ENDS]
    named = zip(axes.flat, style.looks(order).items(), style.labels(order, 18), strict=False)
    for panel, (name, look), text in named:
        ends = (rows.loc[name].reindex(list(spokes)).to_numpy(dtype=float) - lowest) / levels
        _radar(panel, ends, look, [row.label or row.name for row in spokes.values()])
        panel.set_title(text + f" {_STAR}" * (name in own), pad=6, fontweight="bold", loc="left")
    scales = sorted({f"centre {row.lowest}, rim {row.highest}" for row in spokes.values()})
    words = (
        f"{' or '.join(scales).capitalize()}, rings between are whole scores; "
        "thick, along the spokes: 95 % interval"
    )
    words += f"; {_STAR}: only a judge of the system's own family" if own else ""
    style.note(made, f"{words}; n = {int(judge_means['n_sessions'].max())} sessions per system.")
    return made


def _radar(panel: Any, ends: NDArray[np.float64], look: style.Look, labels: Sequence[str]) -> None:
    """A small radar: mean, low and high of each spoke in [0, 1]."""
    angles = np.linspace(0, 2 * np.pi, len(labels), endpoint=False)
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
