"""Outcomes over the grid of a sweep: does the order of the systems hang on a parameter?"""

from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, filled, primary, systems_of

_MOST = 4  # panels


def sweep_outcomes(sweep: pd.DataFrame) -> Any:
    """A panel for each parameter and convention: the leading outcome of every system over its values.

    Means over the runs that share a value, with the mean of their 95 % intervals. NoDataError where no
    parameter has more than one value.
    """
    filled(sweep, ["parameter", "value", "model", "metric", "mean", "low", "high", "convention"])
    panels = []
    for (parameter, base), part in _by_convention(sweep).groupby(["parameter", "base"], sort=False):
        if len(set(part["value"])) > 1:
            mine = part[part["metric"] == primary(part)]
            panels.append((str(parameter), str(base), mine))
    if not panels:
        raise NoDataError("no parameter of the sweep has more than one value")
    panels = panels[:_MOST]
    made, axes = style.figure(3.1, 1, len(panels))
    looks = style.looks(systems_of(sweep))
    for panel, (parameter, base, part) in zip(axes[0], panels, strict=True):
        values = [str(value) for value in dict.fromkeys(part["value"])]
        places = np.arange(len(values))
        for name, look in looks.items():
            rows = (
                part[part["model"] == name].groupby("value")[["mean", "low", "high"]].mean().reindex(values)
            )
            panel.fill_between(places, rows["low"], rows["high"], color=look.colour, alpha=0.15, linewidth=0)
            panel.plot(
                places, rows["mean"], color=look.colour, linestyle=look.line, marker=look.marker,
                markersize=look.size,
            )  # fmt: skip
        panel.set_xticks(places, style.labels(values, 16), rotation=20, ha="right", rotation_mode="anchor")
        panel.set(xlabel=parameter, title=f"{style.titled(primary(part))}, {base}")
        panel.grid(axis="y")
        panel.margins(x=0.15)
    axes[0][0].set_ylabel("mean score")
    style.legend(made, list(looks))
    style.note(made, "Bands: 95 % interval, averaged over the runs that share a value.")
    return made


def _by_convention(sweep: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``base``, the named convention that their convention rests on."""
    return sweep.assign(base=sweep["convention"].str.partition("(")[0])
