"""Ability and adaptation: what systems gain without a change of mind, and the share of it that they lose."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, require, systems_of
from crs_lib.metrics.gain import ABLE
from crs_lib.stats import mean_interval

_FEWEST = 3  # scenarios that a region needs
_STRAIGHT = ["straight_gain", "shift_cost"]
_TALK = "conversation_cost"


@figure(
    dark=True,
    title="Adaptation: share of gain lost to shifts",
    made_by="python -m crs_lib run 03_simulate -p run {run}",
)
def _ability_adaptation(shifts: pd.DataFrame) -> Any:
    """The share of gain lost to shifts against straight gain, and beside it the conversation cost.

    Caption: Share of the gain lost at a change of mind against the gain with straight users, who want the
        same from the first (left), and the cost of a conversation, fresh users less straight ones (right),
        for {systems} systems: means with 95 % regions or intervals over n = {sessions} scenarios, each at its
        first change.
    Note: Lower is better on both sides. A system whose gain with straight users is below .1 has nothing to
        lose: it is left out on the left. Shaded: 95 % region (Hotelling), n = {sessions} scenarios.
    """
    require(shifts, ["session_id", "primary", *_STRAIGHT, _TALK])
    windows = shifts[shifts["primary"].astype(bool)]
    if windows["shift_cost"].isna().all():
        raise NoDataError("the run has no straight users; the arms shift and straight are needed")
    drawing, axes = style.figure(3.6, 1, 2)
    plane, beside = axes[0]
    looks = style.looks(systems_of(shifts))
    shown = []
    for height, (name, look) in enumerate(looks.items()):
        values = by_scenario(windows, name, _STRAIGHT).to_numpy()
        if len(values) < _FEWEST:
            continue
        shown.append(name)
        costs = by_scenario(windows, name, [_TALK])[_TALK]
        _draw_cost(beside, height, costs, look)
        if values[:, 0].mean() >= ABLE:
            _draw_share(plane, values, look)
    if not shown:
        raise NoDataError("fewer than three scenarios have a straight user; simulate more")
    plane.axhline(0, color=style.FAINT, linewidth=0.6)
    plane.set_xlabel("gain with straight users →")
    plane.set_ylabel("share of gain lost to shifts ↓")
    plane.grid(True)
    style.zero(beside)
    beside.set_xlabel("← conversation cost")
    beside.set_yticks([])
    beside.grid(True)
    style.legend(drawing, shown, lines=False)
    return drawing


def _draw_cost(panel: Any, height: float, costs: pd.Series, look: style.Look) -> None:
    """The mean cost of a conversation with its interval at a height."""
    mean = mean_interval(costs.to_numpy())
    panel.plot([mean.low, mean.high], [height, height], color=look.colour, linewidth=1)
    style.mark(panel, mean.value, height, look, zorder=3)


def _draw_share(plane: Any, values: NDArray[np.float64], look: style.Look) -> None:
    """The ratio of mean cost and mean gain, and its region by the linear part of every scenario."""
    gains, costs = values.T
    gain = gains.mean()
    share = costs.mean() / gain
    linear = share + (costs - share * gains) / gain
    outline = region(np.column_stack([gains, linear])).T
    plane.fill(*outline, color=look.colour, alpha=0.18, linewidth=0)
    plane.plot(*outline, color=look.colour, linewidth=0.6, alpha=0.6)
    style.mark(plane, gain, share, look, zorder=3)


def region(values: NDArray[np.float64], level: float = 0.95) -> NDArray[np.float64]:
    """The outline of the ellipse that holds the true mean of two columns (a row a scenario, n >= 3).

    Source: Hotelling (1931), Annals of Mathematical Statistics 2: (n−1)·2/(n−2)·F(2, n−2).
    """
    from scipy import stats

    n = len(values)
    quantile = stats.f.ppf(level, 2, n - 2)
    scale = 2 * (n - 1) / (n - 2) * quantile / n
    spread, axes = np.linalg.eigh(np.cov(values, rowvar=False))
    radii = np.sqrt(np.clip(spread, 0, None) * scale)
    angles = np.linspace(0, 2 * np.pi, 97)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    middle = values.mean(axis=0)
    return np.asarray(middle + (circle * radii) @ axes.T)


def by_scenario(shifts: pd.DataFrame, system: str, columns: list[str]) -> pd.DataFrame:
    """The means of columns over a system's shifts, a row a scenario that defines all of them."""
    rows = shifts[shifts["model"] == system]
    values = rows[columns].astype(float)
    return values.groupby(rows["session_id"], sort=True).mean().dropna()
