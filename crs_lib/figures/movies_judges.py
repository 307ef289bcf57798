"""Judges beside the scores: every session's score against what judges gave it."""

from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core import rng
from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, NoDataError, means, require, systems_of
from crs_lib.figures.movies_pairs import PREFIX, signed, with_judges, within_correlations
from crs_lib.figures.movies_radars import SCALE
from crs_lib.metrics import base
from crs_lib.stats import cluster_bootstrap_correlation

_JITTER = 0.12  # of a score point, upwards and downwards: equal scores lie beside one another


@FIGURES.register(
    "judge_scatter",
    study="movies",
    tables=("results",),
    caption="Item TAS of single sessions against what judges gave them ({systems} systems, {sessions} "
    "sessions each; judges' means are moved up or down a little so that equal ones can be seen). Large "
    "marks: means of systems with 95 % intervals. ρ: Spearman correlation over all sessions, and within "
    "systems, with 95 % bootstrap intervals (sessions resampled with all their systems). A judge that "
    "follows the metric only between systems has the first and lacks the second.",
    made_by="python -m crs_lib run 04_evaluate -p run {run} -p judges ollama:MODEL",
)
def judge_scatter(results: pd.DataFrame, *, metric: str = "item_tas") -> Any:
    """A panel per construct: sessions by score and judges' mean, with rank correlations."""
    name = base.get(metric).name
    require(results, ["session_id", name], sessions=3)
    frame, constructs = with_judges(results)
    if not constructs:
        raise NoDataError("no session has a score by a judge")
    order = systems_of(frame)
    made, axes = style.figure(3.5, 1, len(constructs), sharey=True)
    for panel, construct in zip(axes[0], constructs, strict=True):
        _sessions(panel, frame, name, construct)
        words = f"{construct.removeprefix(PREFIX)} ↑\n{_correlations(frame, name, construct)}"
        panel.set_title(words, fontsize=style.SMALL)
        panel.set_xlabel(style.titled(name))
        panel.locator_params(axis="x", nbins=4)
        panel.grid()
    low, high = SCALE
    axes[0][0].set(ylabel="judges' mean score", ylim=(low - 0.3, high + 0.3), yticks=range(low, high + 1))
    style.legend(made, order)
    n = frame["session_id"].nunique()
    style.note(
        made, f"Small: sessions; large: system means with 95 % intervals; n = {n} sessions per system."
    )
    return made


def _sessions(panel: Any, frame: pd.DataFrame, metric: str, construct: str) -> None:
    """The sessions of each system, moved a little in height, and its mean with intervals both ways."""
    across, up = (means(frame, ["model"], column).set_index("model") for column in (metric, construct))
    moved = rng.stream(0, "figures", construct).uniform(-_JITTER, _JITTER, len(frame))
    looks = style.looks(systems_of(frame))
    for name, look in looks.items():
        mine = (frame["model"] == name).to_numpy()
        panel.plot(
            frame.loc[mine, metric], frame.loc[mine, construct] + moved[mine], look.marker,
            color=look.colour, markersize=0.55 * look.size, alpha=0.3,
        )  # fmt: skip
    for name, look in looks.items():
        x, y = across.loc[name], up.loc[name]
        panel.plot([x["low"], x["high"]], [y["mean"], y["mean"]], color=look.colour, linewidth=1.3)
        panel.plot([x["mean"], x["mean"]], [y["low"], y["high"]], color=look.colour, linewidth=1.3)
        panel.plot(
            x["mean"], y["mean"], look.marker, color=look.colour, markersize=1.5 * look.size, mec="white",
            mew=0.7,
        )  # fmt: skip


def _correlations(frame: pd.DataFrame, metric: str, construct: str) -> str:
    """Both rank correlations with their intervals, a line each; "–" where one is not defined."""
    known = frame[[metric, construct]].notna().all(axis=1)
    if known.sum() < 2:
        return "ρ –\nwithin –"
    whole = cluster_bootstrap_correlation(
        frame, metric, construct, scenario="session_id", method="percentile"
    ).iloc[0]
    within = within_correlations(frame, [metric, construct]).iloc[0]
    return "\n".join(f"{head} {_interval(row)}" for head, row in (("ρ", whole), ("within", within)))


def _interval(row: pd.Series) -> str:
    if np.isnan(row["correlation"]):
        return "–"
    return f"{signed(row['correlation'])} [{signed(row['low'])}, {signed(row['high'])}]"
