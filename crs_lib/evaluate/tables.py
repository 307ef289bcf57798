"""Scores into files: turns, shifts, session results and model metrics, each with its provenance."""

import gc
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import pandas as pd

from crs_lib import stats
from crs_lib.core import tables
from crs_lib.core.dialogue import Dialogue
from crs_lib.core.errors import InputError
from crs_lib.evaluate.choose import Provenance, ScoringConfig
from crs_lib.evaluate.scorer import ArmGains
from crs_lib.metrics import base, costs, gain
from crs_lib.metrics.records import BatchScorer, Scores
from crs_lib.runs import processes

T = TypeVar("T")
_MEANS = "model metric mean low high n n_missing direction mark".split()
CHUNK = 50  # dialogues scored at once
OWN_FAMILY = "judge of its own family"
# The marks of a share lost where there is too little to lose, of a gain over other replies than those where
# all arms were simulated, and of outcomes that no session has.
UNABLE = "unable"
OWN_REPLIES = f"over {costs.OWN_REPLIES}: no straight users"
NO_CHANGE = "no change of stated scope"
NO_ARM = "no straight users"
NO_OPEN = "no shift of open scope"


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of at most ``CHUNK``."""
    iterator = iter(items)
    chunk = list(itertools.islice(iterator, CHUNK))
    while chunk:
        yield chunk
        chunk = list(itertools.islice(iterator, CHUNK))


def stream(
    dialogues: Iterable[Dialogue],
    scorer: BatchScorer,
    config: ScoringConfig | None = None,
    workers: int = 1,
    gains: ArmGains | None = None,
) -> Iterator[Scores]:
    """Score dialogues chunk by chunk, in order; memory stays flat. With more than one worker each process
    makes its own scorer from ``config`` and the ``gains`` of other arms; the scores do not depend on their
    number. A scorer that depends on the order scores all itself. InputError for fewer than one worker.
    """
    if workers < 1:
        raise InputError(f"workers is {workers}; give a whole number >= 1")
    chunks = _chunks(dialogues)
    if workers == 1 or config is None or config.in_order:
        for chunk in chunks:
            yield from _scored(scorer, chunk)
        return
    with processes.submitter(_scored, partial(_scorer, config, gains), workers) as (submit, width):
        for scores in processes.in_order(submit, chunks, width):
            yield from scores


def _scorer(config: ScoringConfig, gains: ArmGains | None) -> BatchScorer:
    return config.make(gains or {}).scorer


def _scored(scorer: BatchScorer, chunk: Sequence[Dialogue]) -> list[Scores]:
    """The scores of a chunk, with the cyclic garbage collector paused: scoring makes no cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return scorer.score_many(chunk)
    finally:
        if collecting:
            gc.enable()


class _Written:
    """What is written of scores one after the other: results as lines, sessions and shifts for later."""

    def __init__(self, lines: IO[str], origin: Provenance) -> None:
        self.lines = lines
        self.columns = origin._asdict()
        self.sessions = tables.Rows()
        self.shifts: list[pd.DataFrame] = []

    def turns(self, scored: Iterable[Scores]) -> Iterator[pd.DataFrame]:
        """The turns of the scores as tables; all else is taken in on the way."""
        for chunk in _chunks(scored):
            turns = []
            shifts = []
            for scores in chunk:
                self._add(scores.session)
                turns += scores.turns
                shifts += scores.shifts
            if shifts:
                self.shifts.append(pd.DataFrame(shifts))
            if turns:
                frame = pd.DataFrame(turns).assign(**self.columns)
                if "since_shift" in frame:
                    frame = frame.astype({"since_shift": "Int64"})
                yield frame

    def _add(self, session: Mapping[str, Any]) -> None:
        line = tables.dumps({**session, **self.columns})
        self.lines.write(line + "\n")
        flat = {name: value for name, value in session.items() if not isinstance(value, dict)}
        self.sessions.add(flat)

    def shift_table(self) -> pd.DataFrame:
        """All shifts; a table without rows where there was none."""
        names = "model session_id voice turn type explicitness scope reading".split()
        shifts = pd.DataFrame(columns=[*names, *base.columns(base.SHIFT)])
        if self.shifts:
            shifts = pd.concat(self.shifts, ignore_index=True)
        return shifts.assign(**self.columns)


def write(scored: Iterator[Scores], target: Callable[[str], Path], origin: Provenance) -> pd.DataFrame:
    """Stream the scores into ``turns.parquet``, ``shifts.parquet`` and ``results.jsonl``. ``target`` gives
    the path of a file's name. Returns the flat session table; InputError where there is nothing to score.
    """
    with tables.together():
        with tables.write_aside(target("results.jsonl")) as lines:
            written = _Written(lines, origin)
            frames = written.turns(scored)
            first = next(frames, None)
            if not written.sessions:
                raise InputError("there is no dialogue to score; is the log empty?")
            if first is None:
                raise InputError("no dialogue has a turn and a reply to it; there is nothing to score")
            tables.write_parquet(target("turns.parquet"), itertools.chain([first], frames))
        tables.write_parquet(target("shifts.parquet"), written.shift_table())
    return written.sessions.frame()


def model_metrics(sessions: pd.DataFrame, metrics: Sequence[str], columns: Mapping[str, str]) -> pd.DataFrame:
    """One row a model and metric: mean over sessions, 95 % bootstrap interval, n and n missing. Sessions are
    resampled by scenario (the session's number), so that the interval is that of the unit of inference; those
    of costs are :func:`crs_lib.stats.mean_interval`. A metric that no session defines has a null mean and n
    0; ``mark``: which may not rank systems, why an interval or a share is missing. ``columns`` are added.
    """
    models = list(dict.fromkeys(sessions["model"]))
    parts = []
    for name in metrics:
        metric = base.get(name)
        if metric.primary:
            part = pd.DataFrame(_costs(sessions, metric))
        else:
            frame = sessions[["model", "session_id", name]].astype({name: float})
            part = stats.cluster_bootstrap(frame, stats.Design("model", "session_id", name))
            part["mark"] = metric.mark
        part = part.set_index("system").loc[models]
        part["metric"] = name
        part["direction"] = metric.direction
        parts.append(part.rename_axis("model").reset_index())
    means = pd.concat(parts, ignore_index=True).assign(**columns)
    return means[[*_MEANS, *columns]]


def _costs(sessions: pd.DataFrame, metric: base.Metric) -> list[dict[str, Any]]:
    """The rows of a metric of primary windows: one window a scenario."""
    rows: list[dict[str, Any]] = []
    limits = stats.Range(metric.low, metric.high)
    for system, own in sessions.groupby("model", sort=False):
        interval = stats.mean_interval(own[metric.name], limits=limits)
        if metric.ratio:
            interval = _ratio(own, *metric.ratio)
        mark = _mark(own, metric, interval)
        row: dict[str, Any] = {"system": system, "mean": interval.value}
        row["low"] = interval.low
        row["high"] = interval.high
        row["n"] = interval.n
        row["n_missing"] = len(own) - interval.n
        row["mark"] = mark
        rows.append(row)
    return rows


def _mark(own: pd.DataFrame, metric: base.Metric, interval: stats.Estimate) -> str:
    """What a reader must know of a system's mean of primary windows; empty: nothing."""
    if not interval.n and interval.reason != UNABLE:
        if metric.name in costs.OF_OPEN_SCOPE:
            return NO_OPEN
        return NO_CHANGE if metric.name == base.PRIMARY else NO_ARM
    if metric.name == base.PRIMARY and own["straight_gain"].isna().all():
        return OWN_REPLIES
    return interval.reason or metric.mark


def _ratio(sessions: pd.DataFrame, top: str, bottom: str) -> stats.Estimate:
    """The ratio of the means of two metrics; none for a system whose bottom is too small to lose of."""
    below = sessions[bottom].astype(float)
    if below.mean() < gain.ABLE:  # not so where no scenario has a straight user
        return stats.Estimate.unknown(reason=UNABLE)
    return stats.ratio_interval(sessions[top].astype(float), below)


def with_judges(table: pd.DataFrame, judged: pd.DataFrame, sessions: pd.DataFrame) -> pd.DataFrame:
    """The model metrics with a row for each system and construct of judges (``judge.headline``) behind them.
    A system that no judge read has null means; ``mark`` says where only judges of its own family did.
    """
    means = judged.rename(columns={"construct": "metric", "value": "mean"}).drop(columns="n_missing")
    sizes = sessions["model"].value_counts()
    names = means["metric"].unique()
    pairs = itertools.product(names, sessions["model"].unique())
    rows = pd.DataFrame(pairs, columns=["metric", "model"]).merge(means, how="left")
    rows["n"] = rows["n"].fillna(0).astype(int)
    rows["n_missing"] = rows["model"].map(sizes) - rows["n"]
    rows["direction"] = [base.get(name).direction for name in rows["metric"]]
    rows["mark"] = rows["own_family"].eq(True).map({True: OWN_FAMILY, False: ""})
    for column in table.columns.difference(rows.columns):
        rows[column] = table[column].iloc[0]
    return pd.concat([table, rows[table.columns]], ignore_index=True)
