"""Diagrams of a run, drawn from its manifest and logs: the system, the data set, the experiment."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import figure, filled

# Fills light enough for black text; in grey the words tell the kinds apart.
_FILLS = {"data": "#D6EAF5", "code": "#FFFFFF", "truth": "#FBE5C4", "score": "#D5EEE4"}
_LINE = 0.38  # centimetres between lines of text
_PAGE = style.TEXT_WIDTH * 2.54  # centimetres
DETECTED = "detected"  # the type of shifts that no log tells and the convention found
_SMALL = {"ha": "center", "va": "center", "fontsize": style.SMALL}


class _Board:
    """A page in centimetres, origin at the lower left, on which boxes and arrows are placed."""

    def __init__(self, axes: Any, height: float) -> None:
        self.axes = axes
        axes.set(xlim=(0, _PAGE), ylim=(0, height))
        axes.set_axis_off()

    def box(self, x: float, y: float, width: float, height: float, text: str, kind: str) -> None:
        """A rounded box with its lower left corner at (x, y) and lines of text, the first in bold print."""
        from matplotlib.patches import FancyBboxPatch

        look: dict[str, Any] = {"facecolor": _FILLS[kind], "edgecolor": style.FAINT, "linewidth": 0.8}
        corners = "round,pad=0.1,rounding_size=0.15"
        patch = FancyBboxPatch((x + 0.1, y + 0.1), width - 0.2, height - 0.2, boxstyle=corners, **look)
        self.axes.add_patch(patch)
        lines = text.split("\n")
        top = y + height / 2 + _LINE / 2 * (len(lines) - 1)
        for number, line in enumerate(lines):
            weight = "normal" if number else "bold"
            self.axes.text(x + width / 2, top - _LINE * number, line, weight=weight, **_SMALL)

    def arrow(self, *points: tuple[float, float], text: str = "", shift: float = 0.0) -> None:
        """An arrow along points; its text stands ``shift`` above the middle of the first stretch."""
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        look: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 9, "color": style.INK, "linewidth": 1}
        self.axes.add_patch(FancyArrowPatch(path=Path(points), shrinkA=0, shrinkB=0, **look))
        if text:
            (x0, y0), (x1, y1) = points[:2]
            behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            middle = (x0 + x1) / 2, (y0 + y1) / 2 + shift
            self.axes.text(*middle, text, color=style.FAINT, bbox=behind, **_SMALL)


class _Box(NamedTuple):
    """A box of the overview: its head, the role whose lines it shows (or a text of its own), its kind."""

    head: str
    role: str
    kind: str


_WIDTH = 26  # characters that a box holds in a line
_COLUMNS = (0.2, 5.8, 11.4)  # left edges of the boxes
_ROWS = (
    (_Box("Catalogue", "catalogue", "data"), _Box("User", "user", "truth"), _Box("Log", "log", "truth")),
    (
        _Box("Systems under test", "system", "code"),
        _Box("Conversation", "utterance and reply,\nturn by turn", "data"),
        _Box("Judges", "judge", "code"),
    ),
    (
        _Box("", "grounding", "code"),
        _Box("Metrics", "metrics", "score"),
        _Box("Statistics", "statistics", "score"),
    ),
)


@figure(title="Components of the study")
def _system_overview(roles: pd.DataFrame) -> Any:
    """Who speaks to whom in a run, by name, and what is scored against what.

    Caption: Components of this run and the flow of data between them: {n_systems} systems under test and n =
        {n_sessions} users, simulated or logged.
    Note: {n_systems} systems, {n_sessions} users each.
    """
    filled(roles, ["role", "lines", "n_systems", "n_sessions"])
    lines = {}
    for role, text in zip(roles["role"], roles["lines"], strict=True):
        lines[role] = style.labels(str(text).split("\n"), _WIDTH)
    deep = max(2.2, 0.9 + _LINE * max(map(len, lines.values())))
    height = 3 * deep + 3.5
    drawing, panel = style.single(height / 2.54)
    drawing.set_layout_engine("none")
    panel.set_position((0, 0, 1, 1))
    board = _Board(panel, height)
    heights = (2 * deep + 3.1, deep + 2.0, 0.9)
    for y, row in zip(heights, _ROWS, strict=True):
        for x, box in zip(_COLUMNS, row, strict=True):
            text = "\n".join(lines.get(box.role, [box.role]))
            board.box(x, y, 4.4, deep, f"{box.head}\n{text}".strip("\n"), box.kind)
    _join(board, heights, deep)
    return drawing


def _join(board: _Board, heights: Sequence[float], deep: float) -> None:
    """The arrows between the boxes of the overview."""
    high, middle, low = heights
    half = deep / 2
    board.arrow((4.6, middle + half), (5.8, middle + half), text="replies", shift=0.3)
    for x, y in ((4.6, high), (10.2, high), (10.2, middle), (4.6, low), (10.2, low)):
        board.arrow((x, y + half), (x + 1.2, y + half))
    for x, text in ((2.4, ""), (8.0, "utterances"), (14.6, "constraints")):
        board.arrow((x, high), (x, middle + deep), text=text)
    board.arrow((13.6, middle), (13.6, low + deep), text="scores")
    board.arrow((6.6, middle), (6.6, middle - 0.55), (2.4, middle - 0.55), (2.4, low + deep))


_USES = {
    "constraint": "constraint",
    "shift": "in\nshifts",
    "topic": "scored\nin\ntexts",
    "question": "asked\nabout",
}


@figure(title="Attributes of the catalogue")
def _dataset_attributes(catalogue_fields: pd.DataFrame) -> Any:
    """The preparation of a run's catalogue; values, coverage, cleaning and uses of every field.

    Caption: Preparation of the data set and attributes of the catalogue as it was scored (n = {n_films}
        films): share of films with a value, number of values, labels changed by cleaning, and use in the
        study.
    """
    table = filled(catalogue_fields, ["field", "coverage", "values", "changed", "steps", *_USES])
    boxes = str(table["steps"].iloc[0]).split("\n\n")
    deep = 0.6 + _LINE * max(text.count("\n") + 1 for text in boxes)
    heights = [deep / 2.54, 1.1 + 0.3 * len(table)]
    drawing, grid = style.figure(sum(heights), 2, 1, height_ratios=heights)
    _steps(grid[0, 0], boxes, deep)
    grid[1, 0].remove()
    below = grid[1, 0].get_subplotspec().subgridspec(1, 3, width_ratios=[1.1, 1, 1.5])
    sizes = drawing.add_subplot(below[0])
    facts = drawing.add_subplot(below[1], sharey=sizes)
    uses = drawing.add_subplot(below[2], sharey=sizes)
    _sizes(sizes, table)
    _facts(facts, table)
    _uses(uses, table)
    for panel in (facts, uses):
        panel.tick_params(labelleft=False)
        panel.set_xticks([])
        panel.spines[:].set_visible(False)
    for panel in (sizes, facts, uses):
        panel.tick_params(axis="y", length=0)
    sizes.set_yticks(range(len(table)), table["field"])
    sizes.set_ylim(len(table) - 0.4, -1.6)
    films = f"{int(table['n_films'].max()):,} films"
    style.note(drawing, f"{films}; dots: the use that is made of an attribute.")
    return drawing


def _steps(axes: Any, boxes: Sequence[str], height: float) -> None:
    """Boxes from the left to the right with an arrow between two of them."""
    board = _Board(axes, height)
    width = _PAGE / len(boxes)
    for index, text in enumerate(boxes):
        kind = "code" if index else "data"
        board.box(index * width + 0.25, 0.1, width - 0.5, height - 0.2, text, kind)
        if index:
            board.arrow((index * width - 0.25, height / 2), (index * width + 0.25, height / 2))


def _sizes(panel: Any, table: pd.DataFrame) -> None:
    """Bars: the number of values of each field."""
    bars = panel.barh(range(len(table)), table["values"], height=0.65, color="#0072B2", alpha=0.8)
    panel.bar_label(bars, [f"{int(n):,}" for n in table["values"]], fontsize=style.SMALL, padding=2)
    panel.set(xscale="log", xlim=(1, None), title="distinct values", ylabel="attribute", xlabel="values")
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.minorticks_off()
    panel.margins(x=0.25)
    panel.grid(axis="x")


def _facts(panel: Any, table: pd.DataFrame) -> None:
    """Numbers: the share of films with a value, and the labels changed by cleaning."""
    shares = [f"{100 * share:.3g} %" for share in table["coverage"]]
    cleaned = [f"{int(n):,}" for n in table["changed"]]
    _column(panel, 0.25, "films\nwith a value", shares)
    _column(panel, 0.75, "labels\ncleaned", cleaned)
    panel.set_xlim(0, 1)


def _column(panel: Any, x: float, title: str, texts: Iterable[str]) -> None:
    panel.text(x, -1.05, title, **_SMALL)
    for index, text in enumerate(texts):
        panel.text(x, index, text, **_SMALL)


def _uses(panel: Any, table: pd.DataFrame) -> None:
    """Dots: what is made of each field."""
    for x, (name, title) in enumerate(_USES.items()):
        panel.text(x, -1.05, title, **_SMALL)
        for index, used in enumerate(table[name]):
            marker, colour = ("o", style.INK) if used else ("_", style.GRID)
            panel.plot(x, index, marker, markersize=5, color=colour)
    panel.set_xlim(-0.6, len(_USES) - 0.4)


@figure()
def _experimental_design(shift_events: pd.DataFrame) -> Any:
    """Systems by users by turns, and when constraints change, by type.

    Caption: Paired design of this run: {n_systems} systems meet the same n = {n_sessions} users over up to
        {n_turns} turns, above the shifts by turn and type.
    Unpaired: Unpaired design of this run: {n_systems} systems, each with n = {n_sessions} users of its own
        over up to {n_turns} turns, above the shifts by turn and type.
    """
    filled(shift_events, ["type", "turn", "n", "systems", "n_systems", "n_sessions", "n_turns"])
    first = shift_events.iloc[0]
    paired = "paired" not in shift_events or bool(shift_events["paired"].all())
    systems = str(first["systems"]).split("\n")
    if len(systems) > 10:
        systems = [*systems[:9], f"… {len(systems) - 9} more"]
    upper = 0.5 + 0.2 * len(systems)
    drawing, axes = style.figure(2.4 + upper, 2, 1, height_ratios=[upper, 2.0])
    _same_users(axes[0, 0], systems, int(first["n_sessions"]), "user" if paired else "no.")
    _shifts_by_turn(axes[1, 0], shift_events, int(first["n_turns"]))
    style.note(drawing, _size_of(shift_events, paired))
    return drawing


def _size_of(events: pd.DataFrame, paired: bool) -> str:
    """The small print under the design: systems, users, turns and shifts."""
    first = events.iloc[0]
    size = f"{int(first['n_systems'])} systems × {int(first['n_sessions'])} users"
    kind = "detected shifts a system" if first["type"] == DETECTED else "shifts"
    users = "every user counted once" if paired else "own users each"
    n_shifts = int(events["n"].sum() + 1e-9)
    return f"{size} × up to {int(first['n_turns'])} turns; {n_shifts:,} {kind}, {users}."


def _same_users(panel: Any, systems: Sequence[str], n_users: int, name: str) -> None:
    """A mark for each system and user (a number, where users differ), the many in the middle left out."""
    for index, (system, look) in enumerate(style.looks(systems).items()):
        large = {**style.marked(look), "markersize": 1.2 * look.size}
        panel.plot([0, 1, 2, 3, 5], [index] * 5, linestyle="none", **large)
        panel.text(4, index, "…", ha="center", va="center", color=style.FAINT)
        panel.text(5.35, index, style.labels([system], 40)[0], va="center", fontsize=style.SMALL)
    users = [f"{name} {number}" for number in range(1, 5)]
    panel.set_xticks(range(6), [*users, "…", f"{name} {n_users}"])
    panel.xaxis.tick_top()
    panel.set(xlim=(-0.5, 9.5), ylim=(len(systems) - 0.4, -0.7), yticks=[], ylabel="systems")
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)


def _shifts_by_turn(panel: Any, events: pd.DataFrame, n_turns: int) -> None:
    """Stacked bars: shifts by turn, a colour for each type."""
    turns = np.arange(1, n_turns + 1)
    bottom = np.zeros(n_turns)
    kinds = [str(kind) for kind in events["type"].unique() if kind]
    for index, kind in enumerate(kinds):
        shifts = events[events["type"] == kind].groupby("turn")["n"].sum().reindex(turns, fill_value=0)
        colour = style.CYCLE[index % len(style.CYCLE)]
        panel.bar(turns, shifts, bottom=bottom, width=0.8, color=colour, label=kind, linewidth=0)
        bottom += shifts.to_numpy(dtype=float)
    panel.set(xlabel="turn", ylabel="shifts", xlim=(0.4, n_turns + 0.6))
    for axis in (panel.xaxis, panel.yaxis):
        axis.get_major_locator().set_params(integer=True)
    if kinds:
        panel.legend(ncols=min(4, len(kinds)), loc="upper center", bbox_to_anchor=(0.5, -0.28))
    else:
        panel.text(0.5, 0.5, "no shift is logged", ha="center", va="center", transform=panel.transAxes)
        panel.set(yticks=[])
