"""Figures of the RealTalk study: the evidence that is found, and the steps that lose the rest."""

from typing import Any

import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, filled
from crs_lib.metrics import evidence

# Along the pipeline; light to dark, so that the order is read in grey as well.
_FILLS = ("#F0F0F0", "#F6D8A8", "#E8A066", "#C65D3B", "#003B5C")


@FIGURES.register(
    "realtalk_losses",
    study="realtalk",
    tables=("attribution",),
    caption="Annotated evidence that is kept or lost at each step of the pipeline, by category of the "
    "question "
    "(n = {n_ids} annotated ids).",
)
def realtalk_losses(attribution: pd.DataFrame) -> Any:
    """Stacked bars: the share of the annotated ids that ends in each bucket, for all and by category."""
    filled(attribution, ["by", "group", "ids", *evidence.BUCKETS])
    table = attribution[attribution["by"].isin(["all", "category"])]
    made, axes = style.figure(1.2 + 0.34 * len(table))
    panel = axes[0][0]
    names = [
        f"{'all' if row.by == 'all' else f'category {row.group}'}, {row.ids:,} ids"
        for row in table.itertuples()
    ]
    left = pd.Series(0.0, index=table.index)
    for bucket, fill in zip(evidence.BUCKETS, _FILLS, strict=True):
        share = table[bucket] / table["ids"].clip(lower=1)
        bars = panel.barh(
            range(len(table)), share, left=left, height=0.72, color=fill, edgecolor="white", label=bucket
        )
        texts = [f"{100 * value:.0f}" if value >= 0.04 else "" for value in share]
        ink = "white" if fill in _FILLS[3:] else style.INK
        panel.bar_label(bars, texts, label_type="center", fontsize=style.SMALL, color=ink)
        left += share
    panel.set_yticks(range(len(table)), names)
    panel.set(xlabel="share of annotated ids, %", xlim=(0, 1), ylim=(len(table) - 0.4, -0.6))
    panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    panel.tick_params(axis="y", length=0)
    made.supylabel("question")
    made.legend(loc="outside upper center", ncols=3)
    style.note(
        made,
        f"Unresolvable: the annotation names no message of the chat; n = {int(table['ids'].max()):,} "
        f"annotated ids.",
    )
    return made


@FIGURES.register(
    "realtalk_measures",
    study="realtalk",
    tables=("intervals",),
    caption="Measures of the ranking and of the final set of evidence: means over n = {n_questions} "
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
        panel.annotate(
            f"{row.mean:.2f}", (place, row.mean), (5, 0), textcoords="offset points", va="center",
            fontsize=style.SMALL,
        )  # fmt: skip
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
