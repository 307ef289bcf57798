"""What the validity notebooks show: verdicts, costs with and without shifts, estimates in a row."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from crs_lib import evaluate
from crs_lib.core import paths
from crs_lib.figures import style

_COSTS = ("shift_cost", "conversation_cost")


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """The gate's verdicts as a reader takes them: metric, demands that held of those made, mark."""
    demands = table["passed"].astype(str) + " of " + table["asked"].astype(str)
    shown = pd.DataFrame({"metric": table["metric"], "demands": demands, "mark": table["mark"].fillna("")})
    share = table["passed"] / table["asked"].clip(lower=1)
    order = share.sort_values(ascending=False, kind="stable").index
    return shown.loc[order].reset_index(drop=True)


def side_by_side(run: str) -> pd.DataFrame:
    """Satisfaction with and without shifts, and the costs; a row a system. RunError without further arms."""
    without = _means(f"{run}-none")
    shifting = _means(run)
    columns = {
        "S* without shifts": without["satisfaction_corrected"],
        "S* with shifts": shifting["satisfaction_corrected"],
    }
    for name in _COSTS:
        columns[name] = shifting[name]
    table = pd.DataFrame(columns).rename_axis("system").reset_index()
    return table.sort_values("S* without shifts", ascending=False, ignore_index=True).round(3)


def _means(run: str) -> pd.Series:
    return evaluate.read(run, "model_metrics").set_index(["metric", "model"])["mean"]


def forest(rows: pd.DataFrame, label: str, columns: Mapping[str, str], note: str) -> Any:
    """Estimates with 95 % intervals, a row each from above, a panel a column.

    Parameters
    ----------
    rows : pandas.DataFrame
        The interval of ``diff`` is in ``diff_low`` and ``diff_high`` where there are such, else in ``low``
        and ``high``.
    label : str
        The column with the names of the rows.
    columns : mapping
        The words under each panel, by the column that it shows.
    note : str
        The small print.
    """
    drawing, (panels,) = style.figure(0.8 + 0.24 * len(rows), columns=len(columns), sharey=True)
    for panel, (column, words) in zip(panels, columns.items(), strict=True):
        low, high = "low", "high"
        if f"{column}_low" in rows:
            low, high = f"{column}_low", f"{column}_high"
        for height, row in enumerate(rows.to_dict("records")):
            style.interval(panel, height, row[low], row[high], style.INK)
        panel.plot(rows[column], range(len(rows)), "o", color=style.INK, markersize=4)
        panel.axvline(0, color=style.FAINT, linewidth=0.8)
        panel.set(xlabel=words, ylim=(len(rows) - 0.5, -0.5))
    panels[0].set_yticks(range(len(rows)), rows[label].str.replace("_", " "))
    style.note(drawing, f"{note} Lines: 95 % intervals over conversations.".strip())
    return drawing


def record(name: str) -> pd.DataFrame:
    """A recorded table of ``docs/records``; its README tells what was measured, when and with which code."""
    return pd.read_csv(paths.ROOT / "docs" / "records" / f"{name}.csv")
