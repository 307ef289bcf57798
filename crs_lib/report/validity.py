"""Tables and figures of the validity notebook: verdicts, costs, human ratings."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from crs_lib import data as logs
from crs_lib import evaluate
from crs_lib.catalog import sources
from crs_lib.catalog.grounder import Grounder
from crs_lib.figures import style
from crs_lib.validity import agreement, raters

_NO_RATINGS = "no rated conversations given: set human_dialogues and human_catalog"
_NO_SUCCESS = "no conversations that log success given: set success_dialogues and human_catalog"


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """The gate's verdicts as a reader takes them: metric, demands that held of those made, mark."""
    of = table["passed"].astype(str) + " of " + table["asked"].astype(str)
    shown = pd.DataFrame({"metric": table["metric"], "demands": of, "mark": table["mark"].fillna("")})
    share = table["passed"] / table["asked"].clip(lower=1)
    return shown.loc[share.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)


def side_by_side(run: str) -> pd.DataFrame:
    """Satisfaction with and without shifts, and the costs; a row a system. RunError without further arms."""
    parts = {}
    for arm, name in (("without shifts", f"{run}-none"), ("with shifts", run)):
        table = evaluate.read(name, "model_metrics").set_index(["metric", "model"])["mean"]
        parts[f"S* {arm}"] = table["satisfaction_corrected"]
    costs = {name: table[name] for name in ("shift_cost", "conversation_cost")}
    found = pd.DataFrame(parts | costs).rename_axis("system").reset_index()
    return found.sort_values("S* without shifts", ascending=False, ignore_index=True).round(3)


def forest(rows: pd.DataFrame, label: str, columns: Mapping[str, str], note: str) -> Any:
    """Estimates with 95 % intervals, a row each from above, a panel a column with its words. The interval of
    ``diff`` is in ``diff_low`` and ``diff_high`` where there are such, else in ``low`` and ``high``; the
    names of the rows are in the column ``label``.
    """
    made, (panels,) = style.figure(0.8 + 0.24 * len(rows), columns=len(columns), sharey=True)
    for panel, (column, words) in zip(panels, columns.items(), strict=True):
        ends = [f"{column}_{end}" if f"{column}_{end}" in rows else end for end in ("low", "high")]
        for place, (value, low, high) in enumerate(rows[[column, *ends]].itertuples(index=False)):
            style.interval(panel, place, low, high, style.INK)
            panel.plot(value, place, "o", color=style.INK, markersize=4)
        panel.axvline(0, color=style.FAINT, linewidth=0.8)
        panel.set(xlabel=words, ylim=(len(rows) - 0.5, -0.5))
    panels[0].set_yticks(range(len(rows)), rows[label].str.replace("_", " "))
    style.note(made, f"{note} Lines: 95 % intervals over conversations.".strip())
    return made


def human_ratings(dialogues: str, catalog: str) -> pd.DataFrame:
    """Agreement of our scores with human ratings; a note where no rated conversations were given."""
    if not dialogues:
        return pd.DataFrame({"note": [_NO_RATINGS]})
    rows = agreement.rate(list(logs.read(dialogues)), Grounder(sources.load(catalog)))
    return agreement.agreement(rows, agreement.SHOWN)


def missed_successes(dialogues: str, catalog: str) -> pd.DataFrame:
    """The replies whose success the score judges most wrongly; a note where no conversations were given."""
    if not (dialogues and catalog):
        return pd.DataFrame({"note": [_NO_SUCCESS]})
    read = logs.readable(dialogues, lambda broken: None)
    return raters.missed(raters.success(read, Grounder(sources.load(catalog))))


def if_any(table: pd.DataFrame) -> pd.DataFrame | None:
    """The table, or nothing to show where it is only a note that says what was not given."""
    return None if list(table.columns) == ["note"] else table
