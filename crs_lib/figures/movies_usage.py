"""Tokens and time of language models, by model and role."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, NoDataError, filled, means, require, systems_of

_SHOWN = {"tokens_in": "tokens read", "tokens_out": "tokens written", "seconds": "seconds"}
_OTHER = style.Look(style.FAINT, "o", "-")  # a model that is no system: a user, a judge


@FIGURES.register(
    "tokens_and_time",
    place=22,
    study="movies",
    tables=("llm_calls", "model_metrics"),
    caption="Tokens and time per call of a language model, by model and role: means over answered calls with "
    "95 % intervals (n = {sessions} sessions per system, resampled).",
    made_by="python -m crs_lib run 03_simulate -p run NAME -p systems ollama:MODEL, a run with a model",
)
def tokens_and_time(llm_calls: pd.DataFrame, model_metrics: pd.DataFrame) -> Any:
    """Means of tokens read, tokens written and seconds per call, a row for each role and model."""
    filled(llm_calls, ["role", "model", "session_id", "sent", *_SHOWN])
    require(model_metrics, ["metric"])
    sent = llm_calls[llm_calls["sent"].astype(bool)]
    if sent.empty:
        raise NoDataError("no call was sent and answered: the cache had all replies, or all failed")
    calls = llm_calls.groupby(["role", "model"], sort=True).size()
    rows = [key for key in calls.index if key in set(zip(sent["role"], sent["model"], strict=True))]
    looks = style.looks(systems_of(model_metrics))
    made, axes = style.figure(0.95 + 0.36 * len(rows), 1, len(_SHOWN), sharey=True)
    for panel, (column, title) in zip(axes[0], _SHOWN.items(), strict=True):
        table = means(sent, ["role", "model"], column).set_index(["role", "model"])
        sums = sent.groupby(["role", "model"])[column].sum()
        for place, key in enumerate(rows):
            row, look = table.loc[key], looks.get(key[1], _OTHER)
            style.interval(panel, place, row["low"], row["high"], look.colour, caps=0.2)
            panel.plot(row["mean"], place, look.marker, color=look.colour, markersize=look.size)
            panel.text(
                1.02, place, _total(sums[key], column), transform=panel.get_yaxis_transform(), va="center",
                fontsize=style.SMALL,
            )  # fmt: skip
        panel.set_title(f"{title} per call", fontsize=style.SMALL)
        panel.margins(x=0.12)
        panel.set_xlim(left=0)
        panel.locator_params(axis="x", nbins=4)
        panel.grid(axis="x")
        panel.tick_params(axis="y", length=0)
    axes[0][0].set_yticks(range(len(rows)), _names(rows, calls))
    axes[0][0].set_ylim(len(rows) - 0.4, -0.6)
    made.supylabel("model")
    n = sent["session_id"].nunique()
    style.note(made, f"Means per answered call with 95 % intervals; beside a panel: sums; n = {n} sessions.")
    return made


def _names(rows: Sequence[tuple[str, str]], calls: pd.Series) -> list[str]:
    names = style.labels([model for _, model in rows])
    return [
        f"{name}\n{role}, {calls[role, model]:,} calls"
        for name, (role, model) in zip(names, rows, strict=True)
    ]


def _total(value: float, column: str) -> str:
    """A sum as a few characters: tokens in thousands or millions, seconds as minutes or hours."""
    units = ((3600, " h"), (60, " min")) if column == "seconds" else ((1e9, " G"), (1e6, " M"), (1e3, " k"))
    for size, unit in units:
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}" + (" s" if column == "seconds" else "")
