"""One look for every figure: thesis width, fonts, and a colour, marker and line for each system.

Colours follow Okabe and Ito (2008), who chose them to be distinguished by colour-blind readers; markers, line
styles and direct labels tell the systems apart in grey.
"""

import io
import textwrap
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crs_lib.core import tables
from crs_lib.core.text import one_line
from crs_lib.metrics import base

TEXT_WIDTH = 16 / 2.54  # inches: the width of the thesis's text
SMALL = 8.0  # points; nothing is printed smaller
INK, FAINT, GRID = "#222222", "#666666", "#DDDDDD"
NOTEBOOK_DPI, PRINT_DPI = 130, 300
STYLE = Path(__file__).with_name("thesis.mplstyle")
_PLAIN = ("oracle", "tracker")  # systems that are drawn with their own marker, with or without an argument
_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # of red, green and blue
NO_GLYPH = r"Glyph .* missing from|Matplotlib currently does not support"  # warnings: a box is drawn then
_DARK = {INK: "#E6E8EB", "#000000": "#FFFFFF", FAINT: "#9AA1AB", GRID: "#34393F", "#FFFFFF": "#16181B"}


class Look(NamedTuple):
    """How a system is drawn wherever it occurs."""

    colour: str
    marker: str
    line: Any

    @property
    def size(self) -> float:
        """Marker size in points that makes the shapes equally visible."""
        return {"*": 7.5, "P": 5.5, "X": 5.5}.get(self.marker, 4.5)


@cache
def _declared() -> dict[str, Any]:
    """The looks of systems, cycles and fonts that ``looks.toml`` declares."""
    return tomllib.loads(STYLE.with_name("looks.toml").read_text(encoding="utf-8"))


def _look(colour: str, marker: str, line: str) -> Look:
    """A look whose line is named: solid, or a pattern of dashes."""
    dashes = _declared()["dashes"].get(line)
    if dashes is None:
        return Look(colour, marker, "-")
    return Look(colour, marker, (0, tuple(dashes)))


def colours(count: int) -> list[str]:
    """So many colours of the cycle, which begins anew after fourteen."""
    cycle = _declared()["colours"]
    return [cycle[number % len(cycle)] for number in range(count)]


def looks(systems: Iterable[str]) -> dict[str, Look]:
    """The look of each system, in their order.

    It is declared for the control policies, whose variants (``noisy:0.3``) share the colour; others take
    colours and markers from fixed cycles in the order of their names.
    """
    names = list(dict.fromkeys(systems))
    declared = _declared()["systems"]
    looks = {}
    variants: Counter[str] = Counter()
    n_others = 0
    for name in sorted(names):
        kind = name.partition(":")[0]
        if name in declared:
            looks[name] = _look(*declared[name])
        elif kind in declared:
            variants[kind] += 1
            looks[name] = _variant(kind, variants[kind])
        else:
            looks[name] = _cycled(n_others)
            n_others += 1
    return {name: looks[name] for name in names}


def _cycled(number: int) -> Look:
    """The look by its number in the cycles of colours, markers and lines."""
    cycles = _declared()
    n_colours = len(cycles["colours"])
    markers = cycles["markers"]
    lines = cycles["lines"]
    line = lines[number // n_colours % len(lines)]
    return _look(cycles["colours"][number % n_colours], markers[number % len(markers)], line)


def _variant(kind: str, number: int) -> Look:
    """The look of a variant of a policy: its colour, and a marker by the number, the first its own."""
    look = _look(*_declared()["systems"][kind])
    if kind not in _PLAIN:
        number -= 1
    markers = list(dict.fromkeys((look.marker, *_declared()["markers"])))
    return look._replace(marker=markers[number % len(markers)])


def fonts() -> list[str]:
    """DejaVu Sans, and the fonts of this machine for letters that it lacks; boxes are drawn without."""
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    wide = [name for name in _declared()["fonts"] if name in installed]
    return ["DejaVu Sans", *wide]


def titled(metric: str) -> str:
    """Short name with an arrow to where it is better, "item TAS ↑"; a dagger says: not valid for ranking."""
    facts = base.get(metric)
    arrows = {base.HIGHER: " ↑", base.LOWER: " ↓"}
    return facts.label + arrows.get(facts.direction, "")


def labels(names: Sequence[str], width: int = 22) -> list[str]:
    """The names as an axis holds them: control characters as escapes; long ones lose the backend, then a
    piece; no two become the same.
    """
    lines = [one_line(name).replace("\t", "\\t") for name in names]
    n_names = len(set(lines))
    if max(map(len, lines), default=0) > width:
        bare = [_without_backend(line) for line in lines]
        if len(set(bare)) == n_names:
            lines = bare
    for tail in (width // 2, width // 4, 1, 3 * width // 4):
        shortened = [_cut(line, width, tail) for line in lines]
        if len(set(shortened)) == n_names:
            return shortened
    return labels(lines, width + 8)


def _without_backend(name: str) -> str:
    return name.partition(":")[2] if name.count(":") > 1 else name


def _cut(name: str, width: int, tail: int) -> str:
    """A name of at most so many letters, the last ``tail`` of them kept."""
    if len(name) <= width:
        return name
    return f"{name[: width - 1 - tail]}…{name[-tail:]}"


@contextmanager
def applied() -> Iterator[None]:
    """Draw in this style whatever the session's settings are, which come back afterwards."""
    from matplotlib import style

    own_style = style.context(["default", STYLE, {"font.family": fonts()}])
    with own_style, warnings.catch_warnings():
        warnings.filterwarnings("ignore", NO_GLYPH)
        yield


def figure(height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure of text width and ``height`` inches with its axes (rows, columns); options as ``subplots``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(TEXT_WIDTH, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing, drawing.subplots(rows, columns, squeeze=False, **options)


def single(height: float) -> tuple[Any, Any]:
    """A figure of one panel, and that panel."""
    drawing, axes = figure(height)
    return drawing, axes[0][0]


def note(drawing: Any, text: str) -> None:
    """One or two small lines under the figure: what the marks mean, and n; last what a dagger means."""
    from matplotlib.text import Text

    printed = {label.get_text() for label in drawing.findobj(Text)}
    if base.DAGGER in "".join(printed):
        text += f" {base.DAGGER} {base.NOT_VALID}."
    lines = textwrap.fill(text.replace(" %", "\u00a0%"), 110)
    look = {"fontsize": SMALL, "color": FAINT}
    drawing.supxlabel(lines, x=0.01, ha="left", **look)


def legend(drawing: Any, systems: Sequence[str], *, lines: bool = True) -> None:
    """The systems' markers above the figure, in rows, each on its line where the figure has ``lines``."""
    from matplotlib.lines import Line2D

    names = labels(systems)
    handles = []
    for look, name in zip(looks(systems).values(), names, strict=True):
        line = look.line if lines else "none"
        handles.append(Line2D([], [], linestyle=line, label=name, **marked(look)))
    longest = max(map(len, names))
    fitting = int(100 / (longest + 8))
    columns = max(2, min(len(handles), 6, fitting))
    length = 2.6 if lines else 1
    drawing.legend(handles=handles, loc="outside upper center", ncols=columns, handlelength=length)


def marked(look: Look) -> dict[str, Any]:
    """The keywords of matplotlib that draw a system's marker."""
    return {"color": look.colour, "marker": look.marker, "markersize": look.size}


def mark(axes: Any, x: Any, y: Any, look: Look, **keywords: Any) -> None:
    """A system's marker at one or more points, joined by no line; further keywords are matplotlib's."""
    axes.plot(x, y, **{"linestyle": "none", **marked(look), **keywords})


def interval(
    axes: Any, at: float, low: float, high: float, colour: str, *, caps: float = 0.0, linewidth: float = 1.3
) -> None:
    """A horizontal interval at a height, with ends so tall; nothing where it is not defined."""
    if np.isnan(low) or np.isnan(high):
        return
    line = {"color": colour, "linewidth": linewidth, "solid_capstyle": "butt"}
    axes.plot([low, high], [at, at], **line)
    if caps:
        for end in (low, high):
            axes.plot([end, end], [at - caps, at + caps], **line)


def estimate(
    axes: Any, at: float, row: Mapping[str, Any], look: Look, *, caps: float = 0.2, **keywords: Any
) -> None:
    """A mean with its interval at a height: the columns ``mean``, ``low`` and ``high`` of a row."""
    interval(axes, at, row["low"], row["high"], look.colour, caps=caps)
    mark(axes, row["mean"], at, look, **keywords)


def dots(axes: Any, row: float, systems: Sequence[str], ends: Mapping[str, Mapping[str, float]]) -> None:
    """The systems' means with intervals, one below another around a row; ``ends`` are mean, low and high."""
    for step, (name, look) in enumerate(looks(systems).items()):
        if name not in ends:
            continue
        share = (step + 0.5) / len(systems)
        at = row + 0.8 * (share - 0.5)
        interval(axes, at, ends[name]["low"], ends[name]["high"], look.colour, linewidth=1.0)
        mark(axes, ends[name]["mean"], at, look, markersize=0.7 * look.size)


def band(axes: Any, x: Any, rows: Any, look: Look) -> None:
    """A line through the means of some rows, with the band of their intervals."""
    axes.fill_between(x, rows["low"], rows["high"], color=look.colour, alpha=0.15, linewidth=0)
    mark(axes, x, rows["mean"], look, linestyle=look.line)


def zero(axes: Any, **line: Any) -> None:
    """A faint upright line at 0."""
    axes.axvline(0, color=FAINT, **{"linewidth": 0.6, **line})


def beside(axes: Any, at: float, text: str) -> None:
    """Small text at a height, right of the panel."""
    axes.text(1.02, at, text, transform=axes.get_yaxis_transform(), va="center", fontsize=SMALL)


def across(axes: Any, title: str, bins: int, **text: Any) -> None:
    """The title, grid and about so many ticks of a panel whose values lie across."""
    axes.set_title(title, **text)
    axes.grid(axis="x")
    axes.locator_params(axis="x", nbins=bins)


def name_rows(axes: Any, names: Sequence[str]) -> None:
    """Names beside the rows of panels that share their heights, first on top."""
    panels = np.ravel(axes)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    for panel in panels:
        panel.tick_params(axis="y", length=0)


def panels(count: int, columns: int, height: Callable[[int], float], **options: Any) -> tuple[Any, Any]:
    """A figure of so many panels, at most ``columns`` side by side, ``height(rows)`` inches high."""
    n_columns = min(columns, count)
    n_rows = -(-count // n_columns)
    drawing, axes = figure(height(n_rows), n_rows, n_columns, **options)
    for panel in axes.flat[count:]:
        panel.set_visible(False)
    return drawing, axes


def cells(axes: Any, values: Any, texts: Any, *, dark: float = 0.55, **heatmap: Any) -> Any:
    """A matrix as a heatmap with a text in each cell, light on values beyond ``dark``; returns the colours.

    Undefined cells stay empty. Further keywords are seaborn's (cmap, vmin, vmax, linewidths, annot_kws).
    """
    import seaborn as sns

    options = {"cmap": "Blues", "vmin": 0, "vmax": 1, "alpha": 0.85, "cbar": False, **heatmap}
    options["annot_kws"] = {"fontsize": SMALL, **options.get("annot_kws", {})}
    sns.heatmap(values, annot=texts, fmt="", mask=np.isnan(values), ax=axes, **options)
    shades = values[~np.isnan(values)]
    for text, value in zip(axes.texts, shades, strict=True):
        text.set_color("white" if abs(value) > dark else INK)
    axes.tick_params(which="both", length=0)
    return axes.collections[0]


def scale(drawing: Any, colours: Any, panel: Any, label: str, **options: Any) -> None:
    """The scale of colours beside a panel or a list of them."""
    options = {"fraction": 0.03, "pad": 0.02, **options}
    bar = drawing.colorbar(colours, ax=panel, label=label, **options)
    bar.outline.set_linewidth(0.6)


def data(drawing: Any, kind: str, dpi: int) -> bytes:
    """The figure as a file's bytes, ``png`` or ``pdf``: the same figure gives the same bytes."""
    unsaid = ["Software"] if kind == "png" else ["Creator", "Producer", "CreationDate"]
    metadata = dict.fromkeys(unsaid)
    paper = drawing.get_facecolor()
    out = io.BytesIO()
    with applied():
        drawing.savefig(out, format=kind, dpi=dpi, metadata=metadata, facecolor=paper)
    return out.getvalue()


def darken(drawing: Any) -> None:
    """Turn a figure's ink, greys and paper into those of dark pages; a system's colour keeps its hue."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.text import Text

    drawing.canvas.draw()  # makes the ticks; those that saving at another size adds take the axis's colours
    ticks = {"color": _DARK[INK], "labelcolor": _DARK[INK], "grid_color": _DARK[GRID]}
    for panel in drawing.axes:
        panel.xaxis.set_tick_params(**ticks)
        panel.yaxis.set_tick_params(**ticks)
    for line in drawing.findobj(Line2D):
        face = _dark(line.get_markerfacecolor())  # before the line's colour, which it may follow
        edge = _dark(line.get_markeredgecolor())
        line.set_color(_dark(line.get_color()))
        line.set_markerfacecolor(face)
        line.set_markeredgecolor(edge)
    for patch in drawing.findobj(Patch):
        face = _dark(patch.get_facecolor())
        edge = _dark(patch.get_edgecolor())
        patch.set_facecolor(face)
        patch.set_edgecolor(edge)
    for text in drawing.findobj(Text):
        text.set_color(_dark(text.get_color()))


def _dark(colour: Any) -> Any:
    """A colour as dark pages have it: ink and paper change places, others are lit."""
    from matplotlib.colors import to_hex, to_rgba

    if isinstance(colour, str) and colour == "none":
        return colour
    shade = to_hex(colour).upper()
    if shade not in _DARK and shade in _DARK.values():  # turned already
        return colour
    return to_rgba(_DARK.get(shade) or _lit(colour), to_rgba(colour)[3])


def _lit(colour: Any) -> Any:
    """The colour, mixed with as much white as gives it a contrast of 3 to dark paper (WCAG 2.1, graphics)."""
    from matplotlib.colors import to_rgb

    rgb = np.array(to_rgb(colour))
    for white in np.arange(10) / 10:
        mixed = rgb + (1 - rgb) * white
        if mixed**2.2 @ _LUMINANCE > 0.13:
            break
    return mixed


def write(drawing: Any, path: Path, *, dark: bool = False) -> Path:
    """Write a figure atomically in its suffix's format; ``dark`` turns the figure itself dark first."""
    if dark:
        darken(drawing)
    return tables.write_whole(path, data(drawing, path.suffix.removeprefix("."), PRINT_DPI))
