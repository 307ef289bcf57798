"""Score finished dialogues: turns, shifts, session results and model metrics, each in its file."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pandas as pd

from crs_lib import judge as judging
from crs_lib import runs, simulate
from crs_lib.catalog import sources
from crs_lib.catalog.catalog import Catalog
from crs_lib.core import paths, tables
from crs_lib.core.config import Config, Field, RunName
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError, RunError
from crs_lib.evaluate import tables as score_tables
from crs_lib.evaluate.choose import ConventionName, Extractor, ScoringConfig, TopicModel, Vocabulary
from crs_lib.grounding.grounder import Grounder
from crs_lib.metrics import base, conventions
from crs_lib.score.scorer import ItemsScorer, Scores, unscored

_FILES = {
    "turns": ("turns.parquet", tables.TURNS),
    "shifts": ("shifts.parquet", tables.TURNS),
    "results": ("results.jsonl", tables.RESULTS),
    "model_metrics": ("model_metrics.csv", tables.MODEL_METRICS),
}


@dataclass(frozen=True)
class EvaluateConfig(Config):
    """The effective settings of an evaluation, checked."""

    run: Annotated[RunName, Field(description="a run whose dialogues are finished")] = "smoke"
    convention: ConventionName = "default"
    extractor: Extractor = ""
    vocabulary: Vocabulary = ""
    topic_model: TopicModel = ""

    def check(self) -> None:
        self.scoring("")

    @property
    def metrics(self) -> tuple[str, ...]:
        """The session metrics that the convention gives, in the order of its tables."""
        from crs_lib.thesis import grounded
        from crs_lib.thesis import legacy as thesis_legacy

        given = {
            "items": tuple(base.scored_names()),
            "grounded": grounded.METRICS,
            "legacy": thesis_legacy.METRICS,
        }
        return given[conventions.get(self.convention).scorer]

    def scoring(self, catalog: str, dialogues: str = "") -> ScoringConfig:
        """The way of scoring that the settings name, for a catalogue and the hash of the dialogues."""
        return ScoringConfig(
            catalog,
            self.convention,
            self.extractor,
            vocabulary=self.vocabulary,
            topic_model=self.topic_model,
            inputs={"dialogues": dialogues},
        )


def score_all(
    dialogues: Iterable[Dialogue], grounder: Grounder, convention: conventions.Convention
) -> Iterator[Scores]:
    """Score dialogues one after the other; texts are grounded in batches, memory stays flat."""
    return score_tables.stream(dialogues, ItemsScorer(grounder, convention))


def evaluate(config: EvaluateConfig) -> Path:
    """Score a run's dialogues into its folder; returns the folder.

    Scores that judges gave the run (``python -m crs_lib judge``) join its results; a session that failed has
    a row of nulls. Raises RunError if the run has no finished dialogues, or judges read older ones. Derived
    data: a repeated evaluation writes its files anew, atomically.
    """
    made = runs.finished(simulate.STUDY, config.run, "simulate", "03_simulate")
    folder = paths.run_folder(simulate.STUDY, config.run)
    inputs = {"dialogues": made["outputs"]["dialogues.jsonl"], "catalog": made["inputs"]["catalog"]}
    scoring = config.scoring(str(folder / "catalog.parquet"), inputs["dialogues"])
    ready = scoring.make()
    settings = scoring.rule.parameters() | ready.provenance.columns()
    with runs.stage(simulate.STUDY, config.run, "evaluate", settings, inputs, fixed=False) as stage:
        judged = judging.scores_of(config.run)  # empty where nobody judged
        scored = score_tables.stream(simulate.iter_dialogues(config.run), ready.scorer)
        scored = (one._replace(session=judging.add_scores(one.session, judged)) for one in scored)
        lost = [
            unscored(row["model"], row["session_id"], scoring.rule.name, ready.metrics, row["error"])
            for row in simulate.failed_sessions(config.run)
        ]
        sessions = score_tables.write(itertools.chain(scored, lost), stage.path, ready.provenance)
        table = score_tables.model_metrics(sessions, ready.metrics, ready.provenance.columns())
        tables.write_csv(stage.path("model_metrics.csv"), table)
        stage.counts |= {"sessions": len(sessions), "models": sessions["model"].nunique()}
        stage.counts |= {"failed": len(lost)} if lost else {}
    return folder


class RunTables(NamedTuple):
    """The tables of an evaluated run: a row a turn, a session, and a model and metric."""

    turns: pd.DataFrame
    results: pd.DataFrame
    means: pd.DataFrame


def scored(run: str) -> RunTables:
    """The tables of an evaluated run, under any convention.

    Raises RunError as :func:`read`, but for the convention.
    """
    _entry(run)
    return RunTables(*(_table(run, name) for name in ("turns", "results", "model_metrics")))


def read(run: str, table: str) -> pd.DataFrame:
    """A table of an evaluated run: "turns", "shifts", "results" or "model_metrics".

    Raises InputError for another name, RunError if the run has not been evaluated, if its dialogues are
    newer than its scores, or if it was scored under a convention that gives no item-grounded scores.
    """
    if table not in _FILES:
        raise InputError(f"no table {table!r}; give one of {', '.join(_FILES)}")
    made = _entry(run)["parameters"]
    if made["scorer"] != "items":
        raise RunError(
            f"run {run!r} was scored under {made['name']!r}, which gives no item-grounded scores (notebook "
            f"04 shows what it gives); score it again: python -m crs_lib run 04_evaluate -p run {run}"
        )
    return _table(run, table)


def _entry(run: str) -> dict[str, Any]:
    """The manifest's entry of the evaluation; RunError where there is none, or an older one."""
    entry = runs.finished(simulate.STUDY, run, "evaluate", "04_evaluate")
    made = runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    if entry["inputs"]["dialogues"] != made["outputs"]["dialogues.jsonl"]:
        again = f"python -m crs_lib run 04_evaluate -p run {run}"
        raise RunError(f"the scores of run {run!r} are older than its dialogues; score again: {again}")
    return entry


def _table(run: str, table: str) -> pd.DataFrame:
    name, contract = _FILES[table]
    return tables.read_table(paths.run_folder(simulate.STUDY, run) / name, contract)


def catalog_of(run: str) -> Catalog:
    """The catalogue that a run was made with, frozen in its folder."""
    runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    return sources.load(paths.run_folder(simulate.STUDY, run) / "catalog.parquet")


def long(results: pd.DataFrame, metrics: Iterable[str]) -> pd.DataFrame:
    """Session scores in long form for statistics: system, scenario, metric, value."""
    names = [base.get(name).name for name in metrics]
    frame = results.melt(["model", "session_id"], names, "metric", "value")
    return frame.rename(columns={"model": "system", "session_id": "scenario"}).astype({"value": float})
