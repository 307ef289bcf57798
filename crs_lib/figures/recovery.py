"""Scores in time: around the shifts, and the waiting time until recovery."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, means, recovered_by, require, shown_in, systems_of
from crs_lib.stats import Design, kaplan_meier
from crs_lib.stats.survival import net_incidence

_BEFORE, _AFTER = 3, 4  # turns around a shift
STRATA = ["1 to 9", "10 to 49", "50 and more"]  # films that meet everything
_FEWEST = 10  # shifts at risk below which a curve ends
_LAST = 3  # reply at which recovery is compared with chance
_SHIFT = ["model", "session_id", "turn"]


@figure(metrics=["normalised_gain", "topic_adaptation_score"])
def _score_around_shifts(turns: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Mean score by system from three turns before a shift to four after it.

    Caption: Mean score by system before and after a change of constraints, with 95 % bands ({shifts} shifts
        in n = {sessions} sessions per system, sessions resampled).
    Note: Bands: 95 % interval; {shifts} shifts in n = {sessions} sessions per system.
    """
    shown = shown_in("score_around_shifts", turns, metrics)
    if not metrics:
        shown = shown[:2]
    require(turns, ["session_id", "turn", "since_shift", *shown])
    near = around_shifts(turns, _BEFORE, _AFTER)
    if near.empty:
        raise NoDataError("no shift in these sessions; there is nothing to align")
    offsets = range(-_BEFORE, _AFTER + 1)
    drawing, axes = style.figure(3.3, 1, len(shown))
    for panel, metric in zip(axes[0], shown, strict=True):
        _lines(panel, means(near, ["model", "offset"], metric))
        panel.axvline(-0.5, color=style.INK, linewidth=0.8, linestyle=(0, (2, 2)))
        panel.set_title(style.titled(metric))
        panel.set_xlabel("turns since the shift")
        panel.set_xticks(offsets, list(map(_signed, offsets)))
    axes[0][0].set_ylabel("mean score")
    style.legend(drawing, systems_of(turns))
    return drawing


def _signed(offset: int) -> str:
    """How an axis names a turn by its distance to the shift."""
    return f"{offset:+d}".replace("-", "−") if offset else "shift"


def around_shifts(turns: pd.DataFrame, before: int, after: int) -> pd.DataFrame:
    """The turns ``before`` and ``after`` a shift, up to the next, with their ``offset`` (0: the shift)."""
    ordered = turns.sort_values(_SHIFT, kind="stable").reset_index(drop=True)
    since = ordered["since_shift"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    shift_turn = ordered["turn"].where(since == 0)
    next_shift = shift_turn.groupby([ordered["model"], ordered["session_id"]]).bfill()
    ahead = next_shift - ordered["turn"]
    is_before = (ahead >= 1) & (ahead <= before) & (since != 0)
    is_after = (since >= 0) & (since <= after)
    coming = ordered.assign(offset=-ahead)[is_before]
    following = ordered.assign(offset=since)[is_after]
    return pd.concat([coming, following], ignore_index=True).astype({"offset": int})


def _lines(panel: Any, table: pd.DataFrame) -> None:
    """A line and a band for each system, a little beside one another; undefined points are gaps."""
    looks = style.looks(systems_of(table))
    steps = aside(len(looks))
    for step, (name, look) in zip(steps, looks.items(), strict=True):
        rows = table[table["model"] == name].sort_values("offset")
        x = rows["offset"].to_numpy(dtype=float) + step
        style.band(panel, x, rows, look)
    panel.axhline(0, color=style.FAINT, linewidth=0.6, zorder=0)
    panel.grid(axis="y")


def aside(n_systems: int) -> NDArray[np.float64]:
    """How far each system stands beside a reply, in replies."""
    width = min(0.06 * n_systems, 0.5)
    return np.linspace(-0.5, 0.5, n_systems + 2)[1:-1] * width


def waiting(shifts: pd.DataFrame, kind: str = "item") -> pd.DataFrame:
    """Each answered shift as a right-censored time: ``system``, ``time`` in replies, ``event``."""
    answered = shifts[shifts["watched"] > 0]
    delay = answered[f"delay_{kind}"]
    time = delay.fillna(answered["watched"] - 1).astype(float)
    return pd.DataFrame({"system": answered["model"], "time": time, "event": delay.notna()})


@figure(title="Recovery over time")
def _recovery_curves(shifts: pd.DataFrame) -> Any:
    """Share of shifts recovered by the number of replies, with the shifts still waiting below.

    Caption: Cumulative incidence of recovery ({recovered}) by the number of replies, 1 − Kaplan–Meier with 95
        % log–log bands ({shifts} shifts in n = {sessions} sessions per system, censored at the next shift).
    Note: Reply 0 answers the shift; bands: 95 % interval; curves end where fewer than 10 shifts are at risk;
        {shifts} shifts in {sessions} sessions per system.
    """
    kind = recovered_by(shifts)
    require(shifts, ["session_id", "watched", f"delay_{kind}"])
    times = waiting(shifts, kind)
    order = systems_of(shifts)
    last = int(times["time"].max())
    below = 0.18 * len(order)
    drawing, axes = style.figure(3.3 + below, 2, 1, sharex=True, height_ratios=[2.2, below])
    upper, lower = axes[:, 0]
    curves = kaplan_meier(times)
    looks = style.looks(order)
    for step, name in zip(aside(len(order)), order, strict=True):
        end = followed(times.loc[times["system"] == name, "time"])
        own = (curves["system"] == name) & (curves["time"] <= end)
        curve = curves[own].drop_duplicates("time", keep="last")
        _curve(upper, curve, end, step, looks[name])
    upper.set_ylabel("cumulative incidence")
    upper.set_xlim(-0.3, last + 0.45)
    upper.set_ylim(-0.03, 1.03)
    upper.grid(axis="y")
    _waiting_table(lower, times, order, last)
    style.legend(drawing, order)
    return drawing


def _curve(panel: Any, curve: pd.DataFrame, end: float, step: float, look: style.Look) -> None:
    """One minus the survival of a system, a little aside, with its band; the last value goes on."""
    times = np.append(curve["time"], end + 0.45) + step
    survival = curve[["survival", "low", "high"]].to_numpy(dtype=float)
    share, low, high = 1 - np.vstack([survival, survival[-1]]).T
    panel.fill_between(times, high, low, step="post", color=look.colour, alpha=0.15, linewidth=0)
    panel.step(times, share, where="post", color=look.colour, linestyle=look.line)
    style.mark(panel, times[:-1], share[:-1], look, clip_on=False)


def followed(times: pd.Series) -> float:
    """The last reply, 0 or more, before which ten shifts (all, where there are fewer) are at risk."""
    n_longest = min(_FEWEST, len(times))
    return float(times.nlargest(n_longest).min())


def _waiting_table(panel: Any, times: pd.DataFrame, order: Sequence[str], last: int) -> None:
    """The number at risk by system (rows) and reply (columns)."""
    replies = np.arange(last + 1)
    counts = {}
    for name in order:
        own = times.loc[times["system"] == name, "time"].to_numpy()
        counts[name] = (own[:, None] >= replies).sum(axis=0)
    largest = max(row.max() for row in counts.values())
    widest = 1 + len(str(largest))
    step = max(1, -(-(last + 1) * widest // 100))  # 100 characters across: numbers that do not touch
    shown = replies[::step]
    for height, name in enumerate(order):
        for reply in shown:
            text = str(counts[name][reply])
            panel.text(reply, height, text, ha="center", va="center", fontsize=style.SMALL)
    panel.set_yticks(range(len(order)), style.labels(order))
    panel.set_ylim(len(order) - 0.4, -0.6)
    panel.set_xlabel("replies since the shift")
    panel.set_xticks(shown)
    panel.set_title("at risk: shifts not yet recovered before the reply", loc="left", fontsize=style.SMALL)
    panel.tick_params(axis="both", length=0)
    panel.tick_params(axis="y", pad=2 * widest + 2)  # clear of the first number
    panel.spines[:].set_visible(False)


def at_risk(turns: pd.DataFrame, shifts: pd.DataFrame) -> pd.DataFrame:
    """A row for each reply (from 0) until a shift is recovered by an item, or until the next shift.

    ``event`` says whether it recovers it, ``expected`` how likely a list by chance does, ``answers`` how many
    films meet everything (:data:`STRATA`). NoDataError for tables of an earlier version.
    """
    absent = {"hit_by_chance"} - set(turns) | {"delay_item", "n_answers"} - set(shifts)
    if absent:
        names = ", ".join(sorted(absent))
        raise NoDataError(f"the run's tables have no {names}; evaluate the run anew")
    after = turns[turns["since_shift"].notna()]
    reply = after["since_shift"].astype(int)
    rows = after[["model", "session_id"]].assign(turn=after["turn"] - reply, reply=reply)
    rows["expected"] = after["hit_by_chance"]
    rows = rows.merge(shifts[[*_SHIFT, "delay_item", "n_answers"]], on=_SHIFT)
    rows = rows[~(rows["reply"] > rows["delay_item"])]
    rows["event"] = rows["reply"] == rows["delay_item"]
    n_answers = rows["n_answers"].astype(float)
    rows["answers"] = pd.cut(n_answers, [0, 9, 49, np.inf], labels=STRATA)
    rows = rows[rows["answers"].notna()].astype({"answers": str})
    return rows[[*_SHIFT, "reply", "event", "expected", "answers"]].reset_index(drop=True)


@figure(
    title="Recovery beyond chance",
    made_by="python -m crs_lib run 03_simulate -p run {run} -p arms shift,straight,fresh,calm and "
    "python -m crs_lib run 04_evaluate -p run {run}-calm",
)
def _recovery_by_answers(replies_at_risk: pd.DataFrame) -> Any:
    """Recovery beyond chance by system, a panel for each number of films that answer the shift.

    The estimate is that of the last reply, at most the third, before which ten shifts are at risk.

    Caption: Share of shifts recovered within three replies beyond what a list by chance recovers, by system
        and by the number of films that meet the new constraints, with 95 % intervals over n = {sessions}
        scenarios.
    """
    risks = require(replies_at_risk, ["session_id", "reply", "event", "expected", "answers", "users"])
    order = systems_of(risks)
    strata = [name for name in STRATA if (risks["answers"] == name).any()]
    columns = {"model": "system", "session_id": "scenario"}
    inches = 0.95 + 0.26 * len(order)
    drawing, axes = style.figure(inches, 1, len(strata), sharey=True)
    for panel, stratum in zip(axes[0], strata, strict=True):
        rows = risks[risks["answers"] == stratum].rename(columns=columns)
        _beyond_chance(panel, rows, order)
        style.across(panel, f"{stratum} films", 4)
    style.name_rows(axes, style.labels(order))
    n = risks["session_id"].nunique()
    users = f"{risks['users'].iloc[0]}; lines: 95 % intervals, n = {n} scenarios"
    marks = f"beside a panel: shifts; ◂: below −1; no mark: fewer than {_FEWEST} shifts; 0 is chance."
    style.note(drawing, f"{users}; {marks}")
    return drawing


def _beyond_chance(panel: Any, rows: pd.DataFrame, order: Sequence[str]) -> None:
    """The last estimate of each system with its interval; an arrow where it lies below the scale."""
    n_shifts = rows[rows["reply"] == 0].groupby("system").size()
    curves = net_incidence(rows, Design(resamples=1000), time="reply")
    curves = curves[(curves["at_risk"] >= _FEWEST) & (curves["time"] <= _LAST)]
    last = curves.groupby("system").tail(1).set_index("system")
    ends = last.rename(columns={"incidence": "mean"})
    for height, (name, look) in enumerate(style.looks(order).items()):
        style.beside(panel, height, f"{n_shifts.get(name, 0)}")
        if name not in ends.index:
            continue
        row = ends.loc[name]
        style.estimate(panel, height, row, look)
        if row["mean"] < -1:
            style.mark(panel, -1, height, look, marker="<")
    style.zero(panel, zorder=0)
    panel.set_xlim(-1.1, 1.1)
