"""Language models in a run: judges' scores beside a metric, and what calls cost in tokens and time."""

from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core import rng
from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, means, primary, require, systems_of, with_rows
from crs_lib.figures.pairs import PREFIX, signed, with_judges, within_correlations
from crs_lib.metrics.constructs import CONSTRUCTS, Construct
from crs_lib.stats import Design, cluster_bootstrap_correlation

_JITTER = 0.12  # of a score point, upwards and downwards: equal scores lie beside one another
JUDGED = "python -m crs_lib run 04_evaluate -p run {run} -p judges ollama:MODEL"
_CALLS = {"tokens_in": "tokens read", "tokens_out": "tokens written", "seconds": "seconds"}
_OTHER = style.Look(style.FAINT, "o", "-")  # a model that is no system: a user, a judge


@figure(title="Judges and metrics", made_by=JUDGED)
def _judge_scatter(results: pd.DataFrame) -> Any:
    """A panel per construct: sessions by score and judges' mean, with rank correlations.

    Caption: Judges' mean scores against {primary} by session, with the means of {systems} systems and the
        Spearman correlations ρ over all sessions and within systems, with 95 % intervals (n = {sessions}
        sessions per system, resampled).
    Note: Small: sessions, moved a little in height so that equal scores are seen; large: system means with 95
        % intervals; n = {sessions} sessions per system.
    """
    metric = primary(results)
    require(results, ["session_id", metric], sessions=3)
    frame, judged = with_judges(results)
    if not judged:
        raise NoDataError("no session has a score by a judge")
    drawing, axes = style.figure(3.5, 1, len(judged), sharey=True)
    ends: list[float] = []
    for panel, column in zip(axes[0], judged, strict=True):
        construct = column.removeprefix(PREFIX)
        _sessions(panel, frame, metric, column)
        panel.set_title(f"{construct} ↑\n{_correlations(frame, metric, column)}", fontsize=style.SMALL)
        panel.set_xlabel(style.titled(metric))
        panel.set_ylabel("")
        panel.locator_params(axis="x", nbins=4)
        panel.grid()
        ends += CONSTRUCTS.get(construct, Construct(construct, "")).scale  # foreign ones have the usual scale
    low = int(min(ends))
    high = int(max(ends))
    first = axes[0][0]
    first.set_ylabel("judges' mean score")
    first.set_ylim(low - 0.3, high + 0.3)
    first.set_yticks(range(low, high + 1))
    style.legend(drawing, systems_of(frame))
    return drawing


def _sessions(panel: Any, frame: pd.DataFrame, metric: str, construct: str) -> None:
    """The sessions of each system, moved a little in height, and its mean with intervals both ways."""
    across = means(frame, ["model"], metric).set_index("model")
    up = means(frame, ["model"], construct).set_index("model")
    noise = rng.stream(0, "figures", construct).uniform(-_JITTER, _JITTER, len(frame))
    moved = frame[construct] + noise
    looks = style.looks(systems_of(frame))
    for name, look in looks.items():
        own = frame["model"] == name
        small = 0.55 * look.size
        style.mark(panel, frame.loc[own, metric], moved[own], look, alpha=0.3, markersize=small)
    for name, look in looks.items():
        x = across.loc[name]
        y = up.loc[name]
        panel.plot([x["low"], x["high"]], [y["mean"], y["mean"]], color=look.colour)
        panel.plot([x["mean"], x["mean"]], [y["low"], y["high"]], color=look.colour)
        large = 1.5 * look.size
        style.mark(panel, x["mean"], y["mean"], look, markersize=large, mec="white", mew=0.7)


def _correlations(frame: pd.DataFrame, metric: str, construct: str) -> str:
    """Both rank correlations with their intervals, a line each; "–" where one is not defined."""
    if frame[[metric, construct]].notna().all(axis=1).sum() < 2:
        return "ρ –\nwithin –"
    design = Design(scenario="session_id")
    overall = cluster_bootstrap_correlation(frame, metric, construct, design, method="percentile")
    within = within_correlations(frame, [metric, construct])
    return f"ρ {_with_interval(overall)}\nwithin {_with_interval(within)}"


def _with_interval(table: pd.DataFrame) -> str:
    """The correlation of a table's first row with its interval."""
    value, low, high = table.loc[0, ["correlation", "low", "high"]].astype(float)
    if np.isnan(value):
        return "–"
    return f"{signed(value)} [{signed(low)}, {signed(high)}]"


@figure(made_by="python -m crs_lib run 03_simulate -p run NAME -p systems ollama:MODEL, a run with a model")
def _tokens_and_time(llm_calls: pd.DataFrame, model_metrics: pd.DataFrame) -> Any:
    """Means of tokens read, tokens written and seconds per call, a row for each role and model.

    Caption: Tokens and time per call of a language model, by model and role: means over answered calls with
        95 % intervals (n = {sessions} sessions per system, resampled).
    """
    with_rows(llm_calls, ["role", "model", "session_id", "sent", *_CALLS])
    require(model_metrics, ["metric"])
    sent = llm_calls[llm_calls["sent"].astype(bool)]
    if sent.empty:
        raise NoDataError("no call was sent and answered: the cache had all replies, or all failed")
    keys = ["role", "model"]
    n_calls = llm_calls.groupby(keys).size()
    sums = sent.groupby(keys)[list(_CALLS)].sum()
    looks = style.looks(systems_of(model_metrics))
    drawing, axes = style.figure(0.95 + 0.36 * len(sums), 1, len(_CALLS), sharey=True)
    for panel, (column, title) in zip(axes[0], _CALLS.items(), strict=True):
        table = means(sent, keys, column).set_index(keys)
        for height, (role, model) in enumerate(sums.index):
            look = looks.get(model, _OTHER)
            style.estimate(panel, height, table.loc[(role, model)], look)
            amount = sums.loc[(role, model), column]
            style.beside(panel, height, total(amount, column))
        panel.margins(x=0.12)
        panel.set_xlim(left=0)
        style.across(panel, f"{title} per call", 4, fontsize=style.SMALL)
    models = style.labels([model for _, model in sums.index])
    names = []
    for label, (role, model) in zip(models, sums.index, strict=True):
        names.append(f"{label}\n{role}, {n_calls[role, model]:,} calls")
    style.name_rows(axes, names)
    n = sent["session_id"].nunique()
    text = "Means per answered call with 95 % intervals; beside a panel: sums"
    style.note(drawing, f"{text}; n = {n} sessions.")
    return drawing


def total(value: float, column: str) -> str:
    """A sum as a few characters: tokens in thousands or millions, seconds as minutes or hours."""
    units = {1e9: " G", 1e6: " M", 1e3: " k"}
    unit = ""
    if column == "seconds":
        units = {3600: " h", 60: " min"}
        unit = " s"
    for size, name in units.items():
        if value >= size:
            return f"{value / size:.1f}{name}"
    return f"{value:.0f}{unit}"
