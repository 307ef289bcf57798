"""LaTeX tables (booktabs) beside the figures: model metrics, judges, and the thesis's headline."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from crs_lib.figures import base as frames
from crs_lib.figures import layout, style
from crs_lib.figures.base import TABLES, figure
from crs_lib.figures.pairs import JUDGED
from crs_lib.metrics import base
from crs_lib.metrics.constructs import CONSTRUCTS

_ESCAPES = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "−": r"$-$", "†": r"$\dagger$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "–": "--",
})  # fmt: skip


def _escape(text: Any) -> str:
    """The text as LaTeX prints it literally."""
    return str(text).translate(_ESCAPES)


def _tabular(cells: Mapping[str, Iterable[str]], comment: str, columns: str = "") -> str:
    r"""A ``tabular`` with booktabs rules: cells by the heads of their columns, LaTeX already. The first
    column is flush left, the others right, unless ``columns`` says otherwise. ``\input`` it inside a table.
    """
    columns = columns or "l" + "r" * (len(cells) - 1)
    lines = [f"% {comment} Needs \\usepackage{{booktabs}}.", f"\\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(cells) + r" \\", r"\midrule"]
    lines += [" & ".join(row) + r" \\" for row in zip(*cells.values(), strict=True)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _number(value: float, digits: int = 2) -> str:
    """The number with so many decimals, in math mode where negative; "--" where it is missing."""
    if value != value:
        return "--"
    text = f"{value:z.{digits}f}"
    return f"${text}$" if text.startswith("-") else text


def _intervals(frame: pd.DataFrame, digits: int = 2) -> list[str]:
    """The mean of every row with its interval, "0.70 [0.68, 0.72]"; without brackets where there is none."""
    found = []
    for mean, low, high in frame[["mean", "low", "high"]].to_numpy(dtype=float):
        ends = "" if low != low or high != high else f" [{_number(low, digits)}, {_number(high, digits)}]"
        found.append(_number(mean, digits) + ends)
    return found


@figure(registry=TABLES)
def _table_model_metrics(model_metrics: pd.DataFrame, *, metrics: Sequence[str] = ()) -> str:
    """Some metrics by system: mean with interval; the usual and judges' ones where none is named."""
    frames.require(model_metrics, ["metric", "mean", "low", "high"])
    scored = set(model_metrics.loc[model_metrics["mean"].notna(), "metric"])
    judged = [name for name in CONSTRUCTS if name in scored]
    order, convention = frames.systems_of(model_metrics), frames.convention_of(model_metrics)
    usual = layout.shown(convention, "table_model_metrics", set(model_metrics["metric"]))
    digits = 3 if layout.is_thesis(convention) else 2  # as many as the thesis printed
    cells = {"system": [_escape(name) for name in order]}
    for metric in [base.get(name).name for name in metrics] or [*usual, *judged]:
        rows = model_metrics[model_metrics["metric"] == metric].set_index("model")
        cells[_escape(style.titled(metric))] = _intervals(rows.loc[order], digits=digits)
    return _tabular(cells, "Mean [95 % interval] by system.")


@figure(registry=TABLES, made_by=JUDGED)
def _table_judges(judge_means: pd.DataFrame) -> str:
    """Judges' constructs by system: mean with interval, sessions with a score of all."""
    frames.require(judge_means, ["construct", "mean", "low", "high", "n", "n_missing", "own_family"])
    order = frames.systems_of(judge_means)
    own = set(judge_means.loc[judge_means["own_family"].astype(bool), "model"])
    cells = {"system": [_escape(name) + "$^*$" * (name in own) for name in order]}
    for name, part in judge_means.groupby("construct", sort=False):
        rows = part.set_index("model").loc[order]
        sizes = zip(_intervals(rows), rows["n"].astype(int), rows["n_missing"].astype(int), strict=True)
        cells[_escape(name)] = [f"{mean} ({n}/{n + missing})" for mean, n, missing in sizes]
    return _tabular(cells, "Scores of judges.")


def headline_table(headline: pd.DataFrame) -> str:
    """The best system on each outcome, its mean, interval and lead, and the published best if any."""
    frames.filled(headline, ["metric", "best", "mean", "low", "high", "second", "lead"])
    cells = {
        "outcome": [_escape(style.titled(metric)) for metric in headline["metric"]],
        "best system": headline["best"].map(_escape),
        "mean": _intervals(headline, digits=3),
        "lead": [_number(lead, 3) for lead in headline["lead"]],
    }
    if headline["published_best"].isna().all():
        return _tabular(cells, "The best system by outcome.", "llrr")
    theirs = headline["published_best"]
    cells["published best"] = ["--" if pd.isna(best) else _escape(best) for best in theirs]
    cells["published"] = [_number(mean, 3) for mean in headline["published"]]
    return _tabular(cells, "The best system by outcome.", "llrrlr")
