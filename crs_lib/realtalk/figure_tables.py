"""The tables behind the figures of a RealTalk run, read from the files of its evaluation."""

import pandas as pd

from crs_lib import runs
from crs_lib.realtalk.config import STUDY

FILES = {"attribution": "attribution.csv", "intervals": "intervals.csv"}


def read(run: str, table: str) -> pd.DataFrame:
    """A table by the name that the registry of figures gives it; RunError for a run without evaluation."""
    frame = pd.read_csv(runs.output(STUDY, run, "evaluate", "23_realtalk_evaluate", FILES[table]))
    if table == "attribution":
        return attribution(frame)
    return frame.assign(n_questions=int(frame["n"].max()) if len(frame) else 0)


def attribution(frame: pd.DataFrame) -> pd.DataFrame:
    """Where gold ids end, with ``n_ids``, the number of all annotated ids."""
    return frame.assign(n_ids=int(frame["ids"].max()) if len(frame) else 0)
