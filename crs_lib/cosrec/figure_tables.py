"""The tables behind the figures of a CoSRec run: read from its files, shaped as the figures take them."""

from typing import Any

import pandas as pd

from crs_lib import runs
from crs_lib.core import paths
from crs_lib.cosrec import statistics
from crs_lib.figures import NoDataError

STUDY = "cosrec"
_GRADES = {0: "not relevant", 1: "partially relevant", 2: "highly relevant"}


def average_ratings(counts: pd.Series) -> pd.DataFrame:
    """Counts of conversations by average rating as a tidy frame; ``n_conversations`` is their sum."""
    frame = pd.DataFrame({"from": counts.index.astype(str), "conversations": counts.to_numpy()})
    return frame.assign(n_conversations=int(counts.sum()))


def aspect_ratings(counts: pd.DataFrame) -> pd.DataFrame:
    """Counts of conversations by rating and aspect as a tidy frame; ``n_conversations`` is their sum."""
    tidy = counts.reset_index().melt("rating", var_name="aspect", value_name="conversations")
    return tidy.assign(n_conversations=int(counts.sum().max()))


def judgments(counts: pd.DataFrame) -> pd.DataFrame:
    """Counts of intents by judged documents and grade as a tidy frame; ``n_intents`` is one grade's sum."""
    named = counts.rename(columns=_GRADES).reset_index()
    tidy = named.melt("judgments", var_name="grade", value_name="intents")
    return tidy.assign(n_intents=int(counts.sum().max()))


def systems(means: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The means of one measure by system and kind of topic, with the largest numbers that they rest on."""
    part = means[means["measure"] == measure]
    counts = {"n_topics": part["n"].max(), "n_conversations": part["clusters"].max()}
    return part.assign(**{name: int(n) for name, n in counts.items() if len(part)}).reset_index(drop=True)


def read(run: str, table: str) -> pd.DataFrame:
    """A table by the name that the registry of figures gives it.

    Raises RunError for a run that does not exist, NoDataError where it lacks the stage that makes the table.
    """
    stages = runs.read_manifest(STUDY, run).get("stages", {})
    if not stages:
        runs.finished(STUDY, run, "corpus", "11_cosrec_corpus")
    if table == "systems":
        parameters = _finished(stages, run, "evaluate", "14_cosrec_evaluate")["parameters"]
        return systems(_csv(run, "means"), str(parameters["measure"]))
    _finished(stages, run, "corpus", "11_cosrec_corpus")
    if table == "judgments":
        found = _csv(run, "judgments").set_index("intent").rename(columns=int)
        return judgments(statistics.judgment_counts(found))
    ratings = _csv(run, "ratings")
    if ratings.empty:
        raise NoDataError(f"the corpus of run {run!r} has no rated conversation")
    if table == "aspect_ratings":
        return aspect_ratings(statistics.aspect_rating_counts(ratings))
    return average_ratings(statistics.average_rating_counts(ratings))


def _finished(stages: dict[str, Any], run: str, stage: str, notebook: str) -> dict[str, Any]:
    entry: dict[str, Any] = stages.get(stage, {})
    if entry.get("status") != "finished":
        made_by = f"python -m crs_lib run {notebook} -p run {run}"
        raise NoDataError(f"run {run!r} has no finished {notebook}; make it with: {made_by}")
    return entry


def _csv(run: str, name: str) -> pd.DataFrame:
    path = paths.run_folder(STUDY, run) / f"{name}.csv"
    if not path.is_file():
        raise NoDataError(f"run {run!r} was made before {name}.csv was written; make its stage again")
    return pd.read_csv(path)
