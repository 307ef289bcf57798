"""What happens at shifts: ability and cost of history, uptake and release, recovery by type, concepts."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, means, recovered_by, require, systems_of
from crs_lib.stats import Design, bootstrap_estimates

_PARTS = ("uptake", "release", "retention")


class Region(NamedTuple):
    """The mean of two quantities over scenarios, and the outline of its 95 % region, a row a point."""

    mean: NDArray[np.float64]
    outline: NDArray[np.float64]


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
    return Region(middle, middle + circle @ axes.T)


def by_scenario(shifts: pd.DataFrame, system: str, columns: list[str]) -> pd.DataFrame:
    """The means of columns over a system's shifts, a row a scenario that defines all of them."""
    mine = shifts[shifts["model"] == system].astype(dict.fromkeys(columns, float))
    return mine.groupby("session_id", sort=True)[columns].mean().dropna()


@figure(
    "movies",
    "Cost of history at shifts against ability, the normalised gain for fresh users (left), and "
    "against the cost where nothing shifts (right), for {systems} systems: means with 95 % regions over "
    "n = {sessions} scenarios with {shifts} shifts per system.",
    title="Ability and adaptation",
    place=0,
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


@figure(
    "movies",
    "Uptake of added constraints, release of dropped or excluded ones, and retention of the others, "
    "by system and type of shift: means over the first three replies with 95 % intervals (n = {sessions} "
    "scenarios).",
    title="Uptake, release and retention by type of shift",
    place=17.5,
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


_TYPES = 6  # types of shift whose intervals fit side by side in small print


@figure(
    "movies",
    "Share of shifts recovered ({recovered}) within the window of the convention, by system and type "
    "of shift, with Wilson 95 % intervals ({shifts} shifts in n = {sessions} sessions per system).",
    title="Recovery by type of shift",
    place=17,
)
def adaptation_profile(shifts: pd.DataFrame, *, kind: str = "") -> Any:
    """Share of shifts recovered: systems by shift types, each cell with its interval."""
    kind = kind or recovered_by(shifts)
    table = recovered_by_type(shifts, kind)
    order = systems_of(shifts)
    types = [str(name) for name in dict.fromkeys(table["type"])]
    cells = table.astype({"type": str}).set_index(["model", "type"])
    cells = cells.reindex(pd.MultiIndex.from_product([order, types]))
    size = (len(order), len(types))
    share, low, high = (cells[end].to_numpy().reshape(size) for end in ("share", "low", "high"))
    made, axes = style.figure(max(2.2, 1.15 + 0.4 * len(order)))
    panel = axes[0][0]
    small = style.SMALL * min(1.0, _TYPES / len(types))
    texts = np.vectorize("{:.2f}\n[{:.2f}, {:.2f}]".format)(share, low, high)
    image = style.cells(panel, share, texts, alpha=1.0, fontsize=small, linespacing=1.1)
    sizes = table.groupby("type")["n"].agg(["min", "max"])
    heads = [
        f"{name or 'unnamed'}\nn = {low}" + (f"–{high}" if high != low else "")
        for name, (low, high) in ((name, sizes.loc[name]) for name in types)
    ]
    panel.set_xticks(range(len(types)), heads, fontsize=small)
    panel.set_yticks(range(len(order)), style.labels(order))
    panel.set_xticks(np.arange(len(types) + 1) - 0.5, minor=True)
    panel.set_yticks(np.arange(len(order) + 1) - 0.5, minor=True)
    panel.grid(which="minor", color="white", linewidth=1.5)
    panel.tick_params(which="both", length=0)
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
    cells = shifts.groupby(["model", "type"], sort=False)[column].agg(["sum", "size"]).astype(int)
    order = pd.MultiIndex.from_product([systems_of(shifts), types], names=["model", "type"])
    cells = cells.loc[order[order.isin(cells.index)]].rename(columns={"size": "n"})
    low, high = proportion_confint(cells["sum"], cells["n"], method="wilson")
    found = cells.assign(share=cells["sum"] / cells["n"], low=low.clip(0.0), high=high.clip(upper=1.0))
    return found.reset_index()[["model", "type", "share", "low", "high", "n"]]


@figure(
    "movies",
    "Concepts that the replies of a system most often leave out of the utterance (missing) and name "
    "beyond it (added): share of turns with 95 % intervals (n = {sessions} sessions per system, resampled).",
    title="Concepts missing and added, by system",
    place=18,
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
