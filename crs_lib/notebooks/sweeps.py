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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pandas as pd

from crs_lib.core import paths, safety
from crs_lib.core.errors import InputError, RunError
from crs_lib.core.settings import Field, Settings
from crs_lib.notebooks import runner
from crs_lib.notebooks.runner import load

Values = Annotated[list[Any], Field(min_length=1)]
Product = Literal["figures", "report", "trace"]


class Sweep(Settings):
    """A sweep, checked: every parameter is one of some notebook, every value is of its type."""

    notebooks: Annotated[Sequence[str], Field(min_length=1, description="notebooks, in order")]
    run: Annotated[str, Field(description="a run's name, e.g. study-{seed}")]
    parameters: Annotated[Mapping[str, Any], Field(description="values of all runs by name")] = {}
    grid: Annotated[Mapping[str, Values], Field(description="lists of values by name, to combine")] = {}
    finish: Annotated[Sequence[Product], Field(description="made of each run at its end")] = ()

    @cached_property
    def books(self) -> list[Path]:
        """The files of the notebooks, in order."""
        return [runner.find(name) for name in self.notebooks]

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """Every combination of the grid with its run's name; InputError if two would share a name."""
        twice = [name for name in self.grid if name in self.parameters]
        if twice:
            raise InputError(f"{twice} stands twice; a value stands in 'parameters' or in 'grid'")
        size = math.prod(len(values) for values in self.grid.values())
        safety.check_limit("sweep_cells", size, "the grid has")
        cells = []
        points: dict[str, dict[str, Any]] = {}  # of the grid, by the name of their run
        for combination in itertools.product(*self.grid.values()):
            point = dict(zip(self.grid, combination, strict=True))
            values = {**self.parameters, **point}
            run = self._run_of(values)
            if run in points:
                better = f"name every grid parameter in 'run', e.g. '{self.run}-{{{next(iter(self.grid))}}}'"
                raise InputError(f"{points[run]} and {point} would both be run {run!r}; {better}")
            points[run] = point
            cells.append({"run": run, **values})
        return cells

    def _run_of(self, values: Mapping[str, Any]) -> str:
        """The name of a cell's run: its parameters put into ``run``."""
        for name in values:
            if name.rpartition(".")[2] == "run":
                raise InputError("'run' is no parameter of a sweep; its key 'run' names the runs")

        def slug(match: re.Match[str]) -> str:
            if match[1] not in values:
                raise InputError(f"run holds {match[0]}; {match[1]!r} is no parameter of the sweep")
            return paths.slug(str(values[match[1]]))

        return paths.run_name(re.sub(r"\{(\w+)\}", slug, self.run))

    def check(self) -> None:
        declared = {book: runner.parameters_of(book) for book in self.books}
        together = {}
        for parameters in declared.values():
            together.update(parameters)
        stems = [book.stem for book in self.books]
        for cell in self.cells:
            shared = {}
            for name, value in cell.items():
                if name.partition(".")[0] not in stems:
                    shared[name] = value
            runner.check_parameters(together, shared, "the sweep")
            for book, parameters in declared.items():
                runner.check_parameters(parameters, self.values_for(cell, book), book.stem)

    @staticmethod
    def values_for(cell: Mapping[str, Any], notebook: Path) -> dict[str, Any]:
        """The parameters of a cell that this notebook takes; its own values override the shared ones."""
        declared = runner.parameters_of(notebook)
        own = f"{notebook.stem}."
        values: dict[str, Any] = {}
        for name, value in cell.items():
            if name in declared:
                values.setdefault(name, value)
            elif name.startswith(own):
                values[name.removeprefix(own)] = value
        return values


class Step(NamedTuple):
    """A notebook of a run, its parameters, and whether its finished result is kept."""

    book: Path
    values: dict[str, Any]
    is_kept: bool


@safety.reader("a sweep")
def read(file: str | Path) -> Sweep:
    """Read and check a sweep, by its path or its name in ``notebooks/sweeps``; InputError for a wrong one."""
    path = runner.file_of("sweep", file, paths.notebooks() / "sweeps", ".yaml")
    record = safety.read_yaml(path)
    if not isinstance(record, dict):
        raise InputError(f"{path.name}: expected the keys {', '.join(Sweep.model_fields)}")
    values = {}
    for key, value in record.items():
        if value is not None:
            values[str(key)] = value
    try:
        return Sweep(**values)
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from error


def _nothing(_: object) -> None:
    return None


def run(
    file: str | Path,
    say: Callable[[str], object] = _nothing,
    ready: Callable[[Sequence[tuple[str, Mapping[str, Any]]]], object] = _nothing,
    jobs: int = 1,
) -> pd.DataFrame:
    """Run a sweep; returns a row for each run and notebook: the grid's values and done, kept or failed.

    ``say`` receives a line for each notebook that starts or ends, ``ready`` the names and parameters of all
    notebooks that will run before the first starts. ``jobs`` runs go on at once. A finished notebook with the
    same code and parameters is kept; a stopped one continues. A run that fails does not stop the others; at
    the end a RunError names the failures.
    """
    sweep = read(file)
    plan = [_steps(cell, sweep.books) for cell in sweep.cells]
    to_run = []
    for step in itertools.chain(*plan):
        if not step.is_kept:
            to_run.append((step.book.stem, step.values))
    ready(to_run)
    n_steps = sum(map(len, plan))
    ended = itertools.count(1)

    def chain(cell: Mapping[str, Any], steps: Sequence[Step]) -> list[dict[str, Any]]:
        """The rows of a run's notebooks, one after the other, up to one that fails."""
        rows: list[dict[str, Any]] = []
        for step in steps:
            row = {name: cell[name] for name in ("run", *sweep.grid)}
            rows.append(row)
            row["notebook"] = step.book.stem
            row["status"] = "kept" if step.is_kept else "done"
            if step.is_kept:
                next(ended)
                continue
            name = f"{cell['run']}: {step.book.stem}"
            began = time.monotonic()
            say(f"{name} …")
            try:
                runner.run(step.book, step.values)
            except (InputError, RunError) as error:
                row["status"] = "failed"
                row["error"] = f"{cell['run']}: {error}"
                break
            say(f"{next(ended)}/{n_steps} {name} {time.monotonic() - began:.0f} s")
        return rows

    if jobs == 1:
        chains = list(map(chain, sweep.cells, plan))
    else:
        with ThreadPoolExecutor(jobs) as pool:
            chains = list(pool.map(chain, sweep.cells, plan))
    table = pd.DataFrame(list(itertools.chain(*chains)))
    if "error" in table:
        errors = table.pop("error").dropna()
        raise RunError(f"{table.to_string(index=False)}\n{len(errors)} failed:\n" + "\n".join(errors))
    return table


def _steps(cell: Mapping[str, Any], books: Sequence[Path]) -> list[Step]:
    """The notebooks of a cell in order; results after a notebook that must run are not kept."""
    steps = []
    finished = True
    for book in books:
        values = Sweep.values_for(cell, book)
        finished = finished and _is_finished(book, values)
        steps.append(Step(book, values, finished))
    return steps


def _is_finished(book: Path, values: Mapping[str, Any]) -> bool:
    """Whether the run holds this notebook, executed to the end with the same code and parameters."""
    try:
        executed = load(runner.output(book, values))
    except InputError:  # there is none, or it was cut off while it was written
        return False
    record = executed.metadata.get("papermill", {})
    if not record.get("end_time") or record.get("exception"):
        return False
    return record.get("parameters", {}) == dict(values) and _sources(executed) == _sources(load(book))


def _sources(notebook: Any) -> list[str]:
    sources = []
    for cell in runner.code_cells(notebook):
        if "injected-parameters" not in cell.metadata.get("tags", []):
            sources.append(cell.source)
    return sources
