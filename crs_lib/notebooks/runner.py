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

_ADDRESS = re.compile(r"\w://(\S*)")
_HARMLESS = re.compile(r"\?api-version=[\w.-]+(?![\w.&=-])")
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_SCALARS: dict[str, Any] = {"str": str, "int": int, "float": float, "bool": bool}
_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "an object",
}
_BROKEN = (ValueError, TypeError, KeyError, AssertionError)  # by a version that is no number, too


@safety.reader("a notebook")
def load(path: Path) -> Any:
    """The notebook as nbformat reads it (format 4); InputError where the file is none."""
    import nbformat

    text = safety.read_text(path)
    with contextlib.suppress(*_BROKEN):
        record = safety.loads(text, path.name)
        for cell in record["cells"]:
            if not isinstance(cell["source"], str | list):
                raise TypeError("a source is a text or a list of lines")
        if record["nbformat"] == 4:
            return nbformat.reads(text, as_version=4)
    raise InputError(f"{path.name} is no notebook of format 4; open it in JupyterLab and save it")


def code_cells(notebook: Any, tag: str = "") -> list[Any]:
    """The code cells in order; with a tag, those that carry it."""
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "code" and (not tag or tag in cell.metadata.get("tags", [])):
            cells.append(cell)
    return cells


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
        inside = self.annotation.partition("[")[2].rstrip("]")
        last = inside.rpartition(",")[2].strip()
        return last if last in _WORDS else None

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        inner = _SCALARS.get(self.inner or "", JsonValue)
        kinds = _SCALARS | {"list": list[inner], "dict": dict[str, inner]}  # type: ignore[valid-type]
        return TypeAdapter(kinds[self.kind], config=_STRICT)

    def checked(self, value: object) -> Any:
        """The value, checked against the type; a whole number given for a float becomes a float.

        Numbers must be finite; lists and objects may hold only what JSON holds. Raises InputError with the
        value and the expected type. An address that could hold a password or a key is refused and not shown.
        """
        if _may_hold_secret(value):
            why = "has an address with a password or a query, which would stand in the notebook"
            cure = "give the address alone, and put a key in the environment"
            raise InputError(f"parameter {self.name!r} {why}; {cure}")
        try:
            converted = self._adapter.validate_python(value)
        except ValidationError:
            expected = f"{_WORDS[self.kind]} ({self.annotation}), e.g. {self.default!r}"
            raise InputError(f"parameter {self.name!r} is {value!r}; expected {expected}") from None
        return converted if self.kind == "float" else value

    def from_text(self, text: str) -> Any:
        """A value from the command line, read as the type; lists are JSON or parts between commas."""
        if self.kind == "str":
            return text
        if self.kind == "list" and not text.lstrip().startswith("["):
            item = Parameter(self.name, self.inner or "str", self.default, "")
            values = []
            for part in text.split(","):
                if part.strip():
                    values.append(item.from_text(part.strip()))
            return self.checked(values)
        if self.kind == "bool":
            text = text.lower()
        value: Any = text
        with contextlib.suppress(InputError):
            value = safety.loads(text, self.name)
        return self.checked(value)


def read_parameters(cell: str, source: str) -> dict[str, Parameter]:
    """The parameters of a cell of ``source`` by name; InputError for no line ``name: type = literal``."""
    try:
        lines = ast.parse(cell).body
    except SyntaxError as error:
        raise InputError(f"{source}: the parameters cell is not Python (line {error.lineno})") from error
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(cell).readline):
        if token.type == tokenize.COMMENT:
            comments[token.start[0]] = token.string.lstrip("# ").rstrip()
    parameters = {}
    for line in lines:
        parameter = _parameter(line, comments.get(line.end_lineno or 0, ""), source)
        parameters[parameter.name] = parameter
    return parameters


def _parameter(line: Any, comment: str, source: str) -> Parameter:
    where = f"{source}: line {line.lineno} of the parameters cell"
    try:
        annotation = ast.unparse(line.annotation)
        parameter = Parameter(line.target.id, annotation, ast.literal_eval(line.value), comment)
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


def _may_hold_secret(value: object, key: str = "") -> bool:
    """Whether an address in a value has a user part or a query; ``key`` is that of the value."""
    if isinstance(value, dict):
        return any(_may_hold_secret(item, str(name)) for name, item in value.items())
    if isinstance(value, list):
        return any(_may_hold_secret(item, key) for item in value)
    if not isinstance(value, str):
        return False
    addresses = " ".join(_ADDRESS.findall(value))
    if key == "host":
        addresses += f" {value}"
    return "@" in addresses or "?" in _HARMLESS.sub("", addresses)


def check_parameters(
    declared: Mapping[str, Parameter], values: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """The given values, each checked; InputError for a name that the notebook does not have."""
    for name in values:
        if name not in declared:
            raise InputError(f"{source}: {unknown('parameter', name, declared)}")
    return {name: declared[name].checked(value) for name, value in values.items()}


def help_text(parameters: Mapping[str, Parameter], source: str) -> str:
    """The parameters of a notebook to read: one a line, with its default."""
    heads = {name: f"{name} ({parameter.annotation})" for name, parameter in parameters.items()}
    width = max(map(len, heads.values()), default=0)
    lines = [f"parameters of {source}, with their defaults:"]
    for name, parameter in parameters.items():
        default = json.dumps(parameter.default, ensure_ascii=False)
        lines.append(f"  {heads[name]:<{width}}  {parameter.help} [{default}]")
    return "\n".join(lines)


def find(notebook: str | Path) -> Path:
    """The file of a notebook given as ``03_simulate``, ``03_simulate.ipynb`` or a path."""
    return file_of("notebook", notebook, paths.notebooks(), ".ipynb")


def file_of(kind: str, name: str | Path, folder: Path, ending: str) -> Path:
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
    digit = notebook.name[0]
    if not notebook.name[:2].isdigit():
        return "other"
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
    """Run a notebook with these parameters in a fresh kernel; returns the path of the executed notebook.

    The path is ``results/<study>/<run>/notebooks/<notebook>.ipynb`` unless ``out`` names another. Raises
    InputError for an unknown notebook, an unknown parameter or a value of another type, before anything runs;
    InputError or RunError with the text of the cell that failed. A failed notebook is kept.
    """
    source = find(notebook)
    values = check_parameters(parameters_of(source), parameters or {}, source.stem)
    usual = output(source, values)
    target = paths.given(out) if out else usual
    if target.suffix != ".ipynb":
        raise InputError(f"the output {str(target)!r} is no notebook; give a name that ends in .ipynb")
    inputs = [source]
    for value in values.values():
        if isinstance(value, str) and value and paths.given(value).is_file():
            inputs.append(paths.given(value))
    paths.apart([target], inputs, own=usual)
    execute(source, target, values)
    return target


def account(executed: Path) -> list[str]:
    """The lines printed by an executed notebook that say what was read and what was left out or merged."""
    lines: list[str] = []
    for cell in code_cells(load(executed)):
        for printed in cell.outputs:
            lines += filter(_ACCOUNT.search, printed.get("text", "").splitlines())
    return lines


def output(source: Path, values: Mapping[str, Any]) -> Path:
    """The path of the executed notebook of a run, with its defaults where ``values`` has no other."""
    defaults = {name: parameter.default for name, parameter in parameters_of(source).items()}
    name = {**defaults, **values}.get("run")
    folder = paths.run_folder(study(source), name) if name else paths.results() / study(source)
    return folder / "notebooks" / source.name


_PROGRESS = "progress.txt"  # where a kernel without a terminal writes how far it is
_GLANCE = 0.2  # seconds between two looks at it
_TIDY = 1.0  # seconds that an interrupted cell has to store what is finished
_ACCOUNT = re.compile(r"\bread\b.*\b(?:left out|merged)\b")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def execute(
    source: Path, out: Path, values: Mapping[str, Any], env: Mapping[str, str] = {}, cwd: Path | None = None
) -> None:
    """Run ``source`` with these parameters, which are not checked, and write the executed notebook.

    ``env`` is added to the kernel's environment; ``cwd`` is the kernel's working folder (None: the current
    one). A failing cell raises InputError or RunError with one plain text. The notebook up to that cell is
    then stored beside ``out`` as ``<name>.failed.ipynb``, and an earlier ``out`` is untouched.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # its errors are raised as well
    failed = out.with_name(f"{out.stem}.failed.ipynb")
    kernels: list[int] = []
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="crs-", ignore_cleanup_errors=True) as settings:
            options = {
                "kernel_name": "python3",
                "kernel_manager_class": _own_kernel(_environment(settings, env), kernels),
                "progress_bar": False,
                "cwd": cwd,
                "start_timeout": 300,  # a busy machine may take its time over a kernel's imports
                "extra_arguments": ["--log-level=50"],
                "coalesce_streams": True,  # how printed text is split depends on timing
            }
            places = _literal(source), _literal(failed), dict(values)
            job = functools.partial(papermill.execute_notebook, *places, **options)
            _interruptibly(job, kernels, Path(settings) / _PROGRESS)
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
    run_folder = failed.parent.parent
    files = list(run_folder.rglob("*.*"))
    if failed.parent.name != "notebooks" or files != [failed]:
        return failed
    beside = run_folder.parent / "notebooks" / f"{run_folder.name}-{failed.name}"
    beside.parent.mkdir(exist_ok=True)
    failed.replace(beside)
    with contextlib.suppress(OSError):
        failed.parent.rmdir()
        run_folder.rmdir()
    return beside


def _interruptibly(job: Callable[[], object], kernels: list[int], progress_lines: Path) -> None:
    """Do a job in a thread, as papermill would keep Ctrl-C to itself: kernels get it, then it is raised.

    What the kernel writes about its progress is shown here.
    """
    outcome: Future[object] = Future()

    def work() -> None:
        try:
            outcome.set_result(job())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=work, name="notebook", daemon=True)
    thread.start()
    shown = 0
    try:
        while thread.is_alive():
            thread.join(_GLANCE)
            shown = _show_new(progress_lines, shown)
        outcome.result()
    except KeyboardInterrupt:
        _signal(kernels, signal.SIGINT)
        thread.join(_TIDY)
        _signal(kernels, signal.SIGKILL)
        thread.join(0.0)
        raise


def _signal(kernels: list[int], sign: signal.Signals) -> None:
    for kernel in kernels:
        with contextlib.suppress(ProcessLookupError):
            os.kill(kernel, sign)


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
    environment = dict(os.environ)
    environment.pop("JPY_SESSION_NAME", None)
    python_path = [str(paths.ROOT), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, python_path))
    environment["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    environment["IPYTHONDIR"] = settings
    environment[PREFIX] = sys.prefix
    if not environment.get(progress.VARIABLE):
        environment[progress.VARIABLE] = progress.terminal() or lines
    return {**environment, **variables}


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
            options["env"] = environment
            await super().start_kernel(**options)
            process = getattr(self.provisioner, "pid", None)
            if process:
                started.append(process)

    return OwnKernel


def _plain(error: Any, source: Path, out: Path) -> InputError | RunError:
    """The failing cell's error as one plain text with the notebook's name and where the notebook is kept."""
    where = f"(the notebook as far as it came: {paths.shown(out)})"
    if error.ename == "InputError":
        return InputError(f"{source.stem}: {error.evalue}\n{where}")
    if error.ename == "RunError":
        return RunError(f"{source.stem}: {error.evalue}\n{where}")
    text = _COLOUR.sub("", str(error.evalue)).strip() or "no message"
    trace = _COLOUR.sub("", "\n".join(error.traceback))
    arrow = re.search(r"^-+> \d+ (.*)$", trace, re.MULTILINE)
    line = f"\n  at: {arrow[1].strip()}" if arrow else ""
    return RunError(f"{source.stem}, cell [{error.exec_count}]: {error.ename}: {text}{line}\n{where}")
