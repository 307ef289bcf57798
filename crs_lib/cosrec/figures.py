"""CoSRec's figures: ratings, judgments, and the systems' scores."""

from typing import Any

import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import figure, with_rows

_FLOOR = style.Look(style.FAINT, "|", "-")  # what no system stands for: random orders
_BARS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_HATCHES = ("", "///", "...", "xx")


@figure(study="cosrec")
def _cosrec_average_ratings(average_ratings: pd.DataFrame) -> Any:
    """Bars: conversations by average rating.

    Caption: Conversations by average rating over annotators and aspects, in bins of one half named by their
        lower end (n = {n_conversations} rated conversations).
    Note: n = {n_conversations} conversations.
    """
    import seaborn as sns

    with_rows(average_ratings, ["from", "conversations", "n_conversations"])
    drawing, panel = style.single(2.5)
    text = average_ratings.astype({"from": str})
    look = {"color": _BARS[0], "saturation": 1, "alpha": 0.85, "width": 0.9, "linewidth": 0}
    sns.barplot(text, x="from", y="conversations", errorbar=None, ax=panel, **look)
    panel.bar_label(panel.containers[0], fontsize=style.SMALL)
    panel.margins(y=0.15)
    panel.set(xlabel="average rating, from", ylabel="conversations")
    return drawing


@figure(study="cosrec")
def _cosrec_aspect_ratings(aspect_ratings: pd.DataFrame) -> Any:
    """Grouped bars: conversations by mean rating, a colour and hatch for each aspect.

    Caption: Conversations by their mean rating of each aspect, rounded half to even (n = {n_conversations}
        rated conversations).
    Note: n = {n_conversations} conversations.
    """
    with_rows(aspect_ratings, ["rating", "aspect", "conversations", "n_conversations"])
    drawing, panel = _grouped(2.7, aspect_ratings, "rating", "aspect", "conversations")
    panel.set(xlabel="mean rating, rounded", ylabel="conversations")
    return drawing


@figure(study="cosrec")
def _cosrec_judgments(judgments: pd.DataFrame) -> Any:
    """Grouped bars: intents by number of judgments, a colour and hatch for each grade.

    Caption: Intents by the number of their judged documents of each grade, the user variants of a
        recommendation pooled (n = {n_intents} judged intents).
    Note: n = {n_intents} intents.
    """
    with_rows(judgments, ["judgments", "grade", "intents", "n_intents"])
    drawing, panel = _grouped(2.9, judgments, "judgments", "grade", "intents")
    panel.set(xlabel="judged documents", ylabel="intents")
    panel.tick_params(axis="x", labelrotation=40)
    return drawing


def _grouped(height: float, table: pd.DataFrame, x: str, hue: str, y: str) -> tuple[Any, Any]:
    """Bars side by side, distinguished by colour and hatch, with a legend above the figure."""
    import seaborn as sns

    drawing, panel = style.single(height)
    names = list(dict.fromkeys(table[hue]))
    colours = dict(zip(names, _BARS, strict=False))
    text = table.astype({x: str})
    sns.barplot(text, x=x, y=y, hue=hue, palette=colours, saturation=1, errorbar=None, legend=False, ax=panel)
    for bars, hatch in zip(panel.containers, _HATCHES, strict=False):
        for bar in bars:
            bar.set(hatch=hatch, edgecolor="white", linewidth=0.3)
    drawing.legend(panel.containers, names, loc="outside upper center", ncols=len(names))
    panel.grid(axis="y")
    return drawing, panel


@figure(study="cosrec")
def _cosrec_systems(systems: pd.DataFrame) -> Any:
    """Points with intervals: systems by the mean of the main measure, a panel for each kind of topic.

    Caption: Mean score of each system by kind of topic with 95 % intervals (up to n = {n_topics} topics of
        {n_conversations} conversations, which are resampled).
    Note: Grey: random order of the judged pool or the whole collection; lines: 95 % intervals; up to n =
        {n_topics} topics of {n_conversations} conversations.
    """
    with_rows(systems, ["system", "kind", "measure", "mean", "low", "high", "n_topics", "n_conversations"])
    order = list(dict.fromkeys(systems["system"]))
    looks = style.looks(name for name in order if not name.startswith("random order"))
    kinds = list(systems.groupby("kind", sort=False))
    drawing, axes = style.figure(0.9 + 0.26 * len(order), 1, len(kinds), sharey=True)
    for panel, (kind, rows) in zip(axes[0], kinds, strict=True):
        estimates = rows.set_index("system")
        for row, name in enumerate(order):
            if name in estimates.index:
                look = looks.get(name, _FLOOR)
                style.estimate(panel, row, estimates.loc[name], look, markersize=1.2 * look.size, mew=1.2)
        panel.set(title=kind, xlabel=str(systems["measure"].iloc[0]), xlim=(0, 1))
        panel.grid(axis="x")
    style.name_rows(axes, style.labels(order, 34))
    return drawing
