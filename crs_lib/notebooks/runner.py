"""Notebooks executed in fresh kernels: with other parameters, or anew as they are committed.

``run`` is papermill made strict: an unknown or mistyped parameter is an error before anything starts.
"""

import asyncio
import contextlib
import copy
import functools
import itertools
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crs_lib.core import paths, progress, tables
from crs_lib.core.errors import InputError, RunError, unknown
from crs_lib.notebooks import parameters as notebook_parameters
from crs_lib.notebooks.look import PREFIX
from crs_lib.notebooks.parameters import Parameter, cells_tagged, load
from crs_lib.notebooks.rules import rules

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager

_STUDIES = {"0": "movies", "1": "cosrec", "2": "realtalk", "3": "movies"}


def find(notebook: str | Path) -> Path:
    """The file of a notebook given as ``03_simulate``, ``03_simulate.ipynb`` or a path."""
    given = Path(f"{str(notebook).removesuffix('.ipynb')}.ipynb")
    for path in (given, paths.notebooks() / given.name):
        if path.is_file():
            return path.resolve()
    raise unknown("notebook", str(notebook), [path.stem for path in committed()])


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
    named = [paths.given(value) for value in given.values() if isinstance(value, str) and value]
    paths.apart([target], [source, *(path for path in named if path.is_file())])
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
    chosen = sorted({find(name) for name in names or committed()}, key=lambda path: (_line(path), path))
    changed: list[Path] = []
    for (folder, group), wanted in itertools.groupby(chosen, _line):
        for path, text in _fresh(folder, group, list(wanted)).items():
            if path.read_text(encoding="utf-8") != text:
                with tables.write_aside(path) as file:
                    file.write(text)
                changed.append(path)
    if broken := [f"{path.name}: {text}" for path in chosen for text in rules(path)]:
        raise RunError("refreshed, but these rules are broken:\n  " + "\n  ".join(broken))
    return changed


def _line(path: Path) -> tuple[Path, str]:
    """The folder and the study whose notebooks run in one line."""
    return path.parent, study(path)


def _fresh(folder: Path, group: str, wanted: Sequence[Path]) -> dict[Path, str]:
    """The new text of each wanted notebook, after running its study up to the last wanted one."""
    line = [path for path in sorted(folder.glob("*.ipynb")) if study(path) == group and path <= wanted[-1]]
    texts: dict[Path, str] = {}
    with tempfile.TemporaryDirectory(prefix="crs-refresh-") as temporary:
        away = {"CRS_RESULTS": f"{temporary}/results", "CRS_FIGURES": f"{temporary}/figures"}
        for path in wanted if group == "other" else line:  # others are no pipeline: each stands for itself
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
    for cell in book.cells:
        cell.metadata = {"tags": tags} if (tags := cell.metadata.get("tags")) else {}
    code = (cell for cell in book.cells if cell.cell_type == "code")
    for count, cell in enumerate(code, start=1):
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
        if joined and item.get("name") and item.get("name") == joined[-1].get("name"):
            joined[-1].text += item.text
        else:
            joined.append(item)
    return joined


_TIDY = 1.0  # seconds that an interrupted cell has to store what is finished
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def execute(
    source: Path,
    out: Path,
    values: Mapping[str, Any],
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> None:
    """Run ``source`` with these parameters and write the executed notebook to ``out``.

    ``variables`` are added to the kernel's environment; ``folder`` is the kernel's working folder (None: the
    current one). A failing cell raises InputError or RunError with one plain text. The notebook up to that
    cell is then stored beside ``out`` as ``<name>.failed.ipynb``, and an earlier ``out`` is untouched.
    ``values`` are not checked here.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # its errors are raised as well
    failed = out.with_name(f"{out.stem}.failed.ipynb")
    started: list[int] = []
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="crs-", ignore_cleanup_errors=True) as settings:
            manager = _kernel_of_this_environment(_environment(settings, variables or {}), started)
            do = functools.partial(
                papermill.execute_notebook, _literal(source), _literal(failed), dict(values),
                kernel_name="python3", progress_bar=False, cwd=folder, kernel_manager_class=manager,
                start_timeout=300,  # a busy machine may take its time over a kernel's imports
                extra_arguments=["--log-level=50"],
            )  # fmt: skip
            _interruptibly(do, started)
        failed.replace(out)
    except papermill.PapermillExecutionError as error:
        raise _plain(error, source, failed) from None
    except DeadKernelError as error:
        raise RunError(
            f"{source.stem}: its Python process ended without an answer, often for want of memory; "
            "what was finished is stored, the same command continues"
        ) from error
    except OSError as error:
        raise RunError(f"{source.stem}: could not write {paths.shown(out)} ({error})") from error


def _interruptibly(do: Callable[[], object], kernels: list[int]) -> None:
    """Do the work in a thread: papermill would take Ctrl-C for itself and wait for the cell.

    An interrupt goes on to the kernel, whose cell may store what is finished; then it is raised here.
    """
    outcome: Future[object] = Future()

    def work() -> None:
        try:
            outcome.set_result(do())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=work, name="notebook", daemon=True)
    thread.start()
    try:
        outcome.result()
    except KeyboardInterrupt:
        for sign, patience in ((signal.SIGINT, _TIDY), (signal.SIGKILL, 0.0)):
            for kernel in kernels:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(kernel, sign)
            thread.join(patience)
        raise


def _literal(path: Path) -> str:
    """The path with doubled braces: papermill reads single braces as names of parameters."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _environment(settings: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The kernel's environment: this process's, plus the package on the path, without personal settings."""
    plain = {name: value for name, value in os.environ.items() if name != "JPY_SESSION_NAME"}
    return {
        **plain,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(paths.ROOT), os.environ.get("PYTHONPATH")])),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "IPYTHONDIR": settings,
        PREFIX: sys.prefix,
        progress.VARIABLE: os.environ.get(progress.VARIABLE) or progress.terminal() or progress.OFF,
        **variables,
    }


def _kernel_of_this_environment(
    environment: dict[str, str], started: list[int]
) -> "type[AsyncKernelManager]":
    """A kernel manager whose ``python3`` is this interpreter; installed kernels of that name are ignored.

    The numbers of the processes that it starts are added to ``started``.
    """
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    def handle_unawaited(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report errors of abandoned tasks, except that of the cell that Ctrl-C interrupted."""
        if not isinstance(context.get("exception"), CellExecutionError | DeadKernelError):
            loop.default_exception_handler(context)

    class OwnKernel(AsyncKernelManager):
        def __init__(self, **options: Any) -> None:
            super().__init__(kernel_spec_manager=KernelSpecManager(kernel_dirs=[]), **options)

        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            asyncio.get_running_loop().set_exception_handler(handle_unawaited)
            await super().start_kernel(**{**options, "env": environment})
            started.extend(filter(None, [getattr(self.provisioner, "pid", None)]))

    return OwnKernel


def _plain(error: Any, source: Path, out: Path) -> InputError | RunError:
    """The failing cell's error as one plain text with the notebook's name and where the notebook is kept."""
    kept = f"(the notebook as far as it came: {paths.shown(out)})"
    if error.ename in ("InputError", "RunError"):
        kind = InputError if error.ename == "InputError" else RunError
        return kind(f"{source.stem}: {error.evalue}\n{kept}")
    text = _COLOUR.sub("", str(error.evalue)).strip() or "no message"
    arrow = re.search(r"^-+> \d+ (.*)$", _COLOUR.sub("", "\n".join(error.traceback)), re.MULTILINE)
    line = f"\n  at: {arrow[1].strip()}" if arrow else ""
    return RunError(f"{source.stem}, cell [{error.exec_count}]: {error.ename}: {text}{line}\n{kept}")
