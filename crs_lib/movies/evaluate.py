"""Score finished dialogues: turns, shifts, session results and model metrics, each in its file."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import paths, runs, stats, tables
from crs_lib.dialogue import Dialogue
from crs_lib.errors import InputError, RunError
from crs_lib.metrics import base
from crs_lib.movies import conventions, simulate, sources
from crs_lib.movies.catalog import Catalog
from crs_lib.movies.grounding import Grounder
from crs_lib.movies.scoring import SESSION_METRICS, TURN_METRICS, Scorer, Scores, Text
from crs_lib.text import words_of_many

ALL_METRICS = (*TURN_METRICS, *SESSION_METRICS)
_CHUNK = 100  # dialogues grounded at once


@dataclass(frozen=True)
class EvaluateConfig:
    """The effective settings of an evaluation, checked; InputError for an unknown convention."""

    run: str = "smoke"
    convention: str = "default"

    def __post_init__(self) -> None:
        paths.run_folder(simulate.STUDY, self.run)
        conventions.get(self.convention)


def score_all(
    dialogues: Iterable[Dialogue], grounder: Grounder, convention: conventions.Convention
) -> Iterator[Scores]:
    """Score dialogues one after the other; texts are grounded in batches, memory stays flat."""
    scorer = Scorer(grounder, convention)
    stream = iter(dialogues)
    while chunk := list(itertools.islice(stream, _CHUNK)):
        texts = [turn.text for dialogue in chunk for turn in dialogue.turns]
        found = zip(words_of_many(texts), grounder.ground(texts).sets(), strict=True)
        for dialogue in chunk:
            mine = [Text(*next(found)) for _ in dialogue.turns]
            yield scorer.score(dialogue, mine)


def evaluate(config: EvaluateConfig) -> Path:
    """Score a run's dialogues into its folder; returns the folder.

    Raises RunError if the run has no finished dialogues. Derived data: a repeated evaluation writes
    its files anew, atomically.
    """
    made = runs.finished(simulate.STUDY, config.run, "simulate", "03_simulate")
    rule = conventions.get(config.convention)
    folder = paths.run_folder(simulate.STUDY, config.run)
    grounder = Grounder(sources.load(folder / "catalog.parquet"))
    inputs = {"dialogues": made["outputs"]["dialogues.jsonl"], "catalog": made["inputs"]["catalog"]}
    with runs.stage(simulate.STUDY, config.run, "evaluate", rule.parameters(), inputs, fixed=False) as stage:
        scored = score_all(simulate.iter_dialogues(config.run), grounder, rule)
        sessions = _write(scored, stage)
        tables.write_csv(stage.path("model_metrics.csv"), model_metrics(sessions, rule.name))
        stage.counts |= {"sessions": len(sessions), "models": sessions["model"].nunique()}
    return folder


def _write(scored: Iterator[Scores], stage: runs.Stage) -> pd.DataFrame:
    """Stream the rows to their files; returns the flat session table."""
    sessions: list[dict[str, Any]] = []
    shifts: list[dict[str, Any]] = []

    def frames() -> Iterator[pd.DataFrame]:
        while part := list(itertools.islice(scored, _CHUNK)):
            for scores in part:
                lines.write(tables.dumps(scores.session) + "\n")
                sessions.append({k: v for k, v in scores.session.items() if not isinstance(v, dict)})
                shifts.extend(scores.shifts)
            yield _turn_frame([row for scores in part for row in scores.turns])

    with tables.write_aside(stage.path("results.jsonl")) as lines:
        tables.write_parquet(stage.path("turns.parquet"), frames())
    columns = ["model", "session_id", "turn", "type", "watched"]
    frame = pd.DataFrame(shifts) if shifts else pd.DataFrame(columns=columns)
    tables.write_parquet(stage.path("shifts.parquet"), frame)
    return pd.DataFrame(sessions)


def _turn_frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    frame["since_shift"] = frame["since_shift"].astype("Int64")
    return frame


def model_metrics(sessions: pd.DataFrame, convention: str) -> pd.DataFrame:
    """One row a model and metric: mean over sessions, 95 % bootstrap interval, n and n missing.

    Sessions are resampled by scenario (the session's number), so that the interval is that of the
    unit of inference. A metric that no session defines has a null mean and n 0.
    """
    parts = []
    for name in ALL_METRICS:
        frame = sessions[["model", "session_id", name]].astype({name: float})
        known = frame[frame[name].notna()]
        if known.empty:
            part = pd.DataFrame({"model": sessions["model"].unique()})
            part[["mean", "low", "high"]] = float("nan")
            part["n"], part["n_missing"] = 0, sessions.groupby("model").size().loc[part["model"]].to_numpy()
        else:
            part = stats.cluster_bootstrap(frame, system="model", scenario="session_id", value=name, seed=0)
        part["metric"] = name
        parts.append(part)
    table = pd.concat(parts, ignore_index=True).rename(columns={"system": "model"})
    order = {model: place for place, model in enumerate(dict.fromkeys(sessions["model"]))}
    table["direction"] = [base.get(name).direction for name in table["metric"]]
    table["convention"] = convention
    table = table.sort_values(
        ["metric", "model"],
        key=lambda c: c.map(order) if c.name == "model" else c.map(ALL_METRICS.index),
        ignore_index=True,
    )
    head = ["model", "metric", "mean", "low", "high", "n", "n_missing", "direction", "convention"]
    return table[head]


def read(run: str, table: str) -> pd.DataFrame:
    """A table of an evaluated run: "turns", "shifts", "results" or "model_metrics".

    Raises InputError for another name, RunError if the run has not been evaluated, or if its
    dialogues are newer than its scores.
    """
    files = {
        "turns": ("turns.parquet", tables.TURNS),
        "shifts": ("shifts.parquet", tables.TURNS),
        "results": ("results.jsonl", tables.RESULTS),
        "model_metrics": ("model_metrics.csv", tables.MODEL_METRICS),
    }
    if table not in files:
        raise InputError(f"no table {table!r}; give one of {', '.join(files)}")
    entry = runs.finished(simulate.STUDY, run, "evaluate", "04_evaluate")
    made = runs.finished(simulate.STUDY, run, "simulate", "03_simulate")
    if entry["inputs"]["dialogues"] != made["outputs"]["dialogues.jsonl"]:
        again = f"python -m crs_lib run 04_evaluate -p run {run}"
        raise RunError(f"the scores of run {run!r} are older than its dialogues; score again: {again}")
    name, contract = files[table]
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
