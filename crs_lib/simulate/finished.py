"""The dialogues of a finished run, read from its folder."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from crs_lib import runs
from crs_lib.core import paths, safety, tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.simulate.config import STUDY

FAILED = "failed_sessions.csv"
RAW_CATALOG = "catalog_source.json"  # the catalogue in the OpenDialKG form, as it was given


def run_folder(run: str) -> Path:
    """``results/movies/<run>``."""
    return paths.run_folder(STUDY, run)


@safety.reader("the failed sessions of a run")
def failed_sessions(run: str) -> list[dict[str, str]]:
    """The sessions that a finished run is without: model, session_id and error of each; often none."""
    made = runs.finished(STUDY, run, "simulate", "03_simulate")
    if FAILED not in made["outputs"]:
        return []
    path = runs.output(STUDY, run, "simulate", "03_simulate", FAILED)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False)]


def dialogues(run: str) -> list[Dialogue]:
    """The finished dialogues of a run, in the order of the file; RunError names what makes them."""
    return list(iter_dialogues(run))


def dialogue_file(arm: str = "") -> str:
    """The name of the file of a run's sessions, or of the short conversations of an arm beside them."""
    return f"dialogues_{arm}.jsonl" if arm else "dialogues.jsonl"


@safety.reader("the dialogues of a run")
def iter_dialogues(run: str, arm: str = "") -> Iterator[Dialogue]:
    """The finished dialogues of a run one by one, memory flat; of straight or fresh users for such an arm."""
    path = runs.output(STUDY, run, "simulate", "03_simulate", dialogue_file(arm))
    for record in tables.read_jsonl(path):
        yield Dialogue.from_json(record, source=path.name)
