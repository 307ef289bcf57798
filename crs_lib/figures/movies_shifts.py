"""Recovery by type of shift, and the concepts that replies miss and add."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, NoDataError, recovered_by, require, systems_of
from crs_lib.stats import Design, bootstrap_estimates

_TYPES = 6  # types of shift whose intervals fit side by side in small print


@FIGURES.register(
    "adaptation_profile",
    title="Recovery by type of shift",
    place=17,
    study="movies",
    tables=("shifts",),
    caption="Share of shifts recovered ({recovered}) within the window of the convention, by system and type "
    "of shift, with Wilson 95 % intervals ({shifts} shifts in n = {sessions} sessions per system).",
)
def adaptation_profile(shifts: pd.DataFrame, *, kind: str = "") -> Any:
    """Share of shifts recovered: systems by shift types, each cell with its interval."""
    kind = kind or recovered_by(shifts)
    import matplotlib

    table = recovered_by_type(shifts, kind)
    order = systems_of(shifts)
    types = [str(name) for name in dict.fromkeys(table["type"])]
    made, axes = style.figure(max(2.2, 1.15 + 0.4 * len(order)))
    panel = axes[0][0]
    values = np.full((len(order), len(types)), np.nan)
    size = style.SMALL * min(1.0, _TYPES / len(types))
    for row in table.itertuples():
        i, j = order.index(str(row.model)), types.index(str(row.type))
        values[i, j] = row.share
        text = f"{row.share:.2f}\n[{row.low:.2f}, {row.high:.2f}]"
        colour = "white" if row.share > 0.55 else style.INK
        panel.text(j, i, text, ha="center", va="center", color=colour, fontsize=size, linespacing=1.1)
    blues = matplotlib.colormaps["Blues"]
    image = panel.imshow(np.ma.masked_invalid(values), cmap=blues, vmin=0, vmax=1, aspect="auto")
    sizes = table.groupby("type")["n"].agg(["min", "max"])
    heads = [
        f"{name or 'unnamed'}\nn = {low}" + (f"–{high}" if high != low else "")
        for name, (low, high) in ((name, sizes.loc[name]) for name in types)
    ]
    panel.set_xticks(range(len(types)), heads, fontsize=size)
    panel.set_yticks(range(len(order)), style.labels(order))
    panel.set_xticks(np.arange(len(types) + 1) - 0.5, minor=True)
    panel.set_yticks(np.arange(len(order) + 1) - 0.5, minor=True)
    panel.grid(which="minor", color="white", linewidth=1.5)
    panel.tick_params(which="both", length=0)
    panel.spines[:].set_visible(False)
    panel.set(xlabel="type of shift", ylabel="system")
    made.colorbar(image, ax=panel, label="share recovered", fraction=0.04, pad=0.02)
    n = shifts["session_id"].nunique()
    style.note(made, f"Share recovered with Wilson 95 % interval; n: shifts per system, in {n} sessions.")
    return made


def recovered_by_type(shifts: pd.DataFrame, kind: str = "item") -> pd.DataFrame:
    """Share of shifts recovered in [0, 1] by model and type, Wilson's 95 % interval and n; a row a cell.

    Types come most frequent first. Shifts count as independent: a session rarely has two of one type.
    Source: Wilson (1927), JASA 22; the interval is statsmodels' proportion_confint.
    """
    from statsmodels.stats.proportion import proportion_confint

    column = f"recovered_{kind}"
    require(shifts, ["session_id", "type", column])
    sizes = shifts["type"].value_counts()
    types = sorted(sizes.index, key=lambda name: (-int(sizes[name]), str(name)))
    cells = shifts.groupby(["model", "type"], sort=False)[column].agg(["sum", "size"])
    rows = []
    for model in systems_of(shifts):
        for name in types:
            if (model, name) in cells.index:
                hits, n = (int(value) for value in cells.loc[(model, name)])
                low, high = proportion_confint(hits, n, method="wilson")
                ends = {"low": max(0.0, float(low)), "high": min(1.0, float(high))}
                rows.append({"model": model, "type": name, "share": hits / n, **ends, "n": n})
    return pd.DataFrame(rows)


@FIGURES.register(
    "concept_top",
    title="Concepts missing and added, by system",
    place=18,
    study="movies",
    tables=("turns",),
    caption="Concepts that the replies of a system most often leave out of the utterance (missing) and name "
    "beyond it (added): share of turns with 95 % intervals (n = {sessions} sessions per system, resampled).",
)
def concept_top(turns: pd.DataFrame, *, top: int = 3) -> Any:
    """The concepts that each system most often leaves out and most often adds, as shares of its turns."""
    require(turns, ["session_id", "missing_concepts", "hallucinated_concepts"])
    order = systems_of(turns)
    tables = {
        (name, column): concept_shares(turns[turns["model"] == name], column, top)
        for name in order
        for column in _SIDES.values()
    }
    if all(table.empty for table in tables.values()):
        raise NoDataError("no concept is missing or added in any turn")
    made, axes = style.figure(0.75 + len(order) * (0.22 + 0.17 * top), len(order), 2, sharex="col")
    looks, names = style.looks(order), dict(zip(order, style.labels(order, 34), strict=True))
    for panels, name in zip(axes, order, strict=True):
        for panel, column in zip(panels, _SIDES.values(), strict=True):
            _concept_bars(panel, tables[name, column], looks[name].colour, top)
        panels[0].set_title(names[name], loc="left", fontweight="bold")
    for panel, title in zip(axes[-1], _SIDES, strict=True):
        panel.set_xlabel(f"{title}: share of the turns")
        panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        panel.locator_params(axis="x", nbins=5)
        panel.set_xlim(left=0)
    made.supylabel("concept")
    n = turns["session_id"].nunique()
    style.note(
        made,
        f"Facts about a recommended film count as added; lines: 95 % intervals; n = {n} sessions per system.",
    )
    return made


_SIDES = {"missing": "missing_concepts", "added": "hallucinated_concepts"}


def _concept_bars(panel: Any, table: pd.DataFrame, colour: str, rows: int) -> None:
    """The shares of a system's first concepts with their intervals; "none" where there is no concept."""
    for place, row in enumerate(table.itertuples()):
        panel.barh(place, row.share, height=0.7, color=colour, alpha=0.75)
        style.interval(panel, place, row.low, row.high, style.INK, linewidth=1.0)
    if table.empty:
        panel.text(0, 0, " none", va="center", color=style.FAINT)
    panel.set_yticks(range(len(table)), style.labels(list(table["concept"]), 26))
    panel.set(ylim=(rows - 0.4, -0.6))
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")


def concept_shares(turns: pd.DataFrame, column: str, top: int, *, seed: int = 0) -> pd.DataFrame:
    """The ``top`` concepts of a list column by the share of turns in [0, 1] that hold them, with intervals.

    Most frequent first, equal ones by name; sessions are resampled with all their systems.
    """
    totals = Counter(concept for found in turns[column] for concept in _set(found))
    best = sorted(totals, key=lambda name: (-totals[name], name))[:top]
    if not best:
        return pd.DataFrame(columns=["concept", "share", "low", "high", "n"])
    place = {name: number for number, name in enumerate(best)}
    sessions, owner = np.unique(turns["session_id"].astype(str), return_inverse=True)
    sums = np.zeros((len(sessions), len(best) + 1))
    for row, found in zip(owner, turns[column], strict=True):
        sums[row, -1] += 1
        for concept in _set(found):
            if concept in place:
                sums[row, place[concept]] += 1
    draws = bootstrap_estimates(
        lambda w: (w @ sums)[:, :-1] / (w @ sums)[:, -1:], len(sessions), Design(seed=seed)
    )
    table = pd.DataFrame({"concept": best, "share": draws.estimate, "low": draws.low, "high": draws.high})
    return table.assign(n=[totals[name] for name in best])


def _set(found: Iterable[str] | None) -> set[str]:
    return set() if found is None else {str(concept) for concept in found}
