"""Diagrams of the design, drawn by code: the system, the data's way, the experiment."""

from typing import Any

from crs_lib.figures import style
from crs_lib.figures.base import FIGURES

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
            self.text((x0 + x1) / 2, (y0 + y1) / 2 + shift, text, color=style.FAINT)


@FIGURES.register(
    "system_overview",
    place=1,
    study="movies",
    tables=(),
    caption="A session: a scenario fixes what the user wishes and when it changes; user and system talk turn "
    "by turn; the log keeps the true wishes, against which concepts and recommended items are scored.",
)
def system_overview() -> Any:
    """Who speaks to whom in a session, and what is scored against what."""
    board = Board(8.6)
    board.box(
        0.2, 6.3, 4.2, 2.0, "Catalogue", "films and their concepts\n(genre, actor, director, …)", "data"
    )
    board.box(5.9, 6.3, 4.2, 2.0, "Scenario", "goal, wishes, shifts,\nfixed by seed and session", "truth")
    board.box(11.6, 6.3, 4.2, 2.0, "Log", "wishes in force, shifts\n(the ground truth)", "truth")
    board.arrow((4.4, 7.3), (5.9, 7.3), text="anchors")
    board.arrow((10.1, 7.3), (11.6, 7.3), text="logged")
    board.box(5.9, 3.3, 4.2, 2.0, "Simulated user", "asks, refines, shifts;\nreads the replies")
    board.box(0.2, 3.3, 4.2, 2.0, "System under test", "tracks wishes, retrieves,\nwords a reply")
    board.arrow((8.0, 6.3), (8.0, 5.3))
    board.arrow((2.3, 6.3), (2.3, 5.3))
    board.arrow((5.9, 4.7), (4.4, 4.7), text="utterance")
    board.arrow((4.4, 3.9), (5.9, 3.9), text="reply", shift=-0.26)
    board.box(0.2, 0.3, 4.2, 2.0, "Grounding", "concepts in the texts,\nitems behind the titles")
    board.box(5.9, 0.3, 4.2, 2.0, "Turn scores", "TAS = CC + CR − I\nitem TAS: S*, N, L, copying", "score")
    board.box(
        11.6, 0.3, 4.2, 2.0, "Session and model", "recovery after shifts,\nmeans with intervals", "score"
    )
    board.arrow((2.3, 3.3), (2.3, 2.3))
    board.arrow((7.0, 3.3), (7.0, 2.8), (3.4, 2.8), (3.4, 2.3))
    board.arrow((4.4, 1.3), (5.9, 1.3))
    board.arrow((10.1, 1.3), (11.6, 1.3))
    board.arrow((13.7, 6.3), (13.7, 2.3))
    board.arrow((13.7, 2.8), (9.0, 2.8), (9.0, 2.3))
    board.text(12.0, 3.05, "wishes in force", color=style.FAINT)
    return board.made


_STAGES = (
    ("01 Catalogue", "clean, merge,\nreport changes", "cleaning report"),
    ("02 Grounding", "concepts in text,\nwith spans", "audit of matches"),
    ("03 Simulate", "systems × users,\npaired by seed", "catalog.parquet\ndialogues.jsonl\nledger.sqlite"),
    (
        "04 Evaluate", "turns, shifts,\nsessions, models",
        "turns.parquet\nshifts.parquet\nresults.jsonl\nmodel_metrics.csv",
    ),
    ("05, 06 Analyse", "tests, intervals,\nfigures, tables", "PNG, PDF,\nLaTeX tables"),
)  # fmt: skip


@FIGURES.register(
    "dataset_pipeline",
    place=2,
    study="movies",
    tables=(),
    caption="Data flow one way through the notebooks: a later stage reads files of an earlier one and never "
    "calls back; the manifest carries parameters, seeds and the hashes of all files.",
)
def dataset_pipeline() -> Any:
    """Stages and their files: from a catalogue to figures and tables."""
    board = Board(7.9)
    board.box(0.2, 6.3, 6.0, 1.3, "Source", "own sample, or OpenDialKG form", "data")
    board.arrow((1.6, 6.3), (1.6, 5.5))
    board.box(
        6.6, 6.3, 9.2, 1.3, "manifest.json", "parameters, seeds, versions, hashes of all files", "truth"
    )
    for place, (name, what, files) in enumerate(_STAGES):
        x = 0.2 + 3.2 * place
        board.box(x, 3.5, 2.8, 2.0, name, what)
        board.arrow((x + 1.4, 3.5), (x + 1.4, 2.5))
        board.box(x, 0.3, 2.8, 2.2, "", files, "data")
        if place:
            board.arrow((x - 0.4, 4.5), (x, 4.5))
        if place in (2, 3):
            board.arrow((x + 1.4, 5.5), (x + 1.4, 6.3))
    return board.made


_ENDS = (
    ("What is measured", "item TAS, its parts,\nrecovery after shifts,\nplain TAS beside them", "score"),
    ("Within a scenario", "differences of systems:\nWilcoxon, sign flips,\nHolm, effect sizes", "code"),
    ("Over scenarios", "means with bootstrap\nintervals, ranks,\ncritical differences", "code"),
    ("Sanity of a score", "oracle above tracker,\ntracker above chance,\necho not rewarded", "truth"),
)
_CONTROLS = ("oracle", "tracker", "amnesiac", "sticky", "popular", "random", "slot_echo", "echo")


@FIGURES.register(
    "experimental_design",
    place=3,
    study="movies",
    tables=(),
    caption="The paired design: every system meets the same users, so that each scenario is its own control; "
    "the scenario is the unit of inference. Controls with a known order show what a score rewards.",
)
def experimental_design() -> Any:
    """Scenarios by systems, what varies, and what is compared."""
    board = Board(8.6)
    types = "wishes, wording, shifts:\nrefine, switch, replace,\nrelax, contradict, return"
    board.box(0.2, 5.7, 4.0, 2.6, "Scenario", f"seed and number fix\n{types}", "truth")
    board.arrow((4.2, 7.0), (4.8, 7.0))
    for place, (name, look) in enumerate(style.looks(_CONTROLS).items()):
        x = 6.45 + 1.24 * place
        board.text(x, 8.15 if place % 2 else 7.83, name)
        for row in range(4):
            board.axes.plot(x, 7.3 - 0.45 * row, look.marker, color=look.colour, ms=1.3 * look.size)
    for row, text in enumerate(("user 1", "user 2", "…", "user n")):
        board.text(5.4, 7.3 - 0.45 * row, text)
    board.text(10.3, 5.45, "a row is a scenario: every system meets the same user", color=style.FAINT)
    for place, (head, text, kind) in enumerate(_ENDS):
        board.box(0.2 + 3.95 * place, 2.0, 3.75, 2.3, head, text, kind)
        board.arrow((2.075 + 3.95 * place, 5.0), (2.075 + 3.95 * place, 4.3))
    board.axes.plot([2.075, 13.925], [5.0, 5.0], color=style.INK, linewidth=1)
    plan = "primary outcome, contrasts, families of tests, smallest effect that matters, number of scenarios"
    board.box(0.2, 0.3, 15.6, 1.2, "Fixed beforehand", plan)
    return board.made
