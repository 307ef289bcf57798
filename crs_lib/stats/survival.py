"""Time to recovery as a right-censored time: curves and hazard ratios."""

import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.stats.bootstrap import bootstrap_estimates
from crs_lib.stats.design import USUAL, Design, Floats, check_columns, check_pairs, levels, numbers

_ENDLESS = 100.0  # a log hazard ratio with a larger error is on its way to infinity
_STEPS = ["time", "at_risk", "events", "survival", "low", "high"]
_EXACT = 1e-9  # an error so small: every one recovers at once


class _Times(NamedTuple):
    """The rows with a time and an event: the number of their system, time, event; and who lacked either."""

    systems: list[Any]
    code: NDArray[np.intp]
    time: Floats
    event: Floats
    rows: pd.DataFrame
    missing: NDArray[np.intp]


def _times(frame: pd.DataFrame, *columns: str) -> _Times:
    """The columns are the system's and what else must be there."""
    check_columns(frame, *columns, "time", "event")
    systems = levels(frame[columns[0]])
    if not systems:
        raise InputError("the frame has no rows; give at least one shift")
    code = pd.Index(systems).get_indexer(frame[columns[0]])
    time = numbers(frame, "time")
    event = numbers(frame, "event")
    present = ~(np.isnan(time) | np.isnan(event))
    if (time[present] < 0).any():
        raise InputError("'time' has negative times; count from the shift, so at least 0")
    if not np.isin(event[present], (0.0, 1.0)).all():
        raise InputError("'event' must be true (it happened) or false (censored)")
    missing = np.bincount(code[~present], minlength=len(systems))
    return _Times(systems, code[present], time[present], event[present], frame[present], missing)


def kaplan_meier(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Share still waiting after each time, by system.

    Parameters
    ----------
    frame : DataFrame
        A row a shift: the system, ``time`` >= 0 in replies, and ``event``, false where the time was censored.
    design : Design
        Its system and confidence.

    Returns
    -------
    DataFrame
        A row for time 0 and each event time: ``system``, ``time``, ``at_risk``, ``events``, ``survival`` in
        [0, 1] with its log-log interval ([1, 1] before the first event, NaN at a share of 0), ``n``,
        ``n_missing``.

    Raises
    ------
    InputError
        For negative times or another event.

    References
    ----------
    Kaplan and Meier (1958), JASA 53; interval: Kalbfleisch and Prentice (2002), section 1.4.
    """
    z = float(scipy.stats.norm.ppf(design.upper))
    times = _times(frame, design.system)
    parts = []
    for k, name in enumerate(times.systems):
        own = times.code == k
        if own.any():
            curve = _curve(times.time[own], times.event[own], z)
            curve.insert(0, "system", name)
            parts.append(curve.assign(n=own.sum(), n_missing=times.missing[k]))
    if parts:
        return pd.concat(parts, ignore_index=True)
    return pd.DataFrame(columns=["system", *_STEPS, "n", "n_missing"])


def _curve(time: Floats, event: Floats, z: float) -> pd.DataFrame:
    """The steps of one system: everyone waits at time 0."""
    start = pd.DataFrame([(0.0, len(time), 0, 1.0, 1.0, 1.0)], columns=_STEPS)
    if not event.any():
        return start
    from statsmodels.duration.survfunc import SurvfuncRight

    curve = SurvfuncRight(time, event)
    share = np.asarray(curve.surv_prob)
    error = np.asarray(curve.surv_prob_se)
    with np.errstate(divide="ignore", invalid="ignore"):
        swing = np.exp(z * error / (share * np.log(share)))
        low, high = share ** (1 / swing), share**swing
    steps = pd.DataFrame({"time": curve.surv_times})
    steps["at_risk"] = np.asarray(curve.n_risk).astype(int)
    steps["events"] = np.asarray(curve.n_events).astype(int)
    steps["survival"] = share
    steps["low"] = low
    steps["high"] = high
    return pd.concat([start, steps], ignore_index=True)


def net_incidence(frame: pd.DataFrame, design: Design = USUAL, *, time: str = "time") -> pd.DataFrame:
    """Cumulative incidence beyond chance, at most 1, by system and discrete time; a row each.

    A row of the frame is a case at risk at a whole ``time``, whether the ``event`` happened and how probable
    (``expected``) it was by chance. 1 − S/E, S the product of 1 − events/at risk, E of 1 − mean ``expected``:
    0 is chance, 1 everyone. Percentile interval over scenarios. Raises InputError for a time that is no whole
    number from 0 on. Source: Ederer, Axtell and Cutler (1961), NCI Monograph 6.
    """
    columns = [time, "event", "expected"]
    check_columns(frame, design.system, design.scenario, *columns)
    values = np.column_stack([numbers(frame, name) for name in columns])
    complete = ~np.isnan(values).any(axis=1)
    cases = frame.loc[complete, [design.system, design.scenario]]
    values = values[complete]
    replies = values[:, 0]
    if (replies < 0).any() or (replies != np.floor(replies)).any():
        raise InputError(f"{time!r} must hold whole numbers from 0 on: the reply that a case is at risk at")
    parts = []
    for name in levels(frame[design.system]):
        own = (cases[design.system] == name).to_numpy()
        if own.any():
            incidence = _net_incidence(values[own], cases[design.scenario].to_numpy()[own], design)
            incidence.insert(0, "system", name)
            parts.append(incidence.assign(n_missing=len(frame) - len(values)))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _net_incidence(cases: Floats, scenarios: NDArray[Any], design: Design) -> pd.DataFrame:
    """The incidence of one system; ``cases`` are reply, event and expected, by row."""
    cluster, names = pd.factorize(scenarios)
    reply = cases[:, 0].astype(int)
    sums = np.zeros((3, len(names), reply.max() + 1))  # at risk, events, expected
    np.add.at(sums[0], (cluster, reply), 1.0)
    np.add.at(sums[1], (cluster, reply), cases[:, 1])
    np.add.at(sums[2], (cluster, reply), cases[:, 2])
    intervals = bootstrap_estimates(partial(_net, sums), len(names), design, method="percentile")
    at_risk = sums[0].sum(axis=0).astype(int)
    table = pd.DataFrame({"time": range(len(at_risk)), "at_risk": at_risk})
    table["events"] = sums[1].sum(axis=0).astype(int)
    table["incidence"] = intervals.estimate
    table["low"] = intervals.low
    table["high"] = intervals.high
    return table.assign(n=at_risk[0])


def _net(sums: Floats, weights: Floats) -> Floats:
    """1 − S/E by draw and time; ``sums`` are at risk, events and expected events by cluster and time."""
    risk, events, expected = weights @ sums[0], weights @ sums[1], weights @ sums[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        waiting = np.cumprod(1 - events / risk, axis=1)
        left = waiting / np.cumprod(1 - expected / risk, axis=1)
    return np.where(np.isfinite(left), 1 - left, np.nan)


class _Ratio(NamedTuple):
    """A hazard ratio with its interval and p; NaN where it is not finite."""

    estimate: float = np.nan
    low: float = np.nan
    high: float = np.nan
    p: float = np.nan


def hazard_ratios(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Hazard ratio >= 0 of ``a`` against ``b`` (above 1, ``a`` recovers sooner), a row a pair.

    Cox model with Efron's ties, errors robust to both having met the same scenarios. NaN where it is not
    finite; no interval where every one recovers at once. Raises InputError for unknown systems or as
    :func:`kaplan_meier`. Source: Cox (1972), JRSS B 34; Lin and Wei (1989), JASA 84 (robust); the fit is
    statsmodels' PHReg.
    """
    times = _times(frame, design.system, design.scenario)
    z = float(scipy.stats.norm.ppf(design.upper))
    rows = []
    for i, j in check_pairs(times.systems, design.pairs):
        own = (times.code == i) | (times.code == j)
        time, event = times.time[own], times.event[own]
        first = (times.code[own] == i).astype(float)
        events_a = int((event * first).sum())
        events_b = int(event.sum()) - events_a
        ratio = _Ratio()
        if min(events_a, events_b) > 0:
            clusters = pd.factorize(times.rows[design.scenario][own])[0]
            ratio = _hazard_ratio(time, event, first, clusters, z)
        row = {"a": times.systems[i], "b": times.systems[j], "effect": "hazard_ratio"}
        row.update(ratio._asdict(), events_a=events_a, events_b=events_b, n=own.sum())
        row["n_missing"] = times.missing[i] + times.missing[j]
        rows.append(row)
    return pd.DataFrame(rows)


def _hazard_ratio(time: Floats, event: Floats, first: Floats, clusters: NDArray[np.intp], z: float) -> _Ratio:
    from statsmodels.duration.hazard_regression import PHReg

    with warnings.catch_warnings(action="ignore"):
        fit = PHReg(time, first, status=event, ties="efron").fit()
    log, naive = float(fit.params[0]), float(fit.bse[0])
    if not naive < _ENDLESS:
        return _Ratio()
    sums = np.bincount(clusters, weights=_score_residuals(time, event, first, log))
    error = naive**2 * float(np.sqrt((sums**2).sum()))
    if error <= _EXACT:
        return _Ratio(np.exp(log))
    p = float(2 * scipy.stats.norm.sf(abs(log) / error))
    low, ratio, high = np.exp([log - z * error, log, log + z * error])
    return _Ratio(ratio, low, high, p)


def _score_residuals(time: Floats, event: Floats, x: Floats, log: float) -> Floats:
    """What each row adds to the score of a Cox model with one covariate and Efron's ties.

    Of d events at one time the l-th leaves (1 - l / d) of each of them at risk. (statsmodels takes Breslow's,
    far too small with many ties.) Source: Therneau and Grambsch (2000), Modeling Survival Data, section 7.2.
    """
    residuals = np.zeros(len(time))
    hazard = np.exp(log * x)
    weighted = hazard * x
    for at in np.unique(time[event > 0]):
        risk = time >= at
        tied = (event > 0) & (time == at)
        gone = np.arange(tied.sum()) / tied.sum()
        total = hazard[risk].sum() - gone * hazard[tied].sum()
        mean = (weighted[risk].sum() - gone * weighted[tied].sum()) / total
        left = np.where(tied[:, None], 1 - gone, 1.0) * hazard[:, None]
        gap = x[:, None] - mean
        expected = (left * gap / total).sum(axis=1)
        residuals += tied * gap.mean(axis=1) - risk * expected
    return residuals
