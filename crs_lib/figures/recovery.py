"""Scores in time: over the turns, around the shifts, and the waiting time until recovery."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import NoDataError, figure, means, recovered_by, require, shown_in, systems_of
from crs_lib.stats import Design, kaplan_meier
from crs_lib.stats.survival import net_incidence

_FIRST = 2  # metrics that are shown in time


@figure()
def score_over_turns(turns: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Mean score by turn and system with bands, above the share of sessions that shift there."""
    shown = shown_in("score_over_turns", turns, metrics)[: len(metrics) or _FIRST]
    require(turns, ["session_id", "turn", "since_shift", *shown])
    ratios = {"sharex": True, "height_ratios": [*[1.0] * len(shown), 0.3]}
    made, axes = style.figure(0.9 + 2.1 * len(shown), len(shown) + 1, 1, **ratios)
    for panel, metric in zip(axes[:, 0], shown, strict=False):
        _lines(panel, means(turns, ["model", "turn"], metric), "turn")
        panel.set_ylabel(style.titled(metric))
    strip, share = axes[-1, 0], _shift_share(turns)
    strip.bar(share.index, share.to_numpy(), width=0.7, color=style.FAINT)
    strip.set(ylabel="shifts", xlabel="turn", ylim=(0, max(0.1, float(share.max()) * 1.25)))
    strip.locator_params(axis="y", nbins=2)
    strip.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    strip.set_xlim(turns["turn"].min() - 0.6, turns["turn"].max() + 0.6)
    strip.xaxis.get_major_locator().set_params(integer=True)
    made.align_ylabels()
    style.legend(made, systems_of(turns))
    return made


def _shift_share(turns: pd.DataFrame) -> pd.Series:
    """Share of the sessions in [0, 1] whose user shifts at a turn, by turn; 0 before the first shift."""
    shifts = turns["since_shift"].astype("Float64").eq(0).fillna(False).astype(float)
    return shifts.groupby(turns["turn"]).mean()


def _lines(panel: Any, table: pd.DataFrame, x: str) -> None:
    """A line with markers and a band for each system; undefined points are gaps."""
    step = max(1, round(table[x].nunique() / 6))
    for place, (name, look) in enumerate(style.looks(systems_of(table)).items()):
        part = table[table["model"] == name].sort_values(x)
        style.band(panel, part[x].to_numpy(dtype=float), part, look, markevery=(place % step, step))
    panel.axhline(0, color=style.FAINT, linewidth=0.6, zorder=0)
    panel.grid(axis="y")


def _around_shifts(turns: pd.DataFrame, before: int, after: int) -> pd.DataFrame:
    """The turns within ``before`` and ``after`` of a shift, with their ``offset`` to it; 0 is the shift.

    A turn after a shift belongs to that shift until the next one; the last ``before`` turns ahead of a
    shift, never across an earlier one, belong to the coming shift as well.
    """
    frame = turns.sort_values(["model", "session_id", "turn"], kind="stable").reset_index(drop=True)
    since = frame["since_shift"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    shift_turn = frame["turn"].where(since == 0)
    ahead = shift_turn.groupby([frame["model"], frame["session_id"]]).bfill() - frame["turn"]
    coming = frame.assign(offset=-ahead)[(ahead >= 1) & (ahead <= before) & (since != 0)]
    following = frame.assign(offset=since)[(since >= 0) & (since <= after)]
    return pd.concat([coming, following], ignore_index=True).astype({"offset": int})


_BEFORE, _AFTER = 3, 4  # turns around a shift


@figure()
def score_around_shifts(turns: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Mean score by system from three turns before a shift to four after it."""
    shown = shown_in("score_around_shifts", turns, metrics)[: len(metrics) or _FIRST]
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


def waiting(shifts: pd.DataFrame, kind: str = "item") -> pd.DataFrame:
    """Each shift as a right-censored time: ``system``, ``time`` in replies, ``event`` (recovered).

    The reply to the shift is 0. A shift watched for w replies without recovery was seen up to reply
    w − 1 and is censored there; one never replied to is left out.
    """
    seen = shifts[shifts["watched"] > 0]
    happened = seen[f"delay_{kind}"].notna()
    time = seen[f"delay_{kind}"].where(happened, seen["watched"] - 1).astype(float)
    return pd.DataFrame({"system": seen["model"], "time": time, "event": happened})


_FEWEST = 10  # shifts at risk below which a curve ends


@figure()
def recovery_curves(shifts: pd.DataFrame) -> Any:
    """Share of shifts recovered by the number of replies, with the shifts still waiting below."""
    kind = recovered_by(shifts)
    require(shifts, ["session_id", "watched", f"delay_{kind}"])
    times, order = waiting(shifts, kind), systems_of(shifts)
    last, below = int(times["time"].max()), 0.18 * len(order)
    made, axes = style.figure(3.3 + below, 2, 1, sharex=True, height_ratios=[2.2, below])
    upper, lower = axes[:, 0]
    curves, counts = kaplan_meier(times), dict[tuple[str, int], int]()
    for name, look in style.looks(order).items():
        mine = times.loc[times["system"] == name, "time"]
        counts |= {(name, at): int((mine >= at).sum()) for at in range(last + 1)}
        part = curves[curves["system"] == name].drop_duplicates("time", keep="last")
        end = _followed(mine)
        part = part[part["time"] <= end]
        ends = part[["survival", "low", "high"]].to_numpy(dtype=float)
        share, low, high = 1 - np.vstack([ends, ends[-1]]).T
        at = np.append(part["time"], end + 0.45)
        upper.fill_between(at, high, low, step="post", color=look.colour, alpha=0.15, linewidth=0)
        upper.step(at, share, where="post", color=look.colour, linestyle=look.line)
        mark: dict[str, Any] = {"color": look.colour, "ms": look.size, "clip_on": False}
        upper.plot(part["time"], 1 - part["survival"], look.marker, **mark)
    upper.set(ylabel="cumulative incidence", ylim=(-0.03, 1.03), xlim=(-0.3, last + 0.45))
    upper.grid(axis="y")
    _waiting_table(lower, counts, order, last)
    style.legend(made, order)
    return made


def _followed(times: pd.Series) -> float:
    """The last reply, 0 or more, before which ten shifts (all, where there are fewer) are at risk."""
    return float(times.nlargest(min(_FEWEST, len(times))).min())


STRATA = ["1 to 9", "10 to 49", "50 and more"]  # films that meet everything


def at_risk(turns: pd.DataFrame, shifts: pd.DataFrame) -> pd.DataFrame:
    """A row for each reply until a shift is recovered by an item, or until the next shift.

    ``reply`` counts from 0, the reply to the shift; ``event`` says whether it recovers the shift,
    ``expected`` how likely a list by chance does, ``answers`` how many films meet everything
    (:data:`STRATA`). NoDataError for tables of an earlier version.
    """
    absent = {"hit_by_chance"} - set(turns) | {"delay_item", "n_answers"} - set(shifts)
    if absent:
        raise NoDataError(f"the run's tables have no {', '.join(sorted(absent))}; evaluate the run anew")
    keys = ["model", "session_id", "turn"]
    after = turns[turns["since_shift"].notna()]
    reply = after["since_shift"].astype(int)
    rows = after[["model", "session_id"]].assign(
        turn=after["turn"] - reply, reply=reply, expected=after["hit_by_chance"]
    )
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
def recovery_by_answers(replies_at_risk: pd.DataFrame) -> Any:
    """Chance-corrected cumulative incidence of recovery, a column for each stratum of answers."""
    risks = require(replies_at_risk, ["session_id", "reply", "event", "expected", "answers", "users"])
    order, last = systems_of(risks), int(risks["reply"].max())
    strata = [name for name in STRATA if (risks["answers"] == name).any()]
    below = 0.18 * len(order)
    shared = {"sharex": True, "sharey": "row", "height_ratios": [2.2, below]}
    made, axes = style.figure(3.3 + below, 2, len(strata), **shared)
    floor = 0.0  # of the lowest interval
    for panel, lower, stratum in zip(*axes, strata, strict=True):
        mine = risks[risks["answers"] == stratum].rename(
            columns={"model": "system", "session_id": "scenario"}
        )
        curves = net_incidence(mine, Design(resamples=1000), time="reply")
        curves = curves[curves["at_risk"] >= _FEWEST]
        floor = min([floor, *curves["low"]])
        _incidences(panel, curves, order)
        panel.set(title=f"{stratum} films", xlim=(-0.4, last + 0.4))
        counts = mine.groupby(["system", "reply"]).size().to_dict()
        _waiting_table(lower, counts, order, last, len(strata))
        lower.set_title("at risk", loc="left", fontsize=style.SMALL)
    ylim = (max(-1.05, min(-0.25, floor - 0.05)), 1.05)
    axes[0][0].set(ylabel="cumulative incidence\nbeyond chance", ylim=ylim)
    style.legend(made, order)
    style.note(
        made,
        f"{risks['users'].iloc[0]}; bands: 95 % intervals, n = {risks['session_id'].nunique()} scenarios; "
        f"curves end where fewer than {_FEWEST} shifts are at risk; 0 is chance.",
    )
    return made


def _incidences(panel: Any, curves: pd.DataFrame, order: Sequence[str]) -> None:
    """A curve for each system; those of a single point stand side by side."""
    counted = curves["system"].value_counts()
    alone = [name for name in order if counted.get(name) == 1]
    step = min(0.16, 0.7 / max(1, len(alone)))
    for name, look in style.looks(order).items():
        part = curves[curves["system"] == name]
        if name in alone:
            times = part["time"] + step * (alone.index(name) - (len(alone) - 1) / 2)
            style.band(panel, times, part, look, "incidence")
            panel.vlines(times, part["low"], part["high"], color=look.colour, linewidth=1)
        elif len(part):
            style.band(panel, part["time"], part, look, "incidence")
    if curves.empty:
        panel.text(0.5, 0.5, "fewer than 10 at risk", transform=panel.transAxes, ha="center")
    panel.axhline(0, color=style.FAINT, linewidth=0.6, zorder=0)
    panel.grid(axis="y")


_ROOM = 100  # characters across the panel


def _waiting_table(
    panel: Any, counts: Mapping[tuple[str, int], int], order: Sequence[str], last: int, panels: int = 1
) -> None:
    """The number at risk by system (rows) and reply (columns)."""
    widest = 1 + len(str(max(counts.values(), default=0)))
    room = _ROOM if panels == 1 else (_ROOM - 30) // panels
    step = max(1, -(-(last + 1) * widest // room))  # numbers that do not touch
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
