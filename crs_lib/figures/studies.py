"""Figures of the other studies: CoSRec's ratings, judgments and systems, and the evidence of RealTalk."""

from typing import Any

import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import figure, filled
from crs_lib.metrics import evidence

_FLOOR = style.Look(style.FAINT, "|", "-")  # what no system stands for: random orders
_BARS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_HATCHES = ("", "///", "...", "xx")


@figure()
def _cosrec_average_ratings(average_ratings: pd.DataFrame) -> Any:
    """Bars: conversations by average rating."""
    filled(average_ratings, ["from", "conversations", "n_conversations"])
    made, panel = style.single(2.5)
    at = range(len(average_ratings))
    bars = panel.bar(at, average_ratings["conversations"], width=0.9, color=_BARS[0], alpha=0.85)
    panel.bar_label(bars, fontsize=style.SMALL)
    panel.margins(y=0.15)
    panel.set_xticks(at, [str(name) for name in average_ratings["from"]])
    panel.set(xlabel="average rating, from", ylabel="conversations")
    return made


@figure()
def _cosrec_aspect_ratings(aspect_ratings: pd.DataFrame) -> Any:
    """Grouped bars: conversations by mean rating, a colour and hatch for each aspect."""
    filled(aspect_ratings, ["rating", "aspect", "conversations", "n_conversations"])
    made, panel = _grouped(2.7, aspect_ratings, "rating", "aspect", "conversations")
    panel.set(xlabel="mean rating, rounded", ylabel="conversations")
    return made


@figure()
def _cosrec_judgments(judgments: pd.DataFrame) -> Any:
    """Grouped bars: intents by number of judgments, a colour and hatch for each grade."""
    filled(judgments, ["judgments", "grade", "intents", "n_intents"])
    made, panel = _grouped(2.9, judgments, "judgments", "grade", "intents")
    panel.set(xlabel="judged documents", ylabel="intents")
    panel.tick_params(axis="x", labelrotation=40)
    return made


def _grouped(height: float, table: pd.DataFrame, x: str, hue: str, y: str) -> tuple[Any, Any]:
    """Bars side by side, distinguished by colour and hatch, with a legend above the figure."""
    import seaborn as sns

    made, panel = style.single(height)
    names = list(dict.fromkeys(table[hue]))
    colours = dict(zip(names, _BARS, strict=False))
    text = table.astype({x: str})
    sns.barplot(text, x=x, y=y, hue=hue, palette=colours, saturation=1, errorbar=None, legend=False, ax=panel)
    for bars, hatch in zip(panel.containers, _HATCHES, strict=False):
        for bar in bars:
            bar.set(hatch=hatch, edgecolor="white", linewidth=0.3)
    made.legend(panel.containers, names, loc="outside upper center", ncols=len(names))
    panel.grid(axis="y")
    return made, panel


@figure()
def _cosrec_systems(systems: pd.DataFrame) -> Any:
    """Points with intervals: systems by the mean of the main measure, a panel for each kind of topic."""
    filled(systems, ["system", "kind", "measure", "mean", "low", "high", "n_topics", "n_conversations"])
    kinds, order = (list(dict.fromkeys(systems[column])) for column in ("kind", "system"))
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
    return made


# Along the pipeline; light to dark, so that the order is read in grey as well.
_FILLS = ("#F0F0F0", "#F6D8A8", "#E8A066", "#C65D3B", "#003B5C")


@figure()
def _realtalk_losses(attribution: pd.DataFrame) -> Any:
    """Stacked bars: the share of the annotated ids that ends in each bucket, for all and by category."""
    filled(attribution, ["by", "group", "ids", *evidence.BUCKETS])
    table = attribution[attribution["by"].isin(["all", "category"])]
    made, panel = style.single(1.2 + 0.34 * len(table))
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
    style.name_rows(made, [panel], names, "question")
    made.legend(loc="outside upper center", ncols=3)
    n = f"n = {int(table['ids'].max()):,} annotated ids"
    style.note(made, f"Unresolvable: the annotation names no message of the chat; {n}.")
    return made
