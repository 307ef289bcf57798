"""Sweeps: notebooks over a grid of parameters, from one YAML file; a stopped sweep continues.

::

    notebooks: [03_simulate, 04_evaluate]
    parameters: {n_sessions: 100}
    grid: {seed: [1, 2, 3]}
    run: "pattern-{seed}"
    finish: [figures, report, trace]

``finish`` names what is made of each run when its notebooks are done. A parameter goes to every notebook that
takes it; ``04_evaluate.llm`` goes to that notebook alone.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, RunError, did_you_mean
from crs_lib.notebooks import parameters as notebook_parameters
from crs_lib.notebooks import runner
from crs_lib.notebooks.parameters import Parameter
from crs_lib.notebooks.rules import load

_NAMED_ONLY = re.compile(r"(?:[^{}]|\{\w+\})*")
_KEYS = ("notebooks", "parameters", "grid", "run", "finish")
FINISH = ("figures", "report", "trace")


@dataclass(frozen=True)
class Sweep:
    """A sweep, checked: every parameter is one of some notebook, every value is of its type."""

    notebooks: tuple[Path, ...]
    cells: tuple[dict[str, Any], ...]
    grid: tuple[str, ...]
    finish: tuple[str, ...] = ()

    @staticmethod
    def values_for(cell: Mapping[str, Any], notebook: Path) -> dict[str, Any]:
        """The parameters of a cell that this notebook takes; its own values override the shared ones."""
        names = {parameter.name for parameter in runner.parameters_of(notebook)}
        shared = {name: value for name, value in cell.items() if name in names}
        own = f"{notebook.stem}."
        alone = {name.removeprefix(own): value for name, value in cell.items() if name.startswith(own)}
        return shared | alone


class PlannedNotebook(NamedTuple):
    """One notebook of one cell, its parameters, and whether a finished result of it is kept."""

    cell: Mapping[str, Any]
    book: Path
    values: dict[str, Any]
    kept: bool


@safety.reader("a sweep")
def read(file: str | Path) -> Sweep:
    """Read and check a sweep, given as a path or as the name of a file in ``notebooks/sweeps``.

    Raises InputError naming the key, the parameter or the value that is wrong; nothing has run then.
    """
    path = _find(file)
    record = _record(path)
    parameters, grid = record.get("parameters") or {}, record.get("grid") or {}
    if not isinstance(parameters, dict) or not isinstance(grid, dict):
        raise InputError(f"{path.name}: 'parameters' and 'grid' must map names to values")
    books = tuple(runner.find(str(name)) for name in record["notebooks"])
    twice = sorted(set(parameters) & set(grid))
    if twice or "run" in {str(name).rpartition(".")[2] for name in (*parameters, *grid)}:
        raise InputError(f"{path.name}: {twice or ['run']} stands twice; a run's name has its own key 'run'")
    cells = tuple(_cells(path.name, parameters, grid, record["run"]))
    sweep = Sweep(books, cells, tuple(grid), _finish(path.name, record))
    declared = {book: runner.parameters_of(book) for book in books}
    together = {parameter.name: parameter for known in declared.values() for parameter in known}
    owners = tuple(f"{book.stem}." for book in books)
    for cell in cells:
        shared = {name: value for name, value in cell.items() if not name.startswith(owners)}
        notebook_parameters.check(list(together.values()), shared, path.name)
        for book, known in declared.items():
            notebook_parameters.check(known, sweep.values_for(cell, book), f"{path.name}, {book.stem}")
    return sweep


def _find(file: str | Path) -> Path:
    given = Path(file)
    folder = paths.notebooks() / "sweeps"
    for path in (given, folder / given.name, folder / f"{given.name}.yaml"):
        if path.is_file():
            return path
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    raise InputError(f"no sweep {str(file)!r}{did_you_mean(given.stem, known)} (known: {', '.join(known)})")


def _record(path: Path) -> dict[str, Any]:
    record = safety.read_yaml(path)
    if not isinstance(record, dict):
        raise InputError(f"{path.name}: expected the keys {', '.join(_KEYS)}")
    for key in record:
        if key not in _KEYS:
            raise InputError(f"{path.name}: unknown key {key!r}{did_you_mean(str(key), _KEYS)}")
    if not isinstance(record.get("notebooks"), list) or not record["notebooks"]:
        raise InputError(f"{path.name}: 'notebooks' must list at least one notebook, e.g. [03_simulate]")
    if not isinstance(record.get("run"), str):
        raise InputError(f"{path.name}: 'run' must name the runs, e.g. \"pattern-{{seed}}\"")
    return record


def _finish(source: str, record: Mapping[str, Any]) -> tuple[str, ...]:
    given = record.get("finish") or []
    for name in given if isinstance(given, list) else [given]:
        if name not in FINISH:
            hint = f"{did_you_mean(str(name), FINISH)} (known: {', '.join(FINISH)})"
            raise InputError(f"{source}: 'finish' has {name!r}{hint}")
    return tuple(given)


def _cells(
    source: str, parameters: Mapping[str, Any], grid: Mapping[str, Any], pattern: str
) -> Iterator[dict[str, Any]]:
    """Every combination of the grid with its run's name; InputError if two would share a name."""
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{source}: grid of {name!r} is {values!r}; expected a list of values")
    if not _NAMED_ONLY.fullmatch(pattern):
        raise InputError(
            f"{source}: 'run' is {pattern[:80]!r}; in braces write names of parameters alone, e.g. "
            '"study-{seed}"'
        )
    safety.check_limit("sweep_cells", math.prod(map(len, grid.values())), f"{source}: the grid has")
    seen: dict[str, dict[str, Any]] = {}
    for combination in itertools.product(*grid.values()):
        point = dict(zip(grid, combination, strict=True))
        try:
            plain = {name: paths.slug(str(value)) for name, value in (dict(parameters) | point).items()}
            run = pattern.format(**plain)
        except (KeyError, IndexError, ValueError) as error:
            raise InputError(
                f"{source}: 'run' is {pattern!r}; {error} is no parameter of the sweep"
            ) from error
        paths.run_folder("movies", run)  # the name must be a folder's
        if run in seen:
            raise InputError(
                f"{source}: {seen[run]} and {point} would both be run {run!r}; "
                f"name every grid parameter in 'run', e.g. \"{pattern}-{{{next(iter(grid))}}}\""
            )
        seen[run] = point
        yield {"run": run, **parameters, **point}


def run(
    file: str | Path,
    say: Callable[[str], object] | None = None,
    ready: Callable[[Sequence[tuple[str, Mapping[str, Any]]]], object] | None = None,
) -> pd.DataFrame:
    """Run a sweep; returns a row for each run and notebook: the grid's values and done, kept or failed.

    ``say`` receives one line for each notebook that starts. ``ready`` receives all notebooks that will run,
    with their parameters, before the first one starts; an error that ``ready`` raises ends the sweep.

    A finished notebook with the same code and parameters is kept; a stopped one is run again and continues.
    A run that fails does not stop the others; at the end a RunError with the table names the failures.
    """
    sweep = read(file)
    plan = [list(_steps(cell, sweep.notebooks)) for cell in sweep.cells]
    if ready:
        ready([(step.book.stem, step.values) for steps in plan for step in steps if not step.kept])
    rows, errors = [], []
    for steps in plan:
        for cell, book, values, kept in steps:
            row = {"run": cell["run"], **{name: cell[name] for name in sweep.grid}, "notebook": book.stem}
            if kept:
                rows.append({**row, "status": "kept"})
                continue
            if say:
                say(f"{cell['run']}: {book.stem} …")
            try:
                runner.run(book, values)
            except (InputError, RunError) as error:
                rows.append({**row, "status": "failed"})
                errors.append(f"{cell['run']}: {error}")
                break
            rows.append({**row, "status": "done"})
    table = pd.DataFrame(rows)
    if errors:
        raise RunError(f"{table.to_string(index=False)}\n{len(errors)} failed:\n" + "\n".join(errors))
    return table


def _steps(cell: Mapping[str, Any], books: Sequence[Path]) -> Iterator[PlannedNotebook]:
    """The notebooks of a cell in order; those after a notebook that must run are not kept."""
    kept = True
    for book in books:
        values = Sweep.values_for(cell, book)
        kept = kept and _is_finished(book, values)
        yield PlannedNotebook(cell, book, values, kept)


def _is_finished(book: Path, values: Mapping[str, Any]) -> bool:
    """Whether the run holds this notebook, executed to the end with the same code and parameters."""
    declared: list[Parameter] = runner.parameters_of(book)
    path = runner.output(book, {p.name: p.default for p in declared} | dict(values))
    if not path.is_file():
        return False
    try:
        executed = load(path)
    except InputError:  # cut off while it was written
        return False
    record = executed.metadata.get("papermill", {})
    given = record.get("parameters", {}) == dict(values)
    ended = record.get("end_time") and not record.get("exception")
    return bool(given and ended and _sources(executed) == _sources(load(book)))


def _sources(notebook: Any) -> list[str]:
    kept = [cell for cell in notebook.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    return [cell.source for cell in kept if cell.cell_type == "code"]
