"""Scores in time: around the shifts, and the waiting time until recovery."""

from collections.abc import Mapping, Sequence
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


def _around_shifts(turns: pd.DataFrame, before: int, after: int) -> pd.DataFrame:
    """The turns ``before`` and ``after`` a shift, up to the next, with their ``offset`` (0: the shift)."""
    frame = turns.sort_values(["model", "session_id", "turn"], kind="stable").reset_index(drop=True)
    since = frame["since_shift"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    shift_turn = frame["turn"].where(since == 0)
    ahead = shift_turn.groupby([frame["model"], frame["session_id"]]).bfill() - frame["turn"]
    coming = frame.assign(offset=-ahead)[(ahead >= 1) & (ahead <= before) & (since != 0)]
    following = frame.assign(offset=since)[(since >= 0) & (since <= after)]
    return pd.concat([coming, following], ignore_index=True).astype({"offset": int})


@figure()
def _score_around_shifts(turns: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Mean score by system from three turns before a shift to four after it."""
    shown = shown_in("score_around_shifts", turns, metrics)[: len(metrics) or 2]
    require(turns, ["session_id", "turn", "since_shift", *shown])
    near = _around_shifts(turns, _BEFORE, _AFTER)
    if near.empty:
        raise NoDataError("no shift in these sessions; there is nothing to align")
    made, axes = style.figure(3.3, 1, len(shown))
    names = [f"{k:+d}".replace("-", "−") if k else "shift" for k in range(-_BEFORE, _AFTER + 1)]
    for panel, metric in zip(axes[0], shown, strict=True):
        _lines(panel, means(near, ["model", "offset"], metric), "offset")
        panel.axvline(-0.5, color=style.INK, linewidth=0.8, linestyle=(0, (2, 2)))
        panel.set(title=style.titled(metric), xlabel="turns since the shift")
        panel.set_xticks(range(-_BEFORE, _AFTER + 1), names)
    axes[0][0].set_ylabel("mean score")
    style.legend(made, systems_of(turns))
    return made


def _lines(panel: Any, table: pd.DataFrame, x: str) -> None:
    """A line and a band for each system, a little beside one another; undefined points are gaps."""
    looks = style.looks(systems_of(table))
    for aside, (name, look) in zip(_aside(len(looks)), looks.items(), strict=True):
        part = table[table["model"] == name].sort_values(x)
        style.band(panel, part[x].to_numpy(dtype=float) + aside, part, look)
    panel.axhline(0, color=style.FAINT, linewidth=0.6, zorder=0)
    panel.grid(axis="y")


def _aside(systems: int) -> NDArray[np.float64]:
    """How far each system stands beside a reply, in replies."""
    return np.linspace(-0.5, 0.5, systems + 2)[1:-1] * min(0.06 * systems, 0.5)


def waiting(shifts: pd.DataFrame, kind: str = "item") -> pd.DataFrame:
    """Each answered shift as a right-censored time: ``system``, ``time`` in replies, ``event``."""
    seen = shifts[shifts["watched"] > 0]
    happened = seen[f"delay_{kind}"].notna()
    time = seen[f"delay_{kind}"].where(happened, seen["watched"] - 1).astype(float)
    return pd.DataFrame({"system": seen["model"], "time": time, "event": happened})


_FEWEST = 10  # shifts at risk below which a curve ends
_LAST = 3  # reply at which recovery is compared with chance


@figure()
def _recovery_curves(shifts: pd.DataFrame) -> Any:
    """Share of shifts recovered by the number of replies, with the shifts still waiting below."""
    kind = recovered_by(shifts)
    require(shifts, ["session_id", "watched", f"delay_{kind}"])
    times, order = waiting(shifts, kind), systems_of(shifts)
    last, below = int(times["time"].max()), 0.18 * len(order)
    made, axes = style.figure(3.3 + below, 2, 1, sharex=True, height_ratios=[2.2, below])
    upper, lower = axes[:, 0]
    curves, counts = kaplan_meier(times), dict[tuple[str, int], int]()
    for aside, (name, look) in zip(_aside(len(order)), style.looks(order).items(), strict=True):
        mine = times.loc[times["system"] == name, "time"]
        counts |= {(name, at): int((mine >= at).sum()) for at in range(last + 1)}
        part = curves[curves["system"] == name].drop_duplicates("time", keep="last")
        end = _followed(mine)
        part = part[part["time"] <= end]
        ends = part[["survival", "low", "high"]].to_numpy(dtype=float)
        share, low, high = 1 - np.vstack([ends, ends[-1]]).T
        at = np.append(part["time"], end + 0.45) + aside
        upper.fill_between(at, high, low, step="post", color=look.colour, alpha=0.15, linewidth=0)
        upper.step(at, share, where="post", color=look.colour, linestyle=look.line)
        mark: dict[str, Any] = {"color": look.colour, "ms": look.size, "clip_on": False}
        upper.plot(part["time"] + aside, 1 - part["survival"], look.marker, **mark)
    upper.set(ylabel="cumulative incidence", ylim=(-0.03, 1.03), xlim=(-0.3, last + 0.45))
    upper.grid(axis="y")
    _waiting_table(lower, counts, order, last)
    style.legend(made, order)
    return made


def _followed(times: pd.Series) -> float:
    """The last reply, 0 or more, before which ten shifts (all, where there are fewer) are at risk."""
    return float(times.nlargest(min(_FEWEST, len(times))).min())


def at_risk(turns: pd.DataFrame, shifts: pd.DataFrame) -> pd.DataFrame:
    """A row for each reply (from 0) until a shift is recovered by an item, or until the next shift: ``event``
    says whether it recovers it, ``expected`` how likely a list by chance does, ``answers`` how many films
    meet everything (:data:`STRATA`). NoDataError for tables of an earlier version.
    """
    absent = {"hit_by_chance"} - set(turns) | {"delay_item", "n_answers"} - set(shifts)
    if absent:
        raise NoDataError(f"the run's tables have no {', '.join(sorted(absent))}; evaluate the run anew")
    keys = ["model", "session_id", "turn"]
    after = turns[turns["since_shift"].notna()]
    reply = after["since_shift"].astype(int)
    rows = after[["model", "session_id"]].assign(turn=after["turn"] - reply, reply=reply)
    rows = rows.assign(expected=after["hit_by_chance"])
    rows = rows.merge(shifts[[*keys, "delay_item", "n_answers"]], on=keys)
    rows = rows[~(rows["reply"] > rows["delay_item"])]
    answers = pd.cut(rows["n_answers"].astype(float), [0, 9, 49, np.inf], labels=STRATA)
    rows = rows.assign(event=rows["reply"] == rows["delay_item"], answers=answers)
    rows = rows[answers.notna()].astype({"answers": str})
    return rows[[*keys, "reply", "event", "expected", "answers"]].reset_index(drop=True)


@figure(
    made_by="python -m crs_lib run 03_simulate -p run {run} -p arms shift,straight,fresh,calm and "
    "python -m crs_lib run 04_evaluate -p run {run}-calm"
)
def _recovery_by_answers(replies_at_risk: pd.DataFrame) -> Any:
    """Recovery beyond chance by system, a panel for each number of films that answer the shift.
    The estimate is that of the last reply, at most the third, before which ten shifts are at risk.
    """
    risks = require(replies_at_risk, ["session_id", "reply", "event", "expected", "answers", "users"])
    order = systems_of(risks)
    strata = [name for name in STRATA if (risks["answers"] == name).any()]
    risks = risks.rename(columns={"model": "system", "session_id": "scenario"})
    made, axes = style.figure(0.95 + 0.26 * len(order), 1, len(strata), sharey=True)
    for panel, stratum in zip(axes[0], strata, strict=True):
        mine = risks[risks["answers"] == stratum]
        shifts = mine[mine["reply"] == 0].groupby("system").size()
        curves = net_incidence(mine, Design(resamples=1000), time="reply")
        curves = curves[(curves["at_risk"] >= _FEWEST) & (curves["time"] <= _LAST)]
        ends = curves.rename(columns={"incidence": "mean"}).groupby("system").tail(1).set_index("system")
        for place, (name, look) in enumerate(style.looks(order).items()):
            style.beside(panel, place, f"{shifts.get(name, 0)}")
            if name in ends.index:
                style.estimate(panel, place, ends.loc[name], look)
                if ends.loc[name, "mean"] < -1:
                    panel.plot(-1, place, "<", color=look.colour, markersize=look.size)
        panel.axvline(0, color=style.FAINT, linewidth=0.6, zorder=0)
        panel.set_xlim(-1.1, 1.1)
        style.across(panel, f"{stratum} films", 4)
    style.name_rows(made, axes, style.labels(order))
    who = f"{risks['users'].iloc[0]}; lines: 95 % intervals, n = {risks['scenario'].nunique()} scenarios"
    marks = f"beside a panel: shifts; ◂: below −1; no mark: fewer than {_FEWEST} shifts; 0 is chance."
    style.note(made, f"{who}; {marks}")
    return made


def _waiting_table(
    panel: Any, counts: Mapping[tuple[str, int], int], order: Sequence[str], last: int
) -> None:
    """The number at risk by system (rows) and reply (columns)."""
    widest = 1 + len(str(max(counts.values(), default=0)))
    step = max(1, -(-(last + 1) * widest // 100))  # 100 characters across: numbers that do not touch
    small: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": style.SMALL}
    for place, name in enumerate(order):
        for at in range(0, last + 1, step):
            panel.text(at, place, f"{counts.get((name, at), 0)}", **small)
    panel.set_yticks(range(len(order)), style.labels(order))
    panel.set(ylim=(len(order) - 0.4, -0.6), xlabel="replies since the shift")
    panel.set_title("at risk: shifts not yet recovered before the reply", loc="left", fontsize=style.SMALL)
    panel.set_xticks(range(0, last + 1, step))
    panel.tick_params(axis="both", length=0)
    panel.tick_params(axis="y", pad=2 * widest + 2)  # clear of the first number
    panel.spines[:].set_visible(False)
