"""Scores into files: turns, shifts, session results and model metrics, each with its provenance."""

import gc
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from crs_lib import stats
from crs_lib.core import tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.evaluate.choose import Provenance, ScoringConfig
from crs_lib.evaluate.scorer import ArmGains
from crs_lib.metrics import base, gain
from crs_lib.metrics.records import BatchScorer, Scores
from crs_lib.runs import processes

CHUNK = 50  # dialogues scored at once
OWN_FAMILY = "judge of its own family"


def stream(
    dialogues: Iterable[Dialogue], scorer: BatchScorer, config: ScoringConfig | None = None,
    workers: int = 1, gains: ArmGains | None = None,
) -> Iterator[Scores]:  # fmt: skip
    """Score dialogues chunk by chunk, in order; memory stays flat. With more than one worker each process
    makes its own scorer from ``config`` and the ``gains`` of other arms; the scores do not depend on their
    number. A scorer that depends on the order scores all itself. InputError for fewer than one worker.
    """
    if workers < 1:
        raise InputError(f"workers is {workers}; give a whole number >= 1")
    left = iter(dialogues)
    chunks = iter(lambda: tuple(itertools.islice(left, CHUNK)), ())
    if workers == 1 or config is None or config.in_order:
        for chunk in chunks:
            yield from _scored(scorer, chunk)
        return
    with processes.submitter(_scored, partial(_scorer, config, gains), workers) as (submit, width):
        for scores in processes.in_order(submit, chunks, width):
            yield from scores


def _scorer(config: ScoringConfig, gains: ArmGains | None) -> BatchScorer:
    return config.make(gains).scorer


def _scored(scorer: BatchScorer, chunk: Sequence[Dialogue]) -> list[Scores]:
    """The scores of a chunk, with the cyclic garbage collector paused: scoring makes no cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return scorer.score_many(chunk)
    finally:
        if collecting:
            gc.enable()


def write(scored: Iterator[Scores], target: Callable[[str], Path], origin: Provenance) -> pd.DataFrame:
    """Stream the scores into ``turns.parquet``, ``shifts.parquet`` and ``results.jsonl``. ``target`` gives
    the path of a file's name. Returns the flat session table; InputError where there is nothing to score.
    """
    sessions = tables.Rows()
    shifts: list[pd.DataFrame] = []
    columns = origin._asdict()

    def frames() -> Iterator[pd.DataFrame]:
        while part := list(itertools.islice(scored, CHUNK)):
            for scores in part:
                lines.write(tables.dumps(scores.session | columns) + "\n")
                sessions.add({k: v for k, v in scores.session.items() if not isinstance(v, dict)})
            if rows := [row for scores in part for row in scores.shifts]:
                shifts.append(pd.DataFrame(rows))
            if rows := [row for scores in part for row in scores.turns]:
                frame = pd.DataFrame(rows).assign(**columns)
                yield frame.astype({"since_shift": "Int64"}) if "since_shift" in frame else frame

    with tables.together():
        with tables.write_aside(target("results.jsonl")) as lines:
            made = frames()
            first = next(made, None)
            if not sessions:
                raise InputError("there is no dialogue to score; is the log empty?")
            if first is None:
                raise InputError("no dialogue has a turn and a reply to it; there is nothing to score")
            tables.write_parquet(target("turns.parquet"), itertools.chain([first], made))
        none = "model session_id voice turn type explicitness scope reading".split()
        frame = pd.DataFrame(columns=[*none, *base.columns(base.SHIFT)])
        frame = pd.concat(shifts, ignore_index=True) if shifts else frame
        tables.write_parquet(target("shifts.parquet"), frame.assign(**columns))
    return sessions.frame()


def model_metrics(sessions: pd.DataFrame, metrics: Sequence[str], columns: Mapping[str, str]) -> pd.DataFrame:
    """One row a model and metric: mean over sessions, 95 % bootstrap interval, n and n missing. Sessions are
    resampled by scenario (the session's number), so that the interval is that of the unit of inference; those
    of costs are :func:`crs_lib.stats.cost_interval`. A metric that no session defines has a null mean and n
    0; ``mark``: which may not rank systems, why an interval or a share is missing. ``columns`` are added.
    """
    models, parts = list(dict.fromkeys(sessions["model"])), []
    for name in metrics:
        metric = base.get(name)
        if metric.primary:
            part = pd.DataFrame(_costs(sessions, metric))
        else:
            frame = sessions[["model", "session_id", name]].astype({name: float})
            part = stats.cluster_bootstrap(frame, stats.Design("model", "session_id", name))
            part["mark"] = metric.mark
        part = part.set_index("system").loc[models].rename_axis("model").reset_index()
        parts.append(part.assign(metric=name, direction=metric.direction))
    head = ["model", "metric", "mean", "low", "high", "n", "n_missing", "direction", "mark", *columns]
    return pd.concat(parts, ignore_index=True).assign(**columns)[head]


# The marks of a share lost where there is too little to lose, and of costs that no arm was simulated for.
UNABLE, NO_ARM, NO_OPEN = "unable", "no straight users", "no shift of open scope"


def _costs(sessions: pd.DataFrame, metric: base.Metric) -> Iterator[dict[str, Any]]:
    """The rows of a metric of primary windows: one window a scenario."""
    for system, mine in sessions.groupby("model", sort=False):
        if metric.ratio:
            top, bottom = (mine[name].astype(float) for name in metric.ratio)
            found = stats.ratio_interval(top, bottom)
            if bottom.mean() < gain.ABLE:  # not so where no scenario has a straight user
                found = stats.Estimate.unknown(reason=UNABLE)
        else:
            found = stats.cost_interval(mine[metric.name])
        none = NO_OPEN if metric.name.startswith("open_scope") else NO_ARM
        mark = (found.reason or metric.mark) if found.n or found.reason == UNABLE else none
        numbers = {"mean": found.value, "low": found.low, "high": found.high, "n": found.n}
        yield {"system": system, **numbers, "mark": mark, "n_missing": len(mine) - found.n}


def with_judges(table: pd.DataFrame, judged: pd.DataFrame, sessions: pd.DataFrame) -> pd.DataFrame:
    """The model metrics with a row for each system and construct of judges (``judge.headline``) behind them.
    A system that no judge read has null means; ``mark`` says where only judges of its own family did.
    """
    given = judged.rename(columns={"construct": "metric", "value": "mean"}).drop(columns="n_missing")
    asked = sessions["model"].value_counts()
    pairs = itertools.product(dict.fromkeys(given["metric"]), sessions["model"].unique())
    rows = pd.DataFrame(pairs, columns=["metric", "model"]).merge(given, how="left")
    rows["n"] = rows["n"].fillna(0).astype(int)
    rows["n_missing"] = rows["model"].map(asked) - rows["n"]
    rows["direction"] = [base.get(name).direction for name in rows["metric"]]
    rows["mark"] = [OWN_FAMILY if own is True else "" for own in rows["own_family"]]
    origin = table.iloc[0, table.columns.get_loc("mark") + 1 :].to_dict()
    return pd.concat([table, rows.assign(**origin)[table.columns]], ignore_index=True)
