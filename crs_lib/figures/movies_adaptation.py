"""Ability and adaptation: gain without history against the cost of history, and what happens at shifts."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, NoDataError, means, require, systems_of

_PARTS = ("uptake", "release", "retention")


class Region(NamedTuple):
    """The mean of two quantities over scenarios, and the outline of its 95 % region, a row a point."""

    mean: NDArray[np.float64]
    outline: NDArray[np.float64]
    n: int


def region(values: NDArray[np.float64], level: float = 0.95) -> Region:
    """The mean of the rows of two columns and the ellipse that holds the true mean, by Hotelling's T².

    ``values`` has a row a scenario, n >= 3. A column without spread gives a line or a point.
    Source: Hotelling (1931), Annals of Mathematical Statistics 2: (n−1)·2/(n−2)·F(2, n−2).
    """
    from scipy import stats

    n = len(values)
    scale = 2 * (n - 1) / (n - 2) * stats.f.ppf(level, 2, n - 2) / n
    spread, axes = np.linalg.eigh(np.cov(values, rowvar=False))
    angles = np.linspace(0, 2 * np.pi, 97)
    circle = np.column_stack([np.cos(angles), np.sin(angles)]) * np.sqrt(np.clip(spread, 0, None) * scale)
    middle = values.mean(axis=0)
    return Region(middle, middle + circle @ axes.T, n)


def by_scenario(shifts: pd.DataFrame, system: str, columns: list[str]) -> pd.DataFrame:
    """The means of columns over a system's shifts, a row a scenario that defines all of them."""
    mine = shifts[shifts["model"] == system].astype(dict.fromkeys(columns, float))
    return mine.groupby("session_id", sort=True)[columns].mean().dropna()


@FIGURES.register(
    "ability_adaptation",
    title="Ability and adaptation",
    study="movies",
    tables=("shifts",),
    place=0,
    caption="Cost of history at shifts against ability, the normalised gain for fresh users (left), and "
    "against the cost where nothing shifts (right), for {systems} systems: means with 95 % regions over "
    "n = {sessions} scenarios with {shifts} shifts per system.",
    dark=True,
    made_by="python -m crs_lib run 03_simulate -p run {run} -p arms shift,none,fresh",
)
def ability_adaptation(shifts: pd.DataFrame) -> Any:
    """The ability–adaptation plane, and beside it the cost at shifts against that at placebos."""
    require(shifts, ["session_id", "fresh_gain", "history_cost", "placebo_cost"])
    if shifts["history_cost"].isna().all():
        raise NoDataError("the run has no fresh users; the arms shift, none and fresh are needed")
    order = systems_of(shifts)
    made, axes = style.figure(3.6, 1, 2)
    drawn = []
    for name, look in style.looks(order).items():
        for panel, across in zip(axes[0], ("fresh_gain", "placebo_cost"), strict=True):
            values = by_scenario(shifts, name, [across, "history_cost"]).to_numpy()
            if len(values) < 3:
                continue
            found = region(values)
            panel.fill(*found.outline.T, color=look.colour, alpha=0.18, linewidth=0)
            panel.plot(*found.outline.T, color=look.colour, linewidth=0.6, alpha=0.6)
            panel.plot(*found.mean, look.marker, color=look.colour, markersize=look.size, zorder=3)
            drawn.append(name)
    if not drawn:
        raise NoDataError("fewer than three scenarios have a shift with a fresh user; simulate more")
    for panel, title in zip(axes[0], ("ability: gain for fresh users →", "placebo cost"), strict=True):
        panel.axhline(0, color=style.FAINT, linewidth=0.6)
        panel.set(xlabel=title, ylabel="history cost ↓")
        panel.grid(True)
    axes[0][1].axvline(0, color=style.FAINT, linewidth=0.6)
    style.legend(made, [name for name in order if name in drawn], lines=False)
    n = shifts["session_id"].nunique()
    style.note(
        made,
        "A system that clings pays at shifts only, one that forgets pays at both. Shaded: 95 % region of the "
        f"mean (Hotelling), n = {n} scenarios; in placebo windows nothing shifts.",
    )
    return made


def profile(turns: pd.DataFrame, shifts: pd.DataFrame) -> pd.DataFrame:
    """Mean uptake, release and retention by system, type of shift and reply, with 95 % intervals.

    A row a cell; ``reply`` counts from the shift (0); "all" joins the replies. Sessions are drawn whole.
    """
    require(turns, ["session_id", "turn", "since_shift", *_PARTS])
    rows = turns[turns["since_shift"].notna()].copy()
    rows["shift"] = rows["turn"] - rows["since_shift"].astype(int)
    kinds = shifts[["model", "session_id", "turn", "type"]].rename(columns={"turn": "shift"})
    rows = rows.merge(kinds, on=["model", "session_id", "shift"])
    found = []
    for part in _PARTS:
        known = rows[rows[part].notna()]
        if known.empty:
            continue
        for table in (known, known.assign(type="all types")):
            joined = table.assign(reply="all")
            single = table.assign(reply=table["since_shift"].astype(int).astype(str))
            cells = pd.concat([joined, single], ignore_index=True)
            found.append(means(cells, ["model", "type", "reply"], part).assign(part=part))
    if not found:
        raise NoDataError("no reply after a shift has an uptake, release or retention")
    columns = ["part", "type", "reply", "model", "mean", "low", "high", "n"]
    return pd.concat(found, ignore_index=True)[columns]


@FIGURES.register(
    "shift_profile",
    title="Uptake, release and retention by type of shift",
    study="movies",
    tables=("turns", "shifts"),
    place=17.5,
    caption="Uptake of added constraints, release of dropped or excluded ones, and retention of the others, "
    "by system and type of shift: means over the first three replies with 95 % intervals (n = {sessions} "
    "scenarios).",
)
def shift_profile(turns: pd.DataFrame, shifts: pd.DataFrame) -> Any:
    """Uptake, release and retention: a panel each, types of shift down, systems as points with intervals."""
    table = profile(turns, shifts)
    table = table[table["reply"] == "all"]
    order = systems_of(turns)
    types = ["all types", *sorted(set(table["type"]) - {"all types"})]
    made, axes = style.figure(0.9 + 0.62 * len(types), 1, 3)
    for panel, part in zip(axes[0], _PARTS, strict=True):
        mine = table[table["part"] == part]
        for place, kind in enumerate(types):
            found = mine[mine["type"] == kind].set_index("model")[["mean", "low", "high"]]
            style.dots(panel, place, order, {str(name): ends for name, *ends in found.itertuples()}, 0.7)
        panel.set(xlabel=style.titled(part), ylim=(len(types) - 0.5, -0.5))
        panel.set_yticks(range(len(types)), types if part == _PARTS[0] else [""] * len(types))
        panel.axvline(0, color=style.FAINT, linewidth=0.6)
        panel.grid(True, axis="x")
    axes[0][0].set_ylabel("type of shift")
    style.legend(made, order, lines=False)
    n = turns["session_id"].nunique()
    style.note(
        made,
        "1: as good as the best list; 0, for uptake and retention: chance. Mean over replies 0 to 2 after a "
        f"shift; lines: 95 % intervals over n = {n} scenarios.",
    )
    return made
