"""Diagrams of a run, drawn from its manifest and logs: the system, the catalogue, the experiment."""

from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import figure, filled

# Fills light enough for black text; in grey the words tell the kinds apart.
_FILLS = {"data": "#D6EAF5", "code": "#FFFFFF", "truth": "#FBE5C4", "score": "#D5EEE4"}
_LINE = 0.38  # centimetres between lines of text


class Board:
    """A page in centimetres, origin at the lower left, on which boxes and arrows are placed."""

    def __init__(self, height: float) -> None:
        self.made, axes = style.figure(height / 2.54)
        self.axes = axes[0][0]
        self.made.set_layout_engine("none")
        self.axes.set_position((0, 0, 1, 1))
        self.axes.set(xlim=(0, style.TEXT_WIDTH * 2.54), ylim=(0, height))
        self.axes.set_axis_off()

    def box(
        self, x: float, y: float, width: float, height: float, head: str, text: str = "", kind: str = "code"
    ) -> None:
        """A rounded box with its lower left corner at (x, y), a bold head and lines of text."""
        from matplotlib.patches import FancyBboxPatch

        look: dict[str, Any] = {"facecolor": _FILLS[kind], "edgecolor": style.FAINT, "linewidth": 0.8}
        shape = "round,pad=0.1,rounding_size=0.15"
        self.axes.add_patch(
            FancyBboxPatch((x + 0.1, y + 0.1), width - 0.2, height - 0.2, boxstyle=shape, **look)
        )
        lines = ([head] if head else []) + (text.split("\n") if text else [])
        top = y + height / 2 + _LINE / 2 * (len(lines) - 1)
        for number, line in enumerate(lines):
            weight = "bold" if head and number == 0 else "normal"
            self.text(x + width / 2, top - _LINE * number, line, weight=weight)

    def text(self, x: float, y: float, text: str, **options: Any) -> None:
        """Text centred at a point."""
        self.axes.text(x, y, text, **{"ha": "center", "va": "center", "fontsize": style.SMALL, **options})

    def arrow(self, *points: tuple[float, float], text: str = "", shift: float = 0.22) -> None:
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


@figure(
    "movies",
    "Components of this run and the flow of data between them: {n_systems} systems under test and "
    "n = {n_sessions} users, simulated or logged.",
    title="Components of the study",
    place=1,
)
def system_overview(roles: pd.DataFrame) -> Any:
    """Who speaks to whom in a run, by name, and what is scored against what."""
    filled(roles, ["role", "lines", "n_systems", "n_sessions"])
    said = {
        row.role: "\n".join(style.labels(str(row.lines).split("\n"), _WIDTH)) for row in roles.itertuples()
    }
    deep = max(2.2, 0.9 + _LINE * max(len(text.split("\n")) for text in said.values()))
    board = Board(3 * deep + 3.5)
    low, middle, high = 0.9, deep + 2.0, 2 * deep + 3.1
    board.box(0.2, high, 4.4, deep, "Catalogue", said["catalogue"], "data")
    board.box(5.8, high, 4.4, deep, "User", said["user"], "truth")
    board.box(11.4, high, 4.4, deep, "Log", said["log"], "truth")
    board.box(0.2, middle, 4.4, deep, "Systems under test", said["system"])
    board.box(5.8, middle, 4.4, deep, "Conversation", "utterance and reply,\nturn by turn", "data")
    board.box(11.4, middle, 4.4, deep, "Judges", said["judge"])
    board.box(0.2, low, 4.4, deep, "Grounding", "concepts in the texts,\nfilms behind the titles")
    board.box(5.8, low, 4.4, deep, "Metrics", said["metrics"], "score")
    board.box(11.4, low, 4.4, deep, "Statistics", said["statistics"], "score")
    half = deep / 2
    board.arrow((4.6, high + half), (5.8, high + half))
    board.arrow((10.2, high + half), (11.4, high + half))
    board.arrow((2.4, high), (2.4, middle + deep))
    board.arrow((8.0, high), (8.0, middle + deep), text="utterances", shift=0)
    board.arrow((4.6, middle + half), (5.8, middle + half), text="replies", shift=0.3)
    board.arrow((10.2, middle + half), (11.4, middle + half))
    board.arrow((6.6, middle), (6.6, middle - 0.55), (2.4, middle - 0.55), (2.4, low + deep))
    board.arrow((13.6, middle), (13.6, low + deep), text="scores", shift=0)
    board.arrow((4.6, low + half), (5.8, low + half))
    board.arrow((10.2, low + half), (11.4, low + half))
    board.arrow((14.6, high), (14.6, middle + deep), text="constraints", shift=0)
    first = roles.iloc[0]
    style.note(board.made, f"{int(first['n_systems'])} systems, {int(first['n_sessions'])} users each.")
    return board.made


_USES = {
    "constraint": "constraint",
    "shift": "in shifts",
    "topic": "scored in texts",
    "question": "asked about",
}


@figure(
    "movies",
    "Attributes of the catalogue (n = {n_films} films after cleaning): share of films with a value, "
    "number of values, labels changed by cleaning, and use in the study.",
    title="Attributes of the catalogue",
    place=2,
)
def dataset_attributes(catalogue_fields: pd.DataFrame) -> Any:
    """Coverage, values, cleaning and uses of every field of a run's catalogue."""
    filled(catalogue_fields, ["field", "coverage", "values", "changed", *_USES])
    rows = len(catalogue_fields)
    made, axes = style.figure(1.1 + 0.3 * rows, 1, 3, sharey=True, width_ratios=[1.1, 1, 1.5])
    share, size, uses = axes[0]
    places = np.arange(rows)
    share.barh(places, catalogue_fields["coverage"], height=0.65, color="#0072B2", alpha=0.8)
    share.set(xlim=(0, 1), title="films with a value")
    share.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    share.grid(axis="x")
    for panel, column, x, title in (
        (size, "values", 0.3, "values"), (size, "changed", 0.78, "labels cleaned"),
    ):  # fmt: skip
        panel.text(x, -1.05, title, ha="center", va="center", fontsize=style.SMALL)
        for place, value in zip(places, catalogue_fields[column], strict=True):
            panel.text(x, place, f"{int(value):,}", ha="center", va="center", fontsize=style.SMALL)
    size.set(xlim=(0, 1), xticks=[])
    for k, (column, title) in enumerate(_USES.items()):
        uses.text(k, -1.05, title.replace(" ", "\n"), ha="center", va="center", fontsize=style.SMALL)
        for place, used in zip(places, catalogue_fields[column], strict=True):
            look: dict[str, Any] = {"color": style.INK} if used else {"color": style.GRID}
            uses.plot(k, place, "o" if used else "_", markersize=5, **look)
    uses.set(xlim=(-0.6, len(_USES) - 0.4), xticks=[])
    for panel in (size, uses):
        panel.spines[:].set_visible(False)
    share.set_yticks(places, catalogue_fields["field"])
    share.set_ylim(rows - 0.4, -1.6)
    for panel in axes[0]:
        panel.tick_params(axis="y", length=0)
    share.set(ylabel="attribute", xlabel="share of films")
    films = int(catalogue_fields["n_films"].max())
    style.note(made, f"{films:,} films after cleaning; dots: the use that is made of an attribute.")
    return made


@figure(
    "movies",
    "Paired design of this run: {n_systems} systems meet the same n = {n_sessions} users over up to "
    "{n_turns} turns, above the shifts by turn and type.",
    place=3,
)
def experimental_design(shift_events: pd.DataFrame) -> Any:
    """Systems by users by turns, and when constraints change, by type."""
    filled(shift_events, ["type", "turn", "n", "systems", "n_systems", "n_sessions", "n_turns"])
    first = shift_events.iloc[0]
    systems = str(first["systems"]).split("\n")
    shown = systems if len(systems) <= 10 else [*systems[:9], f"… {len(systems) - 9} more"]
    made, axes = style.figure(2.9 + 0.2 * len(shown), 2, 1, height_ratios=[0.5 + 0.2 * len(shown), 2.0])
    upper, lower = axes[:, 0]
    for place, (name, look) in enumerate(style.looks(shown).items()):
        for k in range(5):
            x = k if k < 4 else 5
            upper.plot(x, place, look.marker, color=look.colour, markersize=1.2 * look.size)
        upper.text(4, place, "…", ha="center", va="center", color=style.FAINT)
        upper.text(5.35, place, style.labels([name], 40)[0], va="center", fontsize=style.SMALL)
    users = ["user 1", "user 2", "user 3", "user 4", "…", f"user {int(first['n_sessions'])}"]
    upper.set_xticks(range(6), users)
    upper.xaxis.tick_top()
    upper.set(xlim=(-0.5, 9.5), ylim=(len(shown) - 0.4, -0.7), yticks=[], ylabel="systems")
    upper.tick_params(length=0)
    upper.spines[:].set_visible(False)
    turns = np.arange(1, int(first["n_turns"]) + 1)
    bottom = np.zeros(len(turns))
    kinds = [str(kind) for kind in dict.fromkeys(shift_events["type"]) if kind]
    for place, kind in enumerate(kinds):
        part = shift_events[shift_events["type"] == kind].groupby("turn")["n"].sum()
        height = part.reindex(turns, fill_value=0).to_numpy(dtype=float)
        colour = style.CYCLE[place % len(style.CYCLE)]
        lower.bar(turns, height, bottom=bottom, width=0.8, color=colour, label=kind, linewidth=0)
        bottom += height
    lower.set(xlabel="turn", ylabel="shifts", xlim=(0.4, len(turns) + 0.6))
    for axis in (lower.xaxis, lower.yaxis):
        axis.get_major_locator().set_params(integer=True)
    if kinds:
        lower.legend(ncols=min(4, len(kinds)), loc="upper center", bbox_to_anchor=(0.5, -0.28), frameon=False)
    else:
        lower.text(0.5, 0.5, "no shift is logged", ha="center", va="center", transform=lower.transAxes)
        lower.set(yticks=[])
    total = int(shift_events["n"].sum())
    style.note(
        made,
        f"{int(first['n_systems'])} systems × {int(first['n_sessions'])} users × up to {len(turns)} turns; "
        f"{total:,} shifts, every user counted once.",
    )
    return made
