"""Figures of the judges' scores: beside a metric, session by session, and by construct."""

from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core import rng
from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, NoDataError, means, primary, require, systems_of
from crs_lib.figures.movies_pairs import PREFIX, signed, with_judges, within_correlations
from crs_lib.metrics.constructs import CONSTRUCTS, Construct
from crs_lib.stats import cluster_bootstrap_correlation

_JITTER = 0.12  # of a score point, upwards and downwards: equal scores lie beside one another


@FIGURES.register(
    "judge_scatter",
    title="Judges and metrics",
    place=11,
    study="movies",
    tables=("results",),
    caption="Judges' mean scores against {primary} by session, with the means of {systems} systems and the "
    "Spearman correlations ρ over all sessions and within systems, with 95 % intervals (n = {sessions} "
    "sessions per system, resampled).",
    made_by="python -m crs_lib run 04_evaluate -p run {run} -p judges ollama:MODEL",
)
def judge_scatter(results: pd.DataFrame, *, metric: str = "") -> Any:
    """A panel per construct: sessions by score and judges' mean, with rank correlations."""
    name = primary(results, metric)
    require(results, ["session_id", name], sessions=3)
    frame, judged = with_judges(results)
    if not judged:
        raise NoDataError("no session has a score by a judge")
    order = systems_of(frame)
    made, axes = style.figure(3.5, 1, len(judged), sharey=True)
    for panel, construct in zip(axes[0], judged, strict=True):
        _sessions(panel, frame, name, construct)
        words = f"{construct.removeprefix(PREFIX)} ↑\n{_correlations(frame, name, construct)}"
        panel.set_title(words, fontsize=style.SMALL)
        panel.set_xlabel(style.titled(name))
        panel.locator_params(axis="x", nbins=4)
        panel.grid()
    scales = np.array([_row(construct.removeprefix(PREFIX)).scale for construct in judged])
    low, high = int(scales.min()), int(scales.max())
    axes[0][0].set(ylabel="judges' mean score", ylim=(low - 0.3, high + 0.3), yticks=range(low, high + 1))
    style.legend(made, order)
    n = frame["session_id"].nunique()
    style.note(
        made,
        "Small: sessions, moved a little in height so that equal scores are seen; large: system means with "
        f"95 % intervals; n = {n} sessions per system.",
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


def _row(construct: str) -> Construct:
    """The declaration of a construct; of one that foreign results bring along, the usual scale."""
    return CONSTRUCTS.get(construct, Construct(construct, ""))


_ENDS = ["mean", "low", "high"]


@FIGURES.register(
    "judge_dots",
    title="Scores of judges",
    place=10,
    study="movies",
    tables=("judge_means",),
    caption="Judges' mean scores of {systems} systems by construct, each on its own scale, with 95 % "
    "intervals (n = {n_sessions} sessions per system, resampled).",
    made_by="python -m crs_lib run 04_evaluate -p run {run} -p judges ollama:MODEL",
)
def judge_dots(judge_means: pd.DataFrame) -> Any:
    """A dot plot: the judges' constructs on their scale, a point with its interval for each system."""
    require(judge_means, ["construct", *_ENDS, "n_sessions"])
    if judge_means["mean"].isna().all():
        raise NoDataError("no system has a score of a judge that can be read")
    rows = [_row(str(name)) for name in dict.fromkeys(judge_means["construct"])]
    order = systems_of(judge_means)
    made, axes = style.figure(1.0 + len(rows) * (0.2 + 0.07 * len(order)))
    panel = axes[0][0]
    for place, row in enumerate(rows):
        found = judge_means[judge_means["construct"] == row.name].set_index("model")[_ENDS]
        style.dots(panel, place, order, {str(name): ends for name, *ends in found.itertuples()})
        if place:
            panel.axhline(place - 0.5, color=style.GRID, linewidth=0.6)
    low, high = min(row.lowest for row in rows), max(row.highest for row in rows)
    panel.set_yticks(range(len(rows)), [f"{row.name}, {row.lowest} to {row.highest}" for row in rows])
    panel.set(xlabel="judges' mean score ↑", ylabel="construct", ylim=(len(rows) - 0.5, -0.5))
    panel.set(xlim=(low - 0.1, high + 0.1), xticks=range(low, high + 1))
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")
    own = set(judge_means.loc[judge_means["own_family"], "model"]) if "own_family" in judge_means else set()
    style.legend(made, order, lines=False)
    marked = f"; only a judge of its own family: {', '.join(sorted(map(str, own)))}" if own else ""
    n = f"n = {int(judge_means['n_sessions'].max())} sessions per system"
    style.note(made, f"Lines: 95 % intervals; no mark: no score that can be read{marked}; {n}.")
    return made
