"""How stable the ranking of systems is over the weights of item TAS, and how much power a run has."""

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, filled
from crs_lib.figures.pairs import signed
from crs_lib.metrics import base
from crs_lib.metrics.conventions import ItemWeights

_WEIGHTS = {
    "alpha": "net satisfaction", "beta": "novelty × satisfaction", "gamma": "leakage", "delta": "copying",
}  # fmt: skip
_SIZE = "{n_systems} systems, n = {n_sessions} sessions per system; 1 is the same order."


_STEPS = 4  # equal shares of 1 that the weights are made of


def weightings() -> list[ItemWeights]:
    """Every weighting of the four parts of item TAS in quarters of 1 with some weight on S*."""
    grid = []
    for steps in itertools.product(range(_STEPS + 1), repeat=len(ItemWeights._fields)):
        if sum(steps) == _STEPS and steps[0]:
            grid.append(ItemWeights(*(step / _STEPS for step in steps)))
    return grid


def weights(turns: pd.DataFrame) -> pd.DataFrame:
    """One row per weighting of item TAS: its weights, Kendall's tau to the declared one, the best system.

    ``turns`` are scored turns of several systems; those without S* are left out. Without any, tau is NaN and
    "best" empty.
    """
    scored = turns.dropna(subset="satisfaction_corrected")
    parts = pd.DataFrame({
        "net": scored["satisfaction_corrected"],
        "fresh": (scored["novelty"] * scored["satisfaction"]).fillna(0.0),
        "leaked": scored["topic_interference_leakage"].fillna(0.0),
        "copying": scored["copying"],
    })  # fmt: skip
    sessions = parts.groupby([scored["model"], scored["session_id"]], sort=False).mean()
    means = sessions.groupby("model", sort=False).mean()
    declared = _composite(means, ItemWeights())
    rows = []
    for place, weighting in enumerate([ItemWeights(), *weightings()]):
        values = _composite(means, weighting)
        best = str(values.idxmax()) if len(values) else ""
        row = {**weighting._asdict(), "tau": tau(declared, values), "best": best, "is_default": place == 0}
        rows.append(row)
    return pd.DataFrame(rows).assign(n_systems=len(means), n_sessions=scored["session_id"].nunique())


def _composite(means: pd.DataFrame, weighting: ItemWeights) -> pd.Series:
    gained = weighting.alpha * means["net"] + weighting.beta * means["fresh"]
    return gained - weighting.gamma * means["leaked"] - weighting.delta * means["copying"]


def tau(a: pd.Series, b: pd.Series) -> float:
    """Kendall's tau-b in [-1, 1] of two sets of system means; NaN for fewer than two shared systems."""
    both = pd.concat([a, b], axis=1, join="inner").dropna().round(12)
    if len(both) < 2:
        return math.nan
    return float(both.iloc[:, 0].corr(both.iloc[:, 1], method="kendall"))


@figure()
def _sensitivity_weights(sensitivity_weights: pd.DataFrame) -> Any:
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
    axes[0][0].set(ylabel="weight of net satisfaction", xlabel="weight of novelty × satisfaction")
    made.colorbar(image, ax=list(axes[0]), label="Kendall's τ", fraction=0.03, pad=0.02, ticks=[0, 0.5, 1])
    weights = ", ".join(f"{name} {declared[column]:g}" for column, name in _WEIGHTS.items())
    size = _SIZE.format(n_systems=int(declared["n_systems"]), n_sessions=int(declared["n_sessions"]))
    declared_as = f"Kendall's τ to the declared weights ({weights})"
    style.note(made, f"{declared_as}; the four weights sum to 1, leakage has the rest; {size}")
    return made


_COLUMNS = (
    "a", "b", "effect", "sessions", "power", "outcome", "smallest", "target", "n", "sd_difference", "alpha",
    "n_sessions", "n_systems", "n_contrasts",
)  # fmt: skip
_LOOKS = (("#56B4E9", (0, (1, 1))), ("#0072B2", "-"), ("#222222", (0, (4, 1.5))))
_TICKS = (5, 20, 100, 500, 2000)
MOST_CONTRASTS = 16
_ONE_LINE, _LONG = 20, 16  # letters: of two names in one line of a title; of a name that takes a wider panel


@figure()
def _power_curve(power: pd.DataFrame) -> Any:
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
