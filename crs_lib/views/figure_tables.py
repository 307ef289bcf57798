"""The tables behind the figures of a movie run: of its evaluation, and those that only some runs have."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import evaluate, figures, runs, simulate
from crs_lib import judge as judging
from crs_lib.core import paths, tables
from crs_lib.core.errors import InputError
from crs_lib.figures import NoDataError
from crs_lib.stats.plan import Plan
from crs_lib.trust import sensitivity
from crs_lib.trust import sensitivity as sensitivity_stage
from crs_lib.views import statistics

_CALL = ("role", "model", "session_id", "tokens_in", "tokens_out", "seconds", "sent")


def read(run: str, table: str) -> pd.DataFrame:
    """A table by the name that the registry of figures gives it.

    Raises NoDataError where the run has no such data, RunError as :func:`evaluate.read`.
    """
    make = _OTHERS.get(table)
    if make is None:
        return evaluate.read(run, table)
    runs.finished(simulate.STUDY, run, "evaluate", "04_evaluate")
    return make(run)


def draw(run: str, *names: str) -> None:
    """Draw figures of a run in a notebook, or print which data a figure lacks."""
    for name in names:
        try:
            figures.draw(name, *(read(run, table) for table in figures.FIGURES.get(name).facts["tables"]))
        except NoDataError as error:
            print(figures.why_not(name, run, error))


def usage(run: str) -> pd.DataFrame:
    """Calls, tokens and seconds of a run's models, a row for each role and model; a note for none."""
    if not _call_log(run).exists():
        return pd.DataFrame({"note": [f"run {run!r} called no language model"]})
    return judging.usage(run).round({"seconds": 1, "tokens_per_second": 1})


def power(run: str, plan: Plan | None = None) -> pd.DataFrame:
    """The power of the declared tests by number of scenarios, from the variance that the run shows.

    ``plan`` is the movies' own where none is given. Raises NoDataError where the scores allow no estimate.
    """
    scores = statistics.stats_frame(evaluate.read(run, "results"))
    declared = plan or statistics.plan_for("movies", list(scores["system"].unique()))
    try:
        return statistics.power_table(scores, declared)
    except InputError as error:
        raise NoDataError(f"no power without a variance of paired differences: {error}") from error


def judge_means(run: str) -> pd.DataFrame:
    """Scores by judges of other model families: mean and interval by system, in the run's order."""
    if not judging.scores_of(run):
        raise NoDataError(f"run {run!r} has no judge scores")
    scores = judging.score_table(run)
    found = judging.headline(scores).rename(columns={"value": "mean"})
    order = {name: place for place, name in enumerate(dict.fromkeys(scores["model"]))}
    found = found.sort_values(["model", "construct"], key=lambda c: c.map(order) if c.name == "model" else c)
    return found.assign(n_sessions=scores["session_id"].nunique()).reset_index(drop=True)


def llm_calls(run: str) -> pd.DataFrame:
    """Every call of a language model: role, model, session, tokens, seconds, and ``sent``.

    ``sent`` is False for failed calls and for those that the cache answered. NoDataError without calls.
    """
    path = _call_log(run)
    if not path.exists():
        raise NoDataError(f"run {run!r} called no language model")
    return pd.DataFrame(_calls(path), columns=[*_CALL])


def _calls(path: Path) -> Iterator[tuple[Any, ...]]:
    for row in tables.read_jsonl(path):
        sent = row["error"] is None and not row["cache_hit"]
        session = row.get("session", "")
        session = f"{session:05d}" if isinstance(session, int) else session
        facts = (row["role"], row["model"], session)
        yield (*facts, row["tokens_in"], row["tokens_out"], row["seconds"], sent)


def _call_log(run: str) -> Path:
    return paths.run_folder(simulate.STUDY, run) / "llm_calls.jsonl"


_OTHERS: dict[str, Callable[[str], pd.DataFrame]] = {
    "judge_means": judge_means,
    "llm_calls": llm_calls,
    "power": power,
    "sensitivity_weights": lambda run: sensitivity.weights(evaluate.read(run, "turns")),
    "sensitivity_choices": lambda run: sensitivity_stage.read(run, "choices"),
    "sensitivity_catalogue": lambda run: sensitivity_stage.read(run, "catalogue"),
}
