"""The power curve: how many scenarios it takes to find the differences that matter."""

from typing import Any

import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import FIGURES, filled
from crs_lib.metrics import base

_COLUMNS = (
    "effect", "sessions", "power", "error", "outcome", "smallest", "target", "sd_difference", "alpha",
    "n_sessions", "n_systems", "n_contrasts",
)  # fmt: skip
_LOOKS = (("#56B4E9", "o", (0, (1, 1))), ("#0072B2", "s", "-"), ("#222222", "^", (0, (4, 1.5))))


@FIGURES.register(
    "power_curve",
    study="movies",
    tables=("power",),
    caption="Chance that one of the {n_contrasts} declared contrasts finds a difference by number of "
    "scenarios: simulated paired Wilcoxon tests at the strictest level of Holm, with the deviation of "
    "paired differences that this run shows ({n_systems} systems, {n_sessions} scenarios, pooled). The "
    "solid line is the smallest difference that matters, the others half and twice of it; bands: Monte "
    "Carlo error, 95 %.",
)
def power_curve(power: pd.DataFrame) -> Any:
    """Power by number of scenarios, a line for each size of the difference."""
    filled(power, _COLUMNS)
    facts = power.iloc[0]
    metric = base.get(str(facts["outcome"]))
    made, axes = style.figure(3.0)
    panel = axes[0][0]
    handles = []
    for (effect, part), (colour, marker, dashes) in zip(power.groupby("effect"), _LOOKS * 3, strict=False):
        at = part["sessions"]
        low, high = (part["power"] + sign * 1.96 * part["error"] for sign in (-1, 1))
        panel.fill_between(at, low.clip(0, 1), high.clip(0, 1), color=colour, alpha=0.2, linewidth=0)
        name = f"difference {effect:g}" + (
            ", the smallest that matters" if effect == facts["smallest"] else ""
        )
        handles += panel.plot(
            at, part["power"], marker, color=colour, linestyle=dashes, label=name, clip_on=False
        )
    panel.axhline(facts["target"], color=style.FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
    panel.axvline(facts["n_sessions"], color=style.FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
    panel.annotate(
        f"this run: {int(facts['n_sessions'])}", (facts["n_sessions"], 1.0), (0, 4), ha="center",
        textcoords="offset points", fontsize=style.SMALL, color=style.FAINT,
    )  # fmt: skip
    panel.set_xscale("log")
    ticks = [n for n in (5, 10, 20, 50, 100, 200, 500, 1000, 2000) if n <= power["sessions"].max()]
    panel.set_xticks(ticks, [f"{n:,}" for n in ticks])
    panel.set_xticks([], minor=True)
    panel.set(xlabel="scenarios", ylabel=f"power, {metric.short}", ylim=(0, 1.0))
    panel.grid(axis="y")
    made.legend(handles=handles, loc="outside upper center", ncols=3)
    words = f"Level {facts['alpha']:.3g}; SD of paired differences {facts['sd_difference']:.2g}"
    pilot = f"n = {int(facts['n_sessions'])} scenarios, {int(facts['n_systems'])} systems"
    style.note(made, f"{words} ({pilot}); dotted, across: the plan's power.")
    return made
