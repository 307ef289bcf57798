"""The thesis from beginning to end: its demo run, its tables from logs, and its topics."""

import contextlib
import io
import os
from pathlib import Path
from typing import Annotated, Any, ClassVar

from crs_lib import evaluate, notebooks
from crs_lib.cli.commands import Command, Takes, table
from crs_lib.cli.data import show_import
from crs_lib.cli.show import Show, draw
from crs_lib.core import paths, progress
from crs_lib.core.settings import Field

_RUN, _SIZE = "demo", (120, 20)  # the committed run, and its sessions and turns


class Demo(Command):
    """Run notebooks 01 to 06, from the catalogue to the figures.

    Another size than the usual one makes a run of its own, demo-3x20 for 3 sessions of 20 turns, and leaves
    the committed figures and the README alone.
    """

    n_sessions: int = 120
    """of each system; a verdict takes 100"""
    n_turns: int = 20
    """of each session"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.metrics.base import DAGGER_NOTE
        from crs_lib.report import findings
        from crs_lib.report.tables import scoreboard

        if progress.terminal() is None:  # the names of the notebooks show how far it is, on one line
            os.environ.setdefault(progress.VARIABLE, progress.OFF)
        run = self.run
        self._run_notebooks()
        print("figures and pages …", flush=True)
        page = findings.write(run)
        if run == _RUN:
            findings.quote(page.read_text(encoding="utf-8"), paths.ROOT / "README.md")
        with contextlib.redirect_stdout(io.StringIO()):  # a line a figure: the last line says where they lie
            show = Show(kinds=("figures", "report", "trace"), run=run, study="movies")
            show.execute({})
        board = scoreboard(evaluate.read(run, "model_metrics"))
        print(board.to_string(index=False, na_rep="-"))
        folder = paths.shown(paths.run_folder("movies", run))
        print(f"{DAGGER_NOTE}. Tables, report.html, trace/, notebooks/: {folder}/")

    @property
    def run(self) -> str:
        """The name of the run: the committed one's, or one of this size."""
        if (self.n_sessions, self.n_turns) == _SIZE:
            return _RUN
        return f"{_RUN}-{self.n_sessions}x{self.n_turns}"

    def _run_notebooks(self) -> None:
        values = {"run": self.run, "catalog": "sample", "voices": "all", "workers": 2, **self.values()}
        for notebook in notebooks.committed():
            if "01" <= notebook.stem[:2] <= "06":
                print(notebook.stem, end=", ", flush=True)
                declared = notebooks.parameters_of(notebook)
                own = {name: value for name, value in values.items() if name in declared}
                notebooks.run(notebook, own)


class Tables(Command):
    """Make the thesis's tables and figures from logs."""

    takes = (Takes("crs_lib.simulate.logged:ImportConfig"), Takes("crs_lib.evaluate:EvaluateConfig"))
    usual: ClassVar[dict[str, Any]] = {"convention": "thesis_legacy", "workers": 2}

    judge_scores: str = ""
    """CSV files of judge scores made elsewhere: one, a folder, or a quoted pattern"""
    thresholds: bool = False
    """score under 27 settings of the thresholds too, and draw the systems' means over them"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.report import outcomes
        from crs_lib.simulate.logged import ImportConfig
        from crs_lib.thesis import pages as views

        config = ImportConfig(**_fields(ImportConfig, settings))
        scoring = evaluate.EvaluateConfig(**_fields(evaluate.EvaluateConfig, settings))
        loaded = views.load(config, self.judge_scores)
        account = show_import(loaded.imported)
        table(loaded.judged, "judge scores from elsewhere")
        evaluate.evaluate(scoring)
        convention = scoring.chosen.name
        files = outcomes.write_tables(config.run, convention)
        draw("movies", config.run, convention=convention)
        _show_best(config.run, convention)
        names = ["model_metrics.csv", *(path.name for path in files)]
        print(f"tables:  {paths.shown(files[0].parent)}/   {', '.join(names)}")
        if self.thresholds:
            drawings, orders = views.write_thresholds(scoring)
            print(orders, *(f"drawn: {paths.shown(path)}" for path in drawings), sep="\n")
        print("; ".join(filter(None, [account, loaded.matched])))


def _fields(kind: Any, settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in kind.model_fields}


def _show_best(run: str, convention: str) -> None:
    """Print the best system on each outcome of a scored run, and why published scores are missing."""
    from crs_lib.metrics import base
    from crs_lib.report import outcomes

    best = outcomes.best_systems(run, convention)
    for note in best["published_note"].dropna().unique():
        print(note)
    best = best.drop(columns=["low", "high", "n", "published_note"])
    labels = [base.get(name).label for name in best["metric"]]
    labelled = best.assign(metric=labels)
    table(labelled.dropna(axis=1, how="all"), digits=4)


class Topics(Command):
    """Train the topic model of the thesis's conventions on the plots of a catalogue."""

    reads = "catalog"
    writes = "out"

    catalog: str = "sample"
    """sample, or a catalogue's file"""
    out: Path | None = None
    """folder of the model"""
    n_topics: Annotated[int, Field(ge=2)] = 50
    """how many"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 42
    """of the training"""

    def execute(self, settings: dict[str, Any]) -> None:
        from crs_lib.thesis.catalog import ThesisCatalog
        from crs_lib.thesis.topics import train, trained_model

        films = ThesisCatalog.load(self.catalog)
        plots = films.documents[len(films) :]
        model = train(plots, n_topics=self.n_topics, seed=self.seed)
        folder = self.out or trained_model()
        model.save(folder)
        size = f"{model.n_topics} topics over {len(model.words)} words of {len(plots)} plots"
        print(f"{size}: {paths.shown(folder)}/")
