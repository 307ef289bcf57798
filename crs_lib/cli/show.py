"""Pages and pictures of finished runs, and the thesis from beginning to end."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import pandas as pd

from crs_lib.cli.app import command, part, table
from crs_lib.cli.data import tell
from crs_lib.core import paths
from crs_lib.core.settings import OneOf


@command(
    "compare", takes=["crs_lib.simulate.config:SimulateConfig run catalog seed voices workers llm"],
    defaults={"run": "", "voices": "all", "workers": 2},
)  # fmt: skip
def _compare(
    systems: tuple[str, ...], *, against: tuple[str, ...] = ("tracker", "bm25"), n: int = 72,
    plan: str = "movies", fields: str = "", **given: Any,
) -> None:  # fmt: skip
    """Compare your system with baselines: one verdict, one page.

    systems: NAME=SPEC, e.g. Ours=python:my_system:MySystem or Ours=http://127.0.0.1:8765/reply
    against: baselines
    n: the most scenarios; fewer where the intervals are narrow before
    plan: whose smallest effect counts, notebooks/plans/<plan>.yaml
    fields: YAML file of fields that films lack, e.g. data/samples/books.yaml
    """
    from crs_lib.report.compare import compare

    found = compare(systems, against=against, n=n, plan=plan, fields=fields, **given)
    for sentence in found.verdict:
        print(f"- {sentence}")
    print(f"\npage: {paths.shown(found.page)}   open it in a browser")


@command("leaderboard", writes="out")
def _leaderboard(*, runs: tuple[str, ...] = ("demo",), out: Path | None = None) -> None:
    """Write a page that orders the systems of runs; others drop their results.jsonl into it.

    runs: finished runs, whose systems are the baselines
    out: where the page goes (default: the first run's folder)
    """
    from crs_lib.report.leaderboard import leaderboard

    path = leaderboard(runs, out or paths.run_folder("movies", runs[0]) / "leaderboard.html")
    print(f"written: {paths.shown(path)}   open it in a browser; drop a run's results.jsonl into it")


@command("systems")
def _systems() -> None:
    """List the systems that can be compared: policies, language models, programs of your own."""
    from crs_lib.systems import SYSTEMS

    groups: dict[str, list[str]] = {"Policies": [], "Language models": [], "Programs of your own": []}
    for one in SYSTEMS:
        group = list(groups)[1 if one.facts.get("llm") else 2 if one.facts.get("program") else 0]
        needs = one.facts.get("example") and not one.facts.get("default")
        spec = f"{one.name}:{one.facts['example']}" if needs else one.name
        groups[group].append(f"  {spec:<34} {one.summary}")
    for heading, lines in groups.items():
        print(f"{heading}:", *lines, sep="\n", end="\n\n")
    print("Give one a name of yours anywhere: Ours=SPEC. docs/systems.md, docs/your-system.md")


# How each study's tables are read: ``read(run, table)``, imported when it is needed.
READERS = {
    "cosrec": "crs_lib.cosrec.study:figure_table", "movies": "crs_lib.report.figure_tables:read",
    "realtalk": "crs_lib.realtalk.study:read",
}  # fmt: skip


@command("show")
def _show(
    kinds: tuple[Annotated[str, OneOf(("figures", "report", "trace"))], ...], *, run: str = "demo",
    convention: str = "", study: Annotated[str, OneOf(sorted(READERS), optional=True)] = "",
    only: str | None = None, plan: str = "movies",
) -> None:  # fmt: skip
    """Draw the figures of a finished run, or write its report or the trace of every session.

    kinds: figures; report: one page of tables and figures; trace: a page to browse every session
    run: the run to show
    convention: whose scores, where a run has several
    study: of the figures (default: every study that has the run)
    only: one figure or table by name
    plan: the report's declared analysis, notebooks/plans/<plan>.yaml
    """
    from crs_lib.report import report, trace

    if "figures" in kinds:
        draw(study, run, only, convention)
    if "report" in kinds:
        print(f"written: {paths.shown(report.write(run, plan, convention))}")
    if "trace" in kinds:
        print(f"written: {paths.shown(trace.write(run, convention))}   open it in a browser")


def draw(study: str, run: str, only: str | None = None, convention: str = "") -> None:
    """Draw the figures of a run; for a figure without data print one line that says what is missing."""
    from crs_lib import evaluate, figures

    for one in [study] if study else _studies(run, only):
        read: Callable[..., pd.DataFrame] = resolve_name(READERS[one])
        name = evaluate.convention_of(run, convention) if one == "movies" else ""
        frame = partial(read, convention=name) if name else read
        place = "" if name in ("", "default") else paths.slug(name)
        left_out = list[str]()
        for path in figures.redraw(run, only, one, read=frame, left_out=left_out.append, part=place):
            print(f"drawn: {paths.shown(path)}")
        for line in left_out:
            print(f"left out: {line}")


def _studies(run: str, only: str | None) -> list[str]:
    """The study that draws the figure ``only``, else the studies that have the run; movies where none has."""
    from crs_lib import figures

    if only in figures.FIGURES:
        return [figures.FIGURES.get(str(only)).facts["study"]]
    have = [one for one in READERS if (paths.run_folder(one, run) / "manifest.json").is_file()]
    return [one for one in have if only is None or one == "movies"] or ["movies"]


def finish(sweep: Any, name: str) -> None:
    """Make what the sweep asks for, of the runs whose evaluation is finished; other runs are left out. Each
    convention of a run gets its tables, figures, report and trace. Where the grid has more than one cell, the
    outcomes over the grid go to ``results/movies/sweep-<name>.csv`` and one figure.
    """
    from crs_lib import evaluate
    from crs_lib.report import thesis

    done = [cell for cell in sweep.cells if evaluate.conventions_of(str(cell["run"]))]
    for run in dict.fromkeys(str(cell["run"]) for cell in done) if sweep.finish else ():
        for convention in evaluate.conventions_of(run):
            print(f"{run}, {convention}: tables, {', '.join(sweep.finish)} …", flush=True)
            thesis.write_tables(run, convention)
            _show(sweep.finish, run=run, convention=convention, study="movies")
    if len(done) > 1 and len(sweep.grid):
        for path in thesis.write_grid(sweep.grid, done, name):
            print(f"over the grid: {paths.shown(path)}")


_DEMO: dict[str, Any] = {"run": "demo", "catalog": "sample", "voices": "all", "workers": 2}


@command("thesis demo")
def _thesis(*, n_sessions: int = 50, n_turns: int = 20) -> None:
    """Run notebooks 01 to 06, from the catalogue to the figures.

    n_sessions: of each system
    n_turns: of each session
    """
    from crs_lib import evaluate, notebooks
    from crs_lib.metrics.base import DAGGER_NOTE
    from crs_lib.report import findings
    from crs_lib.report.tables import scoreboard

    run, asked = _DEMO["run"], {**_DEMO, "n_sessions": n_sessions, "n_turns": n_turns}
    for notebook in notebooks.committed():
        if "01" <= notebook.stem[:2] <= "06":
            takes = notebooks.parameters_of(notebook)
            print(f"{notebook.stem} …", flush=True)
            notebooks.run(notebook, {name: value for name, value in asked.items() if name in takes})
    print("figures, pages …", flush=True)
    told = findings.write(run)
    if (n_sessions, n_turns) == (50, 20):
        findings.quote(told.read_text(encoding="utf-8"), paths.ROOT / "README.md")
    _show(("figures", "report", "trace"), run=run, study="movies")
    table(scoreboard(evaluate.read(run, "model_metrics")))
    folder = paths.shown(paths.run_folder("movies", run))
    print(f"{DAGGER_NOTE}\n\ntables:    {folder}/   model_metrics.csv, results.jsonl, turns.parquet, …")
    print(f"notebooks: {folder}/notebooks/   executed, with their outputs")


@command(
    "thesis tables", defaults={"convention": "thesis_legacy", "workers": 2},
    takes=["crs_lib.simulate.logged:ImportConfig", "crs_lib.evaluate:EvaluateConfig"],
)  # fmt: skip
def _thesis_tables(*, judge_scores: str = "", thresholds: bool = False, **given: Any) -> None:
    """Make the thesis's tables and figures from logs.

    judge_scores: CSV files of judge scores made elsewhere: one, a folder, or a quoted pattern
    thresholds: score under 27 settings of the thresholds too, and draw the systems' means over them
    """
    from crs_lib import evaluate
    from crs_lib.metrics import base
    from crs_lib.report import thesis as views
    from crs_lib.simulate.logged import ImportConfig

    config = ImportConfig(**part(given, ImportConfig))
    scoring = evaluate.EvaluateConfig(**part(given, evaluate.EvaluateConfig))
    found = views.load(config, judge_scores)
    tell(found.imported, config)
    table(found.judged, "judge scores from elsewhere")
    evaluate.evaluate(scoring)
    files = views.write_tables(config.run, scoring.chosen.name)
    draw("movies", config.run, convention=scoring.chosen.name)
    best = views.best_systems(config.run, scoring.chosen.name).drop(columns=["low", "high", "n"])
    short = best.assign(metric=[base.get(name).label for name in best["metric"]])
    table(short.dropna(axis=1, how="all"), digits=4)
    names = ["model_metrics.csv", *(path.name for path in files)]
    print(f"tables:  {paths.shown(files[0].parent)}/   {', '.join(names)}")
    if thresholds:
        drawn, orders = views.write_thresholds(scoring)
        print(orders, *(f"drawn: {paths.shown(path)}" for path in drawn), sep="\n")
