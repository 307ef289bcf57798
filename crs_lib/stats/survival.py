"""Time to recovery as a right-censored time: curves and hazard ratios."""

import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from crs_lib.core.errors import InputError
from crs_lib.stats.design import USUAL, Design, Floats, check_columns, check_pairs, levels, numbers
from crs_lib.stats.estimates import bootstrap_estimates

_ENDLESS = 100.0  # a log hazard ratio with a larger error is on its way to infinity


class _Times(NamedTuple):
    systems: list[Any]
    code: NDArray[np.intp]
    time: Floats
    event: Floats
    rows: pd.DataFrame
    missing: NDArray[np.intp]


def _times(frame: pd.DataFrame, system: str, *more: str) -> _Times:
    check_columns(frame, system, "time", "event", *more)
    systems = levels(frame[system])
    if not systems:
        raise InputError("the frame has no rows; give at least one shift")
    code = pd.Index(systems).get_indexer(frame[system])
    when, happened = numbers(frame, "time"), numbers(frame, "event")
    known = ~(np.isnan(when) | np.isnan(happened))
    if (when[known] < 0).any():
        raise InputError("'time' has negative times; count from the shift, so at least 0")
    if not np.isin(happened[known], (0.0, 1.0)).all():
        raise InputError("'event' must be true (it happened) or false (censored)")
    missing = np.bincount(code[~known], minlength=len(systems))
    return _Times(systems, code[known], when[known], happened[known], frame[known], missing)


def kaplan_meier(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Share still waiting after each time, in [0, 1], by system; a row for time 0 and each event time.
    ``event`` is false where the time was censored. The log-log interval is [1, 1] before the first event, NaN
    at a share of 0. Raises InputError for negative times or another event. Source: Kaplan and Meier (1958),
    JASA 53; interval: Kalbfleisch and Prentice (2002), section 1.4.
    """
    from statsmodels.duration.survfunc import SurvfuncRight

    z, data = float(scipy.stats.norm.ppf((1 + design.confidence) / 2)), _times(frame, design.system)
    columns = ["system", "time", "at_risk", "events", "survival", "low", "high", "n", "n_missing"]
    rows: list[Any] = []
    for k, name in enumerate(data.systems):
        mine = data.code == k
        n = int(mine.sum())
        steps: list[Any] = [[0.0, n, 0, 1.0, 1.0, 1.0]] if n else []
        if data.event[mine].any():
            curve = SurvfuncRight(data.time[mine], data.event[mine])
            share, error = np.asarray(curve.surv_prob), np.asarray(curve.surv_prob_se)
            with np.errstate(divide="ignore", invalid="ignore"):
                swing = np.exp(z * error / (share * np.log(share)))
                bounds = share ** (1 / swing), share**swing
            risk, events = (np.asarray(counts).astype(int) for counts in (curve.n_risk, curve.n_events))
            steps += zip(curve.surv_times, risk, events, share, *bounds, strict=True)
        rows += [[name, *step, n, int(data.missing[k])] for step in steps]
    return pd.DataFrame(rows, columns=columns)


def net_incidence(frame: pd.DataFrame, design: Design = USUAL, *, time: str = "time") -> pd.DataFrame:
    """Cumulative incidence beyond chance, at most 1, by system and discrete time; a row each. A row of the
    frame is a case at risk at a whole ``time``, whether the ``event`` happened and how probable
    (``expected``) it was by chance. 1 − S/E, S the product of 1 − events/at risk, E of 1 − mean ``expected``:
    0 is chance, 1 everyone. Percentile interval over scenarios. Raises InputError for a time that is no whole
    number from 0 on. Source: Ederer, Axtell and Cutler (1961), NCI Monograph 6.
    """
    columns = (time, "event", "expected")
    check_columns(frame, design.system, design.scenario, *columns)
    values = [numbers(frame, name) for name in columns]
    known = ~np.isnan(np.column_stack(values)).any(axis=1)
    at, happened, chance = (value[known] for value in values)
    if (at < 0).any() or (at != np.floor(at)).any():
        raise InputError(f"{time!r} must hold whole numbers from 0 on: the reply that a case is at risk at")
    parts = []
    for name in levels(frame[design.system]):
        mine = (frame[design.system] == name).to_numpy()[known]
        if not mine.any():
            continue
        cluster, names = pd.factorize(frame[design.scenario].to_numpy()[known][mine])
        sums = np.zeros((3, len(names), int(at[mine].max()) + 1))
        for part, added in zip(sums, (1.0, happened[mine], chance[mine]), strict=True):
            np.add.at(part, (cluster, at[mine].astype(int)), added)
        found = bootstrap_estimates(partial(_net, sums), len(names), design, method="percentile")
        at_risk, events = sums[:2].sum(axis=1).astype(int)
        rows = {"system": name, "time": range(len(at_risk)), "at_risk": at_risk, "events": events}
        rows |= {"incidence": found.estimate, "low": found.low, "high": found.high}
        parts.append(pd.DataFrame(rows | {"n": at_risk[0], "n_missing": int((~known).sum())}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _net(sums: Floats, weights: Floats) -> Floats:
    """1 − S/E by draw and time; ``sums`` are at risk, events and expected events by cluster and time."""
    with np.errstate(divide="ignore", invalid="ignore"):
        risk, events, expected = (weights @ part for part in sums)
        left = np.cumprod(1 - events / risk, axis=1) / np.cumprod(1 - expected / risk, axis=1)
    return np.where(np.isfinite(left), 1 - left, np.nan)


def hazard_ratios(frame: pd.DataFrame, design: Design = USUAL) -> pd.DataFrame:
    """Hazard ratio >= 0 of ``a`` against ``b`` (above 1, ``a`` recovers sooner), a row a pair: Cox model with
    Efron's ties, errors robust to both having met the same scenarios. NaN where it is not finite; no interval
    where every one recovers at once. Raises InputError for unknown systems or as :func:`kaplan_meier`.
    Source: Cox (1972), JRSS B 34; Lin and Wei (1989), JASA 84 (robust); the fit is statsmodels' PHReg.
    """
    from statsmodels.duration.hazard_regression import PHReg

    z, rows = float(scipy.stats.norm.ppf((1 + design.confidence) / 2)), []
    data = _times(frame, design.system, design.scenario)
    for i, j in check_pairs(data.systems, design.pairs):
        mine = (data.code == i) | (data.code == j)
        time, happened, first = data.time[mine], data.event[mine], (data.code[mine] == i).astype(float)
        events = [int((happened * side).sum()) for side in (first, 1 - first)]
        ratio = low = high = p = np.nan
        if min(events) > 0:
            with warnings.catch_warnings(action="ignore"):
                fit = PHReg(time, first, status=happened, ties="efron").fit()
            log, naive = float(fit.params[0]), float(fit.bse[0])
            clusters = pd.factorize(data.rows[design.scenario][mine])[0]
            sums = np.bincount(clusters, weights=_score_residuals(time, happened, first, log))
            error = naive**2 * float(np.sqrt((sums**2).sum()))
            if naive < _ENDLESS:
                ratio = np.exp(log)
            if naive < _ENDLESS and error > 1e-9:
                low, high = np.exp(log - z * error), np.exp(log + z * error)
                p = float(2 * scipy.stats.norm.sf(abs(log) / error))
        row = {"a": data.systems[i], "b": data.systems[j], "effect": "hazard_ratio", "estimate": ratio}
        row |= {"low": low, "high": high, "p": p, "events_a": events[0], "events_b": events[1]}
        rows.append(row | {"n": int(mine.sum()), "n_missing": int(data.missing[i] + data.missing[j])})
    return pd.DataFrame(rows)


def _score_residuals(time: Floats, event: Floats, x: Floats, log: float) -> Floats:
    """What each row adds to the score of a Cox model with one covariate and Efron's ties: of d events at one
    time the l-th leaves (1 - l / d) of each of them at risk. (statsmodels takes Breslow's, far too small with
    many ties.) Source: Therneau and Grambsch (2000), Modeling Survival Data, section 7.2.
    """
    found, hazard = np.zeros(len(time)), np.exp(log * x)
    for at in np.unique(time[event > 0]):
        risk = time >= at
        tied = (event > 0) & (time == at)
        gone = np.arange(tied.sum()) / tied.sum()
        total = hazard[risk].sum() - gone * hazard[tied].sum()
        mean = ((hazard * x)[risk].sum() - gone * (hazard * x)[tied].sum()) / total
        kept = np.where(tied[:, None], 1 - gone, 1.0) * hazard[:, None]
        gap = x[:, None] - mean
        found += tied * gap.mean(axis=1) - risk * (kept * gap / total).sum(axis=1)
    return found
