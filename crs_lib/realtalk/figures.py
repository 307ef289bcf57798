"""RealTalk's figure: where along the pipeline the annotated evidence is lost."""

from typing import Any

import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import figure, with_rows
from crs_lib.metrics import evidence

# Along the pipeline; light to dark, so that the order is read in grey as well.
_FILLS = ("#F0F0F0", "#F6D8A8", "#E8A066", "#C65D3B", "#003B5C")
_DARK = _FILLS[3:]
_LEAST = 0.04  # of a bar, that a number fits into


@figure(study="realtalk")
def _realtalk_losses(attribution: pd.DataFrame) -> Any:
    """Stacked bars: the share of the annotated ids that ends in each bucket, for all and by category.

    Caption: Annotated evidence that is kept or lost at each step of the pipeline, by category of the question
        (n = {n_ids} annotated ids).
    """
    with_rows(attribution, ["by", "group", "ids", *evidence.BUCKETS])
    table = attribution[attribution["by"].isin(["all", "category"])]
    drawing, panel = style.single(1.2 + 0.34 * len(table))
    left = pd.Series(0.0, index=table.index)
    for bucket, fill in zip(evidence.BUCKETS, _FILLS, strict=True):
        share = table[bucket] / table["ids"].clip(lower=1)
        look = {"color": fill, "edgecolor": "white", "label": bucket}
        bars = panel.barh(range(len(table)), share, left=left, height=0.72, **look)
        texts = [f"{100 * value:.0f}" if value >= _LEAST else "" for value in share]
        ink = "white" if fill in _DARK else style.INK
        panel.bar_label(bars, texts, label_type="center", fontsize=style.SMALL, color=ink)
        left += share
    panel.set(xlabel="share of annotated ids, %", xlim=(0, 1))
    panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}")
    style.name_rows([panel], _names(table))
    drawing.legend(loc="outside upper center", ncols=3)
    n = f"n = {int(table['ids'].max()):,} annotated ids"
    style.note(drawing, f"Unresolvable: the annotation names no message of the chat; {n}.")
    return drawing


def _names(table: pd.DataFrame) -> list[str]:
    names = []
    for row in table.itertuples():
        kind = "all" if row.by == "all" else f"category {row.group}"
        names.append(f"{kind}, {row.ids:,} ids")
    return names
