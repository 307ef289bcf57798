"""How stable the ranking of systems is: over weights, conventions and sizes of the catalogue."""

from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, filled
from crs_lib.figures.pairs import signed
from crs_lib.metrics import base

_INTERVAL = ("metric", "tau", "low", "high", "n_systems", "n_sessions")
_MARKS = (
    ("#0072B2", "o", "-"), ("#D55E00", "s", (0, (4, 1.5))), ("#009E73", "^", (0, (1, 1))),
    ("#CC79A7", "D", (0, (5, 1, 1, 1))), ("#222222", "v", (0, (2, 1))),
)  # fmt: skip
_WEIGHTS = {"alpha": "S*", "beta": "N·S", "gamma": "leakage", "delta": "copying"}
_MADE_BY = "python -m crs_lib validity sensitivity --run {run}"
_SIZE = "{n_systems} systems, n = {n_sessions} sessions per system; 1 is the same order."
FEWEST_SCENARIOS = 50  # below, the intervals over sizes of the catalogue say nothing


@figure()
def sensitivity_weights(sensitivity_weights: pd.DataFrame) -> Any:
    """Tau over the simplex of weights: a staircase of cells for each weight of copying."""
    table = filled(sensitivity_weights, [*_WEIGHTS, "tau", "is_default", "n_systems", "n_sessions"])
    default = table["is_default"].astype(bool)
    grid, declared = table[~default], table[default].iloc[0]
    if grid["tau"].isna().all():
        raise NoDataError("a ranking needs at least two systems that recommend items")
    alphas = np.sort(grid["alpha"].unique())[::-1]
    wide = {
        delta: part.pivot_table(index="alpha", columns="beta", values="tau").reindex(alphas)
        for delta, part in grid.groupby("delta")
    }
    ratios = [cells.shape[1] for cells in wide.values()]
    made, axes = style.figure(2.6, 1, len(wide), sharey=True, width_ratios=ratios)
    for panel, (delta, cells) in zip(axes[0], wide.items(), strict=True):
        values = cells.to_numpy(dtype=float)
        image = style.cells(panel, values, [[signed(value) for value in row] for row in values])
        panel.set_xticks(range(cells.shape[1]), [f"{beta:g}" for beta in cells.columns])
        panel.set_title(f"copying {delta:g}", fontsize=style.SMALL)
    axes[0][0].set_yticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
    axes[0][0].set(ylabel="weight of S*", xlabel="weight of N·S")
    made.colorbar(image, ax=list(axes[0]), label="Kendall's τ", fraction=0.03, pad=0.02, ticks=[0, 0.5, 1])
    weights = ", ".join(f"{name} {declared[column]:g}" for column, name in _WEIGHTS.items())
    size = _SIZE.format(n_systems=int(declared["n_systems"]), n_sessions=int(declared["n_sessions"]))
    style.note(
        made,
        f"Kendall's τ to the declared weights ({weights}); the four weights sum to 1, leakage has the rest; "
        f"{size}",
    )
    return made


@figure(made_by=_MADE_BY)
def sensitivity_choices(sensitivity_choices: pd.DataFrame) -> Any:
    """Tau by setting, a panel for each choice of the convention, a mark for each metric."""
    table = filled(sensitivity_choices, ["choice", "setting", *_INTERVAL]).astype({"setting": str})
    kinds = {str(kind): part for kind, part in table.groupby("choice", sort=False)}
    sizes = [part["setting"].nunique() for part in kinds.values()]
    made, axes = style.figure(2.9, 1, len(kinds), sharey=True, width_ratios=sizes)
    for panel, (kind, part) in zip(axes[0], kinds.items(), strict=True):
        order = list(dict.fromkeys(part["setting"]))
        _marks(panel, part, "setting", order, 0.13)
        panel.set_xticks(range(len(order)), [name.replace("/", "/\n") for name in order])
        panel.set(xlim=(-0.5, len(order) - 0.5), xlabel=kind.replace(", ", "\n"))
    axes[0][0].set_ylabel("Kendall's τ to the default")
    _legend(made, table)
    return made


@figure(made_by=f"{_MADE_BY} --sessions {FEWEST_SCENARIOS}")
def sensitivity_catalogue(sensitivity_catalogue: pd.DataFrame) -> Any:
    """Tau by the share of the films that are kept, a line for each metric.

    NoDataError for fewer than :data:`FEWEST_SCENARIOS`, whose intervals span most of the scale.
    """
    table = filled(sensitivity_catalogue, ["share", "films", *_INTERVAL])
    if (n := int(table["n_sessions"].max())) < FEWEST_SCENARIOS:
        few = f"the ranking was simulated anew on {n} scenarios; at least {FEWEST_SCENARIOS} are needed"
        raise NoDataError(few)
    films = table.drop_duplicates("share").set_index("share")["films"].sort_index()
    made, panel = style.single(2.9)
    _marks(panel, table, "share", list(films.index), 0.08, line=True)
    panel.set_xticks(range(len(films)), [f"{share:.0%}\n{n:,} films" for share, n in films.items()])
    panel.set(xlabel="share of the catalogue", ylabel="Kendall's τ to the whole catalogue")
    _legend(made, table)
    return made


def _marks(
    panel: Any, table: pd.DataFrame, by: str, order: list[Any], apart: float, *, line: bool = False
) -> None:
    """Tau with its interval at each value of ``by``, in order, the metrics beside one another."""
    metrics = list(dict.fromkeys(table["metric"]))
    for number, (name, (colour, marker, dashes)) in enumerate(zip(metrics, _MARKS * 3, strict=False)):
        part = table[table["metric"] == name]
        at = part[by].map(order.index) + apart * (number - (len(metrics) - 1) / 2)
        panel.vlines(at, part["low"], part["high"], color=colour, linewidth=1.3)
        look = {"linestyle": dashes, "linewidth": 0.8} if line else {"linestyle": "none"}
        panel.plot(at, part["tau"], marker, color=colour, markersize=4.5, **look)
    panel.axhline(1, color=style.FAINT, linewidth=0.6, zorder=0)
    panel.grid(axis="y")


def _legend(made: Any, table: pd.DataFrame) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="none", label=style.short(name))
        for name, (colour, marker, _) in zip(dict.fromkeys(table["metric"]), _MARKS * 3, strict=False)
    ]
    made.legend(handles=handles, loc="outside upper center", ncols=min(5, len(handles)))


_COLUMNS = (
    "a", "b", "effect", "sessions", "power", "outcome", "smallest", "target", "n", "sd_difference", "alpha",
    "n_sessions", "n_systems", "n_contrasts",
)  # fmt: skip
_LOOKS = (("#56B4E9", (0, (1, 1))), ("#0072B2", "-"), ("#222222", (0, (4, 1.5))))
_TICKS = (5, 20, 100, 500, 2000)
MOST_CONTRASTS = 16
_ONE_LINE, _LONG = 20, 16  # letters: of two names in one line of a title; of a name that takes a wider panel


@figure()
def power_curve(power: pd.DataFrame) -> Any:
    """Power by number of scenarios, a panel for each contrast, a line for each size of the difference.

    At most :data:`MOST_CONTRASTS` panels: the first contrasts, in the table's order.
    """
    facts = filled(power, _COLUMNS).iloc[0]
    every = list(power.groupby(["a", "b"], sort=False))
    contrasts = every[:MOST_CONTRASTS]
    systems = list(dict.fromkeys(name for pair, _ in contrasts for name in pair))
    names = dict(zip(systems, style.labels(systems, 20), strict=True))
    wide = 4 if max(map(len, names.values())) < _LONG else 3
    shared = {"sharex": True, "sharey": True}
    made, axes = style.panels(len(contrasts), wide, lambda rows: 1.0 + 1.3 * rows, **shared)
    for panel, ((a, b), part) in zip(axes.flat, contrasts, strict=False):
        apart = " " if len(names[a] + names[b]) <= _ONE_LINE else "\n"
        spread = f"SD {part['sd_difference'].iloc[0]:.2g}"
        panel.set_title(f"{names[a]}{apart}− {names[b]}\n{spread}", fontsize=style.SMALL)
        for (effect, mine), (colour, dashes) in zip(part.groupby("effect"), _LOOKS * 3, strict=False):
            matters = ", the smallest that matters" if effect == facts["smallest"] else ""
            look = {"color": colour, "linestyle": dashes, "label": f"difference {effect:g}{matters}"}
            panel.plot(mine["sessions"], mine["power"], clip_on=False, **look)
        for draw, at in ((panel.axhline, facts["target"]), (panel.axvline, part["n"].iloc[0])):
            draw(at, color=style.FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
        panel.set(xscale="log", ylim=(0, 1.0))
        panel.set_xticks([n for n in _TICKS if n <= power["sessions"].max()])
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.set_xticks([], minor=True)
        panel.grid(axis="y")
    for lowest in axes.flat[max(0, len(contrasts) - axes.shape[1]) : len(contrasts)]:
        lowest.xaxis.set_tick_params(labelbottom=True)
        lowest.set_xlabel("scenarios")
    for row in axes:
        row[0].set_ylabel(f"power, {base.get(str(facts['outcome'])).short}")
    made.legend(*axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    left, n = len(every) - len(contrasts), int(facts["n_sessions"])
    words = f"Level {facts['alpha']:.3g}; dotted: the {n} scenarios of this run and the planned power."
    style.note(made, words + (f" {left} further contrasts: see the table." if left else ""))
    return made


@figure(made_by="python -m crs_lib validity gate --redteam --run {run}")
def exploitability(redteam: pd.DataFrame) -> Any:
    """The largest rise of each metric without use to the user, the most exploitable on top."""
    filled(redteam, ["metric", "exploitability", "near_misses", "n_policies", "n_sessions"])
    table = redteam.sort_values(["exploitability", "near_misses", "metric"], na_position="first")
    made, panel = style.single(1.0 + 0.19 * len(table))
    places, look = range(len(table)), {"color": style.INK, "clip_on": False}
    hollow = {"mfc": "white", "mec": style.INK, "mew": 0.9, "ms": 6, "zorder": 1}
    panel.hlines(places, 0, table["exploitability"], color=style.INK, linewidth=1.4)
    panel.plot(table["exploitability"], places, "o", ms=4, label="useless", **look)
    panel.plot(table["near_misses"], places, "o", label="near misses", **look, **hollow)
    panel.axvline(0.1, color=style.FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
    panel.set_yticks(places, [base.get(name).short for name in table["metric"]])
    panel.set_ylabel("metric")
    panel.set(xlabel="rise above silence and chance", xlim=(0, None), ylim=(-0.7, len(table) - 0.3))
    panel.grid(axis="x")
    made.legend(loc="outside upper center", ncols=2)
    return made
