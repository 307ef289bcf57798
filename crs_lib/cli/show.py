"""Pages and pictures of finished runs: what the kernel compares, lists and draws."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, ClassVar

import pandas as pd

from crs_lib import evaluate, figures
from crs_lib.cli.commands import Command, Takes, asked_again
from crs_lib.core import paths
from crs_lib.core.clients import clients
from crs_lib.core.settings import OneOf

MOVIES = "movies"


class Compare(Command):
    """Compare your system with baselines: one verdict, one page."""

    positional = ("systems",)
    takes = (Takes("crs_lib.simulate.config:SimulateConfig", "run catalog seed voices workers llm"),)
    usual: ClassVar[dict[str, Any]] = {"run": "", "voices": "all", "workers": 2}

    systems: tuple[str, ...]
    """NAME=SPEC, e.g. Ours=python:my_system:MySystem or Ours=http://127.0.0.1:8765/reply"""
    against: tuple[str, ...] = ("tracker", "bm25")
    """baselines"""
    n: int = 144
    """users; a verdict takes 100, and the same command with more continues"""
    plan: str = "movies"
    """whose smallest effect counts, notebooks/plans/<plan>.yaml"""
    fields: str = ""
    """YAML file of fields that films lack, e.g. data/samples/books.yaml"""
    fresh_server: str = ""
    """command that starts your server anew for each lane, its port in place of {port}"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.report.compare import compare

        if self.fresh_server:
            settings["llm"] = {**settings.get("llm", {}), "fresh_server": self.fresh_server}
        own = {name: getattr(self, name) for name in ("against", "n", "plan", "fields")}
        comparison = compare(self.systems, **own, **settings)
        for sentence in comparison.verdict:
            print(f"- {sentence}")
        print(f"\n{comparison.ranking}")
        if comparison.since:
            again = "--run NAME asks anew a system whose program changed where we cannot see it"
            print(f"\nnothing changed since {comparison.since}: this is the page as it was; {again}")
        print(f"\npage: {paths.from_here(comparison.page)}   open it in a browser")
        print(f"{comparison.account}{asked_again(comparison.run)}")


class Leaderboard(Command):
    """Write a page that orders the systems of runs; others drop their results.jsonl into it."""

    writes = "out"

    runs: tuple[str, ...] = ("demo",)
    """finished runs, whose systems are the baselines"""
    out: Path | None = None
    """where the page goes (default: the first run's folder)"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.report.outcomes import leaderboard

        usual = paths.run_folder(MOVIES, self.runs[0]) / "leaderboard.html"
        path = leaderboard(self.runs, self.out or usual)
        print(f"written: {paths.from_here(path)}   open it in a browser; drop a run's results.jsonl into it")


class Systems(Command):
    """List the systems that can be compared: policies, language models, programs of your own."""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.systems import SYSTEMS

        groups: dict[str, list[str]] = {"Policies": [], "Language models": [], "Programs of your own": []}
        for system in SYSTEMS:
            if system.facts.get("hidden"):
                continue
            heading = "Policies"
            if system.facts.get("llm"):
                heading = "Language models"
            elif system.facts.get("program"):
                heading = "Programs of your own"
            spec = system.name
            if system.facts.get("example") and not system.facts.get("default"):
                spec += f":{system.facts['example']}"
            groups[heading].append(f"  {spec:<34} {system.summary}")
        for heading, lines in groups.items():
            print(f"{heading}:", *lines, sep="\n", end="\n\n")
        print("Give one a name of yours anywhere: Ours=SPEC. docs/systems.md, docs/your-system.md")


@cache
def table_readers() -> Mapping[str, str]:
    """How each study's tables are read: ``read(run, table)``, as ``module:function``."""
    readers = {MOVIES: "crs_lib.report.figure_tables:read"}
    for client in clients():
        readers.update(client.tables)
    return dict(sorted(readers.items()))


class Show(Command):
    """Draw the figures of a finished run, or write its report or the trace of every session."""

    positional = ("kinds",)

    kinds: tuple[Annotated[str, OneOf(("figures", "report", "trace"))], ...]
    """figures; report: one page of tables and figures; trace: a page to browse every session"""
    run: str = "demo"
    """the run to show"""
    convention: str = ""
    """whose scores, where a run has several"""
    study: Annotated[str, OneOf(table_readers, optional=True)] = ""
    """of the figures (default: every study that has the run)"""
    only: str | None = None
    """one figure or table by name"""
    plan: str = "movies"
    """the report's declared analysis, notebooks/plans/<plan>.yaml"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.report import report, trace

        if "figures" in self.kinds:
            draw(self.study, self.run, self.only, self.convention)
        if "report" in self.kinds:
            print(f"written: {paths.from_here(report.write(self.run, self.plan, self.convention))}")
        if "trace" in self.kinds:
            page = trace.write(self.run, self.convention)
            print(f"written: {paths.from_here(page)}   open it in a browser")


def draw(study: str, run: str, only: str | None = None, convention: str = "") -> None:
    """Draw the figures of a run; for a figure without data print one line that says what is missing."""
    studies = [study] if study else _studies(run, only)
    for name in studies:
        _draw(name, run, only, convention)


def _draw(study: str, run: str, only: str | None, convention: str) -> None:
    read: Callable[..., pd.DataFrame] = resolve_name(table_readers()[study])
    folder = ""
    if study == MOVIES:
        convention = evaluate.convention_of(run, convention)
        if convention:
            read = partial(read, convention=convention)
        if convention not in ("", "default"):
            folder = paths.slug(convention)
    missing: list[str] = []
    for path in figures.redraw(run, only, study, read=read, left_out=missing.append, part=folder):
        print(f"drawn: {paths.from_here(path)}")
    for line in missing:
        print(f"left out: {line}")


def _studies(run: str, only: str | None) -> list[str]:
    """The study that draws the figure ``only``, else the studies that have the run; movies where none has."""
    if only in figures.FIGURES:
        return [figures.FIGURES.get(str(only)).facts["study"]]
    studies = []
    for study in table_readers():
        has_run = (paths.run_folder(study, run) / "manifest.json").is_file()
        if has_run and (only is None or study == MOVIES):
            studies.append(study)
    return studies or [MOVIES]


def finish(sweep: Any, name: str) -> None:
    """Make what the sweep asks for, of the runs whose evaluation is finished; other runs are left out.

    Each convention of a run gets its tables, figures, report and trace. Where the grid has more than one
    cell, the outcomes over the grid go to ``results/movies/sweep-<name>.csv`` and one figure.
    """
    from crs_lib.report import outcomes

    done = [cell for cell in sweep.cells if evaluate.conventions_of(str(cell["run"]))]
    runs = dict.fromkeys(str(cell["run"]) for cell in done)
    if sweep.finish:
        for run in runs:
            for convention in evaluate.conventions_of(run):
                print(f"{run}, {convention}: tables, {', '.join(sweep.finish)} …", flush=True)
                outcomes.write_tables(run, convention)
                show = Show(kinds=sweep.finish, run=run, convention=convention, study=MOVIES)
                show.execute({})
    if len(done) > 1 and sweep.grid:
        for path in outcomes.write_grid(sweep.grid, done, name):
            print(f"over the grid: {paths.from_here(path)}")
