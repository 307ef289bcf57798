"""Pages and pictures of finished runs, and the thesis from beginning to end."""

import functools
import importlib
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib.cli.app import arg, command, read, settings
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError

# How each study's tables are read: ``read(run, table)``, imported when it is needed.
READERS = {
    "cosrec": "crs_lib.cosrec.study:figure_table",
    "movies": "crs_lib.report.figure_tables:read",
    "realtalk": "crs_lib.realtalk.study:read",
}
_NO_SERVER = "open it in a browser, no server is needed"


@command(
    "show",
    arg("kinds", nargs="+", choices=("figures", "report", "trace"), metavar="KIND",
        help="figures; report: one page of tables and figures; trace: a page to browse every session"),
    arg("--run", default="demo", help="the run to show (default: demo)"),
    arg("--convention", default="", help="whose scores, where a run has several"),
    arg("--study", default="", choices=sorted(READERS),
        help="of the figures (default: every study that has the run)"),
    arg("--only", metavar="NAME", help="one figure or table by name"),
    arg("--systems", default="", metavar="A,B", help="draw these systems of a run of movies (default: all)"),
    arg("--plan", default="movies",
        help="the report's declared analysis, notebooks/plans/<plan>.yaml (default: movies)"),
)  # fmt: skip
def show(arguments: Namespace) -> None:
    """Draw the figures of a finished run, or write its report or the trace of every session."""
    run, convention = arguments.run, arguments.convention
    if "figures" in arguments.kinds:
        systems = [name.strip() for name in arguments.systems.split(",") if name.strip()]
        draw(arguments.study, run, arguments.only, convention, systems)
    if "report" in arguments.kinds:
        from crs_lib.report import report

        print(f"written: {paths.shown(report.write(run, arguments.plan, convention))}")
    if "trace" in arguments.kinds:
        from crs_lib.report import trace

        print(f"written: {paths.shown(trace.write(run, convention))}   {_NO_SERVER}")


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


def finish(sweep: Any, name: str) -> None:
    """Make what the sweep asks for, of the runs whose evaluation is finished; other runs are left out.

    Each convention of a run gets its tables, figures, report and trace. Where the grid has more than one
    cell, the outcomes over the grid go to ``results/movies/sweep-<name>.csv`` and one figure.
    """
    from crs_lib import evaluate

    done = [cell for cell in sweep.cells if _is_scored(str(cell["run"]))]
    for run in dict.fromkeys(str(cell["run"]) for cell in done) if sweep.finish else ():
        for convention in evaluate.conventions_of(run):
            _finish(run, convention, sweep.finish)
    if len(done) > 1 and len(sweep.grid):
        _over_grid(sweep, done, name)


def _is_scored(run: str) -> bool:
    from crs_lib import runs

    stages = runs.read_manifest("movies", run).get("stages", {})
    return any(key.startswith("evaluate") and one.get("status") == "finished" for key, one in stages.items())


def _finish(run: str, convention: str, asked: tuple[str, ...]) -> None:
    from crs_lib.report import report, thesis, trace

    print(f"{run}, {convention}: tables, {', '.join(asked)} …", flush=True)
    thesis.write_tables(run, convention)
    if "figures" in asked:
        draw("movies", run, convention=convention)
    if "trace" in asked:
        print(f"written: {paths.shown(trace.write(run, convention))}")
    if "report" in asked:
        print(f"written: {paths.shown(report.write(run, convention=convention))}")


def _over_grid(sweep: Any, cells: list[dict[str, Any]], name: str) -> None:
    """The mean outcomes of every system in every cell, as a table and a figure."""
    from crs_lib import evaluate
    from crs_lib.figures import NoDataError, layout, style
    from crs_lib.figures.scores import sweep_outcomes

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


OPEN, CLOSE = "<!-- findings -->", "<!-- /findings -->"  # in README.md
THESIS: Mapping[str, Any] = {
    "run": "demo", "catalog": "sample", "n_sessions": 50, "n_turns": 20, "workers": 2,
}  # fmt: skip


@command(
    "thesis demo",
    arg("--sessions", type=int, default=THESIS["n_sessions"], help="of each system (default: 50)"),
    arg("--turns", type=int, default=THESIS["n_turns"], help="of each session (default: 20)"),
)
def thesis(arguments: Namespace) -> None:
    """Run notebooks 01 to 06, from the catalogue to the figures."""
    from crs_lib import evaluate, notebooks
    from crs_lib.metrics.base import DAGGER_NOTE
    from crs_lib.report import findings, report, scoreboard, trace
    from crs_lib.validity import sensitivity

    run_name, asked = THESIS["run"], {**THESIS, "n_sessions": arguments.sessions, "n_turns": arguments.turns}
    for notebook in notebooks.committed():
        if "01" <= notebook.stem[:2] <= "06":
            takes = {parameter.name for parameter in notebooks.parameters_of(notebook)}
            print(f"{notebook.stem} …", flush=True)
            notebooks.run(notebook, {name: value for name, value in asked.items() if name in takes})
    print("sensitivity, figures, pages …", flush=True)
    sensitivity.make(run_name)
    draw("movies", run_name)
    told = findings.write(run_name)
    if asked == THESIS:
        quote(told.read_text(encoding="utf-8"), paths.ROOT / "README.md")
    pages = report.write(run_name), trace.write(run_name)
    folder = paths.run_folder("movies", run_name)
    print(f"\n{scoreboard(evaluate.read(run_name, 'model_metrics')).to_string(index=False)}")
    print(f"{DAGGER_NOTE}\n")
    print(f"notebooks: {paths.shown(folder / 'notebooks')}/   executed, with their outputs")
    print(f"tables:    {paths.shown(folder)}/   model_metrics.csv, results.jsonl, turns.parquet, …")
    print(f"figures:   {paths.shown(paths.figures())}/movies-{run_name}/")
    print(f"pages:     {', '.join(map(paths.shown, pages))}   open them in a browser, no server is needed")


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


_SCORING = (
    "convention", "topics", "similarity", "extractor", "vocabulary", "topic_model", "tas_weights",
    "cas_weights", "window", "recovery_cc", "recovery_cr", "extractor_llm",
)  # fmt: skip


@command(
    "thesis tables",
    settings("crs_lib.simulate.logged:ImportConfig"),
    settings("crs_lib.evaluate:EvaluateConfig", *_SCORING, convention="thesis_legacy", workers=2),
    arg("--judge-scores", default="", metavar="PATH",
        help="CSV files of judge scores made elsewhere: one, a folder, or a quoted pattern"),
)  # fmt: skip
def thesis_tables(arguments: Namespace) -> None:
    """Make the thesis's tables and figures from logs."""
    from crs_lib import evaluate, judge
    from crs_lib.cli import data
    from crs_lib.simulate.logged import ImportConfig, import_logs

    given = read(arguments, ImportConfig)
    scoring = read(arguments, evaluate.EvaluateConfig)
    data.tell(import_logs(given), given)
    if arguments.judge_scores:
        counts = judge.adopt(given.run, arguments.judge_scores)
        print(f"\njudge scores from elsewhere\n{counts.to_string(index=False)}")
    evaluate.evaluate(scoring)
    _write_tables(given.run, scoring.rule.name)


def _write_tables(run: str, convention: str) -> None:
    """Write the tables of a scored convention, draw its figures, and print the best systems."""
    from crs_lib.report import thesis as views

    files = views.write_tables(run, convention)
    draw("movies", run, convention=convention)
    print(f"\n{_shown(views.best_systems(run, convention)).to_string(index=False, na_rep='-')}")
    names = ["model_metrics.csv", *(path.name for path in files)]
    print(f"tables:  {paths.shown(files[0].parent)}/   {', '.join(names)}")
    print(f"figures: {paths.shown(figure_folder(run, convention))}/")


def _shown(best: pd.DataFrame) -> pd.DataFrame:
    """The best systems as they are printed: short names, rounded, without empty columns."""
    from crs_lib.metrics import base

    short = [base.get(name).label for name in best["metric"]]
    shown = best.drop(columns=["low", "high", "n"]).assign(metric=short).round(4)
    return shown.dropna(axis=1, how="all")


@command(
    "thesis topics",
    arg("--catalog", required=True, metavar="FILE", help="a catalogue, or 'sample'"),
    arg("--out", default="", metavar="FOLDER", help="default: data/processed/models/topics"),
    arg("--n-topics", type=int, default=50),
    arg("--passes", type=int, default=15),
    arg("--seed", type=int, default=42),
    reads=("catalog",),
    writes=("out/exp_elog_beta.npy", "out/dictionary.tsv"),
)
def topics(arguments: Namespace) -> None:
    """Train a topic model on a catalogue's plots."""
    from crs_lib.thesis.catalog import ThesisCatalog
    from crs_lib.thesis.topics import train, trained_model

    if arguments.n_topics < 2 or arguments.passes < 1:
        raise InputError("give at least 2 topics and 1 pass")
    if not 0 <= arguments.seed < 2**32:
        raise InputError(f"seed {arguments.seed} is not usable; give a whole number from 0 to {2**32 - 1}")
    catalog = ThesisCatalog.load(arguments.catalog)
    plots = catalog.documents[len(catalog) :]
    model = train(plots, n_topics=arguments.n_topics, passes=arguments.passes, seed=arguments.seed)
    out = paths.given(arguments.out) if arguments.out else trained_model()
    model.save(out)
    print(f"{model.n_topics} topics over {len(model.words)} words of {len(plots)} plots: {paths.shown(out)}/")
