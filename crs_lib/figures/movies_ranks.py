"""The critical-difference diagram: mean ranks, and what the ranks cannot tell apart."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, require
from crs_lib.figures.movies_pairs import complete
from crs_lib.metrics import base
from crs_lib.stats import friedman, mean_ranks

_STEP = 0.45  # height of a bar, in lines of text


@FIGURES.register(
    "critical_difference",
    study="movies",
    tables=("results",),
    caption="Critical-difference diagram of item TAS: mean rank of each system over {sessions} scenarios, 1 "
    "is best. Systems joined by a bar are not told apart by Nemenyi's test at the 5 % level.",
)
def critical_difference(results: pd.DataFrame, *, metric: str = "item_tas") -> Any:
    """Mean ranks on a line; bars join systems that Nemenyi's test does not tell apart."""
    facts = base.get(metric)
    require(results, ["session_id", facts.name], systems=2, sessions=2)
    frame = complete(results, facts.name)
    at: dict[str, Any] = {"system": "model", "scenario": "session_id", "value": facts.name}
    table = mean_ranks(frame, **at, higher_is_better=facts.direction != base.LOWER)
    ranks, gap = table["mean_rank"].to_numpy(dtype=float), float(table["critical_difference"].iloc[0])
    bars = cliques(ranks, gap)
    half, top = -(-len(ranks) // 2), 1.0 + _STEP * len(bars)
    made, axes = style.figure(1.1 + 0.2 * half + 0.1 * len(bars))
    panel = axes[0][0]
    panel.plot([1, len(ranks)], [0, 0], color=style.FAINT, linewidth=0.8, zorder=0)
    for place, (first, last) in enumerate(bars):
        height = 0.55 + _STEP * place
        panel.plot([ranks[first] - 0.04, ranks[last] + 0.04], [height] * 2, color=style.INK, linewidth=3)
    _names(panel, list(table["system"]), ranks, top)
    panel.plot([1, 1 + gap], [-1.2, -1.2], color=style.INK, linewidth=1.5, marker="|", mew=1.5)
    at_end: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": style.SMALL}
    panel.annotate(f"critical difference {gap:.2f}", (1 + gap, -1.2), (6, 0), **at_end)
    edge = 0.03 * len(ranks)
    panel.set(xlim=(1 - edge, len(ranks) + edge), ylim=(top + half - 0.5, -1.8))
    panel.set(xlabel="mean rank (1 is best)", xticks=range(1, len(ranks) + 1), yticks=[])
    panel.xaxis.set_label_position("top")
    panel.xaxis.tick_top()
    panel.spines[:].set_visible(False)
    w = float(friedman(frame, **at)["kendall_w"].iloc[0])
    words = f"{facts.short}, n = {frame['session_id'].nunique()} scenarios; bars join systems not told apart"
    style.note(made, f"{words} (Nemenyi, 5 %); Kendall's W = {w:.2f}.")
    return made


def _names(panel: Any, systems: Sequence[str], ranks: NDArray[np.float64], top: float) -> None:
    """Each system's name and rank at the nearer side, led to its place on the line."""
    half = -(-len(ranks) // 2)
    edge = 0.03 * len(ranks)
    names, looks = style.labels(systems), style.looks(systems)
    for place, (look, rank) in enumerate(zip(looks.values(), ranks, strict=True)):
        left = place < half
        height = top + (place if left else len(ranks) - 1 - place)
        end = 1 - edge if left else len(ranks) + edge
        panel.plot([rank, rank, end], [0, height, height], color=look.colour, linewidth=1)
        panel.plot(rank, 0, look.marker, color=look.colour, markersize=look.size, zorder=5)
        text = f"{names[place]}  {rank:.2f}" if left else f"{rank:.2f}  {names[place]}"
        side: dict[str, Any] = {"ha": "right" if left else "left", "va": "center", "fontsize": style.SMALL}
        panel.annotate(text, (end, height), (-4 if left else 4, 0), textcoords="offset points", **side)


def cliques(ranks: NDArray[np.float64], gap: float) -> list[tuple[int, int]]:
    """The largest runs (first, last) of sorted mean ranks that span less than the critical difference."""
    ends = [int(np.searchsorted(ranks, low + gap, "left")) - 1 for low in ranks]
    return [(i, end) for i, end in enumerate(ends) if end > i and not any(ends[j] >= end for j in range(i))]
