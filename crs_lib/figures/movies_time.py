"""Scores in time: over the turns, around the shifts, and the waiting time until recovery."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from crs_lib.figures import style
from crs_lib.figures.base import (
    FIGURES,
    NoDataError,
    chosen,
    convention_of,
    means,
    recovered_by,
    require,
    systems_of,
)
from crs_lib.metrics import base, headlines
from crs_lib.stats import kaplan_meier


@FIGURES.register(
    "score_over_turns",
    place=19,
    study="movies",
    tables=("turns",),
    caption="Mean score by turn and system with 95 % bands, above the share of sessions that shift at that "
    "turn (n = {sessions} sessions and {shifts} shifts per system).",
)
def score_over_turns(turns: pd.DataFrame, *, metrics: Sequence[str] = ()) -> Any:
    """Mean score by turn and system with bands, above the share of sessions that shift there."""
    usual = headlines.shown(convention_of(turns), "score_over_turns", [*turns.columns])
    shown = chosen(metrics, usual[:2] or base.shown_in("score_over_turns"), turns.columns)
    require(turns, ["session_id", "turn", "since_shift", *shown])
    made, axes = style.figure(
        0.9 + 2.1 * len(shown), len(shown) + 1, 1, sharex=True, height_ratios=[*[1.0] * len(shown), 0.3]
    )
    for panel, metric in zip(axes[:, 0], shown, strict=False):
        _lines(panel, means(turns, ["model", "turn"], metric), "turn")
        panel.set_ylabel(style.titled(metric))
    strip = axes[-1, 0]
    share = shift_share(turns)
    strip.bar(share.index, share.to_numpy(), width=0.7, color=style.FAINT)
    strip.set(ylabel="shifts", xlabel="turn", ylim=(0, max(0.1, float(share.max()) * 1.25)))
    strip.locator_params(axis="y", nbins=2)
    strip.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    strip.set_xlim(turns["turn"].min() - 0.6, turns["turn"].max() + 0.6)
    strip.xaxis.get_major_locator().set_params(integer=True)
    made.align_ylabels()
    style.legend(made, systems_of(turns))
    n = turns["session_id"].nunique()
    words = "Bands: 95 % interval; bars: share of sessions that shift"
    style.note(made, f"{words}; n = {n} sessions per system.")
    return made


def shift_share(turns: pd.DataFrame) -> pd.Series:
    """Share of the sessions in [0, 1] whose user shifts at a turn, by turn; 0 before the first shift."""
    shifts = turns["since_shift"].astype("Float64").eq(0).fillna(False).astype(float)
    return shifts.groupby(turns["turn"]).mean()


def _lines(panel: Any, table: pd.DataFrame, x: str) -> None:
    """A line with markers and a band for each system; undefined points are gaps."""
    order = systems_of(table)
    step = max(1, round(table[x].nunique() / 6))
    for place, (name, look) in enumerate(style.looks(order).items()):
        part = table[table["model"] == name].sort_values(x)
        at = part[x].to_numpy(dtype=float)
        panel.fill_between(at, part["low"], part["high"], color=look.colour, alpha=0.15, linewidth=0)
        panel.plot(
            at, part["mean"], color=look.colour, linestyle=look.line, marker=look.marker,
            markersize=look.size, markevery=(place % step, step),
        )  # fmt: skip
    panel.axhline(0, color=style.FAINT, linewidth=0.6, zorder=0)
    panel.grid(axis="y")


def around_shifts(turns: pd.DataFrame, before: int, after: int) -> pd.DataFrame:
    """The turns within ``before`` and ``after`` of a shift, with their ``offset`` to it; 0 is the shift.

    A turn after a shift belongs to that shift until the next one; the last ``before`` turns ahead of a
    shift, never across an earlier one, belong to the coming shift as well.
    """
    frame = turns.sort_values(["model", "session_id", "turn"], kind="stable").reset_index(drop=True)
    since = frame["since_shift"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    shift_turn = frame["turn"].where(since == 0)
    ahead = shift_turn.groupby([frame["model"], frame["session_id"]]).bfill() - frame["turn"]
    coming = (ahead >= 1) & (ahead <= before) & (since != 0)
    following = (since >= 0) & (since <= after)
    return pd.concat(
        [frame[coming].assign(offset=-ahead[coming]), frame[following].assign(offset=since[following])],
        ignore_index=True,
    ).astype({"offset": int})


@FIGURES.register(
    "score_around_shifts",
    place=20,
    study="movies",
    tables=("turns",),
    caption="Mean score by system before and after a change of constraints, with 95 % bands ({shifts} shifts "
    "in n = {sessions} sessions per system, sessions resampled).",
)
def score_around_shifts(
    turns: pd.DataFrame, *, metrics: Sequence[str] = (), before: int = 3, after: int = 4
) -> Any:
    """Mean score by system from three turns before a shift to four after it."""
    usual = headlines.shown(convention_of(turns), "score_around_shifts", [*turns.columns])
    shown = chosen(metrics, usual[:2] or base.shown_in("score_around_shifts"), turns.columns)
    require(turns, ["session_id", "turn", "since_shift", *shown])
    near = around_shifts(turns, before, after)
    if near.empty:
        raise NoDataError("no shift in these sessions; there is nothing to align")
    made, axes = style.figure(3.3, 1, len(shown))
    for panel, metric in zip(axes[0], shown, strict=True):
        _lines(panel, means(near, ["model", "offset"], metric), "offset")
        panel.axvline(-0.5, color=style.INK, linewidth=0.8, linestyle=(0, (2, 2)))
        panel.set_title(style.titled(metric))
        names = [f"{k:+d}".replace("-", "−") if k else "shift" for k in range(-before, after + 1)]
        panel.set_xticks(range(-before, after + 1), names)
    axes[0][0].set_ylabel("mean score")
    for panel in axes[0]:
        panel.set_xlabel("turns since the shift")
    style.legend(made, systems_of(turns))
    shifts = int((near["offset"] == 0).sum()) // len(systems_of(turns))
    n = turns["session_id"].nunique()
    style.note(made, f"Bands: 95 % interval; {shifts} shifts in n = {n} sessions per system.")
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


@FIGURES.register(
    "recovery_curves",
    place=21,
    study="movies",
    tables=("shifts",),
    caption="Cumulative incidence of recovery ({recovered}) by the number of replies, 1 − Kaplan–Meier with "
    "95 % log–log bands ({shifts} shifts in n = {sessions} sessions per system, censored at the next shift).",
)
def recovery_curves(shifts: pd.DataFrame, *, kind: str = "") -> Any:
    """Share of shifts recovered by the number of replies, with the shifts still waiting below."""
    kind = kind or recovered_by(shifts)
    require(shifts, ["session_id", "watched", f"delay_{kind}"])
    times = waiting(shifts, kind)
    order = systems_of(shifts)
    last = int(times["time"].max())
    below = 0.18 * len(order)
    made, axes = style.figure(3.3 + below, 2, 1, sharex=True, height_ratios=[2.2, below])
    upper, lower = axes[:, 0]
    curves = kaplan_meier(times)
    for name, look in style.looks(order).items():
        part = curves[curves["system"] == name].drop_duplicates("time", keep="last")
        end = followed(times.loc[times["system"] == name, "time"])
        part = part[part["time"] <= end]
        at = np.append(part["time"], end + 0.45)
        share, low, high = (
            1 - np.append(part[c], part[c].iloc[-1]).astype(float) for c in ("survival", "low", "high")
        )
        upper.fill_between(at, high, low, step="post", color=look.colour, alpha=0.15, linewidth=0)
        upper.step(at, share, where="post", color=look.colour, linestyle=look.line)
        upper.plot(
            part["time"], 1 - part["survival"], look.marker, color=look.colour, ms=look.size, clip_on=False
        )
    upper.set(ylabel="cumulative incidence", ylim=(-0.03, 1.03), xlim=(-0.3, last + 0.45))
    upper.grid(axis="y")
    _waiting_table(lower, times, order, last)
    style.legend(made, order)
    note = f"{len(shifts) // len(order)} shifts in {shifts['session_id'].nunique()} sessions per system."
    style.note(
        made,
        f"Reply 0 answers the shift; bands: 95 % interval; curves end where fewer than {_FEWEST} shifts "
        f"are at risk; {note}",
    )
    return made


_FEWEST = 10  # shifts at risk below which a curve ends


def followed(times: pd.Series) -> float:
    """The last reply, 0 or more, before which ten shifts (all, where there are fewer) are at risk."""
    return float(times.nlargest(min(_FEWEST, len(times))).min())


_ROOM = 100  # characters across the panel


def _waiting_table(panel: Any, times: pd.DataFrame, order: Sequence[str], last: int) -> None:
    step = max(1, -(-(last + 1) * (1 + len(str(len(times)))) // _ROOM))  # numbers that do not touch
    for place, name in enumerate(order):
        mine = times.loc[times["system"] == name, "time"]
        for at in range(0, last + 1, step):
            number = f"{int((mine >= at).sum())}"
            panel.text(at, place, number, ha="center", va="center", fontsize=style.SMALL)
    panel.set_yticks(range(len(order)), style.labels(order))
    panel.set(ylim=(len(order) - 0.4, -0.6), xlabel="replies since the shift")
    panel.set_title("at risk: shifts not yet recovered before the reply", loc="left", fontsize=style.SMALL)
    panel.set_xticks(range(0, last + 1, step))
    panel.tick_params(axis="both", length=0)
    for side in panel.spines.values():
        side.set_visible(False)
