"""The commands about notebooks: run, params, refresh, figures, thesis."""

import functools
import importlib
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crs_lib import notebooks
from crs_lib.cli import files
from crs_lib.core import outside, paths, tables
from crs_lib.core.errors import InputError
from crs_lib.notebooks import parameters


def run(parser: ArgumentParser) -> None:
    """``run NOTEBOOK -p name value … [-f values.yaml] [-o out.ipynb]``."""
    _notebook_and_values(parser)
    parser.add_argument("-o", dest="out", metavar="OUT", help="where the executed notebook goes")
    files.declare(parser, reads=("notebook", "file"), writes=("out",))
    parser.set_defaults(do=_run)


def _notebook_and_values(parser: ArgumentParser) -> None:
    parser.add_argument("notebook", help="03_simulate, 03_simulate.ipynb or a path")
    parser.add_argument(
        "-p", dest="values", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
        help="a parameter; lists as a,b or JSON",
    )  # fmt: skip
    parser.add_argument(
        "-f", dest="file", metavar="FILE", help="a YAML file of parameters; -p goes before it"
    )


def _run(arguments: Namespace) -> None:
    values = given_values(arguments.notebook, arguments.values, arguments.file)
    out = notebooks.run(arguments.notebook, values, arguments.out)
    print(f"{notebooks.find(arguments.notebook).stem} finished: {paths.shown(out)}")


def given_values(notebook: str, pairs: list[list[str]], file: str | None) -> dict[str, Any]:
    """The parameters of a command line, each read as the type declared in the notebook."""
    declared = {parameter.name: parameter for parameter in notebooks.parameters_of(notebook)}
    values = _yaml(file) if file else {}
    for name, text in pairs:
        known = declared.get(name)
        values[name] = parameters.from_text(known, text) if known else text
    return values


@outside.reader("parameters")
def _yaml(file: str) -> dict[str, Any]:
    try:
        values = outside.read_yaml(paths.given(file))
    except InputError as error:
        raise InputError(f"could not read parameters from {file!r}: {error}") from error
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise InputError(f"{file!r} must map names of parameters to values, one 'name: value' a line")
    return values


def params(parser: ArgumentParser) -> None:
    """``params NOTEBOOK``: name, type, meaning and default of every parameter."""
    parser.add_argument("notebook", help="03_simulate, 03_simulate.ipynb or a path")
    parser.set_defaults(do=_params)


def _params(arguments: Namespace) -> None:
    name = notebooks.find(arguments.notebook).stem
    print(parameters.help_text(notebooks.parameters_of(arguments.notebook), name))


def refresh(parser: ArgumentParser) -> None:
    """``refresh [NAMES]``: the committed notebooks with their defaults, in place."""
    parser.add_argument("names", nargs="*", help="notebooks; all where none is named")
    parser.set_defaults(do=_refresh)


def _refresh(arguments: Namespace) -> None:
    changed = notebooks.refresh(arguments.names)
    print("\n".join(f"changed: {paths.shown(path)}" for path in changed) or "nothing changed")


def figures(parser: ArgumentParser) -> None:
    """``figures [--run R] [--only NAME] [--study S] [--systems A,B]``: drawn from a finished run."""
    parser.add_argument("--run", default="demo", help="the run to draw (default: demo)")
    parser.add_argument("--only", default=None, metavar="NAME", help="one figure or table by name")
    parser.add_argument(
        "--study", default="", choices=sorted(READERS), help="default: every study that has the run"
    )
    parser.add_argument(
        "--convention",
        default="",
        help="whose scores, where a run of movies has several (default: default)",
    )
    parser.add_argument(
        "--systems", default="", metavar="A,B", help="draw these systems of a run of movies (default: all)"
    )
    parser.set_defaults(do=_figures)


# How each study's tables are read: ``read(run, table)``, imported when it is needed.
READERS = {
    "cosrec": "crs_lib.cosrec.study:figure_table",
    "movies": "crs_lib.report.figure_tables:read",
    "realtalk": "crs_lib.realtalk.study:read",
}


def _figures(arguments: Namespace) -> None:
    systems = [name.strip() for name in arguments.systems.split(",") if name.strip()]
    draw(arguments.study, arguments.run, arguments.only, arguments.convention, systems)


def draw(
    study: str, run: str, only: str | None = None, convention: str = "", systems: Sequence[str] = ()
) -> None:
    """Draw the figures of a run; for a figure without data print one line that says what is missing."""
    from crs_lib import figures

    for one in [study] if study else _studies(run, only):
        module, _, function = READERS[one].partition(":")
        read = getattr(importlib.import_module(module), function)
        part = ""
        if one == "movies":
            from crs_lib import evaluate

            name = evaluate.convention_of(run, convention)
            part = figure_folder(run, name).relative_to(figure_folder(run, "default")).as_posix()
            of_run = functools.partial(read, convention=name)
            read = functools.partial(_of_systems, of_run, systems)
        left_out = list[str]()
        for path in figures.redraw(run, only, one, read=read, left_out=left_out.append, part=part):
            print(f"drawn: {paths.shown(path)}")
        for line in left_out:
            print(f"left out: {line}")


def _of_systems(read: Callable[[str, str], Any], systems: Sequence[str], run: str, table: str) -> Any:
    from crs_lib import figures

    return figures.of_systems(read(run, table), systems)


def figure_folder(run: str, convention: str) -> Path:
    """The folder of a movie run's figures; a convention other than ``default`` has one inside it."""
    folder = paths.figures() / f"movies-{run}"
    return folder if convention == "default" else folder / paths.slug(convention)


def _studies(run: str, only: str | None) -> list[str]:
    """The study that draws the figure ``only``, else the studies that have the run; movies where none has."""
    from crs_lib import figures

    if only in figures.FIGURES:
        return [figures.FIGURES.get(str(only)).facts["study"]]
    have = [one for one in READERS if (paths.run_folder(one, run) / "manifest.json").is_file()]
    return [one for one in have if only is None or one == "movies"] or ["movies"]


OPEN, CLOSE = "<!-- findings -->", "<!-- /findings -->"  # in README.md
THESIS: Mapping[str, Any] = {
    "run": "demo", "catalog": "sample", "n_sessions": 50, "n_turns": 20, "workers": 2,
}  # fmt: skip


def thesis(parser: ArgumentParser) -> None:
    """``thesis``: the notebooks 01 to 06 on the sample catalogue, the figures, the pages, the leaderboard."""
    parser.add_argument(
        "--sessions", type=int, default=THESIS["n_sessions"], help="of each system (default: 50)"
    )
    parser.add_argument("--turns", type=int, default=THESIS["n_turns"], help="of each session (default: 20)")
    parser.set_defaults(do=lambda given: _thesis(given.sessions, given.turns))


def quote(text: str, page: Path) -> None:
    """Put a text between the two markers of a page; nothing happens to a page without them."""
    if not page.is_file():
        return
    old = page.read_text(encoding="utf-8")
    before, found, rest = old.partition(OPEN)
    _, closed, after = rest.partition(CLOSE)
    new = f"{before}{OPEN}\n{text.strip()}\n{CLOSE}{after}"
    if found and closed and new != old:
        with tables.write_aside(page) as file:
            file.write(new)


def _thesis(sessions: int, turns: int) -> None:
    from crs_lib import evaluate
    from crs_lib.metrics.base import DAGGER_NOTE
    from crs_lib.report import findings_scores, report, trace
    from crs_lib.report import movies as views
    from crs_lib.validity import sensitivity

    run_name, asked = THESIS["run"], {**THESIS, "n_sessions": sessions, "n_turns": turns}
    for notebook in notebooks.committed():
        if "01" <= notebook.stem[:2] <= "06":
            takes = {parameter.name for parameter in notebooks.parameters_of(notebook)}
            print(f"{notebook.stem} …", flush=True)
            notebooks.run(notebook, {name: value for name, value in asked.items() if name in takes})
    print("sensitivity, figures, pages …", flush=True)
    sensitivity.make(run_name)
    draw("movies", run_name)
    told = findings_scores.write(run_name)
    if asked == THESIS:
        quote(told.read_text(encoding="utf-8"), paths.ROOT / "README.md")
    pages = report.write(run_name), trace.write(run_name)
    folder = paths.run_folder("movies", run_name)
    print(f"\n{views.scoreboard(evaluate.read(run_name, 'model_metrics')).to_string(index=False)}")
    print(f"{DAGGER_NOTE}\n")
    print(f"notebooks: {paths.shown(folder / 'notebooks')}/   executed, with their outputs")
    print(f"tables:    {paths.shown(folder)}/   model_metrics.csv, results.jsonl, turns.parquet, …")
    print(f"figures:   {paths.shown(paths.figures())}/movies-{run_name}/")
    print(f"pages:     {', '.join(map(paths.shown, pages))}   open them in a browser, no server is needed")
