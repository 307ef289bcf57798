"""Diagrams of a run, drawn from its manifest and logs: the system, the data set, the experiment."""

from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import figure, filled

# Fills light enough for black text; in grey the words tell the kinds apart.
_FILLS = {"data": "#D6EAF5", "code": "#FFFFFF", "truth": "#FBE5C4", "score": "#D5EEE4"}
_LINE = 0.38  # centimetres between lines of text
DETECTED = "detected"  # the type of shifts that no log tells and the convention found


class _Board:
    """A page in centimetres, origin at the lower left, on which boxes and arrows are placed."""

    def __init__(self, height: float, axes: Any = None) -> None:
        """A figure of its own, or the ``axes`` of another."""
        self.axes = axes
        if axes is None:
            self.made, self.axes = style.single(height / 2.54)
            self.made.set_layout_engine("none")
            self.axes.set_position((0, 0, 1, 1))
        self.axes.set(xlim=(0, style.TEXT_WIDTH * 2.54), ylim=(0, height))
        self.axes.set_axis_off()

    def box(self, x: float, y: float, width: float, height: float, text: str, kind: str) -> None:
        """A rounded box with its lower left corner at (x, y) and lines of text, the first in bold print."""
        from matplotlib.patches import FancyBboxPatch

        look: dict[str, Any] = {"facecolor": _FILLS[kind], "edgecolor": style.FAINT, "linewidth": 0.8}
        look["boxstyle"] = "round,pad=0.1,rounding_size=0.15"
        self.axes.add_patch(FancyBboxPatch((x + 0.1, y + 0.1), width - 0.2, height - 0.2, **look))
        lines = text.split("\n")
        top = y + height / 2 + _LINE / 2 * (len(lines) - 1)
        for number, line in enumerate(lines):
            weight = "normal" if number else "bold"
            self.text(x + width / 2, top - _LINE * number, line, weight=weight)

    def text(self, x: float, y: float, text: str, **options: Any) -> None:
        """Text centred at a point."""
        self.axes.text(x, y, text, **{"ha": "center", "va": "center", "fontsize": style.SMALL, **options})

    def arrow(self, *points: tuple[float, float], text: str = "", shift: float = 0.0) -> None:
        """An arrow along points; its text stands ``shift`` above the middle of the first stretch."""
        from matplotlib.patches import FancyArrowPatch
        from matplotlib.path import Path

        codes = [Path.MOVETO, *[Path.LINETO] * (len(points) - 1)]
        look: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 9, "color": style.INK, "linewidth": 1}
        self.axes.add_patch(FancyArrowPatch(path=Path(points, codes), shrinkA=0, shrinkB=0, **look))
        if text:
            (x0, y0), (x1, y1) = points[0], points[1]
            behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            self.text((x0 + x1) / 2, (y0 + y1) / 2 + shift, text, color=style.FAINT, bbox=behind)


_WIDTH = 26  # characters that a box holds in a line
# The boxes from the left, a row each from the top: head, role in the table or own text, kind.
_BOXES = (
    (("Catalogue", "catalogue", "data"), ("User", "user", "truth"), ("Log", "log", "truth")),
    (
        ("Systems under test", "system", "code"),
        ("Conversation", "utterance and reply,\nturn by turn", "data"),
        ("Judges", "judge", "code"),
    ),
    (("", "grounding", "code"), ("Metrics", "metrics", "score"), ("Statistics", "statistics", "score")),
)


@figure()
def system_overview(roles: pd.DataFrame) -> Any:
    """Who speaks to whom in a run, by name, and what is scored against what."""
    filled(roles, ["role", "lines", "n_systems", "n_sessions"])
    cut = [style.labels(str(lines).split("\n"), _WIDTH) for lines in roles["lines"]]
    said = {role: "\n".join(lines) for role, lines in zip(roles["role"], cut, strict=True)}
    deep = max(2.2, 0.9 + _LINE * max(map(len, cut)))
    board, half = _Board(3 * deep + 3.5), deep / 2
    high, middle, low = 2 * deep + 3.1, deep + 2.0, 0.9
    for y, row in zip((high, middle, low), _BOXES, strict=True):
        for x, (head, text, kind) in zip((0.2, 5.8, 11.4), row, strict=True):
            board.box(x, y, 4.4, deep, f"{head}\n{said.get(text, text)}".strip("\n"), kind)
    across = ((4.6, high), (10.2, high), (10.2, middle), (4.6, low), (10.2, low))
    board.arrow((4.6, middle + half), (5.8, middle + half), text="replies", shift=0.3)
    for x, y in across:
        board.arrow((x, y + half), (x + 1.2, y + half))
    for x, text in ((2.4, ""), (8.0, "utterances"), (14.6, "constraints")):
        board.arrow((x, high), (x, middle + deep), text=text)
    board.arrow((13.6, middle), (13.6, low + deep), text="scores")
    board.arrow((6.6, middle), (6.6, middle - 0.55), (2.4, middle - 0.55), (2.4, low + deep))
    return board.made


_USES = {"constraint": "constraint", "shift": "in shifts", "topic": "scored in texts"}
_USES["question"] = "asked about"


def _steps(axes: Any, boxes: list[str], height: float) -> None:
    """Boxes from the left to the right with an arrow between two of them."""
    board, width = _Board(height, axes), style.TEXT_WIDTH * 2.54 / len(boxes)
    for place, text in enumerate(boxes):
        board.box(place * width + 0.25, 0.1, width - 0.5, height - 0.2, text, "code" if place else "data")
        if place:
            board.arrow((place * width - 0.25, height / 2), (place * width + 0.25, height / 2))


@figure()
def dataset_attributes(catalogue_fields: pd.DataFrame) -> Any:
    """The preparation of a run's catalogue; values, coverage, cleaning and uses of every field."""
    filled(catalogue_fields, ["field", "coverage", "values", "changed", "steps", *_USES])
    rows, boxes = len(catalogue_fields), str(catalogue_fields["steps"].iloc[0]).split("\n\n")
    deep = 0.6 + _LINE * max(text.count("\n") + 1 for text in boxes)
    heights = [deep / 2.54, 1.1 + 0.3 * rows]
    made, grid = style.figure(sum(heights), 2, 1, height_ratios=heights)
    _steps(grid[0, 0], boxes, deep)
    grid[1, 0].remove()
    below = grid[1, 0].get_subplotspec().subgridspec(1, 3, width_ratios=[1.1, 1, 1.5])
    sizes = made.add_subplot(below[0])
    facts, uses = (made.add_subplot(below[place], sharey=sizes) for place in (1, 2))
    for panel in (facts, uses):
        panel.tick_params(labelleft=False)
    places = np.arange(rows)
    bars = sizes.barh(places, catalogue_fields["values"], height=0.65, color="#0072B2", alpha=0.8)
    counts = [f"{int(n):,}" for n in catalogue_fields["values"]]
    sizes.bar_label(bars, counts, fontsize=style.SMALL, padding=2)
    sizes.set(xscale="log", xlim=(1, None), title="distinct values", ylabel="attribute", xlabel="values")
    sizes.xaxis.set_major_formatter("{x:,.0f}")
    sizes.minorticks_off()
    sizes.margins(x=0.25)
    sizes.grid(axis="x")
    small: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": style.SMALL}
    shares = [f"{100 * share:.3g} %" for share in catalogue_fields["coverage"]]
    cleaned = [f"{int(n):,}" for n in catalogue_fields["changed"]]
    for column, x, title in ((shares, 0.25, "films\nwith a value"), (cleaned, 0.75, "labels\ncleaned")):
        for place, text in ((-1.05, title), *enumerate(column)):
            facts.text(x, place, text, **small)
    for k, (name, title) in enumerate(_USES.items()):
        uses.text(k, -1.05, title.replace(" ", "\n"), **small)
        for place, used in enumerate(catalogue_fields[name]):
            colour = style.INK if used else style.GRID
            uses.plot(k, place, "o" if used else "_", markersize=5, color=colour)
    facts.set(xlim=(0, 1), xticks=[])
    uses.set(xlim=(-0.6, len(_USES) - 0.4), xticks=[])
    for panel in (facts, uses):
        panel.spines[:].set_visible(False)
    sizes.set_yticks(places, catalogue_fields["field"])
    sizes.set_ylim(rows - 0.4, -1.6)
    for panel in (sizes, facts, uses):
        panel.tick_params(axis="y", length=0)
    films = f"{int(catalogue_fields['n_films'].max()):,} films"
    style.note(made, f"{films}; dots: the use that is made of an attribute.")
    return made


@figure()
def experimental_design(shift_events: pd.DataFrame) -> Any:
    """Systems by users by turns, and when constraints change, by type."""
    filled(shift_events, ["type", "turn", "n", "systems", "n_systems", "n_sessions", "n_turns"])
    first, total = shift_events.iloc[0], int(shift_events["n"].sum() + 1e-9)
    systems = str(first["systems"]).split("\n")
    shown = systems if len(systems) <= 10 else [*systems[:9], f"… {len(systems) - 9} more"]
    made, axes = style.figure(2.9 + 0.2 * len(shown), 2, 1, height_ratios=[0.5 + 0.2 * len(shown), 2.0])
    events = "detected shifts a system" if first["type"] == DETECTED else "shifts"
    paired = bool(shift_events.get("paired", pd.Series([True])).all())
    own = "every user counted once" if paired else "own users each"
    _same_users(axes[0, 0], shown, int(first["n_sessions"]), "user" if paired else "no.")
    _shifts_by_turn(axes[1, 0], shift_events, int(first["n_turns"]))
    size = f"{int(first['n_systems'])} systems × {int(first['n_sessions'])} users"
    style.note(made, f"{size} × up to {int(first['n_turns'])} turns; {total:,} {events}, {own}.")
    return made


def _same_users(panel: Any, systems: list[str], users: int, of: str) -> None:
    """A mark for each system and user (a number, where users differ), the many in the middle left out."""
    for place, (name, look) in enumerate(style.looks(systems).items()):
        for x in (0, 1, 2, 3, 5):
            panel.plot(x, place, look.marker, color=look.colour, markersize=1.2 * look.size)
        panel.text(4, place, "…", ha="center", va="center", color=style.FAINT)
        panel.text(5.35, place, style.labels([name], 40)[0], va="center", fontsize=style.SMALL)
    panel.set_xticks(range(6), [*(f"{of} {n}" for n in range(1, 5)), "…", f"{of} {users}"])
    panel.xaxis.tick_top()
    panel.set(xlim=(-0.5, 9.5), ylim=(len(systems) - 0.4, -0.7), yticks=[], ylabel="systems")
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)


def _shifts_by_turn(panel: Any, events: pd.DataFrame, turns: int) -> None:
    """Stacked bars: shifts by turn, a colour for each type."""
    at, bottom = np.arange(1, turns + 1), np.zeros(turns)
    kinds = [str(kind) for kind in dict.fromkeys(events["type"]) if kind]
    for place, kind in enumerate(kinds):
        height = events[events["type"] == kind].groupby("turn")["n"].sum().reindex(at, fill_value=0)
        colour = style.CYCLE[place % len(style.CYCLE)]
        panel.bar(at, height, bottom=bottom, width=0.8, color=colour, label=kind, linewidth=0)
        bottom += height.to_numpy(dtype=float)
    panel.set(xlabel="turn", ylabel="shifts", xlim=(0.4, turns + 0.6))
    for axis in (panel.xaxis, panel.yaxis):
        axis.get_major_locator().set_params(integer=True)
    if kinds:
        panel.legend(ncols=min(4, len(kinds)), loc="upper center", bbox_to_anchor=(0.5, -0.28), frameon=False)
    else:
        panel.text(0.5, 0.5, "no shift is logged", ha="center", va="center", transform=panel.transAxes)
        panel.set(yticks=[])
