"""What happens at shifts, by type: uptake, release and retention, and the share recovered."""

from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, means, recovered_by, require, systems_of

PARTS = ("uptake", "release", "retention")
ALL_TYPES = "all types"
_TYPES = 6  # types of shift whose intervals fit side by side in small print


@figure(title="Recovery by type of shift")
def _adaptation_profile(shifts: pd.DataFrame) -> Any:
    """Share of shifts recovered: systems by shift types, each cell with its interval.

    Caption: Share of shifts recovered ({recovered}) within the window of the convention, by system and type
        of shift, with Wilson 95 % intervals ({shifts} shifts in n = {sessions} sessions per system).
    Note: Share recovered with Wilson 95 % interval; n: shifts per system, in {sessions} sessions.
    """
    table = recovered_by_type(shifts, recovered_by(shifts)).astype({"type": str})
    order = systems_of(shifts)
    types = list(table["type"].unique())
    cells = pd.MultiIndex.from_product([order, types])
    ends = table.set_index(["model", "type"])[["share", "low", "high"]]
    shape = len(order), len(types), 3
    values = ends.reindex(cells).to_numpy().reshape(shape)
    texts = np.apply_along_axis(_with_interval, 2, values)
    fontsize = style.SMALL * min(1.0, _TYPES / len(types))
    drawing, panel = style.single(max(2.2, 1.15 + 0.4 * len(order)))
    small = {"fontsize": fontsize, "linespacing": 1.1}
    colours = style.cells(panel, values[..., 0], texts, alpha=1.0, linewidths=1.5, annot_kws=small)
    panel.set_xticklabels(_heads(table, types), fontsize=fontsize)
    panel.set_yticklabels(style.labels(order), rotation=0)
    panel.set_xlabel("type of shift")
    panel.set_ylabel("")
    style.scale(drawing, colours, panel, "share recovered", fraction=0.04)
    return drawing


def _with_interval(ends: Any) -> str:
    share, low, high = ends
    return f"{share:.2f}\n[{low:.2f}, {high:.2f}]"


def _heads(table: pd.DataFrame, types: list[str]) -> list[str]:
    """The types of shift, each with the number of shifts of a system."""
    sizes = table.groupby("type")["n"].agg(["min", "max"])
    heads = []
    for name in types:
        least, most = sizes.loc[name]
        n = f"{least}" if least == most else f"{least}–{most}"
        heads.append(f"{name or 'unnamed'}\nn = {n}")
    return heads


def recovered_by_type(shifts: pd.DataFrame, kind: str = "item") -> pd.DataFrame:
    """Share of shifts recovered in [0, 1] by model and type, with Wilson's 95 % interval and n; a row a cell.

    The most frequent type comes first; shifts count as independent. Source: Wilson (1927), JASA 22;
    statsmodels.
    """
    from statsmodels.stats.proportion import proportion_confint

    column = f"recovered_{kind}"
    require(shifts, ["session_id", "type", column])
    sizes = shifts["type"].value_counts()
    types = sorted(sizes.index, key=lambda name: (-int(sizes[name]), str(name)))
    recovered = shifts.groupby(["model", "type"], sort=False)[column]
    counts = recovered.agg(["sum", "size"]).astype(int)
    order = pd.MultiIndex.from_product([systems_of(shifts), types], names=["model", "type"])
    counts = counts.loc[order[order.isin(counts.index)]]
    n = counts["size"]
    low, high = proportion_confint(counts["sum"], n, method="wilson")
    table = pd.DataFrame({"share": counts["sum"] / n})
    table["low"] = low.clip(0.0)
    table["high"] = high.clip(upper=1.0)
    table["n"] = n
    return table.reset_index()


@figure(title="Uptake, release and retention by type of shift")
def _shift_profile(turns: pd.DataFrame, shifts: pd.DataFrame) -> Any:
    """Uptake, release and retention: a panel each, types of shift down, systems as points with intervals.

    Caption: Uptake of added constraints, release of dropped or excluded ones, and retention of the others, by
        system and type of shift: means over the first three replies with 95 % intervals (n = {sessions}
        scenarios).
    Note: 1: as good as the best list; 0, for uptake and retention: chance. Mean over replies 0 to 2 after a
        shift; lines: 95 % intervals over n = {sessions} scenarios.
    """
    table = profile(turns, shifts)
    order = systems_of(turns)
    types = [ALL_TYPES, *sorted(set(table["type"]) - {ALL_TYPES})]
    drawing, axes = style.figure(0.9 + 0.62 * len(types), 1, 3, sharey=True)
    for panel, part in zip(axes[0], PARTS, strict=True):
        rows = table[table["part"] == part]
        for height, kind in enumerate(types):
            ends = rows[rows["type"] == kind].set_index("model")[["mean", "low", "high"]]
            style.dots(panel, height, order, ends.to_dict("index"))
        panel.set_xlabel(style.titled(part))
        style.zero(panel)
        panel.grid(True, axis="x")
    first = axes[0][0]
    first.set_ylim(len(types) - 0.5, -0.5)
    first.set_yticks(range(len(types)), style.labels(types))
    first.set_ylabel("type of shift")
    style.legend(drawing, order, lines=False)
    return drawing


def profile(turns: pd.DataFrame, shifts: pd.DataFrame) -> pd.DataFrame:
    """Mean uptake, release and retention by system and type of shift, with 95 % intervals; a row a cell."""
    require(turns, ["session_id", "turn", "since_shift", *PARTS])
    replies = turns[turns["since_shift"].notna()]
    replies = replies.assign(shift=replies["turn"] - replies["since_shift"].astype(int))
    kinds = shifts[["model", "session_id", "turn", "type"]].rename(columns={"turn": "shift"})
    typed = replies.merge(kinds, on=["model", "session_id", "shift"])
    rows = pd.concat([typed, typed.assign(type=ALL_TYPES)], ignore_index=True)
    tables = []
    for part in PARTS:
        defined = rows[rows[part].notna()]
        if len(defined):
            tables.append(means(defined, ["model", "type"], part).assign(part=part))
    if not tables:
        raise NoDataError("no reply after a shift has an uptake, release or retention")
    return pd.concat(tables)
