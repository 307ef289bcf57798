"""A table as notebooks show it: columns in words, text left and whole, numbers right on their point."""

import html
from typing import Any

import pandas as pd

MOST = 60  # rows
HEADS = {
    "diff": "difference", "low": "95 % low", "high": "95 % high", "p_tukey": "p, Tukey", "p_holm": "p, Holm",
    "p_wilcoxon": "p, Wilcoxon", "p_wilcoxon_adjusted": "p, Wilcoxon and Holm",
    "p_sign_flip_adjusted": "p, sign flip and Holm", "p_best": "share ranked first",
    "p_gg": "p, Greenhouse-Geisser", "epsilon_gg": "epsilon, Greenhouse-Geisser",
    "rank_low": "rank, 95 % low", "rank_high": "rank, 95 % high",
    "tied": "letters", "n_pairs": "n, pairs", "n_missing": "missing", "kendall_w": "Kendall's W",
    "omega_squared": "omega squared", "df1": "df 1", "df2": "df 2", "auc": "AUC", "f1": "F1",
}  # fmt: skip


def heading(name: object) -> str:
    """A column's name in words: ``p_holm`` is "p, Holm", ``session_id`` "session id"."""
    return HEADS.get(str(name), str(name).replace("_", " "))


def to_html(frame: pd.DataFrame) -> str:
    """The table for a notebook; a number is right, a text left and never cut off, a dash what is missing.

    An index that only counts is left out. Rows after the sixtieth are left out and counted.
    """
    shown = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
    cut = shown.head(MOST)
    columns = [[_text(value) for value in cut.iloc[:, place]] for place in range(cut.shape[1])]
    right = [_numeric(cut.iloc[:, place]) for place in range(cut.shape[1])]
    head = _row("th", [heading(name) for name in cut.columns], right)
    body = "".join(_row("td", row, right) for row in zip(*columns, strict=True))
    more = f"<p>… and {len(shown) - MOST:,} rows more</p>" if len(shown) > MOST else ""
    return f'<table class="dataframe"><thead>{head}</thead><tbody>{body}</tbody></table>{more}'


def _row(tag: str, texts: Any, right: list[bool]) -> str:
    cells = (
        f'<{tag} style="text-align: {"right" if side else "left"}; white-space: '
        f'{"nowrap" if side or len(text) < 40 else "normal"}; max-width: 42em">{html.escape(text)}</{tag}>'
        for text, side in zip(texts, right, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _numeric(column: "pd.Series[Any]") -> bool:
    """Whether a column holds numbers only, missing ones and blanks aside."""
    if pd.api.types.is_bool_dtype(column):
        return False
    known = [value for value in column if not (_missing(value) or value == "")]
    return bool(known) and all(isinstance(value, int | float) or hasattr(value, "dtype") for value in known)


def _missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def _text(value: Any) -> str:
    if _missing(value):
        return "–"
    if isinstance(value, float):
        return f"{value:z.3f}".replace("-", "−")
    if isinstance(value, list | tuple | set):
        return ", ".join(map(str, value))
    return str(value)
