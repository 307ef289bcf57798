"""Diagrams of a run, drawn from its manifest and logs: the system, the data set, the experiment."""

import itertools
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.core import prompts
from crs_lib.figures import style
from crs_lib.figures.base import figure, with_rows

# Fills light enough for black text; in grey the words tell the kinds apart.
_DATA = "#D6EAF5"
_CODE = "#FFFFFF"
DETECTED = "detected"  # the type of shifts that no log tells and the convention found
_WIDTH = 26  # characters that a box holds in a line
_LINE = 0.16  # inches between two lines of a box


def _box(panel: Any, at: tuple[float, float], lines: list[str], fill: str) -> Any:
    """A box around some lines, the first in bold print, with its middle at a point of the panel."""
    from matplotlib.offsetbox import AnnotationBbox, TextArea, VPacker

    parts: list[Any] = []
    weight = "bold"
    for line in lines:
        parts.append(TextArea(line, textprops={"fontsize": style.SMALL, "weight": weight}))
        weight = "normal"
    packed = VPacker(children=parts, align="center", pad=3, sep=3)
    look = {"facecolor": fill, "edgecolor": style.FAINT, "linewidth": 0.8, "boxstyle": "round,pad=0.2"}
    return panel.add_artist(AnnotationBbox(packed, at, bboxprops=look))


def _arrow(panel: Any, start: Any, end: Any, text: str = "") -> None:
    """An arrow from the edge of one box to that of another, with a text above or right of its middle."""
    edges = {"patchA": start.patch, "patchB": end.patch, "shrinkA": 2, "shrinkB": 2}
    look = {"arrowstyle": "-|>", "color": style.INK, **edges}
    panel.annotate("", xy=end.xy, xytext=start.xy, arrowprops=look)
    if not text:
        return
    middle = np.add(start.xy, end.xy) / 2
    lies_flat = start.xy[1] == end.xy[1]
    small: dict[str, Any] = {"fontsize": style.SMALL, "color": style.FAINT, "textcoords": "offset points"}
    if lies_flat:
        panel.annotate(text, middle, xytext=(0, 3), ha="center", va="bottom", **small)
    else:
        panel.annotate(text, middle, xytext=(4, 0), ha="left", va="center", **small)


@figure(title="Components of the study")
def _system_overview(roles: pd.DataFrame) -> Any:
    """Who speaks to whom in a run, by name, and what is scored against what.

    Caption: Components of this run and the flow of data between them: {n_systems} systems under test and n =
        {n_sessions} users, simulated or logged.
    Note: {n_systems} systems, {n_sessions} users each.
    """
    with_rows(roles, ["role", "lines", "n_systems", "n_sessions"])
    lines = {"talk": ["utterance and reply,", "turn by turn"]}
    for role, text in zip(roles["role"], roles["lines"], strict=True):
        lines[role] = style.labels(str(text).split("\n"), _WIDTH)
    overview = prompts.lists("movies/pages")["overview"]
    deepest = [0, 0, 0]  # lines of the deepest box of each row
    for role, box in overview["boxes"].items():
        if "head" in box:
            lines[role] = [box["head"], *lines[role]]
        deepest[box["row"]] = max(deepest[box["row"]], len(lines[role]))
    heights = [_LINE * count + 0.6 for count in deepest]
    drawing, panel = style.single(sum(heights) + 0.3)
    panel.set_axis_off()
    panel.set_xlim(0, 3)
    panel.set_ylim(sum(heights), 0)
    boxes = {}
    for role, box in overview["boxes"].items():
        row = box["row"]
        middle = sum(heights[:row]) + heights[row] / 2
        boxes[role] = _box(panel, (box["column"] + 0.5, middle), lines[role], box["fill"])
    for start, end, text in overview["arrows"]:
        _arrow(panel, boxes[start], boxes[end], text)
    return drawing


_USES = {
    "constraint": "con-\nstraint",
    "shift": "in\nshifts",
    "topic": "scored\nin texts",
    "question": "asked\nabout",
}


@figure(title="Attributes of the catalogue")
def _dataset_attributes(catalogue_fields: pd.DataFrame) -> Any:
    """The preparation of a run's catalogue; values, coverage, cleaning and uses of every field.

    Caption: Preparation of the data set and attributes of the catalogue as it was scored (n = {n_films}
        films): share of films with a value, number of values, labels changed by cleaning, and use in the
        study.
    Note: {n_films} films; dots: the use that is made of an attribute.
    """
    table = with_rows(catalogue_fields, ["field", "coverage", "values", "changed", "steps", *_USES])
    steps = str(table["steps"].iloc[0]).split("\n\n")
    deepest = max(step.count("\n") for step in steps)
    heights = [_LINE * (deepest + 2) + 0.2, 1.1 + 0.3 * len(table)]
    drawing, axes = style.figure(sum(heights), 2, 1, height_ratios=heights)
    _draw_steps(axes[0][0], steps)
    panel = axes[1][0]
    _draw_values(panel, table)
    columns = _columns(table)
    places = np.linspace(0.48, 0.96, len(columns))
    small = {"ha": "center", "va": "center", "fontsize": style.SMALL}
    for x, (title, texts) in zip(places, columns.items(), strict=True):
        for height, text in zip((-1.1, *range(len(table))), (title, *texts), strict=True):
            panel.text(x, height, text, transform=panel.get_yaxis_transform(), **small)
    return drawing


def _draw_values(panel: Any, table: pd.DataFrame) -> None:
    """A bar for each field, as long as it has distinct values, which take a third of the width."""
    values = table["values"]
    bars = panel.barh(table["field"], values, height=0.65, color="#0072B2", alpha=0.8)
    panel.bar_label(bars, map("{:,}".format, values), fontsize=style.SMALL, padding=2)
    most = max(10, values.max())
    ticks = [10**power for power in range(8) if 10**power <= most]
    panel.set_xscale("log")
    panel.set_xlim(1, most**3.1)
    panel.set_xticks(ticks, map("{:,}".format, ticks))
    panel.set_xlabel("distinct values", loc="left")
    panel.minorticks_off()
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(len(table) - 0.4, -1.6)


def _columns(table: pd.DataFrame) -> dict[str, list[str]]:
    """The texts beside the bars by the head of their column."""
    columns = {
        "films with\na value": [f"{100 * share:.3g} %" for share in table["coverage"]],
        "labels\ncleaned": [f"{int(n):,}" for n in table["changed"]],
    }
    for name, title in _USES.items():
        is_used = table[name].astype(bool)
        columns[title] = list(is_used.map({True: "●", False: "–"}))
    return columns


def _draw_steps(panel: Any, steps: list[str]) -> None:
    """Boxes from the left to the right with an arrow between two of them."""
    panel.set_axis_off()
    panel.set_xlim(0, len(steps))
    panel.set_ylim(0, 1)
    fill = _DATA
    boxes: list[Any] = []
    for index, step in enumerate(steps):
        boxes.append(_box(panel, (index + 0.5, 0.5), step.split("\n"), fill))
        fill = _CODE
    for start, end in itertools.pairwise(boxes):
        _arrow(panel, start, end)


@figure(title="When users change their minds")
def _experimental_design(shift_events: pd.DataFrame) -> Any:
    """When constraints change, by turn and type of shift, over the users of a run.

    Caption: Shifts by turn and type in the paired design of this run: {n_systems} systems meet the same n =
        {n_sessions} users over up to {n_turns} turns.
    Unpaired: Shifts by turn and type in the unpaired design of this run: {n_systems} systems, each with n =
        {n_sessions} users of its own over up to {n_turns} turns.
    """
    import seaborn as sns

    events = with_rows(shift_events, ["type", "turn", "n", "n_systems", "n_sessions", "n_turns"])
    types = [str(kind) for kind in events["type"].unique() if kind]
    shifts = events.astype({"type": str, "n": float})
    drawing, panel = style.single(2.4)
    bars = {"hue_order": types, "palette": style.colours(len(types)), "legend": bool(types)}
    look = {"multiple": "stack", "discrete": True, "shrink": 0.8, "linewidth": 0, "alpha": 1}
    sns.histplot(shifts, x="turn", weights="n", hue="type", ax=panel, **bars, **look)
    panel.set_xlabel("turn")
    panel.set_ylabel("shifts")
    panel.set_xlim(0.4, int(events["n_turns"].iloc[0]) + 0.6)
    for axis in (panel.xaxis, panel.yaxis):
        axis.get_major_locator().set_params(integer=True)
    if types:
        sns.move_legend(panel, "center left", bbox_to_anchor=(1, 0.5), title="type of shift")
    else:
        panel.text(0.5, 0.5, "no shift is logged", ha="center", va="center", transform=panel.transAxes)
    style.note(drawing, _size_of(events))
    return drawing


def _size_of(events: pd.DataFrame) -> str:
    """The small print under the design: systems, users, turns and shifts."""
    first = events.iloc[0]
    kind = "detected shifts a system" if first["type"] == DETECTED else "shifts"
    users = "every user counted once"
    if "paired" in events and not events["paired"].all():
        users = "own users each"
    size = f"{first['n_systems']} systems × {first['n_sessions']} users"
    n_shifts = int(events["n"].sum() + 1e-9)
    return f"{size} × up to {first['n_turns']} turns; {n_shifts:,} {kind}, {users}."
