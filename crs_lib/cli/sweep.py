"""``sweep``, and its end: figures and pages of each run, and one picture of the grid."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import evaluate, runs
from crs_lib.cli import notebooks as commands
from crs_lib.core import paths, tables
from crs_lib.figures import NoDataError, layout, style
from crs_lib.figures.movies_sweep import sweep_outcomes
from crs_lib.notebooks.sweeps import Sweep


def sweep(parser: ArgumentParser) -> None:
    """``sweep FILE``: a grid of runs, continued where it stopped."""
    parser.add_argument("file", help="a file, or the name of one in notebooks/sweeps")
    parser.set_defaults(do=_sweep)


def _sweep(arguments: Namespace) -> None:
    from crs_lib.cli import ready
    from crs_lib.notebooks import sweeps

    found = sweeps.read(arguments.file)
    try:
        print(sweeps.run(arguments.file, say=print, ready=ready.check).to_string(index=False))
    finally:
        finish(found, Path(arguments.file).stem)


def finish(sweep: Sweep, name: str) -> None:
    """Make what the sweep asks for, of the runs whose evaluation is finished; other runs are left out.

    Each convention of a run gets its tables, figures, report and trace. Where the grid has more than one
    cell, the outcomes over the grid go to ``results/movies/sweep-<name>.csv`` and one figure.
    """
    done = [cell for cell in sweep.cells if _is_scored(str(cell["run"]))]
    for run in dict.fromkeys(str(cell["run"]) for cell in done) if sweep.finish else ():
        for convention in evaluate.conventions_of(run):
            _finish(run, convention, sweep.finish)
    if len(done) > 1 and len(sweep.grid):
        _over_grid(sweep, done, name)


def _is_scored(run: str) -> bool:
    stages = runs.read_manifest("movies", run).get("stages", {})
    return any(key.startswith("evaluate") and one.get("status") == "finished" for key, one in stages.items())


def _finish(run: str, convention: str, asked: tuple[str, ...]) -> None:
    from crs_lib.report import report, thesis_tables, trace

    print(f"{run}, {convention}: tables, {', '.join(asked)} …", flush=True)
    thesis_tables.write_tables(run, convention)
    if "figures" in asked:
        commands.draw("movies", run, convention=convention)
    if "trace" in asked:
        print(f"written: {paths.shown(trace.write(run, convention))}")
    if "report" in asked:
        print(f"written: {paths.shown(report.write(run, convention=convention))}")


def _over_grid(sweep: Sweep, cells: list[dict[str, Any]], name: str) -> None:
    """The mean outcomes of every system in every cell, as a table and a figure."""
    rows = []
    for cell in cells:
        for convention in evaluate.conventions_of(cell["run"]):
            means = evaluate.read(cell["run"], "model_metrics", convention)
            kept = means[means["metric"].isin(layout.outcomes(convention))]
            point = {key.rpartition(".")[2]: _in_words(cell[key]) for key in sweep.grid}
            rows.append(kept.assign(run=cell["run"], **point))
    frame = pd.concat(rows, ignore_index=True)
    keys = [key.rpartition(".")[2] for key in sweep.grid]
    columns = ["run", *keys, "convention", "model", "metric", "mean", "low", "high", "n", "n_missing"]
    table = paths.results() / "movies" / f"sweep-{name}.csv"
    tables.write_csv(table, frame[columns])
    print(f"over the grid: {paths.shown(table)}")
    long = pd.concat([frame.assign(parameter=key, value=frame[key].astype(str)) for key in keys])
    grid = long[["parameter", "value", *columns]]
    for kind in ("png", "pdf"):
        try:
            with style.applied():
                picture = sweep_outcomes(grid)
                print(f"drawn: {paths.shown(style.write(picture, paths.figures() / f'sweep-{name}.{kind}'))}")
        except NoDataError as error:
            print(f"no figure of the grid: {error}")
            return


def _in_words(value: Any) -> str:
    """A value of the grid as an axis shows it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_in_words(part)}" for name, part in value.items()) or "as declared"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
