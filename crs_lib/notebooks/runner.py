"""The start of each notebook, runs with other parameters, and the refresh of the committed notebooks.

``run`` is papermill made strict: an unknown or mistyped parameter is an error before anything starts.
"""

import copy
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.registry import did_you_mean
from crs_lib.notebooks import parameters as notebook_parameters
from crs_lib.notebooks.frames import to_html
from crs_lib.notebooks.kernel import PREFIX, execute
from crs_lib.notebooks.parameters import Parameter
from crs_lib.notebooks.rules import cells_tagged, load, rules

__all__ = ["begin", "find", "parameters_of", "refresh", "rules", "run", "study"]

_STUDIES = {"0": "movies", "1": "cosrec", "2": "realtalk", "3": "movies"}
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
    InputError and RunError show their text without a traceback. Raises RunError in a kernel of another
    environment.
    """
    _same_environment()
    warnings.resetwarnings()
    warnings.filterwarnings("error")
    warnings.filterwarnings("ignore", category=ResourceWarning)
    for category in _CHANGES:
        warnings.filterwarnings("ignore", category=category)
        warnings.filterwarnings("error", category=category, module=_OURS)
    _look()
    _in_a_kernel()


def _same_environment() -> None:
    expected = os.environ.get(PREFIX, sys.prefix)
    if Path(expected).resolve() != Path(sys.prefix).resolve():
        raise RunError(
            f"this kernel is the Python of {sys.prefix}, but the notebook was started from {expected}; "
            "choose the kernel 'python3' of that environment, or remove the other one "
            "(jupyter kernelspec list)"
        )


def _look() -> None:
    import matplotlib.style as mpl_style
    import numpy as np
    import pandas as pd

    from crs_lib.figures import style

    pd.set_option("display.float_format", "{:z.3f}".format)
    pd.set_option("display.max_columns", 30)
    pd.set_option("display.max_colwidth", 70)
    pd.set_option("display.width", 110)
    np.set_printoptions(precision=3, suppress=True)
    mpl_style.use(["seaborn-v0_8-colorblind", style.STYLE])


def _in_a_kernel() -> None:
    """In a kernel: our errors in one line, three decimals, tables in words, figures in the page's theme."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        return
    shell.run_line_magic("precision", "%.3f")
    import pandas as pd

    shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, to_html)

    def show(shell: Any, kind: type, error: BaseException, trace: object, tb_offset: object = None) -> Any:
        lines = [f"{kind.__name__}: {error}"]
        shell._showtraceback(kind, error, lines)
        return lines

    shell.set_custom_exc((InputError, RunError), show)
    if getattr(shell, "kernel", None) is not None:
        from IPython.display import display

        display({"text/html": _THEME, "text/plain": ""}, raw=True)


def find(notebook: str | Path) -> Path:
    """The file of a notebook given as ``03_simulate``, ``03_simulate.ipynb`` or a path."""
    given = Path(notebook)
    name = given.name if given.suffix == ".ipynb" else f"{given.name}.ipynb"
    for path in (given.with_name(name) if given.name else given, paths.notebooks() / name):
        if path.is_file():
            return path.resolve()
    known = [path.stem for path in committed()]
    hint = did_you_mean(given.stem, known)
    raise InputError(f"no notebook {str(notebook)!r}{hint} (known: {', '.join(known) or 'none'})")


def committed() -> list[Path]:
    """The notebooks of the repository, in the order of the pipeline."""
    return sorted(paths.notebooks().glob("*.ipynb"))


def study(notebook: Path) -> str:
    """The study of a notebook, from the tens digit of its number; ``other`` for a name without a number."""
    return _STUDIES.get(notebook.name[0], "other") if notebook.name[:2].isdigit() else "other"


def parameters_of(notebook: str | Path) -> list[Parameter]:
    """The parameters of a notebook, in order; none without a cell tagged ``parameters``."""
    path = find(notebook)
    cells = cells_tagged(load(path), "parameters")
    return notebook_parameters.read(cells[0].source, path.stem) if cells else []


def run(
    notebook: str | Path, parameters: Mapping[str, object] | None = None, out: str | Path | None = None
) -> Path:
    """Run a notebook with these parameters in a fresh kernel; returns the path of the executed notebook.

    The path is ``results/<study>/<run>/notebooks/<notebook>.ipynb`` unless ``out`` names another. Raises
    InputError for an unknown notebook, an unknown parameter or a value of another type, before anything
    runs; InputError or RunError with the text of the cell that failed. A failed notebook is kept.
    """
    source = find(notebook)
    declared = parameters_of(source)
    given = notebook_parameters.check(declared, parameters or {}, source.stem)
    target = paths.given(out) if out else output(source, {p.name: p.default for p in declared} | given)
    if target.suffix != ".ipynb":
        raise InputError(f"the output {str(target)!r} is no notebook; give a name that ends in .ipynb")
    if target.resolve() == source:
        raise InputError(f"the output would overwrite {source.name} itself; give another name")
    named = [paths.given(value) for value in given.values() if isinstance(value, str) and value]
    paths.apart([target], [path for path in named if path.is_file()])
    execute(source, target, given)
    return target


def output(source: Path, values: Mapping[str, Any]) -> Path:
    """The path of the executed notebook of a run."""
    name = values.get("run")
    folder = paths.run_folder(study(source), name) if name else paths.results() / study(source)
    return folder / "notebooks" / source.name


def refresh(names: Sequence[str | Path] = ()) -> list[Path]:
    """Run notebooks with their defaults and rewrite them in place; returns the files that changed.

    Without names, all notebooks of the repository. The notebooks of a study run in order over a temporary
    results folder, including those before a named one, so no results of the user are read or changed. A
    notebook is written only when all of its study ran. The same code gives the same bytes. Raises RunError
    with the rules that a refreshed notebook breaks.
    """
    chosen = sorted({find(name) for name in names} if names else {path.resolve() for path in committed()})
    changed: list[Path] = []
    for folder, group in sorted({(path.parent, study(path)) for path in chosen}):
        wanted = [path for path in chosen if (path.parent, study(path)) == (folder, group)]
        for path, text in _fresh(folder, group, wanted).items():
            if path.read_text(encoding="utf-8") != text:
                with tables.write_aside(path) as file:
                    file.write(text)
                changed.append(path)
    broken = [f"{path.name}: {text}" for path in chosen for text in rules(path)]
    if broken:
        raise RunError("refreshed, but these rules are broken:\n  " + "\n  ".join(broken))
    return changed


def _fresh(folder: Path, group: str, wanted: Sequence[Path]) -> dict[Path, str]:
    """The new text of each wanted notebook, after running its study up to the last wanted one."""
    line = [path for path in sorted(folder.glob("*.ipynb")) if study(path) == group and path <= wanted[-1]]
    if group == "other":  # no pipeline: each stands for itself
        line = list(wanted)
    texts: dict[Path, str] = {}
    with tempfile.TemporaryDirectory(prefix="crs-refresh-") as temporary:
        away = {"CRS_RESULTS": f"{temporary}/results", "CRS_FIGURES": f"{temporary}/figures"}
        for path in line:
            out = Path(temporary) / "executed" / path.name
            execute(path, out, {}, away, folder)
            if path in wanted:
                texts[path] = clean(load(out))
    return texts


def clean(notebook: Any) -> str:
    """The notebook as committed: counts from 1, neighbouring printed outputs joined, no volatile metadata."""
    import nbformat

    book = copy.deepcopy(notebook)
    book.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    count = 0
    for cell in book.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = {"tags": tags} if tags else {}
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = _joined(cell.outputs)
            for item in cell.outputs:
                if "execution_count" in item:
                    item.execution_count = count
    return str(nbformat.writes(nbformat.from_dict(book), version=4)) + "\n"


def _joined(outputs: Sequence[Any]) -> list[Any]:
    """Outputs with neighbouring pieces of a stream joined; how a stream is split depends on timing."""
    joined: list[Any] = []
    for item in outputs:
        last = joined[-1] if joined else None
        if last and item.output_type == "stream" == last.output_type and item.name == last.name:
            last.text += item.text
        else:
            joined.append(item)
    return joined
