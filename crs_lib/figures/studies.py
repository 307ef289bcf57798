"""Figures of the other studies: CoSRec's ratings, judgments and systems, and the evidence of RealTalk."""

from typing import Any

import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import figure, filled
from crs_lib.metrics import evidence

_FLOOR = style.Look(style.FAINT, "|", "-")  # what no system stands for: random orders
_BARS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_HATCHES = ("", "///", "...", "xx")


@figure(
    "cosrec",
    "Conversations by average rating over annotators and aspects, in bins of one half named by their "
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


@figure(
    "cosrec",
    "Conversations by their mean rating of each aspect, rounded half to even (n = {n_conversations} "
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


@figure(
    "cosrec",
    "Intents by the number of their judged documents of each grade, the user variants of a "
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


@figure(
    "cosrec",
    "Mean score of each system by kind of topic with 95 % intervals (up to n = {n_topics} topics of "
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
                look = looks.get(name, _FLOOR)
                style.estimate(panel, place, part.loc[name], look, markersize=1.2 * look.size, mew=1.2)
        panel.set(title=kind, xlabel=str(systems["measure"].iloc[0]), xlim=(0, 1))
        panel.grid(axis="x")
    style.name_rows(made, axes, style.labels(order, 34))
    topics, talks = int(systems["n_topics"].max()), int(systems["n_conversations"].max())
    style.note(
        made,
        "Grey: random order of the judged pool or the whole collection; lines: 95 % intervals; "
        f"up to n = {topics} topics of {talks} conversations.",
    )
    return made


# Along the pipeline; light to dark, so that the order is read in grey as well.
_FILLS = ("#F0F0F0", "#F6D8A8", "#E8A066", "#C65D3B", "#003B5C")


@figure(
    "realtalk",
    "Annotated evidence that is kept or lost at each step of the pipeline, by category of the "
    "question "
    "(n = {n_ids} annotated ids).",
)
def realtalk_losses(attribution: pd.DataFrame) -> Any:
    """Stacked bars: the share of the annotated ids that ends in each bucket, for all and by category."""
    filled(attribution, ["by", "group", "ids", *evidence.BUCKETS])
    table = attribution[attribution["by"].isin(["all", "category"])]
    made, axes = style.figure(1.2 + 0.34 * len(table))
    panel = axes[0][0]
    kinds = ["all" if row.by == "all" else f"category {row.group}" for row in table.itertuples()]
    names = [f"{kind}, {ids:,} ids" for kind, ids in zip(kinds, table["ids"], strict=True)]
    left = pd.Series(0.0, index=table.index)
    for bucket, fill in zip(evidence.BUCKETS, _FILLS, strict=True):
        share = table[bucket] / table["ids"].clip(lower=1)
        look = {"color": fill, "edgecolor": "white", "label": bucket}
        bars = panel.barh(range(len(table)), share, left=left, height=0.72, **look)
        texts = [f"{100 * value:.0f}" if value >= 0.04 else "" for value in share]
        ink = "white" if fill in _FILLS[3:] else style.INK
        panel.bar_label(bars, texts, label_type="center", fontsize=style.SMALL, color=ink)
        left += share
    panel.set(xlabel="share of annotated ids, %", xlim=(0, 1))
    panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    style.name_rows(made, axes, names, "question")
    made.legend(loc="outside upper center", ncols=3)
    style.note(
        made,
        f"Unresolvable: the annotation names no message of the chat; n = {int(table['ids'].max()):,} "
        f"annotated ids.",
    )
    return made


@figure(
    "realtalk",
    "Measures of the ranking and of the final set of evidence: means over n = {n_questions} "
    "questions "
    "with 95 % bootstrap intervals, over questions and over whole chats.",
)
def realtalk_measures(intervals: pd.DataFrame) -> Any:
    """Points with both intervals: exact measures of ranking and of the final sets."""
    filled(intervals, ["measure", "mean", "low", "high", "chats_low", "chats_high", "n_questions"])
    made, axes = style.figure(2.6)
    panel = axes[0][0]
    sets = ("recall", "precision", "f1")
    for place, row in enumerate(intervals.itertuples()):
        panel.plot([place] * 2, [row.chats_low, row.chats_high], color=style.FAINT, linewidth=0.9)
        panel.plot([place] * 2, [row.low, row.high], color="#0072B2", linewidth=3, alpha=0.6)
        panel.plot(place, row.mean, "s" if row.measure in sets else "o", color="#0072B2", markersize=5)
        look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": style.SMALL}
        panel.annotate(f"{row.mean:.2f}", (place, row.mean), (5, 0), **look)
    first = next((place for place, name in enumerate(intervals["measure"]) if name in sets), len(intervals))
    panel.axvline(first - 0.5, color=style.FAINT, linewidth=0.6)
    panel.set_xticks(range(len(intervals)), [str(name) for name in intervals["measure"]])
    panel.set(ylabel="mean over questions", xlabel="measure", ylim=(0, 1), xlim=(-0.5, len(intervals) - 0.3))
    panel.grid(axis="y")
    words = (
        "Left of the line: the ranking; right: the final set. Thick: 95 % interval over questions; "
        "thin: over chats"
    )
    style.note(made, f"{words}; n = {int(intervals['n_questions'].max())} questions.")
    return made
