"""How notebooks look: figures, warnings and errors (:func:`begin`), and tables in words."""

import ast
import html
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.core import prompts
from crs_lib.core.errors import RunError, unknown
from crs_lib.figures import style

PREFIX = "CRS_PREFIX"  # of the Python that a notebook was started from, for its kernel to compare
_OF_PAPERMILL = ("PAPERMILL_INPUT_PATH", "PAPERMILL_OUTPUT_PATH")  # its --inject-paths
_INJECTED = "# Parameters\n"  # how the cell begins that papermill adds
_OURS = r"(__main__|crs_lib)(\.|$)"
_CHANGES = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, SyntaxWarning)
# Figures on JupyterLab's dark theme, as in the report: lightness turned round, hues kept.
_THEME = (
    '<style class="crs-figures">'
    '[data-jp-theme-light="false"] .jp-Notebook:has(.crs-figures) .jp-RenderedImage img '
    "{ filter: invert(0.91) hue-rotate(180deg); }</style>"
)


def begin() -> None:
    """Set the display of figures and tables and make warnings errors. Call once, after the imports.

    Numbers show three decimals. A warning is an error, except a library's warning about its own code.
    InputError and RunError show their text without a traceback.

    Raises
    ------
    RunError
        In a kernel of another environment.
    InputError
        For a parameter that papermill injected and the notebook does not have.
    """
    from IPython.core.getipython import get_ipython

    _check_environment()
    shell = get_ipython()
    if shell is not None:
        _check_injected([cell for cell in shell.user_ns.get("In", ()) if cell])
    _set_warnings()
    _set_display()
    if shell is None:
        return
    shell.run_line_magic("precision", "%.3f")
    shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, to_html)
    if getattr(shell, "kernel", None) is not None:
        from IPython.display import display

        display({"text/html": _THEME, "text/plain": ""}, raw=True)


def _check_environment() -> None:
    expected = os.environ.get(PREFIX, sys.prefix)
    if Path(expected).resolve() != Path(sys.prefix).resolve():
        here = f"this kernel is the Python of {sys.prefix}, but the notebook was started from {expected}"
        raise RunError(f"{here}; choose its kernel 'python3' or remove the other (jupyter kernelspec list)")


def _set_warnings() -> None:
    warnings.resetwarnings()
    warnings.filterwarnings("error")
    warnings.filterwarnings("ignore", category=ResourceWarning)
    for category in _CHANGES:
        warnings.filterwarnings("ignore", category=category)
        warnings.filterwarnings("error", category=category, module=_OURS)
    warnings.filterwarnings("ignore", style.NO_GLYPH)


def _set_display() -> None:
    import matplotlib.style as mpl_style
    import numpy as np

    pd.set_option("display.float_format", "{:z.3f}".format)
    pd.set_option("display.max_columns", 30)
    pd.set_option("display.max_colwidth", 70)
    pd.set_option("display.width", 110)
    np.set_printoptions(precision=3, suppress=True)
    mpl_style.use(["seaborn-v0_8-colorblind", style.STYLE, {"font.family": style.fonts()}])


def _check_injected(cells: Sequence[str]) -> None:
    """InputError with a suggestion for an injected parameter that the first cell does not declare."""
    for cell in cells:
        if cell.startswith(_INJECTED):
            declared = _assigned(cells[0])
            for name in _assigned(cell):
                if name not in declared and name not in _OF_PAPERMILL:
                    raise unknown("parameter", name, declared)
            return


def _assigned(code: str) -> list[str]:
    """The names that the statements of a cell assign."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
    return names


MOST = 60  # rows


def heading(name: object) -> str:
    """A column's name in words: ``p_holm`` is "p, Holm", ``session_id`` "session id"."""
    text = str(name)
    return str(prompts.lists("headings").get(text, text.replace("_", " ")))


def to_html(frame: pd.DataFrame) -> str:
    """At most ``MOST`` rows: numbers right, texts left and whole, a dash for none, no counting index."""
    table = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
    top = table.head(MOST)
    on_the_right = [_is_numeric(column) for _, column in top.items()]
    head = _row("th", [heading(name) for name in top.columns], on_the_right)
    columns = []
    for _, column in top.items():
        columns.append([_text(value) for value in column])
    body = ""
    for texts in zip(*columns, strict=True):
        body += _row("td", texts, on_the_right)
    more = ""
    if len(table) > MOST:
        more = f"<p>… and {len(table) - MOST:,} rows more</p>"
    return f'<table class="dataframe"><thead>{head}</thead><tbody>{body}</tbody></table>{more}'


def _row(tag: str, texts: Sequence[str], on_the_right: Sequence[bool]) -> str:
    cells = ""
    for text, right in zip(texts, on_the_right, strict=True):
        side = "right" if right else "left"
        wrap = "nowrap" if right or len(text) < 40 else "normal"
        style = f"text-align: {side}; white-space: {wrap}; max-width: 42em"
        cells += f'<{tag} style="{style}">{html.escape(text)}</{tag}>'
    return f"<tr>{cells}</tr>"


def _is_numeric(column: "pd.Series[Any]") -> bool:
    """Whether a column holds numbers only, missing ones and blanks aside."""
    if pd.api.types.is_bool_dtype(column):
        return False
    numbers = 0
    for value in column:
        if _is_missing(value) or value == "":
            continue
        if not (isinstance(value, int | float) or hasattr(value, "dtype")):
            return False
        numbers += 1
    return numbers > 0


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


def _text(value: Any) -> str:
    if _is_missing(value):
        return "–"
    if isinstance(value, float):
        return f"{value:z.3f}".replace("-", "−")
    if isinstance(value, list | tuple | set):
        return ", ".join(map(str, value))
    return str(value)
