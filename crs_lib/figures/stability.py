"""How much power a run has, and how stable the ranking of systems is over the weights of item TAS."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, with_rows
from crs_lib.figures.pairs import signed
from crs_lib.metrics import base
from crs_lib.metrics.conventions import ItemWeights

_COLUMNS = ("a", "b", "effect", "sessions", "power", "outcome", "smallest", "target", "n", "sd_difference")
_RUN_COLUMNS = ("alpha", "n_sessions", "n_systems", "n_contrasts")
_LINES = (
    ("#56B4E9", (1, 1)),
    ("#0072B2", ""),
    ("#222222", (4, 1.5)),
)  # colour and dashes by size of a difference
_TICKS = (5, 20, 100, 500, 2000)
MOST_CONTRASTS = 16
_ONE_LINE = 20  # characters of two names in one line of a title
_LONG = 16  # characters of a name that takes a wider panel


@figure(title="Power")
def _power_curve(power: pd.DataFrame) -> Any:
    """Power by number of scenarios, a panel for each contrast, a line for each size of the difference.

    At most 16 panels: the first contrasts, in the table's order.

    Caption: Power of each of {n_contrasts} contrasts by number of scenarios and size of the difference:
        tests of means at Holm's strictest level, by samples drawn from each contrast's own paired
        differences (n = {n_sessions} scenarios, {n_systems} systems).
    """
    facts = with_rows(power, [*_COLUMNS, *_RUN_COLUMNS]).iloc[0]
    contrasts = list(power.groupby(["a", "b"], sort=False))
    shown = contrasts[:MOST_CONTRASTS]
    names = _short_names([pair for pair, _ in shown])
    columns = 4 if max(map(len, names.values())) < _LONG else 3
    drawing, axes = style.panels(len(shown), columns, lambda rows: 1.0 + 1.3 * rows, sharex=True, sharey=True)
    for panel, ((a, b), rows) in zip(axes.flat, shown, strict=False):
        _power_lines(panel, rows)
        title = _contrast_title(names[a], names[b])
        panel.set_title(f"{title}\nSD {rows['sd_difference'].iloc[0]:.2g}", fontsize=style.SMALL)
        _power_axes(panel, power["sessions"].max())
    first_lowest = max(0, len(shown) - axes.shape[1])
    for lowest in axes.flat[first_lowest : len(shown)]:
        lowest.xaxis.set_tick_params(labelbottom=True)
        lowest.set_xlabel("scenarios")
    for row in axes:
        row[0].set_ylabel("power")
    lines, labels = _size_legend(axes[0][0], power, facts["smallest"])
    drawing.legend(lines, labels, loc="outside upper center", ncols=3)
    outcome = base.get(str(facts["outcome"])).short
    text = f"Outcome: {outcome}; level {facts['alpha']:.3g}; dotted: "
    text += f"the {int(facts['n_sessions'])} scenarios of this run and the planned power."
    n_more = len(contrasts) - len(shown)
    if n_more:
        text += f" {n_more} further contrasts: see the table."
    style.note(drawing, text)
    return drawing


def _short_names(contrasts: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The systems of some contrasts with the names that titles have room for."""
    systems = list(dict.fromkeys(itertools.chain.from_iterable(contrasts)))
    return dict(zip(systems, style.labels(systems, 20), strict=True))


def _contrast_title(a: str, b: str) -> str:
    """Two names with a minus between them, in two lines where one is too short."""
    apart = " " if len(a + b) <= _ONE_LINE else "\n"
    return f"{a}{apart}− {b}"


def _power_axes(panel: Any, most: int) -> None:
    """The axes of a panel: scenarios up to the most, power from 0 to 1."""
    panel.set_xscale("log")
    panel.set_ylim(0, 1.0)
    panel.set_xlabel("")
    panel.set_ylabel("")
    panel.set_xticks([n for n in _TICKS if n <= most])
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.set_xticks([], minor=True)
    panel.grid(axis="y")


def _power_lines(panel: Any, rows: pd.DataFrame) -> None:
    """The power of a contrast by its size, and the planned power at the scenarios of the run."""
    import seaborn as sns

    effects = sorted(rows["effect"].unique())
    cycle = itertools.islice(itertools.cycle(_LINES), len(effects))
    colours, dashes = zip(*cycle, strict=True)
    sizes = {"hue": "effect", "style": "effect", "hue_order": effects, "style_order": effects}
    look = {"palette": list(colours), "dashes": list(dashes), "legend": False, "clip_on": False}
    sns.lineplot(rows, x="sessions", y="power", errorbar=None, ax=panel, **sizes, **look)
    dotted = {"color": style.FAINT, "linewidth": 0.8, "linestyle": (0, (2, 2))}
    panel.axhline(rows["target"].iloc[0], **dotted)
    panel.axvline(rows["n"].iloc[0], **dotted)


def _size_legend(panel: Any, power: pd.DataFrame, smallest: float) -> tuple[list[Any], list[str]]:
    """The lines of a panel and what they stand for."""
    names = []
    for effect in sorted(power["effect"].unique()):
        matters = ", the smallest that matters" if effect == smallest else ""
        names.append(f"difference {effect:g}{matters}")
    return panel.lines[: len(names)], names


_WEIGHTS = {
    "alpha": "net satisfaction",
    "beta": "novelty × satisfaction",
    "gamma": "leakage",
    "delta": "copying",
}
_STEPS = 4  # equal shares of 1 that the weights are made of


@figure(title="Sensitivity to weights")
def _sensitivity_weights(sensitivity_weights: pd.DataFrame) -> Any:
    """Tau over the simplex of weights: a staircase of cells for each weight of copying.

    Caption: Rank stability over the weights of item TAS: Kendall's τ between the ranking of {n_systems}
        systems under each weighting and under the declared one (n = {n_sessions} sessions per system).
    """
    table = with_rows(sensitivity_weights, [*_WEIGHTS, "tau", "is_default", "n_systems", "n_sessions"])
    default = table["is_default"].astype(bool)
    grid = table[~default]
    if grid["tau"].isna().all():
        raise NoDataError("a ranking needs at least two systems that recommend items")
    alphas = np.sort(grid["alpha"].unique())[::-1]
    stairs = {}
    for delta, part in grid.groupby("delta"):
        stairs[delta] = part.pivot_table(index="alpha", columns="beta", values="tau").reindex(alphas)
    ratios = [stair.shape[1] for stair in stairs.values()]
    drawing, axes = style.figure(2.6, 1, len(stairs), sharey=True, width_ratios=ratios)
    for panel, (delta, stair) in zip(axes[0], stairs.items(), strict=True):
        colours = style.cells(panel, stair.to_numpy(float), stair.map(signed))
        panel.set_xticklabels(map("{:g}".format, stair.columns))
        panel.set_title(f"copying {delta:g}", fontsize=style.SMALL)
    first = axes[0][0]
    first.set_yticklabels(map("{:g}".format, alphas), rotation=0)
    first.set_ylabel("weight of net satisfaction")
    first.set_xlabel("weight of novelty × satisfaction")
    style.scale(drawing, colours, list(axes[0]), "Kendall's τ", ticks=[0, 0.5, 1])
    style.note(drawing, _declared_weights(table[default].iloc[0]))
    return drawing


def _declared_weights(row: pd.Series) -> str:
    weights = ", ".join([f"{name} {row[column]:g}" for column, name in _WEIGHTS.items()])
    size = f"{int(row['n_systems'])} systems, n = {int(row['n_sessions'])} sessions per system"
    sums = "the four weights sum to 1, leakage has the rest"
    return f"Kendall's τ to the declared weights ({weights}); {sums}; {size}; 1 is the same order."


def weightings() -> list[ItemWeights]:
    """Every weighting of the four parts of item TAS in quarters of 1 with some weight on S*."""
    shares = [step / _STEPS for step in range(_STEPS + 1)]
    grid = []
    for weighting in itertools.product(shares, repeat=len(ItemWeights._fields)):
        if sum(weighting) == 1 and weighting[0]:
            grid.append(ItemWeights(*weighting))
    return grid


def weights(turns: pd.DataFrame) -> pd.DataFrame:
    """One row per weighting of item TAS: its weights, Kendall's tau to the declared one, the best system.

    ``turns`` are scored turns of several systems; those without S* are left out. Without any, tau is NaN and
    "best" empty.
    """
    scored = turns.dropna(subset="satisfaction_corrected")
    parts = pd.DataFrame({"net": scored["satisfaction_corrected"], "copying": scored["copying"]})
    parts["fresh"] = (scored["novelty"] * scored["satisfaction"]).fillna(0.0)
    parts["leaked"] = scored["topic_interference_leakage"].fillna(0.0)
    sessions = parts.groupby([scored["model"], scored["session_id"]], sort=False).mean()
    means = sessions.groupby("model", sort=False).mean()
    declared = _composite(means, ItemWeights())
    rows = []
    for number, weighting in enumerate([ItemWeights(), *weightings()]):
        values = _composite(means, weighting)
        best = str(values.idxmax()) if len(values) else ""
        rows.append((*weighting, tau(declared, values), best, number == 0))
    table = pd.DataFrame(rows, columns=[*ItemWeights._fields, "tau", "best", "is_default"])
    return table.assign(n_systems=len(means), n_sessions=scored["session_id"].nunique())


def _composite(means: pd.DataFrame, weighting: ItemWeights) -> pd.Series:
    gained = weighting.alpha * means["net"] + weighting.beta * means["fresh"]
    return gained - weighting.gamma * means["leaked"] - weighting.delta * means["copying"]


def tau(a: pd.Series, b: pd.Series) -> float:
    """Kendall's tau-b in [-1, 1] of two sets of system means; NaN for fewer than two shared systems."""
    both = pd.concat([a, b], axis=1, join="inner").dropna().round(12)
    if len(both) < 2:
        return math.nan
    first = both.iloc[:, 0]
    second = both.iloc[:, 1]
    return float(first.corr(second, method="kendall"))
