"""LaTeX tables (booktabs) beside the figures: model metrics, judges, and the thesis's headline."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from crs_lib.core.text import one_line
from crs_lib.figures import base as frames
from crs_lib.figures import layout, style
from crs_lib.figures.base import TABLES, figure
from crs_lib.figures.models import JUDGED
from crs_lib.metrics import base
from crs_lib.metrics.constructs import CONSTRUCTS

_ESCAPES = {mark: f"\\{mark}" for mark in "&%$#_{}"}
_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": r"$-$",
    "†": r"$\dagger$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "–": "--",
}
_PRINTED = str.maketrans(_ESCAPES | _SIGNS)


def escape(text: Any) -> str:
    """The text as LaTeX prints it literally, control characters as escapes."""
    return one_line(str(text)).translate(_PRINTED)


def tabular(cells: Mapping[str, Iterable[str]], comment: str, columns: str = "") -> str:
    r"""A ``tabular`` with booktabs rules: cells by the heads of their columns, LaTeX already.

    The first column is flush left, the others right, unless ``columns`` says otherwise. ``\input`` it inside
    a table.
    """
    columns = columns or "l" + "r" * (len(cells) - 1)
    lines = [f"% {comment} Needs \\usepackage{{booktabs}}."]
    lines += [f"\\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [_row(cells), r"\midrule"]
    for row in zip(*cells.values(), strict=True):
        lines.append(_row(row))
    lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def _row(texts: Iterable[str]) -> str:
    return " & ".join(texts) + r" \\"


def number(value: float, digits: int = 2) -> str:
    """The number with so many decimals, in math mode where negative; "--" where it is missing."""
    if pd.isna(value):
        return "--"
    text = f"{value:z.{digits}f}"
    return f"${text}$" if text.startswith("-") else text


def intervals(frame: pd.DataFrame, digits: int = 2) -> list[str]:
    """The mean of every row with its interval, "0.70 [0.68, 0.72]"; without brackets where there is none."""
    texts = []
    for mean, low, high in frame[["mean", "low", "high"]].to_numpy(dtype=float):
        text = number(mean, digits)
        if not (pd.isna(low) or pd.isna(high)):
            text += f" [{number(low, digits)}, {number(high, digits)}]"
        texts.append(text)
    return texts


@figure(
    registry=TABLES, metrics=[*layout.MAIN, "item_recovery_rate", layout.LEAKS[0], "topic_adaptation_score"]
)
def _table_model_metrics(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> str:
    """Some metrics by system: mean with interval; the usual and judges' ones where none is named.

    Caption: Mean scores by system with 95 % intervals (n = {sessions} sessions per system, scenarios
        resampled); arrows point to where a score is better, a dagger marks what is not valid for ranking.
    """
    frames.require(model_metrics, ["metric", "mean", "low", "high"])
    order = frames.systems_of(model_metrics)
    digits = 2
    if layout.is_thesis(frames.convention_of(model_metrics)):
        digits = 3  # as many as the thesis printed
    shown = [base.get(name).name for name in metrics]
    if not shown:
        scored = set(model_metrics.loc[model_metrics["mean"].notna(), "metric"])
        shown = frames.shown_in("table_model_metrics", model_metrics)
        shown += [name for name in CONSTRUCTS if name in scored]
    cells = {"system": list(map(escape, order))}
    for metric in shown:
        rows = model_metrics[model_metrics["metric"] == metric].set_index("model")
        head = escape(style.titled(metric))
        cells[head] = intervals(rows.loc[order], digits=digits)
    return tabular(cells, "Mean [95 % interval] by system.")


@figure(registry=TABLES, made_by=JUDGED)
def _table_judges(judge_means: pd.DataFrame) -> str:
    """Judges' constructs by system: mean with interval, sessions with a score of all.

    Caption: Mean scores of judges by system with 95 % intervals, and in brackets the sessions with a score of
        those judged ({n_sessions} per system); a star marks a system that only its own family judged.
    """
    frames.require(judge_means, ["construct", "mean", "low", "high", "n", "n_missing", "own_family"])
    order = frames.systems_of(judge_means)
    own_family = set(judge_means.loc[judge_means["own_family"].astype(bool), "model"])
    systems = []
    for name in order:
        star = "$^*$" if name in own_family else ""
        systems.append(escape(name) + star)
    cells = {"system": systems}
    for construct, part in judge_means.groupby("construct", sort=False):
        rows = part.set_index("model").loc[order]
        texts = []
        for mean, n, missing in zip(intervals(rows), rows["n"], rows["n_missing"], strict=True):
            texts.append(f"{mean} ({n:.0f}/{n + missing:.0f})")
        cells[escape(construct)] = texts
    return tabular(cells, "Scores of judges.")


def headline_table(headline: pd.DataFrame) -> str:
    """The best system on each outcome, its mean, interval and lead, and the published best if any; how other
    published means were made is said first, and below the table.
    """
    frames.with_rows(headline, ["metric", "best", "mean", "low", "high", "second", "lead"])
    cells = {"outcome": [escape(style.titled(metric)) for metric in headline["metric"]]}
    cells["best system"] = list(map(escape, headline["best"]))
    cells["mean"] = intervals(headline, digits=3)
    cells["lead"] = [number(lead, 3) for lead in headline["lead"]]
    comment = "The best system by outcome."
    published = headline["published_best"]
    notes = list(headline["published_note"].dropna().unique())
    if published.isna().all() and not notes:
        return tabular(cells, comment, "llrr")
    cells["published best"] = [escape(best) for best in published.fillna("–")]
    cells["published"] = [number(mean, 3) for mean in headline["published"]]
    table = tabular(cells, " ".join([*notes, comment]), "llrrlr")
    if not notes:
        return table
    text = r"\multicolumn{6}{p{0.9\linewidth}}{\footnotesize " + escape(" ".join(notes)) + r"} \\"
    return table.replace("\\bottomrule", f"\\midrule\n{text}\n\\bottomrule")
