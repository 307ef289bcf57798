"""The files behind a trace, read in step: dialogues, their turns, shifts, scores and judge notes."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from crs_lib import evaluate, runs, simulate
from crs_lib.core import paths
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import RunError
from crs_lib.judge import run as judge_records
from crs_lib.metrics import base
from crs_lib.report import figure_tables

Key = tuple[str, str]  # model, session_id


class ScoredSession(NamedTuple):
    """A dialogue with its rows of the scored tables."""

    dialogue: Dialogue
    turns: list[dict[str, Any]]
    shifts: list[dict[str, Any]]
    session: dict[str, Any]
    judge: Mapping[str, Any] | None


class RunFiles:
    """An evaluated run, opened for reading; RunError names what is missing or out of step."""

    def __init__(self, run: str, convention: str = "") -> None:
        self.run, self.convention = run, evaluate.convention_of(run, convention)
        self.folder = paths.run_folder(simulate.STUDY, run)
        self.scores = evaluate.folder_of(run, self.convention)
        results = evaluate.read(run, "results", self.convention)
        self.sessions: dict[Key, dict[str, Any]] = _by_key(results)
        self._session_metrics = [
            name
            for name in results
            if name in base.METRICS and pd.to_numeric(results[name], errors="coerce").notna().any()
        ]
        shifts = figure_tables.read(run, "shifts", self.convention)
        self._shifts: dict[Key, list[dict[str, Any]]] = {}
        for row in _records(shifts):
            self._shifts.setdefault((row["model"], row["session_id"]), []).append(row)
        self.types = sorted({str(kind) for kind in shifts["type"] if kind})
        self.models = list(dict.fromkeys(model for model, _ in self.sessions))
        self._judged = _judged(run)

    def turn_metrics(self) -> list[str]:
        """The metrics that every turn has a score of, in the order of the table."""
        import pyarrow.parquet as pq

        schema = pq.read_schema(self.scores / "turns.parquet")
        numeric = [name for name, kind in zip(schema.names, schema.types, strict=True) if kind == "double"]
        return [name for name in numeric if name in base.METRICS]

    def session_metrics(self) -> list[str]:
        """The metrics that any session has a score of, in the order of the file."""
        return self._session_metrics

    def __iter__(self) -> Iterator[ScoredSession]:
        """Every session, in the order of the run; memory stays flat. One without a reply has no turns."""
        rows = _turn_groups(self.scores / "turns.parquet")
        for dialogue in simulate.iter_dialogues(self.run):
            key = (dialogue.model_name, dialogue.session_id)
            found, turns = next(rows, (None, [])) if dialogue.pairs() else (key, [])
            if found != key or key not in self.sessions:
                again = f"python -m crs_lib run 04_evaluate -p run {self.run}"
                raise RunError(f"the scores of run {self.run!r} miss session {key}; score again: {again}")
            session = self.sessions[key]
            yield ScoredSession(
                dialogue, turns, self._shifts.get(key, []), session, self._judged.get(key) or session
            )


def _turn_groups(path: Path) -> Iterator[tuple[Key, list[dict[str, Any]]]]:
    """The rows of each session, sessions in the order of the file."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        rows = itertools.chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(4000))
        for key, group in itertools.groupby(rows, key=lambda row: (row["model"], row["session_id"])):
            yield key, list(group)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _by_key(frame: pd.DataFrame) -> dict[Key, dict[str, Any]]:
    return {(str(row["model"]), str(row["session_id"])): row for row in _records(frame)}


def _judged(run: str) -> dict[Key, Mapping[str, Any]]:
    """The judges' records of a run's sessions, by session; empty where no judge was asked.

    Altered dialogues that check the judges themselves (canaries) are no sessions of the run.
    """
    if (
        runs.read_manifest(simulate.STUDY, run)["stages"].get(judge_records.STAGE, {}).get("status")
        != "finished"
    ):
        return {}
    found = (row for row in judge_records.read_records(run) if not row["canary"])
    return {(str(row["model"]), str(row["session_id"])): row for row in found}
