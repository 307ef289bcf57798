"""Notebooks executed in fresh kernels, with parameters that are read from their tagged cell and checked.

``run`` is papermill made strict: an unknown or mistyped parameter is an error before anything starts. The
cell holds lines ``name: type = literal  # help`` alone, parsed as Python (``ast``): papermill's own reader
does not understand a ``#`` inside a text.
"""

import ast
import asyncio
import contextlib
import functools
import io
import json
import logging
import os
import re
import signal
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError

from crs_lib.core import paths, progress, safety
from crs_lib.core.clients import clients
from crs_lib.core.errors import InputError, RunError, unknown
from crs_lib.notebooks.look import PREFIX

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager

_AUTHORITY = re.compile(r"\w://(\S*)")
_HARMLESS = re.compile(r"\?api-version=[\w.-]+(?![\w.&=-])")
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_SCALARS: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool}
_WORDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "list": "a list",
    "dict": "an object",
}  # fmt: skip


@safety.reader("a notebook")
def load(path: Path) -> Any:
    """The notebook as nbformat reads it (format 4); InputError where the file is none."""
    import nbformat

    text = safety.read_text(path)
    with contextlib.suppress(
        ValueError, TypeError, KeyError, AssertionError
    ):  # of a version that is no number
        record = safety.loads(text, path.name)
        sources = [cell["source"] for cell in record["cells"]]
        if record["nbformat"] == 4 and all(isinstance(source, str | list) for source in sources):
            return nbformat.reads(text, as_version=4)
    raise InputError(f"{path.name} is no notebook of format 4; open it in JupyterLab and save it")


def code_cells(notebook: Any, tag: str = "") -> list[Any]:
    """The code cells in order; with a tag, those that carry it."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [cell for cell in cells if not tag or tag in cell.metadata.get("tags", [])]


@dataclass(frozen=True)
class Parameter:
    """One line of the parameters cell; ``kind`` names the outer type, ``inner`` that of the items."""

    name: str
    annotation: str
    default: Any
    help: str

    @property
    def kind(self) -> str:
        return self.annotation.partition("[")[0]

    @property
    def inner(self) -> str | None:
        """The type of a list's items or a dict's values; None where any type is allowed."""
        inside = self.annotation.partition("[")[2].rstrip("]").rpartition(",")[2].strip()
        return inside if inside in _WORDS else None

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        inner = _SCALARS.get(self.inner or "", JsonValue)
        kinds = _SCALARS | {"list": list[inner], "dict": dict[str, inner]}  # type: ignore[valid-type]
        return TypeAdapter(kinds[self.kind], config=_STRICT)

    def checked(self, value: object) -> Any:
        """The value, checked against the type; a whole number given for a float becomes a float. Numbers must
        be finite; lists and objects may hold only what JSON holds. Raises InputError with the value and the
        expected type. An address that could hold a password or a key is refused and not shown.
        """
        if _may_hold_secret(value):
            why = "has an address with a password or a query, which would stand in the notebook"
            told = "give the address alone, and put a key in the environment"
            raise InputError(f"parameter {self.name!r} {why}; {told}")
        try:
            read = self._adapter.validate_python(value)
        except ValidationError:
            expected = f"{_WORDS[self.kind]} ({self.annotation}), e.g. {self.default!r}"
            raise InputError(f"parameter {self.name!r} is {value!r}; expected {expected}") from None
        return read if self.kind == "float" else value

    def from_text(self, text: str) -> Any:
        """A value from the command line, read as the type; lists are JSON or parts between commas."""
        if self.kind == "str":
            return text
        if self.kind == "list" and not text.lstrip().startswith("["):
            item = Parameter(self.name, self.inner or "str", self.default, "")
            return self.checked([item.from_text(part.strip()) for part in text.split(",") if part.strip()])
        value: Any = text
        with contextlib.suppress(InputError):
            value = safety.loads(text.lower() if self.kind == "bool" else text, self.name)
        return self.checked(value)


def read_parameters(cell: str, source: str) -> dict[str, Parameter]:
    """The parameters of a cell of ``source`` by name; InputError for no line ``name: type = literal``."""
    try:
        lines = ast.parse(cell).body
    except SyntaxError as error:
        raise InputError(f"{source}: the parameters cell is not Python (line {error.lineno})") from error
    tokens = tokenize.generate_tokens(io.StringIO(cell).readline)
    helps = {one.start[0]: one.string.lstrip("# ").rstrip() for one in tokens if one.type == tokenize.COMMENT}
    parameters = {}
    for line in lines:
        parameter = _parameter(line, helps.get(line.end_lineno or 0, ""), source)
        parameters[parameter.name] = parameter
    return parameters


def _parameter(line: Any, comment: str, source: str) -> Parameter:
    where = f"{source}: line {line.lineno} of the parameters cell"
    try:
        name, annotation = line.target.id, ast.unparse(line.annotation)
        parameter = Parameter(name, annotation, ast.literal_eval(line.value), comment)
    except (AttributeError, ValueError) as error:
        wrong = f"'{ast.unparse(line)}', expected 'name: type = literal  # help' (no literal is computed)"
        raise InputError(f"{where} is {wrong}") from error
    if parameter.kind not in _WORDS:
        raise InputError(f"{where} has type {annotation!r}; use one of {', '.join(_WORDS)}")
    try:
        parameter.checked(parameter.default)
    except InputError as error:
        raise InputError(f"{where}: the default is not of its type: {error}") from error
    return parameter


def _may_hold_secret(value: object, name: str = "") -> bool:
    """Whether an address in a value has a user part or a query; ``name`` is the key of the value."""
    if isinstance(value, dict):
        return any(_may_hold_secret(item, str(key)) for key, item in value.items())
    if isinstance(value, list):
        return any(_may_hold_secret(item, name) for item in value)
    parts = [value, *_AUTHORITY.findall(value)][name != "host" :] if isinstance(value, str) else ()
    return any("@" in part or "?" in _HARMLESS.sub("", part) for part in parts)


def check_parameters(
    declared: Mapping[str, Parameter], values: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """The given values, each checked; InputError for a name that the notebook does not have."""
    for name in values:
        if name not in declared:
            raise InputError(f"{source}: {unknown('parameter', name, declared)}")
    return {name: declared[name].checked(value) for name, value in values.items()}


def help_text(parameters: dict[str, Parameter], source: str) -> str:
    """The parameters of a notebook to read: one a line, with its default."""
    heads = [f"{name} ({parameter.annotation})" for name, parameter in parameters.items()]
    width = max(map(len, heads), default=0)
    lines = [f"parameters of {source}, with their defaults:"]
    for head, parameter in zip(heads, parameters.values(), strict=True):
        default = json.dumps(parameter.default, ensure_ascii=False)
        lines.append(f"  {head:<{width}}  {parameter.help} [{default}]")
    return "\n".join(lines)


def find(notebook: str | Path) -> Path:
    """The file of a notebook given as ``03_simulate``, ``03_simulate.ipynb`` or a path."""
    return found("notebook", notebook, paths.notebooks(), ".ipynb")


def found(kind: str, name: str | Path, folder: Path, ending: str) -> Path:
    """The file of a path, or of a name in a folder, whose ending may be left out; InputError for none."""
    named = Path(f"{str(name).removesuffix(ending)}{ending}")
    for path in (named, folder / named.name):
        if path.is_file():
            return path.resolve()
    raise unknown(kind, str(name), sorted(path.stem for path in folder.glob(f"*{ending}")))


def committed() -> list[Path]:
    """The notebooks of the repository, in the order of the pipeline."""
    return sorted(paths.notebooks().glob("*.ipynb"))


def study(notebook: Path) -> str:
    """The study of a notebook, from the tens digit of its number; ``other`` for a name without a number."""
    if not notebook.name[:2].isdigit():
        return "other"
    digit = notebook.name[0]
    if digit == "0":
        return "movies"
    for client in clients():
        if digit in client.notebooks:
            return client.notebooks[digit]
    return "other"


def parameters_of(notebook: str | Path) -> dict[str, Parameter]:
    """The parameters of a notebook by name, in order; none without a cell tagged ``parameters``."""
    path = find(notebook)
    cells = code_cells(load(path), "parameters")
    return read_parameters(cells[0].source, path.stem) if cells else {}


def run(
    notebook: str | Path, parameters: Mapping[str, object] | None = None, out: str | Path | None = None
) -> Path:
    """Run a notebook with these parameters in a fresh kernel; returns the path of the executed notebook. The
    path is ``results/<study>/<run>/notebooks/<notebook>.ipynb`` unless ``out`` names another. Raises
    InputError for an unknown notebook, an unknown parameter or a value of another type, before anything runs;
    InputError or RunError with the text of the cell that failed. A failed notebook is kept.
    """
    source = find(notebook)
    declared = parameters_of(source)
    given = check_parameters(declared, parameters or {}, source.stem)
    usual = output(source, {name: p.default for name, p in declared.items()} | given)
    target = paths.given(out) if out else usual
    if target.suffix != ".ipynb":
        raise InputError(f"the output {str(target)!r} is no notebook; give a name that ends in .ipynb")
    named = [paths.given(value) for value in given.values() if isinstance(value, str) and value]
    paths.apart([target], [source, *(path for path in named if path.is_file())], own=usual)
    execute(source, target, given)
    return target


def output(source: Path, values: Mapping[str, Any]) -> Path:
    """The path of the executed notebook of a run."""
    name = values.get("run")
    folder = paths.run_folder(study(source), name) if name else paths.results() / study(source)
    return folder / "notebooks" / source.name


_PROGRESS = "progress.txt"  # where a kernel without a terminal writes how far it is
_GLANCE = 0.2  # seconds between two looks at it
_TIDY = 1.0  # seconds that an interrupted cell has to store what is finished
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def execute(
    source: Path, out: Path, values: Mapping[str, Any], env: Mapping[str, str] = {}, cwd: Path | None = None
) -> None:
    """Run ``source`` with these parameters and write the executed notebook to ``out``. ``env`` is added to
    the kernel's environment; ``cwd`` is the kernel's working folder (None: the current one). A failing cell
    raises InputError or RunError with one plain text. The notebook up to that cell is then stored beside
    ``out`` as ``<name>.failed.ipynb``, and an earlier ``out`` is untouched. ``values`` are not checked here.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # its errors are raised as well
    failed = out.with_name(f"{out.stem}.failed.ipynb")
    started: list[int] = []
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="crs-", ignore_cleanup_errors=True) as settings:
            manager = _own_kernel(_environment(settings, env), started)
            do = functools.partial(
                papermill.execute_notebook, _literal(source), _literal(failed), dict(values),
                kernel_name="python3", progress_bar=False, cwd=cwd, kernel_manager_class=manager,
                start_timeout=300,  # a busy machine may take its time over a kernel's imports
                extra_arguments=["--log-level=50"],
                coalesce_streams=True,  # how printed text is split depends on timing
            )  # fmt: skip
            _interruptibly(do, started, Path(settings) / _PROGRESS)
        failed.replace(out)
    except papermill.PapermillExecutionError as error:
        raise _plain(error, source, _aside(failed)) from None
    except DeadKernelError as error:
        why = "its Python process ended without an answer, often for want of memory"
        raise RunError(f"{source.stem}: {why}; what is finished is kept, start it again") from error
    except OSError as error:
        raise RunError(f"{source.stem}: could not write {paths.shown(out)} ({error})") from error


def _aside(failed: Path) -> Path:
    """Where a failed notebook is kept: in its run, or of a run without any file beside all runs."""
    run = failed.parent.parent
    if failed.parent.name != "notebooks" or [*run.rglob("*.*")] != [failed]:
        return failed
    place = run.parent / "notebooks" / f"{run.name}-{failed.name}"
    place.parent.mkdir(exist_ok=True)
    failed.replace(place)
    with contextlib.suppress(OSError):
        failed.parent.rmdir()
        run.rmdir()
    return place


def _interruptibly(do: Callable[[], object], kernels: list[int], progress_lines: Path) -> None:
    """Do it in a thread, as papermill would keep Ctrl-C to itself: the kernel gets it, then it is raised.
    What the kernel writes about its progress is shown here.
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
        shown = 0
        while thread.is_alive():
            thread.join(_GLANCE)
            shown = _show_new(progress_lines, shown)
        outcome.result()
    except KeyboardInterrupt:
        for sign, patience in ((signal.SIGINT, _TIDY), (signal.SIGKILL, 0.0)):
            for kernel in kernels:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(kernel, sign)
            thread.join(patience)
        raise


def _show_new(lines: Path, shown: int) -> int:
    """Print what was added to a file behind its first ``shown`` characters; how many there are now."""
    if not lines.is_file():
        return shown
    text = lines.read_text(encoding="utf-8")
    print(text[shown:], end="", file=sys.stderr, flush=True)
    return len(text)


def _literal(path: Path) -> str:
    """The path with doubled braces: papermill reads single braces as names of parameters."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _environment(settings: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The kernel's environment: this process's, plus the package on the path, without personal settings."""
    lines = f"{progress.LINES}{Path(settings) / _PROGRESS}"
    plain = {name: value for name, value in os.environ.items() if name != "JPY_SESSION_NAME"}
    return {
        **plain, "PYTHONPATH": os.pathsep.join(filter(None, [str(paths.ROOT), os.environ.get("PYTHONPATH")])),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline", "IPYTHONDIR": settings, PREFIX: sys.prefix,
        progress.VARIABLE: os.environ.get(progress.VARIABLE) or progress.terminal() or lines, **variables,
    }  # fmt: skip


def _own_kernel(environment: dict[str, str], started: list[int]) -> "type[AsyncKernelManager]":
    """A kernel manager whose ``python3`` is this interpreter; process numbers are added to ``started``."""
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
