"""What happens at shifts: the share of gain lost, uptake and release, recovery by type."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, means, recovered_by, require, systems_of
from crs_lib.metrics.gain import ABLE
from crs_lib.stats import cost_interval

_PARTS = ("uptake", "release", "retention")
_TYPES = 6  # types of shift whose intervals fit side by side in small print


def _region(values: NDArray[np.float64], level: float = 0.95) -> NDArray[np.float64]:
    """The outline of the ellipse that holds the true mean of two columns (a row a scenario, n >= 3), a row a
    point. Source: Hotelling (1931), Annals of Mathematical Statistics 2: (n−1)·2/(n−2)·F(2, n−2).
    """
    from scipy import stats

    n = len(values)
    scale = 2 * (n - 1) / (n - 2) * stats.f.ppf(level, 2, n - 2) / n
    spread, axes = np.linalg.eigh(np.cov(values, rowvar=False))
    angles = np.linspace(0, 2 * np.pi, 97)
    circle = np.column_stack([np.cos(angles), np.sin(angles)]) * np.sqrt(np.clip(spread, 0, None) * scale)
    return np.asarray(values.mean(axis=0) + circle @ axes.T)


def _by_scenario(shifts: pd.DataFrame, system: str, columns: list[str]) -> pd.DataFrame:
    """The means of columns over a system's shifts, a row a scenario that defines all of them."""
    mine = shifts[shifts["model"] == system].astype(dict.fromkeys(columns, float))
    return mine.groupby("session_id", sort=True)[columns].mean().dropna()


@figure(dark=True, made_by="python -m crs_lib run 03_simulate -p run {run}")
def _ability_adaptation(shifts: pd.DataFrame) -> Any:
    """The share of gain lost to shifts against straight gain, and beside it the conversation cost."""
    require(shifts, ["session_id", "primary", "straight_gain", "shift_cost", "conversation_cost"])
    known = shifts[shifts["primary"].astype(bool)]
    if known["shift_cost"].isna().all():
        raise NoDataError("the run has no straight users; the arms shift and straight are needed")
    made, axes = style.figure(3.6, 1, 2)
    drawn, (plane, beside) = [], axes[0]
    for place, (name, look) in enumerate(style.looks(systems_of(shifts)).items()):
        values = _by_scenario(known, name, ["straight_gain", "shift_cost"]).to_numpy()
        if len(values) < 3:
            continue
        drawn.append(name)
        talk = cost_interval(_by_scenario(known, name, ["conversation_cost"]).to_numpy().ravel())
        beside.plot([talk.low, talk.high], [place, place], color=look.colour, linewidth=1)
        beside.plot(talk.value, place, look.marker, color=look.colour, markersize=look.size, zorder=3)
        able, cost = values.mean(axis=0)
        if able < ABLE:
            continue
        share = cost / able
        linear = np.column_stack([values[:, 0], share + (values[:, 1] - share * values[:, 0]) / able])
        outline = _region(linear).T
        plane.fill(*outline, color=look.colour, alpha=0.18, linewidth=0)
        plane.plot(*outline, color=look.colour, linewidth=0.6, alpha=0.6)
        plane.plot(able, share, look.marker, color=look.colour, markersize=look.size, zorder=3)
    if not drawn:
        raise NoDataError("fewer than three scenarios have a straight user; simulate more")
    plane.axhline(0, color=style.FAINT, linewidth=0.6)
    plane.set(xlabel="gain with straight users →", ylabel="share of gain lost to shifts ↓")
    beside.axvline(0, color=style.FAINT, linewidth=0.6)
    beside.set(xlabel="← conversation cost", yticks=[])
    for panel in axes[0]:
        panel.grid(True)
    style.legend(made, drawn, lines=False)
    return made


def _profile(turns: pd.DataFrame, shifts: pd.DataFrame) -> pd.DataFrame:
    """Mean uptake, release and retention by system and type of shift, with 95 % intervals; a row a cell."""
    require(turns, ["session_id", "turn", "since_shift", *_PARTS])
    rows = turns[turns["since_shift"].notna()]
    rows = rows.assign(shift=rows["turn"] - rows["since_shift"].astype(int))
    kinds = shifts[["model", "session_id", "turn", "type"]].rename(columns={"turn": "shift"})
    rows = rows.merge(kinds, on=["model", "session_id", "shift"])
    rows = pd.concat([rows, rows.assign(type="all types")], ignore_index=True)
    defined = {part: rows[rows[part].notna()] for part in _PARTS if rows[part].notna().any()}
    if not defined:
        raise NoDataError("no reply after a shift has an uptake, release or retention")
    return pd.concat([means(part, ["model", "type"], n).assign(part=n) for n, part in defined.items()])


@figure()
def _shift_profile(turns: pd.DataFrame, shifts: pd.DataFrame) -> Any:
    """Uptake, release and retention: a panel each, types of shift down, systems as points with intervals."""
    table, order = _profile(turns, shifts), systems_of(turns)
    types = ["all types", *sorted(set(table["type"]) - {"all types"})]
    made, axes = style.figure(0.9 + 0.62 * len(types), 1, 3)
    for panel, part in zip(axes[0], _PARTS, strict=True):
        mine = table[table["part"] == part]
        for place, kind in enumerate(types):
            found = mine[mine["type"] == kind].set_index("model")[["mean", "low", "high"]]
            style.dots(panel, place, order, {str(name): ends for name, *ends in found.itertuples()})
        panel.set(xlabel=style.titled(part), ylim=(len(types) - 0.5, -0.5))
        panel.set_yticks(range(len(types)), style.labels(types) if part == _PARTS[0] else [""] * len(types))
        panel.axvline(0, color=style.FAINT, linewidth=0.6)
        panel.grid(True, axis="x")
    axes[0][0].set_ylabel("type of shift")
    style.legend(made, order, lines=False)
    scale = "1: as good as the best list; 0, for uptake and retention: chance."
    lines = f"lines: 95 % intervals over n = {turns['session_id'].nunique()} scenarios."
    style.note(made, f"{scale} Mean over replies 0 to 2 after a shift; {lines}")
    return made


@figure()
def _adaptation_profile(shifts: pd.DataFrame) -> Any:
    """Share of shifts recovered: systems by shift types, each cell with its interval."""
    table, order = recovered_by_type(shifts, recovered_by(shifts)), systems_of(shifts)
    types = [str(name) for name in dict.fromkeys(table["type"])]
    cells = table.astype({"type": str}).set_index(["model", "type"])
    cells = cells.reindex(pd.MultiIndex.from_product([order, types]))
    size = (len(order), len(types))
    share, low, high = (cells[end].to_numpy().reshape(size) for end in ("share", "low", "high"))
    made, panel = style.single(max(2.2, 1.15 + 0.4 * len(order)))
    small = style.SMALL * min(1.0, _TYPES / len(types))
    texts = np.vectorize("{:.2f}\n[{:.2f}, {:.2f}]".format)(share, low, high)
    image = style.cells(panel, share, texts, alpha=1.0, fontsize=small, linespacing=1.1)
    sizes = table.astype({"type": str}).groupby("type")["n"].agg(["min", "max"])
    heads = [
        f"{name or 'unnamed'}\nn = {least}" + f"–{most}" * (most != least)
        for name, least, most in sizes.loc[types].itertuples()
    ]
    panel.set_xticks(range(len(types)), heads, fontsize=small)
    panel.set_yticks(range(len(order)), style.labels(order))
    panel.set_xticks(np.arange(len(types) + 1) - 0.5, minor=True)
    panel.set_yticks(np.arange(len(order) + 1) - 0.5, minor=True)
    panel.grid(which="minor", color="white", linewidth=1.5)
    panel.tick_params(which="both", length=0)
    panel.set(xlabel="type of shift", ylabel="system")
    made.colorbar(image, ax=panel, label="share recovered", fraction=0.04, pad=0.02)
    return made


def recovered_by_type(shifts: pd.DataFrame, kind: str = "item") -> pd.DataFrame:
    """Share of shifts recovered in [0, 1] by model and type, the most frequent first, with Wilson's 95 %
    interval (shifts count as independent) and n; a row a cell. Source: Wilson (1927), JASA 22; statsmodels.
    """
    from statsmodels.stats.proportion import proportion_confint

    column = f"recovered_{kind}"
    require(shifts, ["session_id", "type", column])
    sizes = shifts["type"].value_counts()
    types = sorted(sizes.index, key=lambda name: (-int(sizes[name]), str(name)))
    cells = shifts.groupby(["model", "type"], sort=False)[column].agg(["sum", "size"]).astype(int)
    order = pd.MultiIndex.from_product([systems_of(shifts), types], names=["model", "type"])
    cells = cells.loc[order[order.isin(cells.index)]].rename(columns={"size": "n"})
    low, high = proportion_confint(cells["sum"], cells["n"], method="wilson")
    found = cells.assign(share=cells["sum"] / cells["n"], low=low.clip(0.0), high=high.clip(upper=1.0))
    return found.reset_index()[["model", "type", "share", "low", "high", "n"]]
