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
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Field, Settings
from crs_lib.notebooks import runner
from crs_lib.notebooks.runner import load

_Finish = Literal["figures", "report", "trace"]
_Values = Annotated[list[Any], Field(min_length=1)]


class Sweep(Settings):
    """A sweep, checked: every parameter is one of some notebook, every value is of its type."""

    notebooks: Annotated[Sequence[str], Field(min_length=1, description="notebooks, in order")]
    run: Annotated[str, Field(description="a run's name, e.g. study-{seed}")]
    parameters: Annotated[Mapping[str, Any], Field(description="values of all runs by name")] = {}
    grid: Annotated[Mapping[str, _Values], Field(description="lists of values by name, to combine")] = {}
    finish: Annotated[Sequence[_Finish], Field(description="made of each run at its end")] = ()

    @cached_property
    def books(self) -> list[Path]:
        """The files of the notebooks, in order."""
        return [runner.find(name) for name in self.notebooks]

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """Every combination of the grid with its run's name; InputError if two would share a name."""
        seen: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}  # the grid's values and the cell
        if twice := [name for name in self.grid if name in self.parameters]:
            raise InputError(f"{twice} stands twice; a value stands in 'parameters' or in 'grid'")
        safety.check_limit("sweep_cells", math.prod(map(len, self.grid.values())), "the grid has")
        for combination in itertools.product(*self.grid.values()):
            point = dict(zip(self.grid, combination, strict=True))
            cell = {**self.parameters, **point}
            if any(name.rpartition(".")[2] == "run" for name in cell):
                raise InputError("'run' is no parameter of a sweep; its key 'run' names the runs")
            run = paths.run_name(re.sub(r"\{(\w+)\}", partial(_slug, cell), self.run))
            if run in seen:
                told = f"name every grid parameter in 'run', e.g. '{self.run}-{{{next(iter(self.grid))}}}'"
                raise InputError(f"{seen[run][0]} and {point} would both be run {run!r}; {told}")
            seen[run] = point, {"run": run, **cell}
        return [cell for _, cell in seen.values()]

    def check(self) -> None:
        declared = {book: runner.parameters_of(book) for book in self.books}
        together = {name: one for known in declared.values() for name, one in known.items()}
        owners = tuple(f"{book.stem}." for book in self.books)
        for cell in self.cells:
            shared = {name: value for name, value in cell.items() if not name.startswith(owners)}
            runner.check_parameters(together, shared, "the sweep")
            for book, known in declared.items():
                runner.check_parameters(known, self.values_for(cell, book), book.stem)

    @staticmethod
    def values_for(cell: Mapping[str, Any], notebook: Path) -> dict[str, Any]:
        """The parameters of a cell that this notebook takes; its own values override the shared ones."""
        takes, own = runner.parameters_of(notebook), f"{notebook.stem}."
        alone = {name.removeprefix(own): value for name, value in cell.items() if name.startswith(own)}
        return {name: value for name, value in cell.items() if name in takes} | alone


_Ready = Callable[[Sequence[tuple[str, Mapping[str, Any]]]], object]  # of the names and parameters
_Planned = tuple[Path, dict[str, Any], bool]  # a notebook, its parameters, whether a finished result is kept


@safety.reader("a sweep")
def read(file: str | Path) -> Sweep:
    """Read and check a sweep, by its path or its name in ``notebooks/sweeps``; InputError for a wrong one."""
    path = runner.found("sweep", file, paths.notebooks() / "sweeps", ".yaml")
    record = safety.read_yaml(path)
    if not isinstance(record, dict):
        raise InputError(f"{path.name}: expected the keys {', '.join(Sweep.model_fields)}")
    try:
        return Sweep(**{str(key): value for key, value in record.items() if value is not None})
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from error


def _slug(cell: Mapping[str, Any], found: re.Match[str]) -> str:
    if found[1] not in cell:
        raise InputError(f"run holds {found[0]}; {found[1]!r} is no parameter of the sweep")
    return paths.slug(str(cell[found[1]]))


def run(
    file: str | Path, say: Callable[[str], object] = lambda text: None, ready: _Ready = lambda steps: None,
    jobs: int = 1,
) -> pd.DataFrame:  # fmt: skip
    """Run a sweep; returns a row for each run and notebook: the grid's values and done, kept or failed.
    ``say`` receives a line for each notebook that starts or ends, ``ready`` all notebooks that will run, with
    their parameters, before the first starts. ``jobs`` runs go on at once. A finished notebook with the same
    code and parameters is kept; a stopped one continues. A run that fails does not stop the others; at the
    end a RunError names the failures.
    """
    sweep = read(file)
    plan = [list(_steps(cell, sweep.books)) for cell in sweep.cells]
    ready([(book.stem, values) for steps in plan for book, values, kept in steps if not kept])
    ended, total = itertools.count(1), sum(map(len, plan))

    def chain(cell: Mapping[str, Any], steps: Sequence[_Planned]) -> list[dict[str, Any]]:
        """The rows of a run's notebooks, one after the other, up to one that fails."""
        rows: list[dict[str, Any]] = []
        for book, values, kept in steps:
            row = {"notebook": book.stem, "status": "kept" if kept else "done"}
            rows.append({name: cell[name] for name in ("run", *sweep.grid)} | row)
            began, name = time.monotonic(), f"{cell['run']}: {book.stem}"
            try:
                if not kept:
                    say(f"{name} …")
                    runner.run(book, values)
            except (InputError, RunError) as error:
                rows[-1] |= {"status": "failed", "error": f"{cell['run']}: {error}"}
                break
            place = next(ended)
            if not kept:
                say(f"{place}/{total} {name} {time.monotonic() - began:.0f} s")
        return rows

    if jobs == 1:
        found = list(map(chain, sweep.cells, plan))
    else:
        with ThreadPoolExecutor(jobs) as pool:
            found = list(pool.map(chain, sweep.cells, plan))
    table = pd.DataFrame([row for rows in found for row in rows])
    if "error" in table:
        errors = table.pop("error").dropna()
        raise RunError(f"{table.to_string(index=False)}\n{len(errors)} failed:\n" + "\n".join(errors))
    return table


def _steps(cell: Mapping[str, Any], books: Sequence[Path]) -> Iterator[_Planned]:
    """The notebooks of a cell in order; those after a notebook that must run are not kept."""
    kept = True
    for book in books:
        values = Sweep.values_for(cell, book)
        kept = kept and _is_finished(book, values)
        yield book, values, kept


def _is_finished(book: Path, values: Mapping[str, Any]) -> bool:
    """Whether the run holds this notebook, executed to the end with the same code and parameters."""
    defaults = {name: one.default for name, one in runner.parameters_of(book).items()}
    try:
        executed = load(runner.output(book, defaults | dict(values)))
    except InputError:  # there is none, or it was cut off while it was written
        return False
    record = executed.metadata.get("papermill", {})
    ended = record.get("end_time") and not record.get("exception")
    same = record.get("parameters", {}) == dict(values) and _sources(executed) == _sources(load(book))
    return bool(ended and same)


def _sources(notebook: Any) -> list[str]:
    injected = runner.code_cells(notebook, "injected-parameters")
    return [cell.source for cell in runner.code_cells(notebook) if cell not in injected]
