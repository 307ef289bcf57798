"""Figures of the CoSRec study: how its conversations were rated and judged, and how systems serve them."""

from typing import Any

import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, filled

_FLOOR = style.Look(style.FAINT, "|", "-")  # what no system stands for: random orders
_BARS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_HATCHES = ("", "///", "...", "xx")


@FIGURES.register(
    "cosrec_average_ratings",
    study="cosrec",
    tables=("average_ratings",),
    caption="Conversations by average rating over annotators and aspects, in bins of one half named by their "
    "lower end (n = {n_conversations} rated conversations).",
)
def cosrec_average_ratings(average_ratings: pd.DataFrame) -> Any:
    """Bars: conversations by average rating."""
    filled(average_ratings, ["from", "conversations", "n_conversations"])
    made, axes = style.figure(2.5)
    panel = axes[0][0]
    at = range(len(average_ratings))
    bars = panel.bar(at, average_ratings["conversations"], width=0.9, color=_BARS[0], alpha=0.85)
    panel.bar_label(bars, fontsize=style.SMALL)
    panel.margins(y=0.15)
    panel.set_xticks(at, [str(name) for name in average_ratings["from"]])
    panel.set(xlabel="average rating, from", ylabel="conversations")
    style.note(made, f"n = {int(average_ratings['n_conversations'].max())} conversations.")
    return made


@FIGURES.register(
    "cosrec_aspect_ratings",
    study="cosrec",
    tables=("aspect_ratings",),
    caption="Conversations by their mean rating of each aspect, rounded half to even (n = {n_conversations} "
    "rated conversations).",
)
def cosrec_aspect_ratings(aspect_ratings: pd.DataFrame) -> Any:
    """Grouped bars: conversations by mean rating, a colour and hatch for each aspect."""
    filled(aspect_ratings, ["rating", "aspect", "conversations", "n_conversations"])
    made, axes = style.figure(2.7)
    _grouped(made, axes[0][0], aspect_ratings, "rating", "aspect", "conversations")
    axes[0][0].set(xlabel="mean rating, rounded", ylabel="conversations")
    style.note(made, f"n = {int(aspect_ratings['n_conversations'].max())} conversations.")
    return made


@FIGURES.register(
    "cosrec_judgments",
    study="cosrec",
    tables=("judgments",),
    caption="Intents by the number of their judged documents of each grade, the user variants of a "
    "recommendation pooled (n = {n_intents} judged intents).",
)
def cosrec_judgments(judgments: pd.DataFrame) -> Any:
    """Grouped bars: intents by number of judgments, a colour and hatch for each grade."""
    filled(judgments, ["judgments", "grade", "intents", "n_intents"])
    made, axes = style.figure(2.9)
    _grouped(made, axes[0][0], judgments, "judgments", "grade", "intents")
    axes[0][0].set(xlabel="judged documents", ylabel="intents")
    axes[0][0].tick_params(axis="x", labelrotation=40)
    style.note(made, f"n = {int(judgments['n_intents'].max())} intents.")
    return made


def _grouped(made: Any, panel: Any, table: pd.DataFrame, x: str, hue: str, y: str) -> None:
    """Bars side by side, distinguished by colour and hatch, with a legend above the figure."""
    import seaborn as sns

    names = list(dict.fromkeys(table[hue]))
    colours = dict(zip(names, _BARS, strict=False))
    text = table.assign(**{x: table[x].astype(str)})
    sns.barplot(text, x=x, y=y, hue=hue, palette=colours, saturation=1, errorbar=None, legend=False, ax=panel)
    for bars, hatch in zip(panel.containers, _HATCHES, strict=False):
        for bar in bars:
            bar.set(hatch=hatch, edgecolor="white", linewidth=0.3)
    made.legend(panel.containers, names, loc="outside upper center", ncols=len(names))
    panel.grid(axis="y")


@FIGURES.register(
    "cosrec_systems",
    study="cosrec",
    tables=("systems",),
    caption="Mean score of each system by kind of topic with 95 % intervals (up to n = {n_topics} topics of "
    "{n_conversations} conversations, which are resampled).",
)
def cosrec_systems(systems: pd.DataFrame) -> Any:
    """Points with intervals: systems by the mean of the main measure, a panel for each kind of topic."""
    filled(systems, ["system", "kind", "measure", "mean", "low", "high", "n_topics", "n_conversations"])
    kinds = list(dict.fromkeys(systems["kind"]))
    order = list(dict.fromkeys(systems["system"]))
    looks = style.looks(name for name in order if not name.startswith("random order"))
    made, axes = style.figure(0.9 + 0.26 * len(order), 1, len(kinds), sharey=True)
    for panel, kind in zip(axes[0], kinds, strict=True):
        part = systems[systems["kind"] == kind].set_index("system")
        for place, name in enumerate(order):
            if name in part.index:
                row, look = part.loc[name], looks.get(name, _FLOOR)
                style.interval(panel, place, row["low"], row["high"], look.colour, caps=0.2)
                panel.plot(row["mean"], place, look.marker, color=look.colour, ms=1.2 * look.size, mew=1.2)
        panel.set(title=kind, xlabel=str(systems["measure"].iloc[0]), xlim=(0, 1))
        panel.grid(axis="x")
        panel.tick_params(axis="y", length=0)
    axes[0][0].set_yticks(range(len(order)), style.labels(order, 34))
    axes[0][0].set_ylim(len(order) - 0.4, -0.6)
    made.supylabel("system")
    topics, talks = int(systems["n_topics"].max()), int(systems["n_conversations"].max())
    style.note(
        made,
        "Grey: random order of the judged pool or the whole collection; lines: 95 % intervals; "
        f"up to n = {topics} topics of {talks} conversations.",
    )
    return made
