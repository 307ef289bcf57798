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

PREFIX = "CRS_PREFIX"  # of the Python that a notebook was started from, for its kernel to compare
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
    """Set the display of figures and tables and make warnings errors. Call once, after the imports. Numbers
    show three decimals. A warning is an error, except a library's warning about its own code. InputError and
    RunError show their text without a traceback. Raises RunError in a kernel of another environment,
    InputError for a parameter that papermill injected and the notebook does not have.
    """
    expected = os.environ.get(PREFIX, sys.prefix)
    if Path(expected).resolve() != Path(sys.prefix).resolve():
        here = f"this kernel is the Python of {sys.prefix}, but the notebook was started from {expected}"
        raise RunError(f"{here}; choose its kernel 'python3' or remove the other (jupyter kernelspec list)")

    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    _only_known_parameters([cell for cell in shell.user_ns.get("In", ()) if cell] if shell else [])
    warnings.resetwarnings()
    warnings.filterwarnings("error")
    warnings.filterwarnings("ignore", category=ResourceWarning)
    for category in _CHANGES:
        warnings.filterwarnings("ignore", category=category)
        warnings.filterwarnings("error", category=category, module=_OURS)

    import matplotlib.style as mpl_style
    import numpy as np

    from crs_lib.figures import style

    shown = {"float_format": "{:z.3f}".format, "max_columns": 30, "max_colwidth": 70, "width": 110}
    for name, value in shown.items():
        pd.set_option(f"display.{name}", value)
    np.set_printoptions(precision=3, suppress=True)
    mpl_style.use(["seaborn-v0_8-colorblind", style.STYLE])
    if shell:
        shell.run_line_magic("precision", "%.3f")
        shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, _to_html)
    if getattr(shell, "kernel", None) is not None:
        from IPython.display import display

        display({"text/html": _THEME, "text/plain": ""}, raw=True)


def _only_known_parameters(cells: Sequence[str]) -> None:
    """InputError with a suggestion for an injected parameter that the first cell does not declare."""
    injected = next((cell for cell in cells if cell.startswith(_INJECTED)), "")
    known = _assigned(cells[0]) if injected else []
    for name in _assigned(injected):
        if name not in known:
            raise unknown("parameter", name, known)


def _assigned(code: str) -> list[str]:
    """The names that the statements of a cell assign."""
    names = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name))
    return [name.id for name in names if isinstance(name.ctx, ast.Store)]


MOST = 60  # rows


def heading(name: object) -> str:
    """A column's name in words: ``p_holm`` is "p, Holm", ``session_id`` "session id"."""
    return str(prompts.lists("headings").get(str(name), str(name).replace("_", " ")))


def _to_html(frame: pd.DataFrame) -> str:
    """At most ``MOST`` rows: numbers right, texts left and whole, a dash for none, no counting index."""
    shown = frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index()
    cut = shown.head(MOST)
    columns = [[_text(value) for value in column] for _, column in cut.items()]
    right = [_numeric(column) for _, column in cut.items()]
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
